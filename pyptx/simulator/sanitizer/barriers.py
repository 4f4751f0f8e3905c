"""Barriers of CTAs, clusters and warps, mbarriers (PTX ISA 9.7.15): what they order, and how they are misused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.async_copy import CpAsyncMbarrierArrive
from ...dialects.ptx.barrier import BarWarp
from ...dialects.ptx.mbarrier import MbarrierCompleteTx, MbarrierExpectTx
from ...dialects.ptx.warp import Shuffle
from ..machine.memory import Access
from ..machine.observe import Action
from ..machine.program import Imm, Inst, Operand
from ..machine.registry import Barrier, Collective
from ..semantics.warp import source_lanes
from .asynchronous import fenced_spaces
from .clocks import Clock
from .patterns import Patterns, Released, scope_of
from .rounds import Rounds
from .shadow import ASYNC, CLUSTER, GPU, THREAD, Space

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
MOST_MISSED = 16
"""Waits of a CTA whose scope is kept in mind."""


@dataclass(slots=True)
class Initialisation:
    """An mbarrier.init: who, when, and whether a fence made it visible to clusters and the async proxy."""

    lane: int
    time: int
    inst: Inst
    fenced: bool = False


class Barriers:
    """Barriers and mbarriers of a launch. An mbarrier is known by its 8-byte word of all shared memory."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        self.machine = sanitizer.machine
        lanes = self.machine.lanes
        self.rounds = Rounds(sanitizer)
        self.waited = np.zeros(lanes, np.int64)
        """When each lane last waited for an mbarrier."""
        self.at = np.full(lanes, -1, np.int64)
        """The instruction at which each lane waits."""

    def start(self) -> None:
        self.rounds.start()
        self.arrivals: dict[tuple[int, int], Clock] = {}
        self.current: dict[int, Released] = {}
        """What was released to the running phase of each mbarrier."""
        self.ended: dict[int, Released] = {}
        """The same for the phase before."""
        self.made: dict[int, Initialisation] = {}
        self.live = np.zeros(self.s.shadow.shared.write.size, np.bool_)
        """The granules of shared memory that belong to mbarriers."""
        self.counts: dict[tuple[int, int], tuple[int, Inst]] = {}
        """(barrier, CTA) -> threads that this round is for, and who said so first."""
        self.come: dict[tuple[int, int], int] = {}
        """(barrier, CTA) -> threads that have come in this round."""
        self.visits: dict[int, dict[int, tuple[int, Inst]]] = {}
        """CTA -> when threads of others arrived last at one of its mbarriers."""
        self.missed: dict[int, deque[tuple[Clock, Inst]]] = {}
        """CTA -> what its threads did not learn at waits for mbarriers, for a scope did not reach them, and the last waits."""
        self.begun = np.zeros(self.machine.ctas, np.bool_)
        """CTAs that may know that all CTAs of their cluster have begun: one of their threads has waited for the cluster, or
        for an mbarrier, which another CTA may have completed.
        """
        self.cluster: dict[int, Clock] = {}
        self.cluster_ended: dict[int, Clock] = {}
        self.committed = Clock()
        """What the threads knew that execute tcgen05.commit now."""
        self.at[...] = -1
        self.waited[...] = 0

    # -------------------------------------------------------------------------------------------------- binding

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences in ("mbarrier_init", "async"):
            action = self._fence(inst, action, inst.fences == "async")
        what = self.machine.meaning(inst)
        if isinstance(what, Collective):
            action = self._collective(inst, what, action)
        if inst.family.gathers == "tcgen05":
            action = self._commit(inst, action)
        return action

    def _commit(self, inst: Inst, action: Action) -> Action:
        """tcgen05.commit arrives when the thread's tcgen05 operations are done, and orders what came before them."""
        machine = self.machine

        def commit(mask: Array) -> object:
            lanes = np.flatnonzero(machine.active(inst, mask))
            self.s.tick(inst)
            self.committed = Clock() if self.s.clocks.too_large or not lanes.size else self.s.tensor.commit(inst, lanes)
            return action(mask)

        return commit

    def _fence(self, inst: Inst, action: Action, proxy: bool) -> Action:
        machine = self.machine

        def fence(mask: Array) -> object:
            lanes = np.flatnonzero(machine.active(inst, mask))
            self.s.tick(inst)
            if self.made:
                there = set(lanes.tolist())
                for made in self.made.values():
                    made.fenced |= made.lane in there
            if proxy and not self.s.clocks.too_large:
                self.s.clocks.fence_proxy(lanes, fenced_spaces(inst))
            return action(mask)

        return fence

    def _collective(self, inst: Inst, what: Collective, action: Action) -> Action:
        machine = self.machine
        operand = what.mask
        if isinstance(operand, str):
            return action
        if operand is None:

            def whole(mask: Array) -> object:
                here = machine.ballot(machine.active(inst, mask))
                bad = np.flatnonzero((here != 0) & (here != 0xFFFF_FFFF))
                if bad.size:
                    self.s.report(
                        "warp-incomplete",
                        inst,
                        f"{inst.opcode} is executed by {int(np.bitwise_count(here[bad[0]]))} threads of a warp: all 32 "
                        "must execute it together",
                        32 * bad + np.bitwise_count((here[bad] & -here[bad].astype(np.int64)) - 1),
                        hint="a block of whole warps, and no branch around it that only some threads of a warp take",
                    )
                return action(mask)

            return whole if inst.family.whole_warp else action
        if inst.family is Shuffle:
            action = self._shuffle(inst, operand, action)
        source = machine.source(operand, "u32")
        constant = int(source[0]) if isinstance(operand, Imm) else None
        sync = inst.family is BarWarp

        def masked(mask: Array) -> object:
            executing = machine.active(inst, mask)
            if constant != 0xFFFF_FFFF:
                self._check_members(inst, executing, source)
            if sync:
                self._warp_sync(inst, executing, source)
            return action(mask)

        return masked if sync or constant != 0xFFFF_FFFF else action

    def _shuffle(self, inst: Inst, members: Operand, action: Action) -> Action:
        """shfl.sync reads the registers of threads that execute it and that the membermask names."""
        machine = self.machine
        mode = inst.one_of("up", "down", "bfly", "idx") or "idx"
        b, c, mask_of = (machine.source(o, "u32") for o in (*inst.operands[2:4], members))
        lane = machine.lane_in_warp
        start = machine.lane_numbers - lane
        whole = isinstance(members, Imm) and int(members.value) & 0xFFFF_FFFF == 0xFFFF_FFFF

        def shuffle(mask: Array) -> object:
            here = machine.active(inst, mask)
            if not (whole and np.isin(machine.ballot(here), (0, 0xFFFF_FFFF)).all()):
                source, _ = source_lanes(mode, lane, b, c)
                bad = here & ~(here[start + source] & (mask_of >> source.astype(np.uint32) & np.uint32(1) != 0))
                if np.count_nonzero(bad):
                    first = int(bad.argmax())
                    self.s.report(
                        "shuffle-source",
                        inst,
                        f"lane {int(lane[first])} reads the register of lane {int(source[first])}, which does not "
                        "execute this shuffle or is not in the membermask: the result is undefined",
                        np.flatnonzero(bad),
                        hint="name all lanes that are read in the mask, let all of them execute the shuffle, and limit "
                        "the range with the operand c",
                    )
            return action(mask)

        return shuffle

    def _check_members(self, inst: Inst, executing: Array, source: Array) -> None:
        machine = self.machine
        members = np.broadcast_to(source, machine.lanes)
        outside = executing & (members >> machine.lane_in_warp & np.uint32(1) == 0)
        if np.count_nonzero(outside):
            lanes = np.flatnonzero(outside)
            self.s.report(
                "membermask",
                inst,
                f"the thread executes {inst.opcode} with a membermask (0x{int(members[lanes[0]]):08x}) that does not "
                "contain it",
                lanes,
                hint="the mask names exactly the threads of the warp that execute the instruction together",
            )
            return
        present = machine.per_lane(machine.ballot(executing))
        both = executing.reshape(-1, 32)
        table = members.reshape(-1, 32)
        low = np.where(both, table, 0xFFFF_FFFF).min(axis=1)
        high = np.where(both, table, 0).max(axis=1)
        differ = np.flatnonzero((low != high) & both.any(axis=1))
        # threads that name each other must name the same set
        for warp in differ.tolist():
            masks = np.unique(table[warp][both[warp]]).tolist()
            for i, a in enumerate(masks):
                if any(a & b for b in masks[i + 1 :]):
                    lanes = 32 * warp + np.flatnonzero(both[warp])
                    self.s.report(
                        "membermask",
                        inst,
                        f"threads of a warp execute {inst.opcode} together with different membermasks: "
                        + ", ".join(f"0x{m:08x}" for m in masks[:4]),
                        lanes,
                        hint="compute the mask once, before the threads diverge, and use the same one in all of them",
                    )
                    return
        del present

    def _warp_sync(self, inst: Inst, executing: Array, source: Array) -> None:
        machine, clocks = self.machine, self.s.clocks
        self.s.tick(inst)
        if clocks.too_large:
            return
        alive = machine.ballot(machine.executing(None))
        here = machine.ballot(executing)
        members = np.broadcast_to(source, machine.lanes)
        whole = machine.per_lane((here == alive) & (here != 0)) & executing
        whole &= members & machine.per_lane(alive) == machine.per_lane(alive)
        if np.count_nonzero(whole):
            full = np.repeat(whole.reshape(-1, 32).any(axis=1), 32) & executing
            clocks.join_warps(full)
        rest = executing & ~whole
        for warp in np.flatnonzero(rest.reshape(-1, 32).any(axis=1)).tolist():
            lanes = 32 * warp + np.flatnonzero(rest[32 * warp : 32 * warp + 32])
            for value in np.unique(members[lanes]).tolist():
                clocks.join(lanes[members[lanes] == value])

    # ------------------------------------------------------------------------------------------- barriers of a CTA

    def waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self.at[mask] = inst.number
        self._check_count(inst, number, mask)

    def _check_count(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        """All who meet at a barrier name the same number of threads."""
        machine = self.machine
        what = machine.meaning(inst)
        assert isinstance(what, Barrier)
        if what.count is None:
            counts = np.array([machine.padded], np.int64)
        else:
            counts = machine.source(what.count, "u32").astype(np.int64)
        lanes = np.flatnonzero(mask)
        firsts = lanes[np.flatnonzero(np.diff(machine.cta_of_lane[lanes], prepend=-1))]
        for lane in firsts.tolist():
            key = number, int(machine.cta_of_lane[lane])
            count = int(counts[lane if counts.size > 1 else 0])
            known, other = self.counts.setdefault(key, (count, inst))
            if count < machine.launch.threads and not self.s.clocks.too_large:
                self.rounds.at_barrier(inst, number, key[1], lanes[machine.cta_of_lane[lanes] == key[1]])
            self.come[key] = come = self.come.get(key, 0) + int(np.count_nonzero(machine.cta_of_lane[lanes] == key[1]))
            if come > known == count:
                self.s.report(
                    "barrier-count",
                    inst,
                    f"{come} threads are at barrier {number} at once, and a round of it is for {count}: which of them meet is "
                    "left to chance",
                    lane,
                    hint="give each set of threads that meet a barrier number of its own",
                    key="many",
                )
            if known != count:
                self.s.report(
                    "barrier-count",
                    inst,
                    f"a barrier is for {count} threads here and for {known} elsewhere in the same round",
                    lane,
                    hint="everyone who arrives at or waits for a barrier in one round names the same number of threads; "
                    "without a number it is all threads of the CTA",
                    other=other,
                )

    def arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self._check_count(inst, number, mask)
        self.s.tick(inst)
        machine = self.machine
        if self.s.clocks.too_large:
            return
        for cta in np.unique(machine.cta_of_lane[mask]).tolist():
            start = cta * machine.padded
            lanes = start + np.flatnonzero(mask[start : start + machine.padded])
            clock = self.s.clocks.release(lanes)
            known = self.arrivals.get((number, cta))
            if known is not None:
                clock.merge(known)
            self.arrivals[number, cta] = clock

    def released(self, number: int, mask: np.ndarray) -> None:
        machine, clocks = self.machine, self.s.clocks
        first = int(self.at[int(mask.argmax())])
        instructions = machine.program.instructions
        self.s.tick(instructions[first])
        self._check_divergence(mask, first)
        self.at[mask] = -1
        ctas = machine.ctas
        for cta in np.flatnonzero(mask.reshape(ctas, -1).any(axis=1)).tolist():
            self.counts.pop((number, cta), None)
            self.come.pop((number, cta), None)
        if clocks.too_large:
            return
        if self.s.races.patterns.waiting:
            for cta in np.unique(machine.cta_of_lane[mask]).tolist():
                start = cta * machine.padded
                self.s.races.patterns.met(start + np.flatnonzero(mask[start : start + machine.padded]))
        here: Array = mask.reshape(ctas, -1)
        if self.rounds.running:
            for cta in np.flatnonzero(here.any(axis=1)).tolist():
                self.rounds.barrier_released(number, cta, cta * machine.padded + np.flatnonzero(here[cta]))
        alive: Array = machine.executing(None).reshape(ctas, -1)
        some = here.any(axis=1)
        full = some & (here == alive).all(axis=1)
        if self.arrivals:
            for _, cta in [k for k in self.arrivals if k[0] == number and some[k[1]]]:
                full[cta] = False
        if full.any():
            clocks.join_ctas(mask & np.repeat(full, machine.padded) if not full.all() else mask)
        for cta in np.flatnonzero(some & ~full).tolist():
            lanes = cta * machine.padded + np.flatnonzero(here[int(cta)])
            clocks.join(lanes, self.arrivals.pop((number, cta), None))
        self.s.races.synchronised()

    def _check_divergence(self, mask: np.ndarray, first: int) -> None:
        """The threads of a warp must execute an aligned barrier together (9.7.15.1)."""
        machine = self.machine
        instructions = machine.program.instructions
        here = machine.ballot(mask)
        began = machine.ballot(machine.live)
        alive = machine.ballot(machine.executing(None))
        table = self.at.reshape(-1, 32)
        both = mask.reshape(-1, 32)
        warps = here != 0
        low = np.where(both, table, 1 << 60).min(axis=1)
        high = np.where(both, table, -1).max(axis=1)
        bad = np.flatnonzero(warps & ((low != high) | (here != began)))
        for warp in bad.tolist():
            lanes = 32 * warp + np.flatnonzero(both[warp])
            inst = instructions[int(self.at[lanes[0]])]
            if not inst.family.aligned and not inst.has("aligned"):
                continue
            other = None
            if low[warp] != high[warp]:
                other = instructions[int(high[warp] if low[warp] == inst.number else low[warp])]
            ended = other is None and here[warp] == alive[warp]
            if other is not None:
                message = "threads of one warp execute different barrier instructions"
            elif ended:
                message = (
                    f"{lanes.size} threads of a warp execute this barrier, and the others have ended without it. A barrier "
                    "does not wait for threads that have exited, but an aligned one is for all threads of a warp"
                )
            else:
                message = (
                    f"{lanes.size} of the {int(np.bitwise_count(alive[warp]))} living threads of a warp execute this "
                    "barrier: all of them must, together"
                )
            self.s.report(
                "barrier-divergent",
                inst,
                message,
                lanes,
                hint="move the barrier out of the branch, or use barrier.sync (without .aligned)",
                other=other,
                severity="warning" if ended else "error",
            )

    def exited(self, mask: np.ndarray) -> None:
        """Nothing is wrong with exiting while others wait: barriers count the living. But other CTAs must have ended
        their accesses to shared memory when the last thread of a CTA exits.
        """
        machine = self.machine
        if machine.cluster_size == 1 or self.s.races.off:
            return
        left = (machine.executing(None) & ~mask).reshape(machine.ctas, -1).any(axis=1)
        for cta in np.flatnonzero(mask.reshape(machine.ctas, -1).any(axis=1) & ~left).tolist():
            self._check_visitors(int(cta))

    def _visit(self, inst: Inst, lanes: Array, cta: int) -> None:
        for lane in lanes[self.machine.cta_of_lane[lanes] != cta].tolist():
            self.visits.setdefault(cta, {})[lane] = self.s.clocks.now, inst

    def _check_visitors(self, cta: int) -> None:
        """The threads of a CTA know of all accesses of others to its shared memory."""
        machine, space = self.machine, self.s.shadow.shared
        size = machine.shared.shape[1] >> space.shift
        first = cta * size
        start = self.s.first_lane + cta * machine.padded
        row: Array = None
        if cta in self.visits:
            row = self._known_at_exit(cta)
            for lane, (time, inst) in self.visits.pop(cta).items():
                if row[self.s.clocks.local[lane]] < time:
                    self._report_visitor(inst, "arrived at", lane)
        for verb, table in (("written", space.write), ("read", space.read)):
            stamps = table[first : first + size]
            who = stamps & THREAD
            at = np.flatnonzero((stamps != 0) & (stamps < ASYNC) & ((who < start) | (who >= start + machine.padded)))
            if not at.size:
                continue
            if row is None:
                row = self._known_at_exit(cta)
            late = at[row[who[at] % self.s.clocks.per] < stamps[at] >> 32]
            if late.size:
                inst = self.s.instruction_at(int(stamps[late[0]] >> 32))
                lane = int(who[late[0]]) - self.s.first_lane
                self._report_visitor(inst, verb, lane, space, int(first + late[0]) << space.shift)

    def _known_at_exit(self, cta: int) -> Array:
        """What all threads of a CTA know of its cluster."""
        machine, clocks = self.machine, self.s.clocks
        everyone = cta * machine.padded + np.flatnonzero(machine.live[cta * machine.padded :][: machine.padded])
        return clocks.release(everyone).rows[clocks.first_group + cta // machine.cluster_size]

    def _report_visitor(
        self, inst: Inst, verb: str, lane: int, space: Space | None = None, byte: int | None = None
    ) -> None:
        what = "an mbarrier" if space is None else "shared memory"
        self.s.report(
            "cluster-exit",
            inst,
            f"{what} of another CTA of the cluster is {verb} here, and that CTA exits without a synchronisation after it: "
            "the memory may be gone by then",
            lane,
            hint="all CTAs of the cluster meet at barrier.cluster.arrive and .wait before they exit",
            space=space,
            byte=byte,
        )

    # ----------------------------------------------------------------------------------------- barriers of clusters

    def cluster_arrived(self, inst: Inst, mask: np.ndarray) -> None:
        self.s.tick(inst)
        clocks = self.s.clocks
        if clocks.too_large:
            return
        lanes = np.flatnonzero(mask)
        fences = self.s.races.patterns.fences.by_scope[CLUSTER]
        if inst.has("relaxed"):  # releases what the threads' last fences did
            lanes = lanes[fences.time[lanes] > 0] if fences is not None else lanes[:0]
        groups = clocks.group_of[lanes]
        for g in np.unique(groups).tolist():
            here = lanes[groups == g]
            clock = clocks.release(here, fences if inst.has("relaxed") else None)
            known = self.cluster.get(g)
            if known is not None:
                clock.merge(known)
            self.cluster[g] = clock

    def cluster_completed(self, mask: np.ndarray) -> None:
        for g in np.unique(self.s.clocks.group_of[mask]).tolist():
            self.cluster_ended[g] = self.cluster.pop(g, Clock())

    def cluster_released(self, mask: np.ndarray) -> None:
        clocks = self.s.clocks
        lanes = np.flatnonzero(mask)
        self.begun[self.machine.cta_of_lane[lanes]] = True
        if clocks.too_large:
            return
        groups = clocks.group_of[lanes]
        for g in np.unique(groups).tolist():
            clocks.acquire(lanes[groups == g], self.cluster_ended.get(g, Clock()))

    def check_begun(self, inst: Inst, lanes: Array, space: Space, index: Array) -> None:
        """The CTAs whose shared memory is touched must have begun."""
        owner = self.machine.cta_of_lane[lanes]
        far = np.flatnonzero(~self.begun[owner] & ((index << space.shift) // self.machine.shared.shape[1] != owner))
        if far.size:
            self.s.report(
                "cluster-start",
                inst,
                "shared memory of another CTA of the cluster is touched, which may not have begun",
                lanes[far],
                hint="all CTAs of the cluster meet at barrier.cluster.arrive and .wait first (.relaxed will do)",
                space=space,
                byte=int(index[far[0]]) << space.shift,
            )

    def check_peer(self, inst: Inst, lane: int, byte: int) -> None:
        """The CTA whose shared memory is touched must have begun and not have exited."""
        machine = self.machine
        cta = byte // machine.shared.shape[1]
        if cta == machine.cta_of_lane[lane]:
            return
        shared = self.s.shadow.shared
        self.check_begun(inst, np.array([lane]), shared, np.array([byte >> shared.shift]))
        start = cta * machine.padded
        if not np.count_nonzero(machine.executing(None)[start : start + machine.padded]):
            self.s.report(
                "cluster-exit",
                inst,
                "shared memory of a CTA of the cluster that has already exited is touched",
                lane,
                hint="all CTAs of the cluster meet at barrier.cluster.arrive and .wait before they exit",
                space=self.s.shadow.shared,
                byte=byte,
            )

    # ---------------------------------------------------------------------------------------------------- mbarriers

    def add(self, slot: int, clock: Clock) -> None:
        """Tell all who wait for the running phase of an mbarrier."""
        cta = slot * 8 // self.machine.shared.shape[1]
        self.current.setdefault(slot, Released()).add(
            cta, cta // self.machine.cluster_size, GPU, clock, self.s.races.patterns.narrow
        )

    def mbarrier_initialised(self, inst: Inst, lanes: Array, slots: Array) -> None:
        now = self.s.tick(inst)
        space = self.s.shadow.shared
        races = self.s.races
        for lane, slot in zip(lanes.tolist(), slots.tolist(), strict=True):
            index = self._granules(slot)
            who = np.full(index.size, lane)
            known = self.made.get(slot)
            stamps = space.write[index]
            if known is not None and int(stamps[0]) >> 32 == known.time:
                self.s.report(
                    "mbarrier-reinit",
                    inst,
                    "mbarrier.init of an mbarrier that is in use",
                    lane,
                    hint="mbarrier.inval first, or initialise once: a barrier runs through its phases by itself",
                    space=space,
                    byte=8 * slot,
                    other=known.inst,
                )
            if not races.off:
                late = races.late(space, stamps, who)
                if len(late):
                    races.examine(inst, space, index[late], who[late], stamps[late], 0, "initialised", "written")
            space.write[index] = races.numbers[lane] + (now << 32)
            self.made[slot] = Initialisation(lane, now, inst)
            self.live[index] = True
            for released in (self.current, self.ended):
                released.pop(slot, None)
            self.rounds.initialised(slot)

    def invalidating(self, access: Access, store: Callable[..., Any]) -> Callable[..., Any]:
        """The store of mbarrier.inval."""

        def checked(lanes: Array, values: Array) -> None:
            now = self.s.tick(access.inst)
            everyone = self.machine.lane_numbers if lanes is None else lanes
            for space, first, where in self.s.shadow.places(access, lanes):
                if space.name == "shared":
                    chosen = everyone if where is None else everyone[where]
                    for lane, byte in zip(chosen.tolist(), first.tolist(), strict=True):
                        self._invalidate(access.inst, lane, byte // 8, now)
            store(lanes, values)

        return checked

    def _invalidate(self, inst: Inst, lane: int, slot: int, now: int) -> None:
        races, space = self.s.races, self.s.shadow.shared
        index = self._granules(slot)
        if self.made.pop(slot, None) is None:
            self.s.report(
                "mbarrier-invalid",
                inst,
                "mbarrier.inval of memory that holds no mbarrier: it was not initialised, or is already invalid",
                lane,
                hint="one thread invalidates each mbarrier once, after its last use",
                space=space,
                byte=8 * slot,
            )
        elif not races.off:
            who, stamps = np.full(index.size, lane), space.write[index]
            late = races.late(space, stamps, who)
            if len(late):
                races.examine(inst, space, index[late], who[late], stamps[late], 0, "invalidated", "written")
        self.live[index] = False
        space.write[index] = races.numbers[lane] + (now << 32)

    def _granules(self, slot: int) -> Array:
        """Those of an mbarrier."""
        count = 8 >> self.s.shadow.shared.shift
        return np.arange(slot * count, (slot + 1) * count)

    def check_untouched(self, inst: Inst, space: Space, index: Array, lanes: Array, verb: str) -> None:
        """Nothing but mbarrier operations touches an mbarrier before it is invalidated."""
        if not self.made or space.name != "shared":
            return
        at = np.flatnonzero(self.live[index])
        if not at.size:
            return
        byte = int(index[at[0]]) << space.shift
        slot = byte // 8
        made = self.made[slot]
        if verb == "written":
            self.live[self._granules(slot)] = False  # once told, it is memory like any other
        self.s.report(
            "mbarrier-touched",
            inst,
            f"the memory of an mbarrier is {verb} here, and the mbarrier has not been invalidated",
            lanes[at],
            hint="mbarrier.inval comes before the memory is used for anything else; only mbarrier instructions touch an "
            "mbarrier",
            space=space,
            byte=8 * slot,
            other=made.inst,
            role="its initialisation",
        )

    def mbarrier_updated(self, inst: Inst, lanes: Array, slots: Array, ended: set[int], later: Array) -> None:
        self.s.tick(inst)
        if not self.s.clocks.too_large:
            for slot in np.unique(slots).tolist():
                mine = slots == slot
                self.rounds.updated(inst, slot, lanes[mine], later[mine])
        copies = inst.family.access == "copy" or bool(inst.family.gathers)
        if not copies:
            self._visible(inst, lanes, slots, "used")
        if inst.family is CpAsyncMbarrierArrive and not self.s.clocks.too_large:
            self.s.copies.arrived(inst, lanes, slots)
        counts = (MbarrierExpectTx, MbarrierCompleteTx)
        if not copies and inst.family.access == "object" and inst.family not in counts:
            if self.s.clocks.too_large:
                return
            order = np.argsort(slots, kind="stable")
            cuts = np.flatnonzero(np.diff(slots[order])) + 1
            for part in np.split(order, cuts):
                slot, here = int(slots[part[0]]), lanes[part]
                self._release(inst, slot, here)
                self._visit(inst, here, slot * 8 // self.machine.shared.shape[1])
        if inst.family.gathers == "tcgen05":
            for slot in np.unique(slots).tolist():
                self.add(slot, self.committed)
        for slot in ended:
            self.ended[slot] = self.current.pop(slot, None) or Released()
            if not self.s.clocks.too_large:
                cta = slot * 8 // self.machine.shared.shape[1]
                over = self.rounds.phase_ended(slot)
                narrow = self.s.races.patterns.narrow
                self.ended[slot].add(cta, cta // self.machine.cluster_size, GPU, over, narrow)

    def _release(self, inst: Inst, slot: int, lanes: Array) -> None:
        """Threads release to the running phase of an mbarrier, if the arrival is not relaxed or a fence came before it."""
        into, narrow = self.current.setdefault(slot, Released()), self.s.races.patterns.narrow
        if not inst.has("relaxed"):
            for cta in np.unique(self.machine.cta_of_lane[lanes]).tolist():
                here = lanes[self.machine.cta_of_lane[lanes] == cta]
                into.add(cta, cta // self.machine.cluster_size, scope_of(inst), self.s.clocks.release(here), narrow)
        else:
            self.s.races.patterns.write(inst, ("mbarrier", slot, 8), lanes, update=True, into=into)

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        if not np.count_nonzero(done):
            self.s.progress.polled(inst, lanes, slots)
            return
        if np.count_nonzero(done) < done.size:
            self.s.progress.polled(inst, lanes[~done], slots[~done])
            lanes, slots = lanes[done], slots[done]
        self.s.progress.passed(lanes)
        if inst.has("relaxed"):
            self.rounds.loose.update(slots.tolist())
        self.waited[lanes] = self.s.clocks.now
        self.begun[self.machine.cta_of_lane[lanes]] = True
        self._visible(inst, lanes, slots, "waited for")
        for slot in np.unique(slots).tolist():
            self.s.copies.seen(slot)
            released = self.ended.get(slot)
            if released is not None and not self.s.clocks.too_large:
                self._acquire(inst, slot, lanes[slots == slot], released)

    def _acquire(self, inst: Inst, slot: int, lanes: Array, released: Released) -> None:
        patterns: Patterns = self.s.races.patterns
        if inst.has("relaxed"):
            patterns.read(inst, ("mbarrier", slot, 8), lanes, released)
            return
        for cta in np.unique(self.machine.cta_of_lane[lanes]).tolist():
            here = lanes[self.machine.cta_of_lane[lanes] == cta]
            seen = released.seen_by(cta, cta // self.machine.cluster_size)
            self.s.clocks.acquire(here, seen[scope_of(inst) - 1])
            if self.machine.cluster_size > 1 and (released.near or released.mid):
                hidden = [c for k, c in released.near.items() if k != cta]
                hidden += [released.far, *released.mid.values()] if inst.has("cta") else []
                known = self.missed.setdefault(cta, deque(maxlen=MOST_MISSED))
                known.extend((clock.copy(), inst) for clock in hidden if clock.rows)

    def scope_fault(self, lane: int, who: int, time: int) -> str | None:
        """The hint where a thread has waited for an mbarrier at which another arrived after this time, and the scope of
        the arrival or of the wait does not reach the other's CTA.
        """
        clocks, machine = self.s.clocks, self.machine
        key, local = who // clocks.per, who % clocks.per
        for clock, wait in self.missed.get(int(machine.cta_of_lane[lane]), ()):
            row = clock.rows.get(key)
            if row is None or local >= row.size or row[local] < time:
                continue
            if wait.has("cta"):
                return f"`{wait.text}`{_at(wait)} has the scope .cta: an acquire of what another CTA released needs .cluster"
            for inst in machine.program.instructions:
                if inst.has("cta") and (inst.family.access == "object" or inst.fences):
                    return f"`{inst.text}`{_at(inst)} has the scope .cta: a release to threads of another CTA needs .cluster"
        return None

    def _visible(self, inst: Inst, lanes: Array, slots: Array, how: str) -> None:
        """The initialisation must happen before the use."""
        races = self.s.races
        space = self.s.shadow.shared
        stamps = space.write[slots * (8 >> space.shift)]
        machine = self.machine
        if not races.off:
            late = races.late(space, stamps, lanes)
            if len(late):
                index = slots[late] * (8 >> space.shift)
                races.examine(inst, space, index, lanes[late], stamps[late], GPU, how, "initialised")
        if machine.cluster_size > 1:
            cta = slots * 8 // machine.shared.shape[1]
            for i in np.flatnonzero(cta != machine.cta_of_lane[lanes]).tolist():
                self.check_fence(inst, int(lanes[i]), int(slots[i]), "thread of another CTA")
                self.check_peer(inst, int(lanes[i]), 8 * int(slots[i]))

    def check_fence(self, inst: Inst, lane: int, slot: int, by: str) -> None:
        """An mbarrier that a copy or another CTA uses was made visible by a fence."""
        made = self.made.get(slot)
        if made is None or made.fenced:
            return
        number = np.array([made.lane + self.s.first_lane])
        clocks, time = self.s.clocks, np.array([made.time])
        if any(clocks.fenced(lane, number, time, space)[0] for space in clocks.proxy_of):
            return
        self.s.report(
            "mbarrier-init-fence",
            inst,
            f"an mbarrier is used by a {by}, and no fence followed its initialisation",
            lane,
            hint="the thread that initialises executes fence.mbarrier_init.release.cluster or fence.proxy.async, then "
            "comes the barrier of the CTA or cluster",
            space=self.s.shadow.shared,
            byte=8 * slot,
            other=made.inst,
            severity="error" if self.machine.cluster_size > 1 else "warning",
        )


def _at(inst: Inst) -> str:
    return f" at line {inst.line}" if inst.line is not None else ""
