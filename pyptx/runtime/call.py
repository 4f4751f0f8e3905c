"""`Kernel.__call__`: check the inputs, allocate the outputs, run.

On NumPy arrays and CPU torch tensors the kernel runs on the simulator, on GPU tensors through the driver (`launch`),
on JAX arrays as a foreign function of XLA (`jax_ffi`). torch and JAX are never imported here: their arrays can only
come
from a program that has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..diagnostics import PTXError
from .arguments import fake_gpu, framework_of, kernel_name, no_tangent, parameter_names
from .simulated import run_on_cpu

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel

__all__ = ["call_eager", "call_kernel"]


def call_kernel(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
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


def call_eager(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], torch: Any) -> Any:
    """`call_kernel` outside of torch.compile; `torch` is the module, or None if it is not imported."""
    if kernel.in_specs is None:
        raise NotImplementedError(
            f"{kernel_name(kernel)} has no in_specs, so it cannot be called; use "
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
            raise PTXError(f"{kernel_name(kernel)}: out= is a read-only array")
    if all(isinstance(array, np.ndarray) for array in (*args, *into)):
        _check_overlap(kernel, [(a.__array_interface__["data"][0], a.nbytes) for a in (*args, *into)], len(into))
    run_on_cpu(kernel, (*args, *into), kwargs, into=True)
    return into[0] if len(into) == 1 else into


def _out(kernel: Kernel, kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """The outputs to write into that `out=` names, and the other arguments."""
    if "out" not in kwargs or "out" in kernel.template_params:
        return (), kwargs
    rest = dict(kwargs)
    given = rest.pop("out")
    return () if given is None else tuple(given) if isinstance(given, (tuple, list)) else (given,), rest


def _call_torch(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], torch: Any) -> Any:
    """Plain GPU tensors go straight to the launcher, plain CPU tensors to the simulator, all else through the op that
    torch sees: subclasses, functorch's wrappers, FakeTensor, dispatch modes, inputs that need gradients.
    """
    into, kwargs = _out(kernel, kwargs)
    args = (*args, *into)
    framework_of(kernel, args, parameter_names(kernel, len(args)))
    if into:
        _check_out(kernel, args, into, torch)
    _check_tangents(kernel, args, torch)
    if args[0].device.type == "cuda" or fake_gpu():
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


def _check_out(kernel: Kernel, args: Sequence[Any], into: Sequence[Any], torch: Any) -> None:
    """PTXError for outputs that cannot be written to as they lie, or that lose a gradient."""
    if any(t.is_neg() for t in into):
        raise PTXError(
            f"{kernel_name(kernel)}: out= is a negated view, which holds other numbers than it shows: pass a copy"
        )
    if _plain(torch, args):
        _check_overlap(kernel, [(t.data_ptr(), t.nbytes) for t in args], len(into))
    if torch.is_grad_enabled() and any(t.requires_grad for t in args):
        raise PTXError(
            f"{kernel_name(kernel)}: out= has no gradient, and one of the tensors requires it: let the kernel allocate its "
            "outputs, or call it under torch.no_grad()"
        )


def _check_overlap(kernel: Kernel, spans: Sequence[tuple[int, int]], outputs: int) -> None:
    """PTXError for an output that shares memory with another, or a part of it with an input: what the kernel reads there
    would depend on which threads come first. `spans` are (address, bytes) of all arrays, the last ones of outputs; an
    output in place of an input is the author's choice.
    """
    names = parameter_names(kernel, len(spans))
    first = len(spans) - outputs
    for i in range(first, len(spans)):
        start, size = spans[i]
        for j in range(i):
            other, length = spans[j]
            if start < other + length and other < start + size and (j >= first or spans[i] != spans[j]):
                what = "the same memory as" if spans[i] == spans[j] else "a part of the memory of"
                raise PTXError(f"{kernel_name(kernel)}: out= for {names[i]} is {what} {names[j]}: pass a copy")


def _check_tangents(kernel: Kernel, args: Sequence[Any], torch: Any) -> None:
    """PTXError for tensors of forward-mode AD, whose tangents would be lost."""
    forward_ad = torch.autograd.forward_ad
    if forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in args):
        raise no_tangent(kernel)


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
