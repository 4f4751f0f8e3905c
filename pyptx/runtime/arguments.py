"""The arguments of a call: what a kernel's tiles ask of arrays, new ones for its outputs, keywords. torch is never imported
here: its tensors can only come from a program that has imported it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..diagnostics import PTXError
from ..frontend.core.tiles import row_major_strides
from ..frontend.kernel.keys import template_key
from ..simulator.tensor.strided import extent_of, strides_of
from .driver import find_driver

if TYPE_CHECKING:
    from ..frontend.core.tiles import Tile
    from ..frontend.kernel.kernel import Kernel

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


def kernel_name(kernel: Kernel) -> str:
    return getattr(kernel, "__name__", None) or repr(kernel)


def dims_of(spec: Tile) -> tuple[Any, ...]:
    return tuple(spec.dims)


def describe_tile(spec: Tile) -> str:
    """A `Tile` as its author wrote it: `Tile(B, 128, f32)`."""
    strides = f", strides=({', '.join(map(str, spec.strides))})" if spec.strides is not None else ""
    return f"Tile({', '.join(map(str, dims_of(spec)))}, {dtype_name(spec)}{strides})"


def dtype_name(spec: Tile) -> str:
    return getattr(spec.dtype, "name", str(spec.dtype)).lstrip(".")


def parameter_names(kernel: Kernel, count: int) -> list[str]:
    function = getattr(kernel, "__wrapped__", None) or getattr(kernel, "_fn", None)
    names: list[str] = []
    if function is not None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return [*names, *(f"argument {i}" for i in range(len(names), count))][:count]


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def framework_of(kernel: Kernel, args: Sequence[Any], names: Sequence[str]) -> str:
    """`numpy` or `torch`, the same for all inputs."""
    kinds: dict[str, str] = {}
    for value, name in zip(args, names, strict=False):
        if is_torch(value):
            kinds.setdefault("torch", name)
        elif isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{kernel_name(kernel)}: {name} is a masked array, whose mask no kernel sees: pass {name}.filled(...)"
            )
        elif isinstance(value, np.ndarray):
            kinds.setdefault("numpy", name)
        elif type(value).__module__.partition(".")[0] in ("jax", "jaxlib"):
            kinds.setdefault("jax", name)
        else:
            raise TypeError(
                f"{kernel_name(kernel)}: {name} must be a NumPy array or a torch tensor, not {type(value).__name__}"
            )
    if len(kinds) > 1:
        words = {"torch": "a torch tensor", "numpy": "a NumPy array", "jax": "a JAX array"}
        listed = " and ".join(f"{name} is {words[kind]}" for kind, name in kinds.items())
        raise TypeError(f"{kernel_name(kernel)}: {listed}; give all of one kind")
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


def check_count(kernel: Kernel, args: Sequence[Any], specs: Sequence[Tile], names: Sequence[str]) -> None:
    """TypeError unless there is one argument per spec."""
    if len(args) != len(specs):
        listed = ", ".join(f"{n}: {describe_tile(s)}" for n, s in zip(names, specs, strict=False))
        outputs = len(kernel.out_specs or ())
        into = outputs and len(args) == len(specs) + outputs
        hint = "; it returns its outputs, and writes into arrays given by name: out=..." if into else ""
        raise TypeError(
            f"{kernel_name(kernel)} takes {len(specs)} array{'s' * (len(specs) != 1)}, not {len(args)}: {listed}{hint}"
        )


def bind_sizes(kernel: Kernel, kwargs: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Take dimensions that are given by name into `sizes`. PTXError where the arrays say otherwise."""
    specs = (*(kernel.in_specs or ()), *(kernel.out_specs or ()))
    for name, value in kwargs.items():
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            if sizes.get(name, value) != value:
                raise PTXError(f"{kernel_name(kernel)}: {name}={value}, but the arrays say {name} = {sizes[name]}")
            if any(name in s.symbolic_dims for s in specs):
                sizes[name] = int(value)


