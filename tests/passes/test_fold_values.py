"""Folded values are what the instructions compute: the simulator runs the kernels before and after, on edge values."""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import pyptx
from pyptx.dialects.ptx.instruction import OPCODES, iter_instructions
from pyptx.dialects.ptx.syntax import Immediate, Register
from pyptx.dialects.ptx.types import SCALAR_TYPES
from pyptx.passes.constant import _FUNCTIONS, evaluate
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
ODD = {"pred": 1, "b16": 16, "imm": 8}
"""The bits of other operands."""
SEED = int(os.environ.get("PYPTX_SEED", "1"))
VALUES = {"b32": INTEGERS, "b64": WIDE, "f32": FLOATS, "f64": DOUBLES}


Case = tuple[str, Sequence[str], Sequence[int]]
"""An instruction, the kinds of its result and operands, and the operands' bits (the text of an `imm`)."""
REGISTERS = {"b16": "%h", "b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd", "pred": "%p"}


def kernel(cases: Sequence[Case]) -> str:
    """Runs each instruction on its constants and stores the results, 8 bytes apart."""
    lines = [".version 9.0", ".target sm_100a", ".address_size 64", ".entry k(.param .u64 out)", "{"]
    lines += [f"\t.reg .{kind} {name}<10>;" for kind, name in REGISTERS.items()]
    lines.append("\tld.param.u64 %rd9, [out];")
    for i, (instruction, kinds, row) in enumerate(cases):
        operands = [REGISTERS[kinds[0]] + "0"]
        for j, (kind, value) in enumerate(zip(kinds[1:], row, strict=True), 1):
            if kind == "imm":
                operands.append(str(value))
                continue
            operands.append(f"{REGISTERS[kind]}{j}")
            text = {"f32": f"0f{value:08X}", "f64": f"0d{value:016X}", "b64": f"{value}U"}.get(kind, str(value))
            lines.append(f"\tmov.{kind} {operands[-1]}, {text};")
        lines.append(f"\t{instruction} {', '.join(operands)};")
        result, wide = operands[0], kinds[0]
        if kinds[0] == "pred":
            lines.append("\tselp.b32 %r0, 1, 0, %p0;")
            result, wide = "%r0", "b32"
        lines.append(f"\tst.global.{wide} [%rd9+{8 * i}], {result};")
    return "\n".join([*lines, "\tret;", "}", ""])


def check(cases: Sequence[Case]) -> Counter[str]:
    """Folding changes no result; how often each instruction is left."""
    text = kernel(cases)
    module = ptx_of(text)
    (function,) = module.functions
    fold_constants(function)
    assert run(pyptx.to_ptx(module), len(cases)) == run(text, len(cases))
    return Counter(".".join((op.opcode, *op.modifiers)) for op in iter_instructions(module))


def run(text: str, count: int) -> list[int]:
    out = np.zeros(count, np.uint64)
    pyptx.simulate(pyptx.parse(text), out, grid=1, block=1)
    return out.tolist()


@pytest.mark.parametrize("kinds", CASES)
def test_as_simulated(kinds: str) -> None:
    words = kinds.split()
    cases: list[Case] = []
    for instruction in CASES[kinds]:
        choices = list(itertools.product(*(VALUES[w] for w in words[1:])))
        rows = choices if len(choices) <= 40 else random.Random(instruction).sample(choices, 40)
        cases += [(instruction, words, row) for row in rows]
    left = check(cases)
    for instruction in CASES[kinds]:
        assert left[instruction] <= sum(case[0] == instruction for case in cases) * 0.75, "hardly anything was folded"


def kind_of(type_: str) -> str | None:
    """The register that an operand of a type may be in."""
    if type_ in ("imm", "pred", "f32", "f64"):
        return type_
    scalar = SCALAR_TYPES.get(type_)
    if scalar is None or scalar.kind not in ("signed", "unsigned", "bits") or scalar.bits > 64:
        return None
    return f"b{max(scalar.bits, 16)}"


