"""What is known of a function before it is written readably: who makes and reads each register, the structure of its
branches, the names of its parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from ..dialects.ptx.structure import DeclarationAttr, LabelListOp, VariableOp
from ..dialects.ptx.syntax import Address, Element, Pair, Register, Sum, Symbol, Vector, operand_tokens
from ..frontend.core.operators import COMPARISONS, operator_opcode
from ..frontend.module.arguments import Statement, ends_in_jump, load_type
from ..ssa.builder import FunctionSource
from ..ssa.statement import Kind, Reg, Shape
from . import directives
from .body import BINARY, Body, Line, Shared
from .faithful import FaithfulWriter
from .fragments import Fragments
from .names import string
from .naming import local_name, parameter_name
from .structure import Region, recover

_MANY_PARAMETERS = 8
"""From here on, parameters without names are `*args`."""


class Survey(Body):
    """A function that was looked through."""

    def __init__(self, module: FaithfulWriter, shared: Shared, source: FunctionSource):
        super().__init__(module, shared, source)
        self.load_types: dict[str, str] = {}
        self.results: list[str] = []
        self.silent = 0
        """Statements at the end that are not written: `return value` or nothing says them."""
        self._name_parameters()
        self.fragments = Fragments()
        self.mentioned: dict[Reg, int] = {}
        self.symbol_uses: dict[str, int] = {}
        self.targets: dict[int, int] = {}
        self.tables: dict[tuple[int, str], int | None] = {}
        self.keep: set[int] = set()
        self.label_names: dict[int, str] = {}
        self.explicit: set[int] = set()

    def _name_parameters(self) -> None:
        """All parameters become arguments of the Python function, those in registers among them."""
        in_registers = iter(self.arguments)
        arguments: list[str] = []
        named = [parameter_name(name) for d in self._declarations("params") for name, _ in d.items]
        many = len(named) > _MANY_PARAMETERS and named == [f"arg{i}" for i in range(len(named))]
        many = many and not self.arguments and not self._declarations("returns")
        for which in ("returns", "params"):
            for declared in self._declarations(which):
                for name, tail in declared.items:
                    if declared.space == "reg":
                        arguments.append(next(in_registers))
                        continue
                    if not tail:
                        self.load_types[name] = load_type(declared.type, self.shared.registers)
                    if which == "returns":
                        self.results.append(name)
                    short = parameter_name(name) if which == "params" else "result"
                    if many:
                        self.parameters[name] = f"args[{len(arguments)}]"
                        arguments.append("*args")
                        continue
                    argument = self.names.fresh(short)
                    self.parameters[name] = argument
                    arguments.append(argument)
        self.arguments = arguments if len(set(arguments)) > 1 else arguments[:1]

    def _collect(self) -> None:
        """Statements without register declarations and empty scopes; counts of definitions and uses; branch targets."""
        kept = _scopes_to_keep(self.source.statements)
        labels: dict[tuple[int, str], int] = {}
        wanted: list[tuple[int, str, tuple[int, ...]]] = []
        tables: list[tuple[int, str, tuple[int, ...]]] = []
        stack = [0]
        for statement in self.source.statements:
            shape, regs, _, _, name = statement
            kind = shape.kind
            if kind == Kind.REGISTERS:
                directives.register_call(cast(DeclarationAttr, shape.payload))  # not written, but it must be one
                continue
            if kind in (Kind.OPEN, Kind.CLOSE):
                scope = int(name) if kind == Kind.OPEN else stack.pop()
                if kind == Kind.OPEN:
                    stack.append(scope)
                if scope in kept:
                    self.statements.append(statement)
                continue
            at = len(self.statements)
            self.statements.append(statement)
            for reg in regs:
                self.mentioned.setdefault(reg, at)
            if kind == Kind.LABEL:
                labels[stack[-1], name] = at
            elif kind == Kind.TABLE:
                tables += [(at, label, tuple(stack)) for label in cast("list[str]", shape.payload)]
            elif kind == Kind.TERMINATOR and name and shape.instruction is not None and shape.instruction.jumps:
                wanted.append((at, name, tuple(stack)))
            if shape.instruction is not None:
                self._count(shape, regs)

        def find(name: str, path: tuple[int, ...]) -> int | None:
            return next((labels[s, name] for s in reversed(path) if (s, name) in labels), None)

        self.targets = {at: found for at, name, path in wanted if (found := find(name, path)) is not None}
        self.tables = {(at, name): find(name, path) for at, name, path in tables}
        symbols = self._symbols()
        self._name_variables(symbols)
        mentioned = self.shared.fixed_labels | symbols
        self.keep = {found for found in self.tables.values() if found is not None}
        self.keep |= {at for (_, name), at in labels.items() if name in mentioned}

    def _name_variables(self, mentioned: set[str]) -> None:
        """Python names for the function's variables with mangled names, as far as instructions mention them."""
        declared: list[str] = []
        for shape, _, _, _, _ in self.statements:
            if shape.op_class is VariableOp and isinstance(shape.payload, DeclarationAttr):
                declared += [name for name, _ in shape.payload.items]
        for name in declared:
            short = local_name(name)
            if short != name and name in mentioned and declared.count(name) == 1 and name not in self.shared.symbols:
                self.variables[name] = self.names.fresh(short)

    def _count(self, shape: Shape, regs: Sequence[Reg]) -> None:
        for i in shape.written:
            self.defs[regs[i]] = self.defs.get(regs[i], 0) + 1
        for i in (*shape.read, *((shape.guard,) if shape.guard >= 0 else ())):
            self.uses[regs[i]] = self.uses.get(regs[i], 0) + 1
        for i in shape.tied:
            self.uses[regs[i]] = self.uses.get(regs[i], 0) + 2
        self.namer.observe(shape, regs)
        self.fragments.observe(shape, regs)
        at = 1 if shape.guard >= 0 else 0
        for number, operand in enumerate(shape.layout):
            tokens = list(operand_tokens(operand))
            for token in tokens:
                if token in self.parameters:
                    self.symbol_uses[token] = self.symbol_uses.get(token, 0) + 1
            count = sum(1 for t in tokens if t in ("$", "=", "~"))
            if isinstance(operand, (Element, Sum)):  # a string of PTX names its register, which needs a name
                self.nested_not.update(regs[at : at + count])
            if number and isinstance(operand, Vector) and count == len(operand.elements) > 1:
                self.whole.add(tuple(regs[at : at + count]))
            at += count

    def _symbols(self) -> set[str]:
        """Names that instructions mention as values, not as branch targets."""
        found: set[str] = set()
        seen: set[int] = set()
        for shape, _, _, _, _ in self.statements:
            if id(shape) in seen or shape.instruction is None:
                continue
            seen.add(id(shape))
            for operand in shape.layout:
                found.update(t for t in operand_tokens(operand) if t[0] not in "^$=~")
        return found

    def _structure(self) -> list[Region]:
        self.keep |= {label for at, label in self.targets.items() if label < at and self._leaves(label)}
        branches = [(at, label, self.statements[at][0].guard >= 0) for at, label in self.targets.items()]
        structure = recover(branches, self.keep)
        self.explicit = structure.explicit
        targeted = set(self.targets.values())
        names: set[str] = set()
        for at, (shape, _, _, _, name) in enumerate(self.statements):
            if shape.kind == Kind.LABEL and (at in self.explicit or at not in targeted):
                self.explicit.add(at)
                fresh, number = name, 1
                while fresh in names:
                    fresh, number = f"{name}_{number}", number + 1
                names.add(fresh)
                self.label_names[at] = fresh
        return structure.regions

    def _leaves(self, label: int) -> bool:
        """Whether the function is left right after a label: a branch back to it makes no loop."""
        for shape, _, _, _, _ in self.statements[label + 1 :]:
            if shape.kind == Kind.TERMINATOR:
                return shape.guard < 0 and shape.instruction is not None and shape.instruction.returns
            if shape.kind in (Kind.LABEL, Kind.TABLE):
                return False
        return False

    def _declare_early(self) -> list[Line]:
        """Registers whose first mention is not a plain definition."""
        seen: set[Reg] = set(self.bound)
        early: list[Reg] = []
        for at, (shape, regs, _, _, _) in enumerate(self.statements):
            if shape.instruction is None:
                continue
            fresh = self._fresh_results(shape, regs, seen)
            if fresh and shape.kind == Kind.INSTRUCTION:
                self.makes[at] = fresh
            for reg in regs:
                if reg not in seen:
                    seen.add(reg)
                    if reg not in fresh:
                        early.append(reg)
        found: list[Line] = []
        signed = self._signed(set(early))
        for reg in early:
            name = self.names.fresh(self.namer.updated.get(reg) or {"pred": "p"}.get(reg.register_class, "r"))
            self.expressions[reg] = name
            self.bound.add(reg)
            kind = self.kinds[reg] = signed.get(reg) or self.kind_of(reg.register_class)
            known = "" if kind == self.kind_of(reg.register_class) else f", {string(kind)}"
            found.append(Line(0, f"{name} = new({string(reg.register_class)}{known})"))
            self.shared.used.add("new")
        return found

    def _signed(self, registers: set[Reg]) -> dict[Reg, str]:
        """The signed type of those registers of untyped bits for which more operators of it are instructions here than of
        the unsigned one.
        """
        votes: dict[Reg, int] = {}
        for shape, regs, *_ in self.statements:
            first = (1 if shape.guard >= 0 else 0) + (1 if shape.written else 0)
            if shape.instruction is None or len(regs) <= first or regs[first] not in registers:
                continue
            reg, name = regs[first], ".".join((shape.instruction.opcode, *shape.modifiers))
            votes[reg] = votes.get(reg, 0) + _needs_sign(name, reg.register_class[1:])
        return {
            reg: f"s{reg.register_class[1:]}"
            for reg, vote in votes.items()
            if vote > 0 and reg.register_class[0] == "b"
        }

    def _fresh_results(self, shape: Shape, regs: Sequence[Reg], bound: set[Reg]) -> tuple[Reg, ...]:
        """The registers that `op` may make for this instruction: those of its first operand, all new."""
        if not shape.layout or not shape.written:
            return ()
        first = shape.layout[0]
        at = 1 if shape.guard >= 0 else 0
        if isinstance(first, Register) and not first.member and first.role != "$":
            found = (regs[at],)
        elif (
            isinstance(first, Vector)
            and first.elements
            and all(isinstance(e, Register) and not e.member and e.role != "$" for e in first.elements)
        ):
            found = tuple(regs[at : at + len(first.elements)])
        elif isinstance(first, Pair) and all(
            isinstance(e, Register) and not e.member and e.role != "$" for e in (first.first, first.second)
        ):
            found = tuple(regs[at : at + 2])
        else:
            return ()
        if len(set(found)) != len(found) or any(r in bound for r in found):
            return ()
        others = [r for i, r in enumerate(regs) if not at <= i < at + len(found)]
        if any(r in others for r in found) or self._must_be_exact(shape, tuple(r.register_class for r in regs)):
            return ()
        return found

    def _find_end(self, regions: Sequence[Region]) -> None:
        """How many statements at the end `implicit_ret` and `return value` make."""
        statements = self.statements
        end = len(statements)
        if not ends_in_ret(statements) or any(
            r.start < end <= r.end for r in regions if r.kind != "block" or r.end == end
        ):
            return
        if self._returned() is not None:
            self.silent = 2
            if self.symbol_uses.get(self.results[0]) == 1 and not self.source.outputs and not self.source.inputs:
                self.arguments.remove(self.parameters[self.results[0]])
        elif self.shared.implicit_ret:
            self.silent = 1

    def _returned(self) -> Reg | None:
        """The register that the statement before the last stores as the function's one result."""
        if len(self.results) != 1 or len(self.statements) < 2 or len(self._declarations("returns")) != 1:
            return None
        shape, regs, _, _, _ = self.statements[-2]
        dtype = self.load_types.get(self.results[0])
        match shape.layout:
            case (Address(Symbol(name, ""), "", ()), Register(_, "")) if name == self.results[0] and shape.guard < 0:
                words = (shape.instruction.opcode, *shape.modifiers) if shape.instruction is not None else ()
                if words != ("st", "param", dtype) or self._must_be_exact(shape, tuple(r.register_class for r in regs)):
                    return None
                return regs[0]
            case _:
                return None


