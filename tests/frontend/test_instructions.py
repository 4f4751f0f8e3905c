"""`ptx.inst`, `ptx.raw`, `ptx.pipe`, intrinsics, special registers, dtype-first wrappers: what they emit."""

from __future__ import annotations

import pytest

from pyptx import PTXError, intrinsic, kernel, ptx, reg, smem
from pyptx.dialects.ptx.instruction import OPCODES
from pyptx.frontend.core.instructions import python_name, spelled
from pyptx.types import b32, b64, bf16, f16, f32, f64, pred, s8, s32, u8, u16, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of


def emitted(function, arch="sm_90a", **options):
    return [line for line in body(ptx_of(function, arch, **options)) if line != "ret;"]


def test_spelling_of_attributes():
    def function():
        r = reg.scalar(u32)
        assert ptx.inst.and_.b32(r, r, 1) is r
        ptx.inst.fence.proxy.async_.shared__cta()
        ptx.inst.cp.async_.wait_all()
        ptx._emit("add", [".u32"], [r, r, 1])
        assert ptx.inst.bar.sync(0) is None

    assert emitted(function) == [
        "and.b32 %r0, %r0, 1;", "fence.proxy.async.shared::cta;", "cp.async.wait_all;", "add.u32 %r0, %r0, 1;",
        "bar.sync 0;",
    ]  # fmt: skip


def test_completion_names_every_word_once():
    """`dir()` leads from `ptx.inst` to every modifier of every form, in names that come back as they are in PTX."""
    for opcode, cls in OPCODES.items():
        path = ptx.inst
        for word in opcode.split("."):
            assert python_name(word) in dir(path), opcode
            path = getattr(path, python_name(word))
        assert path.__doc__ == cls.__doc__
        words = {word for form in cls.forms for word in form.tokens}
        assert {spelled(python_name(word)) for word in words} == words
        assert {python_name(word) for word in words} <= set(dir(path))
    assert "wide" not in dir(ptx.inst.mul.lo)
    assert dir(ptx.inst.nothing) == []


def test_operands():
    def function():
        p, q = reg.scalar(pred), reg.scalar(pred)
        d, e, f = reg.scalar(b32), reg.scalar(f32), reg.scalar(f64)
        wide = reg.scalar(b64)
        ptx.inst.mov.b64([d, "_"], wide)
        ptx.inst.mov.f32(e, 0.1)
        ptx.inst.mov.f64(f, 0.1)
        ptx.inst.add.f64(f, f, 1)
        ptx.inst.mov.b32(d, "0xFF")
        ptx.inst.mov.b32(d, "-1")
        ptx.inst.selp.b32(d, d, "WARP_SZ", ~p)
        ptx.inst.vote.sync.ballot.b32(d, ~q, -1)
        ptx.inst.ld.global_.u32(d, "[%rd0+16]")
        ptx.inst.mov.u32(d, "%laneid")

    assert emitted(function) == [
        "mov.b64 {%r0, _}, %rd0;", "mov.f32 %f0, 0f3DCCCCCD;", "mov.f64 %fd0, 0d3FB999999999999A;",
        "add.f64 %fd0, %fd0, 0d3FF0000000000000;", "mov.b32 %r0, 0xFF;", "mov.b32 %r0, -1;",
        "selp.b32 %r0, %r0, WARP_SZ, !%p0;", "vote.sync.ballot.b32 %r0, !%p1, -1;", "ld.global.u32 %r0, [%rd0+16];",
        "mov.u32 %r0, %laneid;",
    ]  # fmt: skip


def test_what_is_no_operand_is_said():
    def given(wrong):
        return lambda: ptx.inst.mov.u32(reg.scalar(u32), wrong).name

    for wrong, message in (
        (object(), "object is not an operand"),
        ("a b", "is not a PTX operand"),
        ({}, "dict is not an operand"),
    ):
        with pytest.raises(PTXError, match=message):
            ptx_of(given(wrong))
    with pytest.raises(PTXError, match="pred= takes a predicate"):
        ptx_of(lambda: ptx.inst.bar.sync(0, pred=True))
    with pytest.raises(PTXError, match=r"guard of an instruction is a \.pred register"):
        ptx_of(lambda: ptx.inst.bar.sync(0, pred=reg.scalar(u32)))


def test_special_registers():
    def function():
        r = reg.scalar(u32)
        ptx.inst.mov.u32(r, ptx.special.nctaid.z())
        ptx.inst.mov.u32(r, ptx.special.ctaid_x())
        ptx.inst.add.u32(r, ptx.special.tid.x(), 1)
        with ptx.if_(ptx.special.tid.x() == 3):
            ptx.inst.add.u32(r, ptx.special.laneid(), 1)
        assert ptx.special.clock64().dtype == u64
        ptx.inst.mov.u64(reg.scalar(u64), ptx.sreg("%globaltimer"))

    assert emitted(function) == [
        "mov.u32 %r2, %laneid;", "mov.u32 %r0, %nctaid.z;", "mov.u32 %r0, %ctaid.x;", "mov.u32 %r1, %tid.x;",
        "add.u32 %r0, %r1, 1;", "setp.eq.u32 %p0, %r1, 3;", "@!%p0 bra $_else_0;", "add.u32 %r0, %r2, 1;",
        "$_else_0:", "$_endif_0:", "mov.u64 %rd0, %globaltimer;",
    ]  # fmt: skip
    with pytest.raises(AttributeError, match="no special register %tidd"):
        ptx.special.tidd
    with pytest.raises(PTXError, match="did you mean"):
        ptx_of(lambda: ptx.sreg("%laneidd").name)
    with pytest.raises(PTXError, match="read-only"):
        ptx_of(lambda: ptx.special.tid.x().__iadd__(1) and None)


