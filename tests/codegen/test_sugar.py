"""Readable mode: the program's PTX is the file's, up to the names of registers and labels."""

from __future__ import annotations

import ast
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pyptx
from pyptx import modules
from pyptx.codegen import constants, ptx_to_python
from pyptx.passes.equivalent import differences
from tests.conftest import ROOT, corpus_files, corpus_id, some_corpus_files

from .programs import read, run

OWN = sorted((ROOT / "tests" / "data" / "ptx").glob("*.ptx"))
REFUSED = {"llvm-22/nvvm-reflect-arch-O0__1_sm_70.ptx"}
HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def assert_equivalent(text: str, program: str, name: str = "") -> None:
    found = differences(pyptx.parse(text), pyptx.parse(run(program).ptx()))
    assert not found, "\n".join([name, *(d.text for d in found[:3])])


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.stem)
def test_own_files_are_equivalent(path: Path) -> None:
    text = read(path)
    assert_equivalent(text, ptx_to_python(text, sugar=True))


@pytest.mark.corpus
@pytest.mark.parametrize("folder", sorted({p.parent for p in corpus_files()}), ids=lambda p: p.name)
def test_corpus_is_equivalent(folder: Path, corpus_dir: Path, tmp_path: Path) -> None:
    for path in some_corpus_files(folder):
        if corpus_id(path) in REFUSED:
            continue
        text = read(path)
        program = ptx_to_python(text, sugar=True)
        assert_equivalent(text, program, path.name)
        (tmp_path / f"{path.stem}.py").write_text(program)
    ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
    if Path(ruff).exists():
        done = subprocess.run([ruff, "format", "--isolated", "--check", str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def body(text: str) -> list[str]:
    """The lines of the first function of a program, without indentation."""
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    return ast.unparse(function).split("\n")[2:]


def kernel(statements: str, params: str = ".param .u64 k_param_0, .param .u32 k_param_1") -> str:
    return f"{HEADER}.visible .entry k({params})\n{{\n{statements}\n}}\n"


REGISTERS = ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .pred %p<9>; .reg .f32 %f<9>;\n"


def program(statements: str) -> list[str]:
    text = kernel(REGISTERS + statements)
    written = ptx_to_python(text, sugar=True)
    assert_equivalent(text, written)
    return body(written)


def test_the_kernel_gets_the_name_asked_for() -> None:
    written = ptx_to_python(kernel("ret;"), sugar=True, kernel_name="mine")
    assert "def mine(arg0, arg1):" in written
    assert run(written).ptx().count(".entry k(") == 1


def test_if_else() -> None:
    lines = program(
        "setp.ge.s32 %p1, %r1, 5;\n@%p1 bra B;\nadd.s32 %r2, %r1, 1;\nbra.uni E;\nB:\nsub.s32 %r2, %r1, 1;\nE:\n"
        "st.global.u32 [%rd1], %r2;\nret;"
    )
    assert "    with if_(~(r >= 5)):" in lines
    assert "    with else_(uni=True):" in lines


def test_loop_with_break_and_continue() -> None:
    lines = program(
        "mov.s32 %r1, 0;\nL:\nadd.s32 %r1, %r1, 1;\nsetp.eq.s32 %p1, %r1, 3;\n@%p1 bra L;\nsetp.gt.s32 %p2, %r1, 7;\n"
        "@%p2 bra E;\nst.global.u32 [%rd1], %r1;\nsetp.gt.s32 %p3, %r2, 8;\n@%p3 bra E;\nbra.uni L;\nE:\nret;"
    )
    text = "\n".join(lines)
    assert "with loop() as again:" in text
    assert "again.again(i == 3)" in text
    assert "leave(i > 7)" in text
    assert "again.again(uni=True)" in text
    assert "label(" not in text


def test_a_branch_into_a_loop_keeps_its_label() -> None:
    lines = program(
        "setp.eq.s32 %p1, %r1, 3;\n@%p1 bra M;\nL:\nadd.s32 %r1, %r1, 1;\nM:\nadd.s32 %r1, %r1, 2;\n"
        "setp.lt.s32 %p2, %r1, 9;\n@%p2 bra L;\nret;"
    )
    assert any("label(" in line for line in lines)


def test_operators_only_where_they_are_the_instruction() -> None:
    lines = program(
        "add.s32 %r2, %r1, 1;\nadd.u32 %r3, %r2, 1;\nmul.lo.u32 %r4, %r3, 2;\nshr.s32 %r5, %r4, 2;\nshr.u32 %r6, %r5, 2;\n"
        "add.f32 %f2, %f1, %f1;\nadd.rz.f32 %f3, %f2, %f2;\nst.global.u32 [%rd1], %r6;\nst.global.f32 [%rd1], %f3;\nret;"
    )
    text = "\n".join(lines)
    assert "op.add.u32(" in text
    assert "op.mul.lo.u32(" in text
    assert "op.shr.s32(" in text
    assert "op.add.rz.f32(" in text
    assert "op.shr.u32(" in text
    assert ">>" not in text


@pytest.mark.parametrize(("kind", "opposite"), [("s32", "u32"), ("u32", "s32")])
def test_operators_go_by_the_type_of_the_register(kind: str, opposite: str) -> None:
    lines = program(
        f"mov.{kind} %r1, %r9;\nshr.{kind} %r2, %r1, 2;\nshr.{opposite} %r3, %r1, 3;\n"
        f"st.global.u32 [%rd1], %r2;\nst.global.u32 [%rd1], %r3;\nret;"
    )
    text = "\n".join(lines)
    assert ">> 2" in text
    assert f"op.shr.{opposite}(" in text


def test_nesting_keeps_the_order() -> None:
    """A load stays between two stores: what is used later is not nested over them."""
    lines = program(
        "ld.global.u32 %r1, [%rd1];\nst.global.u32 [%rd1], 0;\nadd.s32 %r2, %r1, 1;\nst.global.u32 [%rd2], %r2;\nret;"
    )
    loads = [i for i, line in enumerate(lines) if "op.ld.global_.u32" in line]
    stores = [i for i, line in enumerate(lines) if "inst.st.global_.u32" in line]
    assert loads[0] < stores[0] < stores[1]


def test_runs_become_comprehensions() -> None:
    moves = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(8))
    stores = "".join(f"st.global.f32 [%rd1+{4 * i + 4}], %f{i};\n" for i in range(8))
    text = "\n".join(program(moves + stores + "ret;"))
    assert "xs = [op.mov.f32(0.0) for _ in range(8)]" in text
    assert "range(4, 36, 4)" in text


def test_call_scopes_stay() -> None:
    text = read(ROOT / "tests" / "data" / "ptx" / "param_call.ptx")
    written = ptx_to_python(text, sugar=True)
    assert_equivalent(text, written)
    assert "open_scope()" in written


def test_a_wrong_program_is_found_out() -> None:
    """The judge judges: a changed constant, operator or order is a difference."""
    text = kernel(REGISTERS + "add.s32 %r2, %r1, 1;\nst.global.u32 [%rd1], %r2;\nret;")
    written = ptx_to_python(text, sugar=True)
    for old, new in (("r + 1", "r + 2"), ("r + 1", "r - 1"), ("implicit_ret=True", "implicit_ret=False")):
        assert old in written
        changed = run(written.replace(old, new)).ptx()
        assert differences(pyptx.parse(text), pyptx.parse(changed))


def test_parameters_are_loaded_together_and_results_returned() -> None:
    """Types, order and the plain `ret` go without saying, and only where they are what the PTX says."""
    text = (
        f"{HEADER}.func (.param .b32 func_retval0) f(.param .u32 f_param_0, .param .f32 f_param_1)\n{{\n{REGISTERS}"
        "ld.param.u32 %r1, [f_param_0];\nld.param.f32 %f1, [f_param_1];\ncvt.rzi.s32.f32 %r2, %f1;\n"
        "add.s32 %r3, %r1, %r2;\nst.param.b32 [func_retval0], %r3;\nret;\n}\n"
    )
    written = ptx_to_python(text, sugar=True)
    assert_equivalent(text, written)
    assert '@m.func(returns=["b32"], params=["u32", "f32"])' in written
    assert "def f(arg0, arg1):" in written
    assert "arg0, arg1 = load(arg0, arg1)" in written
    assert "return arg0 + op.cvt.rzi.s32.f32(arg1)" in written
    for old, new in (
        ("ld.param.u32 %r1", "ld.param.s32 %r1"),
        ("[func_retval0]", "[func_retval0+4]"),
        ("st.param.b32", "st.param.u32"),
        ("ret;", "ret.uni;"),
        ("ret;", "exit;"),
        ("[f_param_0]", "[f_param_0+1]"),
    ):
        changed = text.replace(old, new)
        again = ptx_to_python(changed, sugar=True)
        assert_equivalent(changed, again)
        assert differences(pyptx.parse(text), pyptx.parse(run(again).ptx())), (old, new)


def test_many_parameters_are_repeated_words() -> None:
    params = ", ".join(f".param .u64 .ptr .global .align 1 k_param_{i}" for i in range(9)) + ", .param .u32 k_param_9"
    written = ptx_to_python(kernel("ret;", params), sugar=True)
    assert '@m.entry("k", params=["u64.ptr.global.palign1 * 9", "u32"])' in written
    assert "def matmul_kernel(*args):\n    pass" in written
    assert_equivalent(kernel("ret;", params), written)


def test_unrolled_code_becomes_a_loop() -> None:
    """Several statements a round, strides, a chain that goes from round to round, and results needed after it."""
    rounds = "".join(
        f"ld.global.f32 %f{2 * i + 1}, [%rd1{f'+{4 * i}' if i else ''}];\nfma.rn.f32 %f{2 * i + 2}, %f{2 * i + 1}, "
        f"%f{2 * i + 1}, %f{2 * i};\nst.shared.f32 [%rd2+{8 * i + 16}], %f{2 * i + 2};\n"
        for i in range(4)
    )
    text = "\n".join(program(f"mov.f32 %f0, 0f00000000;\n{rounds}st.global.f32 [%rd1], %f8;\nret;"))
    assert "in range(0, 16, 4):" in text
    assert "op.ld.global_.f32(at(" in text
    assert "* 2 + 16" in text
    assert text.count("op.fma.rn.f32") == 1
    twice = "".join(f"add.s32 %r{i + 1}, %r{i}, {i};\n" for i in range(1, 6))
    uses = "".join(f"st.global.u32 [%rd1], %r{i};\nbar.sync 0;\n" for i in (2, 4, 6))
    program(twice + uses + "ret;")


def test_what_does_not_follow_the_rule_is_not_rolled() -> None:
    program("".join(f"add.s32 %r{i + 2}, %r{i + 1}, %r{i};\n" for i in range(6)) + "st.global.u32 [%rd1], %r7;\nret;")
    program("".join(f"st.global.u32 [%rd1+{i * i}], %r{i};\n" for i in range(6)) + "ret;")
    program("".join(f"add.s32 %r{i % 2}, %r{(i + 1) % 3}, {i};\n" for i in range(9)) + "ret;")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.sampled_from(["add.s32", "mul.lo.s32", "xor.b32", "mov"]), *[st.integers(0, 3)] * 3),
        min_size=1,
        max_size=4,
    ),
    st.integers(2, 6),
    st.integers(-2, 2),
    st.sets(st.integers(0, 40)),
)
def test_random_repeats_keep_every_instruction(
    body: list[tuple[str, int, int, int]], rounds: int, step: int, uses: set[int]
) -> None:
    """Stretches of random statements, registers counted up by random steps, results read anywhere after them."""
    lines: list[str] = []
    for i in range(rounds):
        for opcode, d, a, b in body:
            to, left, right = (10 + d + i * len(body), 10 + a + i * step, 10 + b + i * len(body))
            if opcode == "mov":
                lines.append(f"mov.u32 %r{to}, {b + step * i + 20};")
            else:
                lines.append(f"{opcode} %r{to}, %r{max(left, 0)}, %r{right};")
    lines += [f"st.global.u32 [%rd1+{4 * u}], %r{u};" for u in sorted(uses)]
    text = kernel(".reg .b32 %r<60>; .reg .b64 %rd<3>;\n" + "\n".join(lines) + "\nret;")
    assert_equivalent(text, ptx_to_python(text, sugar=True))


