"""Tensor maps that a kernel edits (PTX ISA 9.7.13.4, 8.9.4): copies read them through a proxy of their own.

Whoever writes a map in global memory releases it (fence.proxy.tensormap::generic.release, or the copy from shared memory
by tensormap.cp_fenceproxy, which does so itself), and whoever copies with it acquires it by address
(fence.proxy.tensormap::generic.acquire), after a synchronisation between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...dialects.ptx.tensor_map import TensormapCpFenceproxy
from ..memory import address_of
from ..observe import Action
from ..program import Inst
from .shadow import ASYNC, THREAD

if TYPE_CHECKING:
    from .sanitizer import Sanitizer

Array = Any
SIZE = 128


class TensorMaps:
    """The tensor maps of a launch."""

    def __init__(self, sanitizer: Sanitizer):
        self.s = sanitizer
        self.released: dict[int, int] = {}
        """Thread of the grid -> when it last executed a release fence."""
        self.acquired: dict[int, list[tuple[int, int]]] = {}
        """Address of a map -> (lane, time) of the acquire fences of this batch."""

    def start(self) -> None:
        self.acquired.clear()

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.fences != "tensormap":
            return action
        machine = self.s.machine
        both = inst.has("acq_rel")

        def fence(mask: Array) -> object:
            now = self.s.tick(inst)
            for lane in np.flatnonzero(machine.active(inst, mask)).tolist():
                if both or inst.has("release"):
                    self.released[lane + self.s.first_lane] = now
                if inst.operands:
                    address = address_of(machine, inst.operands[0], lane)
                    self.acquired.setdefault(address, []).append((lane, now))
            return action(mask)

        return fence

    def edited(self, inst: Inst, lane: int, kind: str, start: int) -> None:
        """tensormap.replace, or the copy to global memory, writes a map."""
        found = self.s.copies.range(kind, start, SIZE, lane)
        if found is None:
            return
        now = self.s.tick(inst)
        space, index, lanes = found
        races = self.s.races
        if not races.off:
            stamps = space.write[index]
            late = races._late(space, stamps, lanes)
            if len(late):
                races.examine(inst, space, index[late], lanes[late], stamps[late], 0, "written", "written")
        space.write[index] = races.numbers[lane] + (now << 32)
        if inst.family is TensormapCpFenceproxy:
            self.released[lane + self.s.first_lane] = now

    def used(self, inst: Inst, lane: int, address: int) -> None:
        """A copy reads the map at an address."""
        found = self.s.copies.range("global", address, SIZE, lane)
        if found is None or self.s.races.off:
            return
        space, index, lanes = found
        stamps = space.write[index]
        written = np.flatnonzero((stamps != 0) & (stamps < ASYNC))
        if not written.size:
            return
        self.s.tick(inst)
        races = self.s.races
        late = races._late(space, stamps, lanes)
        if len(late):
            races.examine(inst, space, index[late], lanes[late], stamps[late], 0, "used as a tensor map", "written")
        stamp = int(stamps[written].max())
        who, time = stamp & THREAD, stamp >> 32
        if self.released.get(who, 0) < time:
            problem, hint = (
                f"it was written by {self.s.thread(who)}, which executed no fence.proxy.tensormap after",
                "the thread that writes the map executes fence.proxy.tensormap::generic.release.gpu after its stores",
            )
        elif not any(self._reaches(lane, other, at) for other, at in self.acquired.get(address, ()) if at > time):
            problem, hint = (
                "no fence.proxy.tensormap acquired it after it was written",
                "the thread that issues the copy executes fence.proxy.tensormap::generic.acquire.gpu [map], 128 first",
            )
        else:
            return
        self.s.report(
            "proxy",
            inst,
            f"the tensor map of this copy was edited by the kernel: {problem}",
            lane,
            hint=hint,
            space=space,
            byte=int(index[0]) << space.shift,
            other=self.s.instruction_at(time),
        )

    def _reaches(self, lane: int, other: int, time: int) -> bool:
        """Whether what a lane of the batch did at a time happens before what `lane` does now."""
        there = np.array([other + self.s.first_lane])
        return other == lane or bool(self.s.clocks.ordered(np.array([lane]), there, np.array([time]))[0])