def test_a_special_register_first_used_in_a_branch_is_copied_at_the_top():
    def function():
        r = reg.scalar(u32)
        with ptx.if_(reg.scalar(pred)):
            ptx.inst.add.u32(r, ptx.special.laneid(), 1)
        ptx.inst.add.u32(r, ptx.special.laneid(), 2)

    lines = emitted(function)
    assert lines[0] == "mov.u32 %r1, %laneid;"
    assert "add.u32 %r0, %r1, 2;" in lines


def test_clock_is_read_every_time():
    lines = emitted(lambda: (ptx.special.clock() + 0, ptx.special.clock() + 0) and None)
    assert sum("%clock" in line for line in lines) == 2


def test_pipe():
    def function():
        a, b, c = (reg.scalar(u32) for _ in range(3))
        assert ptx.pipe(a).add.s32(b, 5).shr.u32(c, 4).value is c

    assert emitted(function) == ["add.s32 %r1, %r0, 5;", "shr.u32 %r2, %r1, 4;"]


def test_raw():
    def function():
        r = reg.scalar(u32, init=1)
        ptx.raw(
            """
            // doubled
            .reg .b32 %mine<4>;
            { .reg .u32 inner; add.u32 inner, %r0, %r0; mov.u32 %mine1, inner; }
            again:
            @%p9 bra again;
            """.replace("@%p9 bra again;", "bra.uni done; done:")
        )
        ptx.raw("add.u32 %r0, %r0, %mine1;")
        ptx.inst._raw_emit("mov.u32 %mine2, %mine1;")
        r += 1

    text = ptx_of(function)
    assert "\t// doubled" in text or "// doubled" in text
    assert body(text)[-3:] == ["mov.u32 %mine2, %mine1;", "add.s32 %r0, %r0, 1;", "ret;"]


def test_raw_errors_are_at_the_call():
    with pytest.raises(PTXError, match=r"%r9 is not declared \(line 2 of the text\)"):
        ptx_of(lambda: ptx.raw("\nadd.u32 %r9, 1, 2;"))
    with pytest.raises(PTXError, match="needs target sm_90a"):
        ptx_of(lambda: ptx.raw("wgmma.fence.sync.aligned;"), "sm_80")
    with pytest.raises(PTXError, match="closes more"):
        ptx_of(lambda: ptx.raw("}"))
    with pytest.raises(PTXError, match=r"opens a \{ \} block|is not closed"):
        ptx_of(lambda: ptx.raw("{ bar.sync 0;"))


def test_intrinsics_print_their_name():
    @intrinsic
    def outer(x, n):
        inner(x)
        ptx.inst.add.u32(x, x, n)
        return n

    @intrinsic
    def inner(x):
        ptx.inst.add.u32(x, x, 1)

    assert outer.__is_ptx_intrinsic__
    returned = []
    text = ptx_of(lambda: returned.append(outer(reg.scalar(u32), 7)))
    assert returned == [7]
    assert (
        "\t// BEGIN outer(%r0, 7)\n\t// BEGIN inner(%r0)\n\tadd.u32 %r0, %r0, 1;\n\t// END inner\n"
        "\tadd.u32 %r0, %r0, 7;\n\t// END outer\n\tret;\n"
    ) in text

    @intrinsic
    def plain(x):
        return x + 1

    assert plain(1) == 2
    assert ptx.intrinsic is intrinsic


def test_pragma():
    assert '\t.pragma "nounroll";\n' in ptx_of(lambda: ptx.pragma("nounroll"))


