"""Random modules of every area of the manual but instructions, and edits of them, judged by pyptx and by ptxas.

    python -m benchmarks.fuzz_directives [--modules 2000] [--seed 1] [--processes 2] [--area linking] [--show 30]

`module_areas` has a generator for each area. Half of the modules are edited once, at a token or a line. Prints the rates of false
accepts (of what ptxas rejects) and false rejects (of what it accepts) per area, and the shortest disagreements by kind; `EXPLAINED`
lists what stays, with its reason, and is counted apart.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyptx

from .explained import Disagreement, Explained
from .module_areas import AREAS, WHOLE
from .module_areas.draw import Draw, edited
from .module_judge import refusals

BATCH = 64
CHUNK = BATCH * 8
"""Modules that are drawn and judged together; their names differ."""
EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "register plus a constant",
        True,
        r"%?\w+ *[+]",
        r"^unexpected '\+' after an operand",
        "%r1+4 as a value means nothing: what is added is lost",
    ),
    Explained(
        "constant beyond 32 bits",
        True,
        r"\d{10,}|0x[0-9a-fA-F]{9,}|0\d{11,}",
        r"must be in \d",
        "ptxas cuts some constants to 32 or 16 bits before it checks their range",
    ),
    Explained(
        "more registers than memory",
        False,
        r"<\d{9,}>",
        r"Memory allocation failure",
        "how much there is depends on the machine",
    ),
    Explained("`.version 8.10`", True, r"\.version 8\.10", r"there is no PTX version 8\.10", "ptxas reads it as 8.1"),
    Explained(
        "a list that lists itself",
        True,
        r"(\w+): \.branchtargets [^;]*\b\1\b",
        r"^label \w+ is not defined",
        "it is not a label",
    ),
    Explained(
        "`.reg .b32 %q0, %q<2>;`",
        True,
        r"<\w+>",
        r"^[\w$%]+0 is declared twice in this scope: it is in ",
        "ptxas lets the first register of a range be declared before it",
    ),
    Explained(
        "unified memory", False, r"\.unified", r"--compile-only", "whether -c is given is not a matter of the text"
    ),
    Explained(
        "a type alone",
        True,
        r"\.\w+ *;",
        r"^unknown directive \.|needs a name|there is no directive \.[busf]\d|expected a module-level directive",
        "`.s32;` and `.reg .b32;` declare nothing",
    ),
    Explained(
        "parameters of a function without body",
        True,
        r"\.func|\.entry",
        r"a register cannot be an array|is for \.global variables|only a register can|^\.param \.b128 needs",
        "ptxas looks at them in definitions only",
    ),
    Explained(
        "arrays of references",
        False,
        r"ref \w+ ?\[",
        r"Arguments mismatch|Illegal operand",
        "ptxas forgets its rules there",
    ),
    Explained(
        "arrays of references",
        True,
        r"ref \w+ ?\[",
        r"cannot use \w+|is for \.global variables|needs \.target texmode",
        "ptxas forgets its rules there",
    ),
    Explained(
        "a function without body and semicolon",
        True,
        r"\.func|\.entry",
        r"commas between them|may not stand (here|in a \.\w+ (after|without))|ends inside a statement|there is no directive \.(func|entry)"
        r"|stands before \.entry or \.func",
        "ptxas reads on into the next",
    ),
    Explained(
        "WARP_SZ as a number of the header",
        True,
        r"WARP_SZ",
        r"\.align takes|\.loc takes|\.address_size needs|ends inside",
        "it is a constant of instructions",
    ),
    Explained(
        ".target in a body",
        True,
        r"\{[^}]*\.target",
        r"unknown directive \.target",
        "it stands at the head of a module",
    ),
)


@dataclass(frozen=True)
class Drawn:
    """A module: its area, text, version and target."""

    area: str
    text: str
    version: str
    target: str


def drawn(number: int, seed: int, areas: Sequence[str]) -> Drawn:
    """The module of that number."""
    area = areas[number % len(areas)]
    draw = Draw(f"{seed}/{number}", f"_{number % CHUNK}")
    body = AREAS[area](draw)
    text = body if area in WHOLE else draw.header() + body
    for _ in range(draw.random.choice((0, 0, 0, 0, 0, 0, 0, 1, 1, 2))):
        text = edited(draw, text)
    said = re.search(r"\.target\s+(sm_\w+)", text)
    target = said[1] if said is not None and re.fullmatch(r"sm_\d+[af]?", said[1]) else draw.target
    return Drawn(area, text, draw.version, target)


@dataclass
class Tally:
    """Of one area: how many modules ptxas accepts and rejects, and on how many we differ."""

    accepted: int = 0
    rejected: int = 0
    false_accepts: int = 0
    false_rejects: int = 0
    explained: int = 0

    def add(self, other: Tally) -> None:
        for key, value in vars(other).items():
            setattr(self, key, getattr(self, key) + value)


@dataclass
class Measured:
    """What a run found."""

    areas: dict[str, Tally] = field(default_factory=dict[str, Tally])
    found: list[Disagreement] = field(default_factory=list[Disagreement])

    @property
    def accepted(self) -> int:
        return sum(t.accepted for t in self.areas.values())

    def merge(self, other: Measured) -> None:
        for area, tally in other.areas.items():
            self.areas.setdefault(area, Tally()).add(tally)
        self.found += other.found


def ours(text: str) -> list[str]:
    try:
        return [d.message for d in pyptx.diagnose(text) if d.severity == "error"]
    except Exception as error:  # whatever it is, it is a fault of ours
        return [f"traceback: {error!r}"]


def measure(count: int, seed: int, areas: Sequence[str] = tuple(AREAS), processes: int = 1) -> Measured:
    """Draw, ask and compare `count` modules. Where we differ, ptxas is asked about the module alone."""
    chunks = [(start, min(start + CHUNK, count), seed, areas) for start in range(0, count, CHUNK)]
    result = Measured()
    if processes == 1:
        for chunk in chunks:
            result.merge(_chunk(chunk))
        return result
    began, done = time.monotonic(), 0
    with multiprocessing.Pool(processes, maxtasksperchild=8) as pool:
        for (start, stop, _, _), part in zip(chunks, pool.imap(_chunk, chunks), strict=True):
            result.merge(part)
            done += stop - start
            print(f"{done} modules, {done / (time.monotonic() - began):.0f} a second", file=sys.stderr, flush=True)
    return result


def _chunk(task: tuple[int, int, int, Sequence[str]]) -> Measured:
    """What the modules of these numbers give."""
    start, stop, seed, areas = task
    result = Measured()
    modules = [drawn(n, seed, areas) for n in range(start, stop)]
    theirs = refusals([(m.text, m.target) for m in modules], batch=BATCH)
    mine = [ours(m.text) for m in modules]
    differing = [i for i, m in enumerate(mine) if bool(m) != bool(theirs[i]) or (m and m[0].startswith("traceback"))]
    alone = refusals([(modules[i].text, modules[i].target) for i in differing], batch=1)
    for i, said in zip(differing, alone, strict=True):
        theirs[i] = said
    for module, refused, wrong in zip(modules, theirs, mine, strict=True):
        tally = result.areas.setdefault(module.area, Tally())
        tally.rejected += bool(refused)
        tally.accepted += not refused
        crashed = bool(wrong) and wrong[0].startswith("traceback")
        if bool(refused) == bool(wrong) and not crashed:
            continue
        one = Disagreement(
            module.text, module.version, module.target, not refused or crashed, wrong[0] if wrong else refused
        )
        result.found.append(one)
        if explanation(one) is not None:
            tally.explained += 1
        elif wrong:
            tally.false_rejects += 1
        else:
            tally.false_accepts += 1
    return result


def explanation(found: Disagreement) -> Explained | None:
    return next((e for e in EXPLAINED if e.matches(found)), None)


def rate(part: int, whole: int) -> str:
    return f"{part:5} {100 * part / max(whole, 1):7.3f} %"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--modules", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--processes", type=int, default=1)
    arguments.add_argument("--area", help="only these (comma separated)")
    arguments.add_argument("--show", type=int, default=30)
    options = arguments.parse_args()
    areas = options.area.split(",") if options.area else tuple(AREAS)
    measured = measure(options.modules, options.seed, areas, options.processes)
    groups: dict[str, list[Disagreement]] = defaultdict(list)
    explained: Counter[str] = Counter()
    for one in measured.found:
        reason = explanation(one)
        if reason is not None:
            explained[reason.kind] += 1
        else:
            what = "we reject" if one.accepted else "we accept"
            groups[re.sub(r"'[^']*'|\b\w+_\d+\b|%r\d|\d+", "..", f"{what}: {one.message}")].append(one)
    for kind, cases in sorted(groups.items(), key=lambda g: -len(g[1]))[: options.show]:
        shortest = min(cases, key=lambda d: len(d.text))
        print(f"{len(cases):5} {kind[:150]}")
        print("".join(f"        {line}\n" for line in shortest.text.split("\n") if line), end="")
    print(f"{'area':24} {'accepted':>9} {'rejected':>9}  false rejects    false accepts    explained")
    total = Tally()
    for name, t in [*measured.areas.items(), ("all", total)]:
        if t is not total:
            total.add(t)
        print(
            f"{name:24} {t.accepted:9} {t.rejected:9}  {rate(t.false_rejects, t.accepted)}  {rate(t.false_accepts, t.rejected)}"
            f"  {rate(t.explained, t.accepted + t.rejected)}"
        )
    print(f"explained: {dict(explained.most_common())}")


if __name__ == "__main__":
    main()
