"""What a target's hardware allows a launch to ask for."""

from __future__ import annotations

from math import prod

from ...analysis.occupancy import limits_of
from ...dialects.ptx.target import target_in

__all__ = ["launch_problem"]

THREADS = 1024
CLUSTER = 16


def launch_problem(target: str, block: object, cluster: object, smem: int) -> str | None:
    """Why no launch of this shape is possible on the target; what is not known yet (functions) is left out.

    CUDA C++ Programming Guide, technical specifications per compute capability.
    """
    threads, ctas = _count(block), _count(cluster)
    most = limits_of(target).shared_per_cta
    if threads > THREADS:
        return f"block {block} has {threads} threads, and a CTA has at most {THREADS}"
    if ctas > 1 and not target_in(target, "90+"):
        return f"cluster {cluster}: {target} has no clusters, they came with sm_90"
    if ctas > CLUSTER:
        return f"cluster {cluster} has {ctas} CTAs: 8 always fit, {CLUSTER} are the most"
    if smem > most:
        return f"{smem} bytes of shared memory are asked for, and a CTA has at most {most} on {target}"
    return None


def _count(extent: object) -> int:
    if isinstance(extent, int):
        return extent
    return prod(n for n in extent if isinstance(n, int)) if isinstance(extent, (tuple, list)) else 1
