"""Launching traced kernels on torch tensors of a GPU.

A call is matched with the *plans* of the kernel: specialisations that were checked once, tensor by tensor, and then
only
have to be recognised (device, dtype, shape, strides, alignment). Recognising and launching is `_launcher`'s work, or
`PythonDispatcher`'s where that is not built. A call that no plan fits is checked here, compiled, and becomes one.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ..diagnostics import PTXError
from ..frontend.core.tiles import row_major_strides
from ..frontend.kernel.keys import template_key
from ..simulator.tensor.tensor_map import TensorMap
from ..simulator.tensor.tile_maps import map_of_tile
from .arguments import allocate, bind_sizes, check_array, check_count, kernel_name, parameter_names
from .compile import Compiled, compile_kernel
from .driver import Driver, Function, LaunchShape, descriptor_store, find_driver
from .scalars import pack_scalar, pack_scalars
from .shape import launch_shape, without_ctas
from .targets import variant_on
from .tensor_map import encode
from .torch_reader import torch_internals

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel

__all__ = ["Plan", "PythonDispatcher", "launch_into", "launch_torch", "native_launcher"]


@dataclass(frozen=True)
class TensorPattern:
    """What a tensor must look like for a plan to fit."""

    device: Any
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    alignment: int


@dataclass(frozen=True)
class Plan:
    """One specialisation. `parameters`: ("t", tensor), ("d", tensor) for its TMA descriptor, ("s", offset) into the
    packed scalars, ("c", bytes).
    """

    kernel: str
    names: tuple[str, ...]
    patterns: tuple[TensorPattern, ...]
    inputs: int
    parameters: tuple[tuple[str, Any], ...]
    sizes: tuple[int, ...]
    scalar_bytes: int
    shape: LaunchShape
    function: Function
    driver: Driver
    maps: Mapping[int, TensorMap]

    @property
    def empty(self) -> bool:
        return 0 in self.shape.grid

    def descriptor(self, tensor: int, pointer: int) -> int:
        """The address of the TMA descriptor of a tensor that lies at `pointer`, made the first time."""
        made = self.maps[tensor]
        what = f"{self.kernel}: {self.names[tensor]}"
        store = descriptor_store(self.driver, self.function.device)
        return store.address((made, pointer), lambda: encode(made, self.driver, pointer, what))

    def fail(self, code: int) -> None:
        """Raise what the driver's error means for this launch."""
        raise self.driver.launch_error(code, self.kernel, self.shape)


@lru_cache(maxsize=1)
def native_launcher() -> Any:
    """The C extension, or None: not built, or PYPTX_NATIVE=0."""
    if os.environ.get("PYPTX_NATIVE") == "0":
        return None
    try:
        from . import _launcher  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:
        return None
    return _launcher


