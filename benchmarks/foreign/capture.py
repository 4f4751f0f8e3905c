"""Compile kernels of CuTe DSL without a GPU and record how their host code launches them.

Runs in a Python that has nvidia-cutlass-dsl, not in ours. The host code that CuTe DSL compiles calls the CUDA runtime by
functions of a shared library that CUTE_DSL_LIBS names; a stand-in of it hands the launches to this module.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CALLS = """
cuDeviceGet cuKernelGetAttribute cuLibraryGetGlobal cuLibraryGetKernel cuLibraryGetKernelCount cuLibraryGetManaged
cuLibraryGetModule cuLibraryGetUnifiedFunction cuLibraryLoadData cuLibraryLoadFromFile cuLibraryUnload
cudaDeviceGetAttribute cudaDeviceSynchronize cudaFree cudaFreeAsync cudaFuncSetAttribute cudaGetDevice
cudaKernelSetAttributeForDevice cudaLibraryGetGlobal cudaLibraryGetKernel cudaLibraryGetKernelCount cudaLibraryGetManaged
cudaLibraryGetUnifiedFunction cudaLibraryLoadFromFile cudaLibraryUnload cudaMalloc cudaMallocAsync
cudaMemcpy cudaMemcpyAsync cudaMemset cudaMemsetAsync cudaOccupancyMaxActiveBlocksPerMultiprocessor cudaSetDevice
cudaStreamSynchronize cudaLaunchKernel
""".split()
"""What the host code may call, and what is of no interest."""
SOURCE = (
    "#include <stdint.h>\n"
    + "".join(f"int _{name}() {{ return 0; }}\n" for name in CALLS)
    + """
typedef int (*launch_t)(void *, void **);
launch_t launch_hook;
int _cudaLaunchKernelEx(void *config, void *function, void **arguments) { return launch_hook(config, arguments); }
int _cudaLibraryLoadData(void **library) { *library = (void *)1; return 0; }
void cuda_dialect_init_library_once() {}
void cuda_dialect_unload_library_once() {}
void cuda_dialect_print_on_error() {}
void cuda_dialect_assert_success() {}
"""
)


class Config(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("smem", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    ]


class Attribute(ctypes.Structure):
    """cudaLaunchAttribute."""

    _fields_ = [("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16)]


def tensor_map(raw: bytes) -> dict[str, Any] | None:
    """What a tensor map that CuTe DSL's own host code encodes says, as far as its kernels need it; None if it is none. The
    fields were found by comparing the maps of kernels whose tensors and boxes are known.
    """
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, 64, 4)]
    flags = words[2]
    rank, kind, swizzle = (flags >> 4 & 7) + 1, flags >> 7 & 15, flags >> 13 & 3
    if len(raw) < 128 or flags & 15 != 2 or not 1 <= rank <= 5:
        return None
    return {
        "type": kind, "address": int.from_bytes(raw[:8], "little"), "shape": [w + 1 for w in words[8 : 8 + rank]],
        "strides": [16 * w for w in words[3 : 2 + rank]], "box": [b + 1 for b in raw[55 : 55 + rank]],
        "swizzle": swizzle,
    }  # fmt: skip


CLUSTER, COOPERATIVE, PROGRAMMATIC = 4, 2, 6
"""Numbers of launch attributes."""
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Capture:
    """The stand-in. Made before cutlass is imported."""

    def __init__(self, arch: str):
        self.folder = Path(tempfile.mkdtemp(prefix="cute"))
        source, library = self.folder / "runtime.c", self.folder / "libruntime.so"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", library, source], check=True)
        os.environ.update(
            CUTE_DSL_LIBS=str(library), CUTE_DSL_ARCH=arch, CUTE_DSL_KEEP_PTX="1", CUTE_DSL_DUMP_DIR=str(self.folder),
            CUTE_DSL_DISABLE_FILE_CACHING="1",
        )  # fmt: skip
        self.library = ctypes.CDLL(str(library))
        self.hook: Any = LAUNCH(self._launch)
        ctypes.c_void_p.in_dll(self.library, "launch_hook").value = ctypes.cast(self.hook, ctypes.c_void_p).value
        self.launches: list[dict[str, Any]] = []
        self.sizes: Sequence[int] = ()

    def _launch(self, config: int, arguments: int) -> int:
        c = Config.from_address(config)
        found: dict[str, Any] = {"grid": list(c.grid), "block": list(c.block), "smem": c.smem, "cluster": None}
        for attribute in (Attribute * c.count).from_address(c.attributes) if c.count else ():
            if attribute.id == CLUSTER:
                found["cluster"] = list(attribute.value[:3])
            if attribute.id == COOPERATIVE:
                found["cooperative"] = bool(attribute.value[0])
            if attribute.id == PROGRAMMATIC:
                found["programmatic"] = bool(attribute.value[0])
        places = (ctypes.c_uint64 * len(self.sizes)).from_address(arguments)
        found["arguments"] = [ctypes.string_at(at, size) for at, size in zip(places, self.sizes, strict=True)]
        self.launches.append(found)
        return 0

    def compiled(self, compile_it: Callable[[], Any]) -> tuple[Any, str]:
        """(what cute.compile gives, its PTX)."""
        for old in self.folder.glob("*.ptx"):
            old.unlink()
        function = compile_it()
        (text,) = self.folder.glob("*.ptx")
        return function, text.read_text()
