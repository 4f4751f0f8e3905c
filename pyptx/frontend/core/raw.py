"""`ptx.raw`: PTX text read into the trace, by the same reader as PTX files."""

from __future__ import annotations

from ...diagnostics import PTXError
from ...dialects.ptx.structure import EntryOp, RegisterOp, VariableOp
from ...parser.reader import Reader
from ...ssa.builder import FunctionSource
from ...ssa.statement import Environment, Kind, Range
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
    `{ }` blocks that it closes. PTXError for text that is no PTX, or not legal on the kernel's target.
    """
    trace = current()
    place = trace.place()
    reader = Reader(text.rstrip() + "\n}\n")
    source = FunctionSource(EntryOp, {})
    environment = _KnownRegisters(trace)
    reader.function, reader.environment, reader.depth = source, environment, 1
    reader._symbols.update(trace.symbols)
    before = set(environment)
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
    for shape, regs, lead, _, name in source.statements:
        if shape.kind == Kind.LABEL:
            if trace.lead or lead.strip():
                trace.lead += lead
            trace.label(name)
            continue
        shape = shape.copy()
        if not any(gap.strip() for gap in shape.gaps):
            shape.styled = True
        if shape.instruction is not None:
            shape.bare = tuple([r.register_class for r in regs])
            if shape not in trace.used:
                trace.check(shape, place)
        elif shape.op_class is VariableOp:
            trace.symbols.update(n for n, _ in shape.properties["declaration"].items)  # pyright: ignore
        elif shape.op_class is RegisterOp:
            for base, tail in shape.properties["declaration"].items:  # pyright: ignore
                if tail[:1] == ("<",):
                    trace.at_least(base, int(tail[1]))
        if lead.strip():
            trace.lead += lead
        trace.record(shape, regs, place, name)
    for name, reg in environment.items():
        if name not in before and reg.scope == trace.scope:
            trace.names[name] = reg
