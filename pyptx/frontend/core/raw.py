"""`ptx.raw`: PTX text read into the trace, by the same reader as PTX files."""

from __future__ import annotations

from collections.abc import Sequence

from ...diagnostics import PTXError
from ...dialects.ptx.structure import DeclarationAttr, EntryOp, RegisterOp, VariableOp
from ...parser.reader import Reader
from ...ssa.builder import FunctionSource
from ...ssa.statement import Environment, Kind, Range, Reg, Shape, Statement
from .trace import Trace, current

__all__ = ["raw"]


class _KnownRegisters(Environment):
    """The registers of the trace, and those that the text declares."""

    def __init__(self, trace: Trace):
        super().__init__()
        for name, reg in trace.names.items():
            self[name] = reg
        self.scope = trace.scope
        self._opened = trace.scope_count
        self._ranges.update(trace.ranges)
        self._bare = any(stem[0] != "%" for stem in trace.ranges)

    @property
    def opened(self) -> int:
        return self._opened

    @property
    def ranges(self) -> dict[str, Range]:
        return self._ranges


def raw(text: str) -> None:
    """Read statements of PTX into the kernel: `ptx.raw("add.u32 %r1, %r0, 1;")`.

    Registers of the kernel go by their names; the text may declare more (visible from then on), place labels and open
    `{ }` blocks that it closes. PTXError for text that is not PTX, or not legal on the kernel's target.
    """
    trace = current()
    place = trace.place()
    environment = _KnownRegisters(trace)
    before = set(environment)
    for shape, regs, lead, _, name in _read(trace, environment, text, place):
        if shape.kind == Kind.LABEL:
            if trace.lead or lead.strip():
                trace.lead += lead
            trace.label(name)
            continue
        if lead.strip():
            trace.lead += lead
        trace.record(_noted(trace, shape, regs, place), regs, place, name)
    for name, reg in environment.items():
        if name not in before and reg.scope == trace.scope:
            trace.names[name] = reg


def _read(trace: Trace, environment: _KnownRegisters, text: str, place: int) -> list[Statement]:
    """The statements of the text. PTXError where it is not PTX or its { } blocks do not match."""
    reader = Reader(text.rstrip() + "\n}\n")
    source = FunctionSource(EntryOp, {})
    reader.function, reader.environment, reader.depth = source, environment, 1
    reader._symbols.update(trace.symbols)
    module = reader.read()
    if any(i.message.startswith("expected a module-level directive") for i in module.issues):
        raise trace.error("the text closes more { } blocks than it opens", at=place)
    if module.issues:
        raise PTXError(
            [trace.diagnostic(f"{i.message} (line {i.line} of the text)", i.hint, place) for i in module.issues]
        )
    if reader.function is not None or not module.items:
        raise trace.error("the text opens a { } block that it does not close", at=place)
    trace.scope_count = environment.opened
    trace.ranges.update(environment.ranges)
    return source.statements


def _noted(trace: Trace, shape: Shape, regs: Sequence[Reg], place: int) -> Shape:
    """A statement's shape as the trace keeps it: an instruction is checked, what a declaration declares is known."""
    shape = shape.copy()
    if not any(gap.strip() for gap in shape.gaps):
        shape.styled = True
    if shape.instruction is not None:
        shape.bare = tuple([r.register_class for r in regs])
        if shape not in trace.used:
            trace.check(shape, place)
        return shape
    declaration = (shape.properties or {}).get("declaration")
    if not isinstance(declaration, DeclarationAttr):
        return shape
    if shape.op_class is VariableOp:
        trace.symbols.update(n for n, _ in declaration.items)
    elif shape.op_class is RegisterOp:
        for base, tail in declaration.items:
            if tail[:1] == ("<",):
                trace.at_least(base, int(tail[1]))
    return shape
