"""Calls of kernels on GPU tensors, against a driver that records: parameters, descriptors, attributes, streams, errors.

The fake driver takes CPU tensors as tensors of its GPU 0, and does not run kernels.
"""

from __future__ import annotations

import struct
import threading
from typing import Any

import numpy as np
import pytest

from pyptx import Tile, dim, kernel, ptx
from pyptx.diagnostics import PTXError
from pyptx.runtime import launch
from pyptx.runtime.compile import compilers
from pyptx.runtime.driver import CudaError, LaunchShape, NoDriver, find_driver
from pyptx.runtime.shape import checked_shape
from pyptx.types import f32

from .conftest import FakeDriver
from .kernels import add, described, scaled_sum

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not compilers(), reason="neither nvJitLink nor ptxas is installed")


def pointer(parameter: bytes) -> int:
    return int.from_bytes(parameter, "little")


def arrays(rows: int = 5) -> tuple[Any, Any]:
    return torch.randn(rows, 64), torch.randn(64)


# --- what is launched


def test_pointers_and_scalars(fake: FakeDriver, launcher: str) -> None:
    x, w = arrays()
    y = scaled_sum()(x, w, scale=2.5)
    assert isinstance(y, torch.Tensor)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    [made] = fake.launches
    assert (made["name"], made["grid"], made["block"], made["smem"]) == ("scaled_sum", "5,1,1", "64,1,1", "0")
    assert (made["stream"], made["device"]) == ("0", "0")
    px, pw, py, scale = fake.parameters()
    assert [pointer(p) for p in (px, pw, py)] == [x.data_ptr(), w.data_ptr(), y.data_ptr()]
    assert struct.unpack("<f", scale) == (2.5,)


def test_every_call_is_a_launch_with_its_own_arguments(fake: FakeDriver, launcher: str) -> None:
    kernel = scaled_sum()
    for rows, scale in ((5, 1.0), (7, 2.0), (5, 3.0), (5, 3.0)):
        x, w = arrays(rows)
        y = kernel(x, w, scale=scale)
        assert fake.launches[-1]["grid"] == f"{rows},1,1"
        assert [pointer(p) for p in fake.parameters()[:3]] == [x.data_ptr(), w.data_ptr(), y.data_ptr()]
        assert struct.unpack("<f", fake.parameters()[3]) == (scale,)
    assert len(fake.launches) == 4
    assert fake.lines.count("module sm_90") == 1  # rows are not a part of the code