def test_numbers_get_names() -> None:
    text = kernel(
        REGISTERS + "mul.f32 %f2, %f1, 0f3FB8AA3B;\nand.b32 %r1, %r2, 1023;\nst.global.f32 [%rd1], %f2;\nret;"
    )
    written = ptx_to_python(text, sugar=True)
    assert_equivalent(text, written)
    assert "LOG2_E_F32 = 1.4426950216293335  # log2(e) in f32" in written
    assert "* LOG2_E_F32" in written
    assert "& 0x3FF" in written


def test_names_of_numbers_are_what_they_say() -> None:
    names: dict[str, object] = {}
    exec("\n".join(constants.definitions(set(constants.ALL_NAMES))), names)
    f32 = lambda bits: np.uint32(bits).view(np.float32)  # noqa: E731
    assert names["LOG2_E"] == math.log2(math.e)
    assert names["LOG2_E_F32"] == np.float32(math.log2(math.e))
    assert names["LN_2"] == math.log(2)
    assert names["LN_2_F32"] == np.float32(math.log(2))
    assert names["TWO_OVER_PI"] == 2 / math.pi
    assert names["TWO_OVER_PI_F32"] == np.float32(2 / math.pi)
    assert names["HALF_PI_F32"] == np.float32(math.pi / 2)
    assert names["SQRT_HALF"] == pytest.approx(math.sqrt(0.5), rel=1e-15)
    assert names["MAX_F32"] == np.finfo(np.float32).max
    assert names["MIN_NORMAL_F32"] == np.finfo(np.float32).tiny
    assert names["EPS_F32"] == np.finfo(np.float32).eps
    assert f32(names["NEG_INF_BITS"] & 0xFFFFFFFF) == -np.inf
    assert f32(names["INF_BITS"]) == np.inf
    assert f32(names["ONE_BITS"]) == 1
    assert (np.uint32([names["ONES_F16X2"]]).view(np.float16) == 1).all()
    assert np.uint64(names["INF_HIGH"] << 32).view(np.float64) == np.inf
    assert modules.descriptor("128B", stride=1024, leading=16) == pyptx.ptx.wgmma.MASKED_DESC_B128
    assert (
        modules.descriptor("128B", stride=1024, leading=16, version=1) == pyptx.ptx.tcgen05.BLACKWELL_MASKED_DESC_B128
    )


