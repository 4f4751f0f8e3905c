"""Calling kernels on arrays: checks of the inputs, allocation of the outputs, results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from pyptx.diagnostics import PTXError
from pyptx.parser import parse_text
from pyptx.runtime.call import call_kernel

TEXT = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry scale(.param .u64 x, .param .u64 w, .param .u64 y, .param .u32 count)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [w];
    ld.param.u64 %rd3, [y];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %ntid.x;
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 exit;
    mad.lo.u32 %r5, %r2, %r4, %r3;
    mul.wide.u32 %rd4, %r5, 4;
    mul.wide.u32 %rd5, %r3, 4;
    add.s64 %rd1, %rd1, %rd4;
    add.s64 %rd2, %rd2, %rd5;
    add.s64 %rd3, %rd3, %rd4;
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd2];
    mul.f32 %f3, %f1, %f2;
    st.global.f32 [%rd3], %f3;
    ret;
}
"""
"""y[b, n] = x[b, n] * w[n] for n < count."""


@dataclass
class Type:
    name: str


@dataclass
class Tile:
    dims: tuple[int | str, ...]
    dtype: Type


F32 = Type("f32")


class Kernel:
    """What `call_kernel` asks of a traced kernel."""

    __name__ = "scale"
    in_specs = (Tile(("B", "N"), F32), Tile(("N",), F32))
    out_specs: tuple[Tile, ...] = (Tile(("B", "N"), F32),)
    block = (64, 1, 1)
    cluster = (1, 1, 1)
    smem = 0
    template_params: dict[str, Any] = {}
    _cubin_handles: dict[Any, Any] = {}

    def __init__(self) -> None:
        self._module = parse_text(TEXT, "<scale>")

    def _fn(self, x: object, w: object, y: object) -> None: ...

    @staticmethod
    def grid(B: int) -> int:
        return B

    def module(self, **kwargs: Any) -> Any:
        return self._module


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
    class Bare(Kernel):
        in_specs = None  # pyright: ignore[reportAssignmentType]

    with pytest.raises(NotImplementedError, match="no in_specs"):
        call_kernel(Bare(), (), {})
