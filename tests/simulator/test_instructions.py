"""Each scalar instruction through the whole path (text, decoding, engine), against a Python version of its
definition.

The arithmetic itself is tested in `numerics`; here it is operand order, types, modifiers and masks that can
be wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import pyptx
from pyptx.simulator import load

M32, M64 = 2**32 - 1, 2**64 - 1


def s32(x: int) -> int:
    return (x & M32) - (2**32 if x & 2**31 else 0)


def s64(x: int) -> int:
    return (x & M64) - (2**64 if x & 2**63 else 0)


def f32(x: int) -> float:
    return struct.unpack("<f", struct.pack("<I", x & M32))[0]


def f64(x: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", x & M64))[0]


def f16(x: int) -> float:
    return struct.unpack("<e", struct.pack("<H", x & 0xFFFF))[0]


def b32(x: float) -> int:
    """Bits of a number rounded to f32; every NaN is the canonical one."""
    if math.isnan(x):
        return 0x7FFFFFFF
    return int(np.array([x], np.float64).astype(np.float32).view(np.uint32)[0])


def b64(x: float) -> int:
    return int(np.array([x]).view(np.uint64)[0])


def b16(x: float) -> int:
    return 0x7FFF if math.isnan(x) else int(np.array([x], np.float64).astype(np.float16).view(np.uint16)[0])


def halves(f: Callable[[float, float, float], float]) -> Callable[[int, int, int], int]:
    return lambda a, b, c: b16(f(f16(a), f16(b), f16(c))) | b16(f(f16(a >> 16), f16(b >> 16), f16(c >> 16))) << 16


def exact_fma(a: int, b: int, c: int) -> int:
    x, y, z = f32(a), f32(b), f32(c)
    if not all(map(math.isfinite, (x, y, z))):
        with np.errstate(all="ignore"):
            return b32(float(np.float64(x) * np.float64(y) + np.float64(z)))
    value = Fraction(x) * Fraction(y) + Fraction(z)
    if value == 0:
        return b32(x * y + z)
    if abs(value) >= 2**128 - 2**103:
        return 0xFF800000 if value < 0 else 0x7F800000
    low, high = np.float32(float(value)), np.float32(float(value))
    best = min(
        (low, high, np.nextafter(low, np.float32(np.inf)), np.nextafter(low, np.float32(-np.inf))),
        key=lambda r: (
            abs(Fraction(float(r)) - value) if np.isfinite(r) else Fraction(2) ** 200,
            int(r.view(np.uint32)) & 1,
        ),
    )
    return int(best.view(np.uint32))


def divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def quotient(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(x) / np.float64(y))


def brev(x: int, n: int) -> int:
    return int(f"{x & ((1 << n) - 1):0{n}b}"[::-1], 2)


def less(x: float, y: float) -> bool:
    return x < y


def prmt(a: int, b: int, c: int) -> int:
    pool = [(a | b << 32) >> 8 * i & 255 for i in range(8)]
    r = 0
    for i in range(4):
        n = c >> 4 * i & 15
        v = pool[n & 7]
        r |= ((255 if v & 128 else 0) if n & 8 else v) << 8 * i
    return r


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32))


def bytes_of(x: int, signed: bool) -> list[int]:
    return [v - 256 if signed and (v := x >> 8 * i & 255) >= 128 else x >> 8 * i & 255 for i in range(4)]


WORD = [
    ("add.u32 %d, %a, %b;", lambda a, b, c: a + b),
    ("sub.s32 %d, %a, %b;", lambda a, b, c: a - b),
    ("add.sat.s32 %d, %a, %b;", lambda a, b, c: max(-(2**31), min(2**31 - 1, s32(a) + s32(b)))),
    ("sub.sat.s32 %d, %a, %b;", lambda a, b, c: max(-(2**31), min(2**31 - 1, s32(a) - s32(b)))),
    ("mul.lo.s32 %d, %a, %b;", lambda a, b, c: a * b),
    ("mul.hi.u32 %d, %a, %b;", lambda a, b, c: a * b >> 32),
    ("mul.hi.s32 %d, %a, %b;", lambda a, b, c: s32(a) * s32(b) >> 32),
    ("mad.lo.s32 %d, %a, %b, %c;", lambda a, b, c: a * b + c),
    ("mad.hi.s32 %d, %a, %b, %c;", lambda a, b, c: (s32(a) * s32(b) >> 32) + c),
    ("mul24.lo.u32 %d, %a, %b;", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    ("sad.s32 %d, %a, %b, %c;", lambda a, b, c: c + abs(s32(a) - s32(b))),
    ("sad.u32 %d, %a, %b, %c;", lambda a, b, c: c + abs(a - b)),
    ("div.s32 %d, %a, %n;", lambda a, b, c: divide(s32(a), s32(b | 1))),
    ("div.u32 %d, %a, %n;", lambda a, b, c: a // (b | 1)),
    ("rem.s32 %d, %a, %n;", lambda a, b, c: s32(a) - s32(b | 1) * divide(s32(a), s32(b | 1))),
    ("rem.u32 %d, %a, %n;", lambda a, b, c: a % (b | 1)),
    ("min.s32 %d, %a, %b;", lambda a, b, c: min(s32(a), s32(b))),
    ("max.u32 %d, %a, %b;", lambda a, b, c: max(a, b)),
    ("max.relu.s32 %d, %a, %b;", lambda a, b, c: max(s32(a), s32(b), 0)),
    ("abs.s32 %d, %a;", lambda a, b, c: abs(s32(a))),
    ("neg.s32 %d, %a;", lambda a, b, c: -a),
    ("and.b32 %d, %a, %b;", lambda a, b, c: a & b),
    ("or.b32 %d, %a, 0xF0;", lambda a, b, c: a | 0xF0),
    ("xor.b32 %d, %a, %b;", lambda a, b, c: a ^ b),
    ("not.b32 %d, %a;", lambda a, b, c: ~a),
    ("cnot.b32 %d, %a;", lambda a, b, c: int(a == 0)),
    ("lop3.b32 %d, %a, %b, %c, 0xE8;", lambda a, b, c: lop3(a, b, c, 0xE8)),
    ("lop3.b32 %d, %a, %b, %c, 0x1A;", lambda a, b, c: lop3(a, b, c, 0x1A)),
    ("shl.b32 %d, %a, %n5;", lambda a, b, c: a << (b & 63) if b & 63 < 32 else 0),
    ("shl.b32 %d, %a, 5;", lambda a, b, c: a << 5),
    ("shl.b32 %d, %a, 32;", lambda a, b, c: 0),
    ("shr.u32 %d, %a, %n5;", lambda a, b, c: a >> (b & 63)),
    ("shr.s32 %d, %a, %n5;", lambda a, b, c: s32(a) >> (b & 63)),
    ("shr.s32 %d, %a, 40;", lambda a, b, c: s32(a) >> 31),
    ("shr.b32 %d, %a, 7;", lambda a, b, c: a >> 7),
    ("shf.l.wrap.b32 %d, %a, %b, %c;", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    ("shf.r.clamp.b32 %d, %a, %b, %c;", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("bfe.u32 %d, %a, 5, 9;", lambda a, b, c: a >> 5 & 511),
    ("bfe.s32 %d, %a, 5, 9;", lambda a, b, c: ((a >> 5 & 511) ^ 256) - 256),
    ("bfi.b32 %d, %a, %b, 4, 8;", lambda a, b, c: (b & ~0xFF0) | (a & 255) << 4),
    ("popc.b32 %d, %a;", lambda a, b, c: a.bit_count()),
    ("clz.b32 %d, %a;", lambda a, b, c: 32 - a.bit_length()),
    ("brev.b32 %d, %a;", lambda a, b, c: brev(a, 32)),
    ("bfind.u32 %d, %a;", lambda a, b, c: a.bit_length() - 1),
    ("bfind.shiftamt.s32 %d, %a;", lambda a, b, c: 31 - ((a if s32(a) >= 0 else ~a & M32).bit_length() - 1) if (a if s32(a) >= 0 else ~a & M32) else M32),
    ("prmt.b32 %d, %a, %b, %c;", prmt),
    ("prmt.b32 %d, %a, %b, 0x5410;", lambda a, b, c: a & 0xFFFF | (b & 0xFFFF) << 16),
    ("dp4a.u32.s32 %d, %a, %b, %c;", lambda a, b, c: c + sum(x * y for x, y in zip(bytes_of(a, False), bytes_of(b, True), strict=True))),
    ("selp.b32 %d, %a, %b, %p;", lambda a, b, c: a if s32(c) < 0 else b),
    ("selp.u32 %d, 7, %b, !%p;", lambda a, b, c: b if s32(c) < 0 else 7),
    ("slct.s32.s32 %d, %a, %b, %c;", lambda a, b, c: a if s32(c) >= 0 else b),
    ("set.lt.u32.s32 %d, %a, %b;", lambda a, b, c: M32 * (s32(a) < s32(b))),
    ("set.gt.f32.u32 %d, %a, %b;", lambda a, b, c: b32(float(a > b))),
    ("setp.lt.s32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(s32(a) < s32(b))),
    ("setp.hi.u32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(a > b)),
    ("setp.le.and.s32 %q|%r, %a, " "%b, %p; selp.u32 " "%d, 1, 0, %q; @%r add.u32 %d, %d, 2;", lambda a, b, c: (1 if s32(a) <= s32(b) else 2) if s32(c) < 0 else 0),
    ("setp.ne.xor.u32 %q, %a, %b, !%p; " "selp.u32 %d, 1, 0, %q;", lambda a, b, c: int((a != b) ^ (not s32(c) < 0))),
    ("and.pred %q, %p, !%p; " "or.pred %q, %q, %p; " "not.pred %q, %q; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(not s32(c) < 0)),
    ("mov.b32 {%h, %k}, %a; mov.b32 %d, {%k, %h};", lambda a, b, c: a >> 16 | (a & 0xFFFF) << 16),
    ("mov.b32 {_, %k}, %a; cvt.u32.u16 %d, %k;", lambda a, b, c: a >> 16),
    ("cvt.s32.s8 %d, %a;", lambda a, b, c: ((a & 255) ^ 128) - 128),
    ("cvt.sat.u8.s32 %d, %a;", lambda a, b, c: max(0, min(255, s32(a)))),
    ("cvt.rn.f32.s32 %d, %a;", lambda a, b, c: b32(float(s32(a)))),
    ("cvt.rn.f32.u32 %d, %a;", lambda a, b, c: b32(float(a))),
    ("add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;", lambda a, b, c: c + (a + b >> 32)),
    ("sub.cc.u32 %d, %a, %b; subc.u32 %d, %c, 0;", lambda a, b, c: c - (a < b)),
    ("mad.lo.cc.u32 %d, %a, %b, %c; madc.hi.u32 %d, %a, %b, 0;", lambda a, b, c: (a * b + c) >> 32),
]  # fmt: skip

VIDEO = [
    ("vadd.u32.u32.s32.sat %d.h1, " "%a.b1, %b.h0, %c;", lambda a, b, c: (c & 0xFFFF) | max(0, min(65535, (a >> 8 & 255) + ((b & 0xFFFF) ^ 0x8000) - 0x8000)) << 16),
    ("vsub.s32.u32.u32.max %d, %a, %b.b3, %c;", lambda a, b, c: max(s32(a - (b >> 24)), s32(c))),
    ("vmad.s32.s32.u32.shr7 %d, " "-%a.b1, %b.h0, %c;", lambda a, b, c: (s32(c) - ((a >> 8 & 255 ^ 128) - 128) * (b & 0xFFFF)) >> 7),
    ("vadd4.u32.u32.u32 %d, %a, %b, %c;", lambda a, b, c: sum(((a >> 8 * i & 255) + (b >> 8 * i & 255) & 255) << 8 * i for i in range(4))),
    ("vadd2.u32.u32.u32.add %d.h1, %a.h21, %b.h10, %c;", lambda a, b, c: c + (b & 0xFFFF) + (a >> 16)),
    ("vabsdiff4.u32.u32.u32.add " "%d, %a, %b, %c;", lambda a, b, c: c + sum(abs((a >> 8 * i & 255) - (b >> 8 * i & 255)) for i in range(4))),
    ("vset4.u32.u32.lt %d.b20, %a, %b, %c;", lambda a, b, c: (c & 0xFF00FF00) | int((a & 255) < (b & 255)) | int((a >> 16 & 255) < (b >> 16 & 255)) << 16),
]  # fmt: skip

FLOAT = [
    ("add.f32 %d, %a, %b;", lambda a, b, c: b32(f32(a) + f32(b))),
    ("sub.rn.f32 %d, %a, %b;", lambda a, b, c: b32(f32(a) - f32(b))),
    ("mul.f32 %d, %a, %b;", lambda a, b, c: b32(f32(a) * f32(b))),
    ("fma.rn.f32 %d, %a, %b, %c;", exact_fma),
    ("fma.rn.f32 %d, %a, %b, 0f3F800000;", lambda a, b, c: exact_fma(a, b, 0x3F800000)),
    ("mad.rn.f32 %d, %a, %b, %c;", exact_fma),
    (
        "add.sat.f32 %d, %a, %b;",
        lambda a, b, c: b32(0.0 if math.isnan(f32(a) + f32(b)) else max(0.0, min(1.0, f32(a) + f32(b))) + 0.0),
    ),
    ("div.rn.f32 %d, %a, %b;", lambda a, b, c: b32(quotient(f32(a), f32(b)))),
    ("neg.f32 %d, %a;", lambda a, b, c: b32(-f32(a))),
    ("abs.f32 %d, %a;", lambda a, b, c: b32(abs(f32(a)))),
    ("rcp.rn.f32 %d, %a;", lambda a, b, c: b32(quotient(1.0, f32(a)))),
    ("sqrt.rn.f32 %d, %a;", lambda a, b, c: b32(math.sqrt(f32(a)) if f32(a) >= 0 else math.nan)),
    ("setp.lt.f32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(f32(a) < f32(b))),
    (
        "setp.ne.f32 %q, %a, %b; selp.u32 %d, 1, 0, %q;",
        lambda a, b, c: int(f32(a) < f32(b) or f32(a) > f32(b)),
    ),
    ("setp.geu.f32 %q, %a, %b; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(not f32(a) < f32(b))),
    (
        "setp.nan.f32 %q, %a, %b; selp.u32 %d, 1, 0, %q;",
        lambda a, b, c: int(math.isnan(f32(a)) or math.isnan(f32(b))),
    ),
    ("testp.finite.f32 %q, %a; selp.u32 %d, 1, 0, %q;", lambda a, b, c: int(math.isfinite(f32(a)))),
    ("copysign.f32 %d, %a, %b;", lambda a, b, c: a & 2**31 | b & (2**31 - 1)),
    ("slct.f32.f32 %d, %a, %b, %c;", lambda a, b, c: a if f32(c) >= 0 else b),
    (
        "cvt.rzi.s32.f32 %d, %a;",
        lambda a, b, c: 0 if math.isnan(f32(a)) else int(max(-(2**31), min(2**31 - 1, f32(a)))),
    ),
    (
        "cvt.rni.u32.f32 %d, %a;",
        lambda a, b, c: (
            0 if math.isnan(f32(a)) else int(max(0, min(M32, round(f32(a)) if abs(f32(a)) < 1e30 else f32(a))))
        ),
    ),
    (
        "cvt.rn.f16.f32 %h, %a; cvt.f32.f16 %d, %h;",
        lambda a, b, c: b32(f16(b16(f32(a)))) if not math.isnan(f32(a)) else 0x7FFFFFFF,
    ),
    ("cvt.rn.f16x2.f32 %d, %a, %b;", lambda a, b, c: b16(f32(a)) << 16 | b16(f32(b))),
    (
        "cvt.ftz.f64.f32 %D, %a; cvt.rn.f32.f64 %d, %D;",
        lambda a, b, c: a & 2**31 if abs(f32(a)) < 2**-126 else b32(f32(a)),
    ),
]

HALF = [
    ("add.f16x2 %d, %a, %b;", halves(lambda x, y, z: x + y)),
    ("sub.f16x2 %d, %a, %b;", halves(lambda x, y, z: x - y)),
    ("mul.f16x2 %d, %a, %b;", halves(lambda x, y, z: x * y)),
    ("neg.f16x2 %d, %a;", halves(lambda x, y, z: -x)),
    ("max.f16x2 %d, %a, %b;", halves(lambda x, y, z: y if math.isnan(x) else x if math.isnan(y) else max(x, y))),
    ("setp.lt.f16x2 %q|%r, %a, " "%b; selp.u32 %d, " "1, 0, %q; @%r add.u32 %d, %d, 2;", lambda a, b, c: int(f16(a) < f16(b)) + 2 * int(f16(a >> 16) < f16(b >> 16))),
]  # fmt: skip

LONG = [
    ("add.s64 %d, %a, %b;", lambda a, b, c: a + b),
    ("mul.lo.u64 %d, %a, %b;", lambda a, b, c: a * b),
    ("mul.hi.s64 %d, %a, %b;", lambda a, b, c: s64(a) * s64(b) >> 64),
    ("mul.hi.u64 %d, %a, %b;", lambda a, b, c: a * b >> 64),
    ("div.s64 %d, %a, %n;", lambda a, b, c: divide(s64(a), s64(b | 1))),
    ("shr.s64 %d, %a, 17;", lambda a, b, c: s64(a) >> 17),
    ("shl.b64 %d, %a, 33;", lambda a, b, c: a << 33),
    ("min.s64 %d, %a, %b;", lambda a, b, c: min(s64(a), s64(b))),
    ("brev.b64 %d, %a;", lambda a, b, c: brev(a, 64)),
    ("bfe.u64 %d, %a, 20, 30;", lambda a, b, c: a >> 20 & (2**30 - 1)),
    ("mov.b64 {%w, %v}, %a; mov.b64 %d, {%v, %w};", lambda a, b, c: a >> 32 | (a & M32) << 32),
    ("mov.b64 {%w, _}, %a; mul.wide.s32 %d, %w, -3;", lambda a, b, c: s32(a) * -3),
    ("mov.b64 {%w, _}, %a; mad.wide.u32 %d, %w, 3, %b;", lambda a, b, c: (a & M32) * 3 + b),
    ("cvt.s64.s32 %d, %a;", lambda a, b, c: s32(a)),
    ("setp.gt.s64 %q, %a, %b; selp.b64 %d, %a, %c, %q;", lambda a, b, c: a if s64(a) > s64(b) else c),
    ("popc.b64 %w, %a; cvt.u64.u32 %d, %w;", lambda a, b, c: a.bit_count()),
    ("add.cc.u64 %d, %a, %b; addc.u64 %d, %c, %a;", lambda a, b, c: c + a + (a + b >> 64)),
    ("cvt.rn.f64.s64 %d, %a;", lambda a, b, c: b64(float(s64(a)))),
    ("mov.b128 %x, {%a, %b}; mov.b128 {%d, _}, %x;", lambda a, b, c: a),
    ("mov.b128 %x, {%a, %b}; mov.b128 {_, %d}, %x;", lambda a, b, c: b),
]

DOUBLE = [
    ("add.f64 %d, %a, %b;", lambda a, b, c: f64(a) + f64(b)),
    ("mul.f64 %d, %a, %b;", lambda a, b, c: f64(a) * f64(b)),
    ("div.rn.f64 %d, %a, %b;", lambda a, b, c: quotient(f64(a), f64(b))),
    ("sqrt.rn.f64 %d, %a;", lambda a, b, c: math.sqrt(f64(a)) if f64(a) >= 0 else math.nan),
    (
        "max.f64 %d, %a, %b;",
        lambda a, b, c: f64(b) if math.isnan(f64(a)) else f64(a) if math.isnan(f64(b)) else max(f64(a), f64(b)),
    ),
    (
        "cvt.rn.f32.f64 %w, %a; cvt.f64.f32 %d, %w;",
        lambda a, b, c: float(np.array([f64(a)]).astype(np.float32)[0]),
    ),
    ("fma.rn.f64 %d, %a, %b, 0d0000000000000000;", lambda a, b, c: f64(a) * f64(b) + 0.0),
]


def run(instruction: str, bits: int, values: list[np.ndarray], guarded: bool) -> np.ndarray:
    """Execute on all values; `guarded`: in a branch that only odd threads take, the others must keep their
    register.
    """
    word = f"b{bits}"
    names = {
        "%D": "%scratch64",
        "%d": "%res",
        "%a": "%ra",
        "%b": "%rb",
        "%c": "%rc",
        "%n5": "%amount",
        "%n": "%divisor",
    }
    text = instruction
    for short, name in names.items():
        text = (
            text.replace(short + ",", name + ",")
            .replace(short + ";", name + ";")
            .replace(short + "}", name + "}")
            .replace(short + ".", name + ".")
        )
    kernel = f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
    .reg .pred %p, %q, %r, %odd;
    .reg .b16 %h, %k;
    .reg .b32 %w, %v, %t, %amount, %low, %g<4>;
    .reg .b64 %pa, %pb, %pc, %pd, %o, %scratch64;
    .reg .b128 %x;
    .reg .{word} %res, %ra, %rb, %rc, %divisor;
    ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c]; ld.param.u64 %pd, [d];
    mov.u32 %g1, %ctaid.x; mov.u32 %g2, %ntid.x; mov.u32 %g3, %tid.x;
    mad.lo.u32 %t, %g1, %g2, %g3;
    mul.wide.u32 %o, %t, {bits // 8};
    add.s64 %pa, %pa, %o; add.s64 %pb, %pb, %o; add.s64 %pc, %pc, %o; add.s64 %pd, %pd, %o;
    ld.global.{word} %ra, [%pa]; ld.global.{word} %rb, [%pb]; ld.global.{word} %rc, [%pc];
    or.{word} %divisor, %rb, 1;
    ld.global.b32 %low, [%pb];
    and.b32 %amount, %low, 63;
    setp.lt.s{bits} %p, %rc, 0;
    mov.{word} %res, 77;
    and.b32 %low, %t, 1;
    setp.ne.u32 %odd, %low, 0;
    {"@!%odd bra $skip;" if guarded else ""}
    {text}
$skip:
    st.global.{word} [%pd], %res;
    ret;
}}
"""
    d = np.zeros_like(values[0])
    load(kernel)["k"].simulate(*values, d, grid=d.size // 64, block=64)
    return d


def inputs(kind: str, count: int = 512) -> list[np.ndarray]:
    rng = np.random.default_rng()
    made: list[np.ndarray] = []
    for _ in range(3):
        if kind in ("word", "long"):
            dtype = np.uint32 if kind == "word" else np.uint64
            bits = 32 if kind == "word" else 64
            x = rng.integers(0, 2**bits, count, dtype=dtype) >> rng.integers(0, bits, count).astype(dtype)
            x[:60] = rng.choice(np.array([0, 1, 2, 31, 32, 2**31, M32, 2**31 - 1], dtype), 60)
        elif kind == "float":
            x = (rng.normal(size=count) * 10.0 ** rng.integers(-3, 6, count)).astype(np.float32)
            x[:80] = rng.choice(
                np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-44, 3e38], np.float32), 80
            )
            x = x.view(np.uint32)
        elif kind == "half":
            x = rng.normal(size=2 * count).astype(np.float16) * np.float16(8)
            x[:80] = rng.choice(np.array([0, 1, -1, np.inf, -np.inf, np.nan, 6e-8, 6e4], np.float16), 80)
            x = x.view(np.uint32)
        else:
            x = rng.normal(size=count) * 10.0 ** rng.integers(-3, 30, count)
            x[:80] = rng.choice(np.array([0, 1, -1, np.inf, -np.inf, np.nan, 5e-324, 1e308]), 80)
            x = x.view(np.uint64)
        made.append(x)
    return made


