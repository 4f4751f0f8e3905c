"""Folded values are what the instructions compute: the simulator runs the kernels before and after, on edge values."""

from __future__ import annotations

import itertools
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

import pyptx
from pyptx.dialects.ptx.instruction import iter_instructions
from pyptx.passes.constant import F32, F64, decode, encode, evaluate
from pyptx.passes.fold import fold_constants
from tests.passes.sample import ptx_of

INTEGERS = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, 255, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF]
WIDE = [*INTEGERS, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x0123456789ABCDEF]
FLOATS = [
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x3F800001, 0x40400000, 0x33800000, 0x34000000, 0x00000001,
    0x80000001,
    0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x4B800000, 0x4F000000,
    0xCF000001,
    0x3DCCCCCD, 0x3EAAAAAB,
]  # fmt: skip
DOUBLES = [
    struct.unpack("<Q", struct.pack("<d", x))[0] for x in (0.0, -0.0, 1.0, -1.5, 1 / 3, 1e308, 5e-324, 2.0**53 + 2, 0.1)
]
DOUBLES += [0x7FF0000000000000, 0x3CA0000000000000, 0x3FF0000000000001, 0x36A0000000000000, 0x47EFFFFFF0000000]

CASES: dict[str, tuple[str, ...]] = {
    "b32 b32 b32": (
        "add.s32", "sub.u32", "mul.lo.s32", "mul.hi.s32", "mul.hi.u32", "div.s32", "div.u32", "rem.s32", "rem.u32",
        "min.s32",
        "max.u32", "and.b32", "or.b32", "xor.b32", "shl.b32", "shr.s32", "shr.u32", "add.sat.s32", "sub.sat.s32",
    ),
    "b32 b32": (
        "abs.s32", "neg.s32", "not.b32", "cnot.b32", "popc.b32", "clz.b32", "brev.b32", "bfind.s32", "bfind.u32",
        "bfind.shiftamt.u32", "cvt.s32.s8", "cvt.u32.u16", "cvt.s32.s16", "cvt.u32.s8", "cvt.u16.s32", "cvt.s16.u32",
    ),
    "b32 b32 b32 b32": (
        "mad.lo.s32", "mad.hi.u32", "sad.s32", "sad.u32", "bfe.s32", "bfe.u32", "shf.l.wrap.b32", "shf.r.clamp.b32",
        "shf.l.clamp.b32", "prmt.b32",
    ),
    "b32 b32 b32 b32 b32": ("bfi.b32",),
    "b64 b64 b64": ("add.s64", "mul.lo.u64", "mul.hi.s64", "div.s64", "rem.u64", "min.u64", "and.b64"),
    "b64 b32 b32": ("mul.wide.s32", "mul.wide.u32"),
    "b64 b32": ("cvt.s64.s32", "cvt.u64.u32"),
    "b32 b64": ("cvt.u32.u64", "popc.b64", "clz.b64", "bfind.s64", "bfind.shiftamt.s64"),
    "f32 f32 f32": (
        "add.f32", "add.rz.f32", "add.rm.f32", "add.rp.f32", "sub.rn.f32", "mul.rn.f32", "mul.rz.f32", "mul.ftz.f32",
        "div.rn.f32",
        "div.rm.f32", "min.f32", "max.f32", "add.sat.f32", "mul.rn.ftz.f32", "add.ftz.f32", "sub.rm.f32",
    ),
    "f32 f32": ("neg.f32", "abs.f32", "sqrt.rn.f32", "sqrt.rp.f32", "neg.ftz.f32"),
    "f32 f32 f32 f32": ("fma.rn.f32", "fma.rm.f32", "mad.rn.f32", "fma.rn.sat.f32"),
    "f64 f64 f64": ("add.f64", "sub.rp.f64", "mul.rn.f64", "div.rn.f64", "min.f64"),
    "f64 f64": ("sqrt.rn.f64", "neg.f64"),
    "f64 f64 f64 f64": ("fma.rn.f64",),
    "f64 f32": ("cvt.f64.f32",),
    "f32 f64": ("cvt.rn.f32.f64", "cvt.rz.f32.f64"),
    "b32 f32": ("cvt.rzi.s32.f32", "cvt.rni.s32.f32", "cvt.rmi.u32.f32", "cvt.rpi.s32.f32"),
    "f32 b32": ("cvt.rn.f32.s32", "cvt.rz.f32.u32", "cvt.rp.f32.u32"),
    "f64 b64": ("cvt.rn.f64.s64", "cvt.rm.f64.u64"),
    "pred b32 b32": ("setp.lt.s32", "setp.hi.u32", "setp.eq.b32", "setp.ge.s32"),
    "pred f32 f32": (
        "setp.lt.f32", "setp.leu.f32", "setp.ne.f32", "setp.equ.f32", "setp.nan.f32", "setp.num.f32",
        "setp.gtu.ftz.f32",
    ),
}  # fmt: skip
VALUES = {"b32": INTEGERS, "b64": WIDE, "f32": FLOATS, "f64": DOUBLES}


