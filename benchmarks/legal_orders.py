"""Right kernels whose results depend on the order of threads: tickets, locks, queues, elections, flags, polls, litmus programs.

None of their conflicting accesses is a data race (PTX ISA 8.7.1), so that the sanitizer has nothing to say about them, whatever
order finds another result. Programs are drawn from idioms, with their space, scopes, sizes, places of threads and numbers.

    python -m benchmarks.legal_orders [--count N] [--seed N] [--schedules N] [--show]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import pyptx
from pyptx.diagnostics import SimulationError
from pyptx.simulator import load

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
    .reg .b32 %t, %cta, %lane, %id, %n, %v, %w, %x, %y, %z; .reg .b64 %mine, %out, %words, %q; .reg .pred %p, %first, %go;
    .reg .f32 %f; .shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;
    ld.param.u64 %out, [a]; ld.param.u64 %words, [b]; cvta.to.global.u64 %out, %out; cvta.to.global.u64 %words, %words;
    mov.u32 %t, %tid.x; mov.u32 %cta, %ctaid.x; mov.u32 %lane, %laneid; mov.u32 %n, %ntid.x; mad.lo.u32 %id, %cta, %n, %t;
    mul.wide.u32 %mine, %id, 4; add.s64 %mine, %mine, %out; setp.eq.u32 %first, %t, 0; mov.u32 %v, 0;
"""


@dataclass(frozen=True)
class Setting:
    """Where the threads and words of a program are."""

    random: Random
    space: str
    grid: int
    block: int
    sem: str
    scope: str

    @property
    def base(self) -> str:
        return "%q" if self.space == "shared" else "%words"

    @property
    def strong(self) -> str:
        """Modifiers of a strong load or store."""
        return "volatile" if self.sem == "volatile" else f"relaxed.{self.scope}"

    def place(self) -> str:
        """A thread's number over the grid, or over the CTA for words in shared memory."""
        return "%t" if self.space == "shared" else "%id"

    def ld(self, to: str, word: str, how: str = "") -> str:
        return f"ld.{how or self.strong}.{self.space}.u32 {to}, [{self.base}+{word}];"

    def st(self, word: str, value: str, how: str = "") -> str:
        return f"st.{how or self.strong}.{self.space}.u32 [{self.base}+{word}], {value};"

    def atom(self, to: str, op: str, word: str, values: str, sem: str = "relaxed") -> str:
        return f"atom.{sem}.{self.scope}.{self.space}.{op} {to}, [{self.base}+{word}], {values};"

    def threads(self, *bodies: str) -> str:
        """Each body by a thread of its own, somewhere."""
        count = self.block * (1 if self.space == "shared" else self.grid)
        near = self.random.random() < 0.3
        found = self.random.sample(range(min(count, 32) if near else count), len(bodies))
        heads = [f"    setp.eq.u32 %p, {self.place()}, {n}; @%p bra $t{i};" for i, n in enumerate(found)]
        return "\n".join([*heads, "    bra $end;", *(f"$t{i}:\n    {b} bra $end;" for i, b in enumerate(bodies))])

    def fence(self) -> str:
        return self.random.choice(["", f"fence.sc.{self.scope};", f"fence.acq_rel.{self.scope};", "membar.gl;"])


def few(s: Setting) -> str:
    """Only some threads go on: each waits for the others."""
    return f"    setp.ge.u32 %p, {s.place()}, {s.random.randint(2, 20)}; @%p bra $end;\n"


STORE = "st.global.u32 [%mine], %v;"


def tickets(s: Setting) -> str:
    return f"    {s.atom('%v', 'add.u32', '0', '1')} {STORE}"


def store_buffer(s: Setting) -> str:
    fence = s.fence()
    return s.threads(*(f"{s.st(a, '1')} {fence} {s.ld('%v', b)} {STORE}" for a, b in (("0", "4"), ("4", "0"))))


def load_buffer(s: Setting) -> str:
    return s.threads(*(f"{s.ld('%v', a)} {s.fence()} {s.st(b, '1')} {STORE}" for a, b in (("0", "4"), ("4", "0"))))


def message(s: Setting) -> str:
    """Data is read if its flag is seen."""
    reader = f"{s.ld('%v', '0', f'acquire.{s.scope}')} setp.ne.u32 %p, %v, 0; @%p ld.{s.space}.u32 %v, [{s.base}+64]; {STORE}"
    return s.threads(f"st.{s.space}.u32 [{s.base}+64], 7; {s.st('0', '1', f'release.{s.scope}')}", reader)


