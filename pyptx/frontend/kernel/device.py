"""Which GPU is here."""

from __future__ import annotations

import os
import sys
from functools import lru_cache


@lru_cache(maxsize=1)
def detect_arch() -> str:
    """The target of the first GPU: `sm_XXa` from compute capability 9.0, else `sm_XX`. RuntimeError without a GPU.

    Asks torch if it is imported already, else the driver library.
    """
    capability = _from_torch() or _from_driver()
    if capability is None:
        raise RuntimeError("no CUDA device found; name the target, e.g. arch='sm_90a'")
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _from_torch() -> tuple[int, int] | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_capability()


def _from_driver() -> tuple[int, int] | None:
    import ctypes

    try:
        driver = ctypes.CDLL(os.environ.get("PYPTX_CUDA_DRIVER_LIBRARY") or "libcuda.so.1")
    except OSError:
        return None
    count, device = ctypes.c_int(), ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return None
    if driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    return major.value, minor.value
