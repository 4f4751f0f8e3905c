"""Module checks that look at more than one op: dominance, registers, scopes and layout, ties. Run on import and after
every
pass.

They do not trust the importer: each recomputes what it needs from the IR. A violation is a `Violation` naming the op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.ptx.instruction import Instruction, silent_registers
from ..dialects.ptx.structure import DeclarationAttr, FallOp, FunctionOp, ModuleOp, RegisterOp, ScopeBeginOp, ScopeEndOp
from ..dialects.ptx.syntax import registers
from ..dialects.ptx.types import RegType
from ..ssa.graph import Dominators, dominance_frontiers
from ..ssa.numbered import numbered
from .cfg import CFG, cfg_of


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule of the IR: which check, what is wrong, at which op, and of which value."""

    check: str
    message: str
    op: Operation
    value: SSAValue | None = None


def check_module(module: ModuleOp) -> list[Violation]:
    """All module checks over all functions."""
    found: list[Violation] = []
    for function in module.functions:
        if function.is_declaration:
            continue
        found += check_function(function, cfg_of(function))
    return found


def check_function(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """All checks of one function that has a body."""
    for check in CHECKS:
        yield from check(function, cfg)


def check_dominance(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """Every operand is defined on every path to its use, and what a branch passes has the type of the block argument."""
    tree = cfg.dominators()
    enter, leave = tree.enter, tree.leave
    where: dict[int, int] = {}  # by id: hashing an SSA value is a Python call
    defined_in = where.get
    for b in tree.preorder:
        low = enter[b]
        for argument in cfg.blocks[b].args:
            where[id(argument)] = b
        for op in cfg.ops[b]:
            for value in op._operands:
                defined = defined_in(id(value))
                if defined != b and (defined is None or not enter[defined] <= low < leave[defined]):
                    yield Violation("dominance", f"{_name(value)} is used where it may not be defined", op)
            for result in op.results:
                where[id(result)] = b
    for block in cfg.blocks:
        yield from _check_branch(block)


def _check_branch(block: Block) -> Iterator[Violation]:
    last = block.last_op
    if last is None:
        return
    passed = sum(len(s.args) for s in last.successors)
    if not passed:
        return
    operands = last.operands[len(last.operands) - passed :]
    position = 0
    for successor in last.successors:
        for argument in successor.args:
            if operands[position].type != argument.type:
                yield Violation(
                    "dominance", f"passes {_name(operands[position])} for the block argument {_name(argument)}", last
                )
            position += 1


def check_registers(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:  # noqa: C901  runs after each pass over every op: a call for each costs too much
    """Every operand still sits in the register its type names: nothing wrote that register in between."""
    by_register: dict[tuple[str, str, int], list[SSAValue]] = {}
    first = by_register.get
    for block, ops in zip(cfg.blocks, cfg.ops, strict=True):
        defined: list[SSAValue] = list(block.args)
        for op in ops:
            if op.results:
                defined += op.results
        for value in defined:
            register = value._type.data  # pyright: ignore
            values = first(register)
            if values is None:
                by_register[register] = [value]
            else:
                values.append(value)
    # only a register that holds several values can lose one
    shared = {id(v) for register, values in by_register.items() if len(values) > 1 and register[1] for v in values}
    if not shared:
        return
    # inside a block the last write is known; what a block reads before it writes must hold on entry
    needed: list[tuple[int, Operation, SSAValue]] = []
    holding: list[Holding] = []
    for b, block in enumerate(cfg.blocks):
        current: dict[tuple[str, str, int], SSAValue] = {}
        for value in block.args:
            if id(value) in shared:
                current[value._type.data] = value  # pyright: ignore
        for op in cfg.ops[b]:
            for value in op._operands:
                if id(value) in shared:
                    holder = current.get(value._type.data)  # pyright: ignore
                    if holder is None:
                        needed.append((b, op, value))
                    elif holder is not value:
                        yield Violation("registers", f"{_name(value)} was overwritten before this use", op, value)
            for value in op.results:
                if id(value) in shared:
                    current[value._type.data] = value  # pyright: ignore
        holding.append(current)
    if needed:
        yield from _check_entries(cfg, needed, holding)


Holding = dict[tuple[str, str, int], SSAValue]
"""Register -> the value in it."""


def _check_entries(
    cfg: CFG, needed: list[tuple[int, Operation, SSAValue]], holding: list[Holding]
) -> Iterator[Violation]:
    """The values needed on entry to a block (by block) are in their registers on every path that leads there.

    `holding` is what each block leaves in the registers. A block takes over what its dominator left, but for the
    registers that are written on a way between the two: it lies on the iterated frontier of those writes. Linear in
    the ops, with one bit per block and register.
    """
    tree = cfg.dominators()
    bits = {register: 1 << i for i, register in enumerate({v._type.data: None for _, _, v in needed})}  # pyright: ignore
    wanted = list(bits)
    at: dict[int, list[tuple[Operation, SSAValue]]] = {}
    for b, op, value in needed:
        at.setdefault(b, []).append((op, value))
    torn = _torn(tree, [sum(bits.get(register, 0) for register in current) for current in holding])
    current: dict[tuple[str, str, int], SSAValue | None] = {}
    undo: list[tuple[tuple[str, str, int], SSAValue | None]] = []
    marks: list[tuple[int, int]] = []  # (block on the path from the root, what was to undo before it)
    for b in tree.preorder:
        while marks and not tree.dominates(marks[-1][0], b):
            while len(undo) > marks[-1][1]:
                register, before = undo.pop()
                current[register] = before
            marks.pop()
        marks.append((b, len(undo)))
        mixed = torn[b]
        while mixed:
            register = wanted[(mixed & -mixed).bit_length() - 1]
            mixed &= mixed - 1
            undo.append((register, current.get(register)))
            current[register] = None
        for op, value in at.get(b, ()):
            if current.get(value._type.data) is not value:  # pyright: ignore
                yield Violation("registers", f"{_name(value)} may have been overwritten before this use", op, value)
        for register, value in holding[b].items():
            if register in bits:
                undo.append((register, current.get(register)))
                current[register] = value


def _torn(tree: Dominators, written: list[int]) -> list[int]:
    """The registers (as bits) that may hold one of several values where a block begins: paths meet there that wrote them."""
    frontiers = dominance_frontiers(tree)
    torn = [0] * len(written)
    work = [b for b in tree.order if written[b] and frontiers[b]]
    while work:
        b = work.pop()
        bits = written[b] | torn[b]
        for meeting in frontiers[b]:
            new = bits & ~torn[meeting]
            if new:
                torn[meeting] |= new
                if frontiers[meeting]:
                    work.append(meeting)
    return torn


def check_scopes(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:  # noqa: C901  runs after each pass over every op: a call for each costs too much
    """A register is named only inside its `{ }` scope, and not where a scope inside that declares the name again;
    fallthrough goes to the next block in layout.
    """
    open_scopes = [0]
    depths = {0: 0}
    declared = _Declared()  # in the open inner scopes, so far
    ordinal = 0
    scoped = any(op.__class__ is ScopeBeginOp for ops in cfg.ops for op in ops)
    for b, ops in enumerate(cfg.ops):
        for op in ops if scoped else ():
            cls = op.__class__
            if cls is ScopeBeginOp:
                ordinal += 1
                depths[ordinal] = len(open_scopes)
                open_scopes.append(ordinal)
                declared.open()
            elif cls is RegisterOp:
                if len(open_scopes) > 1:
                    declared.add(cast(RegisterOp, op).declaration)
            elif cls is ScopeEndOp:
                if len(open_scopes) == 1:
                    yield Violation("scopes", "closes a scope that was not opened", op)
                else:
                    del depths[open_scopes.pop()]
                    declared.close()
            elif "layout" in op.properties:
                for place, value in enumerate((*op._operands, *op.results)):
                    scope = value._type.data[2]  # pyright: ignore
                    if scope == open_scopes[-1]:
                        continue
                    if scope not in depths:
                        if not op.successors:
                            yield Violation("scopes", f"{_name(value)} is used outside its scope", op, value)
                    elif (
                        declared.hides(value, depths[scope])
                        and _is_named(op, place)
                        and "spelling" not in op.attributes  # `%r01` is the range's, whatever hides `%r1`
                    ):
                        message = f"{_name(value)} is used where an inner scope declares a register of that name"
                        yield Violation("scopes", message, op, value)
        if not ops:
            continue
        last = ops[-1]
        falls = isinstance(last, FallOp) or (isinstance(last, Instruction) and last.terminator and last.guard)
        if falls and last.successors:
            following = last.successors[-1]
            if b + 1 >= len(cfg.blocks) or cfg.blocks[b + 1] is not following:
                yield Violation("layout", "falls through to a block that does not come next", last)


class _Declared:
    """The registers that open inner scopes declare: of each name and stem how deep, innermost last."""

    def __init__(self) -> None:
        self._names: dict[str, list[int]] = {}
        self._ranges: dict[str, list[tuple[int, int]]] = {}
        self._open: list[list[DeclarationAttr]] = [[]]

    def open(self) -> None:
        self._open.append([])

    def add(self, declaration: DeclarationAttr) -> None:
        depth = len(self._open) - 1
        self._open[-1].append(declaration)
        for i, (name, tail) in enumerate(declaration.items):
            if tail[:1] == ("<",):
                self._ranges.setdefault(name, []).append((depth, declaration.count(i) or 0))
            else:
                self._names.setdefault(name, []).append(depth)

    def close(self) -> None:
        for declaration in self._open.pop():
            for name, tail in declaration.items:
                (self._ranges if tail[:1] == ("<",) else self._names)[name].pop()

    def hides(self, value: SSAValue, depth: int) -> bool:
        """Whether a scope deeper than that declares a register of the value's name."""
        name = cast(RegType, value.type).register_name
        found = self._names.get(name)
        if found and found[-1] > depth:
            return True
        for stem, number in numbered(name):
            for at, count in reversed(self._ranges.get(stem, ())):
                if at <= depth:
                    break
                if number < count:
                    return True
        return False


def _is_named(op: Operation, place: int) -> bool:
    """Whether the text of an instruction names its operand, or its result (counted after the operands)."""
    instruction = cast(Instruction, op)
    roles = [r.role for r in registers(instruction.layout)]
    reads = roles.count("$")
    if place >= len(op.operands):
        return place - len(op.operands) < len(roles) - reads
    return place < reads or (bool(instruction.guard) and place == reads + silent_registers(instruction)[0])


def check_ties(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """The old value an instruction may leave in a register is that register's: tied operands have the results' types."""
    tied_results: dict[int, list[int]] = {}  # by the identity of the layout attribute, which the op keeps alive
    for ops in cfg.ops:
        for op in ops:
            properties = op.properties
            layout = properties.get("layout")
            if layout is None or not op.results:
                continue
            if "guard" in properties:
                indices: Sequence[int] = range(len(op.results))
            else:
                found = tied_results.get(id(layout))
                if found is None:
                    written = [r.role for r in registers(cast(Instruction, op).layout) if r.role != "$"]
                    found = tied_results[id(layout)] = [i for i, role in enumerate(written) if role == "~"]
                silent = silent_registers(cast(Instruction, op))[1] if "silent" in properties else 0
                indices = [*found, *range(len(op.results) - silent, len(op.results))] if silent else found
                if not indices:
                    continue
            first = len(op.operands) - len(indices)
            for position, index in enumerate(indices, first):
                if op.operands[position].type != op.results[index].type:
                    old, new = _name(op.operands[position]), _name(op.results[index])
                    yield Violation(
                        "ties", f"keeps the value of {old} in {new}: a copy is missing", op, op.results[index]
                    )


CHECKS: tuple[Callable[[FunctionOp, CFG], Iterator[Violation]], ...] = (
    check_dominance,
    check_registers,
    check_scopes,
    check_ties,
)


def _name(value: SSAValue) -> str:
    type_ = cast(RegType, value.type)
    return type_.data[1] or f"a blank .{type_.data[0]} value"
