"""Kernels as torch operators: what torch.compile, export, autograd, vmap and dispatch modes see.

A kernel gets an operator `torch.ops.pyptx.<name>_<digest>` the first time torch has to see a call of it, and one more,
`..._into`, that writes to given outputs. Plain eager calls do not come here (`call`, `launch`).

Shapes may be dynamic: the operator's fake implementation computes output shapes symbolically; running it specialises on
the shapes of the call, as an eager call does.
"""

from __future__ import annotations

import hashlib
import keyword
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..diagnostics import PTXError
from ..frontend.kernel.keys import template_key
from ..types import PtxType
from .arguments import (
    TORCH_NAMES,
    Keywords,
    check_count,
    describe_tile,
    dims_of,
    dtype_name,
    fake_gpu,
    kernel_name,
    no_tangent,
    parameter_names,
    torch_types,
)
from .simulated import run_on_cpu

if TYPE_CHECKING:
    from ..frontend.core.tiles import Tile
    from ..frontend.kernel.kernel import Kernel

__all__ = ["call_op", "call_traced", "operator_name", "operators_of"]

_lock = threading.RLock()
_owners: dict[str, Any] = {}
"""Operator -> the kernel it belongs to. Operators are global in torch, and stay."""


def call_op(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], *, into: bool = False) -> Any:
    """Call the kernel's operator through torch's dispatcher; with `into`, outputs are at the end of `args`."""
    check_count(kernel, args, _specs(kernel, into), _names(kernel))
    # torch itself would expand one zero, with strides of 0
    args = [t.clone(memory_format=torch.contiguous_format) if t._is_zerotensor() else t for t in args]
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    if not into and any(map(functorch.is_gradtrackingtensor, args)):
        function = kernel._cubin_handles.setdefault("without gradient", _WithoutGradient(kernel))
        return _function(function, Keywords(kwargs)).apply(*args)
    scalars = _given_scalars(kernel, kwargs)
    static = tuple((n, v) for n, v in kwargs.items() if n not in scalars)
    name = operator_name(kernel, static, scalars, into)
    return getattr(torch.ops.pyptx, name).default(*args, *[kwargs[n] for n in scalars])