@lru_cache(maxsize=4096)
def _needs_sign(name: str, bits: str) -> int:
    """1 for an instruction that an operator is on signed integers alone, -1 on unsigned ones alone, else 0."""
    symbols = (*BINARY, *COMPARISONS.values())
    signed, unsigned = (any(operator_opcode(s, f"{k}{bits}") == name for s in symbols) for k in "su")
    return signed - unsigned


def _scopes_to_keep(statements: Sequence[Statement]) -> set[int]:
    """Scopes that declare more than registers and labels: parameters of calls, variables, prototypes."""
    kept: set[int] = set()
    stack = [0]
    for shape, _, _, _, name in statements:
        if shape.kind == Kind.OPEN:
            stack.append(int(name))
        elif shape.kind == Kind.CLOSE:
            stack.pop()
        elif shape.op_class in (VariableOp, LabelListOp):
            kept.add(stack[-1])
    return kept


def ends_in_ret(statements: Sequence[Statement]) -> bool:
    """Whether a function ends in a `ret` that `implicit_ret` makes."""
    if not statements:
        return False
    shape = statements[-1][0]
    labels = [name for s, _, _, _, name in statements if s.kind == Kind.LABEL]
    last: list[str] = []  # labels right before it: scopes may have others of the same name
    for before, _, _, _, name in reversed(statements[:-1]):
        if before.kind in (Kind.INSTRUCTION, Kind.TERMINATOR):
            break
        last += [name] if before.kind == Kind.LABEL else []
    return (
        shape.instruction is not None
        and shape.instruction.returns
        and not shape.modifiers
        and shape.guard < 0
        and all(labels.count(name) == 1 for name in last)
        and not ends_in_jump(statements[:-1])
    )