def check_array(
    kernel: Kernel, value: Any, spec: Tile, name: str, framework: str, sizes: dict[str, int], *, on_gpu: bool = False
) -> None:
    """Hold one input to its tile; binds symbolic dimensions in `sizes`."""
    tile = describe_tile(spec)

    def wrong(why: str) -> PTXError:
        return PTXError(f"{kernel_name(kernel)}: {name} must be {tile}, {why}")

    wanted = dtype_name(spec)
    if framework == "torch":
        if value.is_nested or str(value.layout) != "torch.strided":
            raise wrong(f"a dense tensor, and is {'nested' if value.is_nested else value.layout}")
        if value.device.type != "cpu" and not on_gpu:
            raise PTXError(
                f"{kernel_name(kernel)}: {name} is on {value.device}; kernels take tensors that are all on one GPU, or CPU "
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
    dims = dims_of(spec)
    if len(shape) != len(dims):
        raise wrong(f"so of rank {len(dims)}, and has rank {len(shape)} (shape {shape})")
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        known = sizes.setdefault(dim, size) if isinstance(dim, str) else int(dim)
        if known != size:
            because = f" ({dim} = {known} from an earlier argument)" if isinstance(dim, str) else ""
            raise wrong(f"so of size {known} along axis {axis}{because}, and has shape {shape}")
    if spec.strides is not None:
        strides = strides_of(value)
        if any(isinstance(n, float) for n in strides):
            raise wrong(f"whose strides are whole elements, and has strides of {value.strides} bytes")
        problem = spec.bind_strides(shape, strides, sizes)
        if problem is not None:
            raise wrong(problem)
    elif not contiguous:
        raise wrong(
            "contiguous (row-major), and its strides are not: pass a contiguous copy, or give the Tile strides="
        )


def allocate(
    kernel: Kernel,
    spec: Tile,
    name: str,
    framework: str,
    sizes: dict[str, int],
    *,
    device: Any = None,
    poison: bool = True,
) -> Any:
    """A new output; names of its strides that no input bound are bound in `sizes`."""
    shape: list[int] = []
    for dim in dims_of(spec):
        if isinstance(dim, str) and dim not in sizes:
            raise PTXError(
                f"{kernel_name(kernel)}: the size {dim} of the output {name} "
                f"({describe_tile(spec)}) follows from no input; "
                f"pass {dim}=..."
            )
        shape.append(sizes[dim] if isinstance(dim, str) else int(dim))
    steps = spec.resolve_strides(shape, sizes)
    if spec.strides is not None:
        spec.bind_strides(shape, steps, sizes)
    wanted = dtype_name(spec)
    if wanted not in NUMPY_TYPES:
        raise PTXError(f"{kernel_name(kernel)}: outputs of dtype {wanted} ({name}) cannot be allocated")
    if framework == "torch":
        torch: Any = sys.modules["torch"]
        dtype = getattr(torch, TORCH_NAMES[wanted], None)
        if dtype is None:
            raise PTXError(
                f"{kernel_name(kernel)}: this torch has no dtype {TORCH_NAMES[wanted]} for the output {name}"
            )
        if steps != row_major_strides(shape):
            made = torch.empty(extent_of(shape, steps), dtype=dtype, device=device)
            if poison:
                made.view(torch.uint8).fill_(0xCD if not dtype.is_floating_point else 0xFF)
            return made.as_strided(shape, steps)
        made = torch.empty(shape, dtype=dtype, device=device)
        if not poison:
            return made
        raw = made.view(-1).view(torch.uint8) if made.numel() else made
        raw.fill_(0xCD if not dtype.is_floating_point else 0xFF)
        return made
    dtype = np.dtype(NUMPY_TYPES[wanted])
    made = np.empty(extent_of(shape, steps), dtype)
    # all bits set is a NaN in every floating-point type with NaNs
    made.reshape(-1).view(np.uint8)[...] = (
        0xFF if wanted in ("f16", "f32", "f64", "tf32", "bf16", "e4m3", "e5m2") else 0xCD
    )
    if steps == row_major_strides(shape):
        return made.reshape(shape)
    return np.lib.stride_tricks.as_strided(made, shape, tuple(n * dtype.itemsize for n in steps))


def cpu_arguments(
    kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], *, into: bool = False
) -> tuple[list[Any], dict[str, int]]:
    """The outputs of a call on CPU arrays, poisoned (none with `into`: they are at the end of `args`), and the dimensions. PTXError
    for arrays that do not fit their tiles.
    """
    in_specs, out_specs = tuple(kernel.in_specs or ()), tuple(kernel.out_specs or ())
    specs = (*in_specs, *out_specs)
    names = parameter_names(kernel, len(specs))
    check_count(kernel, args, specs if into else in_specs, names)
    framework = framework_of(kernel, args, names)
    sizes: dict[str, int] = {}
    for value, spec, name in zip(args, specs, names, strict=False):
        check_array(kernel, value, spec, name, framework, sizes)
    bind_sizes(kernel, kwargs, sizes)
    made = [] if into else zip(out_specs, names[len(in_specs) :], strict=False)
    return [allocate(kernel, spec, name, framework, sizes) for spec, name in made], sizes


def no_tangent(kernel: Kernel) -> PTXError:
    """The error for forward-mode derivatives, which no kernel has."""
    return PTXError(
        f"{kernel_name(kernel)} has no forward-mode derivative: use reverse mode (backward, torch.func.grad or vjp, jax.grad), "
        f"for which pyptx.differentiable_kernel({kernel_name(kernel)}, backward) gives it a gradient"
    )


def fake_gpu() -> bool:
    """Whether a test's stand-in for the driver takes CPU tensors."""
    if "PYPTX_CUDA_DRIVER_LIBRARY" not in os.environ:
        return False
    return find_driver().fake


_MUTABLE = (list, dict, set, np.ndarray)


class Keywords:
    """The keyword arguments of a call as part of a cache's key (`template_key`: 1 and True differ, lists are fine),
    with copies of what may change before the gradient is asked for.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = {n: deepcopy(v) if isinstance(v, _MUTABLE) else v for n, v in values.items()}
        self._key = template_key(tuple(sorted(self.values.items(), key=lambda item: item[0])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keywords) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)
