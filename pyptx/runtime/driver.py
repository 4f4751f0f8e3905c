"""The CUDA driver through ctypes: devices, modules, functions, launches, tensor maps. No package needed.

    driver = find_driver()          # libcuda.so.1, or $PYPTX_CUDA_DRIVER_LIBRARY
    function = driver.function(driver.load_module(cubin, device), "name")

Everything here is the slow path, taken once per kernel and device; the native launcher gets the addresses of the few
functions it calls. Contexts are the devices' primary contexts, those of torch and JAX.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import POINTER, Structure, Union, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

__all__ = ["Attribute", "CudaError", "Driver", "Function", "LaunchShape", "NoDriver", "find_driver"]


class NoDriver(RuntimeError):
    """There is no NVIDIA driver or no GPU; the message says what was looked for."""


class CudaError(RuntimeError):
    """The driver refused something. `name` is its error (`CUDA_ERROR_ILLEGAL_ADDRESS`), `code` its number."""

    def __init__(self, message: str, name: str = "", code: int = 0) -> None:
        super().__init__(message)
        self.name, self.code = name, code


class Attribute:
    """Numbers of the driver's enumerations (cuda.h) that are used here."""

    MAX_THREADS = 1
    MULTIPROCESSORS = 16
    MAJOR, MINOR = 75, 76
    COOPERATIVE_LAUNCH = 95
    MAX_DYNAMIC_SHARED_OPTIN = 97
    CLUSTER_LAUNCH = 120
    # of functions
    FUNCTION_STATIC_SHARED = 1
    FUNCTION_MAX_DYNAMIC_SHARED = 8
    FUNCTION_NON_PORTABLE_CLUSTER = 14
    # of launches
    LAUNCH_COOPERATIVE = 2
    LAUNCH_CLUSTER = 4
    LAUNCH_PROGRAMMATIC_SERIALIZATION = 6


class _AttributeValue(Union):
    _fields_ = [("pad", c_char * 64), ("dim", c_uint * 3), ("flag", c_int)]


