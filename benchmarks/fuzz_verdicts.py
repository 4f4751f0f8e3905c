"""Random instructions and one-edit mutations of them, judged by pyptx and by ptxas.

    python -m benchmarks.fuzz_verdicts [--seconds 120] [--draws 0] [--seed 1] [--opcode mma] [--source forms] [--deep] [--show 40] [--keep FILE]

Each round takes one (version, target) and draws instructions: from the forms (every op class, all slots, all operands,
constants in and out of range, wrong registers), from the probed rows of `isa/` (`--source rows`) or from the lines of real files
(`--source corpus`), edits half of them once or twice (see `draws.Draw.mutate`), and compares the verdicts on the whole text. Prints
agreement, the shortest disagreements grouped by kind, and how many each kind of `explained.EXPLAINED` takes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyptx
import pyptx.dialects.ptx.all
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version, target_of
from pyptx.tools.oracle import header, verdicts

from .draws import SHARED, Draw, balanced, declarations, from_files
from .explained import Disagreement, explanation

FOOTER = "Lx: ret;\nLy: ret;\n}\n"
VERSIONS = (
    "4.0 4.1 4.2 4.3 5.0 5.1 6.0 6.1 6.2 6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8"
    " 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0 9.1 9.2 9.3 9.4 9.5"
).split()
TARGETS = tuple(t for t in FIRST_PTX if target_of(t).number >= 50 and t not in ("sm_101a", "sm_101f"))
"""Not those that ptxas 13.5 knows under another name only (sm_110a): it checks nothing for them."""


def ours(lines: list[str], version: str, target: str) -> list[list[str]]:
    """Our errors for each line, in the frame that the oracle uses."""
    head = header(version, target) + declarations(version, target)
    first = head.count("\n") + 1
    found: list[list[str]] = [[] for _ in lines]
    for diagnostic in pyptx.diagnose(head + "".join(f"{line}\n" for line in lines) + FOOTER):
        if diagnostic.severity == "error" and diagnostic.line is not None and 0 <= diagnostic.line - first < len(lines):
            found[diagnostic.line - first].append(diagnostic.message)
    return found


def asked(lines: list[str], version: str, target: str) -> list[list[str]]:
    """ptxas's errors for each line. A few instructions make it complain without a line: halving finds these."""
    try:
        return verdicts(lines, version, target, declarations(version, target))
    except RuntimeError as error:
        if len(lines) == 1:
            return [[str(error)]]
        half = len(lines) // 2
        return asked(lines[:half], version, target) + asked(lines[half:], version, target)


def asked_deeply(lines: list[str], version: str, target: str) -> list[list[str]]:
    """`asked`, and again of what is left until nothing more is refused: ptxas lowers some instructions to others, and says what is
    wrong with those only where the file has no other error.
    """
    found = asked(lines, version, target)
    left = [i for i, refused in enumerate(found) if not refused]
    while left:
        again = asked([lines[i] for i in left], version, target)
        for i, refused in zip(left, again, strict=True):
            found[i] = refused
        if not any(again):
            break
        left = [i for i in left if not found[i]]
    return found


@lru_cache(maxsize=4)
def written(source: str) -> tuple[str, ...]:
    """The instructions of a source other than the forms: `rows` of the ISA tables, or `corpus`, the real files."""
    if source == "rows":
        with gzip.open(SHARED / "isa" / "verdicts.tsv.gz", "rt") as rows:
            return tuple(row.rstrip("\n").split("\t")[2] for row in rows)
    return tuple(from_files(sorted((SHARED / "corpus").rglob("*.ptx"))))


def drawn(draw: Draw, source: str, size: int) -> list[str]:
    """`size` instructions, about half of them edited."""
    lines: list[str] = []
    for i in range(size):
        line = draw.instruction() if source == "forms" else draw.random.choice(written(source))
        if source != "forms" or i % 2:
            line = draw.mutate(line)
        if i % 8 == 1:
            line = draw.mutate(line)
        if balanced(line):
            lines.append(line)
    return lines


def rounds(
    seed: int, size: int = 2500, opcodes: list[str] | None = None, source: str = "forms", deep: bool = False
) -> Iterator[tuple[int, int, list[Disagreement]]]:
    """Endless rounds of `size` instructions on one (version, target): how many there were, how many ptxas accepted, the
    disagreements.

    Where they disagree, ptxas is asked again with that instruction alone in the file: after others a few of its
    answers depend on what it read before (vset, texture reads with a sampler).
    """
    pairs = [(v, t) for v in VERSIONS for t in TARGETS if FIRST_PTX[t] <= parse_version(v)]
    choose = random.Random(seed)
    number = 0
    while True:
        # the newest version sees everything, so every second round takes it
        version, target = choose.choice(pairs) if number % 2 else ("9.5", choose.choice(TARGETS))
        lines = drawn(Draw(f"{seed}/{number}", opcodes), source, size)
        number += 1
        theirs = (asked_deeply if deep else asked)(lines, version, target)
        mine = ours(lines, version, target)
        found: list[Disagreement] = []
        for line, refused, wrong in zip(lines, theirs, mine, strict=True):
            if bool(refused) != bool(wrong):
                (refused,), (wrong,) = asked([line], version, target), ours([line], version, target)
            if bool(refused) != bool(wrong):
                found.append(Disagreement(line, version, target, not refused, (wrong or refused)[0]))
        yield len(lines), sum(not a for a in theirs), found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=120)
    arguments.add_argument("--draws", type=int, default=0, help="stop after so many instructions instead")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--size", type=int, default=2500, help="instructions a round")
    arguments.add_argument("--opcode", help="only these (comma separated)")
    arguments.add_argument("--source", choices=("forms", "rows", "corpus"), default="forms")
    arguments.add_argument("--deep", action="store_true", help="with the errors that others hide")
    arguments.add_argument("--show", type=int, default=40)
    arguments.add_argument("--keep", type=Path, help="write every disagreement to this file, a line of JSON each")
    options = arguments.parse_args()
    end = time.monotonic() + options.seconds
    groups: dict[str, list[Disagreement]] = defaultdict(list)
    explained: Counter[str] = Counter()
    total = accepted = 0
    opcodes = options.opcode.split(",") if options.opcode else None
    for count, legal, found in rounds(options.seed, options.size, opcodes, options.source, options.deep):
        total += count
        accepted += legal
        for disagreement in found:
            reason = explanation(disagreement)
            if reason is not None:
                explained[reason.kind] += 1
            else:
                groups[disagreement.kind].append(disagreement)
            if options.keep is not None:
                with options.keep.open("a") as kept:
                    kept.write(json.dumps([*vars(disagreement).values(), reason.kind if reason else ""]) + "\n")
        if total >= options.draws if options.draws else time.monotonic() > end:
            break
    for kind, cases in sorted(groups.items(), key=lambda g: -len(g[1]))[: options.show]:
        shortest = min(cases, key=lambda d: len(d.text))
        print(f"{len(cases):5} {kind}\n      {shortest.version} {shortest.target}  {shortest.text[:170]}")
    wrong = sum(map(len, groups.values()))
    print(f"explained: {dict(explained.most_common())}")
    print(
        f"{total} instructions, {accepted} accepted by ptxas; "
        f"{wrong} unexplained disagreements in {len(groups)} kinds; "
        f"agreement {100 * (1 - wrong / max(total, 1)):.3f} % ({100 * (1 - (wrong + explained.total()) / max(total, 1)):.3f} % with the explained)"
    )


if __name__ == "__main__":
    main()
