"""Programs that run: `--runnable`, edited programs, `Kernel.from_ptx`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import modules
from pyptx.codegen import ptx_to_python
from tests.conftest import ROOT

from .programs import run

KERNELS = (ROOT / "examples" / "transpile" / "kernels.ptx").read_text()


def saxpy(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y afterwards, x, y before) of the saxpy in a PTX text, with a = 2."""
    x, y = np.random.default_rng(1).standard_normal((2, 1000), dtype=np.float32)
    before = y.copy()
    pyptx.simulate(pyptx.load(text)["saxpy"], 1000, np.float32(2.0), x, y, grid=(4,), block=(256,))
    return y, x, before


@pytest.mark.parametrize("sugar", [False, True])
def test_a_program_runs_as_the_file_does(sugar: bool) -> None:
    got, x, before = saxpy(run(ptx_to_python(KERNELS, sugar=sugar)).ptx())
    want, _, _ = saxpy(KERNELS)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, 2.0 * x.astype(np.float64) + before, rtol=1e-6, atol=1e-6)


def test_an_edited_program_runs() -> None:
    """The tour's edit: a ReLU after the multiply-add."""
    program = ptx_to_python(KERNELS, sugar=True)
    store = "inst.st.global_.f32(addr(ptr), x)"
    assert program.count(store) >= 1
    edited = program.replace(store, "inst.st.global_.f32(addr(ptr), op.max_.f32(x, 0.0))", 1)
    got, x, before = saxpy(run(edited).ptx())
    want = np.maximum(2.0 * x.astype(np.float64) + before, 0.0)
    assert (want == 0).any()
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("options", [[], ["--sugar"]])
def test_runnable(options: list[str], tmp_path: Path) -> None:
    program = tmp_path / "kernels.py"
    source = ROOT / "examples" / "transpile" / "kernels.ptx"
    command = [sys.executable, "-m", "pyptx.codegen", str(source), "--runnable", *options, "-o", str(program)]
    assert subprocess.run(command, cwd=ROOT).returncode == 0
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "saxpy" in done.stdout
    assert "block_sum" in done.stdout


@pytest.mark.parametrize("name", ["softmax", "gemm"])
def test_guesses_run_kernels_of_triton(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Strides of 64, dynamic shared memory, the block of `.reqntid`: nothing out of bounds."""
    program = ptx_to_python(ROOT / "examples" / "transpile" / f"{name}.ptx", sugar=True, runnable=True)
    namespace: dict[str, object] = {"__name__": "generated"}
    exec(program, namespace)
    namespace["main"]()  # pyright: ignore[reportCallIssue]
    assert capsys.readouterr().out.startswith({"softmax": "softmax", "gemm": "matmul"}[name])


def test_the_grid_is_a_whole_number_of_clusters() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() .reqnctapercluster 2, 1, 1 { ret; }\n"
    program = ptx_to_python(text, runnable=True)
    assert "grid=(2, 1, 1)" in program
    namespace: dict[str, object] = {"__name__": "generated"}
    exec(program, namespace)
    namespace["main"]()  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("sugar", [False, True])
def test_specs_of_a_tma_gemm(sugar: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """What is guessed of our own GEMM, from its PTX alone, is what it was made with."""
    from examples.hopper.gemm import build

    kernel = build(128, 128, 64)
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(ptx_to_python(kernel.ptx(), sugar=sugar, runnable=True), namespace)
    specs = namespace["SPECS"]["gemm"]
    for name, meant in zip("abc", kernel.specs, strict=True):
        assert specs[name].dtype == meant.dtype
        if meant.tma_box:
            assert (specs[name].tma_box, specs[name].layout) == (meant.tma_box, meant.layout)
    namespace["main"]()
    out = capsys.readouterr().out
    assert out.startswith("gemm gemm: grid 1 x 1 x 1, block 128 x 1 x 1")
    assert "error" not in out


def test_specs_say_type_and_width() -> None:
    """A pointer's type is that of its accesses, or of what is computed with untyped ones."""
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, "
        ".param .u32 n, .param .u64 d) { .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<4>; .reg .f32 %f<4>;\n"
        "ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1; ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd2+16];\n"
        "ld.param.u64 %rd3, [b]; add.s64 %rd4, %rd3, 8; cvt.rn.bf16x2.f32 %r1, %f0, %f1; st.global.b32 [%rd4], %r1;\n"
        "ld.param.u64 %rd5, [c]; ld.global.b16 %h1, [%rd5]; cvt.f32.f16 %f1, %h1; ld.param.u64 %rd6, [d];\n"
        "ld.global.b32 %r2, [%rd6]; add.f32 %r3, %r2, %r2; st.global.b32 [%rd6], %r3; ret; }\n"
    )
    program = ptx_to_python(text, runnable=True)
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(program, namespace)
    types = {name: tile.dtype.name for name, tile in namespace["SPECS"]["k"].items()}
    assert types == {"a": "f32", "b": "bf16", "c": "f16", "d": "f32"}
    assert "# read, 4 elements at a time" in program
    assert "# written, 2 elements at a time" in program
    assert "# read and written" in program
    namespace["main"]()


