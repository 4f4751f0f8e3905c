"""The NumPy engine: runs one batch of CTAs to its end.

Threads that are at the same segment form a group, a mask over lanes. While all living threads are in one
group, whole chains of segments
run without masks. Otherwise the group at the lowest segment runs first, which brings threads together again
where their paths meet.
A group that polls memory (a loop around an atomic, volatile or acquiring access, or a try_wait) gives way to
the others after each round,
and no group waits forever, so threads make progress independently of each other (PTX ISA 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np

from ...diagnostics import SimulationError
from ..machine.binding import Full, Masked, bind, meaning_of
from ..machine.machine import Machine
from ..machine.program import Args, Imm, Inst, Name, Not, Operand, Place, Reg, Segment, Sink, Vec
from ..machine.registry import Barrier, ClusterBarrier, Collective
from ..machine.schedule import Paused, Scheduler
from ..semantics import load_all
from ..semantics.builtins import call_builtin
from .batch import Batch
from .deadlock import deadlock
from .endless import Endless, changes

load_all()

Array = Any
PATIENCE = 2048
"""Segments that may run before a group that was passed over gets its turn."""

NOT_COOPERATIVE = (
    "it reads %envreg1 and %envreg2, where a cooperative launch has its grid's barrier (cg::this_grid().sync()): "
    "launch it with cooperative=True"
)
NOT_SUBMITTED = "this fabric operation was not submitted, so that it never begins"
SUBMIT = "the thread that issues it executes fabric.submit"


BindBody: TypeAlias = Callable[[Machine, Segment], "list[tuple[Full, Masked]]"]
"""How the body of a segment becomes steps: instruction by instruction, or by runs of them (`jit`)."""


def _one_by_one(machine: Machine, segment: Segment) -> list[tuple[Full, Masked]]:
    return [bind(machine, inst) for inst in segment.body]


class _Fallback(Exception):
    """A waiting instruction in a chain cannot go on with all threads at once."""


@dataclass(slots=True)
class _Chain:
    """Segments that follow each other without a decision, bound for all living lanes."""

    segments: list[int]
    steps: list[Full]
    starts: list[int]
    """Index in `steps` at which each segment begins."""
    end: Callable[[], int]
    length: int
    changes: bool


class Engine(Batch):
    """Runs batches on a machine. Counts, per segment, how many threads executed it."""

    def __init__(self, machine: Machine, max_steps: int | None, bind_body: BindBody | None = None):
        super().__init__(machine)
        self._bind_body = bind_body or _one_by_one
        self._bodies: dict[int, list[tuple[Full, Masked]]] = {}
        count = len(self.segments)
        self.executed = [0] * count
        """Thread executions of each segment."""
        self._chained: dict[int, int] = {}
        self._chains: list[_Chain | None] = [None] * count
        self._masked: list[list[Masked] | None] = [None] * count
        self.endless = Endless(self, max_steps)
        self.steps = 0
        self.changed_at = 0
        """The step at which something other than registers was last changed."""
        self.scheduler: Scheduler | None = None
        """Who decides which lanes run next; None: the order of the seed."""
        self.budget: int | None = None
        """Steps after which a scheduled batch is given up."""
        self.yielded: set[int] = set()
        self.passed: dict[int, int] = {}
        self.turn = 0
        self.alive_count = 0
        self.polls = [self._polls(s) for s in self.segments]
        self.changes = [any(map(changes, _instructions(s))) or s.ends in ("exit", "return") for s in self.segments]
        self.at = 0

    def _polls(self, segment: Segment) -> bool:
        return any(inst.polls for inst in _instructions(segment))

    #
    #
    #
    #
    # ------------------------------------------------------------------------------------------------------------ batch

    def run(self, first_cta: int, count: int) -> bool:
        """Run a batch of CTAs to the end. SimulationError on a fault, a deadlock or too many steps; False if the budget of a
        schedule was not enough.
        """
        machine = self.machine
        machine.start(first_cta, count)
        self.alive_count = int(np.count_nonzero(machine.live))
        self.groups = {self.program.start: machine.executing(None)}
        self.waiting.clear()
        self.yielded.clear()
        self.passed = {}
        self.steps = self.changed_at = 0
        self.endless.start()
        self.arrived[...] = 0
        self.barrier_of[...] = -1
        self.at_barrier.clear()
        self.cluster_arrived[...] = False
        self.cluster_done[...] = False
        self.cluster_waiting.clear()
        self.depth[...] = 0
        groups = self.groups
        for observer in machine.observers:
            observer.started(self)
        pending = machine.pending
        scheduler, paused = self.scheduler, self.paused
        paused.clear()
        if scheduler is not None:
            scheduler.start()
        while groups or paused:
            if scheduler is not None:
                if self.budget is not None and self.steps > self.budget:
                    return False
                self._run_scheduled(scheduler)
            elif pending.random is not None:
                self._run_some(pending.random)
            elif self._together():
                self._run_all(groups.popitem()[0])
                continue
            else:
                segment = self._choose()
                self._run_group(segment, groups.pop(segment))
            if not groups and not paused:
                self._retry_waiting()
                while not groups and pending.force_one():
                    self._retry_waiting()
        pending.force_all()
        if self.alive_count:
            raise deadlock(self)
        for copy in pending.held:
            machine.fault(copy.inst, NOT_SUBMITTED, int(copy.lanes[0]), SUBMIT)
        for observer in machine.observers:
            observer.finished(self)
        return True

    def _together(self) -> bool:
        """Whether all living lanes are at one segment, and none of them waits."""
        groups = self.groups
        if len(groups) != 1 or self.waiting or self.at_barrier or self.cluster_waiting:
            return False
        (mask,) = groups.values()
        return np.count_nonzero(mask) == self.alive_count

    def _run_scheduled(self, scheduler: Scheduler) -> None:
        """One step of a schedule: a segment, or a part of it, of the lanes that it chooses."""
        self.machine.pending.step()
        at, mask, first = scheduler.choose(self.groups, self.paused)
        steps = self._masked_body(at)
        last = scheduler.stop_before(self.steps, first, len(steps))
        if last < len(steps):
            for step in steps[first:last]:
                step(mask)
            rows = [self.machine.row(r) for r in self._overwritten(at)]
            self.paused[scheduler.running] = Paused(at, mask, last, [(row, row[..., mask]) for row in rows])
            self._count_steps(last - first, at, self.changes[at])
            return
        self._run_group(at, mask, first)
        scheduler.ran(at)

    def _overwritten(self, at: int) -> set[Reg]:
        """The registers of a segment that its instructions write in all lanes, executing or not."""
        return {reg for inst in self.segments[at].body for reg in inst.local}

    def _run_some(self, random: Random) -> None:
        """One step of a random schedule: some warps of some group, and perhaps a copy completes."""
        self.machine.pending.step()
        groups = self.groups
        at = random.choice(list(groups)) if random.random() < 0.5 else self._choose()
        mask = groups.pop(at)
        if random.random() < 0.5:
            warps = self.machine.ballot(mask) != 0
            chosen = np.array([random.getrandbits(1) for _ in range(warps.size)], np.bool_)
            some = mask & self.machine.per_lane(chosen & warps)
            if np.count_nonzero(some):
                rest = mask & ~some
                if np.count_nonzero(rest):
                    groups[at] = rest
                mask = some
        self._run_group(at, mask)

    def _choose(self) -> int:
        """The group to run: the lowest one that has not given way; one that has waited too long goes
        first.
        """
        self.turn += 1
        groups = self.groups
        best = -1
        for segment in groups:
            if segment not in self.yielded and (best < 0 or segment < best):
                best = segment
        if best < 0:
            self.yielded.clear()
            # oldest first, so that several polling groups take turns
            best = min(groups, key=lambda s: (self.passed.get(s, 0), s))
        if len(groups) > 1:
            for segment in groups:
                since = self.passed.setdefault(segment, self.turn)
                if self.turn - since > PATIENCE and segment != best:
                    best = segment
                    break
        self.passed[best] = self.turn
        return best

    def _count_steps(self, count: int, segment: int, changes: bool) -> None:
        self.steps += count
        self.machine.clock += count
        if changes:
            self.changed_at = self.steps
        if self.steps >= self.endless.next_look:
            why = self.endless.look(segment, self.steps, self.changed_at)
            if why:
                self._too_long(segment, why)

    # --------------------------------------------------------------------------------------------------- all
    # together

    def _run_all(self, segment: int) -> None:
        """Run all living lanes from a segment on, as long as they stay together."""
        chains, chained = self._chains, self._chained
        while segment >= 0:
            chain = chains[segment]
            if chain is None:
                chain = chains[segment] = self._chain(segment)
            try:
                for step in chain.steps:
                    step()
            except _Fallback as fallback:
                at = fallback.args[0]
                done = chain.segments.index(at)
                for s in chain.segments[:done]:
                    self.executed[s] += self.alive_count
                # the body of that segment has run; only its last instruction is left
                self.executed[at] += self.alive_count
                self.at = at
                self._count_steps(sum(len(self.segments[s].body) + 1 for s in chain.segments[: done + 1]), at, True)
                self._end(at, self.segments[at], self.machine.executing(None))
                return
            chained[segment] = chained.get(segment, 0) + self.alive_count
            self.at = segment
            self._count_steps(chain.length, segment, chain.changes)
            segment = chain.end()

    def _chain(self, first: int) -> _Chain:
        steps: list[Full] = []
        starts: list[int] = []
        segments: list[int] = []
        at = first
        length = 0
        while True:
            segment = self.segments[at]
            segments.append(at)
            starts.append(len(steps))
            steps += [full for full, _ in self._bind(at)]
            length += len(segment.body) + 1
            if segment.ends == "sync":
                assert segment.last is not None
                steps.append(self._sync_all(at, segment.last))
                at = segment.after
                continue
            if segment.ends == "next" and segment.after not in segments:
                at = segment.after
                continue
            changed = any(self.changes[s] for s in segments)
            return _Chain(segments, steps, starts, self._end_all(at, segment), length, changed)

    def _bind(self, at: int) -> list[tuple[Full, Masked]]:
        """What executes the body of a segment."""
        found = self._bodies.get(at)
        if found is None:
            found = self._bodies[at] = self._bind_body(self.machine, self.segments[at])
        return found

    def _sync_all(self, at: int, inst: Inst) -> Full:
        """A waiting instruction when all living threads are at it: it never has to wait."""
        machine = self.machine
        what = meaning_of(machine, inst)
        if isinstance(what, Collective):
            return bind(machine, inst)[0]

        def fall_back() -> None:
            raise _Fallback(at)

        if isinstance(what, Barrier) and inst.guard is None and not what.arrive_only and isinstance(what.number, Imm):
            count = what.count
            number = int(what.number.value)
            if count is None or (isinstance(count, Imm) and int(count.value) == machine.launch.threads):
                finish = self._barrier_result(inst, what)

                def pass_barrier() -> None:
                    exited = count is not None and self.alive_count < np.count_nonzero(machine.live)
                    if exited or self.arrived[number].any():
                        raise _Fallback(at)
                    if finish is not None:
                        finish(machine.executing(None))
                    if machine.observers:
                        everyone = machine.executing(None)
                        for observer in machine.observers:
                            observer.barrier_waits(inst, number, everyone)
                            observer.barrier_released(number, everyone)

                return pass_barrier
        return fall_back

    def _end_all(self, at: int, segment: Segment) -> Callable[[], int]:
        machine, last = self.machine, segment.last
        kind = segment.ends
        if kind == "next":
            return lambda: segment.after
        if kind == "branch" and not machine.observers:
            assert last is not None
            target = segment.targets[0]
            if last.guard is None:
                return lambda: target
            after = segment.after if segment.after >= 0 else segment.targets[1]
            p = machine.row(last.guard)
            negated = last.negated
            count_nonzero = np.count_nonzero

            def branch() -> int:
                alive = machine.alive
                taken = count_nonzero(p if alive is None else p & alive)
                if taken == 0:
                    return target if negated else after
                if taken == self.alive_count:
                    return after if negated else target
                t = ~p if negated else p.copy()
                n = ~t
                if alive is not None:
                    t &= alive
                    n &= alive
                self._add(target, t)
                self._add(after, n)
                return -1

            return branch
        alone = (last is None or last.guard is None) and not self.has_calls and not machine.observers
        if kind in ("return", "exit") and alone:

            def finish() -> int:
                self._exit(machine.executing(None))
                return -1

            return finish

        def generic() -> int:
            self._end(at, segment, machine.executing(None))
            return -1

        return generic

    # -----------------------------------------------------------------------------------------------------
    # one group

    def _add(self, segment: int, mask: np.ndarray) -> None:
        known = self.groups.get(segment)
        self.groups[segment] = mask if known is None else known | mask

    def _masked_body(self, at: int) -> list[Masked]:
        """What executes the body of a segment in some lanes."""
        steps = self._masked[at]
        if steps is None:
            steps = self._masked[at] = [masked for _, masked in self._bind(at)]
        return steps

    def _run_group(self, at: int, mask: np.ndarray, first: int = 0) -> None:
        """Run lanes through a segment, from the instruction `first` of its body on."""
        steps = self._masked_body(at)[first:]
        for step in steps:
            step(mask)
        self.at = at
        count = int(np.count_nonzero(mask))
        self.executed[at] += count
        self._count_steps(len(steps) + 1, at, self.changes[at])
        self._end(at, self.segments[at], mask)

    def _tell(self, inst: Inst, mask: np.ndarray) -> None:
        for observer in self.machine.observers:
            observer.ended(inst, mask)

    def _end(self, at: int, segment: Segment, mask: np.ndarray) -> None:
        """Send the lanes of a group to where their segment's end takes them."""
        machine, last = self.machine, segment.last
        kind = segment.ends
        if last is not None and machine.observers:
            self._tell(last, mask)
        if last is not None and last.guard is not None:
            go = machine.guard_of(last, mask)
            stay = mask & ~go
        else:
            go, stay = mask, None
        if kind == "next":
            self._add(segment.after, mask)
            return
        if stay is not None and np.count_nonzero(stay):
            after = segment.after if segment.after >= 0 else next(iter(segment.targets[1:]), -1)
            if after >= 0:
                self._add(after, stay)
            else:
                self._return(stay)  # past the last instruction
            if not np.count_nonzero(go):
                return
        if kind == "branch":
            target = segment.targets[0]
            if target <= at and self.polls_between(target, at):
                self._looked(target, at)
            self._add(target, go)
        elif kind == "table":
            self._jump_table(segment, go)
        elif kind == "exit":
            self._exit(go)
        elif kind == "return":
            self._return(go)
        elif kind == "call":
            self._call(segment, go)
        elif kind == "trap":
            assert last is not None
            hint = None if machine.launch.cooperative or not self.program.syncs_grid else NOT_COOPERATIVE
            machine.fault(last, "the kernel trapped", int(np.flatnonzero(go)[0]), hint)
        else:
            self._sync(at, segment, go)

    def _looked(self, first: int, last: int) -> None:
        """A group goes through a loop that polls once more."""
        if self.scheduler is not None:
            self.scheduler.polled(first, idle=not any(self.changes[first : last + 1]))
        else:
            self.yielded.add(first)

    def polls_between(self, first: int, last: int) -> bool:
        """Whether a loop over these segments polls something others may change."""
        return any(self.polls[first : last + 1])

    def _jump_table(self, segment: Segment, mask: np.ndarray) -> None:
        assert segment.last is not None
        index = self.machine.source(segment.last.operands[0], "u32")
        index = np.broadcast_to(index, self.machine.lanes)
        for value in np.unique(index[mask]):
            here = mask & (index == value)
            if value >= len(segment.targets):
                self.machine.fault(
                    segment.last,
                    f"index {value} is outside its table of {len(segment.targets)} targets",
                    int(np.flatnonzero(here)[0]),
                )
            self._add(segment.targets[int(value)], here)

    def _exit(self, mask: np.ndarray) -> None:
        machine = self.machine
        for observer in machine.observers:
            observer.exited(mask)
        alive = machine.executing(None) & ~mask
        self.alive_count = int(np.count_nonzero(alive))
        machine.set_alive(alive)
        if self.alive_count and (self.waiting or self.at_barrier or self.cluster_waiting):
            self._retry_waiting()
            self._check_barriers()

    #
    #
    #
    #
    # ----------------------------------------------------------------------------------------------------------- calls

    def _return(self, mask: np.ndarray) -> None:
        if not self.has_calls:
            self._exit(mask)
            return
        depth = self.depth
        top = mask & (depth == 0)
        if np.count_nonzero(top):
            self._exit(top)
        inner = mask & (depth > 0)
        lanes = np.flatnonzero(inner)
        if not lanes.size:
            return
        depth[lanes] -= 1
        sites = self.calls[depth[lanes], lanes]
        self.machine.stack_top[lanes] = self.marks[depth[lanes], lanes]
        for site in np.unique(sites):
            here = np.zeros(self.machine.lanes, np.bool_)
            here[lanes[sites == site]] = True
            self._come_back(int(site), here)

    def _call(self, segment: Segment, mask: np.ndarray) -> None:
        inst = segment.last
        assert inst is not None
        returns, target, arguments = _call_operands(inst)
        if isinstance(target, (Place, Name)):
            function = next((f for f in self.program.functions if f.name == target.name), None)
            if function is None:
                self.machine.fault(inst, f"{target.name} is not a function")
            self._call_function(segment, inst, function.number, returns, arguments, mask)
            return
        pointer = np.broadcast_to(self.machine.source(target, "u64"), self.machine.lanes)
        for value in np.unique(pointer[mask]):
            here = mask & (pointer == value)
            number = (int(value) - 0x0000_7600_0000_0000) // 16
            if not any(f.number == number and int(value) % 16 == 0 for f in self.program.functions):
                self.machine.fault(
                    inst, f"0x{int(value):x} is not the address of a function", int(np.flatnonzero(here)[0])
                )
            self._call_function(segment, inst, number, returns, arguments, here)

    def _call_function(
        self,
        segment: Segment,
        inst: Inst,
        number: int,
        returns: tuple[Operand, ...],
        arguments: tuple[Operand, ...],
        mask: np.ndarray,
    ) -> None:
        machine = self.machine
        function = next(f for f in self.program.functions if f.number == number)
        lanes = np.flatnonzero(mask)
        if function.builtin:
            call_builtin(machine, inst, function.name, returns, arguments, lanes)
            self._add(segment.after, mask)
            return
        if len(arguments) != len(function.parameters):
            machine.fault(inst, f"{function.name} takes {len(function.parameters)} arguments, not {len(arguments)}")
        caller = next(f for f in self.program.functions if f.number == segment.function)
        values = [self._read(a, f.size, lanes) for a, f in zip(arguments, function.parameters, strict=True)]
        level = self.depth[lanes]
        if level.size and int(level.max()) + 1 >= len(self.calls):
            self.calls = np.concatenate([self.calls, np.zeros_like(self.calls)])
            self.marks = np.concatenate([self.marks, np.zeros_like(self.marks)])
        self.marks[level, lanes] = machine.stack_top[lanes]
        self.calls[level, lanes] = segment.after
        if caller.frame is not None:
            self._save(caller.number, level, lanes)
            frame = machine.row(caller.frame)
            frame[lanes] += np.uint32(caller.frame_size)
            top = frame[lanes]
            if int(top.max()) + function.frame_size > machine.program.local_size:
                at = int(lanes[int(top.argmax())])
                machine.fault(inst, f"stack overflow: {int(level.max()) + 1} calls deep", at)
            if function.frame is not None and function.frame != caller.frame:
                machine.row(function.frame)[lanes] = top
        self.depth[lanes] += 1
        for value, formal in zip(values, function.parameters, strict=True):
            self._write(formal.place, value, lanes)
        self._add(function.entry, mask)

    def _come_back(self, site: int, mask: np.ndarray) -> None:
        """Threads return from a call: fetch the results, restore the caller's registers and frame."""
        machine = self.machine
        segment = next(s for s in self.segments if s.after == site and s.ends == "call")
        inst = segment.last
        assert inst is not None
        lanes = np.flatnonzero(mask)
        returns, target, _ = _call_operands(inst)
        if isinstance(target, (Place, Name)):
            function = next(f for f in self.program.functions if f.name == target.name)
        else:
            # the register still holds the function's address: a function does not write its caller's
            # registers, recursion restores them
            function = None
        caller = next(f for f in self.program.functions if f.number == segment.function)
        values: list[np.ndarray] = []
        callee = function
        if callee is None and caller.frame is None:
            number = (int(machine.source(target, "u64")[lanes[0]]) - 0x0000_7600_0000_0000) // 16
            callee = next(f for f in self.program.functions if f.number == number)
        if callee is not None:
            values = [self._read(f.place, f.size, lanes) for f in callee.returns]
        if caller.frame is not None:
            self._restore(caller.number, self.depth[lanes], lanes)
            if callee is None:
                # results of an indirect call in a recursive function: its frame lies right above the caller's
                number = (int(machine.source(target, "u64")[lanes[0]]) - 0x0000_7600_0000_0000) // 16
                callee = next(f for f in self.program.functions if f.number == number)
                values = [self._read(f.place, f.size, lanes) for f in callee.returns]
            for other in self.program.functions:
                if other.frame is not None and other.number != caller.number:
                    machine.row(other.frame)[lanes] = machine.row(caller.frame)[lanes]
        for value, to in zip(values, returns, strict=False):
            if not isinstance(to, Sink):
                self._write(to, value, lanes)
        self._add(site, mask)

    def _save(self, number: int, level: np.ndarray, lanes: np.ndarray) -> None:
        function = next(f for f in self.program.functions if f.number == number)
        stacks = self.saved.setdefault(number, [])
        for i, (pool, (first, last)) in enumerate(function.registers.items()):
            rows = self.machine.pools[pool][first:last]
            if i == len(stacks):
                stacks.append(np.zeros((4, *rows.shape), rows.dtype))
            while int(level.max()) >= len(stacks[i]):
                stacks[i] = np.concatenate([stacks[i], np.zeros_like(stacks[i])])
            for lv in np.unique(level):
                here = lanes[level == lv]
                stacks[i][lv][..., here] = rows[..., here]
        frames = self.saved.setdefault(~number, [np.zeros((4, self.machine.lanes), np.uint32)])
        while int(level.max()) >= len(frames[0]):
            frames[0] = np.concatenate([frames[0], np.zeros_like(frames[0])])
        assert function.frame is not None
        frames[0][level, lanes] = self.machine.row(function.frame)[lanes]

    def _restore(self, number: int, level: np.ndarray, lanes: np.ndarray) -> None:
        function = next(f for f in self.program.functions if f.number == number)
        for i, (pool, (first, last)) in enumerate(function.registers.items()):
            rows = self.machine.pools[pool][first:last]
            for lv in np.unique(level):
                here = lanes[level == lv]
                rows[..., here] = self.saved[number][i][lv][..., here]
        assert function.frame is not None
        self.machine.row(function.frame)[lanes] = self.saved[~number][0][level, lanes]

    def _bytes(self, place: Place, size: int, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first byte of each lane's variable in the flat local memory, offsets of its bytes)."""
        machine = self.machine
        start = lanes * machine.local.shape[1] + place.address - 0x10
        if place.frame is not None:
            start = start + machine.row(place.frame)[lanes]
        return start, np.arange(size)

    def _read(self, operand: Operand, size: int, lanes: np.ndarray) -> np.ndarray:
        """The bytes of an argument: shape (lanes, size)."""
        if isinstance(operand, Vec):
            part = size // len(operand.elements)
            return np.concatenate([self._read(e, part, lanes) for e in operand.elements], axis=1)
        if isinstance(operand, Place) and operand.space == "local":
            start, offsets = self._bytes(operand, size, lanes)
            return self.machine.local.reshape(-1)[start[:, None] + offsets]
        if isinstance(operand, Reg) and operand.pool == "p":
            return self.machine.row(operand)[lanes].view(np.uint8)[:, None]
        kind = f"u{max(size, 1) * 8}" if size in (1, 2, 4, 8) else "u64"
        if isinstance(operand, Reg):
            kind = f"u{operand.pool}"
        value = np.broadcast_to(self.machine.source(operand, kind), self.machine.lanes)[lanes]
        return np.ascontiguousarray(value).view(np.uint8).reshape(lanes.size, -1)

    def _write(self, operand: Operand, value: np.ndarray, lanes: np.ndarray) -> None:
        if isinstance(operand, Vec):
            # ptxas takes a constant for a vector: its first element, followed by zeros
            part = max(int(e.pool) // 8 for e in operand.elements if isinstance(e, Reg))
            for i, element in enumerate(operand.elements):
                self._write(element, value[:, i * part : (i + 1) * part], lanes)
            return
        if isinstance(operand, Reg):
            row = self.machine.row(operand)
            raw = np.zeros((lanes.size, row.itemsize), np.uint8)
            raw[:, : value.shape[1]] = value[:, : row.itemsize]
            row[lanes] = raw.view(row.dtype).reshape(-1)
            return
        assert isinstance(operand, Place)
        start, offsets = self._bytes(operand, min(value.shape[1], operand.size or value.shape[1]), lanes)
        self.machine.local.reshape(-1)[start[:, None] + offsets] = value[:, : offsets.size]

    #
    #
    #
    #
    # -------------------------------------------------------------------------------------------------------- waiting

    def _sync(self, at: int, segment: Segment, mask: np.ndarray) -> None:
        inst = segment.last
        assert inst is not None
        what = meaning_of(self.machine, inst)
        if isinstance(what, Collective):
            self._collective(at, segment, inst, what, mask)
        elif isinstance(what, Barrier):
            self._barrier(at, segment, inst, what, mask)
        elif isinstance(what, ClusterBarrier):
            self._cluster_barrier(at, segment, what, mask)
        else:
            raise AssertionError(f"{inst.opcode} does not wait")

    def _collective(self, at: int, segment: Segment, inst: Inst, what: Collective, mask: np.ndarray) -> None:
        """A warp-wide instruction: the threads its mask names go on when all of them that are alive have
        come.
        """
        machine = self.machine
        before = self.waiting.pop(at, None)
        if before is not None:
            mask = mask | before
        if what.mask == "active":
            ready = mask
        else:
            here = machine.ballot(mask)
            alive = machine.ballot(machine.executing(None))
            if what.mask is None:
                missing = alive & ~here
            elif what.mask == "warpgroup":
                missing = self._warpgroups_missing(alive & ~here)
            else:
                assert not isinstance(what.mask, str)
                members = np.broadcast_to(machine.source(what.mask, "u32"), machine.lanes)
                missing = members & machine.per_lane(alive & ~here)
            bad = missing != 0
            ready = mask & ~(bad if bad.size == machine.lanes else machine.per_lane(bad))
            late = mask & ~ready
            if np.count_nonzero(late):
                self.waiting[at] = late
                if not np.count_nonzero(ready):
                    return
        bound = self._masked_last(at, inst)
        bound(ready)
        self._add(segment.after, ready)

    def _warpgroups_missing(self, missing: np.ndarray) -> np.ndarray:
        """Per warp, not 0 if threads of its warpgroup (four warps of a CTA) are missing."""
        per_cta = self.machine.padded // 32
        warp = np.arange(missing.size)
        group = warp // per_cta * (-(-per_cta // 4)) + warp % per_cta // 4
        return (np.bincount(group, missing != 0)[group] > 0).astype(np.uint32)

    def _masked_last(self, at: int, inst: Inst) -> Masked:
        found = self._bound_last.get(at)
        if found is None:
            unguarded = meaning_of(self.machine, inst)
            assert isinstance(unguarded, Collective)
            found = self._bound_last[at] = self.machine.observed(inst, unguarded.bind(self.machine, inst))
        return found

    @property
    def _bound_last(self) -> dict[int, Masked]:
        if not hasattr(self, "_bound"):
            self._bound: dict[int, Masked] = {}
        return self._bound

    def _retry_waiting(self) -> None:
        """Look again at warps that wait: their partners may have exited."""
        for at in list(self.waiting):
            mask = self.waiting.pop(at)
            mask = mask & self.machine.executing(None)
            segment = self.segments[at]
            assert segment.last is not None
            what = meaning_of(self.machine, segment.last)
            assert isinstance(what, Collective)
            if np.count_nonzero(mask):
                self._collective(at, segment, segment.last, what, mask)

    def _barrier(self, at: int, segment: Segment, inst: Inst, what: Barrier, mask: np.ndarray) -> None:
        machine = self.machine
        numbers = np.broadcast_to(machine.source(what.number, "u32"), machine.lanes)
        for number in np.unique(numbers[mask]):
            here = mask & (numbers == number)
            if number > 15:
                machine.fault(
                    inst,
                    f"barrier {number} does not exist: a CTA has barriers 0 to 15",
                    int(np.flatnonzero(here)[0]),
                )
            lanes = np.flatnonzero(here)
            ctas = machine.cta_of_lane[lanes]
            if what.count is not None:
                counts = np.broadcast_to(machine.source(what.count, "u32"), machine.lanes)[lanes]
                wrong = np.flatnonzero((counts % 32 != 0) | (counts == 0))
                if wrong.size:
                    machine.fault(
                        inst,
                        f"the thread count {counts[wrong[0]]} of a barrier must be a multiple of 32",
                        int(lanes[wrong[0]]),
                    )
                self.barrier_count[number, ctas] = counts
            elif not what.arrive_only:
                self.barrier_count[number, ctas] = 0  # all threads
            if what.arrive_only:
                self.arrived[number] += np.bincount(ctas, minlength=machine.ctas)
                for observer in machine.observers:
                    observer.barrier_arrived(inst, int(number), here)
                self._add(segment.after, here)
            else:
                self.barrier_of[lanes] = number
                for observer in machine.observers:
                    observer.barrier_waits(inst, int(number), here)
                known = self.at_barrier.get(at)
                self.at_barrier[at] = here if known is None else known | here
        self._check_barriers()

    def _check_barriers(self) -> None:
        """Release the threads at barriers whose count is reached."""
        machine = self.machine
        if not self.at_barrier:
            return
        there = np.zeros(machine.lanes, np.bool_)
        for mask in self.at_barrier.values():
            there |= mask
        ctas = machine.ctas
        alive = np.count_nonzero(machine.executing(None).reshape(ctas, -1), axis=1)
        for number in np.unique(self.barrier_of[there]):
            at = there & (self.barrier_of == number)
            come = np.count_nonzero(at.reshape(ctas, -1), axis=1) + self.arrived[number]
            wanted = np.where(self.barrier_count[number] > 0, self.barrier_count[number], alive)
            done = (come >= wanted) & (come > 0)
            if not done.any():
                continue
            released = at & done[machine.cta_of_lane]
            self.arrived[number][done] = 0
            self.barrier_of[released] = -1
            for observer in machine.observers:
                observer.barrier_released(int(number), released)
            for segment_number in list(self.at_barrier):
                mask = self.at_barrier[segment_number]
                go = mask & released
                if not np.count_nonzero(go):
                    continue
                rest = mask & ~released
                if np.count_nonzero(rest):
                    self.at_barrier[segment_number] = rest
                else:
                    del self.at_barrier[segment_number]
                segment = self.segments[segment_number]
                assert segment.last is not None
                what = meaning_of(machine, segment.last)
                assert isinstance(what, Barrier)
                finish = self._barrier_result(segment.last, what)
                if finish is not None:
                    finish(go)
                self._add(segment.after, go)

    def _barrier_result(self, inst: Inst, what: Barrier) -> Callable[[np.ndarray], None] | None:
        """What barrier.red writes, over the threads of each CTA that are released together."""
        if not what.combine:
            return None
        machine = self.machine
        predicate, destination = what.predicate, what.destination
        assert predicate is not None
        assert destination is not None
        flip = isinstance(predicate, Not)
        p = machine.source(predicate.operand if isinstance(predicate, Not) else predicate, "pred")

        def finish(mask: np.ndarray) -> None:
            value = np.broadcast_to(~p if flip else p, machine.lanes)
            votes = np.count_nonzero((value & mask).reshape(machine.ctas, -1), axis=1)
            if what.combine == "popc":
                r: Array = votes.astype(np.uint32)
            elif what.combine == "or":
                r = votes > 0
            else:
                r = votes == np.count_nonzero(mask.reshape(machine.ctas, -1), axis=1)
            if isinstance(destination, Reg):
                row = machine.row(destination)
                np.copyto(row, r[machine.cta_of_lane], "unsafe", mask)

        return finish

    def _cluster_barrier(self, at: int, segment: Segment, what: ClusterBarrier, mask: np.ndarray) -> None:
        machine = self.machine
        if not what.wait:
            self.cluster_arrived |= mask
            inst = segment.last
            assert inst is not None
            for observer in machine.observers:
                observer.cluster_arrived(inst, mask)
            self._add(segment.after, mask)
        else:
            known = self.cluster_waiting.get(at)
            self.cluster_waiting[at] = mask if known is None else known | mask
        self._check_clusters()

    def _check_clusters(self) -> None:
        machine = self.machine
        per = machine.cluster_size * machine.padded
        alive = machine.executing(None)
        missing = (alive & ~self.cluster_arrived).reshape(-1, per).any(axis=1)
        some = self.cluster_arrived.reshape(-1, per).any(axis=1)
        complete = np.repeat(~missing & some, per)
        if complete.any():
            # the phase is over: threads that arrived in it may pass their wait, and the next phase begins
            self.cluster_done |= self.cluster_arrived & complete
            for observer in machine.observers:
                observer.cluster_completed(self.cluster_arrived & complete)
            self.cluster_arrived &= ~complete
        for at in list(self.cluster_waiting):
            mask = self.cluster_waiting[at]
            go = mask & self.cluster_done
            if np.count_nonzero(go):
                self.cluster_done &= ~go
                for observer in machine.observers:
                    observer.cluster_released(go)
                rest = mask & ~go
                if np.count_nonzero(rest):
                    self.cluster_waiting[at] = rest
                else:
                    del self.cluster_waiting[at]
                self._add(self.segments[at].after, go)

    #
    #
    #
    #
    # --------------------------------------------------------------------------------------------------------- reports

    def counts(self) -> list[int]:
        """Thread executions of each segment."""
        total = list(self.executed)
        for first, count in self._chained.items():
            chain = self._chains[first]
            assert chain is not None
            for segment in chain.segments:
                total[segment] += count
        return total

    def _place(self, at: int) -> Inst | None:
        segment = self.segments[at]
        return segment.last or (segment.body[-1] if segment.body else None)

    def _too_long(self, segment: int, message: str) -> None:
        inst = self._place(segment)
        if inst is None:
            raise SimulationError(message)
        found = [self.machine.diagnostic(inst, message)]
        for at, mask in self.groups.items():
            other = self._place(at)
            if other is not None:
                lanes = np.flatnonzero(mask)
                found.append(self.machine.diagnostic(other, f"{lanes.size} threads were here", int(lanes[0])))
        for copy in self.machine.pending.held[:1]:
            found.append(self.machine.diagnostic(copy.inst, NOT_SUBMITTED, int(copy.lanes[0]), SUBMIT))
        raise SimulationError(found)


def _instructions(segment: Segment) -> tuple[Inst, ...]:
    return (*segment.body, segment.last) if segment.last is not None else tuple(segment.body)


def _call_operands(inst: Inst) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...]]:
    """(results, function, arguments) of a call."""
    operands = list(inst.operands)
    returns: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Args):
        returns = operands[0].elements
        del operands[0]
    target = operands.pop(0)
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Args):
        arguments = operands[0].elements
    return returns, target, arguments
