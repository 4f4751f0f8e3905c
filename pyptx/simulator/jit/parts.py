"""A run of instructions as LLVM IR: one loop over the lanes for each part.

Neighbouring lane-wise instructions are one part, which keeps values in vector registers and writes each register's row
once. A load or a store is a part of its own: first a loop that asks whether all its lanes go where the last ones went
(`memory.Window`), which writes nothing, then the loop that moves the data. So when the answer is no, everything
before has happened, nothing after has, and NumPy can go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.lane import Lane, Value, bits_of
from ..machine.machine import Machine
from ..machine.memory import Access
from ..machine.program import Imm, Inst, Not, Operand, Place, Reg, Sink, Special, Vec
from ..machine.registry import Meaning, Pure, Step, dtype_of

Array = Any
LONGEST_PART = 48
"""Instructions in one loop: LLVM needs more than proportional time for long ones, and runs out of vector registers."""


def llvm_type(type_name: str) -> str:
    """The LLVM type in which a PTX scalar type is computed, as `registry.dtype_of` has it in NumPy."""
    dtype = dtype_of(type_name)
    if dtype.kind == "b":
        return "i1"
    bits = dtype.itemsize * 8
    return {32: "float", 64: "double"}[bits] if dtype.kind == "f" else f"i{bits}"


class Unfit(Exception):
    """An operand that the compiler does not know."""


@dataclass(slots=True)
class Move:
    """A load or store in a run: its place in the run, and where its window is among the pointers."""

    index: int
    access: Access
    write: bool
    ranked: bool
    """Whether addresses carry the rank of the lane's CTA in its cluster."""
    slot: int = -1


class Rows:
    """The rows and words that the native code is given, in the order in which it came to need them."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._slots: dict[int, int] = {}

    def slot(self, array: Array) -> int:
        """The number of a row, which must be contiguous."""
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise Unfit
        address = array.__array_interface__["data"][0]
        found = self._slots.get(address)
        if found is None:
            found = self._slots[address] = len(self.arrays)
            self.arrays.append(array)
        return found


def _stored(array: Array) -> str:
    """The LLVM type of a row's elements in memory: integers, also for what they mean as floats."""
    return f"i{array.itemsize * 8}"


