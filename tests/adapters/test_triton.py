"""Triton kernels, unmodified, on the simulator."""

from __future__ import annotations

import ctypes
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import pyptx
from pyptx import PTXError, SimulationError
from pyptx.adapters.triton.arguments import Arguments
from pyptx.diagnostics import SimulationWarning
from pyptx.passes.equivalent import differences
from pyptx.simulator.launch.options import CHECKS, SHAPE

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def collide(out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i // 2, i)  # two threads write different values to one place


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(left, right))


@triton.jit
def copy_tile(source, target, B: tl.constexpr):
    target.store([0, 0], source.load([0, 0]) * 2)


@triton.jit
def scale(x, factor, half, small, flag, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i) * factor + half + small
    tl.store(x + i, tl.where(flag != 0, value, 0.0))


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def test_a_launch_runs_and_is_recorded() -> None:
    x, y = random(1000), random(1000)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate() as run:
        add[(4,)](x, y, out, 1000, B=256)
    assert torch.equal(out, x + y)
    [launch] = run.launches
    assert (launch.kernel, launch.grid, launch.block) == ("add", (4, 1, 1), 128)
    assert launch.report.findings == [] and launch.report.instructions > 0


def test_views_and_aliases_are_where_they_are() -> None:
    """`x[1:]` is not aligned to 16 bytes, and out may be x."""
    x, y = random(1001), random(1001)
    want = x[1:] + y[1:]
    with pyptx.triton.simulate():
        add[(4,)](x[1:], y[1:], x[1:], 1000, B=256)
    assert torch.equal(x[1:], want)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_matrix_products(arch: str) -> None:
    a, b = random(64, 32, dtype=torch.float16), random(32, 64, dtype=torch.float16)
    c = torch.full((64, 64), torch.nan)
    with pyptx.triton.simulate(arch=arch):
        product[(1,)](a, b, c, 64, 64, 32)
    want = a.double() @ b.double()
    assert (c - want).norm() <= 1e-3 * want.norm()  # float32 sums of exact products


def test_tensor_descriptors() -> None:
    x = random(32, 64, dtype=torch.float16)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate(
        arch="sm_90", on_finding="raise"
    ) as run:  # warnings: Triton 3.9 has no fence after mbarrier.init
        copy_tile[(1,)](TensorDescriptor.from_tensor(x, [32, 64]), TensorDescriptor.from_tensor(out, [32, 64]), B=64)
    assert torch.equal(out, x * 2)
    assert any(opcode.startswith("cp.async.bulk.tensor") for opcode in run.launches[0].report.opcodes)


def test_scalars() -> None:
    x = torch.ones(128)
    with pyptx.triton.simulate():
        scale[(1,)](x, 2.5, 1, -3, True, B=128)
    assert torch.equal(x, torch.full((128,), 0.5))


@pytest.mark.parametrize(
    "value", [1e300, -1e300, float("nan"), float("inf"), 1 + 2**-8, 1 + 2**-9, 0.1, 65504.0, 1e-45, 0]
)
def test_floats_are_passed_as_by_a_launcher_in_c(value: float) -> None:
    """C's (float) of a double rounds to nearest, to infinity where it is too large; the `bf16` of Triton's launcher are the upper bits."""
    arguments = Arguments([(kind, kind) for kind in ("fp32", "bf16", "fp64")], [], pyptx.DeviceMemory())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single, brain, double = arguments.values([value] * 3)
    bits = struct.unpack("<I", bytes(ctypes.c_float(value)))[0]
    assert (single.dtype, int(single.view(np.uint32)), brain) == (np.float32, bits, bits >> 16)
    assert double == value or value != value
    half = Arguments([("x", "fp16")], [], pyptx.DeviceMemory())
    if abs(value) < 65520 or value in (float("inf"), float("-inf")) or value != value:
        assert half.values([value])[0].tobytes() == struct.pack("<e", value)
    else:
        with pytest.raises(OverflowError):
            half.values([value])


def test_findings_have_the_line_of_python() -> None:
    line = collide.fn.__code__.co_firstlineno + 3
    with pytest.warns(SimulationWarning, match=rf"test_triton\.py:{line}") as warned, pyptx.triton.simulate():
        collide[(1,)](torch.zeros(64, dtype=torch.int32), B=64)
    found = [warning for warning in warned if warning.category is SimulationWarning]  # Triton has warnings of its own
    assert {warning.filename for warning in found} == {__file__}  # where the kernel was launched, not in Triton
    with pytest.raises(SimulationError, match=rf"test_triton\.py:{line}") as raised:
        with pyptx.triton.simulate(on_finding="raise"):
            collide[(1,)](torch.zeros(64, dtype=torch.int32), B=64)
    assert str(raised.value).endswith("\nerror: collide: the launch broke a rule")  # after the findings
    with warnings.catch_warnings(), pyptx.triton.simulate(check=False):
        warnings.simplefilter("error", SimulationWarning)
        collide[(1,)](torch.zeros(64, dtype=torch.int32), B=64)