def test_handles_of_textures_and_surfaces(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 t, .param .u64 s, .param .u64 out) {\n"
        ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [s];\n"
        "ld.param.u64 %rd3, [out]; mov.u32 %r1, %tid.x; tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1, %r1}];\n"
        "mov.b32 %r2, %f1; shl.b32 %r3, %r1, 2; sust.b.1d.b32.trap [%rd2, {%r3}], %r2;\n"
        "mul.wide.u32 %rd4, %r1, 4; add.s64 %rd5, %rd3, %rd4; st.global.f32 [%rd5], %f1; ret; }\n"
    )
    program = ptx_to_python(text, sugar=True, runnable=True)
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(program, namespace)
    namespace["main"]()
    out = capsys.readouterr().out
    assert out.startswith("k k: grid 1 x 1 x 1")
    assert "does not run" not in out
    assert list(namespace["SPECS"]["k"]) == ["out"]


HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
POINTER_TO_POINTER = (
    HEAD + ".visible .entry k(.param .u64 s) {\n"
    ".reg .b64 %rd<9>; .reg .f32 %f<9>; ld.param.u64 %rd1, [s]; ld.global.u64 %rd2, [%rd1];\n"
    "ld.global.f32 %f1, [%rd2]; st.global.f32 [%rd2], %f1; ret; }\n"
)
STRUCTURE_OF_POINTERS = (
    HEAD + ".visible .entry k(.param .u64 s) {\n"
    ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f64 %d<9>; ld.param.u64 %rd1, [s]; ld.u64 %rd2, [%rd1+16]; ld.u64 %rd3, [%rd1];\n"
    "ld.u32 %r1, [%rd2]; ld.u32 %r2, [%rd1+8]; mul.wide.u32 %rd4, %r1, 8; add.s64 %rd5, %rd3, %rd4; ld.f64 %d1, [%rd5];\n"
    "add.f64 %d1, %d1, %d1; st.f64 [%rd5], %d1; ret; }\n"
)
SHARED_POINTER = (
    HEAD + ".visible .entry k(.param .u64 s) {\n"
    ".reg .b64 %rd<9>; .reg .b32 %r<9>; ld.param.u64 %rd1, [s]; cvta.to.shared.u64 %rd2, %rd1; cvt.u32.u64 %r1, %rd2;\n"
    "st.shared.u32 [%r1+64], %r1; ret; }\n"
)
EITHER_POINTER = SHARED_POINTER.replace(
    "st.shared", "cvta.to.global.u64 %rd3, %rd1; st.global.u32 [%rd3], %r1; ret;\n    st.shared"
)
"""Cooperative groups have code for both: it is a pointer to global memory."""
ARRIVES_ONCE = (
    HEAD + ".visible .entry k() {\n"
    ".reg .b32 %r<2>; .shared .b64 bar; mov.u32 %r0, %tid.x; mbarrier.init.shared.b64 [bar], 1;\n"
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4; mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 4; ret; }\n"
)


