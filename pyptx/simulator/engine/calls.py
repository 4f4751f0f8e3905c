"""Calls of functions: arguments and results as bytes, and what a caller that may be called again keeps of its registers."""

from __future__ import annotations

import numpy as np

from ...diagnostics import counted
from ..machine.program import Args, Inst, Name, Operand, Place, Reg, Segment, Sink, Vec
from ..semantics.builtins import call_builtin
from .batch import Batch


class Calls:
    """Sends the threads of a batch to functions, and back to where these were called."""

    def __init__(self, batch: Batch):
        self.batch, self.machine = batch, batch.machine

    def call(self, segment: Segment, mask: np.ndarray) -> None:
        inst = segment.last
        assert inst is not None
        returns, target, arguments = _call_operands(inst)
        if isinstance(target, (Place, Name)):
            function = next((f for f in self.batch.program.functions if f.name == target.name), None)
            if function is None:
                self.machine.fault(inst, f"{target.name} is not a function")
            self._call_function(segment, inst, function.number, returns, arguments, mask)
            return
        pointer = np.broadcast_to(self.machine.source(target, "u64"), self.machine.lanes)
        for value in np.unique(pointer[mask]):
            here = mask & (pointer == value)
            number = (int(value) - 0x0000_7600_0000_0000) // 16
            if not any(f.number == number and int(value) % 16 == 0 for f in self.batch.program.functions):
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
        function = next(f for f in self.batch.program.functions if f.number == number)
        lanes = np.flatnonzero(mask)
        if function.builtin:
            call_builtin(machine, inst, function.name, returns, arguments, lanes)
            self.batch.add(segment.after, mask)
            return
        if len(arguments) != len(function.parameters):
            machine.fault(
                inst, f"{function.name} takes {counted(len(function.parameters), 'argument')}, not {len(arguments)}"
            )
        caller = next(f for f in self.batch.program.functions if f.number == segment.function)
        values = [self._read(a, f.size, lanes) for a, f in zip(arguments, function.parameters, strict=True)]
        level = self.batch.depth[lanes]
        if level.size and int(level.max()) + 1 >= len(self.batch.calls):
            self.batch.calls = np.concatenate([self.batch.calls, np.zeros_like(self.batch.calls)])
            self.batch.marks = np.concatenate([self.batch.marks, np.zeros_like(self.batch.marks)])
        self.batch.marks[level, lanes] = machine.stack_top[lanes]
        self.batch.calls[level, lanes] = segment.after
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
        self.batch.depth[lanes] += 1
        for value, formal in zip(values, function.parameters, strict=True):
            self._write(formal.place, value, lanes)
        self.batch.add(function.entry, mask)

    def come_back(self, mask: np.ndarray) -> None:
        """Threads inside a call return from it."""
        batch = self.batch
        depth = batch.depth
        lanes = np.flatnonzero(mask)
        if not lanes.size:
            return
        depth[lanes] -= 1
        sites = batch.calls[depth[lanes], lanes]
        self.machine.stack_top[lanes] = batch.marks[depth[lanes], lanes]
        for site in np.unique(sites):
            here = np.zeros(self.machine.lanes, np.bool_)
            here[lanes[sites == site]] = True
            self._arrive(int(site), here)

    def _arrive(self, site: int, mask: np.ndarray) -> None:
        """Threads return from a call: fetch the results, restore the caller's registers and frame."""
        machine = self.machine
        segment = next(s for s in self.batch.segments if s.after == site and s.ends == "call")
        inst = segment.last
        assert inst is not None
        lanes = np.flatnonzero(mask)
        returns, target, _ = _call_operands(inst)
        if isinstance(target, (Place, Name)):
            function = next(f for f in self.batch.program.functions if f.name == target.name)
        else:
            # the register still holds the function's address: a function does not write its caller's
            # registers, recursion restores them
            function = None
        caller = next(f for f in self.batch.program.functions if f.number == segment.function)
        values: list[np.ndarray] = []
        callee = function
        if callee is None and caller.frame is None:
            number = (int(machine.source(target, "u64")[lanes[0]]) - 0x0000_7600_0000_0000) // 16
            callee = next(f for f in self.batch.program.functions if f.number == number)
        if callee is not None:
            values = [self._read(f.place, f.size, lanes) for f in callee.returns]
        if caller.frame is not None:
            self._restore(caller.number, self.batch.depth[lanes], lanes)
            if callee is None:
                # results of an indirect call in a recursive function: its frame lies right above the caller's
                number = (int(machine.source(target, "u64")[lanes[0]]) - 0x0000_7600_0000_0000) // 16
                callee = next(f for f in self.batch.program.functions if f.number == number)
                values = [self._read(f.place, f.size, lanes) for f in callee.returns]
            for other in self.batch.program.functions:
                if other.frame is not None and other.number != caller.number:
                    machine.row(other.frame)[lanes] = machine.row(caller.frame)[lanes]
        for value, to in zip(values, returns, strict=False):
            if not isinstance(to, Sink):
                self._write(to, value, lanes)
        self.batch.add(site, mask)

    def _save(self, number: int, level: np.ndarray, lanes: np.ndarray) -> None:
        function = next(f for f in self.batch.program.functions if f.number == number)
        stacks = self.batch.saved.setdefault(number, [])
        for i, (pool, (first, last)) in enumerate(function.registers.items()):
            rows = self.machine.pools[pool][first:last]
            if i == len(stacks):
                stacks.append(np.zeros((4, *rows.shape), rows.dtype))
            while int(level.max()) >= len(stacks[i]):
                stacks[i] = np.concatenate([stacks[i], np.zeros_like(stacks[i])])
            for lv in np.unique(level):
                here = lanes[level == lv]
                stacks[i][lv][..., here] = rows[..., here]
        frames = self.batch.saved.setdefault(~number, [np.zeros((4, self.machine.lanes), np.uint32)])
        while int(level.max()) >= len(frames[0]):
            frames[0] = np.concatenate([frames[0], np.zeros_like(frames[0])])
        assert function.frame is not None
        frames[0][level, lanes] = self.machine.row(function.frame)[lanes]

    def _restore(self, number: int, level: np.ndarray, lanes: np.ndarray) -> None:
        function = next(f for f in self.batch.program.functions if f.number == number)
        for i, (pool, (first, last)) in enumerate(function.registers.items()):
            rows = self.machine.pools[pool][first:last]
            for lv in np.unique(level):
                here = lanes[level == lv]
                rows[..., here] = self.batch.saved[number][i][lv][..., here]
        assert function.frame is not None
        self.machine.row(function.frame)[lanes] = self.batch.saved[~number][0][level, lanes]

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
