"""What compilers make of kernels for tensor cores, of unrolled conditions and of calls, as someone would have written it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyptx
from pyptx.codegen import ptx_to_python
from pyptx.codegen.idioms import comment
from pyptx.codegen.naming import demangled
from pyptx.passes.equivalent import differences
from tests.frontend.tracing import assembled

from .programs import assert_sugar_harmless, run
from .test_sugar import HEADER, REGISTERS, kernel


def written(text: str) -> str:
    """The readable program; its PTX is the same, and ptxas takes it."""
    program = ptx_to_python(text, sugar=True)
    assert_sugar_harmless(program)
    again = run(program).ptx()
    assert not differences(pyptx.parse(text), pyptx.parse(again))
    assembled(again)
    return program


SUMS = ", ".join(f"%f{i}" for i in range(15, -1, -1))
WGMMA = f"wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{{SUMS}}}, %rdA, %rd2, %p1, 1, 1, 0, 0;\n"  # the accumulators in the order in which CUTLASS has them


def test_accumulators_are_one_list_and_descriptors_have_their_names() -> None:
    zeros = "mov.f32 %f0, 0f00000000;\n" + "".join(f"mov.f32 %f{i}, %f0;\n" for i in range(1, 16))
    text = kernel(
        ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<20>;\n" + zeros + "mov.u32 %r1, %tid.x;\n"
        "cvt.u64.u32 %rd5, %r1; or.b64 %rd1, %rd5, 4611686293305360384; add.s64 %rd2, %rd1, 512;\n"
        "mov.b64 {%r2, %r3}, %rd1; add.s32 %r4, %r2, 2; mov.b64 %rd3, {%r4, %r3}; setp.ne.s32 %p1, %r1, 0;\n"
        "wgmma.fence.sync.aligned;\n"
        + WGMMA.replace("A", "1")
        + WGMMA.replace("A", "3")
        + "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\nld.param.u64 %rd6, [k_param_0]; st.global.f32 [%rd6], %f15; ret;"
    )
    program = written(text)
    assert "frag = [*xs[::-1], x]" in program or "frag = [*accs[::-1], acc]" in program
    assert program.count("frag, a_desc") == 2
    assert "a_desc_lo, a_desc_hi = op.mov.b64(a_desc" in program
    assert "b_desc = a_desc" in program
    assert "scale_d = " in program
    assert "frag[0])" in program  # the first of the vector, %f15, is stored


GUARDED = "setp.ge.u32 %p{p}, %r1, {i};\n@%p{p} bra L{i};\nst.global.f32 [%rd1+{at}], %f{i};\nL{i}:\n"


def test_unrolled_conditions_become_a_loop() -> None:
    loads = "".join(f"ld.global.f32 %f{i}, [%rd1+{64 + 4 * i}];\n" for i in range(8))
    stores = "".join(GUARDED.format(p=i, i=i, at=4 * i + 4) for i in range(8))
    text = kernel(f"{REGISTERS}ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x;\n{loads}{stores}ret;")
    program = written(text)
    assert program.count("with if_(") == 1
    assert program.count("inst.st.global_.f32(") == 1
    assert "for a, i in zip(vs, range(8))" in program


def test_half_a_condition_is_not_repeated() -> None:
    """Stretches that begin in one condition and end in another are none."""
    one = "@%p1 bra A{i};\nadd.f32 %f1, %f1, %f2;\nA{i}:\nmul.f32 %f1, %f1, %f3;\n"
    text = kernel(
        REGISTERS + "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.u32 %r1, %tid.x;\n"
        "setp.eq.s32 %p1, %r1, 0;\n@%p1 bra B;\nmul.f32 %f1, %f1, %f3;\n"
        + "".join(one.format(i=i) for i in range(6))
        + "B: ret;"
    )
    program = written(text)
    assert program.count("with if_(") < 4


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Rounds of conditions, nested or not, in which one statement may differ, be left out, or an end stand elsewhere."""
    count = draw(st.integers(2, 6))
    nested = draw(st.booleans())
    shape = draw(st.lists(st.sampled_from(["store", "if", "end", "set"]), min_size=2, max_size=8))
    odd = draw(st.integers(0, count * len(shape)))
    lines: list[str] = []
    labels: list[str] = []
    number = 0
    for i in range(count):
        for k, what in enumerate(shape):
            if i * len(shape) + k == odd:
                continue
            if what == "store":
                lines.append(f"st.global.f32 [%rd1+{4 * i}], %f{i % 3};")
            elif what == "set":
                lines.append(f"setp.ge.s32 %p1, %r1, {2 * i + k};")
            elif what == "if" and (nested or not labels):
                number += 1
                labels.append(f"L{number}")
                lines.append(f"@{draw(st.sampled_from(['', '!']))}%p1 bra L{number};")
            elif what == "end" and labels:
                lines.append(f"{labels.pop()}:")
    lines += [f"{label}:" for label in reversed(labels)]
    first = "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0;\n"
    values = "mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;\n"
    return kernel(REGISTERS + first + values + "\n".join([*lines, "ret;"]))


