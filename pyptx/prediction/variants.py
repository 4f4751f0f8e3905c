"""What a launch would take if one thing were different: CTAs per SM, registers, bank conflicts, copies in flight, the clock, the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..analysis.occupancy import occupancy
from ..diagnostics import PTXError, SimulationError
from . import codes as e
from . import layout as r
from .emulation import Emulated
from .given import several
from .model import DidNotEnd, Model, conclude
from .places import Places
from .result import Prediction, Variant, WhatIf
from .timeline import Timeline

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """How to predict the same launch again."""

    again: Callable[..., Prediction]
    """Takes what is different: `card`, `clock`, `registers`, `kernel`."""
    model: Callable[[], Model | None]
    """None where the kernel is not replayed."""
    clock: float | None
    places: Places

    def timeline(self) -> Timeline:
        try:
            model = self.model()
        except DidNotEnd:
            model = None
        if model is None:
            raise PTXError("a timeline needs a kernel that is replayed to its end, and this one is not")
        return model.timeline()

    def answer(
        self, base: Prediction, cards: str | Sequence[str], clocks: float | Sequence[float], registers: int | Sequence[int], kernels: Any
    ) -> WhatIf:  # fmt: skip
        """The table of variants. Those that cannot be have the reason in place of a prediction."""
        cards = several("cards", cards, str, 'the name of a card, such as "H100 SXM"')
        clocks = several("clocks", clocks, Real, "a number of GHz, such as 1.755")
        registers = several("registers", registers, Integral, "a number of registers, such as 64")
        if not isinstance(kernels, Mapping):
            raise PTXError(
                f'kernels must be kernels by name, such as {{"other": kernel}}, not {type(kernels).__name__}'
            )
        found: list[Variant] = []
        try:
            model = self.model()
        except DidNotEnd:
            model = None
        if model is not None:
            for name, changed in _changed(model):
                found.append(Variant(name, replace(conclude(changed, self.clock, self.places), question=None)))
            registers = registers or _fewer_registers(model)
        elif base.high is not None:
            found.append(Variant("occupancy, stages, bank conflicts", None, "the kernel is not replayed"))
        asked: list[tuple[str, dict[str, Any]]] = [
            *((f"at most {count} registers", {"registers": count}) for count in registers),
            *((f"at {ghz:g} GHz", {"clock": ghz}) for ghz in clocks),
            *((f"on {card}", {"card": card}) for card in cards),
            *((name, {"kernel": kernel}) for name, kernel in kernels.items()),
        ]
        for name, change in asked:
            found.append(_asked(name, self.again, change))
        return WhatIf(replace(base, question=None), tuple(found))


def _asked(name: str, again: Callable[..., Prediction], change: Mapping[str, Any]) -> Variant:
    try:
        return Variant(name, replace(again(**change), question=None))
    except (PTXError, SimulationError) as error:
        return Variant(name, None, str(error).split("\n")[0].removeprefix("error: "))


def _changed(model: Model) -> Iterator[tuple[str, Model]]:
    """The variants that need no other machine code."""
    slots = occupancy(model.card.arch, threads=int(np.prod(model.geometry.block)), registers=1, shared=0).ctas
    for ctas in sorted({model.resident - 1, model.resident + 1, 2 * model.resident}):
        if 1 <= ctas <= slots and min(ctas, model.each) != min(model.resident, model.each):
            changed = copy(model)
            changed.resident = ctas
            yield f"{ctas} {'CTA' if ctas == 1 else 'CTAs'} per SM", changed
    yield from _stages(model)
    if any(_conflicts(part, model.emulator.encoded.code).any() for part in model.traces):
        changed = copy(model)
        changed.traces = [_free_of_conflicts(part, model) for part in model.traces]
        changed.longer = model.longer and [_free_of_conflicts(part, model) for part in model.longer]
        yield "without bank conflicts", changed


def _stages(model: Model) -> Iterator[tuple[str, Model]]:
    """One group of asynchronous copies more or less in flight at each wait of a loop."""
    waits = (model.rows[:, r.KIND] == r.WAIT_GROUPS) & (model.whole.counts[:, 0] > 0)
    often = waits & (model.whole.counts[:, 0] > model.geometry.warps)
    if not often.any():
        return
    for more, name in ((-1, "one stage of copies fewer"), (1, "one stage of copies more")):
        if (model.rows[often, r.GROUPS] + more < 0).any():
            continue
        changed = copy(model)
        changed.rows = model.rows.copy()
        changed.rows[often, r.GROUPS] += more
        yield name, changed


def _least(part: Emulated, code: Any) -> Any:
    """The wavefronts that accesses of shared memory need without conflicts: 128 bytes at a time."""
    return np.maximum(1, code[part.records[:, r.INDEX], e.E_WIDTH] // 4)


def _conflicts(part: Emulated, code: Any) -> Any:
    return (part.records[:, r.ACCESS] == r.SHARED) & (part.records[:, r.WAVEFRONTS] > _least(part, code))


def _free_of_conflicts(part: Emulated, model: Model) -> Emulated:
    code = model.emulator.encoded.code
    chosen, records = _conflicts(part, code), part.records.copy()
    records[chosen, r.WAVEFRONTS] = _least(part, code)[chosen]
    return replace(part, records=records)


def _fewer_registers(model: Model) -> tuple[int, ...]:
    """The most registers with which one more CTA would fit on an SM; none where something else limits, or where code would not fit in them."""
    g = model.geometry
    threads = int(np.prod(g.block))
    for count in range(model.registers - model.registers % 8, 31, -8):
        fit = occupancy(model.card.arch, threads=threads, registers=count, shared=g.shared)
        if fit.ctas > model.resident:
            return (count,)
    return ()
