"""Registers in flight: what an asynchronous instruction still writes or reads may only be touched after its wait.

`wgmma.mma_async` and `tcgen05.ld` return at once; their wait has no operands in PTX, so plain SSA would allow a reader
to move above it. Here the wait gets the registers in flight as silent operands (A fragments) and silent ties
(accumulators, load results).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dialects.ptx.attributes import string_attr
from ..dialects.ptx.syntax import Immediate
from .statement import Reg, Shape, Statement

Flight = dict[Reg, bool]
"""Register -> whether the operation in flight writes it."""


def carry(blocks: list[list[Statement]], successors: Sequence[Sequence[int]]) -> None:
    """Rewrite the wait statements of a function in place so that they carry the registers in flight before them."""
    kinds = {
        s[0].instruction.in_flight
        for b in blocks
        for s in b
        if s[0].instruction is not None and s[0].instruction.in_flight
    }
    for kind in sorted(kinds):
        _carry_kind(blocks, successors, kind)


def _carry_kind(blocks: list[list[Statement]], successors: Sequence[Sequence[int]], kind: str) -> None:
    entering: list[Flight] = [{} for _ in blocks]
    work = list(range(len(blocks)))
    queued = set(work)
    while work:
        b = work.pop(0)
        queued.discard(b)
        leaving = _flow(blocks[b], dict(entering[b]), kind, None)
        for s in successors[b]:
            before = len(entering[s]), sum(entering[s].values())
            for reg, written in leaving.items():
                entering[s][reg] = entering[s].get(reg, False) or written
            if (len(entering[s]), sum(entering[s].values())) != before and s not in queued:
                work.append(s)
                queued.add(s)
    for b, block in enumerate(blocks):
        rewritten: list[Statement] = []
        _flow(block, dict(entering[b]), kind, rewritten)
        blocks[b] = rewritten


def _flow(block: list[Statement], flight: Flight, kind: str, rewritten: list[Statement] | None) -> Flight:
    for statement in block:
        shape, regs, lead, line, name = statement
        cls = shape.instruction
        if cls is not None and cls.in_flight == kind:
            for i in shape.written:
                flight[regs[i]] = True
            for i in shape.read:
                if regs[i].register_class not in (
                    "pred",
                    "b64",
                    "u64",
                    "s64",
                ):  # descriptors and predicates are read at issue
                    flight.setdefault(regs[i], False)
        elif cls is not None and cls.waits_for == kind:
            if flight and rewritten is not None:
                ordered = [r for r, written in flight.items() if not written] + [r for r, w in flight.items() if w]
                reads = sum(1 for w in flight.values() if not w)
                statement = (_with_flight(shape, len(regs), reads, len(ordered)), [*regs, *ordered], lead, line, name)
            if _waits_for_all(shape):
                flight = {}
        if rewritten is not None:
            rewritten.append(statement)
    return flight


def _waits_for_all(shape: Shape) -> bool:
    """`wait_group 0` (or a wait without count) leaves nothing in flight."""
    counts = [o.value for o in shape.layout if isinstance(o, Immediate)]
    return not counts or counts[0] == 0


def _with_flight(shape: Shape, own: int, reads: int, total: int) -> Shape:
    carried = shape.copy()
    silent_reads = tuple(range(own, own + reads))
    silent_ties = tuple(range(own + reads, own + total))
    carried.read = (*shape.read, *silent_reads)
    carried.tied = (*shape.tied, *silent_ties)
    carried.written = (*shape.written, *silent_ties)
    carried.properties = {**(shape.properties or {}), "silent": string_attr(f"{reads},{total - reads}")}
    return carried
