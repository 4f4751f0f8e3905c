"""What warp-specialised kernels of sm_90 share: uniform warp numbers, waits at cluster scope, remote arrivals."""

from __future__ import annotations

from typing import Any

from pyptx import ptx, reg
from pyptx.reg import Reg
from pyptx.types import pred, s32, u32


def directives(threads: int) -> list[tuple[str, tuple[int, ...]]]:
    """What ptxas needs to know for `setmaxnreg`: with less it cannot tell how many registers a thread starts with, and
    ignores the instruction (C7508).
    """
    return [("reqntid", (threads,)), ("minnctapersm", (1,))]


def warp_number(tid: Reg) -> Reg:
    """The warp of a thread, from lane 0, so that ptxas knows that the warp branches as one."""
    warp = tid >> 5
    uniform = reg.scalar(s32)
    ptx.inst.shfl.sync.idx.b32(uniform, warp, 0, 31, -1)
    return uniform


def elected() -> Reg:
    """A predicate that holds in one lane of the warp; all its lanes must be here."""
    one = reg.scalar(pred)
    ptx.elect_sync(None, one, -1)
    return one


def wait(mbar: Any, parity: Any, *, scope: str = "cluster") -> None:
    """Wait for a phase of an mbarrier that another CTA, or a copy that another CTA started, completes.

    `ptx.mbarrier.wait` acquires at CTA scope, which does not order what the other CTA did.
    """
    again = ptx.fresh_label("wait")
    done = reg.scalar(pred)
    ptx.label(again)
    if scope == "cluster":
        ptx.inst.mbarrier.try_wait.parity.acquire.cluster.shared__cta.b64(done, ptx.addr(mbar), parity)
    else:
        ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(done, ptx.addr(mbar), parity)
    ptx.bra(again, pred=~done)


def arrive_at(address: Reg, cta: Any, *, pred: Any = None) -> None:
    """Arrive once at the mbarrier at a shared address in CTA number `cta` of the cluster."""
    remote = reg.scalar(u32)
    ptx.inst.mapa.shared__cluster.u32(remote, address, cta)
    ptx.inst.mbarrier.arrive.release.cluster.shared__cluster.b64("_", ptx.addr(remote), pred=pred)


if __name__ == "__main__":
    raise SystemExit("this is a part of the examples: run one of them, such as python -m examples.hopper.gemm_highperf")
