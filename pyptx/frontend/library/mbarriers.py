"""`ptx.mbarrier`: barriers in shared memory that count arrivals and bytes (PTX ISA 9.7.15.16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ...diagnostics import counted
from ...dialects.ptx.target import target_in
from ...types import b64, u32
from ..core.instructions import AddressOperand, emit, move
from ..core.registers import Guard, NegPred, Reg, predicate, temporary
from ..core.trace import Trace, current
from ..memory.shared import address_register, bracketed
from .control import bra

__all__ = ["MbarrierRing", "MbarrierSlot", "Scope", "check_scope", "mbarrier"]

Scope = Literal["cta", "cluster"]
"""Of a wait: whose arrivals and copies it is to order before what follows."""


class Mbarrier:
    """`ptx.mbarrier`. An mbarrier is given as `smem.mbarrier(n)[i]` (i an int or a register), as a register with its
    shared address, or as `ptx.addr(...)`.

    It counts arrivals and bytes of a phase; when both are complete the next phase begins. The phase's number modulo 2
    is its parity: wait for 0 first, then 1, 0, ... (`phased` and `ptx.pipeline` keep count).

        bar = smem.mbarrier(1)[0]
        with ptx.if_(first):
            ptx.mbarrier.init(bar, 1)  # one arrival: that of arrive_expect_tx
            ptx.fence.mbarrier_init()
        ptx.bar.sync(0)
        with ptx.if_(first):
            ptx.mbarrier.arrive_expect_tx(bar, 512)
            ptx.cp.async_.bulk.load(tile, ptx.addr(x), 512, bar)
        ptx.mbarrier.wait(bar, 0)
    """

    @staticmethod
    def init(mbar: Any, count: Any, *, pred: Guard = None) -> None:
        """`mbarrier.init.shared::cta.b64`: a phase ends after `count` arrivals. One thread does it; a fence and a
        barrier follow.
        """
        emit("mbarrier.init.shared::cta.b64", bracketed(mbar), count, pred=pred)

    @staticmethod
    def inval(mbar: Any, *, pred: Guard = None) -> None:
        """`mbarrier.inval.shared.b64`: the memory may be used for something else."""
        emit("mbarrier.inval.shared.b64", bracketed(mbar), pred=pred)

    @staticmethod
    def arrive(mbar: Any, *, pred: Guard = None) -> Reg:
        """`mbarrier.arrive.shared.b64`: arrive once. Returns the state (b64) for `mbarrier.test_wait`."""
        state = temporary(current(), b64)
        emit("mbarrier.arrive.shared.b64", state, bracketed(mbar), pred=pred)
        return state

    @staticmethod
    def arrive_expect_tx(mbar: Any, bytes: Any, *, pred: Guard = None) -> Reg:
        """`mbarrier.arrive.expect_tx.shared::cta.b64`: arrive once and expect `bytes` more from async copies.
        Returns the state.
        """
        state = temporary(current(), b64)
        emit("mbarrier.arrive.expect_tx.shared::cta.b64", state, bracketed(mbar), bytes, pred=pred)
        return state

    @staticmethod
    def expect_tx(mbar: Any, bytes: Any, *, pred: Guard = None) -> None:
        """`mbarrier.expect_tx.relaxed.cta.shared.b64`: expect `bytes` more, without arriving."""
        emit("mbarrier.expect_tx.relaxed.cta.shared.b64", bracketed(mbar), bytes, pred=pred)

    @staticmethod
    def try_wait(mbar: Any, phase: Any, *, parity: bool = True, scope: Scope = "cta", pred: Guard = None) -> Reg:
        """`mbarrier.try_wait{.parity}.shared.b64`: whether the phase is complete, after waiting a while. Returns a
        predicate.

        `phase` is the parity (0 or 1) of the phase, or with `parity=False` the state that an arrival returned. scope: as for `wait`.
        """
        trace = current()
        done = predicate(trace)
        emit(_wait(trace, "try_wait", parity, scope), done, bracketed(mbar), phase, pred=pred)
        return done

    @staticmethod
    def wait(mbar: Any, phase: Any, *, scope: Scope = "cta", pred: Guard = None) -> None:
        """Wait until the phase of this parity is complete: a loop around `mbarrier.try_wait.parity` (`test_wait` before sm_90). Threads
        where `pred` does not hold do not wait.

        scope: "cluster" where other CTAs, or copies that they start, complete the phase: `.acquire.cluster`, which orders what they did.
        """
        trace = current()
        check_scope(trace, scope)
        instruction = _wait(trace, "try_wait" if target_in(trace.target, "90+") else "test_wait", True, scope)
        number = trace.count("label")
        again = f"$_mbar_wait_{number}"
        address = bracketed(mbar)  # computed once, before the loop
        if pred is not None:
            bra(f"$_mbar_done_{number}", pred=~pred)
        trace.label(again)
        done = predicate(trace)
        emit(instruction, done, address, phase)
        bra(again, pred=NegPred(done))
        if pred is not None:
            trace.label(f"$_mbar_done_{number}")

    @staticmethod
    def array(base: Any, byte_offset: int, count: int) -> MbarrierRing:
        """`count` mbarriers in memory of your own: at `base` (a u32 register, such as `smem.base()`) +
        `byte_offset`.
        """
        return MbarrierRing(base, byte_offset, count)

    @staticmethod
    def phased(mbar: Any, parity: int = 0) -> PhasedMbarrier:
        """An mbarrier that remembers which phase to wait for: `bar.wait()`. `parity` is that of the first wait."""
        return PhasedMbarrier(bracketed(mbar), parity)


mbarrier = Mbarrier()


def check_scope(trace: Trace, scope: object) -> None:
    """PTXError unless it is a scope of waits."""
    if scope not in ("cta", "cluster"):
        raise trace.error(f'the scope of a wait is "cta" or "cluster", not {scope!r}')


def _wait(trace: Trace, what: str, parity: bool, scope: Scope) -> str:
    check_scope(trace, scope)
    word = f"mbarrier.{what}{'.parity' if parity else ''}"
    return f"{word}.shared.b64" if scope == "cta" else f"{word}.acquire.cluster.shared::cta.b64"


class PhasedMbarrier:
    """An mbarrier and the parity of the phase that this thread waits for next, a u32 register.

    Each `wait()` is for the next phase. As an operand it stands for the mbarrier.
    """

    def __init__(self, address: AddressOperand, parity: int):
        if parity not in (0, 1):
            raise current().error(f"the parity of a phase is 0 or 1, not {parity!r}")
        self._address = address
        self.parity = temporary(current(), u32)
        move(self.parity, parity)

    def __ptx_address__(self) -> AddressOperand:
        return self._address

    def init(self, count: Any, *, pred: Guard = None) -> None:
        """As `ptx.mbarrier.init`."""
        mbarrier.init(self._address, count, pred=pred)

    def arrive(self, *, pred: Guard = None) -> Reg:
        """As `ptx.mbarrier.arrive`."""
        return mbarrier.arrive(self._address, pred=pred)

    def arrive_expect_tx(self, bytes: Any, *, pred: Guard = None) -> Reg:
        """As `ptx.mbarrier.arrive_expect_tx`."""
        return mbarrier.arrive_expect_tx(self._address, bytes, pred=pred)

    def wait(self, *, scope: Scope = "cta", pred: Guard = None) -> None:
        """Wait until the phase is complete; the next wait is for the one after it. Threads where `pred` does not hold
        neither wait nor go on to the next phase.
        """
        mbarrier.wait(self._address, self.parity, scope=scope, pred=pred)
        emit("xor.b32", self.parity, self.parity, 1, pred=pred)


class MbarrierSlot:
    """One mbarrier of a ring."""

    def __init__(self, base: Reg, byte_offset: int):
        self.base, self.byte_offset = base, byte_offset

    @property
    def address(self) -> AddressOperand:
        return AddressOperand(self.base, self.byte_offset or None)

    def __ptx_address__(self) -> AddressOperand:
        return self.address

    def address_operand(self) -> AddressOperand:
        """Its address in brackets, `[base+offset]`."""
        return self.address

    def addr_reg(self) -> Reg:
        """Its shared address in a u32 register."""
        return address_register(self.address)

    def init(self, count: Any, *, pred: Guard = None) -> None:
        """As `ptx.mbarrier.init`."""
        mbarrier.init(self.address, count, pred=pred)

    def wait(self, phase: Any, *, scope: Scope = "cta", pred: Guard = None) -> None:
        """As `ptx.mbarrier.wait`."""
        mbarrier.wait(self.address, phase, scope=scope, pred=pred)

    def arrive(self, *, pred: Guard = None) -> Reg:
        """As `ptx.mbarrier.arrive`."""
        return mbarrier.arrive(self.address, pred=pred)

    def arrive_expect_tx(self, bytes: Any, *, pred: Guard = None) -> Reg:
        """As `ptx.mbarrier.arrive_expect_tx`."""
        return mbarrier.arrive_expect_tx(self.address, bytes, pred=pred)

    def arrive_remote(self, cta: Any, count: int = 1, *, pred: Guard = None) -> None:
        """Arrive at the mbarrier at the same offset in another CTA of the cluster."""
        cluster_arrive_remote(self.address, cta, count, pred=pred)


class MbarrierRing:
    """Mbarriers one after the other: `ring[i]`, or `ring.at(register)`."""

    def __init__(self, base: Any, byte_offset: int, count: int):
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"the number of mbarriers is a positive int, not {count!r}")
        self.base: Reg = base if isinstance(base, Reg) else address_register(base)
        self.byte_offset, self.count = byte_offset, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> MbarrierSlot:
        if not isinstance(index, int):
            raise TypeError("a ring is indexed with an int; ring.at(register) takes a register")
        if not 0 <= index < self.count:
            raise IndexError(f"the ring has {counted(self.count, 'mbarrier')}, and [{index}] is not one of them")
        return MbarrierSlot(self.base, self.byte_offset + 8 * index)

    def __iter__(self) -> Iterator[MbarrierSlot]:
        return (self[i] for i in range(self.count))

    def at(self, stage: Any) -> MbarrierSlot:
        """The mbarrier of a stage that is known at run time."""
        if isinstance(stage, int):
            return self[stage]
        address = temporary(current(), u32)
        emit("mad.lo.u32", address, stage, 8, self.base)
        return MbarrierSlot(address, self.byte_offset)

    def init_all(self, count: Any, *, pred: Guard = None) -> None:
        """Initialise every mbarrier with the same count."""
        for slot in self:
            slot.init(count, pred=pred)

    def arrive_remote_all(self, cta: Any, count: int = 1, *, pred: Guard = None) -> None:
        """Arrive at every mbarrier of the ring in another CTA of the cluster."""
        for slot in self:
            slot.arrive_remote(cta, count, pred=pred)


def cluster_arrive_remote(address: Any, cta: Any, count: int = 1, *, pred: Guard = None) -> None:
    """`mapa` and `mbarrier.arrive.release.cluster.shared::cluster.b64` in a `{ }` block of their own."""
    trace = current()
    local = address_register(address)
    trace.open_scope()
    remote = Reg("remAddr32", u32, trace.declare("b32", "remAddr32"))
    emit("mapa.shared::cluster.u32", remote, local, cta, pred=pred)
    emit("mbarrier.arrive.release.cluster.shared::cluster.b64", "_", AddressOperand(remote), count, pred=pred)
    trace.close_scope()