def coherence(s: Setting) -> str:
    reads = " ".join(f"{s.ld(r, '0')}" for r in ("%v", "%w")) + f" mad.lo.u32 %v, %v, 16, %w; {STORE}"
    writes = " ".join(s.st("0", str(n)) for n in range(1, s.random.randint(3, 5)))
    return s.threads(writes, reads, *([reads] if s.random.random() < 0.5 else []))


def independent(s: Setting) -> str:
    """IRIW."""
    readers = (
        f"{s.ld('%v', a)} {s.fence()} {s.ld('%w', b)} mad.lo.u32 %v, %v, 2, %w; {STORE}" for a, b in ("04", "40")
    )
    return s.threads(s.st("0", "1"), s.st("4", "1"), *readers)


def many_writers(s: Setting) -> str:
    return f"    {s.st('0', '%id')} {s.ld('%v', '0')} setp.eq.u32 %p, %v, %id; @%p {s.st('4', '%id')} @%p st.global.u32 [%mine], 1;"


def maximum(s: Setting) -> str:
    op = s.random.choice(["max", "min", "add", "or"])
    return f"    red.relaxed.{s.scope}.{s.space}.{op}.{'b32' if op == 'or' else 'u32'} [{s.base}], %id; {s.ld('%v', '0')} {STORE}"


def counted_polls(s: Setting) -> str:
    """How often a thread looked."""
    wait = f"$poll: add.u32 %v, %v, 1; {s.ld('%w', '0', f'acquire.{s.scope}')} setp.eq.u32 %p, %w, 0; @%p bra $poll; {STORE}"
    return s.threads(s.st("0", "1", f"release.{s.scope}"), wait)


def counted_arrivals(s: Setting) -> str:
    """All count, one thread waits for a few of them and tells how many there were."""
    least = s.random.randint(1, s.block)
    tell = f"$poll: {s.ld('%v', '0', f'acquire.{s.scope}')} setp.lt.u32 %p, %v, {least}; @%p bra $poll; {STORE}"
    return f"    red.release.{s.scope}.{s.space}.add.u32 [{s.base}], 1;\n" + s.threads(tell)


def spin_lock(s: Setting) -> str:
    """x = 3 x + id, by one thread after the other."""
    cas, exch = s.atom("%x", "cas.b32", "0", "0, 1", "acquire"), s.atom("%x", "exch.b32", "0", "0", "release")
    if s.random.random() < 0.5:
        exch = s.st("0", "0", f"release.{s.scope}")
    return f"""{few(s)}$lock: {cas} setp.ne.u32 %p, %x, 0; @%p bra $lock;
    ld.{s.space}.u32 %v, [{s.base}+64]; mad.lo.u32 %v, %v, 3, %id; st.{s.space}.u32 [{s.base}+64], %v; {exch} {STORE}"""


def work_queue(s: Setting) -> str:
    count = s.random.randint(1, 200)
    return f"""$next: {s.atom("%x", "add.u32", "0", "1")} setp.ge.u32 %p, %x, {count}; @%p bra $end;
    add.u32 %v, %v, %x; {STORE} bra $next;"""


def election(s: Setting) -> str:
    what = s.random.choice([("cas.b32", "0, 1"), ("exch.b32", "1"), ("inc.u32", "9999")])
    return f"    {s.atom('%x', what[0], '0', what[1])} setp.eq.u32 %p, %x, 0; @%p st.global.u32 [%mine], %id;"


def elected(s: Setting) -> str:
    return f"    elect.sync %x|%p, 0xffffffff; @%p {s.atom('%v', 'add.u32', '0', '1')} @%p {STORE}"


def last_block(s: Setting) -> str:
    """Whoever comes last sums what all stored."""
    load = s.random.choice(["ld.volatile.global.u32", "ld.relaxed.gpu.global.u32", "ld.global.u32"])
    return f"""    st.global.u32 [%mine], %id; membar.gl; bar.sync 0;
    @!%first bra $end;
    atom.{s.random.choice(["", "acq_rel.gpu."])}global.add.u32 %x, [%words], 1; setp.ne.u32 %p, %x, {s.grid - 1}; @%p bra $end;
    membar.gl; mov.u32 %y, 0; mov.u32 %x, 0; mov.u64 %q, %out;
$sum: {load} %z, [%q]; add.u32 %y, %y, %z; add.s64 %q, %q, 4; add.u32 %x, %x, 1; setp.lt.u32 %p, %x, {s.grid * s.block}; @%p bra $sum;
    st.global.u32 [%words+8], %y; st.global.u32 [%words+12], %cta;"""


