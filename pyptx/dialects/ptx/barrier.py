"""Barriers, fences and dependent launches (PTX ISA 9.7.15)."""

from __future__ import annotations

from functools import partial
from typing import Any

from .forms import Form, Use, form
from .instruction import Instruction, instruction
from .syntax import Immediate
from .target import need
from .warp import DISJOINT

SCOPES = "cta cluster gpu sys"
CLUSTER = {"cluster": need("7.8", "90+")}
BARRIERS = {"a": (0, 15)}


def _threads(use: Use) -> str | None:
    count = use.operand("b")
    if isinstance(count, Immediate) and count.value % 32:
        return f"operand b, the number of threads, must be a multiple of 32 (whole warps), not {count.text}"
    if isinstance(count, Immediate) and count.value == 0 and use.form.opcode.endswith("arrive"):
        return "operand b, the number of threads that the barrier waits for, may not be 0"
    return None


def _sync(opcode: str, aligned: str, ptx: str) -> tuple[Form, ...]:
    return (form(f"{opcode}.sync{aligned} a:u32{{, b:u32}}", ptx=ptx, ranges=BARRIERS, rule=_threads),)


def _arrive(opcode: str, aligned: str, ptx: str) -> tuple[Form, ...]:
    return (form(f"{opcode}{aligned} a:u32, b:u32", ptx=ptx, ranges=BARRIERS, rule=_threads),)


def _red(opcode: str, aligned: str, ptx: str) -> tuple[Form, ...]:
    tail = "a:u32{, b:u32}, c:pred!"
    line = partial(form, ptx=ptx, ranges=BARRIERS, rule=_threads)
    return (
        line(f"{opcode}.popc{aligned}.u32 d, {tail}"),
        line(f"{opcode}.op{aligned}.pred p:pred, {tail}", op="and or"),
    )


@instruction
class Bar(Instruction):
    """Wait at a barrier of the CTA until all (or b) threads have arrived; memory accesses before it are
    visible after.

    Operands: a, the barrier, 0 to 15; b, the number of threads, a multiple of 32. All threads of a warp run
    it.
    """

    name = "ptx.bar"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    unit = "barrier"
    forms = _sync("bar", "", "1.0")


@instruction
class BarArrive(Instruction):
    """Arrive at a barrier of the CTA without waiting.

    Operands: a, the barrier, 0 to 15; b, the number of threads.
    """

    name = "ptx.bar.arrive"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    unit = "barrier"
    forms = _arrive("bar.arrive", "", "2.0")


@instruction
class BarRed(Instruction):
    """Wait at a barrier of the CTA and reduce a predicate over its threads: count, and, or.

    Operands: d (or p), the result; a, the barrier, 0 to 15; b, the number of threads; c, the predicate.
    """

    name = "ptx.bar.red"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    differs = "none"
    unit = "barrier"
    forms = _red("bar.red", "", "2.0")


@instruction
class BarCta(Instruction):
    """`bar.sync` with the scope spelled. Operands: a, the barrier, 0 to 15; b, the number of threads."""

    name = "ptx.bar.cta"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    unit = "barrier"
    forms = _sync("bar.cta", "", "7.8")


@instruction
class BarCtaArrive(Instruction):
    """`bar.arrive` with the scope spelled. Operands: a, the barrier, 0 to 15; b, the number of threads."""

    name = "ptx.bar.cta.arrive"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    unit = "barrier"
    forms = _arrive("bar.cta.arrive", "", "7.8")


@instruction
class BarCtaRed(Instruction):
    """`bar.red` with the scope spelled. Operands: d (or p); a, the barrier; b, the number of threads; c."""

    name = "ptx.bar.cta.red"
    section = "9.7.15.1"
    effect = "order"
    aligned = True
    differs = "none"
    unit = "barrier"
    forms = _red("bar.cta.red", "", "7.8")


@instruction
class Barrier(Instruction):
    """Wait at a barrier of the CTA, thread by thread; `.aligned` promises that the whole warp runs it
    together (the manual says: the whole CTA).

    Operands: a, the barrier, 0 to 15; b, the number of threads, a multiple of 32.
    """

    name = "ptx.barrier"
    section = "9.7.15.1"
    effect = "order"
    unit = "barrier"
    forms = _sync("barrier", "{.aligned}", "5.1")


@instruction
class BarrierArrive(Instruction):
    """Arrive at a barrier of the CTA without waiting.

    Operands: a, the barrier, 0 to 15; b, the number of threads.
    """

    name = "ptx.barrier.arrive"
    section = "9.7.15.1"
    effect = "order"
    unit = "barrier"
    forms = _arrive("barrier.arrive", "{.aligned}", "5.1")


