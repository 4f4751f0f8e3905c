"""One fused sum as a native function, through llvmlite: the same bits as `accumulate` gives in NumPy, some twenty times as fast.

The function is made of vectors of columns: the largest exponent of each sum first; then products in float, which holds them exactly, scaled so
that the bits to keep are the integer part, and added as 32-bit integers, which sixteen products of at most 27 bits fill and do not
exceed. What is left, a few operations for each sum, is done in double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import llvm

Array = NDArray[Any]

WIDTH = 8
"""Columns of a vector."""
ROWS = 4
"""Rows that are computed together: they share what is loaded of B."""
ORDER = tuple(range(WIDTH))
_ARGUMENTS = (
    "a", "ea", "b", "eb", "fa", "fb", "c", "d", "rows",
    "stepa", "stepea", "stepb", "stepeb", "stepfa", "stepfb", "stepc",
    "batch", "m", "n", "k", "e", "chunk", "f", "mask", "group", "half",
)  # fmt: skip
"""Words that the function is given: pointers, elements from one matrix of a batch to the next, sizes, and how C and D lie in memory."""
_POINTERS = _ARGUMENTS[:9]


def ready() -> bool:
    return llvm.available()


@dataclass(frozen=True)
class Places:
    """Where the elements of C and D are in an array of words: a row begins at `rows[i]`, eight columns on each `group` further, the second
    four of them `half` after the first four; `order` says which columns of the matrix these are.
    """

    rows: Array
    group: int = 8
    half: int = 4
    order: tuple[int, ...] = ORDER


@lru_cache(maxsize=64)
def matrix_places(m: int, stride: int) -> Places:
    """The places of a matrix, row by row."""
    return Places(np.arange(m, dtype=np.int64) * stride)


def fused(
    operands: tuple[Array, ...], c: int, d: int, name: str, places: Places, sizes: tuple[int, int, int], step: int,
    fraction: int, kept: int, chunk: int,
) -> None:  # fmt: skip
    """A fused sum of a batch of matrices.

    `operands`: A (batch, M, K) and B (batch, K, N), float32 or float64, each after it with its exponents, int32, of the products, or
    with factors (batch, M, chunks) and (batch, chunks, N), which follow, of the chunks. All are contiguous; M is a multiple of ROWS, N of WIDTH; a batch of
    one serves for all. `c` and `d` are addresses of words of the type `name`, which may be the same; `sizes`: batch, M, N; `step` words from one
    C to the next.
    """
    pointers = [x.ctypes.data for x in operands]
    steps = [0 if len(x) == 1 else x[0].size for x in operands]
    packed = len(operands) > 4
    if not packed:
        pointers += [0, 0]
        steps += [0, 0]
    mask = ~((1 << 23 - kept) - 1) & 0xFFFFFFFF
    depth, exponents = operands[0].shape[2], operands[1].shape[2]
    words = [*pointers, c, d, places.rows.ctypes.data, *steps, step, *sizes, depth, exponents, chunk, fraction, mask]
    arguments = np.array([*words, places.group, places.half], np.int64)
    value = "float" if operands[0].dtype == np.float32 else "double"
    _compiled(value, name, packed)(arguments.ctypes.data, 0, 0)


@lru_cache(maxsize=8)
def _compiled(value: str, d: str, packed: bool) -> llvm.Native:
    return llvm.compile_ir(_Writer(value, d, packed).text())


def _vector(type: str) -> str:
    return f"<{WIDTH} x {type}>"


_CONSTANTS = {"float": lambda x: f"0x{np.float64(np.float32(x)).view(np.uint64):016X}",
              "double": lambda x: f"0x{np.float64(x).view(np.uint64):016X}"}  # fmt: skip


_SUMS = {"f32": (0x7F800000, 0x7FFFFFFF, 23, 127), "f16": (0x7C00, 0x7FFF, 10, 15)}
"""Infinity, the hardware's NaN, digits and bias of D's types."""


class _Addend(NamedTuple):
    """C: its bits, those without the sign, the exponent that it is aligned by, and its value."""

    bits: str
    magnitude: str
    exponent: str
    value: str


class _Writer:
    """LLVM IR of the function, text with a name for each value."""

    def __init__(self, value: str, d: str, packed: bool):
        self.value, self.d, self.packed = value, d, packed
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"

    def define(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def all(self, constant: float, type: str) -> str:
        """A constant in all places."""
        spelled = _CONSTANTS.get(type, lambda x: str(int(x)))(constant)
        return "<" + ", ".join([f"{type} {spelled}"] * WIDTH) + ">"

    def op(self, operation: str, type: str, a: str, b: str) -> str:
        return self.define(f"{operation} {_vector(type)} {a}, {b}")

    def cast(self, operation: str, a: str, before: str, after: str) -> str:
        return self.define(f"{operation} {_vector(before)} {a} to {_vector(after)}")

    def compare(self, condition: str, type: str, a: str, b: str) -> str:
        return self.define(f"{'fcmp' if type in _CONSTANTS else 'icmp'} {condition} {_vector(type)} {a}, {b}")

    def select(self, type: str, condition: str, a: str, b: str) -> str:
        return self.define(f"select {_vector('i1')} {condition}, {_vector(type)} {a}, {_vector(type)} {b}")

    def largest(self, a: str, b: str) -> str:
        return self.select("i32", self.compare("sgt", "i32", a, b), a, b)

    def trunc(self, a: str) -> str:
        return self.define(f"call {_vector('double')} @llvm.trunc.v{WIDTH}f64({_vector('double')} {a})")

    def power(self, exponent: str, type: str) -> str:
        """Two to the power of integers that are exponents of normal numbers of the type."""
        if type == "double":
            wide = self.cast("sext", exponent, "i32", "i64")
            biased = self.op("add", "i64", wide, self.all(1023, "i64"))
            return self.cast("bitcast", self.op("shl", "i64", biased, self.all(52, "i64")), "i64", "double")
        biased = self.op("add", "i32", exponent, self.all(127, "i32"))
        return self.cast("bitcast", self.op("shl", "i32", biased, self.all(23, "i32")), "i32", "float")

    def load(self, array: str, index: str, type: str) -> str:
        """WIDTH elements from an index on."""
        at = self.define(f"getelementptr {type}, ptr {array}, i64 {index}")
        return self.define(f"load {_vector(type)}, ptr {at}, align 1")

    def spread(self, array: str, index: str, type: str) -> str:
        """One element in all places."""
        at = self.define(f"getelementptr {type}, ptr {array}, i64 {index}")
        one = self.define(f"load {type}, ptr {at}, align 1")
        first = self.define(f"insertelement {_vector(type)} poison, {type} {one}, i32 0")
        zeros = f"<{WIDTH} x i32> zeroinitializer"
        return self.define(f"shufflevector {_vector(type)} {first}, {_vector(type)} poison, {zeros}")

    def same(self, scalar: str, type: str) -> str:
        first = self.define(f"insertelement {_vector(type)} poison, {type} {scalar}, i32 0")
        return self.define(
            f"shufflevector {_vector(type)} {first}, {_vector(type)} poison, <{WIDTH} x i32> zeroinitializer"
        )

    def add(self, a: str, b: str) -> str:
        return self.define(f"add i64 {a}, {b}")

    def mul(self, a: str, b: str) -> str:
        return self.define(f"mul i64 {a}, {b}")

    def loop(
        self, name: str, first: str, end: str, step: int, carried: list[tuple[str, str]], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:  # fmt: skip
        """A loop that is run at least once; `carried`: (type, value before). The values after it."""
        before = self.block
        self.lines += [f"  br label %{name}", f"{name}:"]
        self.block = name
        head = len(self.lines)
        index = f"%{name}.i"
        names = [f"%{name}.c{i}" for i in range(len(carried))]
        after = body(index, names)
        following = self.add(index, str(step))
        phis = [f"  {index} = phi i64 [ {first}, %{before} ], [ {following}, %{self.block} ]"]
        phis += [
            f"  {n} = phi {t} [ {v}, %{before} ], [ {new}, %{self.block} ]"
            for n, (t, v), new in zip(names, carried, after, strict=True)
        ]
        self.lines[head:head] = phis
        more = self.define(f"icmp slt i64 {following}, {end}")
        self.lines += [f"  br i1 {more}, label %{name}, label %{name}.end", f"{name}.end:"]
        self.block = f"{name}.end"
        return after

    # ------------------------------------------------------------------------------------------------ the function

    def text(self) -> str:
        for i, name in enumerate(_ARGUMENTS):
            at = self.define(f"getelementptr i64, ptr %arguments, i64 {i}")
            type = "ptr" if name in _POINTERS else "i64"
            self.lines.append(f"  %{name} = load {type}, ptr {at}, align 8")
        self.fraction = self.same(self.define("trunc i64 %f to i32"), "i32")
        self.mask = self.same(self.define("trunc i64 %mask to i32"), "i32")
        self.loop("matrices", "0", "%batch", 1, [], self._matrix)
        head = ["define i64 @run(ptr %arguments, i64 %unused, ptr %unused2) nounwind {", "entry:"]
        declared = f"declare {_vector('double')} @llvm.trunc.v{WIDTH}f64({_vector('double')})"
        absolute = f"declare {_vector('double')} @llvm.fabs.v{WIDTH}f64({_vector('double')})"
        least = "declare i64 @llvm.smin.i64(i64, i64)"
        return "\n".join([*head, *self.lines, "  ret i64 0", "}", declared, absolute, least, ""])

    def _matrix(self, index: str, _: list[str]) -> list[str]:
        self.base = {name: self.mul(index, f"%step{name}") for name in ("a", "ea", "b", "eb", "fa", "fb")}
        self.base["c"] = self.mul(index, "%stepc")
        self.loop("lines", "0", "%m", ROWS, [], self._rows)
        return []

    def _rows(self, row: str, _: list[str]) -> list[str]:
        self.row = [row] + [self.add(row, str(r)) for r in range(1, ROWS)]
        self.of = {
            name: [self.add(self.base[name], self.mul(r, size)) for r in self.row]
            for name, size in (("a", "%k"), ("ea", "%e"), ("fa", "%e"))
        }
        self.of["c"] = [self.add(self.base["c"], self._entry(r)) for r in self.row]
        self.loop("columns", "0", "%n", WIDTH, [], self._columns)
        return []

    def _entry(self, row: str) -> str:
        at = self.define(f"getelementptr i64, ptr %rows, i64 {row}")
        return self.define(f"load i64, ptr {at}, align 8")

    def _columns(self, column: str, _: list[str]) -> list[str]:
        at = {name: self.add(self.base[name], column) for name in ("b", "eb", "fb")}
        further = self.mul(self.define(f"lshr i64 {column}, 3"), "%group")
        places = [self.add(base, further) for base in self.of["c"]]
        before = [self._decoded(place) for place in places]

        def widest(i: str, largest: list[str]) -> list[str]:
            of_b = self.load("%eb", self.add(at["eb"], self.mul(i, "%n")), "i32")
            return [
                self.largest(x, self.op("add", "i32", of_b, self.spread("%ea", self.add(base, i), "i32")))
                for x, base in zip(largest, self.of["ea"], strict=True)
            ]

        largest = self.loop("largest", "0", "%e", 1, [(_vector("i32"), c.exponent) for c in before], widest)
        shift = [self.op("sub", "i32", self.fraction, x) for x in largest]
        units = [self.power(x, "double") for x in shift]
        totals = [self.trunc(self.op("fmul", "double", c.value, unit)) for c, unit in zip(before, units, strict=True)]
        narrow = units
        if self.value == "float":  # where a unit is above that, all products are zero
            top = self.all(127, "i32")
            narrow = [
                self.power(self.select("i32", self.compare("sgt", "i32", s, top), top, s), "float") for s in shift
            ]

        def chunk(first: str, sums: list[str]) -> list[str]:
            end = self.add(first, "%chunk")
            part = "float" if self.packed else "i32"
            zero = [(_vector(part), "zeroinitializer")] * ROWS
            last = self.define(f"call i64 @llvm.smin.i64(i64 {end}, i64 %k)")
            found = self.loop("products", first, last, 1, zero, lambda i, x: self._products(at["b"], narrow, i, x))
            if not self.packed:
                return [
                    self.op("fadd", "double", s, self.cast("sitofp", x, "i32", "double"))
                    for s, x in zip(sums, found, strict=True)
                ]
            group = self.define(f"udiv i64 {first}, %chunk")
            of_b = self.cast(
                "fpext", self.load("%fb", self.add(at["fb"], self.mul(group, "%n")), "float"), "float", "double"
            )
            return [
                self._group(s, x, self.spread("%fa", self.add(base, group), "float"), of_b, unit)
                for s, x, base, unit in zip(sums, found, self.of["fa"], units, strict=True)
            ]

        # the step of this loop is a variable: it is a loop over chunks
        totals = self._chunks(totals, chunk)
        for place, total, x, c in zip(places, totals, largest, before, strict=True):
            scale = self.power(self.op("sub", "i32", x, self.fraction), "double")
            self._store(place, self.op("fmul", "double", total, scale), c)
        return []

    def _chunks(self, totals: list[str], body: Callable[[str, list[str]], list[str]]) -> list[str]:
        count = self.define(f"udiv i64 {self.add(self.add('%k', '%chunk'), '-1')}, %chunk")

        def step(i: str, sums: list[str]) -> list[str]:
            return body(self.mul(i, "%chunk"), sums)

        return self.loop("chunks", "0", count, 1, [(_vector("double"), t) for t in totals], step)

    def _products(self, b: str, units: list[str], i: str, sums: list[str]) -> list[str]:
        of_b = self.load("%b", self.add(b, self.mul(i, "%n")), self.value)
        found: list[str] = []
        for total, base, unit in zip(sums, self.of["a"], units, strict=True):
            exact = self.op("fmul", self.value, of_b, self.spread("%a", self.add(base, i), self.value))
            if self.packed:
                found.append(self.op("fadd", "float", total, exact))
                continue
            cut = self.cast("fptosi", self.op("fmul", self.value, exact, unit), self.value, "i32")
            found.append(self.op("add", "i32", total, cut))
        return found

    def _group(self, total: str, products: str, of_a: str, of_b: str, unit: str) -> str:
        factor = self.op("fmul", "double", self.cast("fpext", of_a, "float", "double"), of_b)
        exact = self.op("fmul", "double", self.cast("fpext", products, "float", "double"), factor)
        return self.op("fadd", "double", total, self.trunc(self.op("fmul", "double", exact, unit)))

    def _words(self, place: str, type: str) -> str:
        """The words of C for WIDTH columns."""
        parts: list[str] = []
        for at in (place, self.add(place, "%half")):
            pointer = self.define(f"getelementptr {type}, ptr %c, i64 {at}")
            parts.append(self.define(f"load <{WIDTH // 2} x {type}>, ptr {pointer}, align 1"))
        return self.define(self._shuffle(type, WIDTH // 2, parts[0], parts[1], range(WIDTH)))

    @staticmethod
    def _shuffle(type: str, width: int, a: str, b: str, order: Iterable[int]) -> str:
        chosen = ", ".join(f"i32 {i}" for i in order)
        return f"shufflevector <{width} x {type}> {a}, <{width} x {type}> {b}, <{chosen.count('i32')} x i32> <{chosen}>"

    def _decoded(self, place: str) -> _Addend:
        """C."""
        if self.d == "f16":
            bits = self.cast("zext", self._words(place, "i16"), "i16", "i32")
            magnitude = self.op("and", "i32", bits, self.all(0x7FFF, "i32"))
            small = self.cast("bitcast", self.op("shl", "i32", magnitude, self.all(13, "i32")), "i32", "float")
            scaled = self.cast("bitcast", self.op("fmul", "float", small, self.all(2.0**112, "float")), "float", "i32")
            sign = self.op("shl", "i32", self.op("and", "i32", bits, self.all(0x8000, "i32")), self.all(16, "i32"))
            value = self.cast("bitcast", self.op("or", "i32", scaled, sign), "i32", "float")
        else:
            bits = self._words(place, "i32")
            value = self.cast("bitcast", bits, "i32", "float")
            magnitude = self.op("and", "i32", bits, self.all(0x7FFFFFFF, "i32"))
        _, _, digits, bias = _SUMS[self.d]
        field = self.op("lshr", "i32", magnitude, self.all(digits, "i32"))
        exponent = self.op("sub", "i32", self.largest(field, self.all(1, "i32")), self.all(bias, "i32"))
        zero = self.compare("eq", "i32", magnitude, self.all(0, "i32"))
        exponent = self.select("i32", zero, self.all(-126, "i32"), exponent)
        return _Addend(bits, magnitude, exponent, self.cast("fpext", value, "float", "double"))

    def _store(self, place: str, total: str, c: _Addend) -> None:
        """An exact sum, as the type of D has it; C where that is infinite, and the hardware's NaN where it is one."""
        infinity, nan, _, _ = _SUMS[self.d]
        code = self._half(total) if self.d == "f16" else self._single(total)
        finite = self.compare("ult", "i32", c.magnitude, self.all(infinity, "i32"))
        number = self.compare("ule", "i32", c.magnitude, self.all(infinity, "i32"))
        code = self.select("i32", finite, code, self.select("i32", number, c.bits, self.all(nan, "i32")))
        type = "i16" if self.d == "f16" else "i32"
        words = self.cast("trunc", code, "i32", type) if type == "i16" else code
        for half, at in enumerate((place, self.add(place, "%half"))):
            order = range(half * WIDTH // 2, (half + 1) * WIDTH // 2)
            part = self.define(self._shuffle(type, WIDTH, words, "poison", order))
            pointer = self.define(f"getelementptr {type}, ptr %d, i64 {at}")
            self.lines.append(f"  store <{WIDTH // 2} x {type}> {part}, ptr {pointer}, align 1")

    def _absolute(self, a: str) -> str:
        return self.define(f"call {_vector('double')} @llvm.fabs.v{WIDTH}f64({_vector('double')} {a})")

    def _single(self, total: str) -> str:
        bits = self.cast("bitcast", total, "double", "i64")
        cut = self.cast("bitcast", self.op("and", "i64", bits, self.all(-(1 << 29), "i64")), "i64", "double")
        whole = self.trunc(self.op("fmul", "double", total, self.all(2.0**149, "double")))
        tiny = self.op("fmul", "double", whole, self.all(2.0**-149, "double"))
        small = self.compare("olt", "double", self._absolute(total), self.all(2.0**-126, "double"))
        chosen = self.cast("fptrunc", self.select("double", small, tiny, cut), "double", "float")
        return self.op("and", "i32", self.cast("bitcast", chosen, "float", "i32"), self.mask)

    def _half(self, total: str) -> str:
        """To nearest even: adding and subtracting a number whose last place is that of the result."""
        magnitude = self._absolute(total)
        bits = self.cast("bitcast", magnitude, "double", "i64")
        field = self.op("lshr", "i64", bits, self.all(52, "i64"))
        low = self.all(1023 - 14, "i64")
        field = self.select("i64", self.compare("sgt", "i64", field, low), field, low)
        place = self.op("shl", "i64", self.op("add", "i64", field, self.all(42, "i64")), self.all(52, "i64"))
        place = self.cast("bitcast", self.op("or", "i64", place, self.all(1 << 51, "i64")), "i64", "double")
        near = self.op("fsub", "double", self.op("fadd", "double", magnitude, place), place)
        over = self.compare("ogt", "double", near, self.all(65504.0, "double"))
        single = self.op("fmul", "float", self.cast("fptrunc", near, "double", "float"), self.all(2.0**-112, "float"))
        code = self.op("lshr", "i32", self.cast("bitcast", single, "float", "i32"), self.all(13, "i32"))
        code = self.select("i32", over, self.all(0x7C00, "i32"), code)
        sign = self.op("lshr", "i64", self.cast("bitcast", total, "double", "i64"), self.all(63, "i64"))
        sign = self.op("shl", "i32", self.cast("trunc", sign, "i64", "i32"), self.all(15, "i32"))
        return self.op("or", "i32", code, sign)


# ------------------------------------------------------------------------------------------------------- exponents

_EXPONENTS = """
define i64 @run(ptr %values, i64 %count, ptr %exponents) nounwind {
entry:
  %least.at = getelementptr i32, ptr %exponents, i64 0
  %least = load i32, ptr %least.at, align 4
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %high = phi i32 [ -127, %entry ], [ %higher, %loop ]
  %low = phi i32 [ 128, %entry ], [ %lower, %loop ]
  %at = getelementptr i32, ptr %values, i64 %i
  %bits = load i32, ptr %at, align 4
  %magnitude = and i32 %bits, 2147483647
  %field = lshr i32 %magnitude, 23
  %plain = sub i32 %field, 127
  %more = icmp sgt i32 %plain, %least
  %exponent = select i1 %more, i32 %plain, i32 %least
  %zero = icmp eq i32 %magnitude, 0
  %aligned = select i1 %zero, i32 -126, i32 %exponent
  %kept = select i1 %zero, i32 128, i32 %exponent
  %to = getelementptr i32, ptr %exponents, i64 %i
  store i32 %aligned, ptr %to, align 4
  %over = icmp sgt i32 %exponent, %high
  %higher = select i1 %over, i32 %exponent, i32 %high
  %under = icmp slt i32 %kept, %low
  %lower = select i1 %under, i32 %kept, i32 %low
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %loop, label %end
end:
  %wide = sext i32 %higher to i64
  %shifted = shl i64 %wide, 16
  %rest = sext i32 %lower to i64
  %result = add i64 %shifted, %rest
  ret i64 %result
}
"""


def exponents(values: Array, least: int) -> tuple[Array, int, int]:
    """The exponents of float32 numbers as they are aligned, and the smallest and the largest of those that are not zero."""
    found = np.empty(values.shape, np.int32)
    found.reshape(-1)[0] = least
    word = llvm.compile_ir(_EXPONENTS)(values.ctypes.data, values.size, found.ctypes.data)
    high = (word + (1 << 15)) >> 16
    return found, word - (high << 16), high
