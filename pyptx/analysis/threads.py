"""How values depend on the thread: evaluated for every thread of a CTA, up to an unknown that is the same in
each warp.

A value is followed through the integer instructions as `lanes + rest`: `lanes` is an exact number per thread
(so XOR swizzles, masks and
shifts of the thread index are exact too), `rest` a sum of unknowns that do not differ inside a warp
(parameters, CTA indices, addresses
of variables, loop counters). What cannot be followed keeps its *level*: the same in the CTA, the same in each
warp, or varying.

Assumptions: threads of a warp run loops together; sums of addresses do not wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.ptx.control import BranchIndexed
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.logic import And, Or, Shl
from ..dialects.ptx.operands import Bound, Group, Memory, Negated, Value, bound_operands
from ..dialects.ptx.structure import FunctionOp, UndefOp
from ..dialects.ptx.syntax import Immediate, SpecialRegister, Symbol
from ..dialects.ptx.types import SCALAR_TYPES, class_bits
from ..ssa.graph import dominance_frontiers
from .cfg import CFG
from .operands import guard_value, line_of, passed_values, register_class, register_name, tied_values

WARP = 32
CTA, PER_WARP, VARYING = 0, 1, 2
"""Levels: the same for all threads of the CTA, the same in each warp, different inside a warp."""

Numbers = NDArray[np.int64]
Rest = tuple[tuple[str, int], ...]
"""Unknowns with their factors, sorted by name."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """One number per thread (or a single one for all), plus unknowns. Of a predicate: 0 or 1, without
    unknowns."""

    numbers: Numbers
    rest: Rest = ()

    @property
    def known(self) -> bool:
        return not self.rest

    @property
    def constant(self) -> int | None:
        """The number, if it is one and the same for all threads."""
        return int(self.numbers[0]) if len(self.numbers) == 1 and not self.rest else None

    def same(self, other: Lanes) -> bool:
        return self.rest == other.rest and bool((self.numbers == other.numbers).all())


@dataclass(slots=True)
class Threads:
    """The threads of a CTA: its shape, whether the kernel states it, and what every value is per thread."""

    shape: tuple[int, int, int]
    stated: bool
    """Whether `.reqntid` or the caller gave the shape; else it is an assumption."""
    values: dict[SSAValue, Lanes]
    levels: dict[SSAValue, int]

    @property
    def count(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    def level(self, value: SSAValue) -> int:
        return self.levels.get(value, VARYING)

    def lanes(self, value: SSAValue) -> Lanes | None:
        return self.values.get(value)

    def per_thread(self, lanes: Lanes) -> Numbers:
        """Its numbers, one for each thread."""
        return np.broadcast_to(lanes.numbers, (self.count,)) if len(lanes.numbers) == 1 else lanes.numbers

    def address(self, memory: Memory) -> Lanes | None:
        """The address of a memory operand, per thread."""
        if isinstance(memory.base, Symbol):
            return replace(_number(memory.offset), rest=((memory.base.name, 1),))
        if isinstance(memory.base, Immediate):
            return _number(int(memory.base.value) + memory.offset)
        if not isinstance(memory.base, Value):
            return None
        base = self.values.get(memory.base.value)
        return None if base is None else Lanes(base.numbers + memory.offset, base.rest)

    def describe(self, lanes: Lanes) -> str:
        """`4*tid.x + 128*tid.y + smem + 16`, or `f(tid) + smem` where it is not affine in the thread
        index."""
        terms: list[str] = []
        numbers = self.per_thread(lanes)
        base = int(numbers[0])
        fit = np.full(self.count, base, np.int64)
        stride = 1
        for axis, extent in zip("xyz", self.shape, strict=True):
            if extent > 1:
                step = int(numbers[stride]) - base
                fit = fit + step * (np.arange(self.count) // stride % extent)
                if step:
                    terms.append(f"{step}*tid.{axis}" if step != 1 else f"tid.{axis}")
            stride *= extent
        if not np.array_equal(fit, numbers):
            terms = ["f(tid)"]
            base = 0
        terms += [name if factor == 1 else f"{factor}*{name}" for name, factor in lanes.rest]
        if base or not terms:
            terms.append(str(base))
        return " + ".join(terms).replace("+ -", "- ")


MOST_THREADS = 1024
"""Of a CTA, on any GPU."""


def cta_shape(function: FunctionOp) -> tuple[tuple[int, int, int], bool]:
    """(threads per CTA in x, y, z; whether they are what every launch has). From `.reqntid`, else `.maxntid`,
    else 128 in
    one row, or 32 by 4 where the kernel reads `%tid.y`."""
    for name in (".reqntid", ".maxntid"):
        if numbers := function.numbers(name):
            x, y, z = (*numbers, 1, 1)[:3]
            if 1 <= x * y * z <= MOST_THREADS:  # else it cannot be launched; ptxas takes any numbers in .maxntid
                return (x, y, z), name == ".reqntid"
    for op in function.walk():
        if isinstance(op, Instruction) and SpecialRegister("%tid.y") in op.layout:
            return (32, 4, 1), False
    return (128, 1, 1), False


def thread_values(function: FunctionOp, cfg: CFG, shape: tuple[int, int, int] | None = None) -> Threads:
    """Follow every value of a function through its threads. `shape`: threads per CTA in x, y, z, if the
    caller knows them."""
    known = (shape, True) if shape is not None else cta_shape(function)
    threads = Threads(*known, {}, {})
    _Evaluation(threads, cfg).run()
    return threads


class _Evaluation:
    """Forward passes until nothing changes: levels only rise, and guesses about loops are only taken back."""

    def __init__(self, threads: Threads, cfg: CFG):
        self.threads, self.cfg = threads, cfg
        self.tree = cfg.dominators()
        self.values, self.levels = threads.values, threads.levels
        index = np.arange(threads.count, dtype=np.int64)
        x, y, _ = threads.shape
        self.special: dict[str, Lanes] = {
            "%tid.x": Lanes(index % x),
            "%tid.y": Lanes(index // x % y),
            "%tid.z": Lanes(index // (x * y)),
            "%laneid": Lanes(index % WARP),
            "%warpid": Lanes(index // WARP),
            "%lanemask_eq": Lanes(_wrap(1 << (index % WARP), 32)),
            "%lanemask_lt": Lanes(_wrap((1 << (index % WARP)) - 1, 32)),
            "%lanemask_le": Lanes(_wrap((2 << (index % WARP)) - 1, 32)),
            "%lanemask_gt": Lanes(_wrap(-(2 << (index % WARP)), 32)),
            "%lanemask_ge": Lanes(_wrap(-(1 << (index % WARP)), 32)),
        }
        if threads.stated:
            self.special |= {f"%ntid.{a}": _number(n) for a, n in zip("xyz", threads.shape, strict=True)}
        self.unknown: set[SSAValue] = set()
        self.step: dict[SSAValue, int] = {}
        self.divergent: dict[Block, int] = {}
        self.frontiers = dominance_frontiers(self.tree)

    def run(self) -> None:
        for _ in range(60):
            self.values.clear()
            before = dict(self.levels)
            for b in self.tree.order:
                self._block(b)
            settled = self._check_loops()
            joined = self._joins()
            if settled and not joined and before == self.levels:
                return
        self.values.clear()  # guesses that were not confirmed are worth nothing

    # -------------------------------------------------------------------------------------------------------
    # blocks

    def _block(self, b: int) -> None:
        block = self.cfg.blocks[b]
        if block.args:
            self._arguments(b, block)
        for op in block.ops:
            if op.results:
                self._op(op)

    def _arguments(self, b: int, block: Block) -> None:
        incoming: dict[SSAValue, list[tuple[int, SSAValue]]] = {a: [] for a in block.args}
        for p in dict.fromkeys(self.tree.predecessors[b]):
            last = self.cfg.blocks[p].last_op
            if last is None or not self.tree.reachable(p):
                continue
            for successor, argument, passed in passed_values(last):
                if last.successors[successor] is block:
                    incoming[argument].append((p, passed))
        divergent = self.divergent.get(block, CTA)
        for argument, sources in incoming.items():
            level = max((self.levels.get(v, CTA) for _, v in sources), default=CTA)
            first = [v for p, v in sources if not self.tree.dominates(b, p)]
            found: Lanes | None = None
            lanes = [self.values.get(v) for v in first]
            if lanes and all(x is not None for x in lanes) and argument not in self.unknown:
                found = self._joined(argument, cast("list[Lanes]", lanes), len(first) < len(sources), divergent)
            if found is None:
                self._set(argument, None, max(level, divergent))
            elif found is lanes[0]:
                self._set(argument, found, self._level_of(found))
            else:
                self._set(argument, found, max(self._level_of(found), divergent, level))

    def _joined(self, argument: SSAValue, lanes: list[Lanes], loop: bool, divergent: int) -> Lanes | None:
        """What an argument is, from the values before the loop (or of all branches at a join)."""
        first = lanes[0]
        if all(first.same(other) for other in lanes[1:]):
            if not loop:
                return first
            return Lanes(first.numbers, _plus(first.rest, ((self._name(argument), self.step.get(argument, 1)),)))
        if divergent >= VARYING:
            return None
        shift = lanes[0].numbers
        if any(len(np.unique(other.numbers - shift)) > 1 for other in lanes[1:]):
            return None
        return Lanes(first.numbers - first.numbers[0], ((self._name(argument), 1),))

    def _check_loops(self) -> bool:
        """Whether what comes around each loop has the form that was guessed: the same numbers up to a
        constant."""
        settled = True
        for b in self.tree.order:
            block = self.cfg.blocks[b]
            if not block.args:
                continue
            for p in dict.fromkeys(self.tree.predecessors[b]):
                last = self.cfg.blocks[p].last_op
                if last is None or not self.tree.dominates(b, p):
                    continue
                for successor, argument, passed in passed_values(last):
                    if last.successors[successor] is not block:
                        continue
                    guess, actual = self.values.get(argument), self.values.get(passed)
                    if guess is None:
                        continue
                    if actual is None or len(np.unique(actual.numbers - guess.numbers)) > 1:
                        self.unknown.add(argument)
                        settled = False
                        continue
                    step = int((actual.numbers - guess.numbers).flat[0])
                    if actual.rest == guess.rest and step and argument not in self.step:
                        self.step[argument] = abs(step)
                        settled = False
        return settled

    def _joins(self) -> bool:
        """Blocks where paths of a divergent branch meet: their arguments vary. True if one is new."""
        changed = False
        for b in self.tree.order:
            last = self.cfg.blocks[b].last_op
            if len(self.cfg.successors[b]) < 2 or not isinstance(last, Instruction):
                continue
            level = branch_level(last, self.threads)
            if level == CTA:
                continue
            work = list(dict.fromkeys(self.cfg.successors[b]))
            seen: set[int] = set()
            while work:
                for f in self.frontiers[work.pop()]:
                    if f in seen:
                        continue
                    seen.add(f)
                    work.append(f)
                    block = self.cfg.blocks[f]
                    if self.divergent.get(block, CTA) < level and not self.tree.dominates(f, b):
                        self.divergent[block] = level
                        changed = True
        return changed

    # --------------------------------------------------------------------------------------------------------
    # --- ops

    def _op(self, op: Operation) -> None:
        if not isinstance(op, Instruction):
            level = CTA if isinstance(op, UndefOp) else VARYING  # parameters of a device function may be anything
            for result in op.results:
                self._set(result, None, level)
            return
        level = self._structural_level(op)
        found: dict[SSAValue, Lanes] = {}
        evaluate = _EVALUATE.get(op.opcode)
        if evaluate is not None:
            for result, lanes in evaluate(self, op, bound_operands(op)):
                found[result] = lanes
        if op.guard:
            guard = guard_value(op)
            active = self.values.get(guard) if guard is not None else None
            for result, old in tied_values(op):
                found_here, kept = found.pop(result, None), self.values.get(old)
                if isinstance(old.owner, UndefOp) and found_here is not None:
                    found[result] = found_here  # where it does not run nobody may look
                elif (
                    active is not None and found_here is not None and kept is not None and found_here.rest == kept.rest
                ):
                    wanted = active.numbers != (op.guard == "@!")
                    found[result] = Lanes(np.where(wanted, found_here.numbers, kept.numbers), kept.rest)
        for result in op.results:
            lanes = found.get(result)
            if lanes is None and level < VARYING and class_bits(register_class(result)) > 1:
                lanes = Lanes(np.zeros(1, np.int64), ((self._name(result), 1),))
                self._set(result, lanes, level)
            else:
                self._set(result, lanes, level if lanes is None else min(level, self._level_of(lanes)))

    def _structural_level(self, op: Instruction) -> int:
        """The level of an op's results from its operands alone."""
        level = max((self.levels.get(v, CTA) for v in op.operands), default=CTA)
        for operand in op.layout:
            if isinstance(operand, SpecialRegister):
                name = operand.name.partition(".")[0]
                own = self.special.get(operand.name)
                level = max(level, self._level_of(own) if own is not None else _SPECIAL_LEVEL.get(name, CTA))
        match op.difference(op.modifiers):
            case "thread":
                return VARYING
            case "warp":
                return PER_WARP
            case "none":
                return CTA
            case _:
                return level

    def _set(self, value: SSAValue, lanes: Lanes | None, level: int) -> None:
        if lanes is not None:
            self.values[value] = lanes
        self.levels[value] = max(level, self.levels.get(value, CTA))

    def _level_of(self, lanes: Lanes) -> int:
        level = PER_WARP if any(n.startswith("warp ") for n, _ in lanes.rest) else CTA
        if len(lanes.numbers) == 1:
            return level
        numbers = lanes.numbers
        if (numbers == numbers[0]).all():
            return level
        starts = np.arange(len(numbers)) // WARP * WARP
        return PER_WARP if (numbers == numbers[starts]).all() else VARYING

    def _name(self, value: SSAValue) -> str:
        """A name for an unknown. One that differs between warps says so."""
        owner = value.owner
        line = line_of(owner) if isinstance(owner, Operation) else None
        where = f"@{line}" if line is not None else ""
        prefix = "warp " if self.levels.get(value, CTA) == PER_WARP else ""
        return f"{prefix}{register_name(value)}{where}"

    # --------------------------------------------------------------------------------------------------------
    # operands

    def read(self, operand: Bound) -> Lanes | None:
        """The value of an operand per thread, or None where it is not known."""
        match operand:
            case Value(value, False, ""):
                return self.values.get(value)
            case Immediate():
                number = operand.value
                return None if isinstance(number, float) else _number(_signed64(number))
            case SpecialRegister(name):
                known = self.special.get(name)
                if known is None and _SPECIAL_LEVEL.get(name.partition(".")[0], CTA) == CTA:
                    known = Lanes(np.zeros(1, np.int64), ((name, 1),))
                return known
            case Symbol(name):
                offset = Memory(operand, 0)
                return self.threads.address(offset) if name else None
            case Negated(inner, "!"):
                found = self.read(inner)
                return None if found is None else Lanes(1 - found.numbers)
            case _:
                return None