CONSTANT_OPERANDS = ("%a", "%b", "-128", "3", "1")
INTEGER_OPCODES = [
    *("add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "mad.lo", "selp"),
    *("setp.lt", "setp.ne", "setp.ge"),
]


@st.composite
def instructions_with_constants(draw: st.DrawFn) -> str:
    """A kernel of a few instructions, with constants in any place."""
    bits = draw(st.sampled_from((16, 32, 64)))
    kind = draw(st.sampled_from("bus"))
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        opcode = draw(st.sampled_from(INTEGER_OPCODES))
        signs = "b" if opcode in ("and", "or", "xor", "shl", "selp") else "us"
        dtype = f"{draw(st.sampled_from(signs))}{bits}"
        first, second, third = (draw(st.sampled_from(CONSTANT_OPERANDS)) for _ in range(3))
        if opcode in ("shl", "shr") and second[0] == "%":
            second = "%n"
        result = draw(st.sampled_from(("%a", "%b")))
        if opcode.startswith("setp"):
            lines.append(f"{opcode}.{dtype} %p, {first}, {second};")
        elif opcode == "selp":
            lines.append(f"selp.{dtype} {result}, {first}, {second}, %p;")
        else:
            more = f", {third}" if opcode == "mad.lo" else ""
            lines.append(f"{opcode}.{dtype} {result}, {first}, {second}{more};")
    return (
        f"{HEADER}.visible .entry k(.param .u64 out)\n{{\n.reg .{kind}{bits} %a;\n.reg .{kind}{bits} %b;\n"
        ".reg .b32 %n;\n.reg .b64 %rd<2>;\n.reg .pred %p;\nld.param.u64 %rd1, [out];\n"
        f"ld.global.{kind}{bits} %a, [%rd1];\nld.global.{kind}{bits} %b, [%rd1+8];\nld.global.u32 %n, [%rd1+16];\n"
        "setp.eq.s32 %p, %n, 0;\n" + "\n".join(lines) + f"\nst.global.{kind}{bits} [%rd1], %a;\n"
        f"@%p st.global.{kind}{bits} [%rd1+8], %b;\nret;\n}}\n"
    )


@settings(max_examples=80, deadline=None)
@given(instructions_with_constants())
def test_constants_in_any_place_are_equivalent(text: str) -> None:
    assert_equivalent(text, ptx_to_python(text, sugar=True))


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("shr.u32 %b, -128, %a;", "-128 >> "),
        ("shl.b32 %b, 2, %a;", "2 << "),
        ("xor.b32 %b, 1, %a;", "1 ^ "),
        ("and.b32 %b, 1, %a;", "1 & "),
        ("or.b32 %b, 1, %a;", "1 | "),
        ("sub.s32 %b, 1, %a;", "1 - "),
    ],
)
def test_constant_first(line: str, written: str) -> None:
    """An operator is written only where tracing it gives the instruction."""
    text = (
        f"{HEADER}.visible .entry k(.param .u64 out)\n{{\n.reg .b32 %a;\n.reg .b32 %b;\n.reg .b64 %rd1;\n"
        f"ld.param.u64 %rd1, [out];\nmov.u32 %a, %tid.x;\n{line}\nst.global.u32 [%rd1], %b;\nret;\n}}\n"
    )
    program = ptx_to_python(text, sugar=True)
    assert written in program
    assert_equivalent(text, program)


