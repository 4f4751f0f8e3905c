"""Kernels as foreign functions of XLA: `jit`, `vmap`, `shard_map`, gradients, export.

A call carries its whole program in the HLO: the PTX, the launch and how parameters are made of arrays. So an exported
computation runs in any process that has imported this module, without the kernel's Python source. On the CPU platform
the simulator runs it, on CUDA the launcher does, on XLA's stream.

The handlers are C (`_xla_handler.c`), built with gcc against the headers that jaxlib ships, once per machine and
jaxlib,
into the cache directory. Where that cannot be, the CPU runs through `jax.pure_callback`, and a GPU is refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, c_int, c_int64, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import numpy as np

from ..diagnostics import PTXError
from ..disk_cache import CacheRefused, cache_directory, make_private
from ..frontend.core.tiles import row_major_strides
from ..frontend.kernel.keys import template_key
from ..simulator.launch.launch import LoadedModule, simulate_entry
from ..simulator.launch.options import checked_options
from ..simulator.tensor.tensor_map import TensorArgument, TensorMap
from ..simulator.tensor.tile_maps import map_of_tile
from .arguments import (
    NUMPY_TYPES,
    Keywords,
    bind_sizes,
    check_count,
    describe_tile,
    dims_of,
    dtype_name,
    fake_gpu,
    kernel_name,
    parameter_names,
)
from .compile import compile_ptx
from .driver import CudaError, DeviceFacts, LaunchAttribute, LaunchShape, NoDriver, descriptor_store, find_driver
from .launch import _fixed_scalar, _function
from .shape import launch_shape, without_ctas
from .simulated import shape_options
from .targets import best_target, cubin_arch, refusal
from .tensor_map import encode

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel

__all__ = ["Program", "call_differentiable", "call_jax", "handlers", "program_of"]


@dataclass(frozen=True)
class Program:
    """All that is needed to run a kernel on buffers. `buffers`: (NumPy type name, shape), inputs then outputs.
    `parameters`: ["t", buffer], ["c", hex of the bytes], ["d", buffer, map] in the entry's order. `others`: the same for
    the other targets of a fat kernel; the simulator runs the first.
    """

    entry: str
    arch: str
    ptx: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    smem: int
    cooperative: bool
    programmatic: bool
    inputs: int
    buffers: tuple[tuple[str, tuple[int, ...]], ...]
    parameters: tuple[Any, ...]
    others: tuple[Program, ...] = ()

    @property
    def __name__(self) -> str:
        return self.entry

    def text(self) -> str:
        """The program as JSON, the same for equal programs."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> Program:
        """The program that `text` says. Unknown fields of a newer pyptx are an error."""
        return Program._from_fields(json.loads(text))

    @staticmethod
    def _from_fields(fields: dict[str, Any]) -> Program:
        for name in ("grid", "block", "cluster"):
            fields[name] = tuple(fields[name])
        fields["buffers"] = tuple((d, tuple(s)) for d, s in fields["buffers"])
        fields["others"] = tuple(Program._from_fields(other) for other in fields["others"])
        return Program(**fields)

    def on(self, facts: DeviceFacts) -> Program:
        """The program for a GPU. PTXError where none of its targets runs there."""
        programs = {p.arch: p for p in (self, *self.others)}
        arch = best_target(programs, facts.capability)
        if arch is None:
            raise refusal(self.entry, programs, facts)
        return programs[arch]

    @property
    def shape(self) -> LaunchShape:
        return LaunchShape(self.grid, self.block, self.cluster, self.smem, self.cooperative, self.programmatic)