ROWS = [
    *(("word", 32, *row) for row in (*WORD, *VIDEO)), *(("float", 32, *row) for row in FLOAT), *(("half", 32, *row) for row in HALF),
    *(("long", 64, *row) for row in LONG), *(("double", 64, *row) for row in DOUBLE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "bits", "instruction", "reference"),
    ROWS,
    ids=[row[2].partition(" ")[0] + f"-{i}" for i, row in enumerate(ROWS)],
)
@pytest.mark.parametrize("guarded", [False, True], ids=["all", "half"])
def test_instruction(
    kind: str, bits: int, instruction: str, reference: Callable[[int, int, int], float], guarded: bool
) -> None:
    values = inputs(kind)
    got = run(instruction, bits, values, guarded)
    mask = (1 << bits) - 1
    for i, (a, b, c) in enumerate(zip(*(v.tolist() for v in values), strict=True)):
        want = reference(a, b, c)
        if guarded and i % 2 == 0:
            want = 77
        elif kind == "double":
            if math.isnan(want):
                assert math.isnan(f64(int(got[i])))
                continue
            want = b64(want)
        assert int(got[i]) == int(want) & mask, (
            instruction,
            hex(a),
            hex(b),
            hex(c),
            hex(int(got[i])),
            hex(int(want) & mask),
        )


