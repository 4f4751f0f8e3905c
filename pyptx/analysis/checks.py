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
from ..dialects.ptx.structure import FallOp, FunctionOp, ModuleOp, ScopeBeginOp, ScopeEndOp
from ..dialects.ptx.syntax import Layout, registers
from ..dialects.ptx.types import RegType
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
        cfg = cfg_of(function)
        for check in CHECKS:
            found += check(function, cfg)
    return found


def check_dominance(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """Every operand is defined on every path to its use, and what a branch passes has the type of the block argument."""
    tree = cfg.dominators()
    enter, leave = tree.enter, tree.leave
    where: dict[SSAValue, int] = {}
    for b in tree.preorder:
        block = cfg.blocks[b]
        low = enter[b]
        for argument in block.args:
            where[argument] = b
        for op in block.ops:
            for value in op._operands:
                defined = where.get(value)
                if defined is None or (defined != b and not enter[defined] <= low < leave[defined]):
                    yield Violation("dominance", f"{_name(value)} is used where it may not be defined", op)
            for result in op.results:
                where[result] = b
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


def check_registers(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """Every operand still sits in the register its type names: nothing wrote that register in between."""
    by_register: dict[tuple[str, str, int], list[SSAValue]] = {}
    for block in cfg.blocks:
        for value in block.args:
            by_register.setdefault(cast(RegType, value.type).data, []).append(value)
        for op in block.ops:
            for value in op.results:
                by_register.setdefault(cast(RegType, value.type).data, []).append(value)
    bit: dict[SSAValue, int] = {}
    others: dict[SSAValue, int] = {}
    total = 0
    for register, values in by_register.items():
        if len(values) < 2 or not register[1]:
            continue
        group = 0
        for value in values:
            bit[value] = 1 << total
            group |= 1 << total
            total += 1
        for value in values:
            others[value] = ~group
    if not total:
        return
    everything = (1 << total) - 1
    count = len(cfg.blocks)
    needed: list[list[tuple[int, Operation, SSAValue]]] = [[] for _ in range(count)]
    generated, kept = [0] * count, [everything] * count
    for b, block in enumerate(cfg.blocks):
        current: dict[tuple[str, str, int], SSAValue] = {}
        gen, keep = 0, everything
        for value in block.args:
            if value in bit:
                current[cast(RegType, value.type).data] = value
                keep &= others[value]
                gen = (gen & others[value]) | bit[value]
        for op in block.ops:
            for value in op._operands:
                if value not in bit:
                    continue
                holder = current.get(cast(RegType, value.type).data)
                if holder is None:
                    needed[b].append((bit[value], op, value))
                elif holder is not value:
                    yield Violation("registers", f"{_name(value)} was overwritten before this use", op, value)
            for value in op.results:
                if value in bit:
                    current[cast(RegType, value.type).data] = value
                    keep &= others[value]
                    gen = (gen & others[value]) | bit[value]
        generated[b], kept[b] = gen, keep
    tree = cfg.dominators()
    entering = [everything] * count
    entering[0] = 0
    leaving = [generated[b] | (entering[b] & kept[b]) for b in range(count)]
    changed = True
    while changed:
        changed = False
        for b in tree.order[1:]:
            bits = everything
            for p in tree.predecessors[b]:
                if tree.reachable(p):
                    bits &= leaving[p]
            if bits != entering[b]:
                entering[b] = bits
                leaving[b] = generated[b] | (bits & kept[b])
                changed = True
    for b in tree.order:
        for mask, op, value in needed[b]:
            if mask & ~entering[b]:
                yield Violation("registers", f"{_name(value)} may have been overwritten before this use", op, value)


def check_scopes(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """A register of an inner `{ }` scope is named only inside it; fallthrough goes to the next block in layout."""
    open_scopes = [0]
    ordinal = 0
    for b, block in enumerate(cfg.blocks):
        for op in block.ops:
            cls = op.__class__
            if cls is ScopeBeginOp:
                ordinal += 1
                open_scopes.append(ordinal)
            elif cls is ScopeEndOp:
                if len(open_scopes) == 1:
                    yield Violation("scopes", "closes a scope that was not opened", op)
                else:
                    open_scopes.pop()
            elif "layout" in op.properties:
                for value in (*op._operands, *op.results):
                    scope = value._type.data[2]  # pyright: ignore
                    if scope and scope not in open_scopes and not op.successors:
                        yield Violation("scopes", f"{_name(value)} is used outside its scope", op, value)
        last = block.last_op
        if last is None:
            continue
        falls = isinstance(last, FallOp) or (isinstance(last, Instruction) and last.terminator and last.guard)
        if falls and last.successors:
            following = last.successors[-1]
            if b + 1 >= len(cfg.blocks) or cfg.blocks[b + 1] is not following:
                yield Violation("layout", "falls through to a block that does not come next", last)


def check_ties(function: FunctionOp, cfg: CFG) -> Iterator[Violation]:
    """The old value an instruction may leave in a register is that register's: tied operands have the results' types."""
    tied_results: dict[Layout, list[int]] = {}
    for block in cfg.blocks:
        for op in block.ops:
            if not op.results or "layout" not in op.properties:
                continue
            instruction = cast(Instruction, op)
            if instruction.guard:
                indices: Sequence[int] = range(len(op.results))
            else:
                layout = instruction.layout
                found = tied_results.get(layout)
                if found is None:
                    written = [r.role for r in registers(layout) if r.role != "$"]
                    found = tied_results[layout] = [i for i, role in enumerate(written) if role == "~"]
                _, silent = silent_registers(instruction)
                indices = [*found, *range(len(op.results) - silent, len(op.results))] if silent else found
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
