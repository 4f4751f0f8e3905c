"""`ptx.cluster`: barriers, ranks and remote shared memory of a thread block cluster (PTX ISA 9.7.15.3, 9.7.10.26)."""

from __future__ import annotations

from typing import Any

from ...types import b32, u32
from ..core.instructions import emit
from ..core.registers import Guard, Reg, predicate, temporary
from ..core.trace import current
from ..memory.shared import address_register
from .control import if_
from .mbarriers import cluster_arrive_remote
from .special import sreg

__all__ = ["cluster"]


class Cluster:
    """The CTAs of a cluster."""

    @staticmethod
    def arrive(*, aligned: bool = False, pred: Guard = None) -> None:
        """`barrier.cluster.arrive{.aligned}`; aligned: all threads of the warp execute it together."""
        emit(f"barrier.cluster.arrive{'.aligned' if aligned else ''}", pred=pred)

    @staticmethod
    def wait(*, aligned: bool = False, pred: Guard = None) -> None:
        """`barrier.cluster.wait{.aligned}`: wait for the arrival of all threads of the cluster."""
        emit(f"barrier.cluster.wait{'.aligned' if aligned else ''}", pred=pred)

    def sync(self, *, aligned: bool = False, pred: Guard = None) -> None:
        """Arrive and wait."""
        self.arrive(aligned=aligned, pred=pred)
        self.wait(aligned=aligned, pred=pred)

    @staticmethod
    def rank(n: Any) -> Reg:
        """A predicate: this CTA has rank n in its cluster."""
        trace = current()
        mine = temporary(trace, u32)
        emit("mov.u32", mine, sreg("%cluster_ctarank"))
        result = predicate(trace)
        emit("setp.eq.u32", result, mine, n)
        return result

    @staticmethod
    def map_shared_u32(addr: Any, cta: Any, *, pred: Guard = None) -> Reg:
        """`mapa.shared::cluster.u32`: the address of the same shared memory in CTA number `cta` of the cluster
        (b32).
        """
        result = temporary(current(), b32)
        emit("mapa.shared::cluster.u32", result, address_register(addr), cta, pred=pred)
        return result

    @staticmethod
    def arrive_remote(addr: Any, cta: Any, count: int = 1, *, pred: Guard = None) -> None:
        """Arrive `count` times at the mbarrier that CTA number `cta` has at the same address."""
        cluster_arrive_remote(addr, cta, count, pred=pred)

    @staticmethod
    def arrive_multicast(addr: Any, mask: Any, count: int = 1, *, pred: Guard = None) -> None:
        """Arrive at the mbarrier of every CTA in a mask: an int (one arrival per set bit), or a register (ranks 0
        to 15 are tested).
        """
        trace = current()
        local = address_register(addr)
        if isinstance(mask, int):
            if not 0 < mask < 1 << 16:
                raise trace.error(f"a CTA mask has 1 to 16 bits, not {mask:#x}")
            for cta in range(16):
                if mask >> cta & 1:
                    cluster_arrive_remote(local, cta, count, pred=pred)
            return
        chosen = temporary(trace, b32)
        if pred is not None:  # where pred does not hold, no CTA is chosen
            emit("selp.b32", chosen, mask, 0, pred)
        else:
            emit("mov.b32", chosen, mask)
        for cta in range(16):
            bit = temporary(trace, b32)
            emit("and.b32", bit, chosen, 1 << cta)
            wanted = predicate(trace)
            emit("setp.ne.b32", wanted, bit, 0)
            with if_(wanted):
                cluster_arrive_remote(local, cta, count)


cluster = Cluster()
