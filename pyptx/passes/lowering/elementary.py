"""Elementary functions of f32, computed in f64 and rounded once.

With 53 bits in between, a range reduction and a short series are enough: each function below has a relative error of less
than 2**-36 before its only rounding to f32, so that the result is off by less than 0.501 ulp. Series are those of Taylor,
cut where the next term is below 2**-40; `erfc` is a least-squares fit (see `_ERFC`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from .emitter import Emitter
from .values import F32, F64, I32, Constant, ScalarValue

LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""ln 2 to 32 bits: times an exponent it is exact."""
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_TWO_OVER_PI = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
"""2/pi in binary after a word of zeros: enough for every f32."""
_ERFC = (
    1.0128188110898177, -0.4620600360768413, 0.1283761905368564, -0.011775386802025101, -0.004495270118014005,
    0.0009724931306123175, 0.000296487047859273, -6.054513130955287e-05, -2.990667811673121e-05, 1.6877984343466328e-06,
    3.1384881367557692e-06, 3.7547233091572716e-07, -2.5131412257906043e-07, -6.481793661805572e-08, 9.228824637830261e-09,
)  # fmt: skip
"""erfc(x) exp(x*x) (x + 2) for 0.4 <= x <= 11 as a polynomial in t, where (x - 2) / (x + 2) = t * _ERFC_HALF + _ERFC_MIDDLE;
its relative error is below 1e-12 (against continued fractions at 4001 points)."""
_ERFC_LOW, _ERFC_HIGH = (0.4 - 2) / 2.4, 9 / 13
_ERFC_MIDDLE, _ERFC_HALF = (_ERFC_LOW + _ERFC_HIGH) / 2, (_ERFC_HIGH - _ERFC_LOW) / 2

Value = SSAValue | float