def test_sizes_at_run_time_are_arguments(fake: FakeDriver, launcher: str) -> None:
    N = dim("N", runtime=True)

    @kernel(in_specs=[Tile(N, f32)], out_specs=[Tile(N, f32)], grid=lambda N: -(-N // 64), block=64)
    def doubled(x: Any, out: Any, *, N: Any = None) -> None:
        i = ptx.special.ctaid.x() * 64 + ptx.special.tid.x()
        with ptx.if_(i < N):
            (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * 2.0)

    for size in (100, 64, 100, 7):
        x = torch.randn(size)
        y = doubled(x)
        assert fake.launches[-1]["grid"] == f"{-(-size // 64)},1,1"
        px, py, n = fake.parameters()
        assert (pointer(px), pointer(py), struct.unpack("<i", n)) == (x.data_ptr(), y.data_ptr(), (size,))
    assert fake.lines.count("module sm_90") == 1  # one cubin for all


def test_strides_at_run_time_are_arguments(fake: FakeDriver, launcher: str) -> None:
    N, PITCH = dim("N", runtime=True), dim("PITCH", runtime=True)

    @kernel(
        in_specs=[Tile(N, 4, f32, strides=(PITCH, 1))], out_specs=[Tile(N, 4, f32, strides=(PITCH, 1))],
        grid=lambda N: N, block=4,
    )  # fmt: skip
    def doubled(x: Any, out: Any, *, PITCH: Any = None) -> None:
        i = ptx.special.ctaid.x() * PITCH + ptx.special.tid.x()
        (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * 2.0)

    for rows, pitch in ((5, 4), (3, 10), (5, 10), (3, 10)):
        x = torch.zeros(8, pitch)[1 : rows + 1, :4]
        y = doubled(x)
        assert y.stride() == x.stride() == (pitch, 1)
        px, py, n, p = fake.parameters()
        assert (pointer(px), pointer(py)) == (x.data_ptr(), y.data_ptr())
        assert (struct.unpack("<i", n), struct.unpack("<i", p)) == ((rows,), (pitch,))
    assert fake.lines.count("module sm_90") == 1
    with pytest.raises(PTXError, match="so of stride 1 along axis 1"):
        doubled(torch.zeros(4, 4).T)


def test_out(fake: FakeDriver, launcher: str) -> None:
    kernel = scaled_sum()
    x, w = arrays()
    y = torch.empty_like(x)
    for _ in range(2):
        assert kernel(x, w, scale=1.0, out=y) is y
        assert pointer(fake.parameters()[2]) == y.data_ptr()
    with pytest.raises(PTXError, match=r"y must be Tile\(B, 64, f32\).*size 5"):
        kernel(x, w, scale=1.0, out=torch.empty(6, 64))


def test_descriptors(fake: FakeDriver, launcher: str) -> None:
    a, b = torch.zeros(128, 192, dtype=torch.bfloat16), torch.zeros(192, 256, dtype=torch.bfloat16)
    kernel = described()
    c = kernel(a, b)
    parameters = [pointer(p) for p in fake.parameters()]
    assert parameters[:3] == [t.data_ptr() for t in (a, b, c)]
    import ctypes

    for where, t in zip(parameters[3:], (a, b, c), strict=True):
        assert where % 64 == 0
        image = ctypes.string_at(where, 128)
        magic, kind, rank, swizzle, _ = struct.unpack_from("<4sBBBB", image)
        address, *rest = struct.unpack_from("<Q5Q4Q5H", image, 8)
        dims, strides, box = rest[:2], rest[5:6], rest[9:11]
        assert (magic, kind, rank, swizzle) == (b"FTM1", 9, 2, 3)  # bf16, a matrix, 128-byte swizzle
        assert address == t.data_ptr()
        assert dims == [t.shape[1], t.shape[0]]  # innermost first
        assert strides == [2 * t.shape[1]]
        assert box == [64, 64]


def test_descriptors_are_made_once(fake: FakeDriver, launcher: str) -> None:
    a, b = torch.zeros(64, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16)
    c = torch.zeros(64, 64, dtype=torch.bfloat16)
    kernel = described()
    for _ in range(5):
        kernel(a, b, out=c)
    assert fake.lines.count("encode") == 3
    first = fake.parameters()[3:]
    others = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(200)]  # more than a table holds
    for other in others:
        kernel(other, b, out=c)
    assert fake.lines.count("encode") == 203
    for other in others:
        kernel(other, b, out=c)
    kernel(a, b, out=c)
    assert fake.lines.count("encode") == 203
    assert fake.parameters()[3:] == first
    assert sum(line.startswith("alloc") for line in fake.lines) == 1


@pytest.mark.filterwarnings("ignore:.*never writes it")
def test_shared_memory_cluster_cooperative(fake: FakeDriver, launcher: str) -> None:
    import pyptx
    from pyptx import Tile, ptx, reg, smem
    from pyptx.types import f32, u8

    @pyptx.kernel(arch="sm_90a", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=(16, 1, 1),
                  block=(32, 1, 1), cluster=(16, 1, 1))  # fmt: skip
    def large(x, y):
        buffer = smem.alloc(u8, (100_000,))
        v = reg.scalar(f32, init=1.0)
        ptx.inst.st.shared.f32(ptx.addr(buffer), v)
        ptx.ret()

    large(torch.zeros(64))
    [made] = fake.launches
    assert int(made["smem"]) >= 100_000
    assert made["cluster"] == "16,1,1"
    attributes = [line for line in fake.lines if line.startswith("attribute large ")]
    assert "attribute large 8=232448" in attributes
    assert "attribute large 14=1" in attributes


def test_empty_tensors_make_no_launch(fake: FakeDriver, launcher: str) -> None:
    kernel = scaled_sum()
    for _ in range(2):
        y = kernel(torch.empty(0, 64), torch.zeros(64), scale=1.0)
        assert y.shape == (0, 64)
    a, b = torch.zeros(0, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16)
    assert described()(a, b).shape == (0, 64)
    assert fake.launches == []


def test_plans_are_bounded(fake: FakeDriver, launcher: str) -> None:
    kernel = add()
    for n in range(1, 100):
        kernel(torch.zeros(32 * n), torch.zeros(32 * n))
    assert len(fake.launches) == 99
    dispatcher = kernel._cubin_handles["launcher"].dispatcher(())
    count = dispatcher.__len__()
    assert count <= (128 if launcher == "python" else 64)
    kernel(torch.zeros(32), torch.zeros(32))  # the oldest, made again
    assert fake.launches[-1]["grid"] == "1,1,1"


# --- what is refused


def test_tiles_are_checked(fake: FakeDriver, launcher: str) -> None:
    kernel = scaled_sum()
    x, w = arrays()
    kernel(x, w, scale=1.0)
    for bad, words in [
        ((x.double(), w), "float64"),
        ((x[0], w), "rank 2"),
        ((x, torch.zeros(32)), "size 64 along axis 0"),
        ((x.t().contiguous().t(), w), "contiguous"),
        ((x.to("meta"), w), "meta"),
    ]:
        with pytest.raises(PTXError, match=words):
            kernel(*bad, scale=1.0)
    with pytest.raises(TypeError, match="takes 2"):
        kernel(x, w, w, scale=1.0)
    with pytest.raises(TypeError, match="pass scale="):
        kernel(x, w)
    with pytest.raises(PTXError, match=r"scale='big' is not a .f32"):
        kernel(x, w, scale="big")
    with pytest.raises(TypeError, match="all of one kind"):
        kernel(x, np.zeros(64, np.float32), scale=1.0)
    assert len(fake.launches) == 1


def test_misaligned_pointers(fake: FakeDriver, launcher: str) -> None:
    base = torch.zeros(64 * 64 + 8, dtype=torch.bfloat16)
    b = torch.zeros(64, 64, dtype=torch.bfloat16)
    kernel = described()
    kernel(base[8:].view(64, 64), b)  # 16 bytes in
    for shift in (1, 4):
        with pytest.raises(PTXError, match=r"a starts at an address that is not a multiple of 16.*TMA.*clone"):
            kernel(base[shift : shift + 64 * 64].view(64, 64), b)


def test_alignment_of_vector_accesses() -> None:
    assert launch.access_alignment("ld.global.f32 %f1, [%rd1];") == 4
    assert launch.access_alignment("ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];") == 16
    assert launch.access_alignment("st.global.v2.b64 [%rd1], {%rd1,%rd2};") == 16
    assert launch.access_alignment("ld.shared.v4.f32 {%f1}, [%r1]; ld.global.u16 %r1, [%rd1];") == 2
    assert launch.access_alignment("cp.async.cg.shared.global [%r1], [%rd1], 16;") == 16
    assert launch.access_alignment("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1]") == 16
    assert launch.access_alignment("cp.async.bulk.tensor.2d.shared::cluster.global [%r1]") == 1


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (LaunchShape((1, 65536, 1), (1, 1, 1)), "grid .* too large"),
        (LaunchShape((1 << 31, 1, 1), (1, 1, 1)), "grid .* too large"),
        (LaunchShape((1, 1, 1), (1025, 1, 1)), "at most 1024"),
        (LaunchShape((1, 1, 1), (1, 1, 65)), "z at most 64"),
        (LaunchShape((3, 1, 1), (1, 1, 1), (2, 1, 1)), "does not divide"),
        (LaunchShape((32, 1, 1), (1, 1, 1), (32, 1, 1)), "more than 16"),
        (LaunchShape((-1, 1, 1), (1, 1, 1)), "positive"),
        (LaunchShape((1, 1, 1), (0, 1, 1)), "positive"),
    ],
)
def test_impossible_shapes(shape: LaunchShape, words: str) -> None:
    with pytest.raises(PTXError, match=words):
        checked_shape("k", shape)


