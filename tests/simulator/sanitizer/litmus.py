"""Litmus programs and the memory model of PTX ISA chapter 8, computed from its definitions.

A `Program` is a list of threads, each a list of `Op`s. `run` simulates it with the sanitizer and logs which operation
ran when; `races` replays such a log, computes program order, observation order, synchronizes, base causality order and
causality order as sets of pairs, and decides which pairs are data races. Nothing of the simulator is used for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import numpy as np

from pyptx.simulator import load
from pyptx.simulator.machine.machine import Action, Observer
from pyptx.simulator.machine.program import Inst
from pyptx.simulator.sanitizer import Finding

SCOPES = ("cta", "cluster", "gpu", "sys")
GRID, CLUSTER, BLOCK = 4, 2, 64


@dataclass(frozen=True)
class Op:
    """One operation. `kind`: ld, st, atom, red, fence, bar, and `if`, which ends the thread unless it last read `value`
    (None: anything but 0).
    """

    kind: str
    sem: str = "weak"
    scope: str = "gpu"
    at: int = 0
    size: int = 4
    value: int | None = 0

    @property
    def reads(self) -> bool:
        return self.kind in ("ld", "atom", "red")

    @property
    def writes(self) -> bool:
        return self.kind in ("st", "atom", "red")

    @property
    def strong(self) -> bool:
        return self.kind in ("atom", "red", "fence") or self.sem != "weak"

    @property
    def reach(self) -> str:
        return "sys" if self.sem == "volatile" else self.scope

    @property
    def acquires(self) -> bool:
        return self.sem in ("acquire", "acq_rel") or (self.kind == "fence" and self.sem == "sc")

    @property
    def releases(self) -> bool:
        return self.sem in ("release", "acq_rel") or (self.kind == "fence" and self.sem == "sc")

    def text(self, space: str, register: str = "%v") -> str:
        """`register`: what the thread read last."""
        sem = "" if self.sem == "weak" else "." + self.sem
        scope = "" if self.sem in ("weak", "volatile") else "." + self.scope
        place = f"[%base+{self.at}]"
        bits = 8 * self.size
        value = f"{register}w" if bits == 64 else register
        low = f" cvt.u32.u64 {register}, {register}w;" if bits == 64 else ""
        match self.kind:
            case "ld":
                return f"ld{sem}{scope}.{space}.u{bits} {value}, {place};" + ("" if bits == 32 else low)
            case "st":
                return f"st{sem}{scope}.{space}.u{bits} {place}, {self.value};"
            case "atom" | "red":
                result = f"{value}, " if self.kind == "atom" else ""
                return (
                    f"{self.kind}{sem}{scope}.{space}.add.u{bits} {result}{place}, {self.value};{low if result else ''}"
                )
            case "fence":
                return f"fence{sem}{scope};"
            case "bar":
                return "barrier.sync 0;"
            case _:
                test = "eq" if self.value is None else "ne"
                return f"setp.{test}.u32 %p, {register}, {self.value or 0}; @%p bra $end;"


@dataclass(frozen=True)
class Thread:
    cta: int
    tid: int
    ops: tuple[Op, ...]


Program = tuple[Thread, ...]


def text_of(program: Program, space: str = "global") -> tuple[str, dict[int, tuple[int, int]]]:
    """PTX, and line -> (thread, operation)."""
    lines = f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 g)
{{
.reg .pred %p, %never; .reg .b32 %t, %c, %v; .reg .b64 %base, %vw;
.shared .align 16 .b8 words[256];
ld.param.u64 %base, [g]; cvta.to.global.u64 %base, %base;
mov.u32 %t, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, {BLOCK}, %t; setp.eq.u32 %never, %t, 9999;
{"" if space == "global" else "mov.u64 %base, words;"}""".split("\n")
    for i, thread in enumerate(program):
        lines.append(f"setp.eq.u32 %p, %t, {thread.cta * BLOCK + thread.tid}; @%p bra $thread{i};")
    lines.append("bra $end;")
    places: dict[int, tuple[int, int]] = {}
    for i, thread in enumerate(program):
        lines.append(f"$thread{i}:")
        register = "%v"
        for k, op in enumerate(thread.ops):
            if op.reads and op.kind != "red":
                register = f"%v{i}_{k}"
                lines.append(f".reg .b32 {register}; .reg .b64 {register}w;")
            lines.append(op.text(space, register))
            places[len(lines)] = i, k
            lines.append("@%never bra $end;")  # other threads may run between
        lines.append("bra $end;")
    return "\n".join([*lines, "$end:", "ret;", "}", ""]), places


