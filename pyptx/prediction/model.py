"""From machine code, a launch and a card to a predicted time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..analysis.occupancy import occupancy
from ..diagnostics import PTXError, SimulationError, counted
from ..sass import Function
from . import codes as e
from . import layout as r
from . import sm
from .bounds import Counted, bound
from .cards import Card
from .emulation import Emulated, Emulator, Geometry, join
from .facts import Fact
from .layout import Stall, Unit
from .loops import Loop, heaviest, loops
from .native import Reals
from .pipes import SUBCORES, WARP, asynchronous, not_replayed, table
from .places import Places, Waits, by_line, by_loop, by_source
from .result import Prediction
from .timeline import Timeline, timeline_of
from .unended import unended

__all__ = ["LAUNCH_US", "predict_function"]

LAUNCH_US = 1.2
"""Between kernels that follow each other (fitted, docs/prediction.md)."""
UNEVEN = 1.2
"""Times the average that the longest CTA executes, from which on the range says so."""
MOST_TRACED = 4_000_000
"""Instructions of warps that the trace of a CTA has at most."""
CUT = 1_000_000
"""Of CTAs that execute more: the first so many are traced, twice as many, and three times as many, in place of `FEW`, `MORE` and `THIRD`."""
STEADY = 1.5, 2.5
"""Times as many instructions that a warp executes in a trace of twice the length, where all warps go on at the same time."""
NOT_SEEN = 1.1
"""What the range adds where the traces were cut: the end of a CTA, such as its stores, may not be in them (assumed)."""
LOGGED = 400_000
"""Instructions of warps that a timeline has at most."""
BUDGET = 400_000
"""Instructions of warps that one replay should have at most."""
ASYNCHRONOUS_BUDGET = 1_000_000
"""Of kernels whose warps wait for copies: they are cut in time, not in iterations of a loop, since their warps are in different loops."""
FEW, MORE = 6, 12
"""Iterations of a loop that is shortened: two replays and a line through them."""
THIRD = 18
"""And those of a replay that says how good the line is."""
KEPT_BY_L2 = 1.0
"""A working set of this share of L2 stays there between launches (fitted: elementwise row of L20 with 96 MiB; the prediction's range has both
where it is near).
"""
NEAR_L2 = 0.7, 1.4
LOADED_MS, LOADED_SHARE = 2.5, 0.15
MODEL_ERROR = 0.88, 1.25
"""What the range adds for the model itself (the errors of docs/prediction.md, most of which are too small times)."""
LIMITED_MS = 1.0
"""The power limit lowers the clock of kernels that take longer."""
COPY_LATENCY = Fact(250, "HOP and MBB: tensor copies against loads", "derived", 0.3)
COPY_INTERVAL = Fact(16, "NONE", "assumed", 0.5)
WAKE = Fact(30, "NONE", "assumed", 0.5)
"""From the end of an mbarrier's phase to the next instruction of a warp that waits for it."""
REMOTE = Fact(180, "HOP", "recalled", 0.2)
"""An arrival at the mbarrier of another SM."""
MATRIX_LATENCY = Fact(136, "MBB", "derived", 0.1)
"""Of a tcgen05.mma, past the cycles that it takes the tensor cores for."""
PER_CLOCK_AND_SM = 64
"""Bytes from L2 to one SM."""
NAMES = {
    Unit.BRANCH: "branches", Unit.FMA: "fp32 pipe", Unit.ALU: "integer pipe", Unit.IMAD: "multiply pipe", Unit.XU: "special functions",
    Unit.MEMORY: "memory instructions", Unit.TENSOR: "tensor cores", Unit.UNIFORM: "uniform pipe", Unit.HALF: "half-precision pipe",
    Unit.DOUBLE: "fp64 pipe",
}  # fmt: skip
REASONS = {
    Stall.NOT_SELECTED: "not selected", Stall.BARRIER: "barrier", Stall.FIXED_LATENCY: "fixed latency", Stall.SCOREBOARD: "memory or scoreboard",
    Stall.MEMORY_QUEUE: "memory queue", Stall.PIPE: "pipe busy", Stall.REGISTER_PORT: "register port", Stall.GROUP: "copies in flight",
    Stall.MBARRIER: "mbarrier", Stall.MATRICES: "matrix instructions in flight",
}  # fmt: skip


