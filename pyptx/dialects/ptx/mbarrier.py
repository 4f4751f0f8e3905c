"""mbarrier: barriers in shared memory that count arrivals and bytes in flight (PTX ISA 9.7.15.16).

An mbarrier is one .b64 in shared memory. Its phase ends when all pending arrivals have come and all expected
bytes have been written; then the next phase begins with the count given at `init`. `sem` and `scope` are
written together or left out; then an arrival is a release and a wait an acquire, at CTA scope.
"""

from __future__ import annotations

from .forms import Form, form
from .instruction import Instruction, instruction
from .target import need

OWN = "shared shared::cta"
ANY = "shared shared::cta shared::cluster"
RELEASE = "release relaxed"
ACQUIRE = "acquire relaxed"
SCOPE = "cta cluster"
MULTICAST = "multicast::cluster::32b"
RUBIN = "107af"

COUNT = {"count": (1, None)}
MASK = {"count": (1, None), "cta": (0, 0xFFFF_FFFF)}
PHASE = {"phase": (0, 1)}

_CTA = {"shared::cta": need("7.8")}
_ORDERED = {"relaxed": need("8.6", "90+"), "cluster": need("8.0", "90+"), **_CTA}
_COUNTED = {**_ORDERED, "/count": need("7.8", "90+")}


def _arrive(opcode: str, sink: str) -> tuple[Form, ...]:
    """The forms of `arrive` and `arrive_drop`; from PTX `sink` on, the state may be the sink."""
    near, far = f"{opcode}{{.sem.scope}}", f"{opcode}{{.sem.scope}}.shared::cluster"
    tx, far_tx = f"{opcode}.^expect_tx{{.sem.scope}}", f"{opcode}.^expect_tx{{.sem.scope}}.shared::cluster"
    old = f"{opcode}.noComplete{{.space}}.b64"
    return (
        form(f"{opcode}{{.space}}.b64 d:u64, [mbar%]{{, count:u32*>}}", space=OWN,
             ptx="7.0", sm="80+", needs=_COUNTED, ranges=COUNT),
        form(f"{opcode}{{.space}}.b64 _, [mbar%]{{, count:u32*>}}", space=OWN,
             ptx=sink, sm="80+", needs=_COUNTED, ranges=COUNT),
        form(f"{old} d:u64, [mbar%], count:u32*>", space=OWN, ptx="7.0", sm="80+", needs=_CTA, ranges=COUNT),
        form(f"{old} _, [mbar%], count:u32*>", space=OWN, ptx=sink, sm="80+", needs=_CTA, ranges=COUNT),
        form(f"{opcode}.noComplete.release.cta{{.space}}.b64 d:u64_, [mbar%], count:u32*>",
             space=OWN, ptx="8.0", sm="80+", ranges=COUNT),
        form(f"{opcode}.sem.scope{{.space}}.b64 d:u64_, [mbar%]{{, count:u32*>}}",
             sem=RELEASE, scope=SCOPE, space=OWN, ptx="8.0", sm="80+", needs=_COUNTED, ranges=COUNT),
        form(f"{far}.b64 _, [mbar%]{{, count:u32*>}}", sem=RELEASE, scope=SCOPE,
             ptx="8.0", sm="90+", needs=_ORDERED, ranges=COUNT),
        form(f"{tx}{{.space}}.b64 d:u64_, [mbar%], bytes:u32", sem=RELEASE, scope=SCOPE, space=OWN,
             ptx="8.0", sm="90+", needs=_ORDERED),
        form(f"{far_tx}.b64 _, [mbar%], bytes:u32", sem=RELEASE, scope=SCOPE,
             ptx="8.0", sm="90+", needs=_ORDERED),
        form(f"{near}.multicast.b64 d:u64_, [mbar%]{{, count:u32*>}}, cta:u32", sem=RELEASE, scope=SCOPE,
             multicast=MULTICAST, ptx="9.4", sm=RUBIN, ranges=MASK),
        form(f"{far}.multicast.b64 _, [mbar%]{{, count:u32*>}}, cta:u32", sem=RELEASE, scope=SCOPE,
             multicast=MULTICAST, ptx="9.4", sm=RUBIN, ranges=MASK),
        form(f"{tx}.multicast.b64 d:u64_, [mbar%], bytes:u32, cta:u32", sem=RELEASE, scope=SCOPE,
             multicast=MULTICAST, ptx="9.4", sm=RUBIN, ranges=MASK),
        form(f"{far_tx}.multicast.b64 _, [mbar%], bytes:u32, cta:u32", sem=RELEASE, scope=SCOPE,
             multicast=MULTICAST, ptx="9.4", sm=RUBIN, ranges=MASK),
    )  # fmt: skip