class Log(Observer):
    """The order in which lines run; each is one thread's. Threads that meet at a barrier are kept together."""

    def __init__(self, places: dict[int, tuple[int, int]]):
        self.places = places
        self.events: list[tuple[int, int]] = []

    def attach(self, machine: Any) -> None:
        self.machine = machine

    def bound(self, inst: Inst, action: Action) -> Action:
        place = self.places.get(inst.line or 0)
        if place is None or inst.opcode in ("cvt", "setp"):
            return action

        def logged(mask: Any) -> object:
            if self.machine.active(inst, mask).any():
                self.events.append(place)
            return action(mask)

        return logged

    def barrier_waits(self, inst: Inst, number: int, mask: Any) -> None:
        place = self.places.get(inst.line or 0)
        if place is not None:
            self.events.append(place)


def run(program: Program, seed: int = 0, space: str = "global") -> tuple[list[tuple[int, int]], list[Finding]]:
    """(operations in the order in which they ran, findings about races)."""
    source, places = text_of(program, space)
    log = Log(places)
    report = load(source)["k"].simulate(
        np.zeros(32, np.uint64), grid=GRID, block=BLOCK, cluster=CLUSTER, seed=seed, schedules=1, observers=(log,)
    )
    races = [f for f in report.findings if isinstance(f, Finding) and f.rule == "race"]
    return log.events, races


# ------------------------------------------------------------------------------------------------- the memory model


@dataclass(frozen=True)
class Event:
    number: int
    thread: int
    index: int
    op: Op


def includes(scope: str, a: Thread, b: Thread) -> bool:
    """Whether the scope of an operation of thread a includes thread b (8.5)."""
    if scope == "cta":
        return a.cta == b.cta
    return scope != "cluster" or a.cta // CLUSTER == b.cta // CLUSTER


def closure(pairs: set[tuple[int, int]], count: int) -> np.ndarray:
    matrix = np.zeros((count, count), np.bool_)
    for a, b in pairs:
        matrix[a, b] = True
    for k in range(count):
        matrix |= matrix[:, k : k + 1] & matrix[k : k + 1]
    return matrix


