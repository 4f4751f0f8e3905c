"""The shape of a kernel's launch for given sizes, and what no GPU launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from ..diagnostics import PTXError
from .driver import LaunchShape

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel

__all__ = ["checked_shape", "launch_shape", "without_ctas"]


def launch_shape(kernel: Kernel, sizes: Mapping[str, int], kwargs: Mapping[str, Any]) -> LaunchShape:
    """The launch of a traced kernel (its variant for the GPU) for these dimensions. A grid of 0 is none: see
    `without_ctas`. PTXError for a shape that cannot be.
    """
    try:
        launch = kernel.resolve_launch(sizes, **kwargs)
    except PTXError:
        raise
    except ValueError as error:
        if _is_from_kernel(error, kernel):
            raise  # the author's own mistake, with its place
        raise PTXError(str(error)) from error
    return checked_shape(
        kernel.name,
        LaunchShape(
            launch.grid, launch.block, launch.cluster, launch.smem, bool(kernel.cooperative), bool(kernel.programmatic)
        ),
    )


def _is_from_kernel(error: BaseException, kernel: Kernel) -> bool:
    """Whether an exception comes out of the kernel's Python function."""
    code = getattr(getattr(kernel, "_fn", None), "__code__", None)
    return code is not None and any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))


def without_ctas(name: str, shape: LaunchShape, outputs: Sequence[tuple[str, Sequence[int]]]) -> bool:
    """Whether there is nothing to launch, as empty tensors want it. PTXError where outputs (name, shape) would then
    stay unwritten.
    """
    if 0 not in shape.grid:
        return False
    for output, size in outputs:
        if all(size):
            raise PTXError(
                f"{name}: grid {shape.grid} has no CTAs, and the output {output} has elements (shape {tuple(size)}): "
                "give a grid that covers it"
            )
    return True


def checked_shape(name: str, shape: LaunchShape) -> LaunchShape:
    """The shape, or PTXError for what no GPU launches. CUDA programming guide, compute capabilities."""
    grid, block, cluster = shape.grid, shape.block, shape.cluster
    if any(n < 0 for n in grid) or any(n < 1 for n in (*block, *cluster)):
        raise PTXError(f"{name}: grid {grid}, block {block} and cluster {cluster} must be positive")
    if grid[0] >= 1 << 31 or grid[1] > 65535 or grid[2] > 65535:
        raise PTXError(f"{name}: grid {grid} is too large; x goes to 2**31 - 1, y and z to 65535")
    threads = block[0] * block[1] * block[2]
    if threads > 1024 or block[2] > 64:
        raise PTXError(f"{name}: block {block} has {threads} threads; a CTA has at most 1024, and z at most 64")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise PTXError(f"{name}: cluster {cluster} does not divide grid {grid}")
    if cluster[0] * cluster[1] * cluster[2] > 16:
        raise PTXError(f"{name}: cluster {cluster} has more than 16 CTAs")
    return shape
