"""The foreign declarations against the headers they copy, where those are installed."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pyptx.runtime.driver import Attribute, LaunchAttribute, LaunchConfig

CHECK = """
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>
int main(void) {
  printf("%zu %zu %zu %zu %zu %zu %zu %zu\\n", sizeof(CUlaunchConfig), offsetof(CUlaunchConfig, blockDimX),
         offsetof(CUlaunchConfig, sharedMemBytes), offsetof(CUlaunchConfig, hStream), offsetof(CUlaunchConfig, attrs),
         offsetof(CUlaunchConfig, numAttrs), sizeof(CUlaunchAttribute), offsetof(CUlaunchAttribute, value));
  printf("%d %d %d\\n", CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
         CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  printf("%d %d %d %d %d %d\\n", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
         CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
         CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  printf("%d %d %d %d %d %d\\n", CU_TENSOR_MAP_DATA_TYPE_UINT8, CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
         CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, CU_TENSOR_MAP_SWIZZLE_128B,
         CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}
"""


def cuda_include() -> Path | None:
    places = [Path("/usr/local/cuda/include"), *sorted(Path("/usr/local").glob("cuda-*/include"))]
    try:
        import nvidia

        places += [Path(p) / "cu13" / "include" for p in nvidia.__path__]
    except ImportError:
        pass
    return next((p for p in places if (p / "cuda.h").exists()), None)


def test_driver_declarations(tmp_path: Path, native: ModuleType) -> None:
    include = cuda_include()
    if include is None or shutil.which("gcc") is None:
        pytest.skip("no cuda.h on this machine")
    (tmp_path / "check.c").write_text(CHECK)
    subprocess.run(["gcc", f"-I{include}", "check.c", "-o", "check"], cwd=tmp_path, check=True)
    output = subprocess.run([str(tmp_path / "check")], capture_output=True, text=True, check=True).stdout
    sizes, launch, numbers, maps = ([int(w) for w in line.split()] for line in output.splitlines())
    c = LaunchConfig
    assert sizes == [
        ctypes.sizeof(c), c.block.offset, c.shared_bytes.offset, c.stream.offset, c.attributes.offset,
        c.attribute_count.offset, ctypes.sizeof(LaunchAttribute), LaunchAttribute.value.offset,
    ]  # fmt: skip
    assert sizes[0] == native.CONFIG_SIZE
    assert sizes[6] == native.ATTRIBUTE_SIZE
    a = Attribute
    assert launch == [a.LAUNCH_COOPERATIVE, a.LAUNCH_CLUSTER, a.LAUNCH_PROGRAMMATIC_SERIALIZATION]
    assert numbers == [
        a.FUNCTION_STATIC_SHARED, a.FUNCTION_MAX_DYNAMIC_SHARED, a.FUNCTION_NON_PORTABLE_CLUSTER,
        a.MAX_DYNAMIC_SHARED_OPTIN, a.MAJOR, a.MULTIPROCESSORS,
    ]  # fmt: skip
    from pyptx.runtime.driver import TENSOR_MAP_TYPES as types

    assert maps == [types["u8"], types["f16"], types["bf16"], types["tf32"], 3, 2]


def test_exchange_api_is_read_right(native: ModuleType) -> None:
    """`describe` against what torch says of the same tensors."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no DLPack C exchange API")
    capsule = torch.Tensor.__dlpack_c_exchange_api__
    kinds = {
        torch.float32: (2, 32),
        torch.bfloat16: (4, 16),
        torch.int64: (0, 64),
        torch.uint8: (1, 8),
        torch.bool: (6, 8),
    }
    for dtype, (code, bits) in kinds.items():
        t = torch.zeros(3, 5, 7, dtype=dtype)[1:, ::2]
        device, number, found, pointer, shape, strides = native.describe(capsule, None, t)
        assert (device, number) == (1, 0)
        assert (found & 255, found >> 8 & 255, found >> 16) == (code, bits, 1)
        assert (pointer, shape, strides) == (t.data_ptr(), tuple(t.shape), tuple(t.stride()))


def test_torch_is_read_right(native: ModuleType) -> None:
    """What `torch_reader` finds in this torch, against what torch says: plain tensors are told from all others."""
    torch = pytest.importorskip("torch")
    from pyptx.runtime.torch_reader import torch_internals

    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no DLPack C exchange API")
    capsule, internals = torch.Tensor.__dlpack_c_exchange_api__, torch_internals(torch, native)
    assert internals is not None, f"torch {torch.__version__} keeps its tensors in another way"
    plain = native.describe(capsule, internals, torch.zeros(4, 6))[0]
    numbers: dict[int, Any] = {}
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.float8_e5m2):
        t = torch.empty(3, 5, 7, dtype=dtype)[1:, ::2]
        keys, _, number, pointer, shape, strides = native.describe(capsule, internals, t)
        assert keys == plain
        assert numbers.setdefault(number, dtype) == dtype
        assert (pointer, shape, strides) == (t.data_ptr(), tuple(t.shape), tuple(t.stride()))
    assert len(numbers) == 6
    with torch.inference_mode():
        same = [torch.zeros(4), torch.zeros(4, 4).t()]
    same += [torch.nn.Parameter(torch.zeros(4)), torch.zeros(4, requires_grad=True) * 2, torch.zeros(8)[::2]]
    assert {native.describe(capsule, internals, t)[0] for t in same} == {plain}
    others = [torch._neg_view(torch.zeros(4)), torch._efficientzerotensor(4), torch.zeros(4, device="meta")]
    assert plain not in {native.describe(capsule, internals, t)[0] for t in others}


def test_a_torch_that_keeps_tensors_otherwise_is_read_through_dlpack(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from pyptx.runtime import torch_reader

    monkeypatch.setattr(torch_reader, "_known", {})
    assert torch_reader.torch_internals(torch, native) is not None
    real = torch_reader._find
    for place, value in ((1, 8), (2, 0), (2, -1)):  # no keys there; an inference tensor is another; all are the same
        wrong = [*real(torch)]
        wrong[place] = value % 2**64
        monkeypatch.setattr(torch_reader, "_known", {})
        monkeypatch.setattr(torch_reader, "_find", lambda torch, wrong=tuple(wrong): wrong)
        assert torch_reader.torch_internals(torch, native) is None
    monkeypatch.setattr(torch_reader, "_READERS", ("dim", "no_such_function"))
    monkeypatch.setattr(torch_reader, "_find", real)
    assert torch_reader.torch_internals(torch, native) is None
    assert torch_reader._known == {}
