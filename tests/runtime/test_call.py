"""Calling kernels on arrays: checks of the inputs, allocation of the outputs, results."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.diagnostics import PTXError, SimulationWarning
from pyptx.runtime.call import call_kernel
from pyptx.types import f32, u32

from .kernels import add, scaled_sum


def Kernel() -> Any:
    """y[b, n] = x[b, n] * w[n] for n < count; N <= 64."""

    @kernel(
        in_specs=(Tile("B", "N", f32), Tile("N", f32)), out_specs=(Tile("B", "N", f32),), grid=lambda B: B, block=64,
        raw_params=[("u32", "count")],
    )  # fmt: skip
    def scale(x, w, y, *, N):
        px, pw, py = ptx.global_ptrs(x, w, y)
        column = ptx.special.tid.x()
        with ptx.if_(column < ptx.param(u32, "count")):
            here = (ptx.special.ctaid.x() * N + column) * 4
            a = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(px + here))
            b = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(pw + column * 4))
            ptx.inst.st.global_.f32(ptx.addr(py + here), a * b)
        ptx.ret()

    return scale


def arrays(rows: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    return rng.normal(size=(rows, 64)).astype(np.float32), rng.normal(size=64).astype(np.float32)


@pytest.mark.parametrize("rows", [1, 5, 200])
def test_numpy(rows: int) -> None:
    x, w = arrays(rows)
    y = call_kernel(Kernel(), (x, w), {"count": 64})
    assert isinstance(y, np.ndarray)
    assert np.array_equal(y, x * w)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x, w = arrays()
    y = call_kernel(Kernel(), (torch.from_numpy(x), torch.from_numpy(w)), {"count": 64})
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, torch.from_numpy(x * w))


def test_what_is_not_written_is_not_zero() -> None:
    x, w = arrays()
    y = call_kernel(Kernel(), (x, w), {"count": 60})
    assert np.array_equal(y[:, :60], (x * w)[:, :60])
    assert np.isnan(y[:, 60:]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, w: (x.astype(np.float64), w), ("x must be Tile(B, N, f32)", "float32", "is float64")),
        (lambda x, w: (x.astype(np.float16), w), ("x must be", "is float16")),
        (lambda x, w: (x[0], w), ("x must be Tile(B, N, f32)", "rank 2", "rank 1")),
        (lambda x, w: (x, w[:32].copy()), ("w must be", "size 64 along axis 0 (N = 64")),
        (lambda x, w: (np.ascontiguousarray(x.T).T, w), ("x must be", "contiguous")),
    ],
)
def test_inputs_are_held_to_their_tiles(change: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(PTXError) as caught:
        call_kernel(Kernel(), change(*arrays()), {"count": 64})
    for word in words:
        assert word in str(caught.value)


def test_wrong_kinds_and_counts() -> None:
    torch = pytest.importorskip("torch")
    x, w = arrays()
    with pytest.raises(TypeError, match="takes 2 arrays, not 1"):
        call_kernel(Kernel(), (x,), {"count": 64})
    with pytest.raises(TypeError, match="not list"):
        call_kernel(Kernel(), (x, w.tolist()), {"count": 64})
    with pytest.raises(TypeError, match="all of one kind"):
        call_kernel(Kernel(), (torch.from_numpy(x), w), {"count": 64})
    with pytest.raises(TypeError, match="pass count="):
        call_kernel(Kernel(), (x, w), {})
    with pytest.raises(PTXError, match="x is on meta"):
        call_kernel(Kernel(), (torch.empty(5, 64, device="meta"), torch.from_numpy(w)), {"count": 64})
    with pytest.raises(PTXError, match="B=7, but the arrays say B = 5"):
        call_kernel(Kernel(), (x, w), {"count": 64, "B": 7})


def test_without_specs() -> None:
    with pytest.raises(NotImplementedError, match="no in_specs"):
        call_kernel(kernel(lambda: ptx.ret()), (), {})


# --- shapes of launches


def shaped(**options: Any) -> Any:
    @kernel(in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), raw_params=[("u32", "n")], **options)
    def shaped(x, y):
        ptx.ret()

    return shaped


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": 0}, r"grid \(0, 1, 1\) has no CTAs, and the output y has elements"),
        ({"grid": lambda N: N // 64}, "has no CTAs"),
        ({"grid": -1}, "the grid of kernel shaped is one to three positive ints, not -1"),
        ({"grid": (1, 1, 1, 1)}, "one to three"),
        ({"grid": 1.5}, "positive ints, not 1.5"),
        ({"grid": (1, 65536)}, "too large"),
        ({"grid": 1, "block": 0}, "the block of kernel shaped"),
        ({"grid": 1, "block": 1025}, "at most 1024"),
        ({"grid": 3, "cluster": 2}, "does not divide"),
    ],
)
@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_launches_that_cannot_be(options: Any, words: str, framework: str) -> None:
    module = pytest.importorskip({"jax": "jax.numpy"}.get(framework, framework))
    with pytest.raises(PTXError, match=words):
        shaped(**options)(module.ones(32, dtype=module.float32), n=1)


@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_grids_of_zero_and_of_raw_parameters() -> None:
    assert shaped(grid=lambda N: N)(np.empty(0, np.float32), n=1).shape == (0,)
    assert shaped(grid=lambda n: n, block=lambda N: N)(np.empty(32, np.float32), n=2).shape == (32,)


# --- what torch users do


def test_out_of_torch() -> None:
    torch = pytest.importorskip("torch")
    k, x = add(), torch.ones(32)
    assert torch.equal(k(x, x, out=None), 2 * x)
    assert k(x, x, out=x) is x
    assert torch.equal(x, torch.full((32,), 2.0))
    with pytest.raises(PTXError, match="out= is a negated view"):
        k(x, x, out=torch._neg_view(x))
    memory = torch.ones(48)
    with pytest.raises(PTXError, match="out= for z is a part of the memory of y: pass a copy"):
        k(x, memory[:32], out=memory[16:])
    assert torch.equal(k(x[:0], x[:0], out=x[:0]), x[:0])
    for inputs, out in ((x.clone().requires_grad_(), x), (x, x.clone().requires_grad_())):
        with pytest.raises(PTXError, match=r"out= has no gradient.*torch.no_grad"):
            k(inputs, x, out=out)
        with torch.no_grad():
            assert k(inputs, x, out=out) is out


def test_negated_and_conjugated_views() -> None:
    torch = pytest.importorskip("torch")
    z = torch.randn(32, dtype=torch.complex64)
    for view in (z.conj().imag, torch._neg_view(torch.randn(32)), z.conj().imag.contiguous()):
        assert torch.equal(add()(view, torch.zeros(32)), view.clone())
        assert torch.equal(add()(torch.zeros(32), view, out=torch.empty(32)), view.clone())
    with pytest.raises(PTXError, match="contiguous"):
        add()(z.real, torch.zeros(32))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_are_not_dense() -> None:
    torch = pytest.importorskip("torch")
    k, w = scaled_sum(), torch.zeros(64)
    for wrong in (torch.ones(3, 64).to_sparse(), torch.nested.nested_tensor([torch.ones(64)])):
        with pytest.raises(PTXError, match="a dense tensor, and is"):
            k(wrong, w, scale=1.0)


def test_mixed_frameworks() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    x = torch.ones(32)
    for other, words in ((x.numpy(), "y is a NumPy array"), (jax.numpy.ones(32), "y is a JAX array")):
        with pytest.raises(TypeError, match=f"x is a torch tensor and {words}"):
            add()(x, other)


def test_scalars() -> None:
    torch = pytest.importorskip("torch")
    k, x, w = scaled_sum(), torch.randn(3, 64), torch.randn(64)
    for two in (2, 2.0, np.float16(2), np.array(2.0), torch.tensor(2.0)):
        torch.testing.assert_close(k(x, w, scale=two), 2 * x + w)
    for wrong in ("2", 1e300, torch.ones(2)):
        with pytest.raises(
            (PTXError, RuntimeError), match=r"scale=.*is not a .f32|only one element|converted to Scalar"
        ):
            k(x, w, scale=wrong)


def test_unknown_options_of_launch() -> None:
    x = np.zeros(32, np.float32)
    with pytest.raises(TypeError, match="launch has no option 'clusters'; it has: cluster,"):
        add().launch(1, 32, [x, x, x], clusters=2)


@pytest.mark.parametrize("imported", [False, True])
def test_calls_of_launch_that_lack_a_part(imported: bool) -> None:
    x = np.zeros(32, np.float32)
    traced: Any = add()
    launch = (pyptx.load(traced.ptx(N=32))["add"] if imported else traced).launch
    for call, message in (
        (lambda: launch(x, grid=8), "launch is given grid twice, in its place and by name"),
        (lambda: launch(x), "launch is not given block"),
        (lambda: launch(grid=1, block=32), "launch is not given args"),
        (lambda: launch(1, 32, x), "the arguments of a launch are a list or a tuple, not ndarray"),
        (lambda: launch(x, 1, 32), "the arguments of a launch are a list or a tuple, not int"),
        (lambda: launch(1, 32, [x, x, x], 1024), "launch is given 4 values, and other options go by name"),
    ):
        with pytest.raises(TypeError) as raised:
            call()
        assert str(raised.value).startswith(message) and "kernel.launch(8, 128, [x, n])" in str(raised.value)
    one, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    launch(block=32, grid=1, args=(one, one, y))
    assert (y == 2).all()


def test_out_on_the_cpu() -> None:
    """`out=` names arrays to write into, checked as inputs are."""

    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32), Tile("N", f32)], grid=1, block=32)
    def both(x, y, z):
        tid = ptx.special.tid.x()
        value = (ptx.pointer(x) + tid).load()
        (ptx.pointer(y) + tid).store(value + 1.0)
        (ptx.pointer(z) + tid).store(value * 2.0)

    x = np.random.default_rng().standard_normal(32, dtype=np.float32)
    y, z = np.full(32, np.nan, np.float32), np.full(32, np.nan, np.float32)
    result = both(x, out=(y, z))
    assert result[0] is y
    assert result[1] is z
    assert np.array_equal(y, x + 1)
    assert np.array_equal(z, x * 2)
    with pytest.raises(TypeError, match="takes 3 arrays, not 2"):
        both(x, out=y)
    with pytest.raises(PTXError, match="z must be Tile"):
        both(x, out=(y, z[:16]))
    with pytest.raises(PTXError, match="out= for z is the same memory as y: pass a copy"):
        both(x, out=(y, y))
    both(x, out=(x, z))  # in place of an input is fine
    both_of = np.zeros(48, np.float32)
    with pytest.raises(PTXError, match="out= for y is a part of the memory of x: pass a copy"):
        both(both_of[:32], out=(both_of[16:], z))
    y.flags.writeable = False
    with pytest.raises(PTXError, match="read-only"):
        both(x, out=(y, z))


def test_warnings_are_at_the_call() -> None:
    """A finding is reported at the line that called the kernel, whatever array type it was called with."""
    torch = pytest.importorskip("torch")

    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=1, block=64)
    def racing(x, y):
        s = smem.alloc(f32, 1)
        tid = ptx.special.tid.x()
        smem.store(f32, s[0], (ptx.pointer(x) + tid).load())
        (ptx.pointer(y) + tid).store(smem.load(f32, s[0]))

    x = np.random.default_rng().standard_normal(64, dtype=np.float32)
    calls = [
        lambda: racing(x),
        lambda: racing(torch.from_numpy(x)),
        lambda: racing(torch.from_numpy(x).requires_grad_()),
        lambda: racing.launch(1, 64, (x, np.zeros_like(x))),
    ]
    for call in calls:
        with pytest.warns(SimulationWarning) as caught:
            call()
        assert {w.filename for w in caught} == {__file__}
        assert {w.lineno for w in caught} == {call.__code__.co_firstlineno}


@pytest.mark.parametrize("leaving", [40, 32])
def test_calls_show_warnings_of_the_sanitizer_too(leaving: int) -> None:
    """Threads of a warp that have ended at an aligned barrier: a warning, which a call must not swallow."""

    @kernel(in_specs=[], out_specs=[Tile(64, u32)], grid=1, block=64)
    def ending(y):
        tid = ptx.special.tid.x()
        with ptx.if_(tid >= leaving):
            ptx.ret()
        ptx.bar.sync(0)
        (ptx.pointer(y) + tid).store(tid)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ending()
    found = [str(w.message) for w in caught if issubclass(w.category, SimulationWarning)]
    assert [": warning: " in text for text in found] == ([True] if leaving == 40 else [])


@pytest.mark.parametrize("grid", ["1", 1.0, (1, 1, 1, 1), ("1",)])
def test_launch_shapes_are_ints(grid: object) -> None:
    @kernel(raw_params=[("u64", "x")])
    def nothing():
        ptx.ret()

    with pytest.raises(PTXError, match="grid"):
        nothing.launch(grid, 32, (np.zeros(4, np.float32),))
    with pytest.raises(PTXError, match="grid"):
        pyptx.simulate(nothing, np.zeros(4, np.float32), grid=grid, block=32)