class Execution:
    """One execution of a program: its operations in an order in which each read returns the last write."""

    def __init__(self, program: Program, order: list[tuple[int, int]]):
        self.program = program
        self.events = [Event(n, t, k, program[t].ops[k]) for n, (t, k) in enumerate(order)]
        count = len(self.events)
        self.program_order = {
            (a.number, b.number)
            for a, b in product(self.events, repeat=2)
            if a.thread == b.thread and a.index < b.index
        }
        self.reads_from = self._replay()
        # 8.9.2: only atomics continue the order
        self.observation = self._observation_order()
        self.base = closure(self.program_order | self._synchronizes(), count)
        reads = np.array([self._decides(e) for e in self.events])
        seen = (self.observation & reads).astype(int)
        self.causality = self.base | (seen @ self.base.astype(int) > 0)

    def _decides(self, e: Event) -> bool:
        """Whether the thread goes on because of what it read. If not, another execution has the same operations without
        the observation. `red` is not a read operation (Table 20).
        """
        later = self.program[e.thread].ops[e.index + 1 :]
        tests = [k for k, op in enumerate(later) if op.kind == "if"]
        reads = [k for k, op in enumerate(later) if op.kind in ("ld", "atom")]
        return e.op.kind in ("ld", "atom") and bool(tests) and (not reads or tests[0] < reads[0])

    def overlap(self, a: Op, b: Op) -> bool:
        return a.at < b.at + b.size and b.at < a.at + a.size

    def morally_strong(self, a: Event, b: Event) -> bool:
        """8.7. All operations are of the generic proxy."""
        s, t = self.program[a.thread], self.program[b.thread]
        related = a.thread == b.thread or (
            a.op.strong and b.op.strong and includes(a.op.reach, s, t) and includes(b.op.reach, t, s)
        )
        memory = a.op.kind not in ("fence", "bar") and b.op.kind not in ("fence", "bar")
        return related and (not memory or (a.op.at, a.op.size) == (b.op.at, b.op.size))

    def _replay(self) -> set[tuple[int, int]]:
        last: dict[int, Event] = {}
        pairs: set[tuple[int, int]] = set()
        for e in self.events:
            span = range(e.op.at, e.op.at + e.op.size)
            if e.op.reads:
                pairs |= {(last[byte].number, e.number) for byte in span if byte in last}
            if e.op.writes:
                last.update(dict.fromkeys(span, e))
        return pairs

    def _observed(self) -> set[tuple[int, int]]:
        return {(w, r) for w, r in self.reads_from if self.morally_strong(self.events[w], self.events[r])}

    def _observation_order(self) -> np.ndarray:
        count = len(self.events)
        direct = np.zeros((count, count), np.bool_)
        for w, r in self._observed():
            direct[w, r] = True
        order = direct.copy()
        for z in self.events:  # in the order of execution, so that chains are complete
            if z.op.kind in ("atom", "red"):
                order |= order[:, z.number : z.number + 1] & direct[z.number : z.number + 1]
        return order

    def _patterns(self, release: bool) -> list[tuple[Event, Event]]:
        """8.8: (first operation, write) of release patterns, (last operation, read) of acquire patterns."""
        found: list[tuple[Event, Event]] = []
        for e in self.events:
            if not (e.op.releases if release else e.op.acquires):
                continue
            memory = e.op.kind != "fence"
            touches = e.op.writes if release else e.op.kind in ("ld", "atom")
            if memory and touches:
                found.append((e, e))
            for other in self.events:
                near = (e.number, other.number) if release else (other.number, e.number)
                if near not in self.program_order or not other.op.strong:
                    continue
                if not (other.op.writes if release else other.op.kind in ("ld", "atom")):
                    continue
                if memory and not (touches and (other.op.at, other.op.size) == (e.op.at, e.op.size)):
                    continue
                found.append((e, other))
        return found

    def _synchronizes(self) -> set[tuple[int, int]]:
        """8.9.4."""
        pairs: set[tuple[int, int]] = set()
        fences = [e for e in self.events if e.op.kind == "fence" and e.op.sem == "sc"]
        for a, b in product(fences, repeat=2):
            if a.number < b.number and self.morally_strong(a, b) and self._fixed(a, b):
                pairs.add((a.number, b.number))
        for first, write in self._patterns(True):
            for last, read in self._patterns(False):
                if self.observation[write.number, read.number] and self.morally_strong(first, last):
                    pairs.add((first.number, last.number))
        rounds: dict[tuple[int, int], list[Event]] = {}
        seen: dict[int, int] = {}
        for e in self.events:
            if e.op.kind == "bar":
                seen[e.thread] = seen.get(e.thread, 0) + 1
                rounds.setdefault((self.program[e.thread].cta, seen[e.thread]), []).append(e)
        for met in rounds.values():
            pairs |= {(a.number, b.number) for a, b in product(met, repeat=2) if a is not b}
        return pairs

    def _fixed(self, a: Event, b: Event) -> bool:
        """Whether communication fixes the Fence-SC order of two fences (8.9.3, 8.10): a strong access after one meets one
        before the other. Otherwise another execution has them the other way round.
        """
        after = [e for e in self.events if (a.number, e.number) in self.program_order and e.op.kind != "bar"]
        before = [e for e in self.events if (e.number, b.number) in self.program_order and e.op.kind != "bar"]
        return any(
            x.number < y.number
            and x.op.strong and y.op.strong and x.op.kind != "fence" and y.op.kind != "fence"
            and (x.op.writes or y.op.writes)
            and (x.op.at, x.op.size) == (y.op.at, y.op.size)
            for x, y in product(after, before)
        )  # fmt: skip

    def races(self) -> list[tuple[Event, Event]]:
        """8.7.1."""
        found: list[tuple[Event, Event]] = []
        accesses = [e for e in self.events if e.op.reads or e.op.writes]
        for a, b in product(accesses, repeat=2):
            if a.number >= b.number or a.thread == b.thread or not (a.op.writes or b.op.writes):
                continue
            if not self.overlap(a.op, b.op) or self.morally_strong(a, b):
                continue
            if not (self.causality[a.number, b.number] or self.causality[b.number, a.number]):
                found.append((a, b))
        return found


