"""mbarriers, tensor copies and matrix descriptors as objects, for the functions of a `Module` (PTX ISA 9.7.10.28, 9.7.15.16).

    full = mbarrier("smem", 1024)
    full.init(1)
    full.arrive_expect_tx(16384)
    tma.load(tile, tensor_map, [x, y], full)
    full.wait(phase)                      # the loop around mbarrier.try_wait

Each method is one instruction but `wait`, which is the loop of it, its label and its branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.instructions import AddressOperand, opcode
from ..core.registers import Guard, NegPred
from ..core.trace import current
from ..library.blocks import branch
from .values import Value, op

__all__ = ["MBARRIER_METHODS", "Mbarrier", "descriptor", "mbarrier", "swizzle_of", "tensor_load", "tensor_store", "tma"]

OWN_SPACE = "shared::cta"

MBARRIER_METHODS: dict[str, tuple[str, str]] = {
    "init": ("mbarrier.init.{space}.b64", "mv"),
    "inval": ("mbarrier.inval.{space}.b64", "m"),
    "expect_tx": ("mbarrier.expect_tx.relaxed.cta.{space}.b64", "mv"),
    "arrive_expect_tx": ("mbarrier.arrive.expect_tx.{space}.b64", "_mv"),
    "arrive": ("mbarrier.arrive.{space}.b64", "=m"),
}
"""The instruction of each method, and its operands: the mbarrier, a value, `_`, or the result (which `state=False` leaves
out).
"""


class Mbarrier:
    """The mbarrier at an address: a register or the name of a variable, and an offset in bytes. `space`: the state
    space as the instructions spell it.
    """

    def __init__(self, base: Any, offset: int | str | None = None, *, space: str = OWN_SPACE):
        self.address, self.space = AddressOperand(base, offset), space

    def __ptx_address__(self) -> AddressOperand:
        return self.address

    def _emit(self, method: str, *operands: Any, pred: Any) -> None:
        opcode(MBARRIER_METHODS[method][0].format(space=self.space))(*operands, pred=pred)

    def init(self, count: Any, *, pred: Guard = None) -> None:
        """A phase ends after `count` arrivals."""
        self._emit("init", self.address, count, pred=pred)

    def inval(self, *, pred: Guard = None) -> None:
        """The memory may be used for something else."""
        self._emit("inval", self.address, pred=pred)

    def expect_tx(self, bytes: Any, *, pred: Guard = None) -> None:
        """Expect `bytes` more from copies, without arriving."""
        self._emit("expect_tx", self.address, bytes, pred=pred)

    def arrive_expect_tx(self, bytes: Any, *, pred: Guard = None) -> None:
        """Arrive, and expect `bytes` more from copies; the state is not kept."""
        self._emit("arrive_expect_tx", None, self.address, bytes, pred=pred)

    def arrive(self, *, state: bool = True, pred: Guard = None) -> Value | None:
        """Arrive once. The state (b64) of the phase, for `wait(state, how="")`; with state=False it is not kept."""
        if not state:
            self._emit("arrive", None, self.address, pred=pred)
            return None
        found = op
        for name in MBARRIER_METHODS["arrive"][0].format(space=self.space.replace("::", "__")).split("."):
            found = getattr(found, name)
        return found(self.address, pred=pred)  # pyright: ignore[reportCallIssue]

    def wait(self, phase: Any, hint: Any = None, *, how: str = "parity", uni: bool = False, branches: int = 1) -> None:
        """Ask `mbarrier.try_wait` until the phase is complete.

        phase: its parity, or with `how=""` the state from `arrive`; hint: nanoseconds that one try may take; how: the
        modifiers of the instruction; uni: `bra.uni` goes back. branches=2: `@p bra` leaves the loop and `bra` goes
        back, as CUTLASS has it, instead of one `@!p bra`.
        """
        words = ["mbarrier", "try_wait", *([how] if how else []), self.space, "b64"]
        trace = current()
        start = trace.block_label("loop")
        trace.label(start)
        done = Value.fresh_predicate(trace)
        opcode(".".join(words))(done, self.address, phase, *([] if hint is None else [hint]))
        if branches != 2:
            branch(start, NegPred(done), uni=uni)
            return
        end = trace.block_label("end")
        branch(end, done)
        branch(start, uni=uni)
        trace.label(end)


mbarrier = Mbarrier


def tensor_load(rank: int, space: str, mode: str, multicast: bool, policy: bool) -> str:
    """The instruction of `tma.load`."""
    words = ["cp.async.bulk.tensor", f"{rank}d", space, "global", *([mode] if mode else [])]
    words += ["mbarrier::complete_tx::bytes", *(["multicast::cluster"] if multicast else [])]
    return ".".join([*words, *(["L2::cache_hint"] if policy else [])])


def tensor_store(rank: int, mode: str, policy: bool) -> str:
    """The instruction of `tma.store`."""
    words = ["cp.async.bulk.tensor", f"{rank}d", "global.shared::cta", *([mode] if mode else []), "bulk_group"]
    return ".".join([*words, *(["L2::cache_hint"] if policy else [])])


class _Tma:
    """Tensor copies. Addresses are registers, names of variables, or `addr(base, offset)`."""

    def load(
        self, dst: Any, tensor: Any, at: Sequence[Any], barrier: Any, multicast: Any = None, policy: Any = None, *,
        space: str = "shared::cluster", mode: str = "", pred: Guard = None,
    ) -> None:  # fmt: skip
        """Copy the box of a tensor map at these coordinates (fastest dimension first) to shared memory; the mbarrier
        counts its bytes. multicast: mask of the CTAs of the cluster that get it. PTX ISA 9.7.10.28.5.3.
        """
        more = [x for x in (multicast, policy) if x is not None]
        text = tensor_load(len(at), space, mode, multicast is not None, policy is not None)
        opcode(text)(_address(dst), _box(tensor, at), _address(barrier), *more, pred=pred)

    def store(
        self, tensor: Any, at: Sequence[Any], src: Any, policy: Any = None, *, mode: str = "", pred: Guard = None
    ) -> None:
        """Copy a box from shared memory to these coordinates of a tensor map, in the thread's bulk group."""
        more = [] if policy is None else [policy]
        text = tensor_store(len(at), mode, policy is not None)
        opcode(text)(_box(tensor, at), _address(src), *more, pred=pred)


