"""`kernel.launch(grid, block, args)`: any entry with explicit arguments, imported PTX included."""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..diagnostics import Diagnostic, PTXError, counted
from ..dialects.ptx.types import SCALAR_TYPES
from .arguments import fake_gpu, parameter_names
from .compile import compile_ptx
from .driver import DeviceFacts, Driver, LaunchShape, find_driver
from .launch import _function
from .scalars import FORMATS, plain_number
from .shape import checked_shape
from .simulated import tell
from .streams import current_stream, stream_handle
from .targets import cubin_arch, refusal, runs_on, variant_on

__all__ = ["RawEntry", "launch_entry", "launch_kernel", "launch_loaded"]


_OPTIONS = {"stream", "cluster", "smem", "cooperative", "programmatic", "device"}


@dataclass(frozen=True)
class RawEntry:
    """An entry to launch: its PTX, its parameters as (name, PTX type, bytes, whether an array by value)."""

    name: str
    arch: str
    ptx: str
    parameters: tuple[tuple[str, str, int, bool], ...]

    @property
    def __name__(self) -> str:
        return self.name


def launch_kernel(
    kernel: Any,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    template: Mapping[str, Any] | None = None,
    **options: Any,
) -> None:
    """`Kernel.launch`. `template`: template parameters and dimensions. Options as for `launch_entry`."""
    simulated = _simulated(args, options)
    if not simulated:
        driver = find_driver()
        names = [*parameter_names(kernel, len(kernel.specs)), *(n for _, n in kernel.raw_params)]
        index = options["device"] = _device_of(kernel.name, names, args, options.get("device"))
        kernel, _ = variant_on(kernel, driver.facts(index))
    traced = kernel.trace(**dict(template or {}))
    parameters: list[tuple[str, str, int, bool]] = []
    for p in traced.parameters:
        count = p.array
        parameters.append((p.name, p.dtype.name, p.dtype.bits // 8 * (count or 1), count is not None))
    entry = RawEntry(kernel.name, kernel.arch, kernel.ptx(**dict(template or {})), tuple(parameters))
    if options.get("smem") is None:
        options["smem"] = traced.dynamic_smem
    try:
        if simulated:
            from ..simulator.launch.launch import load_module

            _simulate(load_module(traced.module), kernel.name, grid, block, args, options)
        else:
            launch_entry(entry, grid, block, args, **options)
    except PTXError as error:
        raise PTXError(_at_python_lines(kernel, error.diagnostics, template or {})) from None


def _at_python_lines(kernel: Any, found: Sequence[Diagnostic], template: Mapping[str, Any]) -> list[Diagnostic]:
    return kernel._mapped(found, template) if any(d.line and d.filename is None for d in found) else list(found)


def launch_loaded(kernel: Any, grid: Any, block: Any, args: Sequence[Any], **options: Any) -> None:
    """`LoadedKernel.launch`, for PTX that was imported with `pyptx.load`."""
    if _simulated(args, options):
        _simulate(kernel.loaded, kernel.name, grid, block, args, options)
        return
    from ..printer.ptx import print_module

    module = kernel.module
    parent = module.parent_op()
    parameters = tuple((p.name, p.type, p.size, bool(p.array)) for p in kernel.parameters)
    text = print_module(parent if parent is not None else module)
    launch_entry(RawEntry(kernel.name, module.target.target, text, parameters), grid, block, args, **options)


def _simulated(args: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Whether a launch is for the CPU: it has CPU arrays, and no GPU is asked for. TypeError for unknown options."""
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"launch has no option {unknown[0]!r}; it has: {', '.join(sorted(_OPTIONS))}")
    import numpy as np

    _refuse_jax(args)
    torch: Any = sys.modules.get("torch")
    tensors = [a for a in args if torch is not None and isinstance(a, torch.Tensor)]
    if (
        any(t.device.type == "cuda" for t in tensors)
        or options.get("stream") is not None
        or options.get("device") is not None
    ):
        return False
    return not fake_gpu() and (bool(tensors) or any(isinstance(a, np.ndarray) for a in args))


def _refuse_jax(args: Sequence[Any]) -> None:
    """TypeError for values of JAX that a launch cannot change: those that JAX traces, and arrays on the CPU."""
    jax: Any = sys.modules.get("jax")
    if jax is None:
        return
    for i, value in enumerate(args):
        if isinstance(value, jax.core.Tracer):
            what = "a value that JAX traces"
        elif isinstance(value, jax.Array) and all(device.platform == "cpu" for device in value.devices()):
            what = "a JAX array on the CPU"
        else:
            continue
        raise TypeError(
            f"argument {i} of the launch is {what}, which a launch cannot change: call a kernel with in_specs and out_specs, or "
            "launch on copies (np.array), inside jax.jit by jax.pure_callback"
        )


def _simulate(loaded: Any, name: str, grid: Any, block: Any, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    from ..simulator.launch.launch import simulate_entry
    from ..simulator.launch.options import checked_options

    taken = {n: options[n] for n in ("cluster", "smem", "cooperative") if n in options}
    tell(simulate_entry(loaded, name, args, checked_options({"grid": grid, "block": block, **taken})))


def launch_entry(
    entry: RawEntry,
    grid: Any,
    block: Any,
    args: Sequence[Any],
    *,
    stream: Any = None,
    cluster: Any = None,
    smem: int | None = None,
    cooperative: bool = False,
    programmatic: bool = False,
    device: int | None = None,
) -> None:
    """Launch an entry on a GPU, without waiting.

    grid, block, cluster: CTAs, threads, CTAs; an int or up to three. args: in parameter order: GPU tensors, objects
    with `__cuda_array_interface__`, addresses (int) or None for pointers; numbers for scalars; bytes for arrays by
    value (a TMA descriptor is 128 bytes). stream: of torch, of cuda.core, a raw handle; default: torch's current
    stream, else the default stream. smem: bytes of dynamic shared memory. programmatic: may start before its
    predecessor in the stream ends (griddepcontrol).

    PTXError for arguments or a shape that cannot be; CudaError from the driver; NoDriver without a GPU.
    """
    driver = find_driver()
    if len(args) != len(entry.parameters):
        listed = ", ".join(f"{n} (.{t})" for n, t, _, _ in entry.parameters)
        raise PTXError(f"{entry.name} takes {counted(len(entry.parameters), 'argument')}, not {len(args)}: {listed}")
    index = _device_of(entry.name, [n for n, _, _, _ in entry.parameters], args, device)
    packed = [_pack(entry, p, a) for p, a in zip(entry.parameters, args, strict=True)]
    shape = checked_shape(
        entry.name,
        LaunchShape(
            _triple(entry, "grid", grid), _triple(entry, "block", block), _triple(entry, "cluster", cluster or 1),
            int(smem or 0), cooperative, programmatic,
        ),
    )  # fmt: skip
    if 0 in shape.grid:
        raise PTXError(f"{entry.name}: grid {shape.grid} has no CTAs; a grid is one to three positive ints")
    handle = _stream(driver, entry, stream, index)
    compiled = compile_ptx(entry.ptx, _arch_on(entry, driver.facts(index)))
    driver.launch(_function(driver, compiled, entry.name, index, shape), shape, packed, handle)


def _arch_on(entry: RawEntry, facts: DeviceFacts) -> str:
    """What to compile an entry for on a GPU. PTXError where its target does not run there."""
    if not runs_on(entry.arch, facts.capability):
        raise refusal(entry.name, (entry.arch,), facts)
    return cubin_arch(entry.arch, facts.capability)


def _triple(entry: RawEntry, what: str, value: Any) -> tuple[int, int, int]:
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(parts) <= 3 or not all(hasattr(p, "__index__") for p in parts):
        raise PTXError(f"{entry.name}: the {what} is one to three ints, not {value!r}")
    return tuple(int(p) for p in (*parts, 1, 1)[:3])  # pyright: ignore[reportReturnType]


def _stream(driver: Driver, entry: RawEntry, stream: Any, device: int) -> int:
    if stream is None:
        return current_stream(device)
    handle = stream_handle(stream)
    if handle > 2:
        what = f"{entry.name}: the stream {stream!r} (was it destroyed?)"
        with driver.on(device) as context:
            if driver.stream_context(handle, what) != context:
                raise PTXError(
                    f"{entry.name}: the stream {stream!r} is of another GPU than the arguments (GPU {device})"
                )
    return handle


def _device_of(entry: str, names: Sequence[str], args: Sequence[Any], device: int | None) -> int:
    """The GPU that the arguments lie on, else `device`, else torch's current one. PTXError for several."""
    found: dict[int, str] = {}
    if device is not None:
        found[device] = "device="
    torch: Any = sys.modules.get("torch")
    fake = find_driver().fake
    for name, value in zip(names, args, strict=False):
        if torch is not None and isinstance(value, torch.Tensor):
            if value.device.type != "cuda" and not (fake and value.device.type == "cpu"):
                raise PTXError(f"{entry}: {name} is a tensor on {value.device}, and the launch is on a GPU")
            found.setdefault(value.device.index or 0, name)
    if len(found) > 1:
        listed = ", ".join(f"{name} on GPU {number}" for number, name in found.items())
        raise PTXError(f"{entry}: all arguments must be on one GPU; {listed}")
    if found:
        return next(iter(found))
    return torch.cuda.current_device() if torch is not None and torch.cuda.is_available() else 0


def _pack(entry: RawEntry, parameter: tuple[str, str, int, bool], value: Any) -> bytes:
    """The bytes of one parameter. PTXError, naming it, for what it cannot hold."""
    name, dtype, size, array = parameter
    what = f"{entry.name}: {name}"
    if array:
        raw = (
            bytes(value)
            if isinstance(value, (bytes, bytearray, memoryview))
            else getattr(value, "tobytes", lambda: None)()
        )
        if raw is None or len(raw) != size:
            given = f"{len(raw)} bytes" if raw is not None else type(value).__name__
            raise PTXError(f"{what} is passed by value as {size} bytes (bytes or a NumPy array), not {given}")
        return raw
    pointer = _pointer(what, value)
    if pointer is not None:
        if size != 8 or dtype[0] == "f":
            raise PTXError(f"{what} is a .{dtype}, not a pointer")
        return pointer.to_bytes(8, "little")
    value = plain_number(value)
    code = FORMATS.get(dtype)
    if code is None or dtype not in SCALAR_TYPES:
        raise PTXError(f"{what} is a .{dtype}, which cannot be passed")
    if isinstance(value, float) and dtype in ("b32", "b64", "b16"):
        code = {"b16": "e", "b32": "f", "b64": "d"}[dtype]
    try:
        if code in "BHIQ" and isinstance(value, int) and value < 0:
            code = code.lower()
        return struct.pack("<" + code, value)
    except (struct.error, OverflowError) as error:
        raise PTXError(f"{what} is a .{dtype}: {value!r} does not fit ({error})") from None


def _pointer(what: str, value: Any) -> int | None:
    torch: Any = sys.modules.get("torch")
    if value is None:
        return 0
    if torch is not None and isinstance(value, torch.Tensor):
        return int(value.data_ptr())
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return int(interface["data"][0])
    if type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "unsafe_buffer_pointer"):
        return int(value.unsafe_buffer_pointer())
    if type(value).__name__ == "ndarray":
        raise PTXError(f"{what} is a NumPy array, which no GPU can read; give a GPU tensor")
    return None
