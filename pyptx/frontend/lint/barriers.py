"""Mbarriers of a kernel that it uses and never initialises."""

from __future__ import annotations

from ...diagnostics import Diagnostic
from ...dialects.ptx.mbarrier import MbarrierInit
from ...dialects.ptx.syntax import Address, Operand, Symbol
from ..core.trace import Trace
from ..memory.placing import symbols_of
from ..memory.shared import MbarrierArray

__all__ = ["uninitialised_barriers"]


def uninitialised_barriers(trace: Trace) -> list[Diagnostic]:
    """An error at the first use of each mbarrier that no `mbarrier.init` names.

    Arrays whose address goes into a register are left out: whoever has it may initialise them.
    """
    arrays = {name: a for name, a in trace.allocations.items() if isinstance(a, MbarrierArray)}
    if not arrays:
        return []
    begun: set[tuple[str, int]] = set()
    used: dict[tuple[str, int], int] = {}
    escaped: set[str] = set()
    for shape, place in trace.used.items():
        mentioned = symbols_of(shape.plain_layout)
        if not mentioned:
            continue
        for operand in shape.plain_layout:
            named = _named(operand)
            if named is None:
                escaped.update(name.rstrip("'") for name in symbols_of((operand,)))
            elif named[0] in arrays and shape.instruction is MbarrierInit:
                begun.add(named)
            elif named[0] in arrays:
                used.setdefault(named, place)
    return [
        trace.diagnostic(
            f"mbarrier {name}[{offset // 8}] is used here, and nothing in this kernel initialises it",
            f"one thread: ptx.mbarrier.init(bar[{offset // 8}], count); then ptx.fence.mbarrier_init() and a barrier",
            place,
        )
        for (name, offset), place in used.items()
        if name not in escaped and (name, offset) not in begun
    ]


def _named(operand: Operand) -> tuple[str, int] | None:
    """(variable, bytes after its start) of `[name+8]`; None for other operands."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    offset = operand.offset or operand.base.offset or "0"
    return (operand.base.name, int(offset)) if offset.lstrip("+-").isdigit() else None
