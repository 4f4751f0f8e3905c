"""`differentiable_kernel`: a forward and a backward kernel as one function that torch and JAX differentiate."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..diagnostics import counted
from .arguments import is_torch, kernel_name, parameter_names

__all__ = ["DifferentiableKernel", "differentiable_kernel"]


class DifferentiableKernel:
    """What `differentiable_kernel` returns: call it as the forward kernel."""

    def __init__(self, forward: Any, backward: Any, save: Callable[..., Sequence[Any]], gradients: int | None) -> None:
        self.forward, self.backward = forward, backward
        self._save = save
        self._count = gradients
        self._gradient: Any = None
        self.__name__ = kernel_name(forward)
        self.__doc__ = forward.__doc__

    def __deepcopy__(self, memo: Any) -> DifferentiableKernel:
        return self  # as a function is its own copy

    def __repr__(self) -> str:
        return f"differentiable_kernel({kernel_name(self.forward)}, {kernel_name(self.backward)})"

    def __call__(self, *arrays: Any, **kw: Any) -> Any:
        torch: Any = sys.modules.get("torch", None)
        if torch is not None and torch.compiler.is_dynamo_compiling():
            return _traced(self, arrays, kw)
        if torch is not None and any(map(is_torch, arrays)):
            if (torch.is_grad_enabled() and any(a.requires_grad for a in arrays)) or _wrapped(torch, arrays):
                return _traced(self, arrays, kw)
        elif any(type(a).__module__.partition(".")[0] in ("jax", "jaxlib") for a in arrays):
            from .jax_ffi import call_differentiable

            return call_differentiable(self, arrays, kw)
        return self.forward(*arrays, **kw)

    def save(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[Any, ...]:
        """The tensors that the backward kernel gets before the gradients of the outputs."""
        return tuple(self._save(tuple(inputs), tuple(outputs)))

    def gradients(self, saved: Sequence[Any], grads: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Gradients of the first inputs, from what was saved and the gradients of the outputs.

        TypeError where the backward kernel returns more of them than there are inputs.
        """
        found = self.backward(*saved, *grads, **_accepted(self.backward, keywords))
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        inputs = len(self.forward.in_specs)
        most = inputs if self._count is None else self._count
        if len(found) > inputs or (self._count is not None and len(found) != most):
            raise TypeError(
                f"{kernel_name(self.backward)} returned {counted(len(found), 'gradient')}; {kernel_name(self.forward)} has {counted(inputs, 'input')}"
                + (f", of which {self._count} have gradients" if self._count is not None else "")
            )
        return found

    def operator(self, static: tuple[Any, ...], scalars: tuple[str, ...]) -> str:
        """The name of the operator in `torch.ops.pyptx`."""
        from .torch_ops import Gradient, operator_name

        if self._gradient is None:
            self._gradient = Gradient(self.save, self.gradients)
        return operator_name(self.forward, static, scalars, gradient=self._gradient)

    # TorchDynamo runs it while it traces, and takes the name as a constant
    operator._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def differentiable_kernel(
    forward_kernel: Any,
    backward_kernel: Any,
    *,
    save_for_backward: Callable[..., Sequence[Any]] | Sequence[int | str] | None = None,
    num_grad_inputs: int | None = None,
) -> DifferentiableKernel:
    """A function like `forward_kernel` with `backward_kernel` as its gradient, in torch and in JAX.

    The backward kernel (or any function of arrays) is called with the saved tensors, then the gradients of all outputs,
    and returns the gradients of the first inputs; the others get none. Its template parameters of the same names as the
    forward kernel's get the same values.

    save_for_backward: what to save. Default: all inputs; else names or indices of inputs and outputs (outputs after the
    inputs), or a function of (inputs, outputs). num_grad_inputs: how many gradients it returns (checked).
    TypeError for a forward kernel without in_specs and out_specs, or names that it does not have.
    """
    if getattr(forward_kernel, "in_specs", None) is None or not forward_kernel.out_specs:
        raise TypeError("differentiable_kernel needs a forward kernel with in_specs and out_specs")
    if not callable(backward_kernel):
        raise TypeError(f"differentiable_kernel needs a kernel as its gradient, not {backward_kernel!r}")
    inputs = len(forward_kernel.in_specs)
    if num_grad_inputs is not None and not 1 <= num_grad_inputs <= inputs:
        raise TypeError(
            f"num_grad_inputs is {num_grad_inputs}, and {kernel_name(forward_kernel)} has {counted(inputs, 'input')}"
        )
    if save_for_backward is None:
        save: Callable[..., Sequence[Any]] = _all_inputs
    elif callable(save_for_backward):
        save = save_for_backward
    else:
        count = inputs + len(forward_kernel.out_specs)
        names = parameter_names(forward_kernel, count)
        indices: list[int] = []
        for wanted in save_for_backward:
            if isinstance(wanted, str) and wanted in names:
                indices.append(names.index(wanted))
            elif isinstance(wanted, int) and 0 <= wanted < count:
                indices.append(wanted)
            else:
                raise TypeError(
                    f"save_for_backward: {kernel_name(forward_kernel)} has no {wanted!r}; it has {', '.join(names)}"
                )

        def chosen(inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
            everything = (*inputs, *outputs)
            return [everything[i] for i in indices]

        save = chosen

    return DifferentiableKernel(forward_kernel, backward_kernel, save, num_grad_inputs)


def _all_inputs(inputs: Sequence[Any], outputs: Sequence[Any]) -> Sequence[Any]:
    del outputs
    return inputs


def _accepted(kernel: Any, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords that a kernel takes; all of them for a plain function."""
    if not hasattr(kernel, "template_params"):
        return dict(keywords)
    known = {*kernel.template_params, *kernel.symbolic_dims, *(n for _, n in kernel.raw_params)}
    return {n: v for n, v in keywords.items() if n in known}


def _wrapped(torch: Any, arrays: Sequence[Any]) -> bool:
    return bool(torch._C._len_torch_dispatch_stack()) or any(
        type(a) not in (torch.Tensor, torch.nn.Parameter) or torch._C._functorch.is_functorch_wrapped_tensor(a)
        for a in arrays
    )


def _traced(function: DifferentiableKernel, arrays: Sequence[Any], kw: Mapping[str, Any]) -> Any:
    from .torch_ops import call_differentiable

    return call_differentiable(function, arrays, kw)