@given(conditions())
@settings(deadline=None, max_examples=150)
def test_random_conditions_keep_every_instruction(text: str) -> None:
    program = ptx_to_python(text, sugar=True)
    assert not differences(pyptx.parse(text), pyptx.parse(run(program).ptx()))


def test_mbarriers() -> None:
    text = kernel(
        REGISTERS + ".shared .align 8 .b8 bar[8];\nmov.u32 %r1, bar; mov.u32 %r2, 10000000; mov.u32 %r3, %tid.x;\n"
        "and.b32 %r4, %r3, 1; add.s32 %r5, %r1, 0; mbarrier.arrive.shared::cta.b64 _, [%r5];\n"
        "mbarrier.arrive.shared.b64 _, [%r5];\nmbarrier.arrive.shared::cta.b64 %rd1, [%r5];\n"
        "A: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], %r4, %r2; @!%p1 bra A;\nst.shared.u64 [bar], %rd1; ret;"
    )
    program = written(text)
    assert "mbarrier(mbar).arrive(state=False)" in program
    assert 'mbarrier(mbar, space="shared").arrive(state=False)' in program
    assert "state = mbarrier(mbar).arrive()" in program
    assert "mbarrier(mbar).wait(phase, hint)" in program


def test_unsigned_registers() -> None:
    """As GCC has them: operators are the unsigned instructions, signed ones are spelled."""
    text = (
        f"{HEADER}.visible .entry k(.param .u64 out)\n{{\n.reg .u64 %r1;\n.reg .u32 %r2;\n.reg .u32 %r3;\n.reg .pred %p;\n"
        ".reg .f32 %f;\nld.param.u64 %r1, [out];\nmov.u32 %r2, %tid.x;\nadd.u32 %r3, %r2, -1;\nmul.lo.u32 %r3, %r3, %r2;\n"
        "div.u32 %r2, %r3, 3;\nshr.s32 %r2, %r2, 1;\nsetp.le.s32 %p, %r2, 1;\n@%p bra L;\nmov.f32 %f, 0f00000000;\n"
        "st.u32 [%r1], %r2;\nst.f32 [%r1+4], %f;\nL:\nret;\n}\n"
    )
    program = written(text)
    assert "unsigned_registers=True" in program
    assert "into=" not in program
    assert "acc = tid + -1" in program
    assert "op.setp.le.s32(" in program
    with pytest.raises(ValueError, match="not both"):
        pyptx.Module("sm_90a", bit_registers=True, unsigned_registers=True)


CALLEES = (
    ".extern .func (.param .b32 r) f (.param .b32 a, .param .b64 b);\n"
    ".extern .func (.param .u32 %value_out) g (.param .u32 %in_ar0);\n"
)
VALUES = "mov.u32 %r1, %tid.x; mov.u64 %rd2, f; ld.param.u64 %rd1, [k_param_0];\n"
STORE = "\nst.global.u32 [%rd1], %r2;"
PROTOTYPE = "pr: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);"