def folding_forms(choose: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Instructions of all forms of all opcodes that fold, some of the modifiers of each, and the kinds of their operands."""
    for opcode in _FUNCTIONS:
        cls = OPCODES[opcode]
        for declared in cls.forms:
            values = [[*s.values, *([] if s.required else [""])] for s in declared.slots]
            filled = list(itertools.product(*values))
            for picked in choose.sample(filled, min(len(filled), 6)):
                slots = {s.name: v for s, v in zip(declared.slots, picked, strict=True) if v}
                modifiers = tuple(declared.modifiers(slots))
                for specs in declared.alternatives:
                    plain = [Register("=" if i == 0 else "$") for i in range(len(specs))]
                    kinds = [kind_of(t) for t in declared.operand_types(slots, tuple(plain), cls)]
                    if specs[0].parts and specs[0].parts[0].type == "pred":
                        kinds[0] = "pred"
                    if None in kinds:
                        continue
                    found = [k for k in kinds if k is not None]
                    layout = tuple(Immediate("200") if k == "imm" else r for k, r in zip(found, plain, strict=True))
                    classes = tuple(k for k in found if k != "imm")
                    if cls.resolve(modifiers, layout, classes).verdict((9, 0), "sm_100a") is None:
                        yield ".".join((opcode, *modifiers)), found


def test_all_forms_that_fold_give_what_is_simulated() -> None:
    choose = random.Random(SEED)
    cases: list[Case] = []
    for instruction, kinds in dict((i, k) for i, k in folding_forms(choose)).items():
        for _ in range(2):
            row = [choose.choice(VALUES[k]) if k in VALUES else choose.getrandbits(ODD[k]) for k in kinds[1:]]
            row = [
                choose.getrandbits(32) if k == "b32" and choose.random() < 0.5 else v
                for k, v in zip(kinds[1:], row, strict=True)
            ]
            cases.append((instruction, kinds, row))
    opcodes = {instruction.partition(".")[0] for instruction, _, _ in cases}
    assert opcodes == set(_FUNCTIONS)
    left = check(cases)
    assert sum(left[instruction] for instruction in {c[0] for c in cases}) < 0.4 * len(cases)


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
    assert evaluate("add", {"type": "f32", "rnd": "rz"}, (0x7F7FFFFF, 0x7F7FFFFF)) == (0x7F7FFFFF,)  # IEEE 754, 4.3.2
    assert evaluate("add", {"type": "f32", "ftz": "ftz"}, (0x00400000, 0)) == (0,)
    assert evaluate("div", {"type": "s32"}, (0xFFFFFFF9, 2)) == (0xFFFFFFFD,)  # -7 / 2 = -3
    assert evaluate("rem", {"type": "s32"}, (0xFFFFFFF9, 2)) == (0xFFFFFFFF,)  # -7 % 2 = -1
    assert evaluate("div", {"type": "s32"}, (5, 0)) is None
    assert evaluate("shr", {"type": "s32"}, (0x80000000, 200)) == (0xFFFFFFFF,)
    assert evaluate("lop3", {"type": "b32"}, (0xF0, 0xCC, 0xAA, 0x96)) == (0xF0 ^ 0xCC ^ 0xAA,)
    assert evaluate("setp", {"cmp": "lt", "type": "f32"}, (0x7FC00000, one)) == (0, 1)
    assert evaluate("setp", {"cmp": "ltu", "type": "f32"}, (0x7FC00000, one)) == (1, 0)
    one_or_two = {"ctype": "f32", "type": "b32"}  # PTX ISA 9.7.7.4: a where c >= 0, b where c is NaN
    assert evaluate("slct", one_or_two, (1, 2, 0x80000000)) == (1,)
    assert evaluate("slct", one_or_two, (1, 2, 0x7FC00000)) == (2,)
    assert evaluate("slct", one_or_two, (1, 2, 0x80000001)) == (2,)
    assert evaluate("slct", {**one_or_two, "ftz": "ftz"}, (1, 2, 0x80000001)) == (1,)
    assert evaluate("sin", {"type": "f32"}, (0,)) is None
