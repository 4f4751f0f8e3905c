"""The most common things that ptxas says against small mistakes, and what we say next to it.

    python -m benchmarks.messages [--rounds 28] [--seed 1] [--top 60] [--compare 0]

A mistake is a probed instruction of `isa/` or a line of a real file that ptxas accepts, edited once (see
`draws.Draw.mutate`), or one that is legal elsewhere, put under this version and target. Prints the kinds of ptxas's
first message, most common first, with the place in `tests/filecheck/errors` that has one of that kind: the table of
docs/verdicts.md. `--compare N` prints N mistakes of each kind with both messages.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyptx.runtime.ptxas import assemble
from pyptx.tools.ptxas import target_of

from .draws import Draw, balanced
from .fuzz_verdicts import asked, ours, written

PAIRS = (
    ("9.5", "sm_90a"), ("8.7", "sm_90a"), ("7.0", "sm_80"), ("9.5", "sm_100a"), ("9.0", "sm_120a"), ("8.0", "sm_90"),
    ("6.4", "sm_70"), ("9.5", "sm_107a"), ("7.8", "sm_86"), ("9.5", "sm_75"), ("9.5", "sm_120f"), ("6.0", "sm_60"),
    ("9.5", "sm_103a"), ("9.5", "sm_89"),
)  # fmt: skip
CASES = Path(__file__).resolve().parent.parent / "tests" / "filecheck" / "errors"


def kind_of(message: str) -> str:
    """ptxas's message without names, modifiers and numbers."""
    message = re.sub(r"'[^']*'", "'..'", message)
    message = re.sub(r"\bsm_\w+", "sm", message)
    message = re.sub(r"(?<![\w.])\.[a-z]\w*(::\w+)*(\.\w+(::\w+)*)*", ".x", message)
    message = re.sub(r"\b\d+(\.\d+)?", "N", message)
    return re.sub(r"(\.x or )+\.x", ".x", message)


def mistakes(seed: int, rounds: int, size: int = 1600) -> Iterator[tuple[str, str, str, list[str]]]:
    """Mistakes that ptxas refuses: version, target, the instruction, what ptxas says."""
    for number in range(rounds):
        version, target = PAIRS[number % len(PAIRS)]
        draw = Draw(f"{seed}/{number}")
        lines = [line for line in written("corpus" if number % 3 == 2 else "rows") if _is_one(line)]
        lines = draw.random.sample(lines, min(len(lines), 6000))
        legal = [line for line, refused in zip(lines, asked(lines, version, target), strict=True) if not refused]
        wrong = [
            draw.random.choice(lines) if i % 10 < 3 else draw.mutate(draw.random.choice(legal)) for i in range(size)
        ]
        wrong = [line for line in wrong if _is_one(line)]
        for line, said in zip(wrong, asked(wrong, version, target), strict=True):
            if said:
                yield version, target, line, said


def _is_one(line: str) -> bool:
    """Whether a line is one instruction: the end of another, or a declaration, would reach into the lines below."""
    return balanced(line) and line.count(";") == 1 and line[0] not in "{."


def cases() -> dict[str, str]:
    """Every place in `CASES` for which a message is checked (`types.ptx:17`) -> the kind of what ptxas says first when
    the other such lines are left out; empty if it says nothing.
    """
    places = [(path, number) for path in sorted(CASES.glob("*.ptx")) for number in _checked(path)]
    with ThreadPoolExecutor() as pool:
        return dict(zip((f"{p.name}:{n}" for p, n in places), pool.map(_said, *zip(*places, strict=True)), strict=True))


def _checked(path: Path) -> list[int]:
    """The lines that have an error, those among them that another line's message counts ("2 more like this at lines 37, 39")."""
    found: set[int] = set()
    for number, message in re.findall(rf"^// CHECK: {path.name}:(\d+):\d+: error(.*)$", path.read_text(), re.M):
        more = re.search(r"more like this at lines? ([\d, ]+\d)", message)
        found |= {int(number), *(int(n) for n in (more[1].split(", ") if more else ()))}
    return sorted(found)


def _said(path: Path, number: int) -> str:
    others = set(_checked(path)) - {number}
    lines = path.read_text().split("\n")
    text = "\n".join("" if i in others else line for i, line in enumerate(lines, 1))
    errors = assemble(text, target_of(text) or "sm_90", check_only=True, filename=str(path)).errors
    return kind_of(errors[0].message) if errors else ""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=28)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--top", type=int, default=60)
    arguments.add_argument("--compare", type=int, default=0, help="mistakes to print with both messages, of each kind")
    options = arguments.parse_args()
    kinds: dict[str, list[tuple[str, str, str, str]]] = defaultdict(list)
    for version, target, line, said in mistakes(options.seed, options.rounds):
        kinds[kind_of(said[0])].append((version, target, line, said[0]))
    count = Counter({kind: len(found) for kind, found in kinds.items()})
    places = {kind: place for place, kind in reversed(cases().items())}
    choose = random.Random(options.seed)
    for rank, (kind, many) in enumerate(count.most_common(options.top), 1):
        print(f"| {rank} | {kind} | {many} | {places.get(kind, '')} |")
        for version, target, line, said in choose.sample(kinds[kind], min(options.compare, many)):
            print(
                f"    {version} {target}  {line}\n      ptxas: {said}\n      pyptx: {ours([line], version, target)[0][:1]}"
            )
    print(f"{count.total()} mistakes, {len(count)} kinds")


if __name__ == "__main__":
    main()
