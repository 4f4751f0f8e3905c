"""Asynchronous copies between issue and completion, and the order in which threads run.

Without a seed a copy is complete as soon as it is issued, which is one of the orders PTX allows (9.7.10.28).
With a seed other than 0, a random generator that the seed determines decides when each copy completes: at
some later step, at the latest when a wait needs it or when nothing else can run. It also chooses which warps
run next. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .memory import Access
from .program import Inst

Array = Any
AT_ONCE, SOME_TIME, AT_LAST = "at once", "some time", "at last"
"""When asynchronous operations complete."""


@dataclass(slots=True, eq=False)
class Copy:
    """One asynchronous operation. `lanes` issued it; `reads` and `writes` are (space, first byte, size) in
    the flat shared memory of the batch ("shared") or as an address ("global").

    `mechanism`: `group` (cp.async), `bulk_group` or `mbarrier`; `barrier`: the 8-byte words of the
    mbarriers it tells.
    """

    inst: Inst
    lanes: np.ndarray
    mechanism: str
    complete: Callable[[], None]
    reads: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    writes: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])
    barriers: list[int] = field(default_factory=list[int])
    source: tuple[Access, np.ndarray] | None = None
    """cp.async: the operand that is read, and the lanes that read."""
    target: Access | None = None
    group: Array = None
    """Per lane (cp.async) or as one number: which of the issuer's groups it belongs to."""
    read_rows: tuple[Array, int] | None = None
    """Addresses and length in bytes of the rows of a tensor in global memory that it reads."""
    written_rows: tuple[Array, int] | None = None
    done: bool = False
    fetches: bool = False
    """Of a fabric operation: whether it reads memory reached through the fabric."""
    time: int = 0
    """When it was issued, in the sanitizer's time."""

    @property
    def tensor_bytes(self) -> int:
        """Bytes of a tensor in global memory that it touches."""
        return sum(rows[0].size * rows[1] for rows in (self.read_rows, self.written_rows) if rows is not None)


class Pending:
    """The copies of a machine that are not complete, and the groups that threads have committed."""

    def __init__(self, lanes: int, seed: int, issued: Callable[[Copy], None], completed: Callable[[Copy], None]):
        """`issued` and `completed` are called when a copy is issued, and when it is about to complete."""
        self.lanes = lanes
        self._issued, self._completed = issued, completed
        self.random = random.Random(seed) if seed else None
        self.chance = 0.1
        """Of a completion at a step."""
        self.copies: list[Copy] = []
        self.groups = np.zeros(lanes, np.int64)
        """cp.async groups each lane has committed."""
        self.bulk_groups = np.zeros(lanes, np.int64)
        self.held: list[Copy] = []
        """Fabric operations that their threads have not submitted."""
        self.submitted: list[Copy] = []
        """Fabric operations that may not be complete."""

    def follow(self, completion: str, chooses: random.Random) -> None:
        """Complete operations as a schedule says."""
        self.random = None if completion == AT_ONCE else chooses
        self.chance = 0.1 if completion == SOME_TIME else 0.0

    def polled(self) -> None:
        """A thread looked in vain: what it polls for happens in the end. Where operations complete at last, the scheduler says
        when that is.
        """
        if self.copies and self.chance:
            self.force_one()

    def reset(self) -> None:
        """A new batch begins."""
        self.copies.clear()
        self.held.clear()
        self.submitted.clear()
        self.groups[...] = 0
        self.bulk_groups[...] = 0

    def issue(self, copy: Copy) -> None:
        """Take a copy: it completes now, or later if there is a seed."""
        copy.group = self.groups[copy.lanes] if copy.mechanism == "group" else int(self.bulk_groups[copy.lanes[0]])
        self._issued(copy)
        if self.random is None:
            self._complete(copy)
        else:
            self.copies.append(copy)

    def _complete(self, copy: Copy) -> None:
        copy.done = True
        self._completed(copy)
        copy.complete()

    def step(self) -> None:
        """Perhaps complete something."""
        if self.copies and self.random is not None and self.random.random() < self.chance:
            self.force_one()

    def force_one(self) -> bool:
        """Complete one copy, whichever; False if there is none."""
        if not self.copies:
            return False
        assert self.random is not None
        self._complete(self.copies.pop(self.random.randrange(len(self.copies))))
        return True

    def force_all(self) -> None:
        while self.force_one():
            pass

    def wait(self, mechanism: str, lanes: Array, newest: Array) -> None:
        """Complete the copies of `lanes` in groups before `newest` (one number per lane)."""
        if not self.copies:
            return
        limit = np.full(self.lanes, -1)
        limit[lanes] = newest
        for copy in [c for c in self.copies if c.mechanism == mechanism]:
            if (limit[copy.lanes] > copy.group).any():
                self.copies.remove(copy)
                self._complete(copy)

    # -------------------------------------------------------------------------------------------- fabric operations

    def hold(self, copy: Copy, *, fetches: bool) -> None:
        """Take a fabric operation of one lane, which begins when that submits it."""
        copy.fetches = fetches
        self.held.append(copy)

    def submit(self, lanes: Array, *, fetching: bool) -> None:
        """Begin what these lanes hold; with `fetching` only what fetches."""
        if not self.held:
            return
        mine = set(lanes.tolist())
        begun = [c for c in self.held if int(c.lanes[0]) in mine and (c.fetches or not fetching)]
        self.held = [c for c in self.held if c not in begun]
        self.submitted = [c for c in self.submitted if not c.done] + begun
        for copy in begun:
            self.issue(copy)

    def finish_submitted(self, lanes: Array) -> None:
        """Complete the fabric operations that these lanes have submitted."""
        mine = set(lanes.tolist())
        for copy in [c for c in self.submitted if not c.done and int(c.lanes[0]) in mine]:
            self.copies.remove(copy)
            self._complete(copy)