class PythonDispatcher:
    """What `_launcher.Dispatcher` does, in Python: about 20 times slower, and the reference for its tests."""

    MAX_PLANS = 64

    def __init__(self, torch: Any, driver: Driver) -> None:
        self._torch, self._driver = torch, driver
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def clear(self) -> None:
        self._plans.clear()

    def attempt(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """`call`, or with `out` among the keywords `into`; NotImplemented if no plan fits, or a tensor may have a tangent."""
        if self._torch.autograd.forward_ad._current_level >= 0:
            return NotImplemented
        if not keywords:
            return self.call(*args)
        if len(keywords) > 1 or "out" not in keywords:
            return NotImplemented
        out = keywords["out"]
        given = out if isinstance(out, tuple) else (out,)
        return out if self.into(*args, *given) is None else NotImplemented

    def add(self, plan: Plan) -> None:
        with self._lock:
            scalars = plan.scalar_bytes
            self._plans[tuple((p.device, p.dtype, p.shape, p.strides) for p in plan.patterns), scalars] = plan
            if plan.patterns[: plan.inputs] != plan.patterns:
                inputs = plan.patterns[: plan.inputs]
                self._plans[tuple((p.device, p.dtype, p.shape, p.strides) for p in inputs), scalars] = plan
            while len(self._plans) > 2 * self.MAX_PLANS:
                self._plans.popitem(last=False)

    def call(self, *args: Any) -> Any:
        return self._run(args, into=False)

    def into(self, *args: Any) -> Any:
        return self._run(args, into=True)

    def _run(self, args: Sequence[Any], *, into: bool) -> Any:
        torch = self._torch
        scalars = b""
        if args and type(args[-1]) is bytes:
            *args, scalars = args
        if torch._C._len_torch_dispatch_stack():
            return NotImplemented
        grad = torch.is_grad_enabled()
        key: list[Any] = []
        for t in args:
            if type(t) not in (torch.Tensor, torch.nn.Parameter) or (grad and t.requires_grad) or t.is_neg():
                return NotImplemented
            if (
                torch._C._functorch.is_functorch_wrapped_tensor(t)
                or t.layout is not torch.strided
                or t._is_zerotensor()
            ):
                return NotImplemented
            shape = tuple(t.shape)
            key.append((t.device, t.dtype, shape, normalised(shape, t.stride())))
        plan = self._plans.get((tuple(key), len(scalars)))
        if plan is None or len(args) != (len(plan.patterns) if into else plan.inputs):
            return NotImplemented
        if any(t.data_ptr() & (p.alignment - 1) for t, p in zip(args, plan.patterns, strict=False)):
            return NotImplemented
        outputs = [] if into else [_empty(torch, p) for p in plan.patterns[plan.inputs :]]
        if not plan.empty:
            pointers = [t.data_ptr() for t in (*args, *outputs)]
            self._driver.launch(
                plan.function, plan.shape, _packed(plan, pointers, scalars), _stream(torch, plan.patterns[0].device)
            )
        if into:
            return None
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def normalised(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 1 for the dimensions whose stride means nothing."""
    return tuple(s if n > 1 else 1 for n, s in zip(shape, strides, strict=True))


def _packed(plan: Plan, pointers: Sequence[int], scalars: bytes) -> list[bytes]:
    found: list[bytes] = []
    for (kind, value), size in zip(plan.parameters, plan.sizes, strict=True):
        if kind == "c":
            found.append(value)
        elif kind == "s":
            found.append(scalars[value : value + size])
        else:
            number = pointers[value] if kind == "t" else plan.descriptor(value, pointers[value])
            found.append(number.to_bytes(8, "little"))
    return found


def _empty(torch: Any, pattern: TensorPattern) -> Any:
    return torch.empty_strided(pattern.shape, _strides(pattern), dtype=pattern.dtype, device=pattern.device)


def _strides(pattern: TensorPattern) -> tuple[int, ...]:
    """Those of a new tensor: row-major ones where a dimension of one element leaves the choice."""
    dense = row_major_strides(pattern.shape)
    return dense if normalised(pattern.shape, dense) == pattern.strides else pattern.strides


def _stream(torch: Any, device: Any) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device.index)) if device.type == "cuda" else 0


def _native_dispatcher(native: Any, torch: Any, driver: Driver) -> Any:
    names = ("cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2")
    return native.Dispatcher(
        (torch.Tensor, torch.nn.Parameter),
        torch.Tensor.__dlpack_c_exchange_api__,
        torch_internals(torch, native),
        torch._C._len_torch_dispatch_stack,
        torch.is_grad_enabled,
        vars(torch.autograd.forward_ad),
        tuple(map(driver.address, names)),
    )


def _native_plan(native: Any, torch: Any, plan: Plan, tensors: Sequence[Any]) -> Any:
    capsule, internals = torch.Tensor.__dlpack_c_exchange_api__, torch_internals(torch, native)
    patterns: list[Any] = []
    for tensor, pattern in zip(tensors, plan.patterns, strict=True):
        keys, number, dtype, _, shape, strides = native.describe(capsule, internals, tensor)
        patterns.append((keys, number, dtype, pattern.alignment, shape, strides))
    device = native.describe(capsule, None, tensors[0])[:2]
    outputs = plan.patterns[plan.inputs :]
    slow = tuple((partial(_empty, torch, p), (), ()) for p in outputs)
    fast = tuple(_fast_allocator(torch, p) or s for p, s in zip(outputs, slow, strict=True))
    return native.Plan(
        device, tuple(patterns), plan.inputs, plan.parameters, plan.scalar_bytes, plan.function.handle,
        plan.function.context, plan.shape.grid, plan.shape.block, plan.shape.smem, plan.shape.attributes, plan.descriptor,
        plan.fail, fast, slow,
    )  # fmt: skip


def _fast_allocator(torch: Any, pattern: TensorPattern) -> Any:
    """(function, arguments) that allocates on the current device without parsing keywords, as Inductor's code does."""
    try:
        from torch._C._dynamo import guards
    except ImportError:
        return None
    make = getattr(guards, f"_empty_strided_{pattern.device.type}", None)
    return None if make is None else (make, (pattern.shape, _strides(pattern), pattern.dtype))


# --- the way in


class Launcher:
    """The dispatchers of one kernel, by template parameters. Lives in the kernel, so it goes when the kernel goes."""

    def __init__(self, kernel: Kernel, driver: Driver, torch: Any) -> None:
        self._kernel, self._driver, self._torch = kernel, driver, torch
        self._lock = threading.RLock()
        self._dispatchers: OrderedDict[Any, Any] = OrderedDict()
        native = native_launcher()
        self._native = native if native is not None and hasattr(torch.Tensor, "__dlpack_c_exchange_api__") else None
        self._raw = {n: t.partition(".") for t, n in getattr(kernel, "raw_params", ())}
        self.sync = os.environ.get("PYPTX_SYNC", "0") not in ("", "0")
        self.plain = self.dispatcher(())

    def dispatcher(self, key: Any) -> Any:
        with self._lock:
            found = self._dispatchers.get(key)
            if found is None:
                found = (
                    PythonDispatcher(self._torch, self._driver)
                    if self._native is None
                    else _native_dispatcher(self._native, self._torch, self._driver)
                )
                self._dispatchers[key] = found
                while len(self._dispatchers) > 64:
                    self._dispatchers.popitem(last=False)
            return found

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, into: bool) -> Any:
        """Outputs (None with `into`, where `args` has them too), or NotImplemented where torch must see the call."""
        if kwargs:
            key, scalars = self._split(kwargs)
            dispatcher = self.dispatcher(key)
            given = (*args, scalars) if scalars else args
        else:
            dispatcher, given = self.plain, args
        launch = dispatcher.into if into else dispatcher.call
        result = launch(*given)
        if result is NotImplemented:
            if not self._plannable(args):
                return NotImplemented
            with self._lock:
                result = launch(*given)  # another thread may have made the plan meanwhile
                if result is NotImplemented:
                    plan, tensors = make_plan(self._kernel, args, kwargs, self._driver, self._torch, into=into)
                    dispatcher.add(
                        plan if self._native is None else _native_plan(self._native, self._torch, plan, tensors)
                    )
                    result = launch(*given)
        if self.sync and result is not NotImplemented:
            index = args[0].device.index if args else 0
            self._driver.synchronize(index or 0, f"running {kernel_name(self._kernel)}")
        return result

    def _plannable(self, args: Sequence[Any]) -> bool:
        """Whether the arguments are plain tensors with memory, so that a plan can be made of them."""
        torch = self._torch
        return not torch._C._len_torch_dispatch_stack() and all(
            type(t) in (torch.Tensor, torch.nn.Parameter)
            and not torch._C._functorch.is_functorch_wrapped_tensor(t)
            and t.device.type != "meta"
            and not t._is_zerotensor()
            for t in args
        )

    def _split(self, kwargs: Mapping[str, Any]) -> tuple[Any, bytes]:
        """Keyword arguments as (key of the dispatcher, packed scalars in the order of raw_params)."""
        raw = self._raw
        key = tuple([(n, template_key(kwargs[n])) for n in sorted(kwargs) if n not in raw]) if kwargs else ()
        names = tuple(n for n in raw if n in kwargs)
        return (key, names), pack_scalars(kernel_name(self._kernel), [(n, raw[n][0], kwargs[n]) for n in names])


def launch_torch(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Outputs of a kernel on GPU tensors; NotImplemented where torch's dispatcher must see the call."""
    return _launcher_of(kernel)(args, kwargs, into=False)


def launch_into(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """As `launch_torch`, with the output tensors at the end of `args`; returns None."""
    return _launcher_of(kernel)(args, kwargs, into=True)


def _launcher_of(kernel: Kernel) -> Launcher:
    handles = kernel._cubin_handles
    found = handles.get("launcher")
    if found is None:
        driver = find_driver()
        found = handles.setdefault("launcher", Launcher(kernel, driver, sys.modules["torch"]))
        if not found.sync and "out" not in kernel.template_params:
            kernel._attempt = found.dispatcher(()).attempt
            kernel._compiling = found._torch.compiler.is_dynamo_compiling
    return found


# --- making a plan: everything is checked here, once


def make_plan(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], driver: Driver, torch: Any, *, into: bool
) -> tuple[Plan, list[Any]]:
    """The plan for these arguments, and tensors that fit it (the outputs made, unless given).

    PTXError for arguments that break their tiles or mix devices, with what would be legal; CudaError where the GPU or
    the driver cannot run it.
    """
    in_specs, out_specs = tuple(kernel.in_specs or ()), tuple(kernel.out_specs or ())
    specs = (*in_specs, *out_specs)
    names = parameter_names(kernel, len(specs))
    check_count(kernel, args, specs if into else in_specs, names)
    sizes: dict[str, int] = {}
    device = args[0].device if args else torch.device("cuda", torch.cuda.current_device())
    for value, spec, name in zip(args, specs, names, strict=False):
        if value.device != device:
            raise PTXError(
                f"{kernel_name(kernel)}: {name} is on {value.device} and {names[0]} on {device}; all "
                "tensors must be on one GPU"
            )
        check_array(kernel, value, spec, name, "torch", sizes, on_gpu=True)
    bind_sizes(kernel, kwargs, sizes)
    tensors = list(args)
    if not into:
        for spec, name in zip(out_specs, names[len(in_specs) :], strict=False):
            tensors.append(allocate(kernel, spec, name, "torch", sizes, device=device, poison=False))
    accepted: dict[str, Any] = {**sizes, **kwargs}
    index = device.index or 0
    kernel, arch = variant_on(kernel, driver.facts(index))
    specs = kernel.specs
    traced = kernel.trace(**accepted)
    shape = launch_shape(kernel, sizes, kwargs)
    without_ctas(
        kernel.name,
        shape,
        [(n, t.shape) for n, t in zip(names[len(in_specs) :], tensors[len(in_specs) :], strict=True)],
    )
    compiled = compile_kernel(kernel, arch, **accepted)
    function = _function(driver, compiled, kernel.name, index, shape)
    alignment = access_alignment(kernel.ptx(**accepted))
    parameters: list[tuple[str, Any]] = []
    widths: list[int] = []
    maps: dict[int, TensorMap] = {}
    scalars = [n for _, n in kernel.raw_params if n in kwargs]
    for p in traced.parameters:
        if p.kind == "tensor":
            parameters.append(("t", p.tensor))
        elif p.kind == "tma":
            assert p.tensor is not None
            t = tensors[p.tensor]
            what = f"{kernel_name(kernel)}: {names[p.tensor]}"
            if t.numel():
                maps[p.tensor] = map_of_tile(specs[p.tensor], tuple(t.shape), tuple(t.stride()), what)
            parameters.append(("d", p.tensor))
        elif p.name in scalars:
            parameters.append(("s", 8 * scalars.index(p.name)))
        else:
            parameters.append(("c", _fixed_scalar(kernel, p, accepted)))
        widths.append(8 if p.kind in ("tensor", "tma") else max(p.dtype.bits, 8) // 8)
    if 0 not in shape.grid and any(k == "d" and v not in maps for k, v in parameters):
        shape = LaunchShape((0, 1, 1), shape.block)  # a tensor without elements has no descriptor, and nothing to do
    patterns: list[TensorPattern] = []
    for i, (t, name) in enumerate(zip(tensors, names, strict=False)):
        need = max(alignment, 16 if i in maps else 1)
        if t.data_ptr() % need:
            raise PTXError(
                f"{kernel_name(kernel)}: {name} starts at an address that is not a multiple of {need} bytes, which "
                f"{'its TMA descriptor' if i in maps else 'the vector accesses of the kernel'} need: pass "
                "a copy (.clone())"
            )
        tensor_shape = tuple(t.shape)
        patterns.append(TensorPattern(t.device, t.dtype, tensor_shape, normalised(tensor_shape, t.stride()), need))
    plan = Plan(
        kernel_name(kernel), tuple(names), tuple(patterns), len(in_specs), tuple(parameters), tuple(widths), 8 * len(scalars),
        shape, function, driver, maps,
    )  # fmt: skip
    return plan, tensors


def _function(driver: Driver, compiled: Compiled, name: str, device: int, shape: LaunchShape) -> Function:
    """The entry loaded on that GPU, once per cubin, and prepared for launches like `shape`."""
    key = (id(driver), hash(compiled.cubin), len(compiled.cubin), name, device)
    with _functions_lock:
        found = _functions.get(key)
        if found is None:
            found = _functions[key] = driver.load_function(compiled.cubin, name, device, shape, compiled.compiler)
        else:
            driver.prepare(found, shape)
        return found


_functions: dict[Any, Function] = {}
_functions_lock = threading.Lock()


def _fixed_scalar(kernel: Kernel, parameter: Any, accepted: Mapping[str, Any]) -> bytes:
    defaults = kernel.template_params
    value = accepted.get(parameter.name, defaults.get(parameter.name))
    if value is None or parameter.is_pointer or parameter.array is not None:
        what = "is a pointer or an array" if parameter.is_pointer or parameter.array is not None else ""
        if what:
            raise PTXError(
                f"{kernel_name(kernel)}: the raw parameter {parameter.name} {what}: use {kernel_name(kernel)}.launch(...)"
            )
        raise TypeError(f"{kernel_name(kernel)} needs its parameter {parameter.name}: pass {parameter.name}=...")
    return pack_scalar(kernel_name(kernel), parameter.name, parameter.dtype.name, value)


_VECTOR = re.compile(
    r"\b(?:ld|st|ldu|red|atom)\.(?!shared|param|local|const)[\w.:]*?(?:\.v(?P<count>[248]))?\.[bfsu][a-z]?(?P<bits>\d+)(?:x2)?\b"
)
_ASYNC = re.compile(r"\bcp\.async\.(?:ca|cg)\.shared[\w.:]*\s+\[[^\]]*\]\s*,\s*\[[^\]]*\]\s*,\s*(\d+)")


@lru_cache(maxsize=256)
def access_alignment(ptx: str) -> int:
    """Bytes that one access of the kernel to global memory moves at most, to which its tensors must be aligned."""
    most = 1
    for found in _VECTOR.finditer(ptx):
        if not re.search(r"\.(shared|param|local|const)\b", found[0]):
            most = max(most, int(found["bits"]) // 8 * int(found["count"] or 1))
    for found in _ASYNC.finditer(ptx):
        most = max(most, int(found[1]))
    if "cp.async.bulk" in ptx and re.search(r"cp\.async\.bulk\.(?!tensor|commit|wait)", ptx):
        most = max(most, 16)
    return min(most, 32)
