"""Kernels on DTensors: which dimensions may be shared out over the ranks of a device mesh.

    register_sharding(kernel, parallel=("M", "N"), summed=("K",))

A kernel says nothing about that by itself; its tiles name the dimensions. DTensor then runs the kernel on each rank's
part, and moves data first where the parts it has are none of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .arguments import dims_of, kernel_name
from .torch_ops import operators_of

if TYPE_CHECKING:
    from ..frontend.core.tiles import Tile
    from ..frontend.kernel.kernel import Kernel

__all__ = ["Sharding", "register_sharding"]


@dataclass(frozen=True)
class Sharding:
    """Names of a kernel's dimensions: those that may be shared out, and those over which its outputs are sums."""

    parallel: tuple[str, ...]
    summed: tuple[str, ...]

    def strategies(self, kernel: Kernel, extra: int) -> list[tuple[list[Any], list[Any]]]:
        """What DTensor may choose from: (placements of the outputs, of the inputs and `extra` scalars). Everything on
        every rank; or one dimension shared out, along the axis it has in each tensor.
        """
        from torch.distributed.tensor import Partial, Replicate, Shard

        def along(spec: Tile, dim: str, otherwise: Any) -> Any:
            dims = dims_of(spec)
            return Shard(dims.index(dim)) if dim in dims else otherwise

        rest: list[Any] = [None] * extra
        inputs, outputs = kernel.in_specs or (), kernel.out_specs or ()
        found = [([Replicate()] * len(outputs), [*[Replicate()] * len(inputs), *rest])]
        for dim in self.parallel:
            found.append(
                ([along(s, dim, Replicate()) for s in outputs], [*(along(s, dim, Replicate()) for s in inputs), *rest])
            )
        for dim in self.summed:
            found.append(([Partial()] * len(outputs), [*(along(s, dim, Replicate()) for s in inputs), *rest]))
        return found

    def apply(self, kernel: Kernel, name: str) -> None:
        """Give the operator `torch.ops.pyptx.<name>` of the kernel this rule."""
        from torch.distributed.tensor.experimental import register_sharding as register

        op = getattr(torch.ops.pyptx, name).default
        extra = len(op._schema.arguments) - len(kernel.in_specs or ())

        def acceptable(*args: Any) -> list[tuple[list[Any], list[Any]]]:
            del args
            return self.strategies(kernel, extra)

        register(op)(acceptable)


def register_sharding(kernel: Kernel, *, parallel: Sequence[str] = (), summed: Sequence[str] = ()) -> None:
    """Tell DTensor how `kernel` may be run on parts of its tensors.

    parallel: names of dimensions along which each part of the outputs follows from the same part of those inputs that
    have the dimension, and all of the others: rows and columns of a product, rows of a softmax. summed: dimensions of
    inputs over which the outputs are sums, so that parts give partial sums: the K of a product. Each must be symbolic,
    a name in `in_specs`; an output must have each parallel one, and none of the summed ones.

    Call it before the first call with DTensors. ValueError for other names; torch's RuntimeError where it has no
    DTensor. Torch's `torch.distributed.tensor.experimental.register_sharding`.
    """
    rule = Sharding(tuple(parallel), tuple(summed))
    inside = {d for s in (kernel.in_specs or ()) for d in dims_of(s) if isinstance(d, str)}
    outputs = [set(dims_of(s)) for s in kernel.out_specs or ()]
    for dim in (*rule.parallel, *rule.summed):
        if dim not in inside:
            known = ", ".join(sorted(inside)) or "none"
            raise ValueError(
                f"{kernel_name(kernel)} has no symbolic dimension {dim!r} among its inputs'; it has: {known}"
            )
    for dim in rule.parallel:
        if not all(dim in o for o in outputs):
            raise ValueError(
                f"{kernel_name(kernel)}: {dim} is not in every output, so the outputs are not parts along it"
            )
    for dim in rule.summed:
        if any(dim in o for o in outputs):
            raise ValueError(f"{kernel_name(kernel)}: the outputs have {dim}, so they are not sums over it")
    kernel._cubin_handles["sharding"] = rule
    for name in operators_of(kernel):
        rule.apply(kernel, name)