def test_a_guess_that_does_not_fit_is_said(tmp_path: Path) -> None:
    """The program says so in one line, runs the kernels that come after, and its exit status is 1."""
    program = tmp_path / "k.py"
    program.write_text(
        ptx_to_python(HEAD + ".visible .entry k() { trap; }\n.visible .entry after() { ret; }\n", runnable=True)
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("k does not run with these guesses: <ptx>:")
    assert "after after: grid" in done.stdout


def main_of(text: str, sugar: bool = False) -> tuple[int, dict[str, Any]]:
    """How many kernels of a runnable program do not run, and its names."""
    namespace: dict[str, Any] = {"__name__": "generated"}
    exec(ptx_to_python(text, sugar=sugar, runnable=True), namespace)
    return namespace["main"](), namespace


@pytest.mark.parametrize(
    "text", [POINTER_TO_POINTER, STRUCTURE_OF_POINTERS, SHARED_POINTER, EITHER_POINTER, ARRIVES_ONCE]
)
def test_memory_with_pointers_pointers_to_shared_memory_and_one_thread(text: str) -> None:
    failed, names = main_of(text)
    assert failed == 0
    if text is STRUCTURE_OF_POINTERS:
        types = {name: tile.dtype.name for name, tile in names["SPECS"]["k"].items()}
        assert types == {"s_0": "f64", "s_16": "u32"}


def test_where_shared_memory_begins() -> None:
    from pyptx.codegen import launch_guess
    from pyptx.simulator.machine import program

    assert (launch_guess.SHARED_ADDRESS, launch_guess.SHARED_WINDOW) == (program.SHARED_BASE, program.SHARED_WINDOW)


def test_arguments_of_calls_are_what_functions_do_with_them() -> None:
    """A texture, an array of doubles and a number, passed on twice as unoptimised code does; `f` calls itself."""
    declared = ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f64 %d<3>; .reg .f32 %f<9>; .reg .pred %p;\n"
    passed = (
        "ld.param.u64 %rd1, [{0}0]; ld.param.u64 %rd2, [{0}1]; ld.param.u64 %rd3, [{0}2];\n"
        "{{ .param .b64 param0; st.param.b64 [param0+0], %rd1; .param .b64 param1; st.param.b64 [param1+0], %rd2;\n"
        ".param .b64 param2; st.param.b64 [param2], %rd3; call.uni {1}, (param0, param1, param2); }}\n"
    )
    parameters = "(.param .b64 {0}0, .param .b64 {0}1, .param .b64 {0}2)"
    text = (
        HEAD
        + f".func f{parameters.format('f')} {{\n{declared}ld.param.u64 %rd4, [f2]; setp.lt.u64 %p, %rd4, 1000; @%p bra OK;\n"
        f"{passed.format('f', 'f')}OK: ld.param.u64 %rd1, [f0]; ld.param.u64 %rd2, [f1];\n"
        "mov.f32 %f1, 0f00000000; tex.3d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {%f1, %f1, %f1, %f1}];\n"
        "cvt.f64.f32 %d1, %f2; st.global.f64 [%rd2], %d1; ret; }\n"
        f".func g{parameters.format('g')} {{\n{declared}{passed.format('g', 'f')}ret; }}\n"
        f".visible .entry k{parameters.replace('b64', 'u64').format('k')} {{\n{declared}{passed.format('k', 'g')}ret; }}\n"
    )
    failed, program = main_of(text)
    assert failed == 0
    assert [tile.dtype.name for tile in program["SPECS"]["k"].values()] == ["f64"], (
        "one array; the texture and the number are none"
    )


def test_addresses_of_shared_memory_as_parameters() -> None:
    text = (
        HEAD + ".visible .entry k(.param .u32 at) {\n.reg .b32 %r<4>;\n"
        "ld.param.u32 %r1, [at]; mov.u32 %r2, %tid.x; mad.lo.u32 %r1, %r2, 4, %r1; st.shared.u32 [%r1+64], %r2; ret; }\n"
    )
    assert main_of(text)[0] == 0


def test_kernels_that_wait_for_the_grid_are_launched_cooperatively() -> None:
    """The address of the grid's barrier is 0 in a launch that is not cooperative; CUDA's own code traps then."""
    text = (
        HEAD + ".visible .entry k() {\n.reg .b32 %r<9>; .reg .pred %p;\n"
        "mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; or.b32 %r3, %r1, %r2; setp.ne.s32 %p, %r3, 0; @%p bra OK; trap;\nOK: ret; }\n"
    )
    failed, program = main_of(text)
    assert failed == 0
    with pytest.raises(pyptx.SimulationError, match="trap"):
        pyptx.simulate(pyptx.load(text)["k"], grid=1, block=32)
    assert program["m"].ptx() == text


def test_pointers_and_numbers_in_structures() -> None:
    """out[i] = in[i] for i < n, all of them members of one structure."""
    text = (
        HEAD + ".visible .entry k(.param .align 8 .b8 s[24]) {\n"
        ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p;\n"
        "ld.param.u64 %rd1, [s]; ld.param.u64 %rd2, [s+8]; ld.param.u32 %r1, [s+16];\n"
        "mov.u32 %r2, %tid.x; setp.ge.s32 %p, %r2, %r1; @%p bra END; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3;\n"
        "add.s64 %rd5, %rd2, %rd3; ld.global.f32 %f1, [%rd4]; st.global.f32 [%rd5], %f1;\nEND: ret; }\n"
    )
    failed, namespace = main_of(text)
    assert failed == 0
    assert [tile.dtype.name for tile in namespace["SPECS"]["k"].values()] == ["f32", "f32"]
    kernel = pyptx.load(text)["k"]
    x, y = np.random.default_rng().standard_normal((2, 64), dtype=np.float32)
    before = y.copy()
    pyptx.simulate(kernel, {0: x, 8: y, 16: np.int32(40)}, grid=(1,), block=(64,))
    np.testing.assert_array_equal(y, np.concatenate([x[:40], before[40:]]))
    for wrong, message in (
        ({0: x, 20: y}, "has 24 bytes"),
        ({0: 3}, "member at 0 is int"),
        ({"p": x}, "offset in bytes"),
    ):
        with pytest.raises(pyptx.SimulationError, match=message):
            pyptx.simulate(kernel, wrong, grid=(1,), block=(64,))


def test_pointers_that_go_through_the_stack() -> None:
    """As code has them that is not optimised."""
    text = (
        HEAD + ".visible .entry k(.param .u64 out) {\n.local .align 8 .b8 stack[16];\n"
        ".reg .b64 %rd<9>; .reg .b64 %SP; mov.u64 %rd1, stack; cvta.local.u64 %SP, %rd1;\n"
        "ld.param.u64 %rd2, [out]; st.u64 [%SP+8], %rd2; ld.u64 %rd3, [%SP+8]; st.u32 [%rd3], 7; ret; }\n"
    )
    assert main_of(text)[0] == 0


def test_bytes_expected_behind_the_copy() -> None:
    """The size of a box follows from a register, and from an expectation that comes after the copy."""
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .align 64 .b8 map[128]) .reqntid 1 {\n.shared .align 1024 .b8 tile[4096];\n"
        ".shared .align 8 .b8 bar[8];\n.reg .b64 %rd<3>; .reg .b32 %r<5>; .reg .pred %p;\n"
        "mov.b64 %rd1, map; mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r3, 0; mbarrier.init.shared.b64 [%r2], 1;\n"
        "fence.mbarrier_init.release.cluster; cp.async.bulk.tensor.2d.shared::cluster.global.tile"
        ".mbarrier::complete_tx::bytes [%r1], [%rd1, {%r3, %r3}], [%r2];\nmov.u32 %r4, 4096;\n"
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], %r4;\n"
        "AGAIN: mbarrier.try_wait.parity.shared.b64 %p, [%r2], 0; @!%p bra AGAIN; ret; }\n"
    )
    assert main_of(text, sugar=True)[0] == 0