def branch_level(op: Instruction, threads: Threads) -> int:
    """Whether the threads of a CTA, or of a warp, may part at a branch."""
    guard = guard_value(op)
    if guard is not None:
        return threads.level(guard)
    if isinstance(op, BranchIndexed):
        if any(isinstance(operand, SpecialRegister) for operand in op.layout):
            return VARYING
        return max((threads.level(value) for value in op.operands), default=CTA)  # none: the index is a constant
    return CTA


_SPECIAL_LEVEL = {
    name: VARYING
    for name in (
        "%tid %laneid %lanemask_eq %lanemask_lt %lanemask_le %lanemask_ge %lanemask_gt"
        " %clock %clock64 %clock_hi %globaltimer"
    ).split()
} | {"%warpid": PER_WARP}


# ------------------------------------------------------------------------------------------------------------
# arithmetic


def _number(value: int) -> Lanes:
    """A number, as 64 bits have it."""
    return Lanes(np.array([(value + (1 << 63)) % (1 << 64) - (1 << 63)], np.int64))


def _signed64(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _wrap(numbers: Numbers, bits: int) -> Numbers:
    """Numbers as signed integers of so many bits."""
    if bits >= 64:
        return numbers
    shift = 64 - bits
    return (numbers << shift) >> shift


def _unsigned(numbers: Numbers, bits: int) -> Numbers:
    return numbers if bits >= 64 else numbers & ((1 << bits) - 1)


def _plus(a: Rest, b: Rest, sign: int = 1) -> Rest:
    total = dict(a)
    for name, factor in b:
        total[name] = total.get(name, 0) + sign * factor
    return tuple(sorted((n, f) for n, f in total.items() if f))


def _times(lanes: Lanes, factor: int, bits: int) -> Lanes:
    factor = _signed64(factor)
    return Lanes(_wrap(lanes.numbers * factor, bits), tuple((n, f * factor) for n, f in lanes.rest) if factor else ())


Results = Iterator[tuple[SSAValue, Lanes]]
Evaluate = Callable[[_Evaluation, Instruction, tuple[Bound, ...]], Results]


def _type(op: Instruction) -> tuple[int, bool]:
    """(bits, signed) of an integer instruction; 0 bits for a float."""
    scalar = SCALAR_TYPES.get(op.slots.get("type", ""))
    if scalar is None or scalar.kind in ("float", "packed"):
        return 0, False
    return scalar.bits, scalar.kind == "signed"


def _sources(e: _Evaluation, bound: tuple[Bound, ...]) -> list[Lanes] | None:
    found = [e.read(b) for b in bound]
    return None if any(f is None for f in found) else cast("list[Lanes]", found)


def _result(bound: tuple[Bound, ...]) -> SSAValue | None:
    return bound[0].value if bound and isinstance(bound[0], Value) and bound[0].written else None


def _add(a: Lanes, b: Lanes, bits: int, sign: int = 1) -> Lanes:
    return Lanes(_wrap(a.numbers + sign * b.numbers, bits), _plus(a.rest, b.rest, sign))


def _multiply(a: Lanes, b: Lanes, bits: int) -> Lanes | None:
    """A product, where one side is a constant or both are free of unknowns."""
    for left, right in ((a, b), (b, a)):
        if right.constant is not None:
            return _times(left, right.constant, bits)
    return Lanes(_wrap(a.numbers * b.numbers, bits)) if a.known and b.known else None


def _eval_add(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    bits, _ = _type(op)
    d, found = _result(bound), _sources(e, bound[1:3])
    if bits and d is not None and found is not None:
        yield d, _add(found[0], found[1], bits, 1 if op.commutative else -1)


def _eval_mul(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    bits, signed = _type(op)
    d, found = _result(bound), _sources(e, bound[1:])
    if not bits or d is None or found is None or not {"lo", "wide"} & set(op.modifiers):
        return
    wide = "wide" in op.modifiers
    a, b = (_extended(x, bits, signed) for x in found[:2]) if wide else found[:2]
    if a is None or b is None:
        return
    product = _multiply(a, b, 2 * bits if wide else bits)
    if product is not None:
        yield d, product if len(found) == 2 else _add(product, found[2], 2 * bits if wide else bits)


def _extended(lanes: Lanes, bits: int, signed: bool) -> Lanes | None:
    """Sign- or zero-extended. With unknowns the sum is taken not to wrap around."""
    if lanes.known:
        return Lanes(_wrap(lanes.numbers, bits) if signed else _unsigned(lanes.numbers, bits))
    return lanes


def _eval_bits(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    """and, or, xor, lop3 and the like: exact on known numbers; `or` with a known zero, `and` with all ones
    pass unknowns."""
    d, found = _result(bound), _sources(e, bound[1:3])
    if d is None or found is None:
        return
    a, b = found
    bits = 1 if register_class(d) == "pred" else _type(op)[0]
    if a.known and b.known:
        operation = np.bitwise_and if isinstance(op, And) else np.bitwise_or if isinstance(op, Or) else np.bitwise_xor
        yield d, Lanes(operation(a.numbers, b.numbers))
        return
    for left, right in ((a, b), (b, a)):
        constant = right.constant
        if constant is None:
            continue
        if not isinstance(op, And):
            if constant == 0:
                yield d, left
            elif constant > 0 and _low_zero_bits(left) >= constant.bit_length():
                yield d, _add(left, right, bits)  # the bits do not meet, so or is +
            return
        if constant == -1:
            yield d, left
        elif constant > 0 and constant & (constant + 1) == 0 and _low_zero_bits_of_rest(left) >= constant.bit_length():
            yield d, Lanes(left.numbers & constant)  # the unknowns have no bits there
        elif (
            constant < 0
            and -constant & (-constant - 1) == 0
            and _low_zero_bits_of_rest(left) >= (-constant).bit_length() - 1
        ):
            yield d, Lanes(left.numbers & constant, left.rest)
        return
    if not isinstance(op, And) and not (b.rest and a.rest):
        known, other = (a, b) if a.known else (b, a)
        top = int(known.numbers.max())
        if int(known.numbers.min()) >= 0 and _low_zero_bits(other) >= top.bit_length():
            yield d, _add(known, other, bits)


def _low_zero_bits_of_rest(lanes: Lanes) -> int:
    """How many low bits the unknowns leave zero: those of their factors; a variable is taken to be aligned to
    16 bytes."""
    return min((_zeros(f) + (4 if n.isidentifier() else 0) for n, f in lanes.rest), default=64)


def _low_zero_bits(lanes: Lanes) -> int:
    both = int(np.bitwise_or.reduce(lanes.numbers))
    return min(_low_zero_bits_of_rest(lanes), _zeros(both) if both else 64)


def _zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else 64


def _eval_shift(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    bits, signed = _type(op)
    d, found = _result(bound), _sources(e, bound[1:3])
    if not bits or d is None or found is None:
        return
    a, by = found
    if isinstance(op, Shl):
        amount = by.constant
        if amount is not None:
            yield d, _times(a, 1 << amount, bits) if 0 <= amount < bits else _number(0)
        elif a.known and by.known:
            yield d, Lanes(_wrap(a.numbers << np.clip(by.numbers, 0, 63), bits))
    elif a.known and by.known:
        numbers = _wrap(a.numbers, bits) if signed else _unsigned(a.numbers, bits)
        yield (
            d,
            Lanes(_wrap(numbers >> np.clip(by.numbers, 0, bits - (1 if signed else 0)).clip(0, 63), bits)),
        )
    elif (
        (amount := by.constant) is not None
        and 0 <= amount < 63
        and _low_zero_bits_of_rest(a) >= amount
        and (a.numbers >= 0).all()
    ):
        yield d, Lanes(a.numbers >> amount, tuple((n, f >> amount) for n, f in a.rest))


def _elementwise(function: Callable[..., Numbers]) -> Evaluate:
    """An instruction that is exact on known numbers only."""

    def evaluate(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
        bits, signed = _type(op)
        d, found = _result(bound), _sources(e, bound[1:])
        if not bits or d is None or found is None or any(not f.known for f in found):
            return
        numbers = [_wrap(f.numbers, bits) if signed else _unsigned(f.numbers, bits) for f in found]
        with np.errstate(all="ignore"):
            yield d, Lanes(_wrap(np.asarray(function(*numbers), np.int64), bits))

    return evaluate


def _divide(a: Numbers, b: Numbers) -> Numbers:
    return np.where(b == 0, -1, np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1)))


def _lop3(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    d, found = _result(bound), _sources(e, bound[1:5])
    if d is None or found is None or len(found) != 4 or any(not f.known for f in found):
        return
    a, b, c, table = (f.numbers for f in found)
    lut = int(table[0])
    total = np.zeros(1, np.int64)
    for i in range(8):
        if lut >> i & 1:
            part = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
            total = total | part
    yield d, Lanes(_wrap(total, 32))


def _bfe(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    bits, signed = _type(op)
    d, found = _result(bound), _sources(e, bound[1:4])
    if not bits or d is None or found is None or any(not f.known for f in found):
        return
    start, length = found[1].constant, found[2].constant
    if start is None or length is None or not 0 < length < 63:
        return
    field = (_unsigned(found[0].numbers, bits) >> start) & ((1 << length) - 1)
    yield d, Lanes(_wrap(field, length) if signed else field)


def _eval_mov(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    match bound:
        case (Value(d, True, ""), Group()):
            return
        case (Value(d, True, ""), source):
            found = e.read(source)
            if found is not None:
                yield d, found
        case _:
            return


def _eval_cvt(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    types = [SCALAR_TYPES[m] for m in op.modifiers if m in SCALAR_TYPES]
    d, found = _result(bound), _sources(e, bound[1:2])
    if d is None or found is None or len(types) != 2 or any(t.kind in ("float", "packed") for t in types):
        return
    to, source = types
    value = found[0]
    if to.bits > source.bits:
        wide = _extended(Lanes(_wrap(value.numbers, source.bits), value.rest), source.bits, source.kind == "signed")
        if wide is not None:
            yield d, wide
    else:
        yield d, Lanes(_wrap(value.numbers, to.bits), value.rest)


def _eval_setp(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    scalar = SCALAR_TYPES.get(op.slots.get("type", ""))
    compare = next((m for m in op.modifiers if m in _COMPARE), None)
    found = _sources(e, bound[1:])
    if scalar is None or scalar.kind == "float" or compare is None or found is None:
        return
    a, b = found[:2]
    if a.rest != b.rest or any(not c.known for c in found[2:]):
        return
    signed = scalar.kind != "unsigned" and compare not in ("lo", "ls", "hi", "hs")
    left, right = (x.numbers if signed or x.rest else _unsigned(x.numbers, scalar.bits) for x in (a, b))
    answer = _COMPARE[compare](left, right)
    combine = next((m for m in op.modifiers if m in ("and", "or", "xor")), None)
    results = bound[0].elements if isinstance(bound[0], Group) else (bound[0],)
    for result, truth in zip(results, (answer, ~answer), strict=False):
        numbers = truth.astype(np.int64)
        if combine is not None and len(found) > 2:
            operation = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[combine]
            numbers = operation(numbers, found[2].numbers)
        if isinstance(result, Value):
            yield result.value, Lanes(numbers)


_COMPARE: dict[str, Callable[[Numbers, Numbers], NDArray[np.bool_]]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def _eval_selp(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    d, found = _result(bound), _sources(e, bound[1:4])
    if d is None or found is None or len(found) != 3 or not found[2].known:
        return
    yes, no, chosen = found
    if chosen.constant is not None:
        yield d, yes if chosen.constant else no
    elif yes.rest == no.rest:
        yield d, Lanes(np.where(chosen.numbers != 0, yes.numbers, no.numbers), yes.rest)


def _eval_ld(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    """A kernel parameter is an unknown that goes by its name."""
    match bound:
        case (Value(d, True, ""), Memory(Symbol(name), offset)) if "param" in op.slots.get("space", ""):
            yield d, Lanes(np.zeros(1, np.int64), ((f"[{name}+{offset}]" if offset else f"[{name}]", 1),))
        case _:
            return


def _eval_shfl(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    """`shfl.idx` of one lane for all: the value of that lane, warp by warp."""
    if "idx" not in op.modifiers or len(bound) < 3:
        return
    target = bound[0].elements[0] if isinstance(bound[0], Group) else bound[0]
    source, lane = e.read(bound[1]), e.read(bound[2])
    if not isinstance(target, Value) or source is None or lane is None or lane.constant is None:
        return
    if len(source.numbers) == 1:
        yield target.value, source
        return
    starts = np.arange(len(source.numbers)) // WARP * WARP + lane.constant % WARP
    yield target.value, Lanes(source.numbers[np.minimum(starts, len(source.numbers) - 1)], source.rest)


def _eval_elect(e: _Evaluation, op: Instruction, bound: tuple[Bound, ...]) -> Results:
    """One lane of each warp; taken to be the first."""
    for element in bound[0].elements if isinstance(bound[0], Group) else bound[:1]:
        if isinstance(element, Value) and register_class(element.value) == "pred":
            yield element.value, Lanes((np.arange(e.threads.count) % WARP == 0).astype(np.int64))


_EVALUATE: dict[str, Evaluate] = {
    "mov": _eval_mov,
    "cvta": _eval_mov,
    "add": _eval_add,
    "sub": _eval_add,
    "mul": _eval_mul,
    "mad": _eval_mul,
    "and": _eval_bits,
    "or": _eval_bits,
    "xor": _eval_bits,
    "shl": _eval_shift,
    "shr": _eval_shift,
    "cvt": _eval_cvt,
    "setp": _eval_setp,
    "selp": _eval_selp,
    "ld": _eval_ld,
    "shfl": _eval_shfl,
    "elect": _eval_elect,
    "lop3": _lop3,
    "bfe": _bfe,
    "not": _elementwise(lambda a: ~a),
    "neg": _elementwise(lambda a: -a),
    "abs": _elementwise(np.abs),
    "min": _elementwise(np.minimum),
    "max": _elementwise(np.maximum),
    "div": _elementwise(_divide),
    "rem": _elementwise(lambda a, b: np.where(b == 0, a, a - _divide(a, b) * b)),
}
