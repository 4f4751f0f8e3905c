"""`reg`: names, declarations, initial values, arrays."""

from __future__ import annotations

import pytest

from pyptx import PTXError, kernel, ptx, reg
from pyptx.reg import Reg
from pyptx.types import (
    b32,
    b64,
    b128,
    bf16,
    bf16x2,
    e4m3,
    e5m2,
    f16,
    f16x2,
    f32,
    f64,
    from_name,
    pred,
    s32,
    tf32,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip
from tests.frontend.tracing import body, ptx_of


def test_types():
    assert from_name(".bf16") is bf16
    assert from_name("u32").ptx == ".u32"
    with pytest.raises(ValueError, match="unknown PTX type"):
        from_name("u33")


def test_prefix_and_counter_by_type():
    names = []

    def function():
        for dtype in (u32, s32, b32, u64, b64, u16, f32, tf32, f64, f16, bf16, f16x2, bf16x2, b128, e4m3, pred, u8):
            names.append(reg.scalar(dtype).name)

    ptx_of(function)
    assert names == [
        "%r0", "%r1", "%r2", "%rd0", "%rd1", "%rs0", "%f0", "%f1", "%fd0", "%h0", "%h1", "%hh0", "%hh1", "%rq0", "%b0",
        "%p0", "%rc0",
    ]  # fmt: skip


def test_types_without_registers_of_their_own_are_declared_as_bits():
    def function():
        for dtype in (bf16, tf32, bf16x2, e4m3, e5m2):
            reg.scalar(dtype)

    declared = [line.split()[1] for line in ptx_of(function).split("\n") if ".reg" in line]
    assert declared == [".b16", ".b32", ".b8"]


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (u32, 7, "mov.u32 %r0, 7;"),
        (s32, -1, "mov.s32 %r0, -1;"),
        (b32, 0x80, "mov.b32 %r0, 128;"),
        (f32, 1.5, "mov.f32 %f0, 0f3FC00000;"),
        (f32, 1, "mov.f32 %f0, 0f3F800000;"),
        (f32, float("inf"), "mov.f32 %f0, 0f7F800000;"),
        (f32, float("-inf"), "mov.f32 %f0, 0fFF800000;"),
        (f32, float("nan"), "mov.f32 %f0, 0f7FFFFFFF;"),
        (f64, 0.1, "mov.f64 %fd0, 0d3FB999999999999A;"),
        (tf32, 1.0, "mov.b32 %f0, 0f3F800000;"),
        (f16, 1.0, "mov.b16 %h0, 15360;"),
        (bf16, -2.0, "mov.b16 %h0, 49152;"),
        (pred, 1, "mov.pred %p0, 1;"),
    ],
)
def test_initial_values(dtype, value, expected):
    assert body(ptx_of(lambda: _ignore(reg.scalar(dtype, init=value))))[0] == expected


def _ignore(_: object) -> None:
    pass


def test_a_float_is_no_integer():
    with pytest.raises(PTXError, match="is not a value of type u32"):
        ptx_of(lambda: _ignore(reg.scalar(u32, init=1.5)))


def test_predicates_share_a_pool_that_is_declared_where_it_last_grew():
    def function():
        reg.scalar(pred)
        reg.scalar(u32)
        reg.scalar(pred)
        reg.scalar(f32)

    lines = [line.strip() for line in ptx_of(function).split("\n") if ".reg" in line]
    assert lines == [".reg .u32 %r0;", ".reg .pred %p<2>;", ".reg .f32 %f0;"]


def test_arrays():
    seen = {}

    def function():
        first = reg.array(f32, 4)
        scalar = reg.scalar(f32)
        second = reg.array(f32, 2)
        named = reg.array(f32, 2, name="%acc")
        seen.update(first=[r.name for r in first], scalar=scalar.name, second=second.base, named=named.regs()[1].name)
        assert len(first) == first.count == 4
        assert first.hw_order(reverse=True)[0] is first[3]
        for index in (4, -1):
            with pytest.raises(IndexError):
                first[index]

    text = ptx_of(function)
    assert seen == {
        "first": ["%f0", "%f1", "%f2", "%f3"],
        "scalar": "%f4",
        "second": "%farr0_",
        "named": "%acc1",
    }
    assert ".reg .f32 %f<4>;\n\t.reg .f32 %f4;\n\t.reg .f32 %farr0_<2>;\n\t.reg .f32 %acc<2>;" in text


def test_an_array_after_a_scalar_does_not_take_its_name():
    def function():
        reg.scalar(f32, init=1.0)
        values = reg.array(f32, 4)
        values[0] = 2.0

    assert ".reg .f32 %f0;\n\t.reg .f32 %farr0_<4>;" in ptx_of(function)


def test_alloc_has_prefixes_of_its_own():
    names = []

    def function():
        names.extend(reg.alloc(t).name for t in (f32, bf16, b32, b64, u32, u64, pred, f16, b128, tf32))
        names.append(reg.alloc_array(f32, 2)[1].name)

    ptx_of(function)
    assert names == ["%af0", "%abf0", "%ar0", "%ad0", "%au0", "%aud0", "%ap0", "%ah0", "%aq0", "%atf0", "%afarr0_1"]


def test_from_copies():
    def function():
        a = reg.from_(3, u32)
        reg.from_(a, u32)
        reg.from_(ptx.special.tid.x(), u32)

    assert body(ptx_of(function))[:3] == ["mov.u32 %r0, 3;", "mov.u32 %r1, %r0;", "mov.u32 %r2, %tid.x;"]


def test_wgmma_frag():
    counts = []
    ptx_of(lambda: counts.append(reg.wgmma_frag(m=64, n=256, dtype=f32).count))
    assert counts == [128]
    with pytest.raises(ValueError, match="does not spread evenly"):
        ptx_of(lambda: _ignore(reg.wgmma_frag(m=1, n=8, dtype=f32)))


def test_names_are_unique():
    def function():
        reg.scalar(u32, name="%x")
        reg.scalar(f32, name="%x")

    with pytest.raises(PTXError, match="%x is already a register"):
        ptx_of(function)
    with pytest.raises(PTXError, match="is not a PTX register name"):
        ptx_of(lambda: _ignore(reg.scalar(u32, name="a b")))


def test_registers_of_another_kernel_are_refused():
    kept: list[Reg] = []
    ptx_of(lambda: kept.append(reg.scalar(u32)))
    foreign = Reg("%nowhere", u32)
    with pytest.raises(PTXError, match="does not belong to this kernel"):
        ptx_of(lambda: _ignore(foreign + 1))
    with pytest.raises(PTXError, match="register of another kernel"):
        ptx_of(lambda: _ignore(kept[0] + 1))


def test_scopes_declare_inside_and_end_with_their_registers():
    def function():
        outer = reg.scalar(u32, init=0)
        with ptx.scope():
            inner = reg.scalar(u32, init=1)
            p = inner == 1
            outer += inner
        ptx.inst.mov.u32(outer, 2, pred=p)

    lines = [line.strip() for line in ptx_of(function).split("\n")]
    at = lines.index("{", lines.index("{") + 1)
    assert lines[at + 1] == ".reg .u32 %r1;"

    def escaping():
        with ptx.scope():
            inner = reg.scalar(u32, init=1)
        inner += 1

    with pytest.raises(PTXError, match=r"belongs to a ptx.scope\(\) that has ended"):
        kernel(escaping).ptx()
