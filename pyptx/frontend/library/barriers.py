"""Barriers, fences and warp election (PTX ISA 9.7.15)."""

from __future__ import annotations

from typing import Any

from ..core.instructions import emit
from ..core.registers import Guard, PipeRef

__all__ = [
    "NamedBarrier",
    "bar",
    "elect_sync",
    "fence",
    "named_barrier",
    "setmaxnreg",
    "setmaxnreg_dec",
    "setmaxnreg_inc",
]


class Bar:
    """`ptx.bar`: barriers of the CTA."""

    @staticmethod
    def sync(n: Any = 0, count: Any = None, *, pred: Guard = None) -> None:
        """`bar.sync n{, count}`: wait at barrier n (0..15) for all threads of the CTA, or for `count` of them (a
        multiple of 32).
        """
        emit("bar.sync", *([n] if count is None else [n, count]), pred=pred)

    @staticmethod
    def arrive(n: Any, count: Any, *, pred: Guard = None) -> None:
        """`bar.arrive n, count`: arrive at barrier n without waiting."""
        emit("bar.arrive", n, count, pred=pred)

    @staticmethod
    def warp_sync(mask: Any = -1, *, pred: Guard = None) -> None:
        """`bar.warp.sync mask`: wait for the lanes in the mask."""
        emit("bar.warp.sync", mask, pred=pred)


bar = Bar()


class NamedBarrier:
    """One of the CTA's 16 barriers, for `count` threads (None: all)."""

    def __init__(self, id: Any, count: Any = None):
        self.id, self.count = id, count

    def sync(self, *, pred: Guard = None) -> None:
        """Wait until all have arrived."""
        bar.sync(self.id, self.count, pred=pred)

    def arrive(self, *, pred: Guard = None) -> None:
        """Arrive without waiting; needs the count."""
        bar.arrive(self.id, self.count, pred=pred)


def named_barrier(id: Any, *, count: Any = None) -> NamedBarrier:
    """Barrier number `id` (0..15) for `count` threads (a multiple of 32; None: all of the CTA)."""
    return NamedBarrier(id, count)


def setmaxnreg(n: int, *, inc: bool = True, pred: Guard = None) -> None:
    """`setmaxnreg`: registers per thread of the warp from here on, 24..256 in steps of 8. All warps of the warpgroup
    must execute it.
    """
    emit(f"setmaxnreg.{'inc' if inc else 'dec'}.sync.aligned.u32", n, pred=pred)


def setmaxnreg_inc(n: int, *, pred: Guard = None) -> None:
    """Ask for n registers per thread (blocks until they are free)."""
    setmaxnreg(n, inc=True, pred=pred)


def setmaxnreg_dec(n: int, *, pred: Guard = None) -> None:
    """Give registers back, down to n per thread."""
    setmaxnreg(n, inc=False, pred=pred)


def elect_sync(dst: Any, pred: Any, mask: Any = -1) -> Any:
    """`elect.sync dst|pred, mask`: pred holds in one lane of the mask; dst (or None) is that lane's number. Returns pred."""
    emit("elect.sync", PipeRef(dst, pred), mask)
    return pred


class Fence:
    """`ptx.fence`: order memory accesses between proxies."""

    @staticmethod
    def proxy_async(*, pred: Guard = None) -> None:
        """`fence.proxy.async`: ordinary accesses before it are seen by async copies after it, and the other way
        round.
        """
        emit("fence.proxy.async", pred=pred)

    @staticmethod
    def proxy_async_shared_cta(*, pred: Guard = None) -> None:
        """`fence.proxy.async.shared::cta`: the same for this CTA's shared memory."""
        emit("fence.proxy.async.shared::cta", pred=pred)

    @staticmethod
    def proxy_async_generic_acquire_shared_cluster(*, pred: Guard = None) -> None:
        """`fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster`."""
        emit("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", pred=pred)

    @staticmethod
    def mbarrier_init(*, pred: Guard = None) -> None:
        """`fence.mbarrier_init.release.cluster`: makes `mbarrier.init` visible to the cluster."""
        emit("fence.mbarrier_init.release.cluster", pred=pred)


fence = Fence()