def chain(s: Setting) -> str:
    """Each thread waits for the one before it."""
    count = s.random.randint(2, 4)
    parts = [f"{s.st('0', '5', f'release.{s.scope}')}"]
    for i in range(1, count):
        load = s.ld("%v", str(4 * (i - 1)), f"acquire.{s.scope}")
        parts.append(f"$w{i}: {load} setp.eq.u32 %p, %v, 0; @%p bra $w{i}; add.u32 %v, %v, 1; "
                     f"{s.st(str(4 * i), '%v', f'release.{s.scope}')} {STORE}")  # fmt: skip
    return s.threads(*parts)


def polled_mbarrier(s: Setting) -> str:
    """How often try_wait or test_wait was in vain; or whether the phase was over when a thread looked."""
    word = s.random.choice(["try_wait", "test_wait"])
    poll = f"mbarrier.{word}.parity.shared.b64 %p, [bar], 0;"
    look = (
        f"$poll: add.u32 %v, %v, 1; {poll} @!%p bra $poll;"
        if s.random.random() < 0.5
        else f"{poll} selp.u32 %v, 1, 0, %p;"
    )
    return f"""    @%first mbarrier.init.shared.b64 [bar], {s.block}; bar.sync 0;
    mbarrier.arrive.shared.b64 _, [bar]; {look} {STORE} bar.sync 0;"""


def active(s: Setting) -> str:
    """Which lanes run together, and atomics by one of them."""
    n = s.random.randint(1, 31)
    return f"""    setp.lt.u32 %p, %lane, {n}; @%p bra $low;
    add.u32 %v, %v, 1;
$low: activemask.b32 %x; popc.b32 %v, %x; brev.b32 %y, %x; bfind.shiftamt.u32 %y, %y; setp.eq.u32 %p, %y, %lane;
    @%p red.relaxed.{s.scope}.{s.space}.add.u32 [{s.base}], %v; {STORE}"""


def float_sum(s: Setting) -> str:
    return f"""    cvt.rn.f32.u32 %f, %id; mul.f32 %f, %f, 0f3DCCCCCD; red.relaxed.{s.scope}.{s.space}.add.f32 [{s.base}], %f;"""


def clocks(s: Setting) -> str:
    return f"    mov.u32 %v, {s.random.choice(['%clock', '%smid', '%globaltimer_lo'])}; {STORE}"


def pruned(s: Setting) -> str:
    """A minimum that is looked at before it is updated, and how often that was done."""
    return f"""    mul.lo.u32 %x, %id, 2654435761; neg.s32 %y, 1; {s.ld("%w", "0")} not.b32 %w, %w; setp.ge.u32 %p, %x, %w; @%p bra $end;
    not.b32 %x, %x; {s.atom("%y", "max.u32", "0", "%x")} {s.atom("%v", "add.u32", "4", "1")} {STORE}"""


def stop_early(s: Setting) -> str:
    """A thread that finds what is sought tells the others, which stop when they see it."""
    found = s.random.randrange(s.block)
    return f"""    mov.u32 %x, 0;
$search: {s.ld("%w", "0")} setp.ne.u32 %p, %w, 0; @%p bra $stop;
    add.u32 %v, %v, 1; setp.eq.u32 %p, {s.place()}, {found}; @%p {s.st("0", "1")}
    add.u32 %x, %x, 1; setp.lt.u32 %p, %x, 5; @%p bra $search;
$stop: {STORE}"""


def stack(s: Setting) -> str:
    """A list that each thread puts its number at the head of."""
    return f"""{few(s)}    {s.ld("%v", "0")}
$push: mov.u32 %x, %v; add.u32 %y, %id, 1; {s.atom("%v", "cas.b32", "0", "%x, %y", "acq_rel")} setp.ne.u32 %p, %v, %x; @%p bra $push;
    {STORE}"""


def once(s: Setting) -> str:
    """What the first one makes, all use; who it was is written, too."""
    return f"""    {s.ld("%v", "0", f"acquire.{s.scope}")} setp.ne.u32 %p, %v, 0; @%p bra $use;
    {s.atom("%x", "cas.b32", "4", "0, 1", "relaxed")} setp.ne.u32 %p, %x, 0; @%p bra $wait;
    add.u32 %y, %id, 100; st.{s.space}.u32 [{s.base}+64], %y; {s.st("0", "1", f"release.{s.scope}")} bra $use;
$wait: {s.ld("%v", "0", f"acquire.{s.scope}")} setp.eq.u32 %p, %v, 0; @%p bra $wait;
$use: ld.{s.space}.u32 %v, [{s.base}+64]; {STORE}"""


