"""Asynchronous copies (PTX ISA 9.7.10.28): who may touch source and destination when, and what the async proxy
sees.

A copy reads and writes at some time between its issue and the wait that covers it. Its stamps in the shadow
carry the time of issue, by which `State` is found: who has waited for it, and when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.async_copy import CpAsyncMbarrierArrive
from ..machine.observe import Action
from ..machine.pending import Copy
from ..machine.program import SHARED_BASE, Inst
from .clocks import Clock
from .races import alike
from .shadow import ASYNC, GPU, THREAD, WEAK, Space

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
TIME = (1 << 30) - 1


def reduces(inst: Inst) -> bool:
    """Whether an instruction is an atomic reduction, which others may meet in any order."""
    return inst.family.access == "atomic"


def fenced_spaces(inst: Inst) -> frozenset[str]:
    """The spaces that a proxy fence is for."""
    named = {m.partition("::")[0] for m in inst.modifiers if "restrict" not in m} & {"shared", "global"}
    if any("restrict" in m for m in inst.modifiers):
        named = {"shared"}
    return frozenset(named or {"shared", "global"})


@dataclass(slots=True, eq=False)
class State:
    """What is known of a copy. Times are 0 until the wait."""

    copy: Copy
    lanes: np.ndarray
    done: np.ndarray
    """Per issuing lane: when it waited for the copy."""
    read_done: np.ndarray
    """The same for its source (wait_group.read)."""
    told: np.ndarray
    """Per issuing lane: when it told an mbarrier of the copy (cp.async.mbarrier.arrive)."""
    numbers: np.ndarray
    """The lanes, numbered over the grid."""
    columns: dict[int, int] = field(default_factory=dict[int, int])
    """CTA of the batch -> column of the mbarrier there that tells of the copy."""
    phases: Array = None
    """What its issuer knew of the phases of mbarriers (`Rounds.known`), if it tells some."""
    first_group: int = 0
    """The first cluster of that batch."""
    of_a: bool = False
    """It is a matrix instruction's read of A."""


@dataclass(slots=True)
class Repeated:
    """A copy and who has issued it."""

    places: tuple[object, ...]
    first: State
    lanes: list[int]


def _places(copy: Copy) -> tuple[object, ...]:
    """What a copy reads and writes."""
    rows = ((r[0].tobytes(), r[1]) for r in (copy.read_rows, copy.written_rows) if r is not None)
    return (*copy.reads, None, *copy.writes, *rows)


