"""The values of special registers (PTX ISA 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .program import GRID_BASE, PER_CTA_BASE
from .threads import Threads

Array = Any
u32 = np.uint32
SMS = 132
AXES = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


def _words(value: object) -> np.ndarray:
    return np.array([value], u32)


def _thread(t: Threads) -> tuple[Array, ...]:
    (bx, by, _), thread = t.launch.block, t.thread_of_lane
    return thread % bx, thread // bx % by, thread // (bx * by)


def _cta(t: Threads) -> tuple[Array, ...]:
    return t.cta_index(t.cta_of_lane)


VECTORS: dict[str, Callable[[Threads], tuple[Array, ...]]] = {
    "tid": _thread,
    "ntid": lambda t: t.launch.block,
    "ctaid": _cta,
    "nctaid": lambda t: t.launch.grid,
    "clusterid": lambda t: tuple(c // s for c, s in zip(_cta(t), t.launch.cluster, strict=True)),
    "nclusterid": lambda t: tuple(g // s for g, s in zip(t.launch.grid, t.launch.cluster, strict=True)),
    "cluster_ctaid": lambda t: tuple(c % s for c, s in zip(_cta(t), t.launch.cluster, strict=True)),
    "cluster_nctaid": lambda t: t.launch.cluster,
}
"""Those of .x, .y, .z and .w, which is 0."""


def _offset_of_cta_memory(t: Threads) -> np.ndarray:
    x, y, z = _cta(t)
    number = x + t.launch.grid[0] * (y + t.launch.grid[1] * z)
    return (PER_CTA_BASE + t.launch.per_cta * number.astype(np.uint64)).astype(np.uint64)


def _grid_barrier(t: Threads, shift: int) -> np.ndarray:
    return _words(GRID_BASE >> shift & 0xFFFF_FFFF if t.launch.cooperative else 0)


ONE, TWO = u32(1), u32(2)
SCALARS: dict[str, Callable[[Threads, int], Array]] = {
    "laneid": lambda t, _: t.lane_in_warp,
    "warpid": lambda t, _: (t.thread_of_lane // 32).astype(u32),
    "nwarpid": lambda t, _: _words(t.padded // 32),
    "smid": lambda t, _: (t.cta_of_lane % SMS).astype(u32),
    "nsmid": lambda t, _: _words(SMS),
    "gridid": lambda t, _: np.ones(1, np.uint64),
    "lanemask_eq": lambda t, _: ONE << t.lane_in_warp,
    "lanemask_lt": lambda t, _: (ONE << t.lane_in_warp) - ONE,
    "lanemask_le": lambda t, _: (TWO << t.lane_in_warp) - ONE,
    "lanemask_gt": lambda t, _: ~((TWO << t.lane_in_warp) - ONE),
    "lanemask_ge": lambda t, _: ~((ONE << t.lane_in_warp) - ONE),
    "clock": lambda t, _: _words(t.clock & 0xFFFF_FFFF),
    "clock_hi": lambda t, _: _words(t.clock >> 32 & 0xFFFF_FFFF),
    "clock64": lambda t, _: np.array([t.clock], np.uint64),
    "globaltimer": lambda t, _: np.array([t.clock], np.uint64),
    "globaltimer_lo": lambda t, _: _words(t.clock & 0xFFFF_FFFF),
    "globaltimer_hi": lambda t, _: _words(t.clock >> 32 & 0xFFFF_FFFF),
    "total_smem_size": lambda t, shared: _words(shared),
    "aggr_smem_size": lambda t, shared: _words(shared),
    "dynamic_smem_size": lambda t, _: _words(t.launch.dynamic_shared),
    "cluster_ctarank": lambda t, _: (t.cta_of_lane % t.cluster_size).astype(u32),
    "cluster_nctarank": lambda t, _: _words(t.cluster_size),
    "is_explicit_cluster": lambda t, _: np.array([t.launch.explicit_cluster]),
    "perctamemorysize": lambda t, _: _words(t.launch.per_cta),
    "perctamemoryoffset": lambda t, _: _offset_of_cta_memory(t),
    "reserved_smem_offset_end": lambda t, _: _words(0x400),
    "reserved_smem_offset_cap": lambda t, _: _words(0x400),
    "reserved_smem_offset_1": lambda t, _: _words(0x400),
    "envreg1": lambda t, _: _grid_barrier(t, 32),
    "envreg2": lambda t, _: _grid_barrier(t, 0),
    "current_graph_exec": lambda t, _: np.zeros(1, np.uint64),
}
"""Of the threads, and the bytes of shared memory of a CTA."""


def special_value(name: str, threads: Threads, shared_size: int) -> np.ndarray:
    """The value of a special register: one for each lane, or one for all."""
    base, _, element = name.removeprefix("%").partition(".")
    vector = VECTORS.get(base)
    if vector is not None:
        axis = AXES.get(element, 0)
        return np.zeros(1, u32) if axis == 3 else np.atleast_1d(np.asarray(vector(threads)[axis])).astype(u32)
    scalar = SCALARS.get(base)
    if scalar is not None:
        return scalar(threads, shared_size)
    return np.zeros(1, np.uint64 if base.endswith("_64") else u32)