def test_dtype_first_wrappers():
    def function():
        a, b, d = (reg.scalar(u32) for _ in range(3))
        x, y = reg.scalar(f32), reg.scalar(f64)
        h, p = reg.scalar(f16), reg.scalar(pred)
        pointer = reg.scalar(u64)
        ptx.mov(u32, d, a)
        ptx.mov(f32, x, 1)
        ptx.mov(f16, h, 1.0)
        ptx.add(b32, d, a, b)
        ptx.sub(s32, d, a, 1)
        ptx.mul(f32, x, x, 2)
        ptx.mul(u32, d, a, b, mode="hi")
        ptx.mad(s32, d, a, b, 3)
        ptx.mad(f32, x, x, x, x)
        ptx.shl(u32, d, a, 2)
        ptx.shr(s32, d, a, 2)
        ptx.and_(u32, d, a, b)
        ptx.or_(pred, p, p, p)
        ptx.xor_(b32, d, a, b)
        ptx.not_(u32, d, a)
        ptx.selp(f32, x, x, 1.0, p)
        ptx.selp(f16, h, h, h, p)
        ptx.setp("lt", u32, p, a, b)
        ptx.setp("gt", f32, p, x, 0, pred=p, pred_negate=True)
        ptx.cvt(f32, f64, x, y)
        ptx.cvt(s32, f32, d, x)
        ptx.cvt(bf16, f32, reg.scalar(bf16), x, sat=False)
        ptx.cvt(f32, u32, x, a, rounding="rz")
        ptx.ld(f32, x, pointer)
        ptx.ld(f32, [x, x], ptx.addr(pointer, 8), cache="nc")
        ptx.st(bf16, smem.alloc(bf16, 4), h, space="shared")
        ptx.st(f32, pointer, 1.0)

    assert emitted(function) == [
        "mov.u32 %r2, %r0;", "mov.f32 %f0, 0f3F800000;", "mov.b16 %h0, 15360;", "add.u32 %r2, %r0, %r1;",
        "sub.s32 %r2, %r0, 1;", "mul.f32 %f0, %f0, 0f40000000;", "mul.hi.u32 %r2, %r0, %r1;",
        "mad.lo.s32 %r2, %r0, %r1, 3;", "fma.rn.f32 %f0, %f0, %f0, %f0;", "shl.b32 %r2, %r0, 2;",
        "shr.s32 %r2, %r0, 2;", "and.b32 %r2, %r0, %r1;", "or.pred %p0, %p0, %p0;", "xor.b32 %r2, %r0, %r1;",
        "not.b32 %r2, %r0;", "selp.f32 %f0, %f0, 0f3F800000, %p0;", "selp.b16 %h0, %h0, %h0, %p0;",
        "setp.lt.u32 %p0, %r0, %r1;", "@!%p0 setp.gt.f32 %p0, %f0, 0f00000000;", "cvt.rn.f32.f64 %f0, %fd0;",
        "cvt.rzi.s32.f32 %r2, %f0;", "cvt.rn.bf16.f32 %h1, %f0;", "cvt.rz.f32.u32 %f0, %r0;",
        "ld.global.f32 %f0, [%rd0];", "ld.global.nc.v2.f32 {%f0, %f0}, [%rd0+8];", "st.shared.b16 [smem_0], %h0;",
        "st.global.f32 [%rd0], 0f3F800000;",
    ]  # fmt: skip


def test_expression_forms_make_their_destination():
    def function():
        a, b = reg.scalar(s32), reg.scalar(s32)
        assert ptx.mad(s32, a, b, 1).dtype == s32
        assert ptx.add(f32, reg.scalar(f32), 1).dtype == f32
        assert ptx.mul(u32, a, 4, mode="wide").dtype == u64

    assert emitted(function) == [
        "mad.lo.s32 %r2, %r0, %r1, 1;", "add.f32 %f1, %f0, 0f3F800000;", "mul.wide.u32 %rd0, %r0, 4;"
    ]  # fmt: skip
    with pytest.raises(TypeError, match="takes 2 operands, or 3"):
        ptx_of(lambda: ptx.add(u32, 1).name)


def test_parameters_and_addresses():
    @kernel(raw_params=[("u64", "p"), ("b8.array128", "blob"), ("u16", "h")])
    def addressed():
        p = ptx.param(u64, "p")
        ptx.cvta.to_global(p, p)
        ptx.param(u16, "h")
        blob = ptx.param(b64, "blob")
        ptx.cvta.param(blob)
        ptx.inst.ld.global_.u8(reg.scalar(u8), ptx.addr(p, 3))
        ptx.inst.ld.param.u32(reg.scalar(u32), ptx.addr("blob", 12))

    assert body(assembled(addressed)) == [
        "ld.param.u64 %rd0, [p];", "cvta.to.global.u64 %rd0, %rd0;", "ld.param.u16 %rs0, [h];", "mov.b64 %rd1, blob;",
        "cvta.param.u64 %rd2, %rd1;", "ld.global.u8 %rc0, [%rd0+3];", "ld.param.u32 %r0, [blob+12];", "ret;",
    ]  # fmt: skip
    with pytest.raises(PTXError, match="no parameter q"):
        ptx_of(lambda: ptx.param(u32, "q").name, raw_params=[("u32", "p")])
    with pytest.raises(PTXError, match="tensors need in_specs"):
        kernel(lambda x: ptx.global_ptrs(x) and None).ptx()


def test_variables():
    def function():
        ptx.var("shared", f32, "tile", size=64, align=16)
        ptx.var("local", s8, "spill", size=32)
        ptx.var("const", f32, "table", size=4)
        ptx.inst.st.shared.f32(ptx.addr("tile", 4), 0.0)

    text = ptx_of(function)
    assert "\t.shared .align 16 .f32 tile[64];\n\t.local .s8 spill[32];\n" in text
    assert "\n.const .f32 table[4];\n" in text
    with pytest.raises(PTXError, match="variables live in"):
        ptx_of(lambda: ptx.var("texture", f32, "t") and None)
