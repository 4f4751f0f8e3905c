"""The machine: a batch of CTAs that run together, and those who watch it: the sanitizer, traces, profiles, timelines.

An `Observer` overrides what it wants to know. A machine without observers calls none of this: accesses and
instructions are bound without a wrapper, and the engine asks once per barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...numerics.tensor_cores.sums import Factors, Sum
from .arithmetic import Arithmetic
from .global_memory import GlobalMemory
from .memory import Access
from .payload import Payload
from .pending import Copy, Pending
from .program import Inst, Program
from .shared_names import SharedNames
from .storage import POISON as POISON
from .storage import Storage
from .tensor_memory import TensorMemory
from .threads import Launch as Launch

Array = Any
Action = Callable[[Array], object]


@dataclass(frozen=True, slots=True)
class Printed:
    """What one call of printf printed: its text, the place of the call in the source, the thread."""

    text: str
    filename: str | None
    line: int | None
    thread: str
    """Such as `thread (3, 0, 0) of CTA (0, 0, 0)`."""


class OperandRead(NamedTuple):
    """16-byte chunks that a tensor core reads."""

    lane: int
    """The thread that issued the instruction, or the first of the warpgroup."""
    cta: int
    addresses: Array
    """In the shared memory of the CTA."""


class Machine(Storage):
    """Registers, shared and local memory of `ctas` CTAs that are live at once, and what is pending."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        memory: GlobalMemory,
        parameters: np.ndarray,
        ctas: int,
        seed: int = 0,
        observers: Sequence[Observer] = (),
        arithmetic: Arithmetic | None = None,
    ):
        super().__init__(program, launch, memory, ctas)
        self.parameters = parameters
        self.seed = seed
        self.shared_names = SharedNames(program, launch.dynamic_shared)
        self.arithmetic = arithmetic or Arithmetic(target=program.target)
        self.scratch: dict[Callable[..., Array], Callable[..., Array]] = {}
        """Functions that have buffers, made for the lanes of this machine."""
        self.meanings: dict[Inst, Any] = {}
        """What instructions do, as `binding.meaning_of` found it."""
        self.accesses: dict[Inst, Access] = {}
        """The memory operand of each bound instruction; of several, or several bindings, the last."""
        self.prints: list[Printed] = []
        self.payloads: dict[int, Payload] = {}
        """The mbarriers of the batch with `.layout::v1`, by their 8-byte word in the flat shared memory."""
        self.tmem: TensorMemory | None = None
        self.pending = Pending(self.lanes, seed, self._issued, self._completed)
        self.observers = list(observers)
        for observer in self.observers:
            observer.attach(self)

    def start(self, first_cta: int, count: int) -> None:
        """Make the machine run CTAs `first_cta` to `first_cta + count - 1` (in x, y, z order of the grid)."""
        self.first_cta, self.next_cta = first_cta, first_cta + count
        live = (self.thread_of_lane < self.launch.threads) & (self.cta_of_lane < count)
        self.live = live
        self.set_alive(live)
        self.clear()
        self.pending.reset()
        self.payloads.clear()
        if self.tmem is not None:
            self.tmem.reset()

    # ---------------------------------------------------------------------------------------------------- observers

    def observed(self, inst: Inst, action: Action) -> Action:
        """An instruction's action as the observers watch it, if there are any."""
        for observer in self.observers:
            action = observer.bound(inst, action)
        return action

    def add_access(self, access: Access) -> None:
        self.accesses[access.inst] = access
        for observer in self.observers:
            observer.access(access)

    def hears(self, event: str) -> bool:
        """Whether an observer does something when an event happens."""
        nothing = getattr(Observer, event)
        return any(getattr(getattr(o, event), "__func__", None) is not nothing for o in self.observers)

    def _issued(self, copy: Copy) -> None:
        for observer in self.observers:
            observer.copy_issued(copy)

    def _completed(self, copy: Copy) -> None:
        for observer in self.observers:
            observer.copy_completed(copy)


