"""Asynchronous copies (PTX ISA 9.7.10.28), and operands that matrix instructions read: everything they touch is checked when
they are issued, and kept as theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ....dialects.ptx.async_copy import CpAsyncMbarrierArrive
from ...machine.machine import Action, OperandRead
from ...machine.pending import Copy
from ...machine.program import SHARED_BASE, Inst
from ..rules.clusters import Clusters
from ..rules.mbarriers import Mbarriers
from ..rules.non_coherent import NonCoherent
from ..rules.proxies import Proxies
from ..rules.races import RACE, Races
from ..rules.registers_in_flight import RegistersInFlight
from ..rules.repeated_copies import RepeatedCopies
from ..rules.rounds import Rounds
from ..rules.tensor_maps import TensorMaps
from ..rules.uninitialised_memory import UninitialisedMemory
from ..state.clocks import Clock
from ..state.context import Context, Part, Reported
from ..state.copies import Copies, State, reduces
from ..state.order import Order, firsts, granules_of, neighbours
from ..state.phases import Phases
from ..state.shadow import ASYNC, GPU, WEAK, Space

Array = Any


class Asynchronous(Part):
    """What copies and tensor cores read and write."""

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.copies, self.phases = context.part(Order), context.part(Copies), context.part(Phases)
        self.rounds, self.races, self.proxies = context.part(Rounds), context.part(Races), context.part(Proxies)
        self.memory, self.non_coherent = context.part(UninitialisedMemory), context.part(NonCoherent)
        self.mbarriers, self.clusters = context.part(Mbarriers), context.part(Clusters)
        self.maps = context.part(TensorMaps)
        self.repeated, self.registers = context.part(RepeatedCopies), context.part(RegistersInFlight)
        self.arriving: list[State] = []
        """The copies of cp.async that are in flight at a cp.async.mbarrier.arrive."""

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.family is not CpAsyncMbarrierArrive:
            return action
        machine = self.machine

        def arrive(mask: Array) -> object:
            lanes = np.flatnonzero(machine.active(inst, mask))
            newest = machine.pending.groups[lanes] + 1
            if inst.has("noinc"):
                self.arriving = [s for s in self.copies.open if s.copy.mechanism == "group"]
            else:
                self.copies.waited("group", lanes, newest, self.context.tick(inst))
            return action(mask)

        return arrive

    def arrived(self, inst: Inst, lanes: Array, slots: Array) -> None:
        """cp.async.mbarrier.arrive: the copies that lanes have issued are complete for those who wait for the mbarrier."""
        now, clocks = self.clocks.now, self.clocks
        for slot in np.unique(slots).tolist():
            cta = self.phases.cta_of(slot)
            group = cta // self.machine.cluster_size
            column = clocks.column(group, slot)
            here = lanes[slots == slot]
            for state in self.arriving:
                mine = np.isin(state.lanes, here) & (state.told == 0)
                state.told[mine] = now
                if np.count_nonzero(mine):
                    state.columns[cta] = column
            clock = Clock()
            known = [self.rounds.known(lane) for lane in here.tolist()]
            row = clock.rows[clocks.first_group + group] = np.max(known, axis=0)
            row[column] = now
            self.phases.add(slot, clock)

    # ------------------------------------------------------------------------------------------------------------ issue

    def copy_issued(self, copy: Copy) -> None:
        """A copy begins: everything it touches must be ready."""
        inst = copy.inst
        state = self.copies.issue(copy, copy.lanes, self.context.tick(inst))
        self.maps.issued(copy, state)
        if copy.mechanism != "mbarrier":
            self.copies.open.append(state)
        if copy.mechanism == "group":
            self._issued_by_threads(state)
            return
        lane, asynchronous = int(copy.lanes[0]), inst.family.proxy == "async"
        if copy.barriers:
            state.phases = self.rounds.known(lane)
        for slot in copy.barriers:
            self.mbarriers.check_fence(inst, lane, slot, "bulk copy")
            cta = self.phases.cta_of(slot)
            self.copies.tells(state, cta, self.clocks.column(cta // self.machine.cluster_size, slot))
            self.copies.on_barrier.setdefault(slot, []).append(state)
        if self.repeated.repeats(state):
            return
        for parts, touch in ((copy.reads, self._reads), (copy.writes, self._writes)):
            for kind, start, size in parts:
                found = self._range(inst, kind, start, size, lane)
                if found is not None:
                    touch(state, *found, asynchronous)
        for rows, touch in ((copy.read_rows, self._reads), (copy.written_rows, self._writes)):
            index = None if rows is None else self._granules_of_rows(*rows)
            if index is not None:
                touch(state, self.shadow.memory, index, np.full(index.size, lane), True)

    def _issued_by_threads(self, state: State) -> None:
        """cp.async: each thread copies its own bytes."""
        copy = state.copy
        assert copy.source is not None
        assert copy.target is not None
        for (access, lanes), touch in ((copy.source, self._reads), ((copy.target, copy.lanes), self._writes)):
            for space, first, where in self.shadow.places(access, lanes):
                chosen = lanes if where is None else lanes[where]
                touch(state, space, *granules_of(space, first, chosen, access.size), False)

    def _granules_of_rows(self, starts: Array, length: int) -> Array | None:
        """The granules of rows of a tensor, without those of which others may use a part; None if there are none, or if
        they are out of bounds, which the copy says itself.
        """
        if not starts.size:
            return None
        first, last = int(starts.min()), int(starts.max()) + length - 1
        begin = self.shadow.of_address(first)
        if begin is None or self.machine.memory.find(first, last - first + 1) is None:
            return None
        shift = self.shadow.memory.shift
        low = starts + (begin - first)
        if not np.count_nonzero((low | length) & ((1 << shift) - 1)):
            return ((low >> shift)[:, None] + np.arange(length >> shift)).reshape(-1)
        ends = zip((-(-low >> shift)).tolist(), (low + length >> shift).tolist(), strict=True)
        return np.concatenate([np.arange(a, b) for a, b in ends])

    def _range(self, inst: Inst, kind: str, start: int, size: int, lane: int) -> tuple[Space, Array, Array] | None:
        """(space, granules, a lane for each) of the bytes at a flat place in shared memory or a global address."""
        space: Space = self.shadow.shared if kind == "shared" else self.shadow.memory
        first = start if kind == "shared" else self.shadow.of_address(start)
        if kind == "shared":
            self.clusters.check_peer(inst, lane, start)
        if first is None:
            return None
        index = np.arange(first >> space.shift, (first + size - 1 >> space.shift) + 1)
        return space, index, np.full(index.size, lane)

    def _reads(self, state: State, space: Space, index: Array, lanes: Array, bulk: bool) -> None:
        races, inst = self.races, state.copy.inst
        self.context.touched(inst, space, index, lanes, reads=True)
        written = space.write[index]
        self.memory.read(inst, space, index, lanes, written)
        if self.clocks.too_large:
            return
        part = slice(None) if state.copy.mechanism == "group" else firsts(written)
        races.check(inst, space, index[part], lanes[part], written[part], 0, "read", "written")
        races.against_updates(inst, space, index, lanes, WEAK, "read")
        if bulk:
            self.proxies.check(inst, space, index[part], int(lanes[0]), written[part])
        stamps = (self.order.numbers[lanes] if lanes.size > 1 else self.order.numbers[lanes[0]]) + (
            state.copy.time << 32 | ASYNC
        )
        floor = self.order.floor(space, lanes)
        space.reads.put(index, stamps, floor if lanes.size > 1 else int(np.max(floor)))

    def _writes(self, state: State, space: Space, index: Array, lanes: Array, bulk: bool) -> None:
        races, inst = self.races, state.copy.inst
        one = state.copy.mechanism != "group"
        stamp = self.order.numbers[lanes] + (state.copy.time << 32 | ASYNC)
        self.context.touched(inst, space, index, lanes, writes=True)
        where = neighbours(index) if one else index
        written = space.write[where]
        if space.name == "global" and reduces(inst):
            self.memory.read(inst, space, index, lanes, written)
        if not self.clocks.too_large:
            kind = GPU if reduces(inst) else WEAK
            strong = GPU if reduces(inst) and inst.family.proxy != "async" else WEAK
            """Operations of different proxies are never morally strong (8.7)."""
            part = firsts(written) if one else slice(None)
            races.check(inst, space, index[part], lanes[part], written[part], strong, "written", "written")
            races.against_updates(inst, space, index, lanes, strong, "written")
            if kind != WEAK:
                space.replaced(index, written, np.int64(0))
            elif space.updates is not None:
                space.updates.forget(index)
            if bulk:
                self.proxies.check(inst, space, index[part], int(lanes[0]), written[part])
            races.against_readers(inst, space, index, lanes, strong, one=one)
            if bulk and not self.context.findings.has(RACE, inst.number):
                self.proxies.check_reuse(inst, space, index, int(lanes[0]))
            if kind == WEAK:
                space.reads.forget(where)
            if space.chain is not None:
                space.chain[index] = stamp
            self.non_coherent.written(inst, space, index, lanes)
        space.write[where] = stamp

    def operands_read(self, inst: Inst, reads: Sequence[OperandRead], *, of_a: bool) -> None:
        """A matrix instruction that warpgroups, or a thread, issue will read these 16-byte chunks.

        Reads do not race with each other: those of one shape are checked at once, and one by one only if there is something to report.
        """
        shapes: dict[tuple[int, ...], list[OperandRead]] = {}
        for read in reads:
            shapes.setdefault(read.addresses.shape, []).append(read)
        together = [self._operands(same) for same in shapes.values()]
        if len(reads) == 1 or not self._nothing_wrong(inst, together):
            together = [self._operands([read]) for read in reads]
            for lanes, granules in together:
                self._check_operands(inst, lanes, granules)
        for lanes, granules in together:
            self._keep_operands(inst, lanes, granules, of_a=of_a)

    def _operands(self, reads: Sequence[OperandRead]) -> tuple[Array, Array]:
        """(lanes, the granules of each) of reads of one shape."""
        space = self.shadow.shared
        lanes, ctas = (np.array(numbers) for numbers in zip(*((r.lane, r.cta) for r in reads), strict=True))
        first = np.array([r.addresses.reshape(-1) for r in reads])
        first += (ctas * self.machine.shared.shape[1] - SHARED_BASE)[:, None]
        index, _ = granules_of(space, first.reshape(-1), lanes, 16)
        return lanes, index.reshape(lanes.size, -1)

    def _nothing_wrong(self, inst: Inst, reads: Iterable[tuple[Array, Array]]) -> bool:
        self.context.trial = True
        try:
            for lanes, granules in reads:
                self._check_operands(inst, lanes, granules)
        except Reported:
            return False
        finally:
            self.context.trial = False
        return True

    def _check_operands(self, inst: Inst, lanes: Array, granules: Array) -> None:
        """Check reads of matrix operands: the granules of each lane."""
        space, races = self.shadow.shared, self.races
        index, chosen = granules.reshape(-1), np.repeat(lanes, granules.shape[1])
        self.context.touched(inst, space, index, chosen, reads=True)
        written = space.write[granules]
        self.memory.read(inst, space, index, chosen, written.reshape(-1))
        if self.clocks.too_large:
            return
        part = firsts(written)
        before = written.reshape(-1)[part]
        races.check(inst, space, index[part], chosen[part], before, 0, "read", "written")
        races.against_updates(inst, space, index, chosen, WEAK, "read")
        self.proxies.check_all(inst, space, index[part], chosen[part], before)

    def _keep_operands(self, inst: Inst, lanes: Array, granules: Array, *, of_a: bool) -> None:
        """Reads of matrix operands have begun."""
        kind, space = inst.family.starts, self.shadow.shared
        times: list[int] = []
        for lane in lanes.tolist():
            times.append(self.context.tick(inst))
            if kind == "wgmma":
                by = np.arange(lane, lane + 128, 32)  # one thread for each warp
                group = self.registers.committed[by // 32]
            else:
                by, group = np.array([lane]), 0
            state = self.copies.issue(Copy(inst, by, kind, lambda: None, group=group), by, times[-1])
            state.of_a = of_a
            if kind == "wgmma":
                self.copies.open.append(state)
        if self.clocks.too_large:
            return
        stamps = self.order.numbers[lanes] + (np.array(times) << 32 | ASYNC)
        floor = np.broadcast_to(self.order.floor(space, lanes), lanes.shape)
        count = granules.shape[1]
        space.reads.put(granules.reshape(-1), np.repeat(stamps, count), np.repeat(floor, count))

    # ------------------------------------------------------------------------------------------------------- completion

    def copy_completed(self, copy: Copy) -> None:
        """A copy is about to tell its mbarriers."""
        state = self.copies.at.get(copy.time)
        if state is None or not copy.barriers:
            return
        clocks = self.clocks
        for slot in copy.barriers:
            cta = self.phases.cta_of(slot)
            clock = Clock()
            row = np.zeros(clocks.width, np.int32)
            row[: state.phases.size] = state.phases
            row[state.columns[cta]] = copy.time
            clock.rows[clocks.first_group + cta // self.machine.cluster_size] = row
            self.phases.add(slot, clock)

    def groups_waited(self, inst: Inst, mechanism: str, lanes: Array, newest: Array) -> None:
        self.copies.waited(mechanism, lanes, newest, self.context.tick(inst), read=inst.has("read"))