def _transactions(opcode: str) -> tuple[Form, ...]:
    """The forms of `expect_tx` and `complete_tx`."""
    return (
        form(f"{opcode}{{.relaxed.scope}}{{.space}}.b64 [mbar%], bytes:u32", scope=SCOPE, space=ANY,
             ptx="8.0", sm="90+"),
        form(f"{opcode}{{.relaxed.scope}}{{.shared::cluster}}.multicast.b64 [mbar%], bytes:u32, cta:u32",
             scope=SCOPE, multicast=MULTICAST, ptx="9.4", sm=RUBIN, ranges=MASK),
    )  # fmt: skip


def _wait(opcode: str, ptx: str, parity: str, sm: str, hint: str) -> tuple[Form, ...]:
    """The forms of `test_wait` and `try_wait`; `ptx` and `parity`: since when, with a state and a parity."""
    by_parity = f"{opcode}.^parity"
    report = "{.sem.scope}{.space}.phase_type::primary.b64 p:pred{|q:pred_}"
    state, phase = f"[mbar%], state:u64{hint}", f"[mbar%], phase:u32{hint}"
    return (
        form(f"{opcode}{{.space}}.b64 p:pred, {state}", space=OWN, ptx=ptx, sm=sm, needs=_CTA),
        form(f"{opcode}.sem.scope{{.space}}.b64 p:pred, {state}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="8.0", sm=sm, needs=_ORDERED),
        form(f"{opcode}{report}, {state}", sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="9.3", sm="90+"),
        form(f"{opcode}{report}, report=:b8, {state}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="9.3", sm="90+"),
        form(f"{by_parity}{{.space}}.b64 p:pred, {phase}",
             space=OWN, ptx=parity, sm=sm, needs=_CTA, ranges=PHASE),
        form(f"{by_parity}.sem.scope{{.space}}.b64 p:pred, {phase}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="8.0", sm=sm, needs=_ORDERED, ranges=PHASE),
        form(f"{by_parity}{report}, {phase}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="9.3", sm="90+", ranges=PHASE),
        form(f"{by_parity}{report}, report=:b8, {phase}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="9.3", sm="90+", ranges=PHASE),
        form(f"{by_parity}{{.sem.scope}}{{.space}}.phase_type::conditional.b64 p:pred, {phase}",
             sem=ACQUIRE, scope=SCOPE, space=OWN, ptx="9.3", sm="90+", ranges=PHASE),
    )  # fmt: skip


class _OnMbarrier(Instruction):
    """What the instructions share that read or change an mbarrier in memory."""

    generic_places = "shared"
    takes_references = False
    effect = "order"
    access_bytes = 8
    access = "object"
    unit = "barrier"


@instruction
class MbarrierInit(_OnMbarrier):
    """Make an mbarrier in shared memory, in its first phase.

    Operands: mbar, its address (8-byte aligned, in the own CTA); count, the arrivals that end each phase, 1
    to 1048575 (511 with `.layout::v1`). `.layout::v0`, the default, and `.layout::v1` choose the object's
    format; `check_layout` asks for it. Other threads see the barrier after a fence (`fence.mbarrier_init` in a
    cluster) and a synchronisation.
    """

    name = "ptx.mbarrier.init"
    section = "9.7.15.16.12"
    forms = (
        form(
            "mbarrier.init{.format}{.space}.b64 [mbar%], count:u32",
            format="layout::v0 layout::v1", space=OWN, ptx="7.0", sm="80+",
            needs={**_CTA, "?format": need("9.3", "90+")}, ranges={"count": (1, (1 << 20) - 1)},
        ),
    )  # fmt: skip


@instruction
class MbarrierInval(_OnMbarrier):
    """End the life of the mbarrier at mbar, so that its memory may be used for something else (or `init`
    again).
    """

    name = "ptx.mbarrier.inval"
    section = "9.7.15.16.13"
    forms = (form("mbarrier.inval{.space}.b64 [mbar%]", space=OWN, ptx="7.0", sm="80+", needs=_CTA),)


@instruction
class MbarrierExpectTx(_OnMbarrier):
    """Raise the number of bytes that the current phase waits for, without arriving.

    Operands: mbar, the mbarrier (in any CTA of the cluster); bytes, how many; cta, with
    `.multicast::cluster::32b`, a bit mask of the CTAs in whose shared memory to do it. Always relaxed.
    """

    name = "ptx.mbarrier.expect_tx"
    section = "9.7.15.16.14"
    forms = _transactions("mbarrier.expect_tx")


@instruction
class MbarrierCompleteTx(_OnMbarrier):
    """Lower the number of bytes that the current phase waits for, as a finished copy of that size would.

    Operands: mbar, the mbarrier (in any CTA of the cluster); bytes, how many; cta, with
    `.multicast::cluster::32b`, a bit mask of the CTAs in whose shared memory to do it. Always relaxed; moves
    no data.
    """

    name = "ptx.mbarrier.complete_tx"
    section = "9.7.15.16.15"
    forms = _transactions("mbarrier.complete_tx")


@instruction
class MbarrierArrive(_OnMbarrier):
    """Arrive at an mbarrier: count arrivals (default 1) less are pending, and the phase ends with the last.

    Operands: d, the .b64 state of the phase before, for `test_wait` (or `_`; always `_` for
    `.shared::cluster`, an mbarrier of another CTA); mbar, the mbarrier; count, from 1, needs sm_90 (on sm_80
    with `.noComplete`, when it may not end the phase); bytes, for `.expect_tx`, which first raises the
    expected bytes and then arrives once; cta, with `.multicast::cluster::32b`, a bit mask of the CTAs to
    arrive in.
    """

    name = "ptx.mbarrier.arrive"
    section = "9.7.15.16.16"
    result_name = "state"
    differs = "thread"
    forms = _arrive("mbarrier.arrive", sink="7.1")


@instruction
class MbarrierArriveDrop(_OnMbarrier):
    """Arrive at an mbarrier and take no part in later phases: their arrival count is lower by count, too.

    Operands as for `mbarrier.arrive`: d, the state of the phase before or `_`; mbar, the mbarrier; count,
    bytes, cta.
    """

    name = "ptx.mbarrier.arrive_drop"
    section = "9.7.15.16.17"
    differs = "thread"
    forms = _arrive("mbarrier.arrive_drop", sink="7.0")


@instruction
class MbarrierTestWait(_OnMbarrier):
    """Ask, without waiting, whether a phase of an mbarrier is complete.

    Operands: p, true if it is; mbar, the mbarrier, in the own CTA; state, what `arrive` gave in that phase,
    or with `.parity` phase, 0 for even and 1 for odd phases. With `.phase_type::primary` (PTX 9.3) also q,
    whether a report was seen, and report, its .b8 value, both without meaning while p is false;
    `.phase_type::conditional` goes with `.parity`.
    """

    name = "ptx.mbarrier.test_wait"
    section = "9.7.15.16.19"
    polls = True
    forms = _wait("mbarrier.test_wait", ptx="7.0", parity="7.1", sm="80+", hint="")


@instruction
class MbarrierTryWait(_OnMbarrier):
    """Wait a while for a phase of an mbarrier: the thread may sleep until it is complete or a time limit
    passes.

    Operands: p, true if the phase is complete (if false, try again); mbar, state or phase, q and report as
    for `mbarrier.test_wait`; hint, the time limit in nanoseconds in place of the system's. Needs sm_90.
    """

    name = "ptx.mbarrier.try_wait"
    section = "9.7.15.16.19"
    polls = True
    forms = _wait("mbarrier.try_wait", ptx="7.8", parity="7.8", sm="90+", hint="{, hint:u32}")


@instruction
class MbarrierPendingCount(Instruction):
    """The number of arrivals that were pending before an arrival: d = pending(state).

    Operands: d, 32 bits; state, what an `mbarrier.arrive` or `arrive_drop` with `.noComplete` gave; another
    state means nothing.
    """

    name = "ptx.mbarrier.pending_count"
    section = "9.7.15.16.20"
    generic_places = "shared"
    takes_references = False
    unit = "barrier"
    forms = (
        form("mbarrier.pending_count{.layout::v0}.b64 d:u32, state:u64", ptx="7.0", sm="80+",
             needs={"layout::v0": need("9.3", "90+")}),
    )  # fmt: skip


@instruction
class MbarrierCheckLayout(Instruction):
    """Ask whether the mbarrier at mbar was made with the format in the instruction: p is true if so."""

    name = "ptx.mbarrier.check_layout"
    section = "9.7.15.16.21"
    effect = "read"
    unit = "barrier"
    forms = (
        form("mbarrier.check_layout.format{.scope}{.space}.b64 p:pred, [mbar]",
             format="layout::v0 layout::v1", scope="cta cluster gpu sys", space=OWN, ptx="9.3", sm="90+"),
    )  # fmt: skip