def test_minimum_of_halves_with_signs_combined() -> None:
    """min.xorsign.abs: the smaller magnitude with the signs' exclusive or (PTX ISA 9.7.4.7)."""
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b16 %h<4>; .reg .b64 %d<3>; .reg .b32 %r<2>;\n"
        "ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n"
        "ld.global.b16 %h1, [%d1]; ld.global.b16 %h2, [%d1+2]; min.xorsign.abs.f16 %h3, %h1, %h2; st.global.b16 [%d1], %h3; ret;\n}\n"
    )
    pairs = np.random.default_rng().normal(size=(32, 2)).astype(np.float16)
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    pyptx.simulate(pyptx.parse(text), pairs, grid=1, block=32)
    np.testing.assert_array_equal(pairs[:, 0], np.minimum(np.abs(a), np.abs(b)) * np.sign(a) * np.sign(b))


def test_signed_addresses_of_a_cluster_and_waits_for_no_group() -> None:
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %d<2>;\n"
        ".shared .b32 s;\n"
    )
    for sign in "us":
        body = (
            f"ld.param.u64 %d1, [p]; cp.async.wait_group 0xFFFFFFFFFFFFFFFF; mapa.shared::cluster.{sign}32 %r1, s, 0;\n"
            f"getctarank.shared::cluster.{sign}32 %r2, %r1; st.global.u32 [%d1], %r2; ret;\n}}\n"
        )
        out = np.full(1, 77, np.uint32)
        pyptx.simulate(pyptx.parse(text + body), out, grid=1, block=1)
        assert out[0] == 0