class Doubles:
    """f64 arithmetic on an emitter; numbers of Python are constants."""

    def __init__(self, e: Emitter):
        self.e = e

    def _given(self, value: Value) -> ScalarValue:
        return value if isinstance(value, SSAValue) else Constant(value, F64)

    def _do(self, opcode: str, *values: Value) -> SSAValue:
        first, *others = map(self._given, values)
        return self.e.emit(opcode, self.e.register(first), *others, result="f64")

    def add(self, a: Value, b: Value) -> SSAValue:
        return self._do("add.rn.f64", a, b)

    def sub(self, a: Value, b: Value) -> SSAValue:
        return self._do("sub.rn.f64", a, b)

    def mul(self, a: Value, b: Value) -> SSAValue:
        return self._do("mul.rn.f64", a, b)

    def div(self, a: Value, b: Value) -> SSAValue:
        return self._do("div.rn.f64", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> SSAValue:
        return self._do("fma.rn.f64", a, b, c)

    def neg(self, a: Value) -> SSAValue:
        return self._do("neg.f64", a)

    def abs(self, a: Value) -> SSAValue:
        return self._do("abs.f64", a)

    def clamp(self, a: Value, low: float, high: float) -> SSAValue:
        return self._do("min.f64", self._do("max.f64", a, low), high)

    def copysign(self, magnitude: Value, sign: Value) -> SSAValue:
        return self._do("copysign.f64", sign, magnitude)

    def test(self, relation: str, a: Value, b: Value) -> SSAValue:
        return self.e.emit(f"setp.{relation}.f64", self.e.register(self._given(a)), self._given(b), result="pred")

    def choose(self, condition: SSAValue, yes: Value, no: Value) -> SSAValue:
        return self.e.emit("selp.f64", self.e.register(self._given(yes)), self._given(no), condition, result="f64")

    def series(self, x: Value, coefficients: Sequence[float]) -> SSAValue:
        """The polynomial with these coefficients, the constant one first, by Horner's rule."""
        *rest, last = coefficients
        total: Value = last
        for c in reversed(rest):
            total = self.fma(x, total, c)
        assert isinstance(total, SSAValue)
        return total

    def nearest(self, x: Value) -> tuple[SSAValue, SSAValue]:
        """The nearest integer as s32 and as f64."""
        whole = self.e.emit("cvt.rni.s32.f64", self.e.register(self._given(x)), result="b32")
        return whole, self.e.emit("cvt.rn.f64.s32", whole, result="f64")

    def power_of_two(self, exponent: SSAValue) -> SSAValue:
        """2**n of an s32 between -1022 and 1023."""
        biased = self.e.emit("add.s32", exponent, Constant(1023, I32), result="b32")
        high = self.e.emit("shl.b32", biased, Constant(20, I32), result="b32")
        return self.e.emit("mov.b64", (self.e.register(Constant(0, I32)), high), result="f64")

    def keep_nan(self, result: SSAValue, *sources: SSAValue) -> SSAValue:
        """The result, or NaN where one of its sources is one."""
        for source in sources:
            result = self.choose(self.test("nan", source, source), source, result)
        return result

    # ------------------------------------------------------------------------------------------------
    # exponentials and logarithms

    def _exp_near_0(self, r: SSAValue, exponent: SSAValue) -> SSAValue:
        """exp(r) * 2**exponent for |r| <= 0.35."""
        return self.mul(self.series(r, [1 / math.factorial(n) for n in range(13)]), self.power_of_two(exponent))

    def exp(self, x: SSAValue) -> SSAValue:
        near = self.clamp(x, -700.0, 700.0)
        exponent, k = self.nearest(self.mul(near, 1 / math.log(2)))
        r = self.fma(k, -LN2_LOW, self.fma(k, -LN2_HIGH, near))
        return self.keep_nan(self._exp_near_0(r, exponent), x)

    def exp2(self, x: SSAValue) -> SSAValue:
        near = self.clamp(x, -1000.0, 1000.0)
        exponent, k = self.nearest(near)
        return self.keep_nan(self._exp_near_0(self.mul(self.sub(near, k), math.log(2)), exponent), x)

    def expm1(self, x: SSAValue) -> SSAValue:
        """Near 0 the series without its 1."""
        small = self.mul(x, self.series(x, [1 / math.factorial(n + 1) for n in range(9)]))
        return self.choose(self.test("lt", self.abs(x), 0.1), small, self.sub(self.exp(x), 1.0))

    def tanh(self, x: SSAValue) -> SSAValue:
        """From expm1 of twice |x|, which loses no digits near 0."""
        e = self.expm1(self.clamp(self.mul(self.abs(x), 2.0), 0.0, 60.0))
        return self.keep_nan(self.copysign(self.div(e, self.add(e, 2.0)), x), x)

    def sinh(self, x: SSAValue) -> SSAValue:
        e = self.expm1(self.abs(x))
        return self.copysign(self.mul(self.add(e, self.div(e, self.add(e, 1.0))), 0.5), x)

    def cosh(self, x: SSAValue) -> SSAValue:
        e = self.exp(self.abs(x))
        return self.mul(self.add(e, self.div(1.0, e)), 0.5)

    def log(self, x: SSAValue, scale: float = 1.0) -> SSAValue:
        """scale * ln x. m * 2**n with m between 0.7 and 1.42; ln m is twice the area tangent of (m - 1) / (m + 1)."""
        low, high = self.e.emit_vector("mov.b64", x, result=("b32", "b32"))
        above = self.e.emit("sub.s32", high, Constant(0x3FE6A09E, I32), result="b32")  # the high word of sqrt(1/2)
        exponent = self.e.emit("shr.s32", above, Constant(20, I32), result="b32")
        moved = self.e.emit("shl.b32", exponent, Constant(20, I32), result="b32")
        m = self.e.emit("mov.b64", (low, self.e.emit("sub.s32", high, moved, result="b32")), result="f64")
        s = self.div(self.sub(m, 1.0), self.add(m, 1.0))
        ln_m = self.mul(s, self.series(self.mul(s, s), [2 / (2 * n + 1) for n in range(10)]))
        n = self.e.emit("cvt.rn.f64.s32", exponent, result="f64")
        found = self.fma(n, math.log(2) * scale, self.mul(ln_m, scale) if scale != 1.0 else ln_m)
        found = self.choose(self.test("lt", x, math.inf), found, x)  # infinity and NaN are themselves
        found = self.choose(self.test("lt", x, 0.0), math.nan, found)
        return self.choose(self.test("eq", x, 0.0), -math.inf, found)

    def log1p(self, x: SSAValue) -> SSAValue:
        small = self.mul(x, self.series(x, [(-1) ** n / (n + 1) for n in range(8)]))
        return self.choose(self.test("lt", self.abs(x), 0.01), small, self.log(self.add(x, 1.0)))

    def _power_of_magnitude(self, x: SSAValue, y: SSAValue, odd: SSAValue) -> SSAValue:
        """|x| to the power of y, with the sign of x where y is odd."""
        found = self.exp2(self.mul(y, self.log(self.abs(x), 1 / math.log(2))))
        return self.choose(odd, self.copysign(found, x), found)

    def whole_power(self, x: SSAValue, n: SSAValue, odd: SSAValue) -> SSAValue:
        """x to the power of a whole number n, given whether it is odd."""
        return self.choose(self.test("eq", n, 0.0), 1.0, self._power_of_magnitude(x, n, odd))

    def pow(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """As C defines it for zeros, infinities and NaN."""
        e = self.e
        whole = self.test("eq", self._do("cvt.rzi.f64.f64", y), y)
        half = self.mul(y, 0.5)
        odd = e.emit("and.pred", whole, self.test("ne", self._do("cvt.rzi.f64.f64", half), half), result="pred")
        found = self._power_of_magnitude(x, y, odd)
        below = e.emit("and.pred", self.test("lt", x, 0.0), self.test("gt", x, -math.inf), result="pred")
        broken = e.emit("and.pred", below, e.emit("not.pred", whole, result="pred"), result="pred")
        found = self.choose(broken, math.nan, found)
        one = e.emit("and.pred", self.test("eq", x, -1.0), self.test("eq", self.abs(y), math.inf), result="pred")
        one = e.emit("or.pred", one, self.test("eq", x, 1.0), result="pred")
        one = e.emit("or.pred", one, self.test("eq", y, 0.0), result="pred")
        return self.choose(one, 1.0, found)

    # ------------------------------------------------------------------------------------------------
    # error function

    def _erfc_of_large(self, x: SSAValue) -> SSAValue:
        """erfc for x between 0.4 and 11."""
        u = self.div(self.sub(x, 2.0), self.add(x, 2.0))
        t = self.mul(self.sub(u, _ERFC_MIDDLE), 1 / _ERFC_HALF)
        return self.mul(self.div(self.series(t, _ERFC), self.add(x, 2.0)), self.exp(self.neg(self.mul(x, x))))

    def _erf_of_small(self, x: SSAValue) -> SSAValue:
        terms = [(-1) ** n * 2 / math.sqrt(math.pi) / math.factorial(n) / (2 * n + 1) for n in range(11)]
        return self.mul(x, self.series(self.mul(x, x), terms))

    def erf(self, x: SSAValue) -> SSAValue:
        magnitude = self.abs(x)
        large = self.copysign(self.sub(1.0, self._erfc_of_large(self.clamp(magnitude, 0.4, 11.0))), x)
        return self.keep_nan(self.choose(self.test("lt", magnitude, 0.5), self._erf_of_small(x), large), x)

    def erfc(self, x: SSAValue) -> SSAValue:
        magnitude = self.abs(x)
        large = self._erfc_of_large(self.clamp(magnitude, 0.4, 11.0))
        large = self.choose(self.test("lt", x, 0.0), self.sub(2.0, large), large)
        found = self.choose(self.test("lt", magnitude, 0.5), self.sub(1.0, self._erf_of_small(x)), large)
        return self.keep_nan(found, x)


def trigonometric(e: Emitter, name: str, x: SSAValue) -> SSAValue:
    """sin, cos or tan of an f32, as an f64. |x| is a number of quarter turns and a rest of at most an eighth turn."""
    d = Doubles(e)
    magnitude = e.emit("abs.f32", x, result="f32")
    small = e.emit("setp.lt.f32", magnitude, Constant(0.78, F32), result="pred")
    quarter, rest = _reduced(e, magnitude)
    wide = e.emit("cvt.f64.f32", magnitude, result="f64")
    r = d.choose(small, wide, rest)
    quarter = e.emit("selp.b32", e.register(Constant(0, I32)), quarter, small, result="b32")
    square = d.mul(r, r)
    sine = d.mul(r, d.series(square, [(-1) ** n / math.factorial(2 * n + 1) for n in range(9)]))
    cosine = d.series(square, [(-1) ** n / math.factorial(2 * n) for n in range(10)])
    odd = _bit(e, quarter, 1)
    along, across = d.choose(odd, cosine, sine), d.choose(odd, sine, cosine)
    sign = e.emit("cvt.f64.f32", x, result="f64")
    if name == "tan":
        ratio = d.div(along, across)
        found = d.choose(odd, d.neg(ratio), ratio)
        found = d.choose(d.test("lt", sign, 0.0), d.neg(found), found)
        found = d.choose(d.test("eq", sign, 0.0), sign, found)
    elif name == "sin":
        turned = d.choose(_bit(e, quarter, 2), d.neg(along), along)
        found = d.choose(d.test("lt", sign, 0.0), d.neg(turned), turned)
        found = d.choose(d.test("eq", sign, 0.0), sign, found)
    else:
        beyond = e.emit("add.s32", quarter, Constant(1, I32), result="b32")
        found = d.choose(_bit(e, beyond, 2), d.neg(across), across)
    return d.choose(d.test("lt", d.abs(sign), math.inf), found, math.nan)


def _bit(e: Emitter, value: SSAValue, mask: int) -> SSAValue:
    return e.emit(
        "setp.ne.s32", e.emit("and.b32", value, Constant(mask, I32), result="b32"), Constant(0, I32), result="pred"
    )


def _reduced(e: Emitter, magnitude: SSAValue) -> tuple[SSAValue, SSAValue]:
    """(quarter turns, the rest in radians) of an f32 from 0.5 up: 24 bits times 96 bits of 2/pi, in integers.

    Bits of 2/pi that give multiples of four quarter turns are left out; those that follow move the product by less than
    2**-70. No f32 comes nearer to a multiple of a quarter turn than 2**-32, so the rest has 38 good bits.
    """

    def emit(opcode: str, *operands: ScalarValue | int, result: str = "b32") -> SSAValue:
        first, *others = (Constant(o, I32) if isinstance(o, int) else o for o in operands)
        return e.emit(opcode, e.register(first), *others, result=result)

    bits = e.emit("mov.b32", magnitude, result="b32")
    mantissa = emit("or.b32", emit("and.b32", bits, 0x7FFFFF), 0x800000)
    # x = mantissa * 2**(place - 30), and the window of 2/pi begins `place` bits after the zeros' first
    place = emit("max.s32", emit("sub.s32", emit("shr.u32", bits, 23), 120), 0)
    word, shift = emit("shr.u32", place, 5), emit("and.b32", place, 31)
    at = [emit("setp.eq.s32", word, n, result="pred") for n in range(4)]

    def table(offset: int) -> ScalarValue:
        found: ScalarValue = e.register(Constant(_signed(_TWO_OVER_PI[4 + offset]), I32))
        for n in range(4):
            found = emit("selp.b32", Constant(_signed(_TWO_OVER_PI[n + offset]), I32), found, at[n])
        return found

    words = [table(n) for n in range(4)]
    window = [emit("shf.l.wrap.b32", words[n + 1], words[n], shift) for n in range(3)]
    low = emit("mul.wide.u32", window[2], mantissa, result="b64")
    carried = e.emit("shr.u64", low, Constant(32, I32), result="b64")
    middle = emit("mad.wide.u32", window[1], mantissa, carried, result="b64")
    middle_low, middle_high = e.emit_vector("mov.b64", middle, result=("b32", "b32"))
    high = emit("mad.lo.s32", window[0], mantissa, middle_high)
    quarter = emit("shr.u32", emit("add.s32", high, 1 << 29), 30)
    fraction = emit("sub.s32", high, emit("shl.b32", quarter, 30))
    whole = e.emit("mov.b64", (middle_low, fraction), result="b64")
    turned = e.emit("cvt.rn.f64.s64", whole, result="f64")
    return quarter, Doubles(e).mul(turned, math.pi / 2 * 2.0**-62)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


_ONE: dict[str, Callable[[Doubles, SSAValue], SSAValue]] = {
    "exp": Doubles.exp,
    "exp2": Doubles.exp2,
    "expm1": Doubles.expm1,
    "log": Doubles.log,
    "log2": lambda d, x: d.log(x, 1 / math.log(2)),
    "log10": lambda d, x: d.log(x, 1 / math.log(10)),
    "log1p": Doubles.log1p,
    "tanh": Doubles.tanh,
    "sinh": Doubles.sinh,
    "cosh": Doubles.cosh,
    "erf": Doubles.erf,
    "erfc": Doubles.erfc,
}
ACCURATE = (*_ONE, "sin", "cos", "tan", "powf")
"""The functions of `math` that `accurate` knows."""


def accurate(e: Emitter, name: str, values: Sequence[SSAValue]) -> SSAValue:
    """A function of f32, rounded to f32."""
    if name in ("sin", "cos", "tan"):
        found = trigonometric(e, name, values[0])
    else:
        wide = [e.emit("cvt.f64.f32", v, result="f64") for v in values]
        found = Doubles(e).pow(*wide) if name == "powf" else _ONE[name](Doubles(e), *wide)
    return e.emit("cvt.rn.f32.f64", found, result="f32")