def slots(s: Setting) -> str:
    """Values are handed over in slots that are taken by atomics; each has a flag."""
    return f"""    setp.ge.u32 %p, {s.place()}, 16; @%p bra $end;
    {s.atom("%x", "add.u32", "0", "1")} and.b32 %y, %x, 1; shr.u32 %x, %x, 1; mul.lo.u32 %x, %x, 8; setp.ne.u32 %p, %y, 0; cvt.u64.u32 %mine, %x; add.s64 %q, {s.base}, %mine;
    mul.wide.u32 %mine, %id, 4; add.s64 %mine, %mine, %out; @%p bra $take;
    st.{s.space}.u32 [%q+64], %id; st.release.{s.scope}.{s.space}.u32 [%q+68], 1; bra $end;
$take: ld.acquire.{s.scope}.{s.space}.u32 %w, [%q+68]; setp.eq.u32 %p, %w, 0; @%p bra $take;
    ld.{s.space}.u32 %v, [%q+64]; {STORE}"""


def exchange(s: Setting) -> str:
    """Warps tell each other what they have done so far."""
    return f"""    setp.ne.u32 %p, %lane, 0; @%p bra $end;
    red.relaxed.{s.scope}.{s.space}.add.u32 [{s.base}], %id; {s.fence()} {s.ld("%v", "0")} {STORE}"""


IDIOMS: tuple[Callable[[Setting], str], ...] = (
    tickets, store_buffer, load_buffer, message, coherence, independent, many_writers, maximum, counted_polls, counted_arrivals,
    spin_lock, work_queue, election, elected, last_block, chain, polled_mbarrier, active, float_sum, clocks, pruned, stop_early,
    stack, once, slots, exchange,
)  # fmt: skip


def draw(idiom: Callable[[Setting], str], random: Random) -> tuple[Setting, str]:
    """A program of an idiom."""
    space = random.choice(["global", "global", "shared"])
    grid = random.choice([1, 2, 4])
    narrow = space == "shared" or grid == 1
    scope = random.choice(["cta", "gpu", "sys"] if narrow else ["gpu", "sys"])
    s = Setting(
        random, space, grid, random.choice([32, 64, 128]), random.choice(["relaxed", "relaxed", "volatile"]), scope
    )
    begin = ""
    if space == "shared":
        begin = "    mul.wide.u32 %q, %t, 4; mov.u64 %mine, s; add.s64 %q, %q, %mine; st.shared.u32 [%q], 0; st.shared.u32 [%q+512], 0;\n"
        begin += "    mov.u64 %q, s; mul.wide.u32 %mine, %id, 4; add.s64 %mine, %mine, %out; bar.sync 0;\n"
    return s, f"{HEAD}{begin}{idiom(s)}\n$end:\n    ret;\n}}\n"


def simulate(s: Setting, text: str, **options: Any) -> Any:
    out, words = np.zeros(1024, np.uint32), np.zeros(256, np.uint32)
    report = load(text)["k"].simulate(out, words, grid=s.grid, block=s.block, max_steps=200_000, **options)
    return report, out, words


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.legal_orders")
    parser.add_argument("--count", type=int, default=200, help="programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schedules", type=int, help="orders of each program; as many as the default runs")
    parser.add_argument("--show", action="store_true", help="print the programs that something is said about")
    options = parser.parse_args()
    said: Counter[str] = Counter()
    differ = 0
    start = time.perf_counter()
    for n in range(options.count):
        random = Random(f"{options.seed} {n}")
        idiom = IDIOMS[n % len(IDIOMS)]
        s, text = draw(idiom, random)
        if errors := [d for d in pyptx.diagnose(text) if d.severity == "error"]:
            print(f"{idiom.__name__}: refused: {errors[0].message}")
            return 2
        try:
            report, *first = simulate(s, text, schedules=options.schedules)
            found = list(report.findings)
            other = simulate(s, text, schedule=1 + n % 8, check=False)[1:]
            differ += any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))
        except SimulationError as error:
            found = [*error.diagnostics]
        for f in found:
            said[f.severity] += 1
            rule = getattr(f, "rule", "fault")
            print(
                f"{f.severity:8} {rule:20} {idiom.__name__} {n}: {s.space} {s.strong} grid {s.grid} block {s.block}: {f.message[:200]}"
            )
        if found and options.show:
            print(text)
    print(f"{options.count} programs, {differ} with other results in another order: {said['error']} errors, {said['warning']} warnings; "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip
    return 1 if said["error"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