def call_traced(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """As `call_op`, in words that TorchDynamo can follow. `out=` writes to given outputs."""
    outputs: tuple[Any, ...] = ()
    if "out" in kwargs and "out" not in kernel.template_params:
        given = kwargs["out"]
        outputs = tuple(given) if isinstance(given, (tuple, list)) else (given,)
        kwargs = {n: v for n, v in kwargs.items() if n != "out"}
    kwargs = _without_bound(kernel, args, kwargs)
    scalars = _given_scalars(kernel, kwargs)
    static = tuple((n, _constant(v)) for n, v in kwargs.items() if n not in scalars)
    name = kernel._torch_operator(static, scalars, len(outputs) > 0)
    result = getattr(torch.ops.pyptx, name)(*args, *outputs, *[_number(kwargs[n]) for n in scalars])
    if outputs:
        return outputs[0] if len(outputs) == 1 else outputs
    return result


def _number(value: Any) -> Any:
    """A raw parameter as the number that the operator takes: tensors and NumPy's numbers give theirs."""
    return value.item() if isinstance(value, (torch.Tensor, np.ndarray, np.generic)) else value


def _constant(value: Any) -> Any:
    """The value; an integer that TorchDynamo takes for symbolic is fixed, and another one compiled for anew."""
    return operator.index(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _without_bound(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments without the dimensions that the inputs say too, which may be symbolic here."""
    bound: dict[str, Any] = {}
    for spec, t in zip(kernel.in_specs or (), args, strict=False):
        bound |= {d: n for d, n in zip(dims_of(spec), t.shape, strict=False) if isinstance(d, str)}
    return {n: v for n, v in kwargs.items() if n not in bound or n in kernel.template_params or v != bound[n]}


def _given_scalars(kernel: Kernel, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for _, name in getattr(kernel, "raw_params", ()) if name in kwargs)


def overload(name: str) -> Any:
    """The operator that `operator_name` names."""
    return getattr(torch.ops.pyptx, name).default


def operator_name(
    kernel: Kernel,
    static: tuple[tuple[str, Any], ...] = (),
    scalars: tuple[str, ...] = (),
    into: bool = False,
    gradient: Gradient | None = None,
) -> str:
    """The name in `torch.ops.pyptx` of the kernel with these template parameters, whose raw parameters `scalars` are
    arguments. Registers it the first time. The same program gives the same names in every process.
    """
    key = (
        "operator",
        tuple((n, template_key(v)) for n, v in sorted(static, key=operator.itemgetter(0))),
        scalars,
        into,
        gradient,
    )
    with _lock:
        found = kernel._cubin_handles.get(key)
        if found is None:
            found = kernel._cubin_handles[key] = _register(kernel, dict(static), scalars, into, gradient)
            if "sharding" in kernel._cubin_handles and not into:
                kernel._cubin_handles["sharding"].apply(kernel, found)
        return found


def operators_of(kernel: Kernel) -> list[str]:
    """The names of the operators that the kernel has so far and that return their outputs."""
    with _lock:
        return [n for k, n in kernel._cubin_handles.items() if isinstance(k, tuple) and k[0] == "operator" and not k[3]]


class Gradient:
    """How a kernel is differentiated (`differentiable.differentiable_kernel`).

    `save(inputs, outputs)` -> tensors to keep; `backward(saved, grads, keywords)` -> gradients of the inputs, as many
    as there are.
    """

    def __init__(
        self,
        save: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]],
        backward: Callable[[Sequence[Any], Sequence[Any], Mapping[str, Any]], Sequence[Any]],
    ) -> None:
        self.save, self.backward = save, backward


def _specs(kernel: Kernel, into: bool) -> tuple[Tile, ...]:
    return (*(kernel.in_specs or ()), *(kernel.out_specs or ())) if into else tuple(kernel.in_specs or ())


def _names(kernel: Kernel) -> list[str]:
    return parameter_names(kernel, len(_specs(kernel, True)))


class _Library(torch.library.Library):
    """As torch's, and a call that the launcher recognises, which needs no gradient then, does not pass through torch's
    autograd, which would take most of the time.
    """

    direct: Callable[..., Any] | None = None

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        direct = self.direct
        if dispatch_key != "Autograd" or direct is None:
            return super().impl(op_name, fn, dispatch_key, **options)

        def kernel(keys: Any, *args: Any) -> Any:
            result = direct(*args)
            return fn(keys, *args) if result is NotImplemented else result

        return super().impl(op_name, kernel, dispatch_key, **options)


@lru_cache(maxsize=1)
def _library() -> Any:
    return _Library("pyptx", "FRAGMENT")


def _register(
    kernel: Kernel, static: Mapping[str, Any], scalars: tuple[str, ...], into: bool, gradient: Gradient | None
) -> str:
    name = _free_name(kernel, static, scalars, into, gradient)
    schema = _schema(kernel, scalars, into)
    library = _library()
    tags = [torch.Tag.pt2_compliant_tag]
    for tag in ("needs_exact_strides", "needs_fixed_stride_order"):
        if hasattr(torch.Tag, tag):
            tags.append(getattr(torch.Tag, tag))
            break
    library.define(f"{name}{schema}", tags=tuple(tags))
    count = len(_specs(kernel, into))

    def split(args: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        return [_plain(t) for t in args[:count]], {**static, **dict(zip(scalars, args[count:], strict=True))}

    handles = kernel._cubin_handles
    simple = not static and not scalars

    def direct(*args: Any) -> Any:
        launcher = handles.get("launcher") if simple else None
        if launcher is None or launcher.sync:
            return NotImplemented
        return launcher.plain.into(*args) if into else launcher.plain.call(*args)

    def run(*args: Any) -> Any:
        result = direct(*args)
        if result is not NotImplemented:
            return result
        tensors, keywords = split(args)
        with torch.no_grad():
            return _execute(kernel, tensors, keywords, into)

    def fake(*args: Any) -> Any:
        return _fake(kernel, args[:count], {**static, **dict(zip(scalars, args[count:], strict=True))}, into)

    qualified = f"pyptx::{name}"
    for key in ("CPU", "CUDA"):
        library.impl(name, run, key)
    torch.library.register_fake(qualified, fake, lib=library)
    torch.library.register_vmap(qualified, _batched(kernel, qualified, count, into), lib=library)
    if not into:
        library.direct = direct
        try:
            _register_gradient(kernel, qualified, library, count, static, scalars, gradient)
        finally:
            library.direct = None
    _owners[name] = kernel
    return name


def _free_name(
    kernel: Kernel, static: Mapping[str, Any], scalars: tuple[str, ...], into: bool, gradient: Gradient | None
) -> str:
    function = getattr(kernel, "_fn", kernel)
    parts = (
        getattr(function, "__module__", ""), getattr(function, "__qualname__", ""), kernel_name(kernel),
        *(f"{n}={v!r}" for n, v in sorted(static.items())), *scalars, *map(describe_tile, _specs(kernel, True)),
        *_enclosed(function),
    )  # fmt: skip
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    base = f"{kernel_name(kernel)}_{digest}" + ("_diff" if gradient else "") + ("_into" if into else "")
    name, number = base, 1
    while name in _owners:  # two kernels of one name, from a factory perhaps
        number += 1
        name = f"{base}_{number}"
    return name


def _enclosed(function: Any) -> list[str]:
    """What tells kernels of one factory apart in every process, in whatever order they are made: the plain values that
    the function takes from around it.
    """
    found: list[str] = []
    code = getattr(function, "__code__", None)
    if code is None:
        return found
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        if isinstance(value, (bool, int, float, str, PtxType)):
            found.append(f"{name}={value!r}")
    return found


def _schema(kernel: Kernel, scalars: tuple[str, ...], into: bool) -> str:
    names = _safe(_names(kernel))
    inputs, outputs = len(kernel.in_specs or ()), len(kernel.out_specs or ())
    arguments = [f"Tensor {n}" for n in names[:inputs]]
    if into:
        arguments += [f"Tensor({chr(ord('a') + i)}!) {n}" for i, n in enumerate(names[inputs:])]
    types = dict((n, t) for t, n in getattr(kernel, "raw_params", ()))
    for name in _safe([*names, *scalars])[len(names) :] if scalars else []:
        original = scalars[len([a for a in arguments if not a.startswith("Tensor")])]
        kind = types[original].lstrip(".").partition(".")[0]
        arguments.append(f"{'Scalar' if kind[0] in 'ft' else 'SymInt'} {name}")
    returned = "()" if into else "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    return f"({', '.join(arguments)}) -> {returned}"


def _safe(names: Sequence[str]) -> list[str]:
    """Names that a schema takes, each once."""
    found: list[str] = []
    for name in names:
        fine = name.isidentifier() and not keyword.iskeyword(name) and name not in ("self", "out", "input")
        wanted = name if fine else f"arg_{len(found)}"
        while wanted in found:
            wanted += "_"
        found.append(wanted)
    return found


def _plain(tensor: Any) -> Any:
    """The tensor without what only torch understands: a negative bit, a subclass that got here."""
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        tensor = tensor.as_subclass(torch.Tensor)
    return tensor


def _execute(kernel: Kernel, tensors: Sequence[Any], keywords: Mapping[str, Any], into: bool) -> Any:
    if any(t.device.type == "cuda" for t in tensors) or fake_gpu():
        from .launch import launch_into, launch_torch

        result = (launch_into if into else launch_torch)(kernel, tensors, keywords)
        if result is NotImplemented:
            raise PTXError(f"{kernel_name(kernel)} cannot be launched here: its tensors have no memory of their own")
        return result
    return run_on_cpu(kernel, tensors, keywords, into=into)


def _fake(kernel: Kernel, tensors: Sequence[Any], keywords: Mapping[str, Any], into: bool) -> Any:
    """Outputs without memory, of the right shapes (symbolic, maybe). PTXError as a real call."""
    specs, names = _specs(kernel, into), _names(kernel)
    sizes: dict[str, Any] = {
        n: v for n, v in keywords.items() if any(n in s.symbolic_dims for s in _specs(kernel, True))
    }
    device = tensors[0].device if tensors else None
    for t, spec, name in zip(tensors, specs, names, strict=False):

        def wrong(why: str, spec: Tile = spec, name: str = name) -> PTXError:
            return PTXError(f"{kernel_name(kernel)}: {name} must be {describe_tile(spec)}, {why}")

        if t.device != device:
            places = ", ".join(f"{n} is on {u.device}" for u, n in zip(tensors, names, strict=False))
            raise PTXError(f"{kernel_name(kernel)}: all tensors must be on one device; {places}")
        legal = torch_types(dtype_name(spec))
        if str(t.dtype).removeprefix("torch.") not in legal:
            raise wrong(f"so of dtype {' or '.join(sorted(legal))}, and is {str(t.dtype).removeprefix('torch.')}")
        dims = dims_of(spec)
        if t.dim() != len(dims):
            raise wrong(f"so of rank {len(dims)}, and has rank {t.dim()}")
        for axis, dim in enumerate(dims):
            known = sizes.setdefault(dim, t.shape[axis]) if isinstance(dim, str) else dim
            if t.shape[axis] != known:
                raise wrong(f"so of size {known} along axis {axis}, and has shape {tuple(t.shape)}")
        if spec.strides is not None:
            problem = spec.bind_strides(t.shape, t.stride(), sizes)
            if problem is not None:
                raise wrong(problem)
        elif not t.is_contiguous():
            raise wrong(
                "contiguous (row-major), and its strides are not: pass a contiguous copy, or give the Tile strides="
            )
    if into:
        return None
    outputs: list[Any] = []
    for spec, name in zip(kernel.out_specs or (), names[len(specs) :], strict=True):
        missing = [d for d in dims_of(spec) if isinstance(d, str) and d not in sizes]
        if missing:
            raise PTXError(
                f"{kernel_name(kernel)}: the size {missing[0]} of the output {name} follows from no input; pass it"
            )
        shape = [sizes[d] if isinstance(d, str) else d for d in dims_of(spec)]
        dtype = getattr(torch, TORCH_NAMES[dtype_name(spec)])
        outputs.append(torch.empty_strided(shape, spec.resolve_strides(shape, sizes), dtype=dtype, device=device))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _batched(kernel: Kernel, qualified: str, count: int, into: bool) -> Callable[..., Any]:
    """vmap: one launch per element of the batch."""

    def rule(info: Any, in_dims: Any, *args: Any) -> Any:
        op = getattr(torch.ops.pyptx, qualified.partition("::")[2])
        moved = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]

        def element(i: int) -> list[Any]:
            return [
                (a if d is None else a[i].contiguous() if n < count else a[i])
                for n, (a, d) in enumerate(zip(moved, in_dims, strict=True))
            ]

        if into:
            raise PTXError("vmap over out=: let the kernel allocate its outputs")
        return _for_each(info.batch_size, lambda i: op(*element(i)), kernel, moved)

    return rule


def _for_each(size: int, call: Callable[[int], Any], kernel: Kernel, args: Sequence[Any]) -> Any:
    """The stacked results of one call per element, and where their batch dimensions are."""
    if not size:
        sizes: dict[str, int] = {}
        for spec, a in zip(kernel.in_specs or (), args, strict=False):
            dims = dims_of(spec)
            sizes |= {d: n for d, n in zip(reversed(dims), reversed(a.shape), strict=False) if isinstance(d, str)}
        made = [
            args[0].new_empty(
                (0, *(sizes.get(d, d) for d in dims_of(s))), dtype=getattr(torch, TORCH_NAMES[dtype_name(s)])
            )
            for s in kernel.out_specs or ()
        ]
        return (made[0], 0) if len(made) == 1 else (tuple(made), (0,) * len(made))
    results = [call(i) for i in range(size)]
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results), 0
    return tuple(torch.stack(r) for r in zip(*results, strict=True)), (0,) * len(results[0])


def _register_gradient(
    kernel: Kernel,
    qualified: str,
    library: Any,
    count: int,
    static: Mapping[str, Any],
    scalars: tuple[str, ...],
    gradient: Gradient | None,
) -> None:
    def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if gradient is None:
            return
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        ctx.save_for_backward(*gradient.save(inputs[:count], outputs))
        ctx.scalars = inputs[count:]
        ctx.shapes = [(o.shape, o.dtype, o.device) for o in outputs]

    def backward(ctx: Any, *grads: Any) -> Any:
        if gradient is None:
            raise _no_gradient(kernel)
        given = [
            torch.zeros(s, dtype=d, device=v) if g is None else g.contiguous()
            for g, (s, d, v) in zip(grads, ctx.shapes, strict=True)
        ]
        keywords = {**static, **dict(zip(scalars, ctx.scalars, strict=True))}
        found = tuple(gradient.backward(ctx.saved_tensors, given, keywords))
        return (*found, *(None,) * (count + len(scalars) - len(found)))

    torch.library.register_autograd(qualified, backward, setup_context=setup, lib=library)


def _no_gradient(kernel: Kernel) -> PTXError:
    return PTXError(
        f"{kernel_name(kernel)} has no gradient: give it one with pyptx.differentiable_kernel({kernel_name(kernel)}, backward), "
        "or call it under torch.no_grad()"
    )


class _WithoutGradient:
    """A kernel where functorch wants something that has a gradient: it has one that raises."""

    def __init__(self, kernel: Kernel) -> None:
        self.forward = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def save(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
        del inputs, outputs
        return ()

    def gradients(self, saved: Sequence[Any], grads: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        del saved, grads, keywords
        raise _no_gradient(self.forward)


def call_differentiable(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call the operator of a `DifferentiableKernel`; TorchDynamo can follow."""
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return _function(function, Keywords(kwargs)).apply(*args)
    kwargs = _without_bound(function.forward, args, kwargs)
    scalars = _given_scalars(function.forward, kwargs)
    static = tuple((n, _constant(v)) for n, v in kwargs.items() if n not in scalars)
    name = function.operator(static, scalars)
    return getattr(torch.ops.pyptx, name)(*args, *[kwargs[n] for n in scalars])


@lru_cache(maxsize=256)
def _function(function: Any, keywords: Keywords) -> Any:
    """The autograd.Function that functorch's grad and vmap need: they do not take operators' autograd formulas."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            return function.forward(*args, **keywords.values)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            outputs = output if isinstance(output, tuple) else (output,)
            ctx.save_for_backward(*function.save(inputs, outputs))
            ctx.count = len(inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = function.gradients(ctx.saved_tensors, [g.contiguous() for g in grads], keywords.values)
            return (*found, *(None,) * (ctx.count - len(found)))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise no_tangent(function.forward)

        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
            moved = [a if d is None else a.movedim(d, 0) for a, d in zip(args, in_dims, strict=True)]

            def element(i: int) -> Any:
                chosen = (a if d is None else a[i].contiguous() for a, d in zip(moved, in_dims, strict=True))
                return function(*chosen, **keywords.values)

            return _for_each(info.batch_size, element, function.forward, moved)

    return Function
