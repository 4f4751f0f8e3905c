"""Barriers and fences (PTX ISA 9.7.15). Memory is sequentially consistent here, so fences change nothing."""

from __future__ import annotations

from ..machine.program import Inst
from ..machine.registry import Barrier, ClusterBarrier, Collective, Step, meaning


@meaning("bar", "bar.cta", "barrier", "barrier.cta", waits=True)
def sync(inst: Inst) -> Barrier:
    operands = inst.operands
    return Barrier(operands[0], operands[1] if len(operands) > 1 else None)


@meaning("bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive", waits=True)
def arrive(inst: Inst) -> Barrier:
    return Barrier(inst.operands[0], inst.operands[1], arrive_only=True)


@meaning("bar.red", "bar.cta.red", "barrier.red", "barrier.cta.red", waits=True)
def red(inst: Inst) -> Barrier:
    d, number, *rest = inst.operands
    combine = inst.one_of("popc", "and", "or") or ""
    return Barrier(number, rest[0] if len(rest) > 1 else None, combine, rest[-1], d)


@meaning("bar.warp.sync", waits=True)
def warp_sync(inst: Inst) -> Collective:
    return Collective(lambda machine, inst: lambda m: None, inst.operands[0])


@meaning("barrier.cluster.arrive", waits=True)
def cluster_arrive(inst: Inst) -> ClusterBarrier:
    return ClusterBarrier(wait=False)


@meaning("barrier.cluster.wait", waits=True)
def cluster_wait(inst: Inst) -> ClusterBarrier:
    return ClusterBarrier(wait=True)


@meaning("membar", "membar.proxy", "fence", "fence.proxy", "griddepcontrol")
def fence(inst: Inst) -> Step:
    return Step(lambda machine, inst: lambda m: None)