@triton.jit
def gather(table, out, B: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(table + row).to(tl.pointer_type(tl.float32))
    tl.store(out + row * B + tl.arange(0, B), tl.load(source + tl.arange(0, B)))


@triton.jit
def copy_from(address, out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.load(address.to(tl.pointer_type(tl.float32)) + tl.arange(0, B)))


def test_pointers_in_tables_and_as_integers() -> None:
    rows = [random(64), random(64), random(1000)[100:164]]  # one of them a view
    out = torch.full((3, 64), torch.nan)
    with pyptx.triton.simulate():
        gather[(3,)](torch.tensor([row.data_ptr() for row in rows]), out, B=64)
        assert torch.equal(out, torch.stack(rows))
        copy_from[(1,)](rows[2].data_ptr(), out, B=64)
        assert torch.equal(out[0], rows[2])
        with pytest.raises(SimulationError, match="out of bounds"):
            copy_from[(1,)](1 << 40, out, B=64)


def test_out_of_bounds_names_the_argument() -> None:
    x, out = random(100), random(1000)
    with pytest.raises(SimulationError, match=r"past the end of x \(400 bytes"), pyptx.triton.simulate():
        add[(4,)](x, x, out, 1000, B=256)


def test_autotuned_kernels_run_each_configuration() -> None:
    tuned = triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128}, num_warps=8)], key=["n"])(add)
    x, y = random(300), random(300)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate() as run:
        tuned[lambda meta: (triton.cdiv(300, meta["B"]),)](x, y, out, 300)
    assert torch.equal(out, x + y)
    assert {launch.block for launch in run.launches} == {128, 256}


def test_a_kernel_to_work_with() -> None:
    kernel = pyptx.triton.kernel(
        add, {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}, {"B": 128}, arch="sm_100"
    )
    assert isinstance(kernel, pyptx.LoadedKernel)
    x, out = np.ones(128, np.float32), np.full(128, np.nan, np.float32)
    kernel.simulate(x, x, out, 128, 0, 0, grid=1, block=128)
    assert (out == 2).all()


def test_an_edit_runs_in_place_of_what_was_compiled() -> None:
    x, y = random(128), random(128)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate() as run:
        run.edits["add"] = lambda text: text.replace("add.f32", "sub.f32")
        add[(1,)](x, y, out, 128, B=128)
    assert torch.equal(out, x - y)


@pytest.mark.parametrize(
    ("edit", "what"), [(lambda text: None, "returned NoneType"), (str.encode, "returned bytes"), (5, "is int")]
)
def test_an_edit_that_gives_no_text(edit: Any, what: str) -> None:
    x = random(128)
    with pyptx.triton.simulate() as run:
        run.edits["add"] = edit
        with pytest.raises(
            SimulationError, match=rf"run.edits\['add'\] {what}: an edit is a function that gets the PTX"
        ):
            add[(1,)](x, x, torch.full_like(x, torch.nan), 128, B=128)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ({"x": "*fp33", "y": "*fp32", "out": "*fp32", "n": "i32"}, r"parameter x: '\*fp33' is not a type of Triton\nhint: did you mean `\*fp32`"),
        ({"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i33"}, r"parameter n: 'i33' is not a type of Triton\nhint: did you mean `i32`"),
        ({"x": "*fp32", "y": "*fp32", "oot": "*fp32", "n": "i32"}, r"add has no parameter oot\nhint: did you mean `out`"),
    ],
)  # fmt: skip
def test_types_that_triton_does_not_have(signature: dict[str, str], said: str) -> None:
    with pytest.raises(pyptx.PTXError, match=said):
        pyptx.triton.kernel(add, signature, {"B": 128})


SUBTRACT = "add.f32", "sub.f32"


@pytest.mark.parametrize(
    ("edit", "wanted"),
    [
        (lambda text: lambda module: pyptx.to_ptx(module).replace(*SUBTRACT), torch.sub),
        (lambda text: text.replace(*SUBTRACT), torch.sub),
        (lambda text: pyptx.parse(text.replace(*SUBTRACT) + "\n"), torch.sub),
        (lambda text: "ptx-dce,ptx-strip-debug,canonicalize", torch.add),
    ],
    ids=["function", "text", "module", "pipeline"],
)
def test_override(edit, wanted) -> None:
    x, y = random(2, 128)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate() as run:
        compiled = add[(1,)](x, y, out, 128, B=128)
        override = pyptx.triton.override(add, edit(compiled.asm["ptx"]))
        for launch in (override[(1,)], override[(1,)], add[(1,)]):
            changed = launch(x, y, out, 128, B=128)
            assert torch.equal(out, (torch.add if changed is compiled else wanted)(x, y))
        assert changed is compiled, "the kernel itself is not edited"
        with override:
            add[(1,)](x, y, out, 128, B=128)
        assert torch.equal(out, wanted(x, y))
    assert len(run.launches) == 5