tma = _Tma()


def _address(place: Any) -> Any:
    if isinstance(place, (AddressOperand, Mbarrier)):
        return place
    return AddressOperand(place)


def _box(tensor: Any, at: Sequence[Any]) -> AddressOperand:
    if isinstance(tensor, AddressOperand):
        return AddressOperand(tensor.base, tensor.offset, (list(at),))
    return AddressOperand(tensor, None, (list(at),))


_SWIZZLES = {"128B": 2, "64B": 4, "32B": 6, "128B_ATOM_32B": 1}


def descriptor(swizzle: str, stride: int, leading: int = 0, version: int = 0) -> int:
    """The constant bits of a matrix descriptor for `wgmma` (version 0) and `tcgen05` (1): all but the address.

    stride and leading: the byte offsets between groups of 8 rows and along the other dimension, multiples of 16.
    PTX ISA 9.7.17.5.1 and 9.7.18.4.1.
    """
    if swizzle not in _SWIZZLES:
        raise ValueError(f"a descriptor's swizzle is one of {', '.join(_SWIZZLES)}, not {swizzle!r}")
    for what, value in (("stride", stride), ("leading", leading)):
        if value % 16 or not 0 <= value < 1 << 18:
            raise ValueError(f"{what} is a multiple of 16 below 2**18, not {value}")
    return _SWIZZLES[swizzle] << 61 | version << 46 | stride >> 4 << 32 | leading >> 4 << 16


def swizzle_of(bits: int) -> str | None:
    """The swizzle in the bits of a descriptor; None where it has none."""
    return next((name for name, number in _SWIZZLES.items() if number == bits >> 61), None)
