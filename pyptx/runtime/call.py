"""`Kernel.__call__`: check the inputs, allocate the outputs, run.

On NumPy arrays and CPU torch tensors the kernel runs on the simulator, on GPU tensors through the driver (`launch`),
on JAX arrays as a foreign function of XLA (`jax_ffi`). torch and JAX are never imported here: their arrays can only
come
from a program that has imported them.
"""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..diagnostics import PTXError, SimulationError, SimulationWarning
from ..simulator.launch.launch import load_module, simulate_entry
from ..simulator.launch.options import checked_options
from ..simulator.tensor.tile_maps import with_tensor_maps
from .driver import LaunchShape
from .scalars import FORMATS, pack_scalar, plain_number
from .shape import launch_shape, without_ctas

__all__ = ["call_eager", "call_kernel"]

NUMPY_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "tf32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "pred": np.bool_,
    **{f"u{n}": np.dtype(f"u{n // 8}").type for n in (8, 16, 32, 64)},
    **{f"s{n}": np.dtype(f"i{n // 8}").type for n in (8, 16, 32, 64)},
    **{f"b{n}": np.dtype(f"u{n // 8}").type for n in (8, 16, 32, 64)},
}
"""The NumPy type of a `Tile`'s dtype."""

TORCH_NAMES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "tf32": "float32",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "pred": "bool",
    **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
    **{f"s{n}": f"int{n}" for n in (8, 16, 32, 64)},
    **{f"b{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}


def call_kernel(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a kernel on its input arrays and return its outputs, one array or a tuple.

    `args` are the inputs, one per `in_specs`: contiguous NumPy arrays, torch tensors or JAX arrays, all of one kind;
    `kwargs` are template parameters, dimensions and scalar raw parameters, and `out=`, an array or tensor or a tuple of
    them to write into (not for JAX, whose arrays do not change). Else outputs are allocated here, of the inputs' kind. On the CPU, what a kernel does not write
    stays poisoned (NaN, or bytes 0xCD), never zero, and what it reads or adds to before it wrote is a SimulationWarning:
    a kernel that adds to its outputs takes them as `out=`, filled with zeros.

    PTXError for an input that breaks its `Tile` (dtype, rank, shape, contiguity, device), naming both;
    SimulationError for a fault.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        if torch.compiler.is_dynamo_compiling():
            from .torch_ops import call_traced

            return call_traced(kernel, args, kwargs)
    return call_eager(kernel, args, kwargs, torch)


def call_eager(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], torch: Any) -> Any:
    """`call_kernel` outside of torch.compile; `torch` is the module, or None if it is not imported."""
    if kernel.in_specs is None:
        raise NotImplementedError(
            f"{_name(kernel)} has no in_specs, so it cannot be called; use "
            "launch or pyptx.simulate, or give in_specs and out_specs"
        )
    if torch is not None and any(isinstance(value, torch.Tensor) for value in args):
        return _call_torch(kernel, args, kwargs, torch)
    if any(type(value).__module__.partition(".")[0] in ("jax", "jaxlib") for value in args):
        from .jax_ffi import call_jax

        return call_jax(kernel, args, kwargs)
    into, kwargs = _out(kernel, kwargs)
    if not into:
        return run_on_cpu(kernel, args, kwargs)
    for array in into:
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise PTXError(f"{_name(kernel)}: out= is a read-only array")
    if all(isinstance(array, np.ndarray) for array in (*args, *into)):
        _check_overlap(kernel, [(a.__array_interface__["data"][0], a.nbytes) for a in (*args, *into)], len(into))
    run_on_cpu(kernel, (*args, *into), kwargs, into=True)
    return into[0] if len(into) == 1 else into


def _out(kernel: Any, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The outputs to write into that `out=` names, and the other arguments."""
    if "out" not in kwargs or "out" in kernel.template_params:
        return (), kwargs
    rest = dict(kwargs)
    given = rest.pop("out")
    return () if given is None else tuple(given) if isinstance(given, (tuple, list)) else (given,), rest


def _call_torch(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], torch: Any) -> Any:
    """Plain GPU tensors go straight to the launcher, plain CPU tensors to the simulator, all else through the op that
    torch sees: subclasses, functorch's wrappers, FakeTensor, dispatch modes, inputs that need gradients.
    """
    into, kwargs = _out(kernel, kwargs)
    args = (*args, *into)
    _framework(kernel, args, _parameter_names(kernel, len(args)))
    if into:
        _check_out(kernel, args, into, torch)
    _check_tangents(kernel, args, torch)
    if args[0].device.type == "cuda" or _fake_gpu():
        from .launch import launch_into, launch_torch

        result = (launch_into if into else launch_torch)(kernel, args, kwargs)
    elif _plain(torch, args):
        result = run_on_cpu(kernel, args, kwargs, into=bool(into))
    else:
        result = NotImplemented
    if result is NotImplemented:
        from .torch_ops import call_op

        result = call_op(kernel, args, kwargs, into=bool(into))
    if into:
        return into[0] if len(into) == 1 else into
    return result


def _check_out(kernel: Any, args: Sequence[Any], into: Sequence[Any], torch: Any) -> None:
    """PTXError for outputs that cannot be written to as they lie, or that lose a gradient."""
    if any(t.is_neg() for t in into):
        raise PTXError(f"{_name(kernel)}: out= is a negated view, which holds other numbers than it shows: pass a copy")
    if _plain(torch, args):
        _check_overlap(kernel, [(t.data_ptr(), t.nbytes) for t in args], len(into))
    if torch.is_grad_enabled() and any(t.requires_grad for t in args):
        raise PTXError(
            f"{_name(kernel)}: out= has no gradient, and one of the tensors requires it: let the kernel allocate its "
            "outputs, or call it under torch.no_grad()"
        )


def _check_overlap(kernel: Any, spans: Sequence[tuple[int, int]], outputs: int) -> None:
    """PTXError for an output that shares memory with another, or a part of it with an input: what the kernel reads there
    would depend on which threads come first. `spans` are (address, bytes) of all arrays, the last ones of outputs; an
    output in place of an input is the author's choice.
    """
    names = _parameter_names(kernel, len(spans))
    first = len(spans) - outputs
    for i in range(first, len(spans)):
        start, size = spans[i]
        for j in range(i):
            other, length = spans[j]
            if start < other + length and other < start + size and (j >= first or spans[i] != spans[j]):
                what = "the same memory as" if spans[i] == spans[j] else "a part of the memory of"
                raise PTXError(f"{_name(kernel)}: out= for {names[i]} is {what} {names[j]}: pass a copy")


def _check_tangents(kernel: Any, args: Sequence[Any], torch: Any) -> None:
    """PTXError for tensors of forward-mode AD, whose tangents would be lost."""
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in args):
        raise no_tangent(kernel)


def no_tangent(kernel: Any) -> PTXError:
    """The error for forward-mode derivatives, which no kernel has."""
    return PTXError(
        f"{_name(kernel)} has no forward-mode derivative: use reverse mode (backward, torch.func.grad or vjp, jax.grad), "
        f"for which pyptx.differentiable_kernel({_name(kernel)}, backward) gives it a gradient"
    )


def _plain(torch: Any, args: Sequence[Any]) -> bool:
    """Whether all tensors are ordinary ones that nobody else needs to see."""
    grad = torch.is_grad_enabled()
    return not torch._C._len_torch_dispatch_stack() and all(
        type(t) in (torch.Tensor, torch.nn.Parameter)
        and t.device.type != "meta"
        and not (grad and t.requires_grad)
        and not torch._C._functorch.is_functorch_wrapped_tensor(t)
        and not t.is_neg()
        and not t._is_zerotensor()
        for t in args
    )


def _fake_gpu() -> bool:
    """Whether a test's stand-in for the driver takes CPU tensors."""
    if "PYPTX_CUDA_DRIVER_LIBRARY" not in os.environ:
        return False
    from .driver import find_driver

    return find_driver().fake


def run_on_cpu(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, into: bool = False) -> Any:
    """Run a kernel on the simulator; with `into`, the outputs are at the end of `args` and None is returned."""
    in_specs, out_specs = tuple(kernel.in_specs), tuple(kernel.out_specs or ())
    specs = (*in_specs, *out_specs)
    names = _parameter_names(kernel, len(specs))
    check_count(kernel, args, specs if into else in_specs, names)
    framework = _framework(kernel, args, names)
    sizes: dict[str, int] = {}
    for value, spec, name in zip(args, specs, names, strict=False):
        _check(kernel, value, spec, name, framework, sizes)
    bind_sizes(kernel, kwargs, sizes)
    outputs: list[Any] = []
    if not into:
        for spec, name in zip(out_specs, names[len(in_specs) :], strict=False):
            outputs.append(_allocate(kernel, spec, name, framework, sizes))
    arrays = [*args, *outputs]
    shape = launch_shape(kernel, sizes, kwargs)
    named = [(n, a.shape) for n, a in zip(names[len(in_specs) :], arrays[len(in_specs) :], strict=False)]
    if not without_ctas(_name(kernel), shape, named):
        fresh = range(len(in_specs), len(arrays)) if outputs else ()
        _simulate(kernel, arrays, shape, {**sizes, **kwargs}, fresh)
    if into:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def bind_sizes(kernel: Any, kwargs: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Take dimensions that are given by name into `sizes`. PTXError where the arrays say otherwise."""
    specs = (*kernel.in_specs, *(kernel.out_specs or ()))
    for name, value in kwargs.items():
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if sizes.get(name, value) != value:
                raise PTXError(f"{_name(kernel)}: {name}={value}, but the arrays say {name} = {sizes[name]}")
            if any(name in _dims(s) for s in specs):
                sizes[name] = int(value)


def check_count(kernel: Any, args: Sequence[Any], specs: Sequence[Any], names: Sequence[str]) -> None:
    """TypeError unless there is one argument per spec."""
    if len(args) != len(specs):
        listed = ", ".join(f"{n}: {describe_tile(s)}" for n, s in zip(names, specs, strict=False))
        outputs = len(kernel.out_specs or ())
        into = outputs and len(args) == len(specs) + outputs
        hint = "; it returns its outputs, and writes into arrays given by name: out=..." if into else ""
        raise TypeError(
            f"{_name(kernel)} takes {len(specs)} array{'s' * (len(specs) != 1)}, not {len(args)}: {listed}{hint}"
        )


def _simulate(
    kernel: Any, arrays: Sequence[Any], shape: LaunchShape, accepted: Mapping[str, Any], fresh: Collection[int]
) -> None:
    loaded = load_module(kernel.module(**accepted))
    entry = next(iter(loaded.entries))
    parameters = loaded.program(entry).parameters
    values = [*arrays, *_scalars(kernel, parameters[len(arrays) :], accepted)]
    if len(values) < len(parameters):
        values = with_tensor_maps(kernel.trace(**accepted).parameters, values)
    try:
        report = simulate_entry(
            loaded,
            entry,
            values,
            checked_options(shape_options(shape)),
            uninitialised=fresh,
            named=kernel.trace(**accepted).shared,
        )
    except SimulationError as error:
        if error.report is not None:
            sys.stdout.write(error.report.output)
        raise
    tell(report)


def shape_options(shape: Any) -> dict[str, Any]:
    """The options of `simulate` for the shape of a launch. A cluster of one CTA is as good as none."""
    cluster = None if shape.cluster == (1, 1, 1) else shape.cluster
    return {
        "grid": shape.grid, "block": shape.block, "cluster": cluster, "smem": shape.smem, "cooperative": shape.cooperative,
    }  # fmt: skip


def tell(report: Any) -> None:
    """Print what a simulated kernel printed, and warn of the rules that it broke at the line that called it."""
    if report.output:
        sys.stdout.write(report.output)
    for finding in report.distinct:
        warnings.warn(finding.render(), SimulationWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The `stacklevel` of the line that called the kernel: past this package, and past torch and Triton where they are in
    between.
    """
    level, frame = 0, sys._getframe(1)
    others = (getattr(sys.modules.get(name), "__file__", None) for name in ("torch", "triton"))
    folders = [_PACKAGE, *(os.path.dirname(file) + os.sep for file in others if file)]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(tuple(folders)):
        level, frame = level + 1, frame.f_back
    return level + 1


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _name(kernel: Any) -> str:
    return getattr(kernel, "__name__", None) or repr(kernel)


def _dims(spec: Any) -> tuple[Any, ...]:
    return tuple(spec.dims if hasattr(spec, "dims") else spec.shape)


def describe_tile(spec: Any) -> str:
    """A `Tile` as its author wrote it: `Tile(B, 128, f32)`."""
    return f"Tile({', '.join(map(str, _dims(spec)))}, {_dtype_name(spec)})"


def _dtype_name(spec: Any) -> str:
    return getattr(spec.dtype, "name", str(spec.dtype)).lstrip(".")


def _parameter_names(kernel: Any, count: int) -> list[str]:
    function = getattr(kernel, "__wrapped__", None) or getattr(kernel, "_fn", None)
    names: list[str] = []
    if function is not None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return [*names, *(f"argument {i}" for i in range(len(names), count))][:count]


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _framework(kernel: Any, args: Sequence[Any], names: Sequence[str]) -> str:
    """`numpy` or `torch`, the same for all inputs."""
    kinds: dict[str, str] = {}
    for value, name in zip(args, names, strict=False):
        if _is_torch(value):
            kinds.setdefault("torch", name)
        elif isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{_name(kernel)}: {name} is a masked array, whose mask no kernel sees: pass {name}.filled(...)"
            )
        elif isinstance(value, np.ndarray):
            kinds.setdefault("numpy", name)
        elif type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
            kinds.setdefault("jax", name)
        else:
            raise TypeError(
                f"{_name(kernel)}: {name} must be a NumPy array or a torch tensor, not {type(value).__name__}"
            )
    if len(kinds) > 1:
        words = {"torch": "a torch tensor", "numpy": "a NumPy array", "jax": "a JAX array"}
        listed = " and ".join(f"{name} is {words[kind]}" for kind, name in kinds.items())
        raise TypeError(f"{_name(kernel)}: {listed}; give all of one kind")
    return next(iter(kinds), "numpy")


def torch_types(wanted: str) -> set[str]:
    """Names of the torch types that hold a PTX type. torch has few operations on unsigned tensors, so signed ones serve
    for `u32` and the like, and anything of that size for untyped bits.
    """
    legal = {TORCH_NAMES[wanted]} if wanted in TORCH_NAMES else set[str]()
    if wanted[0] in "ub" and wanted[1:].isdigit():
        legal.add(f"int{wanted[1:]}")
    if wanted[0] == "b":
        legal |= {"b8": {"bool", "float8_e4m3fn", "float8_e5m2"}, "b16": {"float16", "bfloat16"}, "b32": {"float32"},
                  "b64": {"float64"}}.get(wanted, set())  # fmt: skip
    return legal


def _check(
    kernel: Any, value: Any, spec: Any, name: str, framework: str, sizes: dict[str, int], *, on_gpu: bool = False
) -> None:
    """Hold one input to its tile; binds symbolic dimensions in `sizes`."""
    tile = describe_tile(spec)

    def wrong(why: str) -> PTXError:
        return PTXError(f"{_name(kernel)}: {name} must be {tile}, {why}")

    wanted = _dtype_name(spec)
    if framework == "torch":
        if value.is_nested or str(value.layout) != "torch.strided":
            raise wrong(f"a dense tensor, and is {'nested' if value.is_nested else value.layout}")
        if value.device.type != "cpu" and not on_gpu:
            raise PTXError(
                f"{_name(kernel)}: {name} is on {value.device}; kernels take tensors that are all on one GPU, or CPU "
                "tensors and NumPy arrays, which run on the simulator"
            )
        given = str(value.dtype).removeprefix("torch.")
        legal = torch_types(wanted)
        fits = given in legal
        contiguous = value.is_contiguous()
    else:
        given = str(value.dtype)
        dtype = NUMPY_TYPES.get(wanted)
        legal = {str(np.dtype(dtype))} if dtype is not None else set[str]()
        fits = given in legal or (wanted[0] == "b" and wanted[1:].isdigit() and value.itemsize * 8 == int(wanted[1:]))
        contiguous = value.flags.c_contiguous
    if not fits:
        raise wrong(f"so of dtype {' or '.join(sorted(legal)) or wanted}, and is {given}")
    shape = tuple(int(n) for n in value.shape)
    dims = _dims(spec)
    if len(shape) != len(dims):
        raise wrong(f"so of rank {len(dims)}, and has rank {len(shape)} (shape {shape})")
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        known = sizes.setdefault(dim, size) if isinstance(dim, str) else int(dim)
        if known != size:
            because = f" ({dim} = {known} from an earlier argument)" if isinstance(dim, str) else ""
            raise wrong(f"so of size {known} along axis {axis}{because}, and has shape {shape}")
    if not contiguous:
        raise wrong("contiguous (row-major), and its strides are not: pass a contiguous copy")


def _allocate(
    kernel: Any,
    spec: Any,
    name: str,
    framework: str,
    sizes: Mapping[str, int],
    *,
    device: Any = None,
    poison: bool = True,
) -> Any:
    shape: list[int] = []
    for dim in _dims(spec):
        if isinstance(dim, str) and dim not in sizes:
            raise PTXError(
                f"{_name(kernel)}: the size {dim} of the output {name} "
                f"({describe_tile(spec)}) follows from no input; "
                f"pass {dim}=..."
            )
        shape.append(sizes[dim] if isinstance(dim, str) else int(dim))
    wanted = _dtype_name(spec)
    if wanted not in NUMPY_TYPES:
        raise PTXError(f"{_name(kernel)}: outputs of dtype {wanted} ({name}) cannot be allocated")
    if framework == "torch":
        torch: Any = sys.modules["torch"]
        dtype = getattr(torch, TORCH_NAMES[wanted], None)
        if dtype is None:
            raise PTXError(f"{_name(kernel)}: this torch has no dtype {TORCH_NAMES[wanted]} for the output {name}")
        made = torch.empty(shape, dtype=dtype, device=device)
        if not poison:
            return made
        raw = made.view(-1).view(torch.uint8) if made.numel() else made
        raw.fill_(0xCD if not dtype.is_floating_point else 0xFF)
        return made
    dtype = np.dtype(NUMPY_TYPES[wanted])
    made = np.empty(shape, dtype)
    # all bits set is a NaN in every floating-point type with NaNs
    made.reshape(-1).view(np.uint8)[...] = (
        0xFF if wanted in ("f16", "f32", "f64", "tf32", "bf16", "e4m3", "e5m2") else 0xCD
    )
    return made


def _scalars(kernel: Any, parameters: Sequence[Any], accepted: Mapping[str, Any]) -> list[Any]:
    """Values of the entry's parameters after the arrays: raw parameters by name."""
    values: list[Any] = []
    defaults = dict(getattr(kernel, "template_params", None) or {})
    for p in parameters:
        if p.name.endswith("_tma_desc"):
            continue  # made from the tiles
        value = accepted.get(p.name, defaults.get(p.name))
        if value is None:
            raise TypeError(f"{_name(kernel)} needs its parameter {p.name}: pass {p.name}=...")
        if p.type in FORMATS and not p.array:
            value = plain_number(value)
            pack_scalar(_name(kernel), p.name, p.type, value)  # what the GPU would be refused is refused here
        values.append(value)
    return values