def test_long_names_are_no_tuples() -> None:
    name = "k" * 120
    failed, namespace = main_of(HEAD + f".visible .entry {name}(.param .u64 .ptr .global out) {{ ret; }}\n")
    assert failed == 0
    assert list(namespace["SPECS"]) == [name]


def test_module_is_at_the_top() -> None:
    assert pyptx.Module is modules.Module


def test_kernel_from_ptx() -> None:
    kernel = pyptx.Kernel.from_ptx(KERNELS, entry="saxpy")
    assert kernel.name == "saxpy"
    assert kernel.arch == "sm_80"
    assert kernel.ptx() == KERNELS
    assert not [d for d in kernel.check() if d.severity == "error"]
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    pyptx.simulate(kernel, 64, np.float32(3.0), x, y, grid=(1,), block=(64,))
    np.testing.assert_array_equal(y, np.full(64, 4.0, np.float32))
    program = kernel.python()  # pyright: ignore[reportAttributeAccessIssue]
    assert "def saxpy(" in program


def test_kernel_from_ptx_says_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"which entry.*saxpy, block_sum"):
        pyptx.Kernel.from_ptx(KERNELS)
    with pytest.raises(ValueError, match=r"no entry gemm.*saxpy"):
        pyptx.Kernel.from_ptx(KERNELS, entry="gemm")
    with pytest.raises(pyptx.PTXError):
        pyptx.Kernel.from_ptx("no ptx\n")


@pytest.mark.parametrize(
    ("operator", "instruction"),
    [(">>", "shr.u32"), ("<<", "shl.b32"), ("&", "and.b32"), ("|", "or.b32"), ("^", "xor.b32")],
)
def test_a_number_on_the_left(operator: str, instruction: str) -> None:
    """A number on the left of an operator gives the instruction that a register there would."""
    source = (
        'from pyptx.modules import Module, inst, addr, special, load\nm = Module("sm_80")\n@m.entry(params=["u64"])\n'
        f"def k(out):\n    out = load(out)\n    inst.st.global_.u32(addr(out), -128 {operator} special.tid.x())\n    inst.ret()\n"
    )
    text = run(source).ptx()
    line = next(line for line in text.split("\n") if "-128" in line)
    assert line.split()[0] == instruction
    assert line.split()[2] == "-128,"