def waiting(loop: str) -> str:
    return kernel(
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;\n.shared .align 8 .b64 full;\nmov.u32 %r1, full;\n"
        f"mov.u32 %r2, %tid.x;\n{loop}\nst.global.u32 [%rd1], %r2;\nret;"
    )


@pytest.mark.parametrize(
    ("loop", "written"),
    [
        (
            "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n@!%p1 bra.uni W;",
            "mbarrier(full).wait(tid, uni=True)",
        ),
        (
            "W: mbarrier.try_wait.parity.shared.b64 %p1, [full+8], 1;\n@!%p1 bra W;",
            'mbarrier("full", 8, space="shared")',
        ),
        (
            "{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;\n@p bra D;\nbra W;\nD: }",
            "mbarrier(full).wait(tid, branches=2)",
        ),
        (
            "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0, 100;\n@!%p1 bra W;",
            'mbarrier(full).wait(0, 100, how="parity.acquire.cluster")',
        ),
    ],
)
def test_loops_that_wait(loop: str, written: str) -> None:
    text = waiting(loop)
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    assert written in program
    assert "loop()" not in program


@pytest.mark.parametrize(
    "loop",
    [
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n@%p1 bra W;",  # waits while it is complete
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\nadd.s32 %r2, %r2, 1;\n@!%p1 bra W;",
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n@!%p1 bra W;\nselp.b32 %r2, 1, 2, %p1;",
        "W: mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n@!%p1 bra W;",
        "{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;\n@p bra D;\nbra W;\nadd.s32 %r2, %r2, 1;\nD: }",
        "@%p3 bra D;\nW: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2;\n@%p1 bra D;\nbra W;\nD:",
    ],
)
def test_loops_that_do_not_just_wait(loop: str) -> None:
    text = waiting(loop)
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    assert ".wait(" not in program