@instruction
class BarrierRed(Instruction):
    """Wait at a barrier of the CTA and reduce a predicate over its threads: count, and, or.

    Operands: d (or p), the result; a, the barrier, 0 to 15; b, the number of threads; c, the predicate.
    """

    name = "ptx.barrier.red"
    section = "9.7.15.1"
    effect = "order"
    differs = "none"
    unit = "barrier"
    forms = _red("barrier.red", "{.aligned}", "5.1")


@instruction
class BarrierCta(Instruction):
    """`barrier.sync` with the scope spelled. Operands: a, the barrier, 0 to 15; b, the number of threads."""

    name = "ptx.barrier.cta"
    section = "9.7.15.1"
    effect = "order"
    unit = "barrier"
    forms = _sync("barrier.cta", "{.aligned}", "7.8")


@instruction
class BarrierCtaArrive(Instruction):
    """`barrier.arrive` with the scope spelled.

    Operands: a, the barrier, 0 to 15; b, the number of threads.
    """

    name = "ptx.barrier.cta.arrive"
    section = "9.7.15.1"
    effect = "order"
    unit = "barrier"
    forms = _arrive("barrier.cta.arrive", "{.aligned}", "7.8")


@instruction
class BarrierCtaRed(Instruction):
    """`barrier.red` with the scope spelled.

    Operands: d (or p); a, the barrier; b, the number of threads; c.
    """

    name = "ptx.barrier.cta.red"
    section = "9.7.15.1"
    effect = "order"
    differs = "none"
    unit = "barrier"
    forms = _red("barrier.cta.red", "{.aligned}", "7.8")


@instruction
class BarWarp(Instruction):
    """Wait for the lanes of a mask and make their memory accesses visible to each other.

    Operand: membermask.
    """

    name = "ptx.bar.warp"
    section = "9.7.15.2"
    effect = "order"
    unit = "barrier"
    forms = (form("bar.warp.sync{.masks} membermask:u32", ptx="5.1", **DISJOINT),)


@instruction
class BarrierClusterArrive(Instruction):
    """Arrive at the barrier of the cluster, with release semantics unless `.relaxed`."""

    name = "ptx.barrier.cluster.arrive"
    section = "9.7.15.3"
    effect = "order"
    unit = "barrier"
    forms = (
        form(
            "barrier.cluster.arrive{.sem}{.aligned}", sem="release relaxed",
            ptx="7.8", sm="90+", needs={"?sem": need("8.0")},
        ),
    )  # fmt: skip


@instruction
class BarrierClusterWait(Instruction):
    """Wait until all threads of the cluster have arrived at its barrier; acquires what they released."""

    name = "ptx.barrier.cluster.wait"
    section = "9.7.15.3"
    effect = "order"
    unit = "barrier"
    forms = (
        form(
            "barrier.cluster.wait{.acquire}{.aligned}",
            ptx="7.8", sm="90+", needs={"acquire": need("8.0")},
        ),
    )  # fmt: skip


@instruction
class Membar(Instruction):
    """Order this thread's memory accesses for the threads of a CTA, of the GPU (`gl`) or of the system."""

    name = "ptx.membar"
    section = "9.7.15.4"
    effect = "order"
    unit = "barrier"
    forms = (form("membar.level", level="cta gl sys", ptx="1.4"),)

    @classmethod
    def fences(cls, modifiers: tuple[str, ...]) -> str:
        return "memory"


@instruction
class MembarProxy(Instruction):
    """Order accesses made through different proxies; the older spelling of `fence.proxy`."""

    name = "ptx.membar.proxy"
    section = "9.7.15.4"
    effect = "order"
    unit = "barrier"
    forms = (
        form("membar.proxy.alias", ptx="7.5", sm="60+"),
        form("membar.proxy.async", ptx="8.0", sm="90+"),
    )

    @classmethod
    def fences(cls, modifiers: tuple[str, ...]) -> str:
        return "async" if "async" in modifiers else ""


RESTRICT = "sync_restrict::shared::cta sync_restrict::shared::cluster sync_restrict::shared::cluster::read"
RESTRICT_NEEDS = {
    "sync_restrict::shared::cta": need("8.6", "90+"),
    "sync_restrict::shared::cluster": need("8.6", "90+"),
    "sync_restrict::shared::cluster::read": need("9.4", "90+"),
}