_MOVES = (r.LOAD, r.ASYNC_COPY), (r.STORE, r.REDUCTION)
SAMPLED = 128
"""CTAs of a wave that are looked at for what they share."""
SECTOR_BITS = 46


def _sectors(part: Emulated, kinds: tuple[int, ...], once: bool) -> NDArray[np.int64]:
    """Instruction and sector of each access of some kinds; `once`: an instruction that touches a sector again does not count."""
    found = part.records[np.isin(part.records[:, r.ACCESS], kinds)].astype(np.int64)
    counts = found[:, r.LINES]
    at = np.arange(int(counts.sum())) + np.repeat(found[:, r.FIRST_LINE] - np.cumsum(counts) + counts, counts)
    lines, keys = part.lines[at], np.repeat(found[:, r.INDEX], counts) << SECTOR_BITS
    each = np.concatenate([(keys + lines[:, 0] * 4 + s)[lines[:, 1] >> s & 1 == 1] for s in range(4)])
    return np.unique(each) if once else each


def _boxes(part: Emulated) -> NDArray[np.int64]:
    """Instruction and box of each tensor copy."""
    found = part.records[part.records[:, r.ACCESS] == r.TENSOR_LOAD].astype(np.int64)
    return np.unique((found[:, r.INDEX] << SECTOR_BITS) + found[:, r.FIRST_LINE])


def _first_touches(parts: Sequence[NDArray[np.int64]], share: float) -> tuple[dict[int, float], float]:
    """For each load, how many CTAs share a sector follows from how often those of a sample meet; and all loads together."""
    found = np.concatenate(parts)
    if not len(found):
        return {}, 1.0
    loads, every = np.unique(found >> SECTOR_BITS, return_counts=True)
    distinct = np.unique(np.unique(found) >> SECTOR_BITS, return_counts=True)[1]
    first = [min(1.0, d / n * _unseen(d / n, share)) for n, d in zip(every.tolist(), distinct.tolist(), strict=True)]
    return dict(zip(loads.tolist(), first, strict=True)), float(np.average(first, weights=every))


def _unseen(distinct: float, share: float) -> float:
    """What to multiply the share of distinct sectors in a sample with for that of all: a sector that `m` CTAs touch is in the sample
    `m * share` times, and distinct in it with 1 - (1 - share) ** m.
    """
    if share >= 1 or distinct >= 1:
        return 1.0
    low, high = 1.0, 1e6
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if (1 - (1 - share) ** middle) / (share * middle) > distinct else (low, middle)
    return 1 / (low * distinct)


@dataclass(frozen=True)
class Run:
    """What the busiest SM does in the whole launch."""

    cycles: float
    out: Reals
    stalls: NDArray[np.float64]
    extrapolated: bool
    """From a few iterations of a loop."""

    def towards(self, other: Run, steps: float, extrapolated: bool) -> Run:
        """On the line from this to another replay, so many times their distance away."""
        return Run(
            self.cycles + steps * (other.cycles - self.cycles),
            self.out + steps * (other.out - self.out),
            np.maximum(self.stalls + steps * (other.stalls - self.stalls), 0),
            extrapolated or self.extrapolated,
        )


class DidNotEnd(Exception):
    """The first CTA executes more instructions than are followed."""

    def __init__(self, seen: Emulated):
        super().__init__(seen.executed)
        self.seen = seen


