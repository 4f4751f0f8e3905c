"""`launch` with explicit arguments: raw kernels and imported PTX, on the simulator and against the recording driver."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import kernel, ptx, reg
from pyptx.diagnostics import PTXError
from pyptx.runtime.compile import compilers
from pyptx.runtime.driver import CudaError, NoDriver, find_driver
from pyptx.runtime.streams import stream_handle
from pyptx.types import u32, u64

from .conftest import FakeDriver

torch = pytest.importorskip("torch")
needs_compiler = pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")

TEXT = """.version 8.0
.target sm_90
.address_size 64
.visible .entry fill(.param .u64 out, .param .u32 value, .param .f32 f,
    .param .align 64 .b8 map[128], .param .s16 small)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""


def fill() -> Any:
    return pyptx.load(TEXT)["fill"]


def raw() -> Any:
    @kernel(arch="sm_90a", raw_params=[("u64.ptr.global.palign4", "out"), ("u32", "value")])
    def raw_fill():
        out, value = ptx.param(u64, "out"), ptx.param(u32, "value")
        where = reg.from_(ptx.special.tid.x(), u32) * 4
        ptx.inst.st.global_.u32(ptx.addr(out + where), value)
        ptx.ret()

    return raw_fill


def test_cpu_arrays_run_on_the_simulator() -> None:
    out = np.zeros(32, np.uint32)
    fill().launch(1, 32, (out, 7, 1.5, bytes(128), -3))
    assert (out == 7).all()
    tensor = torch.zeros(32, dtype=torch.int32)
    raw().launch((1, 1, 1), (32, 1, 1), (tensor, 9))
    assert (tensor == 9).all()


@needs_compiler
def test_arguments(fake: FakeDriver) -> None:
    out = torch.zeros(32, dtype=torch.int32)
    box = bytes(range(128))
    fill().launch((2, 3), 32, (out, 7, 1.5, box, -3), smem=1024, cluster=(2, 1), programmatic=True, cooperative=True)
    [made] = fake.launches
    assert (made["grid"], made["block"], made["smem"]) == ("2,3,1", "32,1,1", "1024")
    assert (made["cluster"], made["programmatic"], made["cooperative"]) == ("2,1,1", "1", "1")
    pointer, value, f, by_value, small = fake.parameters()
    assert int.from_bytes(pointer, "little") == out.data_ptr()
    assert struct.unpack("<I", value) == (7,)
    assert struct.unpack("<f", f) == (1.5,)
    assert by_value == box
    assert struct.unpack("<h", small) == (-3,)
    raw().launch(1, 32, (out.data_ptr(), np.uint32(5)))
    assert struct.unpack("<I", fake.parameters()[1]) == (5,)


@needs_compiler
def test_streams(fake: FakeDriver) -> None:
    driver = find_driver()
    made = [ctypes.c_void_p(), ctypes.c_void_p()]
    for device in (0, 1):
        with driver.on(device):
            driver.check(driver._call("cuStreamCreate", ctypes.byref(made[device]), 1), "")
    out = torch.zeros(32, dtype=torch.int32)

    class CoreStream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, made[0].value or 0

    class TorchStream:
        cuda_stream = made[0].value

    for stream in (CoreStream(), TorchStream(), made[0].value):
        raw().launch(1, 32, (out, 1), stream=stream)
        assert int(fake.launches[-1]["stream"], 16) == made[0].value
    with pytest.raises(PTXError, match="is of another GPU"):
        raw().launch(1, 32, (out, 1), stream=made[1].value)
    raw().launch(1, 32, (0x1000, 1), stream=made[1].value, device=1)
    assert fake.launches[-1]["device"] == "1"
    fake.library.cuStreamDestroy_v2(made[0])
    with pytest.raises(CudaError, match=r"was it destroyed\?\): CUDA_ERROR_INVALID_HANDLE"):
        raw().launch(1, 32, (out, 1), stream=made[0].value)
    with pytest.raises(TypeError, match="not str"):
        stream_handle("stream")


@needs_compiler
def test_what_is_refused(fake: FakeDriver) -> None:
    out = torch.zeros(32, dtype=torch.int32)
    good = (out, 7, 1.5, bytes(128), -3)
    k = fill()
    for args, words in [
        (good[:-1], r"takes 5 arguments, not 4: out \(\.u64\)"),
        ((out, 1 << 40, *good[2:]), "value is a .u32: .* does not fit"),
        ((out, 7, 1.5, bytes(64), -3), "map is passed by value as 128 bytes .*, not 64 bytes"),
        ((out, 7, out, bytes(128), -3), "f is a .f32, not a pointer"),
        ((np.zeros(3), *good[1:]), "out is a NumPy array"),
        ((out, "seven", *good[2:]), "value is a .u32"),
    ]:
        with pytest.raises(PTXError, match=words):
            k.launch(1, 32, args)
    for grid, block, words in [
        (0, 32, "has no CTAs"),
        ((1, 1, 1, 1), 32, "grid is one to three"),
        (1, 2048, "at most 1024"),
        ((1, 70000), 32, "too large"),
    ]:
        with pytest.raises(PTXError, match=words):
            k.launch(grid, block, good)
    with pytest.raises(CudaError, match=r"fill.*300000 of dynamic shared memory"):
        k.launch(1, 32, good, smem=300_000)
    assert fake.launches == []


def test_addresses_need_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_CUDA_DRIVER_LIBRARY", "/no/such/library.so")
    with pytest.raises(NoDriver, match="simulator"):
        raw().launch(1, 32, (0x1000, 1))
