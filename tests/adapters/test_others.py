"""CuTe DSL, Numba and Warp: how their arguments are passed, and what is said where they are not installed."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import DeviceMemory, SimulationError
from pyptx.adapters import require
from pyptx.adapters.numba import NumbaKernel
from pyptx.adapters.warp import WarpKernel

# y[i] = x[i] + n with x of two dimensions and y of one, as Numba passes arrays: (manager, parent, items, bytes of an item,
# address, shape, strides), one parameter each
NUMBA = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(
  .param .u64 a0, .param .u64 a1, .param .u64 a2, .param .u64 a3, .param .u64 a4, .param .u64 a5, .param .u64 a6, .param .u64 a7,
  .param .u64 a8, .param .u64 b0, .param .u64 b1, .param .u64 b2, .param .u64 b3, .param .u64 b4, .param .u64 b5, .param .u64 b6,
  .param .u32 n)
{
  .reg .b32 %r<8>;
  .reg .b64 %rd<12>;
  mov.u32 %r1, %tid.x;
  ld.param.u64 %rd1, [a4];
  ld.param.u64 %rd2, [a3];
  cvt.u64.u32 %rd3, %r1;
  mad.lo.u64 %rd4, %rd3, %rd2, %rd1;
  ld.global.u32 %r2, [%rd4];
  ld.param.u32 %r3, [n];
  add.u32 %r2, %r2, %r3;
  ld.param.u64 %rd5, [a8];
  cvt.u32.u64 %r4, %rd5;
  add.u32 %r2, %r2, %r4;
  ld.param.u64 %rd6, [b4];
  ld.param.u64 %rd7, [b6];
  mad.lo.u64 %rd8, %rd3, %rd7, %rd6;
  st.global.u32 [%rd8], %r2;
  ret;
}
"""
# doubles each element: the bounds of the launch, then an array (address, gradient, shape, strides, dimensions)
WARP = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .align 8 .b8 bounds[24], .param .align 8 .b8 x[56])
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.u32 %r4, %r2, %r3, %r1;
  cvt.u64.u32 %rd1, %r4;
  ld.param.u64 %rd2, [bounds+8];
  setp.ge.u64 %p1, %rd1, %rd2;
  @%p1 ret;
  ld.param.u64 %rd3, [x];
  ld.param.s32 %r5, [x+32];
  mul.wide.u32 %rd4, %r4, %r5;
  add.u64 %rd5, %rd3, %rd4;
  ld.global.u32 %r6, [%rd5];
  shl.b32 %r6, %r6, 1;
  st.global.u32 [%rd5], %r6;
  ret;
}
"""


def test_arrays_as_numba_passes_them() -> None:
    found = pyptx.load(NUMBA)["add"]
    kernel = NumbaKernel(found.loaded, found.name, (2, 1, None))
    x, y = np.arange(8, dtype=np.uint32).reshape(2, 4), np.zeros(8, np.uint32)
    assert kernel.simulate(x, y, 5, grid=1, block=8).findings == []
    assert (y == np.arange(8) + 5 + 4).all()  # the stride of x's second dimension is 4 bytes
    with pytest.raises(SimulationError, match="argument 0 is not a NumPy array of 2 dimensions"):
        kernel.simulate(y, y, 5, grid=1, block=8)
    with pytest.raises(SimulationError, match="takes 3 arguments, not 2"):
        kernel.simulate(x, y, grid=1, block=8)


def test_arrays_as_warp_passes_them() -> None:
    found = pyptx.load(WARP)["twice"]
    kernel = WarpKernel(found.loaded, found.name)
    x = np.arange(300, dtype=np.uint32)
    memory = DeviceMemory()
    assert kernel.simulate(x, dim=300, memory=memory).findings == []  # two blocks of 256
    assert (x == 2 * np.arange(300)).all()
    with pytest.raises(SimulationError, match="dim must be a positive integer or up to 2 of them"):
        kernel.simulate(x, dim=(1, 2, 3))
    with pytest.raises(SimulationError, match="Warp's arrays have four at most"):
        kernel.simulate(np.zeros((1, 1, 1, 1, 1)), dim=1)


def test_the_structure_of_a_warp_array() -> None:
    """Addresses, 4 sizes, 4 strides in bytes, dimensions, 4 bytes of padding: the 56 bytes that `wp.array.__ctype__()` has in 1.19."""
    from pyptx.adapters.warp import ARRAY

    assert ARRAY.size == 56
    data = ARRAY.pack(0x1000, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1)
    assert data == struct.pack("<QQiiiiiiiiii", 0x1000, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0)


@pytest.mark.parametrize(
    ("module", "call", "words"),
    [
        ("cutlass", lambda: pyptx.cute.ptx(None), r"nvidia-cutlass-dsl is not installed: pip install"),
        ("numba", lambda: pyptx.numba.ptx(None, ()), r"numba-cuda is not installed: pip install"),
        ("warp", lambda: pyptx.warp.ptx(None), r"warp-lang is not installed: pip install"),
    ],
)
def test_what_is_missing_is_named(module: str, call: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec(module) is not None:  # hidden, where somebody has it

        def hidden(name: str) -> Any:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        monkeypatch.setattr(require, "import_module", hidden)
    with pytest.raises(require.MissingFrontEnd, match=words):
        call()


def test_a_version_that_is_too_old() -> None:
    with pytest.raises(
        require.MissingFrontEnd, match=r"numpy .* is too old: pip install 'numpy>=999' \(tested: 999\.1\)"
    ):
        require.required("numpy", "numpy", "999.1", "999")