# ------------------------------------------------------------------------------------------------------- generator

PLACES = ((0, 0), (0, 1), (0, 32), (1, 0), (2, 0), (3, 32))
"""(CTA, thread): one warp, another warp, another CTA of the cluster, another cluster."""
DATA, FLAG = 0, 64


def draw(random: Random, threads: int | None = None, sizes: bool = True) -> Program:
    """A random program of 2 to 4 threads around one word of data and one or two flags."""
    shape = random.random()
    if shape < 0.45:
        return draw_message(random)
    if shape < 0.65:
        return draw_counter(random)
    count = threads or random.choice((2, 2, 3, 3, 4))
    made: list[Thread] = []
    values = iter(range(1, 1000))
    for cta, tid in random.sample(PLACES, count):
        ops: list[Op] = []
        for _ in range(random.randint(1, 5)):
            ops.extend(_draw_ops(random, values, sizes))
        made.append(Thread(cta, tid, tuple(ops[:7])))
    if random.random() < 0.2:
        made = [_with_barrier(random, thread) for thread in made]
    return tuple(made)


def draw_message(random: Random) -> Program:
    """Data that one thread hands to the next through a flag, by a pattern that may be right, or nearly so."""
    count = random.choice((2, 2, 3))
    wide = random.random() < 0.7

    def scope() -> str:
        return "gpu" if wide and random.random() < 0.9 else random.choice(SCOPES)

    values = iter(range(1, 1000))
    made: list[Thread] = []
    for i, (cta, tid) in enumerate(random.sample(PLACES, count)):
        ops: list[Op] = []
        place = FLAG + 8 * (i if random.random() < 0.5 else 1)
        if i:
            before = FLAG + 8 * (i - 1) if made and made[-1].ops[-1].at == FLAG + 8 * (i - 1) else made[-1].ops[-1].at
            ops += _acquire(random, before, scope, values)
        ops.append(Op(random.choice(("ld", "st", "st")) if i else "st", at=DATA, value=next(values)))
        if i < count - 1:
            ops += _release(random, place, scope, values)
        elif random.random() < 0.3:
            ops.append(Op("st", at=before, value=next(values)))  # resets the flag
        made.append(Thread(cta, tid, tuple(ops)))
    return tuple(made)


def _release(random: Random, at: int, scope: Any, values: Iterator[int]) -> list[Op]:
    write = random.choice(("st", "st", "atom", "red"))
    match random.randint(0, 4):
        case 0 | 1:
            return [Op(write, "release", scope(), at, value=next(values))]
        case 2:
            fence = random.choice(("acq_rel", "sc", "release", "acquire"))
            return [Op("fence", fence, scope()), Op(write, "relaxed", scope(), at, value=next(values))]
        case 3:
            return [
                Op(write, "release", scope(), at, value=next(values)),
                Op(random.choice(("st", "red")), "relaxed", scope(), at, value=next(values)),
            ]
        case _:
            return [Op("fence", "acq_rel", scope()), Op("st", "volatile", at=at, value=next(values))]


