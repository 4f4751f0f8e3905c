"""Kernels and torch, under the names of 0.1. New programs call the kernel, and use `pyptx.differentiable_kernel`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .runtime.differentiable import differentiable_kernel

__all__ = [
    "any_torch_tensors",
    "call_kernel_via_torch",
    "differentiable_kernel",
    "extract_input_shapes",
    "is_torch_tensor",
]


def is_torch_tensor(obj: Any) -> bool:
    """Whether it is a `torch.Tensor`. Does not import torch."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def any_torch_tensors(inputs: Iterable[Any]) -> bool:
    """Whether some of them are."""
    return any(map(is_torch_tensor, inputs))


def extract_input_shapes(inputs: Sequence[Any]) -> list[tuple[int, ...]]:
    """The shapes of arrays or tensors, as tuples of ints."""
    return [tuple(int(n) for n in value.shape) for value in inputs]


def call_kernel_via_torch(kernel: Any, *tensors: Any, **kwargs: Any) -> Any:
    """`kernel(*tensors, **kwargs)`. TypeError for arguments that are not a torch tensors."""
    for value in tensors:
        if not is_torch_tensor(value):
            raise TypeError(f"call_kernel_via_torch takes torch tensors, not {type(value).__name__}")
    return kernel(*tensors, **kwargs)
