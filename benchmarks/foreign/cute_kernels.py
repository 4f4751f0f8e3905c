# ruff: noqa: B023   lambdas are called before their loop goes on
"""NVIDIA's examples of CuTe DSL as cases: python cute_kernels.py FOLDER EXAMPLES ARCH [NAME...], in a Python with nvidia-cutlass-dsl.

EXAMPLES is examples/python/CuTeDSL/cute of github.com/NVIDIA/cutlass.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from capture import Capture, tensor_map
from case import Case, save

OUT, EXAMPLES, ARCH, *WANTED = sys.argv[1:]
capture = Capture(ARCH)
torch = types.ModuleType("torch")  # examples name its types in annotations
torch.__getattr__ = lambda name: type(name, (), {}) if not name.startswith("__") else None  # type: ignore[method-assign]
sys.modules.setdefault("torch", torch)

import cutlass  # noqa: E402
import cutlass.cute as cute  # noqa: E402
from cuda.bindings import driver  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402
from cutlass.cutlass_dsl import cuda_jit_executor  # noqa: E402

cuda_jit_executor.CudaDialectJitCompiledFunction.num_devices = 1
STREAM = driver.CUstream(0)
WORDS = {
    "b8": 1,
    "u8": 1,
    "u16": 2,
    "b16": 2,
    "u32": 4,
    "s32": 4,
    "b32": 4,
    "f32": 4,
    "u64": 8,
    "s64": 8,
    "b64": 8,
    "f64": 8,
}
rng = np.random.default_rng(3)


def example(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, Path(EXAMPLES) / path)
    assert spec and spec.loader
    sys.path.insert(0, str((Path(EXAMPLES) / path).parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class OnDevice:
    """An array that says it is on GPU 0, so that the examples take it for global memory."""

    def __init__(self, array: Any):
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = 2  # DLTensor.device.device_type
        return capsule


class Tensor:
    """An array as the examples want it: modes (m, n, l) over memory in another order; `bits` holds the memory."""

    def __init__(self, values: Any, kind: str, leading: int | None = None, dynamic: bool = True):
        """`values`: float64 by logical mode; `leading`: the mode that is dense in memory."""
        order = list(range(values.ndim))
        if values.ndim == 3:
            order = [2, 1, 0] if leading == 0 else [2, 0, 1]
        stored = np.ascontiguousarray(values.transpose(order))
        self.bits, self.values, self.kind = encode(stored, kind), values, kind
        raw = np.empty(self.bits.nbytes + 128, np.uint8)
        start = -raw.ctypes.data % 128
        self.bits = raw[start : start + self.bits.nbytes].view(self.bits.dtype).reshape(stored.shape)
        self.bits[...] = encode(stored, kind)
        self.order = order
        view = self.bits.transpose(np.argsort(order))
        tensor = from_dlpack(OnDevice(view), assumed_align=16)
        if kind in TYPES:
            tensor.element_type = TYPES[kind]
        if dynamic:
            dense = leading if leading is not None else values.ndim - 1
            order = tuple(int(i) for i in np.argsort(view.strides)[::-1]) if values.ndim == 2 else tuple(order)
            size = 128 // (8 * self.bits.itemsize)
            tensor = tensor.mark_layout_dynamic(leading_dim=dense)
            if not values.shape[dense] % size:
                tensor = tensor.mark_compact_shape_dynamic(mode=dense, stride_order=order, divisibility=size)
        self.tensor = tensor


TYPES = {"bf16": cutlass.BFloat16, "e4m3": cutlass.Float8E4M3FN, "e5m2": cutlass.Float8E5M2}
NATIVE = {"f32": np.float32, "f16": np.float16, "s8": np.int8, "u8": np.uint8, "s32": np.int32, "f64": np.float64}
CUTE = {"f32": cutlass.Float32, "f16": cutlass.Float16, "s8": cutlass.Int8, "s32": cutlass.Int32, **TYPES}


def encode(values: Any, kind: str) -> Any:
    """The memory of numbers that the type can hold exactly."""
    if kind in NATIVE:
        return values.astype(NATIVE[kind])
    single = values.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        return (single >> 16).astype(np.uint16)
    exponent_bits, mantissa_bits, bias = (4, 3, 7) if kind == "e4m3" else (5, 2, 15)
    exponent = (single >> 23 & 255).astype(np.int64) - 127 + bias
    code = (single >> 31 << 7) | np.where(
        values == 0, 0, (exponent << mantissa_bits) | (single >> (23 - mantissa_bits) & (1 << mantissa_bits) - 1)
    )
    assert exponent_bits + mantissa_bits == 7
    return code.astype(np.uint8)


def emit(name: str, compiled: Callable[[], Any], call: Callable[[Any], Any], tensors: list[Tensor], results: dict[int, Any],
         tolerance: float = 1e-5) -> None:  # fmt: skip
    """Compile, run the host code, write what it launches. `results`: tensor number -> values it should have."""
    if WANTED and not any(w in name for w in WANTED):
        return
    capture.launches.clear()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            function, text = capture.compiled(compiled)
            head = text[text.index(".entry") :]
            head = head[: head.index(")")] + "\n"
            found = re.findall(r"\.param (?:\.align \d+ )?\.(\w+) \S+?(?:\[(\d+)\])?[,\n]", head)
            capture.sizes = [WORDS[kind] * int(count or 1) for kind, count in found]
            call(function)
    except Exception as error:
        print(f"{name}: not generated: {type(error).__name__}: {str(error).strip().splitlines()[:1]}")
        return
    entry = re.search(r"\.entry\s+(\w+)", text)
    assert entry
    (launch,) = capture.launches
    case = Case(name, text, entry[1], launch["grid"], launch["block"], launch["cluster"], launch["smem"])
    spans = [(t.bits.ctypes.data, t.bits.nbytes) for t in tensors]
    for number, raw in enumerate(launch["arguments"]):
        case.arguments.append(raw.hex())
        for offset in range(0, len(raw) - 7, 8):
            word = int.from_bytes(raw[offset : offset + 8], "little")
            for i, (start, size) in enumerate(spans):
                if start <= word < start + size:
                    fields = tensor_map(raw[offset : offset + 128])
                    if fields is None:
                        case.pointers.append((number, offset, i, word - start))
                    else:
                        case.maps.append((number, offset, i, fields))
    case.tolerance = tolerance
    expected = {i: np.ascontiguousarray(v.transpose(tensors[i].order)) for i, v in results.items()}
    save(Path(OUT), case, [t.bits for t in tensors], expected, {i: tensors[i].kind for i in results})
    print(f"{name}: {launch['grid']} x {launch['block']}")


def small(*shape: int) -> Any:
    """Numbers that every type holds, and whose products sum exactly."""
    return rng.integers(-2, 3, shape).astype(np.float64)


def gemm_tensors(
    m: int, n: int, k: int, ab: str, c: str, majors: str = "kkn", batch: int = 1
) -> tuple[list[Tensor], Any]:
    """(A, B, C) and the product."""
    a = Tensor(small(m, k, batch), ab, "mk".index(majors[0]))
    b = Tensor(small(n, k, batch), ab, "nk".index(majors[1]))
    d = Tensor(np.zeros((m, n, batch)), c, "mn".index(majors[2]))
    return [a, b, d], np.einsum("mkl,nkl->mnl", a.values, b.values)


def gemm(name: str, make: Callable[[], Any], shape: tuple[int, int, int], ab: str, c: str, *more: Any, majors: str = "kkn",
         batch: int = 1, extra: tuple[Any, ...] = (STREAM,)) -> None:  # fmt: skip
    tensors, product = gemm_tensors(*shape, ab, c, majors, batch)
    views = [t.tensor for t in tensors]
    run = [x for x in extra if x is STREAM]
    emit(
        name,
        lambda: cute.compile(make(), *views, *extra),
        lambda f: f(*views, *run),
        tensors,
        {2: product},
        2e-2 if c != "f32" else 1e-5,
    )


# ---------------------------------------------------------------------------------------------------------------- cases


def ampere() -> None:
    add = example("ampere/kernel/elementwise/elementwise_add.py")
    for kind in ("f32", "f16"):
        x, y = (Tensor(small(96, 200), kind) for _ in range(2))
        out = Tensor(np.zeros((96, 200)), kind)
        views = [t.tensor for t in (x, y, out)]
        emit(f"cute_add_{kind}_{ARCH}", lambda: cute.compile(add.elementwise_add, *views), lambda f: f(*views), [x, y, out],
             {2: x.values + y.values})  # fmt: skip
    if ARCH != "sm_80":
        return
    sgemm = example("ampere/kernel/dense_gemm/sgemm.py")
    for m, n, k in ((128, 128, 32), (130, 96, 24)):
        a, b, c = Tensor(small(m, k), "f32"), Tensor(small(n, k), "f32"), Tensor(np.zeros((m, n)), "f32")
        views = [t.tensor for t in (a, b, c)]
        emit(f"cute_sgemm_{m}x{n}x{k}", lambda: cute.compile(sgemm.SGemm(), *views, stream=STREAM), lambda f: f(*views, STREAM),
             [a, b, c], {2: a.values @ b.values.T})  # fmt: skip
    tensorop = example("ampere/kernel/dense_gemm/tensorop_gemm.py")
    for ab, acc, c in (("f16", "f32", "f16"), ("bf16", "f32", "bf16"), ("f16", "f16", "f16")):
        gemm(
            f"cute_tensorop_{ab}_{acc}",
            lambda: tensorop.TensorOpGemm(CUTE[ab], CUTE[c], CUTE[acc], (2, 2, 1)),
            (128, 128, 64),
            ab,
            c,
        )
    gemm("cute_tensorop_mn_major", lambda: tensorop.TensorOpGemm(CUTE["f16"], CUTE["f16"], CUTE["f32"], (2, 2, 1)), (128, 128, 64),
         "f16", "f16", majors="mnn")  # fmt: skip


def hopper() -> None:
    dense = example("hopper/kernel/dense_gemm/dense_gemm.py")
    kernel = dense.HopperWgmmaGemmKernel
    for ab, c, tile, cluster, majors in (
        ("f16", "f16", (128, 128), (1, 1), "kkn"),
        ("bf16", "bf16", (64, 128), (1, 1), "kkn"),
        ("f16", "f32", (128, 64), (2, 1), "mnn"),
        ("e4m3", "f16", (64, 64), (1, 2), "kkn"),
        ("f16", "f16", (128, 128), (2, 2), "kkm"),
    ):
        size = (tile[0] * cluster[0], tile[1] * cluster[1], 192)
        gemm(f"cute_wgmma_{ab}_{tile[0]}x{tile[1]}_{cluster[0]}x{cluster[1]}_{majors}",
             lambda: kernel(CUTE["f32"], tile, cluster), size, ab, c, majors=majors)  # fmt: skip
    persistent = example("hopper/kernel/dense_gemm/dense_gemm_persistent.py")
    for tile, cluster in (((128, 128), (1, 1)), ((128, 256), (1, 1)), ((64, 128), (2, 1))):
        size = (2 * tile[0] * cluster[0], tile[1] * cluster[1], 128)
        gemm(f"cute_persistent_{tile[0]}x{tile[1]}_{cluster[0]}x{cluster[1]}",
             lambda: persistent.HopperWgmmaGemmPersistentKernel(CUTE["f32"], tile, cluster, 1, True), size, "f16", "f16",
             extra=(1, STREAM))  # fmt: skip


def blackwell() -> None:
    for file, name, extra in (
        ("dense_gemm", "DenseGemmKernel", (STREAM,)),
        ("dense_gemm_persistent", "PersistentDenseGemmKernel", (1, STREAM)),
        ("dense_gemm_software_pipeline", "DenseGemmKernel", (STREAM,)),
        ("dense_gemm_persistent_prefetch", "PersistentDenseGemmKernel", (1, STREAM)),
    ):
        module = example(f"blackwell/kernel/dense_gemm/{file}.py")
        kernel = getattr(module, name, None) or next(
            v for k, v in vars(module).items() if k.endswith("GemmKernel") and isinstance(v, type)
        )
        for ab, c, pair, tile, cluster, tma in (
            ("f16", "f16", False, (128, 64), (1, 1), True),
            ("bf16", "f32", False, (128, 128), (1, 1), False),
            ("e4m3", "f16", True, (256, 64), (2, 1), True),
        ):
            size = (tile[0] * cluster[0] // (2 if pair else 1), tile[1] * cluster[1], 128)
            gemm(f"cute_{file}_{ab}_{'2' if pair else '1'}cta_{tile[0]}x{tile[1]}",
                 lambda: kernel(CUTE["f32"], pair, tile, cluster, tma), size, ab, c, extra=extra)  # fmt: skip


def geforce() -> None:
    dense = example("blackwell_geforce/kernel/dense_gemm/dense_gemm.py")
    kernel = next(v for k, v in vars(dense).items() if k.endswith("GemmKernel") and isinstance(v, type))
    for tile, ab in (((128, 128, 64), "f16"), ((64, 64, 64), "bf16")):
        gemm(
            f"cute_geforce_{ab}_{tile[0]}",
            lambda: kernel(CUTE["f32"], tile),
            (tile[0], tile[1], 128),
            ab,
            ab,
            extra=(1, STREAM),
        )


def guarded(family: Callable[[], None]) -> None:
    """An example of which the module cannot be read is told, not hidden."""
    try:
        family()
    except Exception as error:
        print(f"{family.__name__}: stopped: {type(error).__name__}: {error}")


ampere_too = {"sm_80": [], "sm_90a": [hopper], "sm_100a": [blackwell], "sm_120a": [geforce]}
for f in (ampere, *ampere_too[ARCH]):
    guarded(f)
