"""Kernels and JAX, under the names of 0.1. New programs call the kernel, in `jax.jit` or outside of it.

The C shim of 0.1, with its registry of launches by handle, is gone: a call carries its program itself
(`pyptx.runtime.jax_ffi`). What programs could ask of it is answered here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .frontend.tiles import Layout, Tile
from .runtime.compile import NoCompiler, compile_ptx
from .runtime.driver import find_driver
from .runtime.tensor_map import TensorMap, tensor_map
from .types import PtxType

__all__ = [
    "CubinRecord",
    "CubinRegistry",
    "call_kernel_via_ffi",
    "compile_ptx_to_cubin",
    "ensure_ffi_registered",
    "get_cubin_registry",
    "shim_is_available",
    "shim_load_error",
    "synthesize_tma_descriptor",
    "synthesize_tma_descriptor_3d",
]


@dataclass(frozen=True)
class CubinRecord:
    """A compiled kernel: its cubin, arch, entry, and bytes of dynamic shared memory."""

    cubin: bytes = field(repr=False)
    arch: str
    kernel_name: str = ""
    dynamic_smem_bytes: int = 0


class CubinRegistry:
    """Records by handle, a small int."""

    def __init__(self) -> None:
        self._records: dict[int, CubinRecord] = {}
        self._lock = threading.Lock()

    def register(self, record: CubinRecord) -> int:
        """A new handle of a record."""
        with self._lock:
            handle = len(self._records) + 1
            self._records[handle] = record
            return handle

    def get(self, handle: int) -> CubinRecord | None:
        return self._records.get(handle)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, handle: object) -> bool:
        return handle in self._records


_registry = CubinRegistry()


def get_cubin_registry() -> CubinRegistry:
    """The registry of this process."""
    return _registry


def compile_ptx_to_cubin(ptx: str, arch: str, kernel_name: str = "", dynamic_smem_bytes: int = 0) -> CubinRecord | None:
    """Compile PTX text (`pyptx.runtime.compile.compile_ptx`); None without a compiler. PTXError where it is refused."""
    try:
        compiled = compile_ptx(ptx, arch)
    except NoCompiler:
        return None
    return CubinRecord(compiled.cubin, arch, kernel_name, dynamic_smem_bytes)


def shim_is_available() -> bool:
    """Whether the native handlers are built, or can be: else JAX calls back into Python."""
    return shim_load_error() is None


def shim_load_error() -> str | None:
    """Why there are no native handlers; None if there are."""
    try:
        from .runtime.jax_ffi import handlers
    except ImportError as error:
        return f"JAX cannot be imported: {error}"
    try:
        if handlers() is not None:
            return None
    except (ImportError, OSError) as error:
        return str(error)
    return "the native handlers need gcc and the headers of jaxlib, and PYPTX_NATIVE other than 0"


def ensure_ffi_registered() -> None:
    """Register the handlers with XLA, which the first call does as well."""
    from .runtime.jax_ffi import handlers

    handlers()


def call_kernel_via_ffi(kernel: Any, *arrays: Any, **kwargs: Any) -> Any:
    """`kernel(*arrays, **kwargs)` on JAX arrays or tracers."""
    from .runtime.jax_ffi import call_jax

    return call_jax(kernel, arrays, kwargs)


def synthesize_tma_descriptor(
    shape: Sequence[int], dtype: PtxType, layout: Layout = Layout.ROW, box_shape: Sequence[int] | None = None,
    *, pointer: int | None = None,
) -> TensorMap | bytes:  # fmt: skip
    """The TMA descriptor of a row-major array: what it says, or with `pointer`, an address on the GPU, its 128 bytes.

    shape and box_shape in elements, outermost first; the box defaults to the whole array. PTXError for what TMA cannot
    do; NoDriver for the bytes without a GPU. CUDA driver API, cuTensorMapEncodeTiled.
    """
    return _descriptor(shape, dtype, layout, box_shape, 2, pointer)


def synthesize_tma_descriptor_3d(
    shape: Sequence[int], dtype: PtxType, layout: Layout = Layout.ROW, box_shape: Sequence[int] | None = None,
    *, pointer: int | None = None,
) -> TensorMap | bytes:  # fmt: skip
    """As `synthesize_tma_descriptor`, of a matrix seen as panels of 64 columns (`Tile(tma_rank=3)`)."""
    return _descriptor(shape, dtype, layout, box_shape, 3, pointer)


def _descriptor(
    shape: Sequence[int], dtype: PtxType, layout: Layout, box: Sequence[int] | None, rank: int, pointer: int | None
) -> TensorMap | bytes:
    whole = tuple(int(n) for n in shape)
    tile = Tile(*whole, dtype, layout, tma_box=tuple(box or whole), tma_rank=rank)
    strides = [math.prod(whole[i + 1 :]) for i in range(len(whole))]
    made = tensor_map(tile, whole, strides, f"an array of shape {whole}")
    return made if pointer is None else made.encode(find_driver(), pointer, f"an array of shape {whole}")