class Copies:
    """The copies of a launch."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        self.machine = sanitizer.machine
        self.at: dict[int, State] = {}
        self.open: list[State] = []
        self.on_barrier: dict[int, list[State]] = {}
        self.arriving: list[State] = []
        """The copies of cp.async that are in flight at a cp.async.mbarrier.arrive."""
        self.unnamed = {i.number for i in sanitizer.machine.program.instructions if not i.family.proxy}
        """Instructions whose stores are of no proxy that the manual names."""

    def start(self) -> None:
        self.open.clear()
        self.on_barrier.clear()
        self.latest: dict[int, Repeated] = {}
        """Instruction -> the copy that it issued last."""

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family is CpAsyncMbarrierArrive:
            machine = self.machine

            def arrive(mask: Array) -> object:
                lanes = np.flatnonzero(machine.active(inst, mask))
                newest = machine.pending.groups[lanes] + 1
                if not inst.has("noinc"):
                    self._waited("group", lanes, newest, self.s.tick(inst), False)
                    return action(mask)
                self.arriving = [s for s in self.open if s.copy.mechanism == "group"]
                return action(mask)

            return arrive
        if inst.family.access == "copy" and inst.family.proxy == "async":

            def copy(mask: Array) -> object:
                result = action(mask)
                self._tell_repeated(inst)
                return result

            return copy
        return action

    #
    #
    #
    #
    def arrived(self, inst: Inst, lanes: Array, slots: Array) -> None:
        """cp.async.mbarrier.arrive: the copies that lanes have issued are complete for those who wait for the mbarrier."""
        now, clocks = self.s.clocks.now, self.s.clocks
        for slot in np.unique(slots).tolist():
            cta = slot * 8 // self.machine.shared.shape[1]
            group = cta // self.machine.cluster_size
            column = clocks.column(group, slot)
            here = lanes[slots == slot]
            for state in self.arriving:
                mine = np.isin(state.lanes, here) & (state.told == 0)
                state.told[mine] = now
                if np.count_nonzero(mine):
                    state.columns[cta] = column
            clock = Clock()
            known = [self.s.barriers.rounds.known(lane) for lane in here.tolist()]
            row = clock.rows[clocks.first_group + group] = np.max(known, axis=0)
            row[column] = now
            self.s.barriers.add(slot, clock)

    # ------------------------------------------------------------------------------------------------------------ issue

    def issued(self, copy: Copy) -> None:
        """A copy begins: everything it touches must be ready."""
        inst = copy.inst
        now = copy.time = self.s.tick(inst)
        lanes = copy.lanes
        state = self.at[now] = self._state(copy, lanes)
        shadow, races = self.s.shadow, self.s.races
        self.s.maps.issued(copy, state)
        if copy.mechanism != "mbarrier":
            self.open.append(state)
        if copy.mechanism == "group":
            assert copy.source is not None
            assert copy.target is not None
            access, reading = copy.source
            for space, first, where in shadow.places(access, reading):
                chosen = reading if where is None else reading[where]
                index, chosen = races._granules(space, first, chosen, access.size)
                self._reads(state, space, index, chosen, False)
            for space, first, where in shadow.places(copy.target, lanes):
                chosen = lanes if where is None else lanes[where]
                index, chosen = races._granules(space, first, chosen, copy.target.size)
                self._writes(state, space, index, chosen, False)
            return
        lane = int(lanes[0])
        machine = self.machine
        if copy.barriers:
            state.phases = self.s.barriers.rounds.known(lane)
        for slot in copy.barriers:
            self.s.barriers.check_fence(inst, lane, slot, "bulk copy")
            cta = slot * 8 // machine.shared.shape[1]
            group = cta // machine.cluster_size
            state.columns[cta] = self.s.clocks.column(group, slot)
            self.on_barrier.setdefault(slot, []).append(state)
        if self._repeats(state):
            return
        for kind, start, size in copy.reads:
            found = self.range(kind, start, size, lane)
            if found is not None:
                self._reads(state, *found, inst.family.proxy == "async")
        for kind, start, size in copy.writes:
            found = self.range(kind, start, size, lane)
            if found is not None:
                self._writes(state, *found, inst.family.proxy == "async")
        for rows, touch in ((copy.read_rows, self._reads), (copy.written_rows, self._writes)):
            index = None if rows is None else self._granules_of_rows(*rows)
            if index is not None:
                touch(state, self.s.shadow.memory, index, np.full(index.size, lane), True)

    def _repeats(self, state: State) -> bool:
        """Whether another thread has issued the same copy with the same instruction, and it may still be in flight: both
        write the same bytes.
        """
        copy = state.copy
        rows = copy.written_rows
        outside = rows is None or not rows[0].size  # a box outside of its tensor writes nothing
        if reduces(copy.inst) or (not copy.writes and outside):
            return False
        lane, key = int(copy.lanes[0]), _places(copy)
        known = self.latest.get(copy.inst.number)
        if known is None or known.places != key or lane in known.lanes or self._complete_for(known.first, lane):
            self.latest[copy.inst.number] = Repeated(key, state, [lane])
            return False
        known.lanes.append(lane)
        return True

    def _complete_for(self, state: State, lane: int) -> bool:
        """Whether a lane knows that a copy is complete."""
        return self._over(state, state.done, lane)

    def _tell_repeated(self, inst: Inst) -> None:
        """After an instruction has issued its copies."""
        known = self.latest.get(inst.number)
        if known is None or len(known.lanes) == 1:
            return
        size = sum(n for _, _, n in known.first.copy.writes) or known.first.copy.tensor_bytes
        self.s.report(
            "copy-repeated",
            inst,
            f"{len(known.lanes)} threads issue this copy of the same {size} bytes to the same place",
            np.array(known.lanes),
            hint="one thread issues it: elect one of the warp (elect.sync), or choose it with a predicate",
            severity="warning",
        )

    def _granules_of_rows(self, starts: Array, length: int) -> Array | None:
        """The granules of rows of a tensor, without those of which others may use a part; None if there are none, or if
        they are out of bounds, which the copy says itself.
        """
        if not starts.size:
            return None
        first, last = int(starts.min()), int(starts.max()) + length - 1
        begin = self.s.shadow.of_address(first)
        if begin is None or self.machine.memory.find(first, last - first + 1) is None:
            return None
        shift = self.s.shadow.memory.shift
        low = starts + (begin - first)
        if not np.count_nonzero((low | length) & ((1 << shift) - 1)):
            return ((low >> shift)[:, None] + np.arange(length >> shift)).reshape(-1)
        ends = zip((-(-low >> shift)).tolist(), (low + length >> shift).tolist(), strict=True)
        return np.concatenate([np.arange(a, b) for a, b in ends])

    def _state(self, copy: Copy, lanes: Array) -> State:
        done, read_done, told = np.zeros((3, lanes.size), np.int64)
        return State(
            copy, lanes, done, read_done, told, lanes + self.s.first_lane, first_group=self.s.clocks.first_group
        )

    def range(self, kind: str, start: int, size: int, lane: int) -> tuple[Space, Array, Array] | None:
        """(space, granules, a lane for each) of the bytes at a flat place in shared memory or a global address."""
        shadow = self.s.shadow
        space = shadow.shared if kind == "shared" else shadow.memory
        if kind == "shared":
            self.s.barriers.check_peer(self.s.instruction_at(self.s.clocks.now), lane, start)
        else:
            found = shadow.of_address(start)
            if found is None:
                return None
            start = found
        index = np.arange(start >> space.shift, (start + size - 1 >> space.shift) + 1)
        return space, index, np.full(index.size, lane)

    def _reads(self, state: State, space: Space, index: Array, lanes: Array, bulk: bool) -> None:
        races, inst = self.s.races, state.copy.inst
        self.s.barriers.check_untouched(inst, space, index, lanes, "read")
        self.s.dependents.read(inst, space, index, lanes)
        written = space.write[index]
        nothing = space.unwritten(index, written)
        if len(nothing):
            races._uninitialised(inst, space, index, lanes, nothing)
        if races.off:
            return
        late = races.late(space, written, lanes)
        if len(late):
            races.examine(inst, space, index[late], lanes[late], written[late], 0, "read", "written")
        races.against_updates(inst, space, index, lanes, WEAK, "read")
        if bulk:
            self._proxy(inst, space, index, int(lanes[0]), written)
        stamps = (races.numbers[lanes] if lanes.size > 1 else races.numbers[lanes[0]]) + (state.copy.time << 32 | ASYNC)
        floor = races.floor(space, lanes)
        space.reads.put(index, stamps, floor if lanes.size > 1 else int(np.max(floor)))

    def _writes(self, state: State, space: Space, index: Array, lanes: Array, bulk: bool) -> None:
        races, inst = self.s.races, state.copy.inst
        stamp = races.numbers[lanes] + (state.copy.time << 32 | ASYNC)
        self.s.barriers.check_untouched(inst, space, index, lanes, "written")
        self.s.dependents.wrote(inst, space, lanes)
        written = space.write[index]
        if space.name == "global" and reduces(inst):
            nothing = space.unwritten(index, written)
            if len(nothing):
                races._uninitialised(inst, space, index, lanes, nothing)
        if not races.off:
            kind = GPU if reduces(inst) else WEAK
            strong = GPU if reduces(inst) and inst.family.proxy != "async" else WEAK
            """Operations of different proxies are never morally strong (8.7)."""
            late = races.late(space, written, lanes)
            if len(late):
                races.examine(inst, space, index[late], lanes[late], written[late], strong, "written", "written")
            races.against_updates(inst, space, index, lanes, strong, "written")
            if kind != WEAK:
                space.replaced(index, written, np.int64(0))
            elif space.updates is not None:
                space.updates.forget(index)
            if bulk:
                self._proxy(inst, space, index, int(lanes[0]), written)
            races._against_readers(inst, space, index, lanes, strong, one=state.copy.mechanism != "group")
            if bulk and not self.s.has_told("race", inst):
                self._reuse(inst, space, index, int(lanes[0]))
            if kind == WEAK:
                space.reads.forget(index)
            if space.chain is not None:
                space.chain[index] = stamp
            if space.non_coherent is not None:
                races._over_cached(inst, space, index, lanes)
        space.write[index] = stamp

    def _proxy(self, inst: Inst, space: Space, index: Array, lane: int, stamps: Array) -> None:
        """What ordinary stores wrote must pass a proxy fence before the async proxy touches it."""
        generic = np.flatnonzero((stamps != 0) & (stamps < ASYNC))
        if self.unnamed and generic.size:
            times = (stamps[generic] >> 32).tolist()
            generic = generic[[self.s.times[t] not in self.unnamed for t in times]]
        if not generic.size:
            return
        stamps = stamps[generic]
        who, times = stamps & THREAD, stamps >> 32
        bad = ~self.s.clocks.fenced(lane, who, times, space.name)
        if np.count_nonzero(bad):  # without any order it is a race, and reported as one
            bad &= self.s.clocks.ordered(np.full(who.size, lane), who, times)
        bad = np.flatnonzero(bad)
        if not bad.size:
            return
        at = int(bad[0])
        other = self.s.instruction_at(int(times[at]))
        self.s.report(
            "proxy",
            inst,
            f"{space.name} memory that ordinary stores wrote is accessed by the async proxy without a proxy fence "
            f"between; it was written by {self.s.thread(int(who[at]))}",
            lane,
            hint="every thread that wrote executes fence.proxy.async after its stores, then comes the barrier, then "
            "the asynchronous instruction" + self._which_fence(space),
            space=space,
            byte=int(index[generic[at]]) << space.shift,
            other=other,
        )

    def _reuse(self, inst: Inst, space: Space, index: Array, lane: int) -> None:
        """What a thread has read by an ordinary load is overwritten by the async proxy. Where a barrier or an mbarrier is
        between the two, this is silent: it is how CUTLASS and Triton release a stage.
        """
        clocks = self.s.clocks
        own = int(self.s.races.numbers[lane])
        since = max(int(clocks.floor[lane]), int(clocks.warp_floor[lane]), int(self.s.barriers.waited[lane]))
        for table in space.reads.tables:
            stamps = table[index]
            stamps = stamps[alike(stamps)]
            at = np.flatnonzero((stamps & THREAD == own) & (stamps >> 32 > since) & (stamps < ASYNC))
            if not at.size:
                continue
            who, times = stamps[at] & THREAD, stamps[at] >> 32
            bad = np.flatnonzero(~clocks.fenced(lane, who, times, space.name))
            if not bad.size:
                continue
            first = int(bad[0])
            self.s.report(
                "proxy-reuse",
                inst,
                f"{space.name} memory that ordinary loads read is overwritten by the async proxy without a proxy fence between; "
                "the same thread has read it. A proxy fence is required to synchronize memory operations across different "
                "proxies",
                lane,
                hint="fence.proxy.async between the loads and the copy, or a barrier or mbarrier at which the readers arrive",
                space=space,
                byte=int(index[at[first]]) << space.shift,
                other=self.s.instruction_at(int(times[first])),
                severity="warning",
            )
            return

    def _which_fence(self, space: Space) -> str:
        """Of a kernel whose fences are for other memory."""
        proxies = self.s.clocks.proxy_of
        return f"; no fence of this kernel is for {space.name} memory" if proxies and space.name not in proxies else ""

    def operand_read(self, inst: Inst, lane: int, cta: int, addresses: Array, of_a: bool) -> None:
        """A matrix instruction that the warpgroup from a lane on, or a thread, issues will read these 16-byte chunks."""
        now = self.s.tick(inst)
        kind = inst.family.starts
        if kind == "wgmma":
            lanes = np.arange(lane, lane + 128, 32)  # one thread for each warp
            group = self.s.inflight.committed[lanes // 32]
        else:
            lanes, group = np.array([lane]), 0
        copy = Copy(inst, lanes, kind, lambda: None, group=group, time=now)
        state = self.at[now] = self._state(copy, lanes)
        state.of_a = of_a
        if kind == "wgmma":
            self.open.append(state)
        space = self.s.shadow.shared
        races = self.s.races
        first = cta * self.machine.shared.shape[1] - SHARED_BASE + addresses.reshape(-1)
        index, chosen = races._granules(space, first, np.full(first.size, lane), 16)
        self.s.barriers.check_untouched(inst, space, index, chosen, "read")
        written = space.write[index]
        if np.count_nonzero(written == 0):
            races._uninitialised(inst, space, index, chosen, np.flatnonzero(written == 0))
        if races.off:
            return
        part = alike(written)
        before = written[part]
        late = races.late(space, before, chosen[part])
        if len(late):
            races.examine(inst, space, index[part][late], chosen[part][late], before[late], 0, "read", "written")
        races.against_updates(inst, space, index, chosen, WEAK, "read")
        self._proxy(inst, space, index[part], lane, before)
        space.reads.put(index, races.numbers[lane] + (now << 32 | ASYNC), int(np.max(races.floor(space, chosen[:1]))))

    def _examine_wgmma(self, inst: Inst, space: Space, index: Array, lanes: Array, state: State) -> None:
        """Writes to what a wgmma reads: it suffices that the writer knows of one thread that it has waited."""
        clocks = self.s.clocks
        known = np.zeros(lanes.size, np.bool_)
        threads = clocks.local[state.lanes[0]] + np.arange(128)
        done = np.repeat(np.where(state.done > 0, state.done, TIME), 32)
        group = int(clocks.group_of[state.lanes[0]])
        for lane in np.unique(lanes).tolist():
            if clocks.group_of[lane] == group:
                row = clocks.release(np.array([lane])).rows[clocks.first_group + group]
                known[lanes == lane] = (row[threads] >= done).any()
        bad = np.flatnonzero(~known)
        if bad.size:
            self.s.report(
                "wgmma-source-reused",
                inst,
                "shared memory is written here that a wgmma may still read"
                + ("" if state.done.any() else ": no wgmma.wait_group has covered it"),
                lanes[bad],
                hint="the warps that issued the wgmma execute wgmma.wait_group, then arrive at a barrier that the "
                "writer waits for",
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    def _examine_tensor(self, inst: Inst, space: Space, index: Array, lanes: Array, state: State) -> None:
        """Writes to what a tcgen05 operation reads: the writer knows that it is complete."""
        bad = np.flatnonzero(~self.s.tensor.complete(lanes, int(state.lanes[0]), state.copy.time, of_a=state.of_a))
        if bad.size:
            self.s.report(
                "tcgen05-source-reused",
                inst,
                "shared memory is written here that a tcgen05 operation may still read",
                lanes[bad],
                hint="the thread that issued the operation executes tcgen05.commit, and the writer waits for that "
                "mbarrier, or for a thread that has",
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    #
    #
    #
    #
    # ------------------------------------------------------------------------------------------------------- completion

    def completed(self, copy: Copy) -> None:
        """A copy is about to tell its mbarriers."""
        state = self.at.get(copy.time)
        if state is None or not copy.barriers:
            return
        clocks = self.s.clocks
        for slot in copy.barriers:
            cta = slot * 8 // self.machine.shared.shape[1]
            clock = Clock()
            row = np.zeros(clocks.width, np.int32)
            row[: state.phases.size] = state.phases
            row[state.columns[cta]] = copy.time
            clock.rows[clocks.first_group + cta // self.machine.cluster_size] = row
            self.s.barriers.add(slot, clock)

    def waited(self, inst: Inst, mechanism: str, lanes: Array, newest: Array) -> None:
        """wait_group."""
        self._waited(mechanism, lanes, newest, self.s.tick(inst), inst.has("read"))

    def _waited(self, mechanism: str, lanes: Array, newest: Array, now: int, read: bool) -> None:
        limit = np.full(self.machine.lanes, -1)
        limit[lanes] = newest
        kept: list[State] = []
        for state in self.open:
            if state.copy.mechanism == mechanism:
                over = limit[state.lanes] > state.copy.group
                if np.count_nonzero(over):
                    state.read_done[over & (state.read_done == 0)] = now
                    if not read:
                        state.done[over & (state.done == 0)] = now
                        if np.count_nonzero(state.done) == state.done.size:
                            continue
            kept.append(state)
        self.open = kept

    def map_is_free(self, state: State, lane: int) -> bool:
        """Whether a lane knows that a copy has read its tensor map."""
        return self._over(state, state.read_done, lane)

    def _over(self, state: State, done: Array, lane: int) -> bool:
        """Whether a lane knows of a wait for a copy: for an mbarrier that tells of it, or at the time `done` for its group."""
        clocks, at = self.s.clocks, np.array([lane])
        if not state.columns:
            return bool(done[0]) and bool(clocks.ordered(at, state.numbers[:1], done[:1])[0])
        return any(
            clocks.knows(at, state.first_group + cta // self.machine.cluster_size, column, state.copy.time)[0]
            for cta, column in state.columns.items()
        )

    def seen(self, slot: int) -> None:
        """A thread waited for the phase of an mbarrier that has ended."""
        states = self.on_barrier.get(slot)
        if states:
            self.on_barrier[slot] = [s for s in states if not s.copy.done and s.copy.time]

    def exited(self, mask: np.ndarray) -> None:
        """Threads end: what they issued must be done."""
        kept: list[State] = []
        for state in self.open:
            here = mask[state.lanes]
            if not np.count_nonzero(here):
                kept.append(state)
                continue
            copy = state.copy
            left = here & (state.read_done == 0) & (state.told == 0)
            if copy.mechanism == "wgmma":
                if np.count_nonzero(left):
                    self.s.report(
                        "exit-in-flight",
                        copy.inst,
                        "threads exit while their wgmma may still be in flight",
                        state.lanes[left],
                        hint="wgmma.commit_group, then wgmma.wait_group 0, before the end",
                    )
                continue
            if np.count_nonzero(left):
                group = copy.mechanism == "group"
                what = "cp.async" if group else "bulk copy"
                self.s.report(
                    "exit-in-flight",
                    copy.inst,
                    f"threads exit while their {what} may still be in flight",
                    state.lanes[left],
                    hint="wait with cp.async.wait_all before the end"
                    if group
                    else "cp.async.bulk.commit_group, then cp.async.bulk.wait_group.read 0 in the issuing thread: "
                    "shared memory is given away when the CTA ends",
                )
            if np.count_nonzero(mask[state.lanes]) < state.lanes.size:
                kept.append(state)
        self.open = kept

    def finish(self) -> None:
        """All threads of the batch have exited."""
        for states in self.on_barrier.values():
            for state in states:
                self.s.report(
                    "exit-in-flight",
                    state.copy.inst,
                    "the kernel ends and no thread has waited for this copy's mbarrier",
                    state.lanes,
                    hint="wait for the mbarrier (mbarrier.try_wait) before the CTA ends",
                )

    #
    #
    #
    #
    # ------------------------------------------------------------------------------------------------------------
    # checks

    def examine(
        self, inst: Inst, space: Space, index: Array, lanes: Array, stamps: Array, now: str, before: str
    ) -> None:
        """Accesses to what copies have written or read."""
        times = stamps >> 32 & TIME
        single = times.size == 1
        for time in [int(times[0])] if single else np.unique(times).tolist():
            state = self.at.get(time)
            if state is None:
                continue
            both = before != "read" and reduces(inst) and reduces(state.copy.inst)
            if both and inst.family.proxy == state.copy.inst.family.proxy:
                continue  # morally strong, as operations of different proxies never are (8.7)
            at = slice(None) if single else np.flatnonzero(times == time)
            if state.copy.mechanism == "wgmma":
                self._examine_wgmma(inst, space, index[at], lanes[at], state)
            elif state.copy.mechanism == "tcgen05":
                self._examine_tensor(inst, space, index[at], lanes[at], state)
            elif state.copy.mechanism == "mbarrier":
                self._examine_barrier(inst, space, index[at], lanes[at], state, now, before)
            else:
                self._examine_group(inst, space, index[at], lanes[at], stamps[at], state, now, before)

    def _examine_barrier(
        self, inst: Inst, space: Space, index: Array, lanes: Array, state: State, now: str, before: str
    ) -> None:
        if inst is state.copy.inst and state.copy.time == self.s.clocks.now:
            return
        clocks, machine = self.s.clocks, self.machine
        known = np.zeros(lanes.size, np.bool_)
        ctas = (index << space.shift) // machine.shared.shape[1] if space.name == "shared" else index * 0 - 1
        for cta, column in state.columns.items():
            here = clocks.knows(lanes, state.first_group + cta // machine.cluster_size, column, state.copy.time)
            # each CTA of a multicast has a barrier of its own for its data
            known |= here & (ctas == cta) if before == "written" and len(state.columns) > 1 else here
        bad = np.flatnonzero(~known)
        if bad.size:
            what = "destination" if before == "written" else "source"
            self.s.report(
                "bulk-copy-not-waited",
                inst,
                f"{space.name} memory {now} here is the {what} of a bulk copy that may still be in flight: the thread "
                "has not waited for the phase of the mbarrier that the copy completes",
                lanes[bad],
                hint="wait with mbarrier.try_wait for the phase (parity) in which the copy was issued, in every thread "
                "that touches the data or before a barrier with them",
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=state.copy.inst,
            )

    def _told(self, state: State, lanes: Array, told: Array) -> Array:
        """Which lanes know by an mbarrier that a copy is complete for the threads that told it at these times."""
        known = np.zeros(lanes.size, np.bool_)
        if state.copy.mechanism == "group" and np.count_nonzero(told):
            for cta, column in state.columns.items():
                key = state.first_group + cta // self.machine.cluster_size
                for time in np.unique(told[told > 0]).tolist():
                    at = np.flatnonzero(told == time)
                    known[at] |= self.s.clocks.knows(lanes[at], key, column, time)
        return known

    def _examine_group(
        self,
        inst: Inst,
        space: Space,
        index: Array,
        lanes: Array,
        stamps: Array,
        state: State,
        now: str,
        before: str,
    ) -> None:
        copy = state.copy
        who = stamps & THREAD
        local = who - self.s.first_lane
        table = state.read_done if before == "read" else state.done
        position = np.searchsorted(state.numbers, who)
        done = table[position]
        known = self._told(state, lanes, state.told[position])
        if np.count_nonzero(known):
            index, lanes, stamps = index[~known], lanes[~known], stamps[~known]
            who, local, done = who[~known], local[~known], done[~known]
        if copy.mechanism == "group" and before == "written" and inst.family is copy.inst.family:
            # copies of one thread may overwrite each other in any order only if they are in flight together
            done = np.where((local == lanes) & (done == 0), -1, done)
        waited = done > 0
        bad = np.flatnonzero(~waited)
        bulk = copy.mechanism == "bulk_group"
        if bad.size:
            if bulk and before == "read":
                rule, message = (
                    "bulk-source-reused",
                    f"{space.name} memory {now} here is the source of a bulk copy that may still read it",
                )
                hint = (
                    "the thread that issued the copy executes cp.async.bulk.commit_group and "
                    "cp.async.bulk.wait_group.read, then a barrier lets the others write"
                )
            elif bulk:
                rule, message = (
                    "bulk-copy-not-waited",
                    f"{space.name} memory {now} here is the destination of a bulk copy that may still be in flight",
                )
                hint = "the thread that issued the copy waits with cp.async.bulk.wait_group (not .read) first"
            else:
                what = "destination" if before == "written" else "source"
                rule, message = (
                    "cp-async-not-waited",
                    f"{space.name} memory {now} here is the {what} of a cp.async that may still be in flight",
                )
                hint = "the thread that issued it executes cp.async.wait_group (or wait_all), then comes a barrier"
            self.s.report(
                rule,
                inst,
                f"{message}; it was issued by {self.s.thread(int(who[bad[0]]))}",
                lanes[bad],
                hint=hint,
                space=space,
                byte=int(index[bad[0]]) << space.shift,
                other=copy.inst,
            )
        at = np.flatnonzero(waited)
        if not at.size:
            return
        order = self.s.clocks.ordered(lanes[at], who[at], done[at])
        bad = at[~order]
        if bad.size:
            first = int(bad[0])
            verb = "wait_group" + (".read" if before == "read" else "")
            self.s.report(
                "race",
                inst,
                f"data race: {space.name} memory {now} here was {before} by a copy of "
                f"{self.s.thread(int(who[first]))}, which waited for it ({verb}), but no barrier orders this thread "
                "after that wait",
                lanes[bad],
                hint=self.s.barriers.scope_fault(int(lanes[first]), int(who[first]), int(done[first]))
                or "a wait_group is only for the thread that executes it: put a barrier after it",
                space=space,
                byte=int(index[first]) << space.shift,
                other=copy.inst,
            )
        elif before == "written" and not bulk:
            # from now on an ordinary write at the time of the wait
            here = index[at]
            same = space.write[here] == stamps[at]
            space.write[here[same]] = (done[at] << 32 | who[at])[same]