def _acquire(random: Random, at: int, scope: Any, values: Iterator[int]) -> list[Op]:
    read = random.choice(("ld", "ld", "atom"))
    test = Op("if", value=None)
    match random.randint(0, 4):
        case 0 | 1:
            return [Op(read, "acquire", scope(), at, value=next(values)), test]
        case 2:
            fence = random.choice(("acq_rel", "sc", "acquire", "release"))
            read = random.choice((read, read, "red"))
            ops = [Op(read, "relaxed", scope(), at, value=next(values)), test, Op("fence", fence, scope())]
            return ops if read != "red" else [ops[0], ops[2]]
        case 3:
            return [Op(read, "relaxed", scope(), at, value=next(values)), test, Op("ld", "acquire", scope(), at)]
        case _:
            return [Op("ld", "volatile", at=at), test, Op("fence", "acq_rel", scope())]


def draw_counter(random: Random) -> Program:
    """Threads that count themselves with an atomic; the last one touches what the others have written, or the counter."""
    count = random.choice((2, 3, 4))
    fenced, scope = random.random() < 0.6, random.choice(("gpu", "gpu", "gpu", "cluster", "cta"))
    strong = random.random() < 0.3
    made: list[Thread] = []
    for i, (cta, tid) in enumerate(random.sample(PLACES, count)):
        ops: list[Op] = []
        if random.random() < 0.7:
            ops.append(Op("st", at=DATA + 4 * (i if random.random() < 0.9 else 0), value=i + 1))
        if fenced and random.random() < 0.95:
            ops.append(Op("fence", "acq_rel", scope))
        ops.append(
            Op("atom", "acq_rel" if strong else "relaxed", scope if random.random() < 0.95 else "cta", FLAG, value=1)
        )
        ops.append(Op("if", value=count - 1))
        if fenced and random.random() < 0.8:
            ops.append(Op("fence", "acq_rel", scope))
        for _ in range(random.randint(1, 2)):
            at = random.choice((FLAG, FLAG, DATA, DATA + 4))
            ops.append(Op(random.choice(("st", "ld")), at=at, value=100 + i))
        made.append(Thread(cta, tid, tuple(ops)))
    return tuple(made)


def _with_barrier(random: Random, thread: Thread) -> Thread:
    ops = [op for op in thread.ops if op.kind != "if"]
    ops.insert(random.randint(0, len(ops)), Op("bar"))
    return replace(thread, ops=tuple(ops))


def _draw_ops(random: Random, values: Iterator[int], sizes: bool) -> list[Op]:
    scope = random.choice(("cta", "cluster", "gpu", "gpu", "gpu", "sys"))
    flag = random.choice((FLAG, FLAG, FLAG, FLAG + 8))
    size = 8 if sizes and random.random() < 0.08 else 4
    value = next(values)
    match random.randint(0, 9):
        case 0 | 1:
            return [Op(random.choice(("ld", "st")), at=DATA, value=value)]
        case 2:
            sem = random.choice(("relaxed", "release", "volatile"))
            return [Op("st", sem, scope, random.choice((flag, flag, DATA)), size, value)]
        case 3 | 4:
            sem = random.choice(("relaxed", "acquire", "acquire", "volatile"))
            found = [Op("ld", sem, scope, random.choice((flag, flag, flag, DATA)), size)]
            return found + ([Op("if", value=None)] if random.random() < 0.5 else [])
        case 5:
            sem = random.choice(("relaxed", "acquire", "release", "acq_rel"))
            found = [Op("atom", sem, scope, random.choice((flag, flag, flag, DATA)), size, value)]
            return found + ([Op("if", value=None)] if random.random() < 0.4 else [])
        case 6:
            return [
                Op("red", random.choice(("relaxed", "release")), scope, random.choice((flag, flag, DATA)), size, value)
            ]
        case 7 | 8:
            return [Op("fence", random.choice(("acq_rel", "acq_rel", "sc", "release", "acquire")), scope)]
        case _:
            return [Op(random.choice(("ld", "st")), at=flag, size=size, value=value)]


def describe(program: Program, space: str = "global") -> str:
    return "\n".join(f"CTA {t.cta} thread {t.tid}: " + " ".join(op.text(space) for op in t.ops) for t in program)