def test_tensor_copies() -> None:
    text = kernel(
        ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<2>; .reg .pred %p<9>;\n.shared .align 8 .b64 full;\n"
        ".shared .align 128 .b8 tile[4096];\nmbarrier.init.shared::cta.b64 [full], 1;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1, %r2}], [full];\n"
        "@%p1 cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [tile+128], [%rd1, {%r1, %r2, 0}], [full], %h1, %rd3;\n"
        "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd2, {%r1}], [tile];\n"
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [tile], [%rd1, {%r1, %r2, %r3}],"
        " [full], {%h1};\nmbarrier.arrive.shared::cta.b64 %rd4, [full];\nmbarrier.arrive.shared::cta.b64 _, [full];\n"
        "mbarrier.inval.shared.b64 [full];\nst.global.u64 [%rd5], %rd4;\nret;"
    )
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    for written in (
        'mbarrier("full").init(1)',
        'mbarrier("full").arrive_expect_tx(4096)',
        'tma.load("tile", r, [r_1, r_2], mbarrier("full"))',
        'mode="tile"',
        "multicast=",
        "policy=",
        "tma.store(r_",
        'mbarrier("full").arrive()',
        'mbarrier("full", space="shared").inval()',
        "im2col",
    ):
        assert written in program, written


def test_descriptors() -> None:
    """PTX ISA 9.7.17.5.1: bits 62 and 63 are the swizzle, 32 to 45 the stride and 16 to 29 the leading offset, in 16 bytes."""
    bits = (1 << 62) | (64 << 32) | (1 << 16)
    text = kernel(f".reg .b64 %rd<9>;\nor.b64 %rd2, %rd1, {bits};\nst.global.u64 [%rd3], %rd2;\nret;")
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    assert 'descriptor("128B", stride=1024, leading=16)' in program