class _Part:
    """The body of one loop."""

    def __init__(self, machine: Machine, rows: Rows, masked: bool):
        self.machine, self.rows, self.masked = machine, rows, masked
        self.lane = Lane()
        self.used: dict[int, None] = {}
        """Slots of the rows that the loop uses."""
        self._values: dict[int, Value] = {}
        self._old: dict[int, Value] = {}
        self.written: dict[int, None] = {}
        self.mask = self._read_mask() if masked else None

    def _read_mask(self) -> Value:
        at = self.lane.define("getelementptr i8, ptr %mask, i64 %i", "ptr")
        byte = self.lane.define(f"load i8, ptr {at.name}, align 1", "i8")
        return self.lane.compare("ne", byte, Value("0", "i8"))

    def pointer(self, slot: int, type: str) -> Value:
        """The address of the lane's element of a row."""
        self.used[slot] = None
        return self.lane.define(f"getelementptr {type}, ptr %r{slot}, i64 %i", "ptr")

    def read(self, array: Array) -> Value:
        """The lane's element of a row, as an integer of its size (a predicate: `i1`)."""
        slot = self.rows.slot(array)
        found = self._values.get(slot)
        if found is None:
            type = _stored(array)
            at = self.pointer(slot, type)
            found = self.lane.define(f"load {type}, ptr {at.name}, align {array.itemsize}", type)
            if array.dtype == np.bool_:
                found = self.lane.compare("ne", found, Value("0", "i8"))
            self._values[slot] = self._old[slot] = found
        return found

    def write(self, array: Array, value: Value, guard: Value | None) -> None:
        """Set the lane's element of a row, where the guard holds."""
        slot = self.rows.slot(array)
        if guard is not None:
            value = self.lane.select(guard, value, self.read(array))
        if self.mask is not None:
            self.read(array)  # what inactive lanes keep
        self._values[slot] = value
        self.written[slot] = None

    def source(self, operand: Operand, type_name: str) -> Value:
        """An operand in a scalar type."""
        if isinstance(operand, Not):
            inner = self.source(operand.operand, type_name)
            return self.lane.binary("xor", inner, Value("-1", inner.type))
        type = llvm_type(type_name)
        machine, dtype = self.machine, dtype_of(type_name)
        if isinstance(operand, Imm):
            return self._constant(operand.array(dtype), type)
        if isinstance(operand, Place):
            number = machine.address_of(operand)
            start = self._constant(np.array([number], np.uint64).astype(f"u{dtype.itemsize}").view(dtype), type)
            if operand.space != "shared" or machine.rank_bits is None:
                return start
            return self.lane.binary("add", start, self.lane.resize(self.read(machine.rank_bits), type))
        if isinstance(operand, Reg):
            row = machine.row(operand)
        elif isinstance(operand, Special):
            row = machine.special(operand.name)
        else:
            raise Unfit
        return self._typed(self.read(row), type)

    def _constant(self, array: Array, type: str) -> Value:
        unsigned = array.view(f"u{array.itemsize}")
        return self.lane.bits(int(unsigned[0]), type)

    def _typed(self, value: Value, type: str) -> Value:
        """The low bits of a register's value as a type."""
        if (value.type == "i1") != (type == "i1") or bits_of(value.type) < bits_of(type):
            raise Unfit
        word = self.lane.resize(value, f"i{bits_of(type)}")
        return self.lane.convert("bitcast", word, type)

    def assign(self, operand: Operand, type_name: str, value: Value, guard: Value | None) -> None:
        """Write a result of a scalar type; a wider register gets it extended, as `Machine.destination` has it."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Reg):
            raise Unfit
        row = self.machine.row(operand)
        bits = 1 if operand.pool == "p" else row.itemsize * 8
        word = self.lane.word(value) if value.type in ("float", "double") else value
        if bits < bits_of(word.type) or (bits == 1) != (word.type == "i1"):
            raise Unfit
        self.write(row, self.lane.resize(word, f"i{bits}", dtype_of(type_name).kind == "i"), guard)

    def guard(self, inst: Inst) -> Value | None:
        if inst.guard is None:
            return None
        p = self.read(self.machine.row(inst.guard))
        return self.lane.binary("xor", p, Value("-1", "i1")) if inst.negated else p

    def active(self, inst: Inst) -> Value | None:
        """Whether an instruction takes effect in the lane; None: it does."""
        guard = self.guard(inst)
        if guard is None or self.mask is None:
            return guard or self.mask
        return self.lane.binary("and", guard, self.mask)

    def execute(self, inst: Inst, what: Pure) -> None:
        assert what.native is not None
        values = [self.source(o, t) for o, t in what.sources]
        results = what.native(self.lane, *values)
        if len(what.destinations) == 1:
            results = (results,)
        guard = self.guard(inst)
        for (operand, type_name), value in zip(what.destinations, results, strict=True):
            self.assign(operand, type_name, value, guard)

    def finish(self) -> None:
        """Store the rows that were written."""
        for slot in self.written:
            array, value = self.rows.arrays[slot], self._values[slot]
            if self.mask is not None:
                value = self.lane.select(self.mask, value, self._old[slot])
            if array.dtype == np.bool_:
                value = self.lane.convert("zext", value, "i8")
            at = self.pointer(slot, value.type)
            self.lane.lines.append(f"store {value.type} {value.name}, ptr {at.name}, align {array.itemsize}")


class Writer:
    """Writes the IR of a run for a machine, with a mask or for all lanes. Unfit for operands it does not know."""

    def __init__(self, machine: Machine, masked: bool):
        self.machine, self.masked = machine, masked
        self.rows = Rows()
        self.moves: list[Move] = []
        self._functions: list[str] = []
        self._calls: list[str] = []
        self._part: _Part | None = None
        self._size = 0

    def add(self, index: int, inst: Inst, what: Meaning) -> None:
        """Append an instruction; `index` is its place in the run."""
        if isinstance(what, Step):
            self._move(index, inst)
            return
        assert isinstance(what, Pure)
        part = self._part
        if part is None or self._size == LONGEST_PART:
            self._end_part()
            part = self._part = _Part(self.machine, self.rows, self.masked)
        part.execute(inst, what)
        self._size += 1

    def _end_part(self) -> None:
        part, self._part, self._size = self._part, None, 0
        if part is None:
            return
        part.finish()
        self._calls.append(f"  call void {self._function(part, 'void', part.lane.lines)}")

    def _parameters(self, part: _Part, typed: str) -> str:
        words = [f"ptr {typed}%r{slot}" for slot in part.used]
        words += [f"ptr {typed}%mask"] if self.masked else []
        return ", ".join([*words, "i64 %n"])

    def _function(self, part: _Part, result: str, body: Sequence[str], data: int | None = None) -> str:
        """Define a loop; the text of its call."""
        name = f"@part{len(self._functions)}"
        extra = "" if data is None else "ptr noalias %data, i64 %start, i64 %count, ptr noalias %first, "
        given = "" if data is None else f"ptr %w{data}, i64 %start{data}, i64 %count{data}, ptr %first{data}, "
        carried = ["  %bad = phi i64 [ 0, %entry ], [ %worse, %next ]"] if result == "i64" else []
        self._functions.append(
            "\n".join(
                [
                    f"define internal {result} {name}({extra}{self._parameters(part, 'noalias ')}) noinline nounwind {{",
                    "entry:",
                    "  br label %loop",
                    "loop:",
                    "  %i = phi i64 [ 0, %entry ], [ %j, %next ]",
                    *carried,
                    *(line if line.endswith(":") else f"  {line}" for line in body),
                    "  br label %next",
                    "next:",
                    "  %j = add nuw nsw i64 %i, 1",
                    "  %end = icmp eq i64 %j, %n",
                    "  br i1 %end, label %exit, label %loop",
                    "exit:",
                    "  ret i64 %worse" if result == "i64" else "  ret void",
                    "}",
                ]
            )
        )
        return f"{name}({given}{self._parameters(part, '')})"

    # ------------------------------------------------------------------------------------------------ memory

    def _offset(self, part: _Part, access: Access) -> Value:
        """The offset of the lane's address in the window."""
        address = part.read(access.row)
        start = part.lane.resize(Value("%start", "i64"), address.type)
        offset = part.lane.binary("sub", address, start)
        if self._ranked(access):
            rank = part.lane.resize(part.read(self.machine.rank_bits), address.type)
            offset = part.lane.binary("sub", offset, rank)
        return part.lane.resize(offset, "i64")

    def _ranked(self, access: Access) -> bool:
        return self.machine.rank_bits is not None and access.space in ("shared", "shared::cluster")

    def _move(self, index: int, inst: Inst) -> None:
        access = self.machine.accesses[inst]
        self._end_part()
        number = len(self.moves)
        shift = access.size.bit_length() - 1
        check = _Part(self.machine, self.rows, self.masked)
        lane = check.lane
        offset = self._offset(check, access)
        beyond = lane.compare("uge", lane.binary("lshr", offset, lane.constant(shift, "i64")), Value("%count", "i64"))
        low = lane.binary("and", offset, lane.constant(access.size - 1, "i64"))
        wrong = lane.binary("or", beyond, lane.compare("ne", low, lane.constant(0, "i64")))
        active = check.active(inst)
        if active is not None:
            wrong = lane.binary("and", wrong, active)
        lane.lines.append(f"%worse = or i64 %bad, {lane.convert('zext', wrong, 'i64').name}")
        self._calls += [
            f"  %bad{number} = call i64 {self._function(check, 'i64', lane.lines, number)}",
            f"  %ok{number} = icmp eq i64 %bad{number}, 0",
            f"  br i1 %ok{number}, label %go{number}, label %stop{number}",
            f"stop{number}:",
            f"  ret i64 {number + 1}",
            f"go{number}:",
        ]
        write = inst.family.access == "store"
        self.moves.append(Move(index, access, write, self._ranked(access)))
        part = _Part(self.machine, self.rows, self.masked)
        self._move_body(part, inst, access, shift, write)
        self._calls.append(f"  call void {self._function(part, 'void', part.lane.lines, number)}")

    def _move_body(self, part: _Part, inst: Inst, access: Access, shift: int, write: bool) -> None:
        lane, kind = part.lane, inst.type
        active = part.active(inst)
        if write:
            memory, values = inst.operands
            elements = values.elements if isinstance(values, Vec) else (values,)
            words = [lane.word(part.source(e, kind)) for e in elements]
            assert memory is not None
        else:
            targets = inst.operands[0]
            elements = targets.elements if isinstance(targets, Vec) else (targets,)
            words = []
        if active is not None:
            lane.lines += [f"br i1 {active.name}, label %do, label %next_", "do:"]
        offset = self._offset(part, access)
        type = f"i{bits_of(llvm_type(kind))}"
        index = lane.binary("lshr", offset, lane.constant(shift, "i64"))
        first = lane.define("getelementptr i64, ptr %first, i64 %i", "ptr")
        index = lane.binary("add", index, lane.define(f"load i64, ptr {first.name}, align 8", "i64"))
        index = lane.binary("mul", index, lane.constant(len(elements), "i64"))
        for k, element in enumerate(elements):
            at = lane.binary("add", index, lane.constant(k, "i64"))
            pointer = lane.define(f"getelementptr {type}, ptr %data, i64 {at.name}", "ptr")
            if write:
                lane.lines.append(f"store {type} {words[k].name}, ptr {pointer.name}, align 1")
            else:
                loaded = lane.define(f"load {type}, ptr {pointer.name}, align 1", type)
                part.assign(element, kind, lane.convert("bitcast", loaded, llvm_type(kind)), None)
        if not write:
            part.mask = None  # the branch stands for it
            part.finish()
        if active is not None:
            lane.lines += ["br label %next_", "next_:"]

    def text(self) -> str:
        """The module, with the function `run(pointers, warps, mask)`. After the rows come four words for each move: data,
        start, count and first (see `Move`).
        """
        self._end_part()
        head: list[str] = []
        for i, move in enumerate(self.moves):
            move.slot = len(self.rows.arrays) + 4 * i

        def load(name: str, type: str, slot: int) -> None:
            head.append(f"  {name}.at = getelementptr i64, ptr %pointers, i64 {slot}")
            head.append(f"  {name} = load {type}, ptr {name}.at, align 8")

        for slot in range(len(self.rows.arrays)):
            load(f"%r{slot}", "ptr", slot)
        for i, move in enumerate(self.moves):
            names = (("%w", "ptr"), ("%start", "i64"), ("%count", "i64"), ("%first", "ptr"))
            for k, (name, type) in enumerate(names):
                load(f"{name}{i}", type, move.slot + k)
        return "\n".join(
            [
                *self._functions,
                "define i64 @run(ptr %pointers, i64 %warps, ptr %mask) nounwind {",
                "start:",
                *head,
                "  %n = shl nuw nsw i64 %warps, 5",
                *self._calls,
                "  ret i64 0",
                "}",
                *_declarations("\n".join(self._functions)),
                "",
            ]
        )


def _declarations(text: str) -> list[str]:
    """Declarations of the intrinsics that are called."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        if "@llvm." not in line:
            continue
        result, _, rest = line.partition(" call ")[2].partition(" @")
        name, _, arguments = rest.partition("(")
        types = ", ".join(a.split()[0] for a in arguments.rstrip(")").split(", "))
        found[f"declare {result} @{name}({types})"] = None
    return list(found)
