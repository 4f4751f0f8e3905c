"""Operators on registers: the instruction each emits, its result type, and what it computes on the simulator."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate
from pyptx.types import (
    PtxType,
    b32,
    b64,
    bf16,
    bf16x2,
    f16,
    f16x2,
    f32,
    f64,
    pred,
    s16,
    s32,
    s64,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip
from tests.frontend.tracing import assembled, body, ptx_of

NUMPY = {"u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "f32": np.float32,
         "f64": np.float64, "u16": np.uint16, "s16": np.int16}  # fmt: skip


def emitted(dtype: PtxType, use: Any, other: PtxType | None = None) -> list[str]:
    """The instructions that `use(a, b)` emits, a and b being fresh registers; the whole is assembled."""

    def function():
        a = reg.scalar(dtype)
        b = reg.scalar(other or dtype)
        use(a, b)

    return [line for line in body(ptx_of(function)) if line != "ret;"]


@pytest.mark.parametrize(
    ("dtype", "use", "expected"),
    [
        (u32, lambda a, b: a + b, "add.s32 %r2, %r0, %r1;"),
        (s32, lambda a, b: a + b, "add.s32 %r2, %r0, %r1;"),
        (b32, lambda a, b: a + 1, "add.s32 %r2, %r0, 1;"),
        (u32, lambda a, b: 1 + a, "add.s32 %r2, %r0, 1;"),
        (u64, lambda a, b: a + b, "add.s64 %rd2, %rd0, %rd1;"),
        (u32, lambda a, b: a - b, "sub.s32 %r2, %r0, %r1;"),
        (u32, lambda a, b: 5 - a, "sub.s32 %r2, 5, %r0;"),
        (b64, lambda a, b: a - b, "sub.s64 %rd2, %rd0, %rd1;"),
        (u32, lambda a, b: a * 3, "mul.lo.s32 %r2, %r0, 3;"),
        (s32, lambda a, b: a * b, "mul.lo.s32 %r2, %r0, %r1;"),
        (u64, lambda a, b: a * b, "mul.lo.s64 %rd2, %rd0, %rd1;"),
        (u32, lambda a, b: a // 4, "div.u32 %r2, %r0, 4;"),
        (s32, lambda a, b: a % b, "rem.s32 %r2, %r0, %r1;"),
        (u32, lambda a, b: a << 2, "shl.b32 %r2, %r0, 2;"),
        (u32, lambda a, b: 1 << a, "shl.b32 %r2, 1, %r0;"),
        (u32, lambda a, b: a >> 2, "shr.u32 %r2, %r0, 2;"),
        (s32, lambda a, b: a >> 2, "shr.s32 %r2, %r0, 2;"),
        (s64, lambda a, b: a >> 2, "shr.s64 %rd2, %rd0, 2;"),
        (u32, lambda a, b: a & 7, "and.b32 %r2, %r0, 7;"),
        (u32, lambda a, b: 7 & a, "and.b32 %r2, %r0, 7;"),
        (u64, lambda a, b: a | b, "or.b64 %rd2, %rd0, %rd1;"),
        (u32, lambda a, b: 5 | a, "or.b32 %r2, %r0, 5;"),
        (u32, lambda a, b: a ^ b, "xor.b32 %r2, %r0, %r1;"),
        (u32, lambda a, b: ~a, "not.b32 %r2, %r0;"),
        (s32, lambda a, b: -a, "neg.s32 %r2, %r0;"),
        (s32, lambda a, b: abs(a), "abs.s32 %r2, %r0;"),
        (u32, lambda a, b: a.max(b), "max.u32 %r2, %r0, %r1;"),
        (s32, lambda a, b: a.min(3), "min.s32 %r2, %r0, 3;"),
        (u16, lambda a, b: a + 1, "add.s16 %rs2, %rs0, 1;"),
        (s16, lambda a, b: a * b, "mul.lo.s16 %rs2, %rs0, %rs1;"),
        (f32, lambda a, b: a + b, "add.f32 %f2, %f0, %f1;"),
        (f32, lambda a, b: a * 0.5, "mul.f32 %f2, %f0, 0f3F000000;"),
        (f32, lambda a, b: 1 - a, "sub.f32 %f2, 0f3F800000, %f0;"),
        (f32, lambda a, b: a / b, "div.rn.f32 %f2, %f0, %f1;"),
        (f64, lambda a, b: a + 0.1, "add.f64 %fd2, %fd0, 0d3FB999999999999A;"),
        (f32, lambda a, b: -a, "neg.f32 %f2, %f0;"),
        (f32, lambda a, b: a.max(0), "max.f32 %f2, %f0, 0f00000000;"),
        (f16, lambda a, b: a * b, "mul.f16 %h2, %h0, %h1;"),
        (bf16, lambda a, b: a + b, "add.bf16 %h2, %h0, %h1;"),
        (f16x2, lambda a, b: a - b, "sub.f16x2 %hh2, %hh0, %hh1;"),
        (bf16x2, lambda a, b: a * b, "mul.bf16x2 %hh2, %hh0, %hh1;"),
        (u32, lambda a, b: a < b, "setp.lt.u32 %p0, %r0, %r1;"),
        (b32, lambda a, b: a >= 3, "setp.ge.u32 %p0, %r0, 3;"),
        (b64, lambda a, b: a == b, "setp.eq.u64 %p0, %rd0, %rd1;"),
        (s32, lambda a, b: a != 3, "setp.ne.s32 %p0, %r0, 3;"),
        (f32, lambda a, b: a > 0, "setp.gt.f32 %p0, %f0, 0f00000000;"),
        (pred, lambda a, b: a & b, "and.pred %p2, %p0, %p1;"),
        (pred, lambda a, b: a & ~b, "and.pred %p2, %p0, !%p1;"),
    ],
)
def test_one_operator_is_one_instruction(dtype, use, expected):
    assert emitted(dtype, use) == [expected]


def test_a_float_constant_of_a_half_type_is_moved_to_a_register():
    assert emitted(f16, lambda a, b: a * 2.0) == ["mov.b16 %h2, 16384;", "mul.f16 %h3, %h0, %h2;"]
    assert emitted(bf16x2, lambda a, b: a + 1.0)[0] == f"mov.b32 %hh2, {0x3F803F80};"


def test_in_place_operators_write_the_register_itself():
    def function(a, b):
        a += b
        a <<= 3
        a |= 1
        a -= 2

    assert emitted(u32, function) == [
        "add.s32 %r0, %r0, %r1;",
        "shl.b32 %r0, %r0, 3;",
        "or.b32 %r0, %r0, 1;",
        "sub.s32 %r0, %r0, 2;",
    ]


@pytest.mark.parametrize(
    ("wide", "narrow", "use", "expected"),
    [
        (u64, u32, lambda a, b: a + b, ["cvt.u64.u32 %rd1, %r0;", "add.s64 %rd2, %rd0, %rd1;"]),
        (u64, s32, lambda a, b: a + b, ["cvt.s64.s32 %rd1, %r0;", "add.s64 %rd2, %rd0, %rd1;"]),
        (u64, u32, lambda a, b: b + a, ["cvt.u64.u32 %rd1, %r0;", "add.s64 %rd2, %rd1, %rd0;"]),
        (u64, s32, lambda a, b: operator.iadd(a, b), ["cvt.s64.s32 %rd1, %r0;", "add.s64 %rd0, %rd0, %rd1;"]),
        (u64, u32, lambda a, b: a < b, ["cvt.u64.u32 %rd1, %r0;", "setp.lt.u64 %p0, %rd0, %rd1;"]),
        (u64, u32, lambda a, b: a << b, ["shl.b64 %rd1, %rd0, %r0;"]),
    ],
)
def test_a_narrow_operand_is_widened_by_its_own_sign(wide, narrow, use, expected):
    assert emitted(wide, use, narrow) == expected


def test_result_types():
    found = {}

    def function():
        a, b, w = reg.scalar(s32), reg.scalar(u32), reg.scalar(s64)
        found.update(left=(a + b).dtype, wide=(b + w).dtype, signed=(a + w).dtype, pred=(a < b).dtype)

    ptx_of(function)
    assert found == {"left": s32, "wide": u64, "signed": s64, "pred": pred}


def test_pairs_and_negation_are_operands():
    def function():
        p, q, r = reg.scalar(pred), reg.scalar(pred), reg.scalar(b32)
        ptx.inst.setp.lt.u32(p | q, r, 4)
        ptx.inst.elect.sync(r | p, -1)
        ptx.inst.mov.u32(r, 1, pred=~p)
        assert ~~p is p

    text = ptx_of(function)
    assert "setp.lt.u32 %p0|%p1, %r0, 4;" in text
    assert "elect.sync %r0|%p0, -1;" in text
    assert "@!%p0 mov.u32 %r0, 1;" in text


@pytest.mark.parametrize(
    ("dtype", "use", "message"),
    [
        (u32, lambda a, b: a + 1.5, "the float 1.5"),
        (u32, lambda a, b: a / 2, "integers divide with //"),
        (f32, lambda a, b: a // 2, "// and % are for integers"),
        (f16, lambda a, b: a / b, "f16 registers have no /"),
        (u8, lambda a, b: a + 1, "convert to 32 bits first"),
        (pred, lambda a, b: a == b, "compare predicates with p ^ q"),
        (u32, lambda a, b: abs(a), "unsigned values have no sign"),
        (u32, lambda a, b: a + "x", "a register and str"),
    ],
)
def test_what_an_operator_cannot_do_is_said(dtype, use, message):
    with pytest.raises(PTXError) as caught:
        emitted(dtype, use)
    assert message in str(caught.value)


def test_mixed_kinds_are_refused():
    with pytest.raises(PTXError, match="convert one of them"):
        emitted(f32, lambda a, b: a + b, u32)
    with pytest.raises(PTXError, match="convert one of them"):
        emitted(u32, lambda a, b: a + b, u16)


@pytest.mark.parametrize("dtype", [u32, s32, u64, s64], ids=str)
def test_integer_operators_compute_what_numpy_does(dtype):
    n = NUMPY[dtype.name]
    info = np.iinfo(n)
    a = np.array([7, 100, info.max, 12345, info.min // 2 if info.min else 5, 3], n)
    b = np.array([3, 7, 2, 45, 9, 30], n)
    uses = [
        operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor,
        lambda x, y: x >> 3, lambda x, y: x << 3, lambda x,
        y: np.maximum(x, y) if isinstance(x, np.ndarray) else x.max(y), lambda x,
        y: np.minimum(x, y) if isinstance(x, np.ndarray) else x.min(y),
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        expected = [use(a, b) for use in uses]
    got = run_binary(dtype, a, b, uses)
    for i, (e, g) in enumerate(zip(expected, got, strict=True)):
        np.testing.assert_array_equal(g, e.astype(n), err_msg=f"operator {i}")


def test_division_truncates_as_ptx_does():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    quotient, remainder = run_binary(s32, a, b, [operator.floordiv, operator.mod])
    np.testing.assert_array_equal(quotient, [3, -3, -3, 3])
    np.testing.assert_array_equal(remainder, [1, -1, 1, -1])


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
def test_float_operators_compute_what_numpy_does(dtype):
    n = NUMPY[dtype.name]
    a, b = np.array([1.5, -2.25, 1e10, 3], n), np.array([0.1, 7, -3, 9], n)
    uses = [operator.add, operator.sub, operator.mul, operator.truediv, lambda x, y: 2 - x, lambda x, y: -x * 0.1]
    got = run_binary(dtype, a, b, uses)
    for use, g in zip(uses, got, strict=True):
        np.testing.assert_array_equal(g, use(a, b).astype(n))


def run_binary(dtype: PtxType, a: Any, b: Any, uses: list[Any]) -> list[Any]:
    """Each of `uses` on (a[i], b[i]) in thread i."""
    size = dtype.bytes

    @kernel(raw_params=[("u64", "a"), ("u64", "b"), ("u64", "out")])
    def computed():
        pa, pb, po = ptx.param(u64, "a"), ptx.param(u64, "b"), ptx.param(u64, "out")
        offset = ptx.special.tid.x() * size
        pa += offset
        pb += offset
        po += offset
        x, y = reg.scalar(dtype), reg.scalar(dtype)
        ptx.ld(dtype, x, pa)
        ptx.ld(dtype, y, pb)
        for i, use in enumerate(uses):
            ptx.st(dtype, ptx.addr(po, i * len(a) * size), use(x, y))
        ptx.ret()

    assembled(computed)
    out = np.zeros((len(uses), len(a)), a.dtype)
    simulate(computed, a, b, out, grid=1, block=len(a))
    return list(out)