# --- what the driver refuses


@pytest.mark.parametrize(
    ("function", "code", "words"),
    [
        ("cuLaunchKernelEx", 701, r"launching add with grid \(2, 1, 1\), block \(32, 1, 1\): CUDA_ERROR_LAUNCH_OUT_OF"),
        ("cuModuleLoadData", 209, "loading add on Fake GPU 0.*NO_BINARY_FOR_GPU.*arch='auto'"),
        ("cuModuleLoadData", 200, "INVALID_IMAGE"),
        ("cuModuleGetFunction", 500, "finding add.*NOT_FOUND"),
        ("cuDevicePrimaryCtxRetain", 2, "out of memory.*free tensors"),
    ],
)
def test_driver_errors_say_what_was_tried(
    fake: FakeDriver, launcher: str, function: str, code: int, words: str
) -> None:
    kernel = add()
    x = torch.zeros(64)
    fake.fail(function, code)
    with pytest.raises(CudaError, match=words) as caught:
        kernel(x, x)
    assert caught.value.code == code
    kernel(x, x)  # and the next call is fine
    assert len(fake.launches) == 1


def test_a_fault_of_an_earlier_kernel(fake: FakeDriver, launcher: str) -> None:
    kernel = add()
    x = torch.zeros(64)
    kernel(x, x)
    fake.set("fault", 700)
    with pytest.raises(CudaError, match=r"add.*ILLEGAL_ADDRESS.*pyptx\.simulate.*PYPTX_SYNC=1"):
        kernel(x, x)