class Observer:
    """Does nothing. Masks and arrays that are handed over belong to the machine and must not be changed."""

    def attach(self, machine: Machine) -> None:
        """The machine exists; no instruction is bound yet."""

    def started(self, engine: Any) -> None:
        """A batch of CTAs begins, run by an `engine.Engine`."""

    def finished(self, engine: Any) -> None:
        """All threads of a batch have exited."""

    def bound(self, inst: Inst, action: Action) -> Action:
        """`action(mask)` executes the instruction in the lanes of the mask (None: all): the same, watched."""
        return action

    def access(self, access: Access) -> None:
        """A memory operand was bound: its `load`, `store` and `locate` may be replaced."""

    def ended(self, inst: Inst, mask: np.ndarray) -> None:
        """Lanes are at a branch, call, return, exit or waiting instruction; its guard is not looked at yet."""

    def exited(self, mask: np.ndarray) -> None:
        """Threads ended."""

    def barrier_arrived(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        """Threads arrived at a CTA barrier and go on (bar.arrive)."""

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        """Threads came to a CTA barrier and wait."""

    def barrier_released(self, number: int, mask: np.ndarray) -> None:
        """Threads that waited at a CTA barrier go on."""

    def cluster_arrived(self, inst: Inst, mask: np.ndarray) -> None:
        """barrier.cluster.arrive."""

    def cluster_completed(self, mask: np.ndarray) -> None:
        """All threads of the clusters in the mask have arrived."""

    def cluster_released(self, mask: np.ndarray) -> None:
        """barrier.cluster.wait lets threads go on."""

    def mbarrier_updated(self, inst: Inst, lanes: Array, slots: Array, ended: set[int], later: Array) -> None:
        """Threads arrived at, or changed the transaction count of, the mbarriers at `slots` (8-byte words of
        all shared memory). The phases of those in `ended` are complete; `later`: which lanes came after the end of a phase
        that others of them completed.
        """

    def mbarrier_initialised(self, inst: Inst, lanes: Array, slots: Array) -> None:
        """mbarrier.init wrote these words."""

    def mbarrier_waited(self, inst: Inst, lanes: Array, slots: Array, done: Array) -> None:
        """test_wait or try_wait looked; `done`: whether the phase was complete."""

    def filled(self, inst: Inst, lane: int, start: int, size: int) -> None:
        """st.bulk of a thread is about to write zeros from a byte of all shared memory on."""

    def copy_issued(self, copy: Copy) -> None:
        """An asynchronous copy was issued (`pending.Copy`)."""

    def operands_read(self, inst: Inst, reads: Sequence[OperandRead], *, of_a: bool) -> None:
        """Tensor cores read operands in shared memory."""

    def tensor_accessed(
        self, inst: Inst, lane: int, cta: int, rows: Array, columns: Array, *, reads: bool, writes: bool
    ) -> None:
        """Words of a CTA's tensor memory are about to be read or written; `rows` and `columns` broadcast. `lane` is the
        thread that issued the instruction, or the first of its warp.
        """

    def collected(self, inst: Inst, lane: int, cta: int, buffer: str, use: str, matrix: Array) -> None:
        """tcgen05.mma with this matrix as A or B says `fill`, `use`, `lastuse` or `discard` of a collector buffer (`a`, `b`,
        `b0` to `b3`) of a CTA, or of the pair whose first CTA it is.
        """

    def multiplied(self, inst: Inst, operations: int) -> None:
        """tcgen05.mma, whose shape is in a register, does so many operations (a multiplication and an addition: two)."""

    def summed(
        self, inst: Inst, lane: int, how: Sum, a: Array, b: Array, c: Array, factors: Factors, result: Array
    ) -> None:
        """A matrix instruction of floating-point numbers computed C + A B: (..., M, K) and (..., K, N) are numbers, `factors` the
        scale factors of A and B, `c` and `result` (..., M, N) bits of D's type. `how` says what the instruction multiplies and
        how the hardware sums it; the launch may have asked for another sum.
        """

    def tensor_allocated(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        """tcgen05.alloc gave these columns to a CTA."""

    def tensor_freed(self, inst: Inst, lane: int, cta: int, first: int, columns: int) -> None:
        """tcgen05.dealloc takes these columns back."""

    def tensor_map_edited(self, inst: Inst, lane: int, kind: str, start: int) -> None:
        """An instruction writes the 128 bytes of a tensor map; `kind` and `start` as in `pending.Copy.writes`."""

    def tensor_map_used(self, inst: Inst, lane: int, address: int) -> None:
        """A copy reads the tensor map at a generic address."""

    def groups_waited(self, inst: Inst, mechanism: str, lanes: Array, newest: Array) -> None:
        """Threads waited for their copies in groups before `newest`; `mechanism` as in `pending.Copy`."""

    def copy_completed(self, copy: Copy) -> None:
        """An asynchronous copy is about to write its data and to tell its mbarriers."""