@pytest.mark.parametrize(
    ("block", "style", "call"),
    [
        (
            "{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b64 param1; st.param.b64 [param1], %rd1;\n"
            ".param .b32 retval0; call.uni (retval0), f, (param0, param1); ld.param.b32 %r2, [retval0]; }",
            "paired",
            'call("f", r, k_param_0_1, returns="b32")',
        ),
        (
            f"{{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b64 param1; st.param.b64 [param1], %rd1;\n"
            f".param .b32 retval0; {PROTOTYPE} call (retval0), %rd2, (param0, param1), pr; ld.param.b32 %r2, [retval0]; }}",
            "paired",
            'call(f, r, k_param_0_1, returns="b32", prototype="pr")',
        ),
        (
            f"{{ .param .b32 param0; .param .b64 param1; .param .b32 retval0; st.param.b32 [param0], %r1;\n"
            f"st.param.b64 [param1], %rd1; {PROTOTYPE} call (retval0), %rd2, (param0, param1), pr;\n"
            f"ld.param.b32 %r2, [retval0]; }}",
            "llvm",
            'call(f, r, k_param_0_1, returns="b32", prototype="pr")',
        ),
        (
            "{ .param .u32 %value_in; .param .u32 %out_arg1; st.param.u32 [%out_arg1], %r1; call (%value_in), g, (%out_arg1);\n"
            "ld.param.u32 %r2, [%value_in]; }",
            "gcc",
            'call("g", r, types=["u32"], returns="u32")',
        ),
        (
            "mov.u32 %r2, 0;\n{ .param .b32 param0; .param .b64 param1; st.param.b64 [param1], %rd1;\n"
            "st.param.b32 [param0], %r1; .param .b32 retval0; call.uni (retval0), f, (param0, param1);\n"
            "ld.param.b32 %r2, [retval0]; }",
            "llvm",
            None,
        ),
        (
            "mov.u32 %r2, 0;\n{ .param .b32 param0; .param .b64 param1; .param .b32 retval0; st.param.b64 [param1], %rd1;\n"
            "st.param.b32 [param0], %r1; call.uni (retval0), f, (param0, param1); ld.param.b32 %r2, [retval0]; }",
            "backwards",
            'returns="b32", into=',
        ),
        (
            f"{{ .param .b32 param0; st.param.b32 [param0], %r1; .param .b64 param1; st.param.b64 [param1], %rd1;\n"
            f".param .b32 retval0; {PROTOTYPE.replace('.b64', '.b32')} call (retval0), %rd2, (param0, param1), pr;\n"
            f"ld.param.b32 %r2, [retval0]; }}",
            "llvm",
            None,
        ),
    ],
)
def test_calls(block: str, style: str, call: str | None) -> None:
    text = kernel(REGISTERS + VALUES + block + STORE + " ret;").replace(".visible .entry", CALLEES + ".visible .entry")
    program = ptx_to_python(text, sugar=True)
    assert not differences(pyptx.parse(text), pyptx.parse(run(program).ptx()))
    assert (" call(" in program) == (call is not None), program
    assert (f'calls="{style}"' in program) == (style != "llvm")
    if call is not None:
        assert call.replace("k_param_0_1", "arg0").replace(" r,", " tid,") in program


def test_division_by_a_power_of_two() -> None:
    text = kernel(
        REGISTERS
        + "ld.param.u32 %r1, [k_param_1]; shr.s32 %r2, %r1, 31; shr.u32 %r3, %r2, 26; add.s32 %r4, %r1, %r3;\n"
        "shr.s32 %r5, %r4, 6; ld.param.u64 %rd1, [k_param_0]; st.global.u32 [%rd1], %r5; st.global.u32 [%rd1+4], %r5; ret;"
    )
    assert "# arg1 / 64, towards zero\n" in written(text)


@pytest.mark.parametrize(("bits", "shift"), [(32, 1), (32, 6), (32, 30), (64, 7)])
def test_what_the_comment_on_a_division_says(bits: int, shift: int) -> None:
    """The instructions divide towards zero, for numbers of both signs and the smallest."""
    text = f"op.shr.s{bits}(n + op.shr.u{bits}(op.shr.s{bits}(n, {bits - 1}), {bits - shift}), {shift})"
    assert comment(text) == f"n / {1 << shift}, towards zero"
    for n in (0, 1, -1, 5 - (1 << shift), (1 << shift) + 1, -(1 << bits - 1), (1 << bits - 1) - 1):
        added = ((n >> bits - 1) & (1 << bits) - 1) >> bits - shift
        assert n + added >> shift == int(n / (1 << shift)) if abs(n) < 1 << 50 else True
    assert comment(text.replace(f"), {bits - shift})", f"), {bits - shift - 1})")) == ""
    assert comment(text.replace(f"(n, {bits - 1})", f"(n, {bits - 2})")) == ""