@instruction
class Fence(Instruction):
    """Order this thread's memory accesses at a scope; acquire and release fences order one direction only.

    `.sync_restrict` limits the fence to shared memory (of the cluster for acquire, of the CTA for release);
    `.mbarrier_init` orders the initialisation of mbarriers only.
    """

    name = "ptx.fence"
    section = "9.7.15.4"
    effect = "order"
    unit = "barrier"
    forms = (
        form(  # ptxas ignores .async without .proxy
            "fence{.sem}.scope{.async}", sem="sc acq_rel", scope=SCOPES,
            ptx="5.1", sm="70+", needs={**CLUSTER, "async": need("8.0", "90+")},
        ),
        form("fence.sem.scope{.async}", sem="acquire release", scope=SCOPES, ptx="8.6", sm="90+"),
        form("fence.acquire.sync_restrict::shared::cluster.cluster{.async}", ptx="8.6", sm="90+"),
        form("fence.release.sync_restrict::shared::cta.cluster{.async}", ptx="8.6", sm="90+"),
        form("fence.alias.sync_restrict::read.release.sys", ptx="9.5", sm="90+"),
        form(
            "fence.mbarrier_init{.restrict}.release.cluster{.async}",
            restrict="sync_restrict::shared::cta sync_restrict::shared::cluster",
            ptx="8.0", sm="90+", needs=RESTRICT_NEEDS,
        ),
    )  # fmt: skip

    @classmethod
    def fences(cls, modifiers: tuple[str, ...]) -> str:
        return "mbarrier_init" if "mbarrier_init" in modifiers else "memory"


def _between(kinds: str, tail: str, restricted: bool = False, **more: Any) -> Form:
    """A fence between two proxies; ptxas ignores a state space and, unless the line has one, restriction."""
    ignored = "{.space}" if restricted else "{.space}{.restrict}"
    if not restricted:
        more["restrict"] = RESTRICT
    line = partial(form, f"fence.proxy.kind{ignored}{tail}", kind=kinds, needs=RESTRICT_NEEDS)
    return line(space="global shared shared::cta shared::cluster", **more)


BOTH = "tensormap::generic async::generic"
FABRIC = "fabric::fabric fabric::generic generic::fabric"


@instruction
class FenceProxy(Instruction):
    """Order accesses made through different proxies: generic, async (TMA, mma), tensor map, fabric, aliases.

    Operands, for acquiring a tensor map only: a, its address; size, the constant 128.
    `.alias` and `.async` work both ways; the `to::from` kinds order earlier accesses through the proxy `from`
    before later ones through `to`, which one thread releases and another acquires.
    """

    name = "ptx.fence.proxy"
    section = "9.7.15.4"
    generic_places = ""  # ptxas takes whatever is declared
    effect = "order"
    unit = "barrier"
    forms = (
        form("fence.proxy.alias{.restrict}", restrict=RESTRICT, ptx="7.5", sm="70+", needs=RESTRICT_NEEDS),
        form(
            "fence.proxy.async{.space}{.restrict}",
            space="global shared::cta shared::cluster", restrict=RESTRICT,
            ptx="8.0", sm="90+", needs=RESTRICT_NEEDS,
        ),
        form(
            "fence.proxy.alias{.restrict}.sem.sys", sem="acquire release", restrict=RESTRICT,
            ptx="9.4", sm="90+", needs=RESTRICT_NEEDS,
        ),
        _between("tensormap::generic", ".release.scope", scope=SCOPES, ptx="8.3", sm="90+"),
        form(
            "fence.proxy.tensormap::generic.acquire.scope [a], size:imm", scope=SCOPES,
            ranges={"size": frozenset({128})}, ptx="8.3", sm="90+",
        ),
        _between(BOTH, ".acq_rel.scope", scope=SCOPES, ptx="8.3", sm="90+"),
        form("fence.proxy.kind.acq_rel.scope [a], size:imm", kind=BOTH, scope=SCOPES, ptx="8.3", sm="90+"),
        _between(
            "async::generic", ".acquire.sync_restrict::shared::cluster.cluster", True, ptx="8.6", sm="90+"
        ),
        _between("async::generic", ".release.sync_restrict::shared::cta.cluster", True, ptx="8.6", sm="90+"),
        _between(
            "async::generic", ".release.sync_restrict::shared::cluster::read.scope", True,
            scope="cta cluster", ptx="9.4", sm="90+",
        ),
        _between(FABRIC, ".alias.sem.sys", sem="acquire release", ptx="9.3", sm="100+"),
        _between(FABRIC, ".alias.acq_rel.scope", scope=SCOPES, ptx="9.3", sm="100+"),
    )  # fmt: skip

    @classmethod
    def fences(cls, modifiers: tuple[str, ...]) -> str:
        kinds = {kind for m in modifiers for kind in m.split("::")}
        return next((kind for kind in ("async", "tensormap") if kind in kinds), "")


@instruction
class GridDependencyControl(Instruction):
    """Let dependent grids start (`launch_dependents`), or wait until the grids this one depends on have
    finished and their memory accesses are visible.
    """

    name = "ptx.griddepcontrol"
    section = "9.7.15.14"
    effect = "order"
    unit = "barrier"
    forms = (form("griddepcontrol.action", action="launch_dependents wait", ptx="7.8", sm="90+"),)