class LaunchAttribute(Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", c_int), ("pad", c_char * 4), ("value", _AttributeValue)]


class LaunchConfig(Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    ]


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """A launch: CTAs per grid (PTX's %nctaid, whatever the cluster), threads per CTA, CTAs per cluster, bytes of
    dynamic shared memory, and whether it is cooperative or may start before its predecessor ends (PDL).
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    cooperative: bool = False
    programmatic: bool = False

    @property
    def attributes(self) -> tuple[tuple[int, tuple[int, int, int]], ...]:
        """The launch attributes as (number, value in three words)."""
        found: list[tuple[int, tuple[int, int, int]]] = []
        if self.cluster != (1, 1, 1):
            found.append((Attribute.LAUNCH_CLUSTER, self.cluster))
        if self.cooperative:
            found.append((Attribute.LAUNCH_COOPERATIVE, (1, 0, 0)))
        if self.programmatic:
            found.append((Attribute.LAUNCH_PROGRAMMATIC_SERIALIZATION, (1, 0, 0)))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Function:
    """An entry of a loaded module: driver handle, context handle, device number."""

    name: str
    handle: int
    context: int
    device: int
    static_smem: int
    module: object = field(repr=False, default=None)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a launch needs to know about a GPU."""

    name: str
    capability: tuple[int, int]
    max_dynamic_smem: int
    multiprocessors: int

    @property
    def arch(self) -> str:
        """The target that uses all of it: `sm_90a`."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (POINTER(c_void_p), c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernelEx": (POINTER(LaunchConfig), c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamGetCtx": (c_void_p, POINTER(c_void_p)),
    "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint, c_uint64, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint), POINTER(c_uint),
        c_int, c_int, c_int, c_int,
    ),
}  # fmt: skip

_ADVICE = {
    "CUDA_ERROR_OUT_OF_MEMORY": "the GPU is out of memory: free tensors, or make the batch smaller",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the kernel was compiled for another GPU: decorate it with arch='auto'",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the compiler: update the driver, or install an "
    "nvidia-nvjitlink of the driver's CUDA major version",
    "CUDA_ERROR_INVALID_SOURCE": "the driver is older than the compiler: update the driver, or install an "
    "nvidia-nvjitlink of the driver's CUDA major version",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "too many registers or too much shared memory for this block size; "
    "pyptx analyse shows both",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "a cooperative grid must fit on the GPU at once",
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": "call the kernel once before capturing a graph",
}
_UNREADABLE = {
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "CUDA_ERROR_INVALID_SOURCE",
}
"""How a driver says that it does not understand a cubin."""
_STICKY = {
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ASSERT",
}


class Driver:
    """One driver library. Methods raise CudaError with the driver's own error name."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._library = library
        self._lock = threading.Lock()
        self._contexts: dict[int, int] = {}
        self._facts: dict[int, DeviceFacts] = {}
        self.calls: dict[str, Any] = {}
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, name, None)
            if function is None:
                continue
            function.argtypes, function.restype = arguments, c_int
            self.calls[name] = function
        self.fake = hasattr(library, "pyptx_fake_driver")
        """A test's stand-in, which takes CPU tensors as if they were on its GPU."""
        self.check(self._call("cuInit", 0), "starting the driver")
        count = c_int()
        self.check(self._call("cuDeviceGetCount", byref(count)), "counting GPUs")
        self.device_count = count.value
        version = c_int()
        self.check(self._call("cuDriverGetVersion", byref(version)), "asking the driver's version")
        self.version = (version.value // 1000, version.value % 1000 // 10)
        if not self.device_count:
            raise NoDriver("the NVIDIA driver is here but sees no GPU (CUDA_VISIBLE_DEVICES hides them, maybe)")

    def address(self, name: str) -> int:
        """The address of a driver function, for native code."""
        return ctypes.cast(self._function(name), c_void_p).value or 0

    def _function(self, name: str) -> Any:
        try:
            return self.calls[name]
        except KeyError:
            raise CudaError(
                f"this driver (CUDA {self.version[0]}.{self.version[1]}) has no {name}: it is too old; update it"
            ) from None

    def _call(self, name: str, *args: Any) -> int:
        return self._function(name)(*args)

    def check(self, code: int, what: str) -> None:
        """CudaError unless the code is 0. `what` says what was tried."""
        if code:
            raise self.error(code, what)

    def error(self, code: int, what: str) -> CudaError:
        name, text = c_char_p(), c_char_p()
        self._call("cuGetErrorName", code, byref(name))
        self._call("cuGetErrorString", code, byref(text))
        label = (name.value or f"CUDA error {code}".encode()).decode()
        message = f"{what}: {label} ({(text.value or b'unknown').decode()})"
        if label in _ADVICE:
            message += f"; {_ADVICE[label]}"
        if label in _STICKY:
            message += (
                "; a kernel launched earlier, this one or another, did it. pyptx.simulate(kernel, ...) on the same "
                "inputs names the instruction; PYPTX_SYNC=1 names the kernel. The CUDA context of this process is lost"
            )
        return CudaError(message, label, code)

    # ---------------------------------------------------------------------------------------------------- devices

    def facts(self, device: int) -> DeviceFacts:
        """Name, compute capability and limits of GPU number `device`."""
        found = self._facts.get(device)
        if found is None:
            name = ctypes.create_string_buffer(256)
            self.check(self._call("cuDeviceGetName", name, 256, self._handle(device)), f"naming GPU {device}")
            capability = (self._attribute(Attribute.MAJOR, device), self._attribute(Attribute.MINOR, device))
            found = self._facts[device] = DeviceFacts(
                name.value.decode(errors="replace"),
                capability,
                self._attribute(Attribute.MAX_DYNAMIC_SHARED_OPTIN, device),
                self._attribute(Attribute.MULTIPROCESSORS, device),
            )
        return found

    def _handle(self, device: int) -> int:
        if not 0 <= device < self.device_count:
            raise CudaError(f"GPU {device} does not exist: this machine has {self.device_count}")
        handle = c_int()
        self.check(self._call("cuDeviceGet", byref(handle), device), f"opening GPU {device}")
        return handle.value

    def _attribute(self, attribute: int, device: int) -> int:
        value = c_int()
        self.check(
            self._call("cuDeviceGetAttribute", byref(value), attribute, self._handle(device)),
            f"asking GPU {device} for attribute {attribute}",
        )
        return value.value

    def context(self, device: int) -> int:
        """The primary context of a GPU, the one that torch and JAX use. Kept until the process ends."""
        with self._lock:
            found = self._contexts.get(device)
            if found is None:
                context = c_void_p()
                self.check(
                    self._call("cuDevicePrimaryCtxRetain", byref(context), self._handle(device)),
                    f"opening the context of GPU {device}",
                )
                found = self._contexts[device] = context.value or 0
            return found

    @contextmanager
    def on(self, device: int) -> Generator[int]:
        """Make that GPU's context current for a while."""
        context, current = self.context(device), c_void_p()
        self._call("cuCtxGetCurrent", byref(current))
        if current.value == context:
            yield context
            return
        self.check(self._call("cuCtxPushCurrent_v2", context), f"switching to GPU {device}")
        try:
            yield context
        finally:
            self._call("cuCtxPopCurrent_v2", byref(current))

    def synchronize(self, device: int, what: str = "waiting for the GPU") -> None:
        with self.on(device):
            self.check(self._call("cuCtxSynchronize"), what)

    # ---------------------------------------------------------------------------------------------------- modules

    def load_function(self, cubin: bytes, name: str, device: int, shape: LaunchShape, compiler: str = "") -> Function:
        """Load a cubin on a GPU, and prepare its entry `name` for launches like `shape`. `compiler` (`nvjitlink
        13.5.37`) made it.

        CudaError where the GPU or the driver is too old for it, or it needs more shared memory than there is.
        """
        facts = self.facts(device)
        with self.on(device) as context:
            module, handle, value = c_void_p(), c_void_p(), c_int()
            code = self._call("cuModuleLoadData", byref(module), cubin)
            if code:
                raise self.load_error(code, name, facts, compiler)
            self.check(self._call("cuModuleGetFunction", byref(handle), module, name.encode()), f"finding {name}")
            self.check(
                self._call("cuFuncGetAttribute", byref(value), Attribute.FUNCTION_STATIC_SHARED, handle),
                f"asking for the shared memory of {name}",
            )
            static = value.value
            if shape.smem > facts.max_dynamic_smem:
                raise CudaError(
                    f"{name} needs {static} bytes of static and {shape.smem} of dynamic shared memory; a CTA on "
                    f"{facts.name} has at most {facts.max_dynamic_smem}"
                )
            made = Function(name, handle.value or 0, context, device, static, module)
            self.prepare(made, shape)
            return made

    def load_error(self, code: int, name: str, facts: DeviceFacts, compiler: str) -> CudaError:
        """What it means that a cubin cannot be loaded. A cubin runs under drivers of the CUDA major version of its
        compiler, and newer ones (CUDA C++ Best Practices Guide, CUDA compatibility).
        """
        version = f"{self.version[0]}.{self.version[1]}"
        error = self.error(
            code,
            f"loading {name} on {facts.name} (sm_{facts.capability[0]}{facts.capability[1]}, driver for CUDA {version})",
        )
        made = re.search(r"\b(\d+)\.\d", compiler)
        if made is None or int(made[1]) <= self.version[0] or error.name not in _UNREADABLE:
            return error
        package = "nvidia-nvjitlink" if self.version[0] >= 13 else f"nvidia-nvjitlink-cu{self.version[0]}"
        return CudaError(
            f"{error.args[0].partition('; ')[0]}; the driver is too old for code of {compiler}: update the driver to one "
            f"for CUDA {made[1]}, or compile with CUDA {self.version[0]} ({package}, or a ptxas of it on PATH)",
            error.name,
            code,
        )

    def prepare(self, function: Function, shape: LaunchShape) -> None:
        """Set the attributes without which the driver refuses large shared memory and clusters above 8."""
        if shape.smem + function.static_smem > 48 * 1024:
            # all there is, so that no later launch with less takes it away from an earlier one with more
            most = max(self.facts(function.device).max_dynamic_smem - function.static_smem, shape.smem)
            self.check(
                self._call("cuFuncSetAttribute", function.handle, Attribute.FUNCTION_MAX_DYNAMIC_SHARED, most),
                f"allowing {function.name} {most} bytes of dynamic shared memory",
            )
        if shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 8:
            self.check(
                self._call("cuFuncSetAttribute", function.handle, Attribute.FUNCTION_NON_PORTABLE_CLUSTER, 1),
                f"allowing {function.name} clusters of {shape.cluster}",
            )

    # --------------------------------------------------------------------------------------------------- launching

    def launch(self, function: Function, shape: LaunchShape, parameters: Sequence[bytes], stream: int) -> None:
        """Launch with packed parameters on a stream of the function's context."""
        with self.on(function.device):
            self._enqueue(function, shape, parameters, stream)

    def _enqueue(self, function: Function, shape: LaunchShape, parameters: Sequence[bytes], stream: int) -> None:
        config = LaunchConfig()
        config.grid[:], config.block[:], config.shared_bytes = shape.grid, shape.block, shape.smem
        config.stream = stream
        wanted = shape.attributes
        attributes = (LaunchAttribute * max(1, len(wanted)))()
        for attribute, (number, value) in zip(attributes, wanted, strict=False):
            attribute.id = number
            attribute.value.dim[:] = value
        config.attributes, config.attribute_count = attributes, len(wanted)
        buffers = [ctypes.create_string_buffer(p, len(p)) for p in parameters]
        pointers = (c_void_p * max(1, len(buffers)))(*(ctypes.addressof(b) for b in buffers))
        code = self._call("cuLaunchKernelEx", byref(config), function.handle, pointers, None)
        if code:
            raise self.launch_error(code, function.name, shape)

    def launch_error(self, code: int, name: str, shape: LaunchShape) -> CudaError:
        words = f"launching {name} with grid {shape.grid}, block {shape.block}"
        if shape.cluster != (1, 1, 1):
            words += f", cluster {shape.cluster}"
        if shape.smem:
            words += f", {shape.smem} bytes of dynamic shared memory"
        return self.error(code, words)

    def stream_context(self, stream: int, what: str) -> int:
        """The context of a stream. CudaError for a handle that is none (any more)."""
        found = c_void_p()
        self.check(self._call("cuStreamGetCtx", stream, byref(found)), what)
        return found.value or 0

    # ------------------------------------------------------------------------------------------------- tensor maps

    def encode_tiled(
        self,
        data_type: int,
        pointer: int,
        dims: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        *,
        swizzle: int = 0,
        l2_promotion: int = 2,
        what: str = "a tensor map",
    ) -> bytes:
        """The 128 bytes of a tiled tensor map. `dims` and `box` in elements, innermost first; `strides` in bytes, of
        all dimensions but the innermost. CUDA driver API, cuTensorMapEncodeTiled.
        """
        rank = len(dims)
        buffer = ctypes.create_string_buffer(128 + 64)
        aligned = (ctypes.addressof(buffer) + 63) // 64 * 64
        code = self._call(
            "cuTensorMapEncodeTiled", aligned, data_type, rank, pointer, (c_uint64 * rank)(*dims),
            (c_uint64 * max(1, rank - 1))(*strides), (c_uint * rank)(*box), (c_uint * rank)(*(1,) * rank), 0, swizzle,
            l2_promotion, 0,
        )  # fmt: skip
        self.check(code, f"encoding {what}")
        return ctypes.string_at(aligned, 128)


class DescriptorStore:
    """Tensor maps in a GPU's memory: 128 bytes each, at addresses that stay.

    A kernel's `<tensor>_tma_desc` parameter is a pointer. Captured graphs keep such pointers, and the GPU may cache
    what
    they point to, so a slot is never freed and never written twice.
    """

    CHUNK = 4096

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver, self._device = driver, device
        self._known: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._next = self._left = 0
        self._stream: c_void_p | None = None

    def __len__(self) -> int:
        return len(self._known)

    def address(self, key: Any, encode: Any) -> int:
        """Where the map of this key lies; `encode()` makes its bytes the first time."""
        found = self._known.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._store(encode())
            return found

    def _store(self, data: bytes) -> int:
        driver = self._driver
        # a graph may be being captured on this thread: allocating and copying on another stream is then still fine
        mode = c_int(2)
        with driver.on(self._device):
            driver._call("cuThreadExchangeStreamCaptureMode", byref(mode))
            try:
                if self._stream is None:
                    self._stream = c_void_p()
                    driver.check(driver._call("cuStreamCreate", byref(self._stream), 1), "making a stream")
                if not self._left:
                    memory = c_uint64()
                    code = driver._call("cuMemAlloc_v2", byref(memory), self.CHUNK * 128)
                    driver.check(code, "allocating memory for TMA descriptors")
                    self._next, self._left = memory.value, self.CHUNK
                code = driver._call("cuMemcpyHtoDAsync_v2", self._next, data, 128, self._stream)
                driver.check(code, "copying a TMA descriptor to the GPU")
                driver.check(driver._call("cuStreamSynchronize", self._stream), "copying a TMA descriptor to the GPU")
            finally:
                driver._call("cuThreadExchangeStreamCaptureMode", byref(mode))
        where = self._next
        self._next, self._left = self._next + 128, self._left - 1
        return where


def library_path() -> str:
    """`$PYPTX_CUDA_DRIVER_LIBRARY`, else `libcuda.so.1`."""
    return os.environ.get("PYPTX_CUDA_DRIVER_LIBRARY") or "libcuda.so.1"


def find_driver() -> Driver:
    """The driver of this machine, opened once. NoDriver without one, or without a GPU."""
    return _open(library_path())


@lru_cache(maxsize=4)
def _open(path: str) -> Driver:
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise NoDriver(
            f"no NVIDIA driver: {path} cannot be loaded ({error}). Without a GPU, kernels run on NumPy arrays and CPU "
            "tensors, through the simulator"
        ) from None
    return Driver(library, path)


@lru_cache(maxsize=64)
def descriptor_store(driver: Driver, device: int) -> DescriptorStore:
    return DescriptorStore(driver, device)


TENSOR_MAP_TYPES: Mapping[str, int] = {
    "u8": 0, "s8": 0, "b8": 0, "e4m3": 0, "e5m2": 0, "ue8m0": 0, "u16": 1, "s16": 1, "b16": 1, "u32": 2, "b32": 2,
    "s32": 3, "u64": 4, "b64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "tf32": 11,
}  # fmt: skip