LLVM_CALL = (
    "{ .param .b32 param0; .param .b64 param1; .param .b32 retval0; st.param.b32 [param0], %r1; st.param.b64 [param1], 7;\n"
    "call.uni (retval0), f, (param0, param1); ld.param.b32 %r2, [retval0]; }\nst.global.u32 [%rd1], %r2;"
)
NVCC_CALL = (
    "{ .reg .b32 temp_param_reg; .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b64 param1; "
    "st.param.b64 [param1+0], 7;\n.param .b32 retval0; call.uni (retval0), f, (param0, param1); "
    "ld.param.b32 %r2, [retval0+0]; }\nst.global.u32 [%rd1], %r2;"
)
CALLEE = ".extern .func (.param .b32 func_retval0) f (.param .b32 f_param_0, .param .b64 f_param_1);\n"


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (LLVM_CALL, 'call("f", r, 7, types=["b32", "b64"], returns="b32")'),
        (NVCC_CALL, 'call("f", r, 7, types=["b32", "b64"], returns="b32")'),
        (LLVM_CALL.replace("st.param.b32 [param0]", "st.param.b32 [param0+4]"), None),
        (LLVM_CALL.replace("call.uni", "@%p1 call.uni"), None),
        (LLVM_CALL.replace(".param .b32 retval0;", ".param .align 8 .b8 retval0[4];"), None),
        (LLVM_CALL.replace("ld.param.b32 %r2", "add.s32 %r1, %r1, 1; ld.param.b32 %r2"), None),
    ],
)
def test_calls(body: str, written: str | None) -> None:
    text = kernel(REGISTERS + body + "\nret;").replace(".visible .entry", CALLEE + ".visible .entry")
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    assert (" call(" in program) == (written is not None)
    if written is not None:
        assert written in program


def test_text_and_mangled_names() -> None:
    text = (
        f"{HEADER}.global .align 1 .b8 msg[6] = {{72, 105, 34, 39, 92, 10}};\n.shared .align 4 .b8 _ZZ1kPiE4tile[64];\n"
        ".global .align 8 .u64 _ZTV1D[1];\n.visible .entry k()\n{\n.reg .b32 %r<3>;\nmov.u32 %r1, _ZZ1kPiE4tile;\n"
        "st.shared.u32 [%r1], %r1;\nst.shared.u32 [_ZZ1kPiE4tile+4], %r1;\nret;\n}\n"
    )
    program = ptx_to_python(text, sugar=True)
    assert_equivalent(text, program)
    assert "[*b" in program
    assert 'tile = m.variable(".shared .align 4 .b8", "_ZZ1kPiE4tile", 64)' in program
    assert "addr(tile, 4)" in program
    assert not any(line.startswith("D = ") for line in program.split("\n"))


def test_registers_named_after_their_number_and_results_nobody_wants() -> None:
    lines = program(
        "mov.u32 %r3, 16;\nmov.u32 %r4, -1;\nshfl.sync.down.b32 %r2|%p1, %r1, %r3, 31, %r4;\nst.global.u32 [%rd1], %r2;\n"
        "st.global.u32 [%rd1], %r3;\nst.global.u32 [%rd1], %r4;\nret;"
    )
    text = "\n".join(lines)
    assert "c16 = op.mov.u32(16)" in text
    assert "minus1 = op.mov.u32(-1)" in text
    assert "other, _ = op.shfl.sync.down.b32(r, c16, 31, minus1" in text


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r1, %tid.x; ld.global.u32 %r2, a[%r1+3]; st.global.u32 a[1], %r2;",
        "mov.u32 %r4, %ctaid.x; mov.u32 %r2, 7; st.global.u32 a[%r4], %r2;",
        "mov.u32 %r4, 2; cvta.global.u64 %rd1, a[%r4]; st.u32 [%rd1], %r4;",
        "mov.u32 %r4, 2; ld.global.v2.u32 {%r1, %r2}, a[%r4]; st.global.u32 a[%r1], %r2;",
    ],
)
def test_the_index_of_an_element_has_a_name(body: str) -> None:
    text = (
        HEADER + f".global .align 8 .b32 a[8];\n.entry k()\n{{\n.reg .b32 %r<9>;\n.reg .b64 %rd<3>;\n{body}\nret;\n}}\n"
    )
    assert_equivalent(text, ptx_to_python(text, sugar=True))


@pytest.mark.parametrize("sugar", [True, False])
def test_ratios_of_sparsity_are_attributes(sugar: bool) -> None:
    text = (
        ".version 9.4\n.target sm_107a\n.address_size 64\n.entry k()\n{\n.reg .b32 %r<9>;\n"
        "spcompress.b8.b2.sp::2:4.x2 {%r7}, {%r5, %r3}, {%r1, %r6, %r4, %r2}, %r0;\n"
        "spdecompress.b8.b4.sp::1:16.x2 {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r8}, {%r8};\nret;\n}\n"
    )
    program = ptx_to_python(text, sugar=sugar)
    assert "sp__2_4" in program
    assert_equivalent(text, program)