@pytest.mark.parametrize(("factor", "shift", "divisor"), [(-1431655765, 1, 3), (-858993459, 3, 10), (613566757, 0, 7)])
def test_division_by_a_constant(factor: int, shift: int, divisor: int) -> None:
    """Where the comment says so, the instructions divide: at random and at the borders. 7 needs more than this."""
    quotient = f"op.mul.hi.u32(n, {factor})" + (f" >> {shift}" if shift else "")
    numbers = [0, 1, divisor, (1 << 32) - 1, *np.random.default_rng().integers(0, 1 << 32, 1000).tolist()]
    numbers += [k * divisor - 1 for k in range(1, (1 << 32) // divisor, 9_999_991)]
    right = all((n * (factor & 0xFFFFFFFF)) >> 32 + shift == n // divisor for n in numbers)
    assert right == (divisor != 7)
    assert comment(quotient) == (f"n / {divisor}, unsigned" if right else "")
    assert comment(f"op.mul.wide.u32(n - ({quotient}) * {divisor}, 8)") == (f"n % {divisor}, unsigned" if right else "")
    assert comment(quotient.replace(str(factor), str(factor + 1))) == ""


def test_names_and_pairs_and_what_is_no_loop() -> None:
    """A function's name ends before the types of its parameters; a jump back to `ret` is not a loop; a shuffle's pair."""
    assert demangled("_Z2mk3Big6float4scb") == "mk"
    assert demangled("_ZN3foo3barEi") == "bar"
    text = kernel(
        REGISTERS
        + "mov.u32 %r1, %tid.x; shfl.sync.down.b32 %r2|%p1, %r1, 1, 31, -1;\nld.param.u64 %rd1, [k_param_0];\n"
        "@%p1 bra B;\nA: ret;\nB: st.global.u32 [%rd1], %r2;\nbra.uni A;"
    )
    program = written(text)
    assert "into=pair)" in program
    assert "loop()" not in program


def test_counters_and_accumulators_are_no_one_list() -> None:
    text = kernel(
        REGISTERS + "ld.param.u64 %rd1, [k_param_0]; mov.b32 %r0, 0; mov.b32 %f0, 0f00000000;\n"
        "mov.b32 %r1, %r0; mov.b32 %r2, %f0; mov.b32 %r3, %f0; mov.b32 %r4, %f0; mov.b32 %r5, %f0;\n"
        "A: add.f32 %r2, %r2, %f0; add.f32 %r3, %r3, %f0; add.f32 %r4, %r4, %f0; add.f32 %r5, %r5, %f0;\n"
        "add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, 9; @%p1 bra A; st.global.b32 [%rd1], %r2; ret;"
    )
    program = written(text)
    assert "i = op.mov.b32(" in program
    assert "accs = [op.mov.b32(" in program


def test_variables_that_nobody_mentions_are_declared_in_a_loop() -> None:
    names = [f"_ZN4cuda3std3__45__cpo{len(n)}{n}E" for n in ("begin", "end", "cbegin", "cend")]
    variables = "".join(f".global .align 1 .b8 {name}[1];\n" for name in names)
    text = f"{HEADER}{variables}.global .u32 _ZN1a5countE;\n.visible .entry k()\n{{\n.reg .b32 %r<3>;\n"
    text += "ld.global.u32 %r1, [_ZN1a5countE]; st.global.u32 [_ZN1a5countE], %r1; ret; }\n"
    program = written(text)
    assert program.count("m.variable(") == 2
    assert "for name in [" in program
    assert "begin = " not in program
    assert 'count = m.variable(".global .u32", "_ZN1a5countE")' in program


WAIT = "{ .reg .pred p;\nLAB: mbarrier.try_wait.parity.shared.b64 p, [bar], 0;\n@p bra DONE;\nbra LAB;\nDONE: }\n"


def test_labels_of_scopes_at_one_place_are_one() -> None:
    """Inline assembly of CUTLASS, twice in a row and before a label of the function."""
    text = kernel(REGISTERS + f".shared .align 8 .b8 bar[8];\n@%p1 bra OUT;\n{WAIT}{WAIT}OUT: bar.sync 0;\nret;")
    program = written(text)
    assert program.count(".wait(0, branches=2)") == 2
    for wrong in (
        text.replace("@p bra DONE", "@p bra LAB", 1),
        text.replace("bra OUT", "bra IN").replace("{ .reg", "IN: { .reg", 1),
    ):
        assert wrong != text
        assert differences(pyptx.parse(text), pyptx.parse(wrong))


def test_a_ret_behind_scopes_with_labels_goes_without_saying() -> None:
    text = kernel(f".shared .align 8 .b8 bar[8];\n{WAIT}bar.sync 0;\n{WAIT}bar.sync 0;\nret;")
    program = written(text)
    assert "implicit_ret=True" in program
    assert "inst.ret()" not in program