def test_an_override_is_what_is_assembled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a GPU would be given: Triton's PTX and its cubin are those of the edited kernel."""
    # Caches of the disk and of this process may hold the kernel with the path of another checkout.
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    fresh = triton.jit(add.fn)
    with pyptx.triton.simulate():
        plain = fresh.warmup(torch.float32, torch.float32, torch.float32, 128, B=128, grid=(1,))
        edited = pyptx.triton.override(fresh, lambda module: pyptx.to_ptx(module).replace(*SUBTRACT)).warmup(
            torch.float32, torch.float32, torch.float32, 128, B=128, grid=(1,)
        )
    assert edited.asm["ptx"] == plain.asm["ptx"].replace(*SUBTRACT)
    assert edited.asm["cubin"] != plain.asm["cubin"]


def test_an_override_of_an_autotuned_kernel_edits_every_configuration() -> None:
    tuned = triton.autotune([triton.Config({"B": 64}), triton.Config({"B": 128}, num_warps=8)], key=["n"])(add)
    x, y = random(2, 300)
    out = torch.full_like(x, torch.nan)
    with pyptx.triton.simulate() as run:
        edit = pyptx.triton.override(tuned, lambda module: pyptx.to_ptx(module).replace(*SUBTRACT))
        edit[lambda meta: (triton.cdiv(300, meta["B"]),)](x, y, out, 300)
    assert torch.equal(out, x - y)
    assert {launch.block for launch in run.launches} == {128, 256}


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("ptx-dcee", "pyptx has no pass 'ptx-dcee': did you mean `ptx-dce`"),
        ("ptx-dce{", "the pipeline 'ptx-dce{' is not valid"),
        (lambda m: pyptx.to_ptx(m).replace("add.f32", "add.f99"), r"<add, edited>:\d+:\d+: error: add has no modifier .f99"),
        (lambda m: pyptx.to_ptx(m).replace("entry add", "entry bdd"), "has no entry add; it has bdd"),
        (lambda m: pyptx.to_ptx(m).replace(".param .u32 add_param_3", ".param .u64 add_param_3"), "has parameters .* passes"),
        (lambda m: 5, "an edit is .*, not int"),
        (7, "an edit is .*, not int"),
    ],
)  # fmt: skip
def test_edits_that_cannot_be(edit, words: str) -> None:
    x = random(128)
    with pyptx.triton.simulate(), pytest.raises(PTXError, match=words):
        pyptx.triton.override(add, edit)[(1,)](x, x, x, 128, B=128)


def test_dump_is_a_program_that_makes_the_ptx() -> None:
    types = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
    text = pyptx.triton.ptx(add, types, {"B": 128})
    for sugar in (True, False):
        namespace = {"__name__": "dumped"}
        exec(pyptx.triton.dump(add, types, {"B": 128}, sugar=sugar), namespace)
        assert differences(pyptx.parse(text + "\n"), pyptx.parse(namespace["m"].ptx())) == []
    with pytest.raises(TypeError, match=r"int is not a function of triton\.jit or a compiled kernel"):
        pyptx.triton.dump(5)
    with pytest.raises(TypeError, match=r"override takes a kernel of triton\.jit, not int"):
        pyptx.triton.override(5, "ptx-dce")


def test_the_driver_is_the_former_one_afterwards() -> None:
    with pyptx.triton.simulate():
        pass
    with pytest.raises(RuntimeError, match="0 active drivers"):  # there is no GPU here
        triton.runtime.driver.active.get_current_target()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pyptx.triton.simulate(arch="hopper").__enter__(), ValueError, "unknown arch 'hopper'; known: "),
        # a target that LLVM does not know would end the process
        (
            lambda: pyptx.triton.simulate(arch="sm_91").__enter__(),
            ValueError,
            "unknown arch 'sm_91'; did you mean sm_90",
        ),
        (lambda: pyptx.triton.simulate(on_finding="stop").__enter__(), ValueError, "is not one of"),
        (lambda: pyptx.triton.ptx(add, {"x": "*fp32"}), pyptx.PTXError, "without a type or a constant: y, out, n, B"),
    ],
)
def test_what_cannot_be(call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_sessions_check_options_when_they_begin() -> None:
    for option in (*(n for n in CHECKS if n not in SHAPE), "on_finding"):
        for value in (None, 5, "x", [], object()):
            try:
                with pyptx.triton.simulate(**{option: value}):
                    pass
            except PTXError as error:
                assert option in str(error)
    with pytest.raises(TypeError, match=r"pyptx.triton.simulate has no option 'checks': did you mean `check`\?"):
        pyptx.triton.simulate(checks=True).__enter__()
    with pytest.raises(TypeError, match="has no option 'grid'"):
        pyptx.triton.simulate(grid=1).__enter__()


def test_an_override_is_refused_when_it_is_made() -> None:
    """A pass that does not exist needs no launch to be told."""
    with pytest.raises(PTXError, match="pyptx has no pass 'ptx-dec': did you mean `ptx-dce`"):
        pyptx.triton.override(add, "ptx-dec")
    with pytest.raises(RuntimeError, match="has not been entered: use it in a with statement"):
        pyptx.triton.override(add, "ptx-dce").__exit__(None, None, None)
