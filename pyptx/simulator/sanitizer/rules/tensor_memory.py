"""Tensor memory (PTX ISA 9.7.18.6): which accesses are complete, and for whom.

Each word knows the last operation that wrote and the last that read it. What one thread issues (`mma`, `cp`, `shift`)
runs in order, and is complete for those who have waited for an mbarrier that a later tcgen05.commit of that thread
tells. What a warp does (`ld`, `st`) is complete when it has executed wait::ld or wait::st. Between threads,
fence::before_thread_sync stands before the synchronisation, which a commit implies, and fence::after_thread_sync after.
Where only the fences are missing, the accesses are complete and in order as written, and a GPU does what is written; the
fences keep ptxas from moving them. So that is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....dialects.ptx.tcgen05 import Tcgen05Alloc, Tcgen05FenceAfter, Tcgen05FenceBefore
from ...machine.machine import Action
from ...machine.program import Inst
from ...machine.tensor_memory import LANES, MOST_COLUMNS
from ..rule import Rule, Tolerated
from ..state.clocks import Clock
from ..state.completion import Completion
from ..state.context import Context, Part
from ..state.shadow import Space
from .clusters import Clusters
from .exits import EXIT_IN_FLIGHT
from .races import RACE

Array = Any
ISSUED = "tcgen05"
"""What operations start that single threads issue; see `Instruction.starts`."""
PAIR = "cta_group::2"
READS_OF_A = "sync_restrict::shared::read::mma::a"
UNINITIALISED_TENSOR = Rule(
    "uninitialised-tensor",
    ("9.7.18.7",),
    "a read of tensor memory that nobody has written since it was allocated",
    "tensor memory is undefined after tcgen05.alloc: the first mma of a tile disables its input D (enable-input-d), or tcgen05.st or "
    "cp writes it first",
)
TENSOR_LEAK = Rule(
    "tensor-leak",
    ("9.7.18.7.1",),
    "a CTA ends and has not given back columns of tensor memory",
    "a warp of the CTA executes tcgen05.dealloc before the CTA ends, after all accesses: other CTAs of the SM wait for the columns",
)
TCGEN05_PEER = Rule(
    "tcgen05-peer",
    ("9.7.18.7.1",),
    "one CTA of a pair allocates, touches or gives back tensor memory while the other may not have begun or has exited",
    "both CTAs of the pair meet at barrier.cluster.arrive and .wait, or at mbarriers of both, before they allocate and before they "
    "give back",
)
TCGEN05_WAIT = Rule(
    "tcgen05-wait",
    ("9.7.18.8.5",),
    "what `tcgen05.ld` loads, or `tcgen05.st` stores, is touched before `tcgen05.wait`",
    "tcgen05.wait::ld.sync.aligned comes between the load and the use of its registers. ptxas (13.5) makes the use wait for the "
    "register, as for any load, which the manual does not promise",
    tolerated=Tolerated(
        "the use waits for the register that `tcgen05.ld` loads, as for any load: in the code of ptxas 13.5 it waits for the "
        "scoreboard of the load. The manual asks for `tcgen05.wait::ld` first. Moves (also packing) do not count as uses. A load "
        "of which every register was used so is complete",
        "for a register",
    ),
)
TCGEN05_FENCE = Rule(
    "tcgen05-fence",
    ("9.7.18.11",),
    "tensor memory is touched after an operation of another thread without a `tcgen05.fence` at the synchronisation between them",
    "tcgen05.fence::before_thread_sync comes before the barrier or arrival, tcgen05.fence::after_thread_sync after the barrier or "
    "wait",
    "warning",
    Tolerated(
        "accesses to tensor memory are complete and in order as written, but no `tcgen05.fence` keeps ptxas from moving them past "
        "the synchronisation"
    ),
)
TCGEN05_COMMIT = Rule(
    "tcgen05-commit",
    ("9.7.18.12",),
    "tensor memory is touched that a tcgen05 operation may still use: nobody has waited for a `tcgen05.commit` after it",
    "the thread that issued it executes tcgen05.commit, and this thread waits for that mbarrier first",
)


@dataclass(slots=True, eq=False)
class Operation:
    """One access. `lane`: the thread that issued it, or the first of the warp. Times are 0 until it happens."""

    inst: Inst
    lane: int
    time: int
    done: int = 0
    """When its warp executed wait::ld or wait::st."""
    ready: int = 0
    """When its warp executed fence::before_thread_sync after that."""
    issue: int = 0
    """Of a load: when the instruction was issued."""

    @property
    def issued(self) -> bool:
        return self.inst.family.starts == ISSUED


class TensorMemory(Part):
    """The tensor memory of a launch."""

    rules = (UNINITIALISED_TENSOR, TENSOR_LEAK, TCGEN05_PEER, TCGEN05_WAIT, TCGEN05_FENCE, TCGEN05_COMMIT)

    def __init__(self, context: Context):
        super().__init__(context)
        self.completion, self.clusters = context.part(Completion), context.part(Clusters)
        self.space = Space("tensor", 0, 4)
        self.unordered: set[int] = set()
        """Numbers of the instructions that a warning about missing fences was about, as the earlier side."""
        self.used = any(i.family is Tcgen05Alloc for i in self.machine.program.instructions)
        if self.used:
            shape = (self.machine.ctas, LANES, MOST_COLUMNS)
            self.write, self.read = np.zeros(shape, np.int32), np.zeros(shape, np.int32)

    def start(self) -> None:
        self.operations: list[Operation] = []
        """Those that `write` and `read` name, by number + 1."""
        self.unfinished: dict[int, list[Operation]] = {}
        """First lane of a warp -> its loads and stores that it has not waited for."""
        self.unfenced: dict[int, list[Operation]] = {}
        """First lane of a warp -> those it has waited for, without a fence since."""
        self.issued: dict[int, Operation] = {}
        """Lane -> the last operation it has issued."""
        self.seen: dict[int, Array] = {}
        """Lane -> what it knew at its last fence::after_thread_sync."""
        self.allocations: dict[tuple[int, int], tuple[Inst, int]] = {}
        """(CTA, first column) -> who allocated it."""
        self.paired: dict[tuple[int, int], int] = {}
        """(CTA, first column) -> when it was allocated last with `.cta_group::2`."""
        self.load_issued = 0
        """When the latest load was issued."""
        if self.used:
            self.write[...] = 0
            self.read[...] = 0

    # -------------------------------------------------------------------------------------------------- binding

    def bound(self, inst: Inst, action: Action) -> Action:
        family = inst.family
        if family.waits_for.startswith("tcgen05"):
            event = self._waited
        elif family is Tcgen05FenceBefore:
            event = self._before
        elif family is Tcgen05FenceAfter:
            event = self._after
        else:
            return action

        def watched(mask: Array) -> object:
            event(inst, np.flatnonzero(self.machine.active(inst, mask)))
            return action(mask)

        return watched

    def _waited(self, inst: Inst, lanes: Array) -> None:
        now = self.context.tick(inst)
        for warp in np.unique(lanes // 32 * 32).tolist():
            left = self.unfinished.pop(warp, [])
            ended = [o for o in left if o.inst.family.starts == inst.family.waits_for]
            for operation in ended:
                operation.done = now
            self.unfenced.setdefault(warp, []).extend(ended)
            self.unfinished[warp] = [o for o in left if not o.done]

    def loaded(self, issued: int, warp: int) -> None:
        """A warp, given by its first lane, has used every register of the load that it issued at a time: it is complete."""
        left = self.unfinished.get(warp, [])
        ended = [o for o in left if o.issue == issued]
        for operation in ended:
            operation.done = self.clocks.now
        self.unfenced.setdefault(warp, []).extend(ended)
        self.unfinished[warp] = [o for o in left if not o.done]

    def _before(self, inst: Inst, lanes: Array) -> None:
        now = self.context.tick(inst)
        for warp in np.unique(lanes // 32 * 32).tolist():
            for operation in self.unfenced.pop(warp, ()):
                operation.ready = now

    def _after(self, inst: Inst, lanes: Array) -> None:
        self.context.tick(inst)
        if self.clocks.too_large:
            return
        groups = self.clocks.group_of[lanes]
        for g in np.unique(groups).tolist():
            here = lanes[groups == g]
            self.seen.update(zip(here.tolist(), self.clocks.knowledge(g, here), strict=True))

    def commit(self, inst: Inst, lanes: Array) -> Clock:
        """tcgen05.commit: what an mbarrier's phase brings to those who wait for it. With `.sync_restrict` only that A
        has been read.
        """
        only_a = inst.has(READS_OF_A)
        if not only_a:
            self._before(inst, lanes)  # it implies the fence
        clocks = self.clocks
        columns = [(int(clocks.group_of[lane]), self.completion.column(lane, only_a)) for lane in lanes.tolist()]
        clock = clocks.release(lanes)
        for group, column in columns:
            clock.rows[clocks.first_group + group][column] = clocks.now
        return clock

    # ------------------------------------------------------------------------------------------------- accesses

    def tensor_accessed(
        self, inst: Inst, lane: int, cta: int, rows: Array, columns: Array, *, reads: bool, writes: bool
    ) -> None:
        """An instruction reads and writes words of a CTA's tensor memory."""
        operation = Operation(inst, lane, self.context.tick(inst))
        if inst.family.in_flight:
            operation.issue = self.load_issued
        self.operations.append(operation)
        number = len(self.operations)
        if cta != self.machine.cta_of_lane[lane]:
            self._check_peer(inst, lane, "touched")
        index = cta, rows, columns
        written = self.write[index]
        if reads and not written.all():
            at = int(np.flatnonzero(written.reshape(-1) == 0)[0])
            self.report(
                UNINITIALISED_TENSOR,
                inst,
                "read of tensor memory that has not been written since it was allocated",
                lane,
                space=self.space,
                byte=_address(rows, columns, at),
            )
        self._check(operation, written, rows, columns)
        if writes:
            self._check(operation, self.read[index], rows, columns)
            self.write[index] = number
            self.read[index] = 0
        else:
            self.read[index] = number
        if operation.issued:
            self.issued[lane] = operation
        else:
            self.unfinished.setdefault(lane // 32 * 32, []).append(operation)

    def tensor_allocated(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        self.write[cta, :, first : first + columns] = 0
        self.read[cta, :, first : first + columns] = 0
        self.allocations[cta, first] = inst, lane
        if inst.has(PAIR):
            self._check_peer(inst, lane, "allocated")
            self.paired[cta, first] = self.context.tick(inst)

    def tensor_freed(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        """tcgen05.dealloc: all accesses must be over."""
        operation = Operation(inst, lane, self.context.tick(inst))
        place = np.arange(LANES)[:, None], np.arange(first, first + columns)[None, :]
        for table in (self.write, self.read):
            self._check(operation, table[(cta, *place)], *place)
        self.allocations.pop((cta, first), None)
        # a peer that this thread has met since may well have given back its own columns and exited
        if inst.has(PAIR) and not self._met(lane, cta, first) and self._check_peer(inst, lane, "given back"):
            self._report_pair(
                inst,
                lane,
                "tensor memory of a pair of CTAs is given back without a synchronisation with the other CTA since its allocation",
            )

    def _check_peer(self, inst: Inst, lane: int, verb: str) -> bool:
        """Whether the other CTA of the pair is known to have begun and has not exited, which is reported otherwise."""
        machine = self.machine
        cta = int(machine.cta_of_lane[lane])
        peer = (cta ^ 1) * machine.padded
        alive = np.count_nonzero(machine.executing(None)[peer : peer + machine.padded])
        if alive and self.clusters.begun[cta]:
            return True
        self._report_pair(
            inst,
            lane,
            f"tensor memory of a pair of CTAs is {verb}, and the other CTA "
            + ("may not have begun" if alive else "has exited"),
        )
        return False

    def _met(self, lane: int, cta: int, first: int) -> bool:
        """Whether the other CTA has allocated the same columns, and the two have synchronised since."""
        machine, peer = self.machine, cta ^ 1
        if self.clocks.too_large:
            return True
        time = self.paired.get((peer, first))
        threads = self.context.first_lane + peer * machine.padded + np.arange(machine.padded)
        lanes = np.full(threads.size, lane)
        return time is not None and bool(self.clocks.ordered(lanes, threads, np.full(threads.size, time)).any())

    def _report_pair(self, inst: Inst, lane: int, message: str) -> None:
        self.report(
            TCGEN05_PEER,
            inst,
            message,
            lane,
        )

    def finish(self) -> None:
        """All threads of the batch have exited."""
        for inst, lane in self.allocations.values():
            self.report(
                TENSOR_LEAK,
                inst,
                "the CTA ends and these columns of tensor memory have not been given back",
                lane,
            )
        clocks = self.clocks
        if self.clocks.too_large:
            return
        for lane, operation in self.issued.items():
            group = int(clocks.group_of[lane])
            threads = group * clocks.per + np.arange(clocks.per)
            if not self.completion.complete(threads, lane, operation.time).any():
                self.report(
                    EXIT_IN_FLIGHT,
                    operation.inst,
                    "the kernel ends and no thread has waited for this operation",
                    lane,
                    hint="tcgen05.commit tells an mbarrier, for which a thread waits before the CTA ends",
                )

    # --------------------------------------------------------------------------------------------------- checks

    def _check(self, operation: Operation, numbers: Array, rows: Array, columns: Array) -> None:
        """What `numbers` name came before and touches the same words."""
        first = int(numbers.flat[0])
        found = [first] if (numbers == first).all() else np.unique(numbers).tolist()
        for number in found:
            if not number:
                continue
            other = self.operations[number - 1].inst
            problem = self._problem(operation, self.operations[number - 1])
            if problem is not None:
                rule, message, hint = problem
                missing = rule == TCGEN05_FENCE
                if missing and other.number in self.unordered:
                    continue
                if missing:
                    self.unordered.add(other.number)
                at = int(np.flatnonzero(numbers.reshape(-1) == number)[0])
                self.report(
                    rule,
                    operation.inst,
                    message,
                    operation.lane,
                    hint=hint,
                    space=self.space,
                    byte=_address(rows, columns, at),
                    other=other,
                    severity="warning" if missing else "error",
                )

    def _problem(self, now: Operation, before: Operation) -> tuple[Rule, str, str] | None:
        """(rule, message, hint) if one operation need not be complete when another touches the same words."""
        if before.issued:
            if now.issued and now.lane == before.lane:
                return None  # these run in the order of issue
            if self.clocks.too_large:
                return None
            if not self.completion.complete(np.array([now.lane]), before.lane, before.time)[0]:
                return (
                    TCGEN05_COMMIT,
                    "tensor memory is touched here that an operation uses which may still be in flight",
                    "the thread that issued it executes tcgen05.commit, and this thread waits for that mbarrier first",
                )
            seen = self.seen.get(now.lane)
            column = self.completion.column(before.lane)
            fenced = seen is not None and column < seen.size and seen[column] >= before.time
        else:
            wait = before.inst.family.starts.replace("tcgen05.", "wait::")
            if not before.done:
                if now.inst.family.starts == before.inst.family.starts and now.lane == before.lane:
                    return None
                return (
                    TCGEN05_WAIT,
                    f"tensor memory is touched here that {before.inst.family.starts} may still access",
                    f"tcgen05.{wait}.sync.aligned in the warp that executed it"
                    + ("" if now.lane // 32 == before.lane // 32 else ", then fence::before_thread_sync and a barrier"),
                )
            if now.lane // 32 == before.lane // 32 or self.clocks.too_large:
                return None
            if not self._ordered(now.lane, before.lane, before.done):
                return (
                    RACE,
                    "data race: tensor memory is touched here without a synchronisation with the warp that did before",
                    f"tcgen05.{wait}, fence::before_thread_sync, a barrier or mbarrier, fence::after_thread_sync",
                )
            # a fence that its warp executes after the synchronisation is too late
            ready = before.ready and self._ordered(now.lane, before.lane, before.ready)
            if not ready and now.inst.family.starts:
                return (
                    TCGEN05_FENCE,
                    "tensor memory is touched here after an access of another warp without a fence before the "
                    "synchronisation between them",
                    f"tcgen05.fence::before_thread_sync comes after tcgen05.{wait} and before the barrier or arrival",
                )
            seen = self.seen.get(now.lane)
            first = int(self.clocks.local[before.lane])
            fenced = seen is not None and int(seen[first : first + 32].max()) >= before.ready
        if fenced or now.lane // 32 == before.lane // 32 or not now.inst.family.starts:
            return None
        return (
            TCGEN05_FENCE,
            "tensor memory is touched here after an operation of another thread without a fence after the "
            "synchronisation between them",
            "tcgen05.fence::after_thread_sync comes after the barrier or wait and before this instruction",
        )

    def _ordered(self, lane: int, warp: int, time: int) -> bool:
        """Whether a lane knows of some thread of a warp that it has come to a time: the waits are for all of it."""
        others = warp // 32 * 32 + np.arange(32) + self.context.first_lane
        return bool(self.clocks.ordered(np.full(32, lane), others, np.full(32, time)).any())


def _address(rows: Array, columns: Array, at: int) -> int:
    """The address of the word at a place of the broadcast index."""
    rows, columns = np.broadcast_arrays(rows, columns)
    return int(rows.reshape(-1)[at]) << 16 | int(columns.reshape(-1)[at])