def key_of(text: str) -> int:
    """A signed 64-bit digest of a program's text, which is what handlers look it up by."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)


def call_jax(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a kernel on JAX arrays or tracers; the outputs, one or a tuple.

    PTXError for arrays that break their tiles; TypeError for keyword arguments that are traced.
    """
    if "out" in kwargs and "out" not in kernel.template_params:
        raise TypeError(
            f"{kernel_name(kernel)}: JAX arrays do not change, so out= is not valid: use the array that the call returns, and let "
            "a kernel that adds to its output write it first"
        )
    for name, value in kwargs.items():
        if isinstance(value, (jax.core.Tracer, jax.Array)):
            raise TypeError(
                f"{kernel_name(kernel)}: {name} is an array or a traced value; template parameters, dimensions and scalars "
                "are part of the compiled program: give a Python number, or mark it static in jax.jit"
            )
    text, outputs = _specialised(kernel, tuple((tuple(a.shape), str(a.dtype)) for a in args), _frozen(kwargs))

    @jax.custom_jvp
    def run(*arrays: Any) -> Any:
        results = _bind(text, outputs, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    @run.defjvp
    def refuse(primals: Any, tangents: Any) -> Any:
        raise PTXError(
            f"{kernel_name(kernel)} has no gradient in JAX: give it one with pyptx.differentiable_kernel({kernel_name(kernel)}, "
            "backward) for reverse mode, or put jax.lax.stop_gradient around its inputs"
        )

    return run(*args)


def _frozen(kwargs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(((n, v.item() if isinstance(v, np.generic) else v) for n, v in kwargs.items())))


def _specialised(kernel: Kernel, shapes: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> tuple[str, Any]:
    """(program text, shapes and types of the outputs), kept in the kernel."""
    key = ("jax", shapes, tuple((n, template_key(v)) for n, v in kwargs))
    found = kernel._cubin_handles.get(key)
    if found is None:
        program = program_of(kernel, shapes, dict(kwargs))
        outputs = [
            jax.ShapeDtypeStruct(shape, np.dtype(_numpy_type(dtype)))
            for dtype, shape in program.buffers[program.inputs :]
        ]
        found = kernel._cubin_handles[key] = (program.text(), outputs)
    return found


def program_of(kernel: Kernel, inputs: Sequence[tuple[tuple[int, ...], str]], kwargs: Mapping[str, Any]) -> Program:
    """The program of a kernel on inputs of these (shape, NumPy type name). PTXError where they break its tiles."""
    in_specs, out_specs = tuple(kernel.in_specs or ()), tuple(kernel.out_specs or ())
    specs = (*in_specs, *out_specs)
    names = parameter_names(kernel, len(specs))
    check_count(kernel, inputs, in_specs, names)
    sizes: dict[str, int] = {}
    for (shape, dtype), spec, name in zip(inputs, in_specs, names, strict=False):
        tile = f"{kernel_name(kernel)}: {name} must be {describe_tile(spec)}"
        wanted = dtype_name(spec)
        legal = np.dtype(NUMPY_TYPES[wanted]).name
        untyped = (
            wanted[0] == "b" and wanted[1:].isdigit() and np.dtype(_numpy_type(dtype)).itemsize * 8 == int(wanted[1:])
        )
        if dtype != legal and not untyped and not (wanted[0] == "u" and dtype == legal[1:]):
            raise PTXError(f"{tile}, so of dtype {legal}, and is {dtype}")
        if len(shape) != len(dims_of(spec)):
            raise PTXError(f"{tile}, so of rank {len(dims_of(spec))}, and has rank {len(shape)} (shape {shape})")
        if not all(isinstance(n, int) for n in shape):
            raise PTXError(
                f"{tile}, and has the symbolic shape {shape}: sizes and the grid are part of an exported program, so export it once for each shape"
            )
        for axis, (dim, size) in enumerate(zip(dims_of(spec), shape, strict=True)):
            known = sizes.setdefault(dim, size) if isinstance(dim, str) else dim
            if known != size:
                raise PTXError(f"{tile}, so of size {known} along axis {axis}, and has shape {shape}")
        problem = spec.bind_strides(shape, row_major_strides(shape), sizes) if spec.strides is not None else None
        if problem is not None:
            raise PTXError(f"{tile}, {problem}; JAX arrays are row-major")
    bind_sizes(kernel, kwargs, sizes)
    buffers = [(dtype, tuple(shape)) for shape, dtype in inputs]
    for spec, name in zip(out_specs, names[len(in_specs) :], strict=False):
        missing = [d for d in dims_of(spec) if isinstance(d, str) and d not in sizes]
        if missing:
            raise PTXError(
                f"{kernel_name(kernel)}: the size {missing[0]} of the output {name} follows from no input; pass it"
            )
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in dims_of(spec))
        dense = row_major_strides(shape)
        problem = spec.bind_strides(shape, dense, sizes) if spec.strides is not None else None
        if problem is not None:
            raise PTXError(
                f"{kernel_name(kernel)}: the output {name} must be {describe_tile(spec)}, {problem}; JAX arrays are row-major"
            )
        buffers.append((np.dtype(NUMPY_TYPES[dtype_name(spec)]).name, shape))
    archs = (kernel.arch,) if kernel.archs == ("auto",) else kernel.archs
    first, *others = (_program_for(kernel.variant(a), buffers, sizes, kwargs) for a in archs)
    return replace(first, others=tuple(others))


def _program_for(
    kernel: Kernel, buffers: Sequence[tuple[str, tuple[int, ...]]], sizes: dict[str, int], kwargs: Mapping[str, Any]
) -> Program:
    """The program of a kernel with one target, on buffers that fit its tiles."""
    specs = kernel.specs
    names = parameter_names(kernel, len(specs))
    accepted: dict[str, Any] = {**sizes, **kwargs}
    traced = kernel.trace(**accepted)
    launch = launch_shape(kernel, sizes, kwargs)
    count = len(kernel.in_specs or ())
    without_ctas(kernel.name, launch, [(n, s) for n, (_, s) in zip(names[count:], buffers[count:], strict=True)])
    parameters: list[Any] = []
    grid = launch.grid
    for p in traced.parameters:
        if p.kind == "tensor":
            parameters.append(("t", p.tensor))
        elif p.kind == "tma":
            assert p.tensor is not None
            _, shape = buffers[p.tensor]
            if not all(shape):
                grid = (0, 1, 1)
                parameters.append(("t", p.tensor))
                continue
            strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
            made = map_of_tile(specs[p.tensor], shape, strides, f"{kernel_name(kernel)}: {names[p.tensor]}")
            parameters.append(("d", p.tensor, asdict(made)))
        else:
            parameters.append(("c", _fixed_scalar(kernel, p, accepted).hex()))
    return Program(
        kernel.name, kernel.arch, kernel.ptx(**accepted), grid, launch.block, launch.cluster, launch.smem,
        launch.cooperative, launch.programmatic, count, tuple(buffers), tuple(parameters),
    )  # fmt: skip


def _numpy_type(name: str) -> Any:
    import ml_dtypes

    return getattr(ml_dtypes, name, None) or np.dtype(name)


def _bind(text: str, outputs: Sequence[Any], args: Sequence[Any]) -> Sequence[Any]:
    if not outputs:
        return []
    native = handlers()
    if native is None:
        return jax.lax.platform_dependent(*args, cpu=_in_python(text, outputs), default=_refused(outputs))
    target = "pyptx_cuda" if fake_gpu() else "pyptx_kernel"
    call = jax.ffi.ffi_call(target, list(outputs), vmap_method="sequential", has_side_effect=False)
    return call(*args, key=np.int64(key_of(text)), program=text)


def _in_python(text: str, outputs: Sequence[Any]) -> Any:
    """The simulator, called back without the native handlers."""
    return lambda *args: jax.pure_callback(
        partial(_callback_on_arrays, text), list(outputs), *args, vmap_method="sequential"
    )


def _refused(outputs: Sequence[Any]) -> Any:
    """A foreign function that nobody has registered, for GPUs without the native handlers: XLA's error is its name."""
    name = "pyptx_has_no_native_handlers_because_there_is_no_gcc_or_PYPTX_NATIVE_is_0"
    return jax.ffi.ffi_call(name, list(outputs), vmap_method="sequential")


def _callback_on_arrays(text: str, *arrays: Any) -> list[Any]:
    program = _program(text)
    values = [np.ascontiguousarray(np.asarray(a)) for a in arrays]
    made = [np.zeros(shape, _numpy_type(dtype)) for dtype, shape in program.buffers[program.inputs :]]
    run_program(program, [*values, *made])
    return made


@lru_cache(maxsize=512)
def _program(text: str) -> Program:
    return Program.from_text(text)


@lru_cache(maxsize=128)
def _loaded(ptx: str) -> LoadedModule:
    from ..parser import parse_text

    return LoadedModule(parse_text(ptx, "<kernel>"))


def run_program(program: Program, arrays: Sequence[Any]) -> None:
    """Run a program on NumPy arrays, inputs then outputs, which are filled with NaN or 0xCD first (`call`)."""
    for (dtype, _), array in zip(program.buffers[program.inputs :], arrays[program.inputs :], strict=True):
        floating = "float" in dtype
        array.reshape(-1).view(np.uint8)[...] = 0xFF if floating else 0xCD
    if 0 in program.grid:
        return
    loaded = _loaded(program.ptx)
    values: list[Any] = []
    for parameter, declared in zip(program.parameters, loaded.program(program.entry).parameters, strict=True):
        kind, value = parameter[0], parameter[1]
        if kind == "c":
            values.append(_number(bytes.fromhex(value), declared.type))
        elif kind == "d":
            values.append(TensorArgument(arrays[value], _tensor_map(parameter[2])))
        else:
            values.append(arrays[value])
    report = simulate_entry(
        loaded,
        program.entry,
        values,
        checked_options(shape_options(program)),
    )
    if report.output:
        sys.stdout.write(report.output)


def _number(raw: bytes, dtype: str) -> Any:
    """A scalar parameter as `simulate_entry` takes it."""
    if dtype in ("f32", "f64", "f16"):
        return np.frombuffer(raw, f"<f{len(raw)}")[0].item()
    return int.from_bytes(raw, "little")


def _tensor_map(fields: Mapping[str, Any]) -> TensorMap:
    found: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
    return TensorMap(**found)


# --- gradients


def call_differentiable(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a `DifferentiableKernel` on JAX arrays."""
    return _with_gradient(function, Keywords(dict(_frozen(kwargs))))(*args)


@lru_cache(maxsize=256)
def _with_gradient(function: Any, keywords: Keywords) -> Any:
    kwargs = keywords.values

    @jax.custom_vjp
    def call(*args: Any) -> Any:
        return call_jax(function.forward, args, kwargs)

    def forward(*args: Any) -> Any:
        out = call_jax(function.forward, args, kwargs)
        outputs = out if isinstance(out, tuple) else (out,)
        return out, (function.save(args, outputs), args)

    def backward(residuals: Any, grads: Any) -> Any:
        saved, args = residuals
        given = grads if isinstance(grads, tuple) else (grads,)
        found = function.gradients(saved, given, kwargs)
        rest = args[len(found) :]
        zeros = [
            jax.numpy.zeros_like(a)
            if jax.numpy.issubdtype(a.dtype, jax.numpy.floating)
            else np.zeros(a.shape, jax.dtypes.float0)
            for a in rest
        ]
        return (*found, *zeros)

    call.defvjp(forward, backward)
    return call


# --- the native handlers

_CALLBACK = CFUNCTYPE(
    c_int, c_int, c_int64, c_void_p, c_size_t, c_int, POINTER(c_void_p), c_int, c_int, POINTER(c_uint64), c_void_p,
    c_size_t,
)  # fmt: skip


class _Parameter(ctypes.Structure):
    _fields_ = [("kind", c_int), ("index", c_int), ("bytes", c_ubyte * 128)]


class _Plan(ctypes.Structure):
    _fields_ = [
        ("key", c_int64), ("device", c_int), ("parameter_count", c_int), ("attribute_count", c_int),
        ("parameters", _Parameter * 96), ("attributes", LaunchAttribute * 4), ("grid", c_uint * 3),
        ("block", c_uint * 3), ("shared_bytes", c_uint), ("function", c_void_p), ("context", c_void_p),
        ("launch", c_void_p), ("get_current", c_void_p), ("push", c_void_p), ("pop", c_void_p),
        ("without_stream", c_int), ("slots", c_void_p), ("next", c_void_p),
    ]  # fmt: skip


class Handlers:
    """The built handlers, registered with XLA."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.pyptx_plan_size.restype = c_size_t
        if self.library.pyptx_plan_size() != ctypes.sizeof(_Plan):
            raise ImportError(f"{path} is of another pyptx: delete it")
        self._callback = _CALLBACK(self._called)
        self._lock = threading.Lock()
        self._planned: set[tuple[int, int]] = set()
        self.library.pyptx_set_callback(self._callback)
        capsule = jax.ffi.pycapsule
        jax.ffi.register_ffi_target("pyptx_kernel", capsule(self.library.pyptx_xla_cpu), platform="cpu")
        jax.ffi.register_ffi_target("pyptx_kernel", capsule(self.library.pyptx_xla_cuda), platform="CUDA")
        # the launcher on the CPU platform, for tests against a driver that records
        jax.ffi.register_ffi_target("pyptx_cuda", capsule(self.library.pyptx_xla_cuda), platform="cpu")

    def _called(
        self, what: int, key: int, text: int, size: int, device: int, buffers: Any, count: int, index: int, result: Any,
        message: int, room: int,
    ) -> int:  # fmt: skip
        """What the handlers ask of Python. No exception may leave: its text goes into the message."""
        try:
            program = _program(ctypes.string_at(text, size).decode())
            if what == 0:
                arrays = [_view(buffers[i], *program.buffers[i]) for i in range(count)]
                run_program(program, arrays)
            elif what == 1:
                self._prepare(program, key, device)
            elif what == 2:
                driver = find_driver()
                program = program.on(driver.facts(device))
                made = next(_tensor_map(p[2]) for p in program.parameters if p[0] == "d" and p[1] == index)
                pointer = int(buffers[0] or 0)
                store = descriptor_store(driver, device)
                words = f"{program.entry}: array {index}"
                result[0] = store.address((made, pointer), lambda: encode(made, driver, pointer, words))
            else:
                driver = find_driver()
                raise driver.launch_error(index, program.entry, program.on(driver.facts(device)).shape)
        except (PTXError, CudaError, NoDriver) as error:
            _say(message, room, str(error))
            return 1
        except BaseException:
            _say(message, room, "pyptx failed inside of XLA:\n" + traceback.format_exc())
            return 1
        return 0

    def _prepare(self, program: Program, key: int, device: int) -> None:
        with self._lock:
            if (key, device) in self._planned:
                return
            driver = find_driver()
            facts = driver.facts(device)
            program = program.on(facts)
            compiled = compile_ptx(program.ptx, cubin_arch(program.arch, facts.capability))
            function = _function(driver, compiled, program.entry, device, program.shape)
            plan = _Plan(key=key, device=device, parameter_count=len(program.parameters))
            for slot, parameter in zip(plan.parameters, program.parameters, strict=False):
                slot.kind = {"t": 0, "c": 1, "d": 2}[parameter[0]]
                if slot.kind == 1:
                    raw = bytes.fromhex(parameter[1])
                    slot.bytes[: len(raw)] = raw
                else:
                    slot.index = parameter[1]
            for attribute, (number, value) in zip(plan.attributes, program.shape.attributes, strict=False):
                attribute.id = number
                attribute.value.dim[:] = value
            plan.attribute_count = len(program.shape.attributes)
            plan.grid[:], plan.block[:], plan.shared_bytes = program.grid, program.block, program.smem
            plan.function, plan.context = function.handle, function.context
            plan.launch = driver.address("cuLaunchKernelEx")
            plan.get_current = driver.address("cuCtxGetCurrent")
            plan.push = driver.address("cuCtxPushCurrent_v2")
            plan.pop = driver.address("cuCtxPopCurrent_v2")
            plan.without_stream = int(driver.fake)
            self.library.pyptx_add_plan(ctypes.byref(plan))
            self._planned.add((key, device))


def _say(message: int, room: int, text: str) -> None:
    raw = text.encode()[: room - 1] + b"\0"
    ctypes.memmove(message, raw, len(raw))


def _view(pointer: int | None, dtype: str, shape: tuple[int, ...]) -> Any:
    kind = np.dtype(_numpy_type(dtype))
    size = int(np.prod(shape)) * kind.itemsize
    if not size or not pointer:
        return np.empty(shape, kind)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.frombuffer(memory, kind).reshape(shape)


@lru_cache(maxsize=1)
def handlers() -> Handlers | None:
    """The native handlers, built if need be; None where they cannot be (no gcc, no headers, PYPTX_NATIVE=0)."""
    if os.environ.get("PYPTX_NATIVE") == "0":
        return None
    try:
        path = _built()
        if path is None:
            return None
        try:
            return Handlers(path)
        except (OSError, ImportError):  # of another machine or C library, or damaged as it was written
            path.unlink()
            path = _built()
            return None if path is None else Handlers(path)
    except (OSError, ImportError, CacheRefused, subprocess.SubprocessError) as error:
        warnings.warn(
            f"JAX calls go through Python: the native handler does not load: {error}", RuntimeWarning, stacklevel=2
        )
        return None


def _built() -> Path | None:
    source = Path(__file__).with_name("_xla_handler.c")
    include = Path(jax.ffi.include_dir())
    header = include / "xla" / "ffi" / "api" / "c_api.h"
    compiler = next((c for c in ("gcc", "cc", "clang") if shutil.which(c)), None)
    if not header.exists() or not source.exists():
        return None
    words = header.read_text()
    built_from = "\0".join([source.read_text(), words, *platform.uname()[4:5], *platform.libc_ver()])
    folder = cache_directory() / "native"
    target = folder / f"xla_handler-{hashlib.sha256(built_from.encode()).hexdigest()[:16]}.so"
    make_private(cache_directory())
    make_private(folder)
    if not _is_intact(target):
        if compiler is None:
            return None
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, target.name)
            options = ["-DPYPTX_HAS_ORDINAL"] if "XLA_FFI_DeviceOrdinal_Get_Args" in words else []
            subprocess.run(
                [compiler, "-O2", "-std=gnu11", "-shared", "-fPIC", *options, f"-I{include}", str(source), "-o",
                 str(made), "-lpthread"],
                check=True, capture_output=True, timeout=120,
            )  # fmt: skip
            seal = Path(scratch, "seal")
            seal.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
            os.replace(seal, _seal_of(target))
            os.replace(made, target)
    return target


def _seal_of(library: Path) -> Path:
    """The file with the digest of a built library."""
    return library.with_suffix(".sha256")


def _is_intact(library: Path) -> bool:
    """Whether a built library is there as it was written."""
    try:
        return _seal_of(library).read_text() == hashlib.sha256(library.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return False