class Model:
    def __init__(
        self,
        function: Function,
        geometry: Geometry,
        card: Card,
        clock: float,
        registers: int,
        sample: int | None = None,
    ):
        self.function, self.geometry, self.card, self.clock = function, geometry, card, clock
        threads = math.prod(geometry.block)
        self.registers, self.sample = registers, sample
        fit = occupancy(card.arch, threads=threads, registers=registers, shared=geometry.shared)
        if fit.ctas < 1:
            raise PTXError(
                f"{function.name} does not launch on {card.name}: an SM has no room for a CTA of {threads} threads with {registers} "
                f"registers each and {geometry.shared:,} bytes of shared memory"
            )
        self.resident = fit.ctas
        self.ranks = geometry.ranks
        self.sms = round(card.sms.value) // self.ranks
        """Of the card; of a card whose SMs are taken by clusters, groups of them."""
        self.each = math.ceil(geometry.ctas / self.ranks / self.sms)
        """CTAs (or clusters) of the SM that has most."""
        self.asynchronous = bool(asynchronous(function))
        self.budget = ASYNCHRONOUS_BUDGET if self.asynchronous else BUDGET
        self.emulator = Emulator(function, geometry)
        self.rows, self.no_pipe = table(function, card)
        self.whole = self.emulator.run(self._numbers()[0], record=False)
        if self.whole.result == e.FULL:
            raise DidNotEnd(self.whole)
        self.loop = self._loop()
        self.traces = self._traced(FEW) if self.loop else self._traced(0)
        self.longer = self._traced(MORE) if self.loop else None
        self.executed = [part.executed for part in self.traces]
        """Instructions of the warps of each traced CTA, all of them."""
        self.cut = any(part.result == e.FULL for part in (*self.traces, *(self.longer or ())))
        """Whether the traces end before the CTAs do."""
        if self.cut:
            self.loop = None
            self.executed = [self.emulator.run(n, record=False).executed for n in self._numbers()]
            self.traces, self.longer = self._beginnings(1), self._beginnings(2)
        self.first_touches, self.first_writes = self._shares()

    def _numbers(self) -> list[int]:
        """CTAs (or clusters) that one SM in the middle of the card gets, or those of the sample."""
        clusters = self.geometry.ctas // self.ranks
        if self.sample is not None:
            chosen = np.random.default_rng(0).choice(clusters, min(self.sample, clusters), replace=False)
            return [int(n) for n in chosen]
        start = min(self.sms, clusters) // 2
        found = list(range(start, clusters, self.sms))[: min(self.each, 4)]
        return found or [0]

    def _loop(self) -> Loop | None:
        together = self.whole.executed * min(self.each, 2 * self.resident)
        if together <= self.budget or self.asynchronous:
            return None
        return heaviest(loops(self.function, self.whole.counts), self.whole.executed)

    def _traced(self, kept: int) -> list[Emulated]:
        between = (self.loop.first, self.loop.last) if self.loop else (-1, -1)
        return [self._trace(n, between, kept) for n in self._numbers()]

    def _trace(self, number: int, between: tuple[int, int], kept: int) -> Emulated:
        """One CTA, whose records may need more room than those of the first."""
        room = min(MOST_TRACED, 2 * self.whole.executed + 1000)
        while True:
            found = self.emulator.run(number, loop=between, kept=kept, records=room)
            if found.result != e.FULL or room >= MOST_TRACED:
                return found
            room = min(MOST_TRACED, 4 * room)

    @property
    def least(self) -> float:
        """The cycles in which an SM can issue the instructions of its CTAs."""
        return float(np.mean(self.executed)) * self.each / (SUBCORES * self.ranks)

    def _beginnings(self, length: int) -> list[Emulated]:
        return [self.emulator.run(n, records=length * CUT) for n in self._numbers()]

    @property
    def steady(self) -> bool:
        """Whether warps of traces that were cut go on side by side: the emulator executes one until it waits, then the next, so that
        of warps that seldom wait for each other only some are in the beginning of a trace.
        """
        if not self.cut or self.longer is None:
            return True
        few, more = (np.concatenate([np.diff(part.offsets) for part in parts]) for parts in (self.traces, self.longer))
        even = (STEADY[0] * few <= more) & (more <= STEADY[1] * few)
        return bool(more.all()) and float(more[even].sum()) >= 0.9 * float(more.sum())

    @property
    def steps(self) -> float:
        """How far the launch is on the line from the shorter traces through the longer ones."""
        if self.loop is not None:
            return max(1.0, (self.loop.trips - FEW) / (MORE - FEW))
        few, more = (sum(part.executed for part in parts) for parts in (self.traces, self.longer or ()))
        return (sum(self.executed) - few) / max(1, more - few)

    def _sample(self) -> tuple[list[Emulated], float]:
        """CTAs of a wave, drawn at random, and which share of it they are."""
        g = self.geometry
        wave = min(g.ctas // self.ranks, self.sms * self.resident)
        chosen = np.random.default_rng(0).choice(wave, min(wave, SAMPLED), replace=False)
        most = self.emulator.warps * (400 if self.asynchronous else 200)
        return [self.emulator.run(int(n), most=most, records=most) for n in chosen], len(chosen) / wave

    def _shares(self) -> tuple[float, float]:
        """Of the sectors that a wave reads from L2, and of those that it writes, how many nobody else touches at about the same time. Those of
        each load go to its row.
        """
        parts, share = self._sample()
        each, loads = _first_touches([_sectors(p, (r.LOAD, r.ASYNC_COPY), True) for p in parts], share)
        boxes, copies = _first_touches([_boxes(p) for p in parts], share)
        each |= boxes
        loads = copies if boxes else loads
        self.rows[:, r.SHARE] = round(r.WHOLE * loads)
        for index, part in each.items():
            self.rows[index, r.SHARE] = round(r.WHOLE * part)
        whole = [_sectors(p, (r.STORE, r.REDUCTION), False) for p in self.traces]
        total, distinct = sum(map(len, whole)), sum(len(np.unique(w & ((1 << SECTOR_BITS) - 1))) for w in whole)
        return loads, distinct / total if total else 1.0

    @property
    def working_set(self) -> int:
        return sum(b.size for b in self.geometry.buffers)

    @property
    def stays_in_l2(self) -> bool:
        return self.working_set <= KEPT_BY_L2 * self.card.l2_mib.value * 2**20

    def _warm(self, way: int) -> bool:
        """Whether the arguments are in L2. Where they nearly fit, the fast end of the range has them there, the slow one not."""
        filled = self.working_set / (self.card.l2_mib.value * 2**20)
        if way and NEAR_L2[0] <= filled <= NEAR_L2[1]:
            return way < 0
        return self.stays_in_l2

    def _dram(self) -> Fact:
        """The share of the bandwidth that is reached: DRAM loses time between reads and writes."""
        loads, stores = (
            sum(int(p.records[np.isin(p.records[:, r.ACCESS], k), r.SECTORS].sum()) for p in self.traces)
            for k in _MOVES
        )
        written = stores * self.first_writes / max(1.0, loads * self.first_touches + stores * self.first_writes)
        return self.card.dram_mixed if 0.1 <= written else self.card.dram_reads

    def parameters(self, way: int = 0) -> Reals:
        """The parameters of the replay; `way`: -1 with all uncertain numbers at their fast end, 1 at their slow end."""
        a, card = self.card.architecture, self.card
        active = max(1, min(self.sms * self.ranks, self.geometry.ctas))

        def at(fact: Fact, faster: int) -> float:
            return fact.value * (1 + way * faster * fact.spread)

        dram = at(card.dram_gb_s, -1) * at(self._dram(), -1) / self.clock / active
        warm = self._warm(way)
        shared = self.geometry.shared * self.resident
        lines = max(16.0, (a.l1_kib.value * 1024 - shared) / 128)
        return sm.parameters(
            subcores=SUBCORES, queue=max(2, round(at(a.queue, -1))), address_interval=at(a.address_interval, 1),
            lsu_interval=max(1, WARP / a.lanes.value), shared_latency=at(a.shared_latency, 1), l1_latency=at(a.l1_latency, 1),
            l2_latency=at(a.l2_latency, 1), l2_bytes=min(PER_CLOCK_AND_SM, at(card.l2_bytes, -1) / active),
            dram_latency=max(0.0, at(a.dram_latency, 1) - a.l2_latency.value), dram_bytes=dram,
            dram_reads=0.0 if warm else 1.0, dram_writes=0.0 if warm else self.first_writes, l1_lines=lines, launch=150,
            barrier_latency=15, matrix_interval=1, tag_interval=1, store_sector=32, operand_read=9, copy_latency=at(COPY_LATENCY, 1),
            wake=at(WAKE, 1), remote=at(REMOTE, 1), port_bytes=PER_CLOCK_AND_SM, matrix_latency=MATRIX_LATENCY.value,
            matrix_shared=128, copy_interval=COPY_INTERVAL.value,
        )  # fmt: skip

    def timeline(self) -> Timeline:
        """Of the first CTAs of an SM, two for each that it has room for."""
        joined = join(self.traces, self.emulator.warps, self.ranks)
        size = max(1, len(joined.records) // joined.ctas)
        ctas = max(1, min(self.each, 2 * self.resident, LOGGED // size))
        found = sm.run(self.rows, joined, self.parameters(), ctas, self.resident, log=min(LOGGED, size * ctas + size))
        shortened = [f"{ctas} of its {self.each} CTAs"] if ctas < self.each else []
        shortened += [f"{FEW} of {self.loop.trips:,.0f} iterations of a loop"] if self.loop else []
        shortened += ["the beginning of a CTA"] if self.cut else []
        return timeline_of(
            found.log, [REASONS[Stall(k)] for k in range(len(Stall))], self.emulator.warps, self.function.name, self.card.name,
            ", ".join(shortened),
        )  # fmt: skip

    def replays(self, parameters: Reals) -> Run:
        """The whole launch. Where a loop was shortened or traces were cut: a line through replays of two lengths."""
        if self.longer is None:
            return self._launch(self.traces, parameters)
        few, more = self._launch(self.traces, parameters), self._launch(self.longer, parameters)
        return few.towards(more, self.steps, True)

    def fit_error(self) -> float:
        """How far a third replay is from the line through two, as a fraction of its cycles; 0 without a line."""
        if self.longer is None:
            return 0.0
        parameters = self.parameters()
        few, more = self._launch(self.traces, parameters), self._launch(self.longer, parameters)
        third = self._launch(self._beginnings(3) if self.cut else self._traced(THIRD), parameters).cycles
        line = few.cycles + (THIRD - FEW) / (MORE - FEW) * (more.cycles - few.cycles)
        return abs(line - third) / third

    def _launch(self, traces: Sequence[Emulated], parameters: Reals) -> Run:
        """All CTAs of the busiest SM: those of two numbers of waves, and a line through them."""
        joined = join(traces, self.emulator.warps, self.ranks)
        size = max(1, len(joined.records) // joined.ctas)
        affordable = max(self.resident, self.budget // size)

        def run(ctas: int) -> Run:
            found = sm.run(self.rows, joined, parameters, ctas, self.resident)
            return Run(found.cycles, found.out, found.stalls, False)

        if self.each <= affordable:
            return run(self.each)
        rest = self.each % self.resident or self.resident
        short = rest + self.resident if rest + 2 * self.resident <= affordable else rest
        return run(short).towards(run(short + self.resident), (self.each - short) / self.resident, False)


def predict_function(
    function: Function, geometry: Geometry, card: Card, *, clock: float | None = None, registers: int | None = None,
    places: Places | None = None, counted: Counted | None = None, sample: int | None = None,
) -> Prediction:  # fmt: skip
    """The predicted time of a launch; `places` has the lines of the PTX; `counted`: what asynchronous instructions do."""
    ghz = clock or card.boost_ghz.value
    used = registers or function.registers
    if not_replayed(function):
        return bound(function, geometry, card, ghz, counted)
    try:
        model = Model(function, geometry, card, ghz, used, sample)
    except DidNotEnd as stopped:
        return unended(function, geometry, card, ghz, stopped.seen)
    except SimulationError as stuck:
        if not asynchronous(function):
            raise
        found = bound(function, geometry, card, ghz, counted)
        return replace(
            found, notes=[*found.notes, f"the emulation of its mbarriers stopped: {str(stuck).splitlines()[0]}"]
        )
    return conclude(model, clock, places or Places())


def conclude(model: Model, clock: float | None, places: Places) -> Prediction:
    """The prediction of a model; `clock`: what was asked for."""
    function, geometry, card, ghz = model.function, model.geometry, model.card, model.clock
    middle = model.replays(model.parameters())
    fast, slow = model.replays(model.parameters(-1)).cycles, model.replays(model.parameters(1)).cycles
    low, high = min(fast, middle.cycles) * MODEL_ERROR[0], max(slow, middle.cycles) * MODEL_ERROR[1]
    notes, factor, guessed = _doubts(model)
    low, high = low / factor, high * factor
    if not model.steady:
        low = min(low, model.least)
    if (uneven := _unevenness(model)) > UNEVEN:
        high *= uneven
        notes.append(
            f"CTAs differ: the longest of {len(model.traces)} executes {uneven:.1f} times the average; an SM that gets several of them takes longer"
        )
    error = model.fit_error()
    low, high = low / (1 + error), high * (1 + error)
    if card.loaded_ghz is not None and clock is None and middle.cycles / ghz / 1e6 >= LIMITED_MS:
        high *= max(1.0, ghz / card.loaded_ghz.value)
        notes.append(
            f"the slow end of the range is at {card.loaded_ghz.value:g} GHz, what the power limit leaves to the heaviest kernels"
        )
    out = middle.out
    utilisation = _utilisation(out, model)
    busiest = max(utilisation.values(), default=0.0)
    loaded = _loaded_clock(card, middle.cycles / ghz / 1e6, utilisation.get(NAMES[Unit.TENSOR], 0))
    share = min(model.sms * model.ranks, geometry.ctas)
    waits = Waits(function, model.whole.counts, middle.stalls, [REASONS[Stall(k)] for k in range(len(Stall))])
    return Prediction(
        kernel=function.name, card=card.name, cycles=None if guessed else round(middle.cycles), low=low, high=high, clock_ghz=ghz,
        binds=_binds(utilisation, middle, model, middle.cycles / (ghz * 1e3)), utilisation=utilisation,
        stalls=_stalls(middle), lines=by_line(waits, places), sources=by_source(waits, places),
        loops=by_loop(waits, model.each), roofline=busiest, launch_us=LAUNCH_US,
        loaded_ghz=None if clock else loaded, resident=model.resident, registers=model.registers,
        waves=geometry.ctas / (model.sms * model.ranks * model.resident), dram_bytes=float(out[r.O_DRAM_BYTES]) * share,
        l2_bytes=float(out[r.O_L2_BYTES]) * share, extrapolated=middle.extrapolated,
        fit_error=error if middle.extrapolated else None, notes=notes,
    )  # fmt: skip


def _loaded_clock(card: Card, milliseconds: float, tensor: float) -> float | None:
    """The clock under the power limit, of long kernels that keep the tensor cores busy (fitted: rows of 8192 x 8192, docs/prediction.md)."""
    if card.loaded_ghz is None or milliseconds < LOADED_MS or tensor < LOADED_SHARE:
        return None
    return card.loaded_ghz.value


def _doubts(model: Model) -> tuple[list[str], float, bool]:
    """What is not known about this kernel, by how much it widens the range, and whether only the range can be told: an instruction is
    not known.
    """
    notes: list[str] = []
    factor = 1.0
    guessed = False
    counts = model.whole.counts[:, 0]
    if odd := sorted({name for index, name in model.no_pipe.items() if counts[index]}):
        notes.append(f"the pipe of {', '.join(odd)} is not known: taken as the integer pipe")
        factor *= 1.3
        guessed = True
    flagged = model.whole.flagged
    if branches := int((flagged & 1 != 0).sum()):
        why = sorted({name for index, name in model.emulator.encoded.unknown.items() if counts[index]})[:6]
        reason = f" ({', '.join(why)} are not computed)" if why else " (loads of memory that was not given)"
        notes.append(f"{branches} branches depend on values that are not known{reason}: their direction is a guess")
        factor *= 1.5
        guessed |= bool(why)
    if places := int((flagged & 2 != 0).sum()):
        notes.append(f"{places} memory instructions have addresses that are not known: what they touch is a guess")
        factor *= 1.5
    if model.cut:
        traced = sum(part.executed for part in model.longer or ()) / max(1, sum(model.executed))
        notes.append(
            f"the replay ends after {traced:.0%} of the instructions; the rest is taken to go on at the same rate"
        )
        factor *= NOT_SEEN
    if not model.steady:
        notes.append("its warps seldom wait for each other, and only some of them are in what is replayed")
        guessed = True
    notes += _outside(model)
    if partial := _partial_stores(model):
        notes.append(f"{partial:.0%} of the stored sectors are written in part: their cost is not known well")
        factor *= 1 + partial
    if not model.stays_in_l2:
        notes.append(
            f"of the sectors that miss L1, {model.first_touches:.0%} are predicted to come from DRAM: others of the wave share the rest"
        )
    else:
        notes.append("the arguments fit into L2 and are assumed to be there from an earlier launch")
    return notes, factor, guessed


def _outside(model: Model) -> list[str]:
    """A note where accesses of the CTAs that are followed are outside of the buffers, which a launch does not survive."""
    counts = sum(part.counts[:, e.N_OUTSIDE] for part in model.traces)
    places = np.flatnonzero(counts)
    if not len(places):
        return []
    lines = sorted({line for k in places if (line := model.function.instructions[k].line) is not None})
    listed = f", at {'line' if len(lines) == 1 else 'lines'} {', '.join(map(str, lines[:6]))}" if lines else ""
    ctas = counted(len(model.traces) * model.ranks, "CTA")
    return [f"{int(np.sum(counts)):,} accesses are outside of the arguments{listed} ({ctas} followed)"]


def _unevenness(model: Model) -> float:
    """The instructions of the longest CTA of a sample against the average."""
    if model.sample is None:
        return 1.0
    return max(model.executed) * len(model.executed) / max(1, sum(model.executed))


def _partial_stores(model: Model) -> float:
    """Of the sectors that are stored, those that no warp instruction fills."""
    whole = wanted = 0.0
    for part in model.traces[:1]:
        stores = part.records[part.records[:, r.ACCESS] == r.STORE]
        for index, sectors in zip(stores[:, r.INDEX], stores[:, r.SECTORS], strict=True):
            width = int(model.emulator.encoded.code[index, e.E_WIDTH])
            lanes = model.whole.counts[index, 1] / max(1, model.whole.counts[index, 0])
            whole += sectors
            wanted += min(float(sectors), lanes * width / 32)
    return 0.0 if not whole else max(0.0, 1 - wanted / whole)


def _utilisation(out: Reals, model: Model) -> dict[str, float]:
    cycles = max(float(out[r.O_CYCLES]), 1.0)
    found = {NAMES[unit]: float(out[r.O_BUSY + unit]) / SUBCORES / cycles for unit in Unit if out[r.O_BUSY + unit]}
    found["issue"] = float(out[r.O_ISSUED]) / SUBCORES / cycles
    found["shared memory and L1"] = float(out[r.O_PIPE_CYCLES]) / cycles
    found["L2"] = float(out[r.O_L2_BUSY]) / cycles
    found["DRAM"] = float(out[r.O_DRAM_BUSY]) / cycles
    fp32 = found.get(NAMES[Unit.FMA], 0) + found.get(NAMES[Unit.IMAD], 0)
    if fp32:
        found[NAMES[Unit.FMA]] = fp32
    return {name: min(1.0, share) for name, share in found.items() if share > 0}


def _stalls(shown: Run) -> dict[str, float]:
    whole = shown.stalls.sum(0)
    total = max(float(whole.sum()), 1.0)
    return {REASONS[Stall(k)]: float(x) / total for k, x in enumerate(whole) if x > 0}


def _binds(utilisation: dict[str, float], shown: Run, model: Model, us: float) -> str:
    name, share = max(utilisation.items(), key=lambda kv: kv[1])
    if us < LAUNCH_US:
        return f"the launch ({us:.2f} us of work)"
    if share >= 0.75:
        return f"{name} ({share:.0%} busy)"
    waits = {k: v for k, v in _stalls(shown).items() if k != "not selected"}
    reason = max(waits, key=lambda k: waits[k], default="issue")
    waves = model.geometry.ctas / (model.sms * model.ranks * model.resident)
    tail = f"; the last of {math.ceil(waves)} waves is not full" if 0 < waves % 1 < 0.6 and waves < 4 else ""
    return f"latency: warps wait for {reason} ({waits.get(reason, 0):.0%} of their cycles), {name} is {share:.0%} busy{tail}"
