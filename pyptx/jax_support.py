"""Kernels and JAX, under the names of 0.1. New programs call the kernel, in `jax.jit` or outside of it.

The C shim of 0.1, with its registry of launches by handle, is gone: a call carries its program itself
(`pyptx.runtime.jax_ffi`). What programs could ask of it is answered here.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .frontend.core.tiles import Layout, Tile
from .frontend.kernel.kernel import Kernel
from .runtime.compile import NoCompiler, compile_ptx
from .runtime.driver import LaunchShape, NoDriver, descriptor_store, find_driver
from .runtime.tensor_map import encode
from .simulator.tensor.tile_maps import map_of_tile
from .types import PtxType

__all__ = [
    "CubinRecord",
    "CubinRegistry",
    "TmaDescriptor",
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
    """A kernel as a program registered it: PTX text, entry, launch, and what it was compiled to."""

    handle: int
    ptx_source: str = field(repr=False)
    kernel_name: str
    smem_bytes: int = 0
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    cu_function: int | None = None
    module: Any = None
    cubin_bytes: bytes | None = field(default=None, repr=False)


class CubinRegistry:
    """Records by handle, a small int."""

    def __init__(self) -> None:
        self._records: dict[int, CubinRecord] = {}
        self._handles = itertools.count(1)

    def register(
        self, ptx_source: str, kernel_name: str, cubin_bytes: bytes | None = None, smem_bytes: int = 0,
        grid: tuple[int, int, int] = (1, 1, 1), block: tuple[int, int, int] = (1, 1, 1),
        cu_function: int | None = None, module: Any = None,
    ) -> int:  # fmt: skip
        """Keep a record of a kernel. Returns its handle."""
        handle = next(self._handles)
        self._records[handle] = CubinRecord(
            handle, ptx_source, kernel_name, smem_bytes, grid, block, cu_function, module, cubin_bytes
        )
        return handle

    def get(self, handle: int) -> CubinRecord | None:
        return self._records.get(handle)

    def clear(self) -> None:
        """Forget all records."""
        self._records.clear()

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, handle: object) -> bool:
        return handle in self._records


_registry = CubinRegistry()


def get_cubin_registry() -> CubinRegistry:
    """The registry of this process."""
    return _registry


def compile_ptx_to_cubin(
    ptx_source: str, arch: str, kernel_name: str = "", dynamic_smem_bytes: int = 0
) -> tuple[int, Any] | None:
    """Compile PTX text and load it on the first GPU: (CUfunction, module, which keeps it loaded). None without a compiler
    or a GPU. `kernel_name`: the entry, where there are several. PTXError for text that is refused.
    """
    try:
        compiled = compile_ptx(ptx_source, arch)
        driver = find_driver()
    except (NoCompiler, NoDriver):
        return None
    name = kernel_name or Kernel.from_ptx(ptx_source).name
    shape = LaunchShape((1, 1, 1), (1, 1, 1), smem=dynamic_smem_bytes)
    loaded = driver.load_function(compiled.cubin, name, 0, shape, compiled.compiler)
    return loaded.handle, loaded.module


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


class TmaDescriptor(NamedTuple):
    """A tensor map of a row-major array: its 128 bytes, where they are in the process, and where they are on the GPU."""

    host: ctypes.Array[ctypes.c_char]
    host_pointer: int
    device_pointer: int


def synthesize_tma_descriptor(
    shape: Sequence[int],
    dtype: PtxType,
    layout: Layout,
    box_shape: Sequence[int] | None = None,
    placeholder_ptr: int = 0,
) -> TmaDescriptor:
    """The TMA descriptor of a row-major array at `placeholder_ptr`, an address on the first GPU.

    shape and box_shape in elements, outermost first; the box defaults to the whole array. PTXError for what TMA cannot
    do; NoDriver without a GPU. CUDA driver API, cuTensorMapEncodeTiled.
    """
    whole = tuple(int(n) for n in shape)
    tile = Tile(*whole, dtype, layout, tma_box=tuple(box_shape or whole))
    return _descriptor(tile, whole, placeholder_ptr)


def synthesize_tma_descriptor_3d(
    height: int, width: int, dtype: PtxType, box_major: int, box_minor: int, *, swizzle_128b: bool = True,
    padding: bool = False, placeholder_ptr: int = 0,
) -> TmaDescriptor:  # fmt: skip
    """As `synthesize_tma_descriptor`, of a matrix of height x width seen as panels of 64 columns (`Tile(tma_rank=3)`), in
    boxes of box_major rows and box_minor columns. padding: as `Tile(tma_padding=True)`.
    """
    layout = Layout.TMA_128B if swizzle_128b else Layout.ROW
    tile = Tile(height, width, dtype, layout, tma_box=(box_major, box_minor), tma_rank=3, tma_padding=padding)
    return _descriptor(tile, (height, width), placeholder_ptr)


def _descriptor(tile: Tile, shape: tuple[int, ...], pointer: int) -> TmaDescriptor:
    what = f"an array of shape {shape}"
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    made = map_of_tile(tile, shape, strides, what)
    driver = find_driver()
    data = encode(made, driver, pointer, what)
    host = ctypes.create_string_buffer(data, len(data))
    device = descriptor_store(driver, 0).address((made, pointer), lambda: data)
    return TmaDescriptor(host, ctypes.addressof(host), device)
