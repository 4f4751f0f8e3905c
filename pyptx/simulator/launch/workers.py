"""A launch in pieces: CTAs that do not communicate run in several processes.

A piece is whole batches of CTAs, as one process would run them. A worker has a copy of the launch and of its memory; it
returns the bytes that its piece changed, and what those who watched it saw. Pieces must not touch what another one wrote: where they
do, or where anything else is unusual (a fault, a worker that died), the pieces are dropped or run here, so that results and findings
are those of one process.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from ...numerics import quiet
from ..machine.machine import Printed
from ..machine.program import Inst, Program
from ..machine.texture import Surface
from ..observers.numerics import Numerics
from ..observers.profile import Profile
from ..sanitizer import Sanitizer
from ..sanitizer.finding import Findings
from .explore import TIME, Communication, work
from .options import Workers
from .setup import Setup, run_range

Array = Any
LEAST_LANES = 1024
"""Threads of a piece: what is smaller costs more than it saves."""
PIECES_EACH = 2
"""Pieces for each worker, for those that take longer than others."""
MOST_PIECES = 32
"""For an executor, which does not say how many workers it has."""
_PRINTS = frozenset({"vprintf", "printf"})
"""Functions of the device runtime that pieces can call; what others do, CTAs share."""


@dataclass(slots=True)
class Change:
    """The bytes that differ in one allocation, in [first, first + 8 * mask.size)."""

    first: int
    mask: np.ndarray
    """One bit for each byte."""
    values: np.ndarray

    @property
    def places(self) -> Array:
        return self.first + np.flatnonzero(np.unpackbits(self.mask))


@dataclass(slots=True)
class Piece:
    """What some CTAs of a launch did."""

    counts: list[int]
    """Executions of each segment."""
    work: int
    prints: list[Printed]
    changes: dict[int, Change]
    """By the number of the allocation."""
    wrote: np.ndarray | None = None
    """Granules of global memory that were written, one bit each; None without `check`."""
    touched: np.ndarray | None = None
    """Those that were written or read."""
    findings: Findings = field(default_factory=Findings)
    in_step: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict[tuple[int, int], tuple[int, int]])
    """`Findings.in_step` by the numbers of instructions."""
    profile: Profile | None = None
    numerics: Numerics | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """What watches each piece."""

    check: bool = False
    profile: bool = False
    numerics: bool = False


def why_together(setup: Setup, communicates: Communication, random: bool, others: bool) -> str:
    """Why the CTAs of a launch run in one process; empty if they need not."""
    program = setup.program
    updates = next((i for i in program.instructions if _updates(i)), None)
    shared = [f.name for f in program.functions if f.builtin and f.name not in _PRINTS]
    reasons = {
        "the launch is cooperative": setup.launch.cooperative,
        "its CTAs learn of each other through global memory": communicates.grid,
        f"its CTAs may update the same memory: {'' if updates is None else updates.text}": updates is not None,
        f"{', '.join(shared)}: the CTAs share what it does": bool(shared),
        "the order of threads or of sums is random": random,
        "an observer or a trace watches it": others,
        "it has endpoints of a fabric": bool(setup.memory.endpoints),
        "it reads a clock or the number of its SM": any(word in i.text for i in program.instructions for word in TIME),
        "it has surfaces": any(isinstance(o, Surface) for o in setup.memory.handles.objects.values()),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _updates(inst: Inst) -> bool:
    """Whether it adds to global memory, or the like: what pieces wrote could not be told from what they add."""
    return inst.family.access == "atomic" and not any("shared" in m for m in inst.modifiers)


def pieces_of(setup: Setup, workers: Workers) -> tuple[int, list[tuple[int, int]]]:
    """CTAs of a batch, and the pieces: (first CTA, CTAs)."""
    grid, cluster = sum(count for _, count in setup.ranges), setup.launch.cluster_size
    lanes = grid * ((setup.launch.threads + 31) // 32 * 32)
    wanted = min(workers if isinstance(workers, int) else MOST_PIECES, max(1, lanes // LEAST_LANES))
    batches = -(-grid // setup.batch)
    if batches < wanted:  # smaller batches, of whole clusters
        batch = -(-grid // wanted // cluster) * cluster
        each = batch
    else:
        batch = setup.batch
        more = PIECES_EACH * wanted if isinstance(workers, int) else wanted
        each = batch * -(-batches // min(batches, more))
    return batch, [
        (at, min(each, first + count - at)) for first, count in setup.ranges for at in range(first, first + count, each)
    ]


def run_pieces(setup: Setup, watch: Watch, workers: Workers) -> list[Piece] | None:
    """Run a launch by workers and put what it wrote into memory. None where it must run in one process, with memory as it was:
    one piece, a fault, or CTAs that touch what others wrote.
    """
    batch, pieces = pieces_of(setup, workers)
    if len(pieces) < 2:
        return None
    try:
        program, rest = packed(setup, batch)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        _tell(f"this launch cannot go to other processes ({error})")
        return None
    with _mapper(workers) as run:
        try:
            found = run([(program, rest, watch, first, count) for first, count in pieces])
        except SimulationError:
            return None  # one process says what was done until then
    changed = None if _touch(found) else _merged(setup, found)
    if changed is None:
        return None
    for number, data in changed.items():
        setup.memory.allocations[number].data[...] = data
    return found


def packed(setup: Setup, batch: int) -> tuple[bytes, bytes]:
    """The program, and the rest of a launch."""
    rest = {name: getattr(setup, name) for name in Setup.__dataclass_fields__ if name != "program"}
    return setup.program.once(_packed_program), pickle.dumps({**rest, "batch": batch}, 5)


def _packed_program(program: Program) -> bytes:
    return pickle.dumps(program.unknowing(), 5)


@lru_cache(maxsize=8)
def _unpacked(program: bytes) -> Program:
    return pickle.loads(program)


def run_piece(program: bytes, rest: bytes, watch: Watch, first: int, count: int) -> Piece:
    """In a worker: run CTAs of a launch."""
    setup = Setup(program=_unpacked(program), **pickle.loads(rest))
    sanitizer = Sanitizer() if watch.check else None
    profile = Profile() if watch.profile else None
    numerics = Numerics() if watch.numerics else None
    watching = [o for o in (profile, numerics, sanitizer) if o is not None]
    before = [(n, a, a.data.copy()) for n, a in enumerate(setup.memory.allocations) if not a.read_only]
    with quiet():
        engine = setup.make_engine(count, watching)
        machine = engine.machine
        for _ in run_range(engine, first, count):
            pass
    changes = {n: c for n, a, data in before if (c := _change(data, a.data)) is not None}
    piece = Piece(engine.counts(), work(machine.clock, sanitizer), machine.prints, changes)
    if profile is not None:
        piece.profile = Profile(profile.lines)
    if numerics is not None:
        piece.numerics = Numerics(numerics.lines, numerics.arch)
    if sanitizer is not None:
        sanitizer.settle()
        piece.wrote, piece.touched = map(np.packbits, sanitizer.touched)
        piece.in_step = {k: (a.number, b.number) for k, (a, b) in sanitizer.in_step.items()}
        piece.findings = sanitizer.found
        piece.findings.in_step = {}
    return piece


def _change(before: Array, after: Array) -> Change | None:
    differ = before != after
    where = np.flatnonzero(differ)
    if not where.size:
        return None
    first, last = int(where[0]), int(where[-1])
    return Change(first, np.packbits(differ[first : last + 1]), after[where])


def _touch(pieces: Sequence[Piece]) -> bool:
    """Whether one of the watched pieces touched what another one wrote."""
    wrote: Array = np.uint8(0)
    touched: Array = np.uint8(0)
    for piece in pieces:
        if piece.wrote is None or piece.touched is None:
            return False
        if np.count_nonzero(piece.wrote & touched) or np.count_nonzero(piece.touched & wrote):
            return True
        wrote, touched = wrote | piece.wrote, touched | piece.touched
    return False


def _merged(setup: Setup, pieces: Sequence[Piece]) -> dict[int, Array] | None:
    """The contents of the allocations that were changed, by number; None where two pieces changed a byte to different values."""
    found: dict[int, tuple[Array, Array]] = {}
    for piece in pieces:
        for number, change in piece.changes.items():
            if number not in found:
                data = setup.memory.allocations[number].data
                found[number] = data.copy(), np.zeros(data.size, np.bool_)
            data, known = found[number]
            places = change.places
            if np.count_nonzero(known[places] & (data[places] != change.values)):
                return None
            data[places], known[places] = change.values, True
    return {number: data for number, (data, _) in found.items()}


# --------------------------------------------------------------------------------------------------- processes

Task = tuple[bytes, bytes, Watch, int, int]
Run = Callable[[Sequence[Task]], "list[Piece]"]


@contextmanager
def _mapper(workers: Workers) -> Generator[Run]:
    """What runs tasks, in the order in which they are given."""
    if isinstance(workers, int):
        with _processes(workers) as executor:
            yield lambda tasks: _submitted(executor, tasks)
    elif isinstance(workers, str):
        yield _by_joblib
    else:
        yield lambda tasks: _submitted(workers, tasks)


@contextmanager
def _processes(count: int) -> Generator[Executor]:
    """So many processes: loky's, which stay for the next launch, or the standard library's."""
    try:
        from loky import get_reusable_executor
    except ModuleNotFoundError:
        with ProcessPoolExecutor(count) as executor:
            yield executor
        return
    executor = get_reusable_executor(max_workers=count)
    try:
        yield executor
    except KeyboardInterrupt:
        executor.shutdown(wait=False, kill_workers=True)  # what runs would hold up the next launch
        raise


def _by_joblib(tasks: Sequence[Task]) -> list[Piece]:
    from joblib import Parallel, delayed

    found: Any = Parallel()(delayed(run_piece)(*task) for task in tasks)
    return list(found)


def _submitted(executor: Executor, tasks: Sequence[Task]) -> list[Piece]:
    futures: list[Future[Piece] | None] = []
    for task in tasks:
        try:
            futures.append(executor.submit(run_piece, *task))
        except Exception as error:  # it is broken or shut down, or cannot send the task
            _tell(f"the executor takes no work ({_words(error)}), and CTAs run here")
            futures.append(None)
    try:
        return [_result(future, task) for future, task in zip(futures, tasks, strict=True)]
    except BaseException:
        for future in futures:
            if future is not None:
                future.cancel()
        raise


def _result(future: Future[Piece] | None, task: Task) -> Piece:
    """The piece; one whose worker failed runs here."""
    if future is not None:
        try:
            return future.result()
        except SimulationError:
            raise
        except Exception as error:
            _tell(f"a worker failed ({_words(error)}), and its CTAs run here")
    return run_piece(*task)


def _words(error: Exception) -> str:
    """The kind of an error and the first sentence of what it says."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0].partition('. ')[0]}"


def _tell(what: str) -> None:
    warnings.warn(f"workers=: {what}; the results are the same", RuntimeWarning, stacklevel=2)
