"""Tensor maps that a kernel edits (PTX ISA 9.7.15.4, 8.9.4): copies read them through a proxy of their own.

Whoever writes a map in global memory releases it (fence.proxy.tensormap::generic.release, or the copy from shared memory
by tensormap.cp_fenceproxy, which does so itself), and whoever copies with it acquires it by address
(fence.proxy.tensormap::generic.acquire), after a synchronisation between the two. A copy may read its map until it is
complete (9.7.10.28.1), so that it is not edited before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dialects.ptx.tensor_map import TensormapCpFenceproxy, TensormapReplace
from ...machine.machine import Action
from ...machine.memory import address_of
from ...machine.pending import Copy
from ...machine.program import Inst
from ..rule import Rule
from ..state.context import Context, Part
from ..state.copies import Copies, State
from ..state.order import Order
from ..state.shadow import ASYNC, THREAD, Space
from .proxies import PROXY
from .races import Races

Array = Any
SIZE = 128
MAP_IN_USE = Rule(
    "tensor-map-in-use",
    ("9.7.10.28.1",),
    "a kernel edits a tensor map that a copy may still read",
    "wait for the mbarrier that the copy completes, or for its group (cp.async.bulk.wait_group.read 0), and synchronise with the "
    "thread that edits the map; or use a second map",
)


class TensorMaps(Part):
    """The tensor maps of a launch."""

    rules = (MAP_IN_USE,)

    def __init__(self, context: Context):
        super().__init__(context)
        self.order, self.races, self.copies = context.part(Order), context.part(Races), context.part(Copies)
        self.released: dict[int, int] = {}
        """Thread of the grid -> when it last executed a release fence."""
        self.acquired: dict[int, list[tuple[int, int]]] = {}
        """Address of a map -> (lane, time) of the acquire fences of this batch."""
        self.edits = any(
            inst.family in (TensormapReplace, TensormapCpFenceproxy) for inst in self.machine.program.instructions
        )
        self.chosen: dict[tuple[int, int], int] = {}
        """(instruction, lane) -> address of the map of the copy that it is about to issue."""
        self.users: dict[int, list[State]] = {}
        """Address of a map -> the copies that were issued with it since it was edited."""

    def restart(self) -> None:
        """The launch begins again: nobody has used or edited a map."""
        self.released.clear()
        self.users.clear()

    def start(self) -> None:
        self.acquired.clear()
        self.chosen.clear()

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences != "tensormap":
            return action
        machine = self.machine
        both = inst.has("acq_rel")

        def fence(mask: Array) -> object:
            now = self.context.tick(inst)
            for lane in np.flatnonzero(machine.active(inst, mask)).tolist():
                if both or inst.has("release"):
                    self.released[lane + self.context.first_lane] = now
                if inst.operands:
                    address = address_of(machine, inst.operands[0], lane)
                    self.acquired.setdefault(address, []).append((lane, now))
            return action(mask)

        return fence

    def _granules(self, kind: str, start: int, lane: int) -> tuple[Space, Array, Array] | None:
        """(space, granules, the lane for each) of a map at a place in shared memory, or a global address."""
        space, first = (
            (self.shadow.shared, start) if kind == "shared" else (self.shadow.memory, self.shadow.of_address(start))
        )
        if first is None:
            return None
        index = np.arange(first >> space.shift, (first + SIZE - 1 >> space.shift) + 1)
        return space, index, np.full(index.size, lane)

    def tensor_map_edited(self, inst: Inst, lane: int, kind: str, start: int) -> None:
        """tensormap.replace, or the copy to global memory, writes a map."""
        found = self._granules(kind, start, lane)
        if found is None:
            return
        now = self.context.tick(inst)
        if kind == "global":
            self._in_use(inst, lane, start)
        space, index, lanes = found
        if not self.clocks.too_large:
            self.races.check(inst, space, index, lanes, space.write[index], 0, "written", "written")
        space.write[index] = self.order.numbers[lane] + (now << 32)
        if inst.family is TensormapCpFenceproxy:
            self.released[lane + self.context.first_lane] = now

    def issued(self, copy: Copy, state: State) -> None:
        """A copy begins."""
        if self.chosen:
            address = self.chosen.pop((copy.inst.number, int(copy.lanes[0])), None)
            if address is not None:
                self.users.setdefault(address, []).append(state)

    def _in_use(self, inst: Inst, lane: int, address: int) -> None:
        """The copies with a map must be complete when it is edited."""
        if self.clocks.too_large:
            return
        for state in self.users.pop(address, ()):
            if not self.copies.is_read(state, lane):
                self.report(
                    MAP_IN_USE,
                    inst,
                    "a tensor map is edited here that a copy may still read: this thread does not know that the copy, "
                    f"which was issued by {self.context.thread(int(state.numbers[0]))}, is complete",
                    lane,
                    other=state.copy.inst,
                )

    def tensor_map_used(self, inst: Inst, lane: int, address: int) -> None:
        """A copy reads the map at an address."""
        if self.edits:
            self.chosen[inst.number, lane] = address
        found = self._granules("global", address, lane)
        if found is None or self.clocks.too_large:
            return
        space, index, lanes = found
        stamps = space.write[index]
        written = np.flatnonzero((stamps != 0) & (stamps < ASYNC))
        if not written.size:
            return
        self.context.tick(inst)
        self.races.check(inst, space, index, lanes, stamps, 0, "used as a tensor map", "written")
        stamp = int(stamps[written].max())
        who, time = stamp & THREAD, stamp >> 32
        if self.released.get(who, 0) < time:
            problem, hint = (
                f"it was written by {self.context.thread(who)}, which executed no fence.proxy.tensormap after",
                "the thread that writes the map executes fence.proxy.tensormap::generic.release.gpu after its stores",
            )
        elif not any(self._reaches(lane, other, at) for other, at in self.acquired.get(address, ()) if at > time):
            problem, hint = (
                "no fence.proxy.tensormap acquired it after it was written",
                "the thread that issues the copy executes fence.proxy.tensormap::generic.acquire.gpu [map], 128 first",
            )
        else:
            return
        self.report(
            PROXY,
            inst,
            f"the tensor map of this copy was edited by the kernel: {problem}",
            lane,
            hint=hint,
            space=space,
            byte=int(index[0]) << space.shift,
            other=self.context.instruction_at(time),
        )

    def _reaches(self, lane: int, other: int, time: int) -> bool:
        """Whether what a lane of the batch did at a time happens before what `lane` does now."""
        there = np.array([other + self.context.first_lane])
        return other == lane or bool(self.clocks.ordered(np.array([lane]), there, np.array([time]))[0])