def test_synchronous_mode_names_the_kernel(fake: FakeDriver, launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_SYNC", "1")
    x = torch.zeros(64)
    add()(x, x)
    assert fake.lines[-1] == "synchronize"
    fake.fail("cuCtxSynchronize", 700)
    with pytest.raises(CudaError, match="running add: CUDA_ERROR_ILLEGAL_ADDRESS"):
        add()(x, x)


def test_gpu_too_old_or_another(fake: FakeDriver, launcher: str) -> None:
    x = torch.zeros(64)
    for major, minor, words in ((8, 0, "too old a GPU"), (10, 0, r"arch='auto', or .* arch=\(..., 'sm_100a'\)")):
        fake.set("major", major)
        fake.set("minor", minor)
        find_driver()._facts.clear()
        with pytest.raises(
            PTXError, match=rf"add is compiled for sm_90a, and Fake GPU 0 is sm_{major}{minor}.*{words}"
        ):
            add()(x, x)


def test_out_of_memory_for_descriptors(fake: FakeDriver, launcher: str) -> None:
    a = torch.zeros(64, 64, dtype=torch.bfloat16)
    fake.set("memory", 0)
    with pytest.raises(CudaError, match=r"memory for TMA descriptors.*OUT_OF_MEMORY.*free tensors"):
        described()(a, a)
    fake.set("memory", 1 << 30)
    described()(a, a)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTX_CUDA_DRIVER_LIBRARY", "/no/such/libcuda.so.1")
    with pytest.raises(NoDriver, match=r"/no/such/libcuda\.so\.1 cannot be loaded.*simulator"):
        find_driver()


# --- who must see the call


def test_what_torch_must_see_is_not_launched_directly(fake: FakeDriver, launcher: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    kernel = add()
    x = torch.zeros(64)
    kernel(x, x)
    run = kernel._cubin_handles["launcher"].plain.call
    assert run(x, x) is not NotImplemented
    grad = x.clone().requires_grad_()
    assert run(grad, x) is NotImplemented
    with torch.no_grad():
        assert run(grad, x) is not NotImplemented
    assert run(torch.nn.Parameter(x, requires_grad=False), x) is not NotImplemented

    class Sub(torch.Tensor):
        pass

    assert run(x.as_subclass(Sub), x) is NotImplemented
    with FakeTensorMode() as mode:
        assert run(mode.from_tensor(x), x) is NotImplemented
        assert run(x, x) is NotImplemented
    seen: list[Any] = []
    torch.vmap(lambda t: seen.append(run(t, t)) or t)(torch.zeros(3, 64))
    torch.func.grad(lambda t: seen.append(run(t, t)) or t.sum())(x)
    assert seen == [NotImplemented, NotImplemented]
    one = torch.tensor([1 + 2j]).conj().imag
    assert one.is_neg()
    kernel_of_one = kernel._cubin_handles["launcher"].plain
    assert kernel_of_one.call(one, one) is NotImplemented
    if launcher != "dlpack":  # which shows neither of them
        assert run(torch._neg_view(x), x) is NotImplemented
        assert run(torch._efficientzerotensor(64), x) is NotImplemented
    assert run(x.to_sparse(), x) is NotImplemented
    assert run(x.to("meta"), x) is NotImplemented


def test_the_operator_launches_and_leaves_gradients_to_torch(fake: FakeDriver, launcher: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    from pyptx.runtime.torch_ops import operator_name

    kernel = add()
    x, y = torch.zeros(64), torch.zeros(64)
    op = getattr(torch.ops.pyptx, operator_name(kernel)).default
    for count in (1, 2, 3):  # the first one makes the launcher
        found = op(x, y)
        assert (found.grad_fn, len(fake.launches)) == (None, count)
        assert [pointer(p) for p in fake.parameters()] == [t.data_ptr() for t in (x, y, found)]
    recorded = op(x.clone().requires_grad_(), y)
    assert recorded.requires_grad
    assert len(fake.launches) == 4
    with pytest.raises(PTXError, match="add has no gradient"):
        recorded.sum().backward()
    with FakeTensorMode() as mode:
        assert type(op(mode.from_tensor(x), mode.from_tensor(y))).__name__ == "FakeTensor"
    assert torch.vmap(lambda t: op(t, y))(torch.zeros(3, 64)).shape == (3, 64)
    assert len(fake.launches) == 7


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch.jit, which torch imports itself
def test_tangents_are_not_lost_on_the_fast_path(fake: FakeDriver, launcher: str) -> None:
    import torch.autograd.forward_ad as forward_ad

    kernel, x = add(), torch.randn(64)
    kernel(x, x)
    kernel(x, x)
    with forward_ad.dual_level():
        kernel(x, x)
        with pytest.raises(PTXError, match="add has no forward-mode derivative"):
            kernel(forward_ad.make_dual(x, x), x)
        with pytest.raises(PTXError, match="add has no forward-mode derivative"):
            kernel(x, x, out=forward_ad.make_dual(x, x))
    kernel(x, x)
    assert len(fake.launches) == 4


def test_copying_and_pickling_what_has_been_launched(
    fake: FakeDriver, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import copy
    import pickle
    import sys

    kernel, x = add(), torch.zeros(64)
    kernel(x, x)
    assert copy.deepcopy(kernel) is kernel
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"[Cc]an't pickle"):
        pickle.dumps(kernel)  # made inside of a function: as functions, it has no name to find it by
    kernel.__qualname__ = "made_here"
    kernel.__module__ = __name__
    monkeypatch.setattr(sys.modules[__name__], "made_here", kernel, raising=False)
    assert pickle.loads(pickle.dumps(kernel)) is kernel
    made = kernel.__class__.__new__(kernel.__class__)
    made.__setstate__(kernel.__getstate__())  # what cloudpickle sends to another machine
    made(x, x)
    assert len(fake.launches) == 2
    assert kernel._cubin_handles.keys() >= {"launcher"}


def test_another_context_is_current(fake: FakeDriver, launcher: str) -> None:
    """The launch happens in the context of the tensors, and the caller's comes back."""
    import ctypes

    driver = find_driver()
    kernel = add()
    x = torch.zeros(64)
    with driver.on(1) as other:
        kernel(x, x)
        kernel(x, x)
        current = ctypes.c_void_p()
        driver._call("cuCtxGetCurrent", ctypes.byref(current))
        assert current.value == other
    assert [made["device"] for made in fake.launches] == ["0", "0"]


def test_eight_threads(fake: FakeDriver, launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyptx.runtime import compile as compiling

    compiling._recent.clear()
    runs: list[Any] = []
    chosen = compiling._first_compiler()
    real = compiling._COMPILERS[chosen]
    monkeypatch.setitem(compiling._COMPILERS, chosen, lambda *a: (runs.append(a), real(*a))[1])
    kernel = add()
    start = threading.Barrier(8)
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            start.wait()
            for _ in range(50):
                x = torch.zeros(32 * n)
                assert kernel(x, x).shape == x.shape
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert fake.library.fake_launches() == 400
    assert len(runs) == 1
    assert len([line for line in fake.lines if line.startswith("module")]) == 1


def test_the_kernel_can_be_collected(fake: FakeDriver, launcher: str) -> None:
    import gc
    import weakref

    kernel = described()
    a = torch.zeros(64, 64, dtype=torch.bfloat16)
    kernel(a, a)
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None
