"""Kernels for several targets: which one runs where, `arch="auto"`, GPUs and drivers that are too old.

The fake driver reads the arch of a cubin from its ELF header and refuses one of another GPU, as NVIDIA's does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import Tile, fat_kernel, kernel, ptx, reg
from pyptx.diagnostics import PTXError
from pyptx.runtime.compile import compilers
from pyptx.runtime.driver import CudaError, find_driver
from pyptx.runtime.targets import auto_target, best_target, runs_on
from pyptx.types import f32, u32

from .conftest import FakeDriver
from .kernels import add

needs_compiler = pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")


def numbered(arch: Any, **options: Any) -> Any:
    """y[i] = the number of the target that the kernel was traced for; 32 elements."""

    @kernel(arch=arch, in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), grid=1, **{"block": 32, **options})
    def numbered(x, y):
        (py,) = ptx.global_ptrs(y)
        number = float(ptx.target().removeprefix("sm_").rstrip("af"))
        ptx.inst.st.global_.f32(ptx.addr(py + reg.from_(ptx.special.tid.x(), u32) * 4), reg.scalar(f32, init=number))
        ptx.ret()

    return numbered


@pytest.mark.parametrize(
    ("arch", "runs", "does_not"),
    [
        ("sm_80", [(8, 0), (8, 6), (9, 0), (12, 0)], [(7, 5)]),
        ("sm_86", [(8, 6), (8, 9), (10, 0)], [(8, 0)]),
        ("sm_90", [(9, 0), (10, 0)], [(8, 9)]),
        ("sm_90a", [(9, 0)], [(8, 0), (10, 0)]),
        ("sm_100a", [(10, 0)], [(10, 3), (9, 0)]),
        ("sm_100f", [(10, 0), (10, 3)], [(11, 0), (12, 0), (9, 0)]),
        ("sm_103f", [(10, 3)], [(10, 0)]),
    ],
)
def test_where_targets_run(arch: str, runs: Any, does_not: Any) -> None:
    """PTX ISA 11.1.2."""
    assert all(runs_on(arch, c) for c in runs)
    assert not any(runs_on(arch, c) for c in does_not)


def test_the_best_target() -> None:
    archs = ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_100f", "sm_103a")
    assert [best_target(archs, c) for c in ((7, 5), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0))] == [
        None, "sm_80", "sm_90a", "sm_100f", "sm_103a", "sm_100",
    ]  # fmt: skip
    assert [auto_target(c) for c in ((8, 6), (9, 0), (12, 1))] == ["sm_86", "sm_90a", "sm_121a"]
    assert auto_target((13, 0)) == "sm_121"  # not known yet: the newest that is, compiled for it


@needs_compiler
@pytest.mark.parametrize(
    ("capability", "arch"), [((9, 0), "sm_90a"), ((10, 0), "sm_100a"), ((8, 6), "sm_80"), ((12, 0), "sm_80")]
)
@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_a_launch_takes_the_target_of_the_gpu(fake: FakeDriver, launcher: str, capability: Any, arch: str) -> None:
    torch = pytest.importorskip("torch")
    fake.set("major", capability[0])
    fake.set("minor", capability[1])
    seen: list[str] = []

    @kernel(
        arch=("sm_80", "sm_90a", "sm_100a"), in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), grid=1, block=32
    )
    def spy(x, y):
        seen.append(ptx.target())
        ptx.ret()

    x = torch.zeros(32)
    for _ in range(2):
        spy(x)
    assert seen == [arch]
    assert len(fake.launches) == 2
    # code for an older major version is compiled for the GPU itself
    cubin = arch.removeprefix("sm_").rstrip("a") if arch == "sm_80" and capability[0] == 8 else None
    expected = cubin or f"{capability[0]}{capability[1]}"
    assert [line for line in fake.lines if line.startswith("module")] == [f"module sm_{expected}"]


@needs_compiler
def test_gpus_of_two_generations(fake: FakeDriver) -> None:
    """One raw kernel on both GPUs of a machine: each gets its own code."""
    fake.set("major1", 10)
    both = kernel(arch=("sm_90a", "sm_100a"), raw_params=[("u32", "n")])(_nothing)
    for device in (0, 1, 0):
        both.launch(1, 32, [7], device=device)
    assert [made["device"] for made in fake.launches] == ["0", "1", "0"]
    assert [line for line in fake.lines if line.startswith("module")] == ["module sm_90", "module sm_100"]
    with pytest.raises(PTXError, match=r"_nothing is compiled for sm_90a, and Fake GPU 1 is sm_100.*arch='auto'"):
        both.variant("sm_90a").launch(1, 32, [7], device=1)


def _nothing() -> None:
    ptx.ret()


@needs_compiler
def test_auto_is_the_gpu_of_the_launch(fake: FakeDriver) -> None:
    fake.set("major1", 12)
    auto = kernel(arch="auto", raw_params=[("u32", "n")])(_nothing)
    assert "sm_90a" in auto.ptx()  # printed without a GPU in sight
    for device in (0, 1):
        auto.launch(1, 32, [7], device=device)
    assert [line for line in fake.lines if line.startswith("module")] == ["module sm_90", "module sm_120"]


@needs_compiler
def test_a_gpu_that_is_too_old(fake: FakeDriver, launcher: str) -> None:
    torch = pytest.importorskip("torch")
    fake.set("major", 8)
    with pytest.raises(PTXError, match="numbered is compiled for sm_90a and sm_100a, and Fake GPU 0 is sm_80: too old"):
        numbered(("sm_90a", "sm_100a"))(torch.zeros(32))
    assert fake.launches == []


@needs_compiler
def test_a_driver_that_is_too_old(fake: FakeDriver, launcher: str) -> None:
    """A driver of CUDA 12 does not read the cubins of a compiler of CUDA 13."""
    torch = pytest.importorskip("torch")
    fake.set("version", 12080)
    x = torch.zeros(64)
    with pytest.raises(CudaError, match=r"loading add on Fake GPU 0 \(sm_90, driver for CUDA 12.8\).*too old for code of "
                       r"\w+ 13.*update the driver to one for CUDA 13, or compile with CUDA 12"):  # fmt: skip
        add()(x, x)
    fake.set("version", 13000)
    find_driver.__globals__["_open"].cache_clear()
    add()(x, x)
    assert len(fake.launches) == 1


# --- without a GPU


def test_the_simulator_and_printing_take_the_first() -> None:
    fat = numbered(("sm_100a", "sm_90a", "sm_80"))
    assert fat.arch == "sm_100a"
    assert fat.archs == ("sm_100a", "sm_90a", "sm_80")
    assert ".target sm_100a" in fat.ptx()
    assert ".target sm_90a" in fat.variant("sm_90a").ptx()
    assert fat(np.zeros(32, np.float32)).tolist() == [100.0] * 32
    assert fat.variant("sm_80")(np.zeros(32, np.float32)).tolist() == [80.0] * 32
    assert repr(fat) == "Kernel(numbered, arch=('sm_100a', 'sm_90a', 'sm_80'))"
    assert fat.variant("sm_90a") is fat.variant("sm_90a")


def test_fat_kernels_of_different_kernels() -> None:
    small = numbered("sm_90a", block=32)

    @kernel(arch=("sm_100a", "sm_103a"), in_specs=(Tile(32, f32),), out_specs=(Tile(32, f32),), grid=1, block=64)
    def other(x, y):
        ptx.ret()

    both = pyptx.fat_kernel(small, other)
    assert both.archs == ("sm_90a", "sm_100a", "sm_103a")
    assert both.variant("sm_103a").block == 64
    assert both.variant("sm_90a").block == 32
    assert both(np.zeros(32, np.float32)).tolist() == [90.0] * 32


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: numbered(()), ValueError, "name a target"),
        (lambda: numbered(("sm_90a", "sm_90a")), ValueError, "different"),
        (lambda: numbered(("sm_90a", "auto")), ValueError, "unknown arch 'auto'"),
        (lambda: numbered("sm_99a"), ValueError, "unknown arch 'sm_99a'; did you mean"),
        (lambda: numbered("sm_91"), ValueError, "did you mean sm_90 or sm_90a"),
        (lambda: numbered("sm_90a").variant("sm_100a"), ValueError, "numbered is for sm_90a, not sm_100a"),
        (lambda: fat_kernel(numbered("sm_90a"), numbered("sm_90a")), ValueError, "different"),
        (lambda: fat_kernel(numbered("sm_90a"), add()), TypeError, "in_specs"),
        (lambda: fat_kernel(), TypeError, "a kernel for each"),
        (ptx.target, PTXError, "no kernel is being traced"),
    ],
)
def test_what_no_fat_kernel_can_be(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@needs_compiler
def test_jax_carries_all_targets(fake: FakeDriver) -> None:
    pytest.importorskip("jax")
    from pyptx.runtime.jax_ffi import Program, program_of

    program = program_of(numbered(("sm_90a", "sm_100a")), [((32,), "float32")], {})
    again = Program.from_text(program.text())
    assert again == program.from_text(program.text())
    assert again.text() == program.text()
    assert again.on(find_driver().facts(0)).arch == "sm_90a"
    fake.set("major1", 10)
    assert again.on(find_driver().facts(1)).arch == "sm_100a"
    fake.set("major1", 12)
    find_driver()._facts.clear()
    with pytest.raises(PTXError, match="numbered is compiled for sm_90a and sm_100a, and Fake GPU 1 is sm_120"):
        again.on(find_driver().facts(1))


@needs_compiler
def test_jax_launches_the_target_of_the_gpu(fake: FakeDriver) -> None:
    jax = pytest.importorskip("jax")
    fake.set("major", 10)
    kernel = numbered(("sm_90a", "sm_100a"))
    jax.block_until_ready(jax.jit(kernel)(jax.numpy.zeros(32)))
    assert [made["name"] for made in fake.launches] == ["numbered"]
    assert [line for line in fake.lines if line.startswith("module")] == ["module sm_100"]