def kernel(instruction: str, kinds: list[str], rows: list[tuple[int, ...]]) -> str:
    wide = {"f32": "b32", "f64": "b64", "pred": "b32"}.get(kinds[0], kinds[0])
    lines = [".version 8.0", ".target sm_80", ".address_size 64", ".entry k(.param .u64 out)", "{"]
    lines += [
        "\t.reg .b32 %r<9>;",
        "\t.reg .b64 %rd<9>;",
        "\t.reg .f32 %f<9>;",
        "\t.reg .f64 %fd<9>;",
        "\t.reg .pred %p<2>;",
    ]
    lines.append("\tld.param.u64 %rd8, [out];")
    names = {"b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd", "pred": "%p"}
    for i, row in enumerate(rows):
        operands = [names[kinds[0]] + "0"]
        for j, (kind, value) in enumerate(zip(kinds[1:], row, strict=True), 1):
            operands.append(f"{names[kind]}{j}")
            text = {"f32": f"0f{value:08X}", "f64": f"0d{value:016X}", "b64": f"{value}U"}.get(kind, str(value))
            lines.append(f"\tmov.{kind} {operands[-1]}, {text};")
        lines.append(f"\t{instruction} {', '.join(operands)};")
        if kinds[0] == "pred":
            lines.append("\tselp.b32 %r0, 1, 0, %p0;")
        result = {"pred": "%r0"}.get(kinds[0], operands[0])
        lines.append(f"\tst.global.{wide if kinds[0] not in ('f32', 'f64') else kinds[0]} [%rd8+{8 * i}], {result};")
    return "\n".join([*lines, "\tret;", "}", ""])


def run(text: str, count: int) -> list[int]:
    out = np.zeros(count, np.uint64)
    pyptx.simulate(pyptx.parse(text), out, grid=1, block=1)
    return out.tolist()


@pytest.mark.parametrize(("kinds", "instruction"), [(k, i) for k, names in CASES.items() for i in names])
def test_as_simulated(kinds: str, instruction: str) -> None:
    words = kinds.split()
    choices = list(itertools.product(*(VALUES[w] for w in words[1:])))
    rows = choices if len(choices) <= 150 else random.Random(instruction).sample(choices, 150)
    text = kernel(instruction, words, rows)
    module = ptx_of(text)
    opcode = instruction.partition(".")[0]
    before = sum(op.opcode == opcode for op in iter_instructions(module))
    (function,) = module.functions
    fold_constants(function)
    left = sum(op.opcode == opcode for op in iter_instructions(module))
    assert left <= before * 0.75, "hardly anything was folded"
    assert run(pyptx.to_ptx(module), len(rows)) == run(text, len(rows))


def test_known_values() -> None:
    """By hand, against PTX's definitions."""
    one, third = 0x3F800000, 0x3EAAAAAB
    assert evaluate("div", {"rnd": "rn", "type": "f32"}, (one, 0x40400000)) == (third,)
    assert evaluate("div", {"rnd": "rz", "type": "f32"}, (one, 0x40400000)) == (third - 1,)
    assert evaluate("add", {"type": "f32", "rnd": "rm"}, (one, 0xBF800000)) == (
        0x80000000,
    )  # exact zero is -0 downwards
    assert evaluate("add", {"type": "f32"}, (one, 0xBF800000)) == (0,)
    assert evaluate("mul", {"type": "f32"}, (0x80000000, one)) == (0x80000000,)
    assert evaluate("add", {"type": "f32"}, (0x7FC00001, one)) is None  # a NaN's payload is not ours to say
    assert evaluate("add", {"type": "f32"}, (0x7F7FFFFF, 0x7F7FFFFF)) is None  # overflow
    assert evaluate("add", {"type": "f32", "ftz": "ftz"}, (0x00400000, 0)) == (0,)
    assert evaluate("div", {"type": "s32"}, (0xFFFFFFF9, 2)) == (0xFFFFFFFD,)  # -7 / 2 = -3
    assert evaluate("rem", {"type": "s32"}, (0xFFFFFFF9, 2)) == (0xFFFFFFFF,)  # -7 % 2 = -1
    assert evaluate("div", {"type": "s32"}, (5, 0)) is None
    assert evaluate("shr", {"type": "s32"}, (0x80000000, 200)) == (0xFFFFFFFF,)
    assert evaluate("lop3", {"type": "b32"}, (0xF0, 0xCC, 0xAA, 0x96)) == (0xF0 ^ 0xCC ^ 0xAA,)
    assert evaluate("setp", {"cmp": "lt", "type": "f32"}, (0x7FC00000, one)) == (0, 1)
    assert evaluate("setp", {"cmp": "ltu", "type": "f32"}, (0x7FC00000, one)) == (1, 0)
    assert evaluate("sin", {"type": "f32"}, (0,)) is None


@pytest.mark.parametrize(("format_", "code"), [(F32, "f"), (F64, "d")])
def test_encoding_rounds_as_the_hardware_does(format_, code: str) -> None:
    rng = random.Random(7)
    letter = {"f": "I", "d": "Q"}[code]
    for _ in range(2000):
        bits = rng.getrandbits(format_.bits)
        number = decode(bits, format_)
        if number is None:
            continue
        assert encode(number, format_, negative_zero=bool(bits >> (format_.bits - 1))) == bits
        near = number * Fraction(rng.randrange(1, 1 << 60), 1 << 59)
        got = encode(near, format_)
        try:
            want = struct.unpack(f"<{letter}", struct.pack(f"<{code}", float(near)))[0]
        except OverflowError:
            continue
        if code == "d" or Fraction(float(near)) == near:  # else Python rounds twice
            assert got == want
