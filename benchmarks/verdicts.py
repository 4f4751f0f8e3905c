"""How often our verifier and ptxas agree, over the probed instruction instances of `isa/verdicts.tsv.gz`.

    python benchmarks/verdicts.py [--family add] [--show 20] [--all-versions]

Each instance is judged on every target x the PTX versions 6.5, 7.8, 8.5, 9.0, 9.5 where the target exists. Prints per family the false-accept
rate (among what ptxas rejects) and the false-reject rate (among what it accepts), and their means over families.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pyptx.dialects.ptx.all  # noqa: E402, F401
from pyptx.dialects.ptx.instruction import Resolution, unknown_opcode  # noqa: E402
from pyptx.dialects.ptx.syntax import SyntaxProblem  # noqa: E402
from pyptx.dialects.ptx.target import FIRST_PTX, parse_version  # noqa: E402
from pyptx.parser.instruction import instruction_text  # noqa: E402

VERSIONS = ("6.5", "7.8", "8.5", "9.0", "9.5")
CLASSES = {"p": "pred", "h": "b16", "r": "b32", "d": "b64", "b": "b8", "q": "b128"}
REGISTER = re.compile(r"%([phrdbq])\d+")


def register_class(name: str) -> str | None:
    match = REGISTER.fullmatch(name)
    return CLASSES[match[1]] if match else None


def table_path() -> Path:
    for folder in (ROOT / "tests/data/isa", ROOT.parent / "shared/isa"):
        if (folder / "verdicts.tsv.gz").exists():
            return folder
    sys.exit("no isa/verdicts.tsv.gz")


def resolve(text: str) -> Resolution:
    try:
        reading, classes = instruction_text(text, register_class)
    except SyntaxProblem as problem:
        from pyptx.dialects.ptx.forms import Problem

        return Resolution([], Problem(str(problem)))
    if reading.cls is None:
        return Resolution([], unknown_opcode(reading.root, reading.modifiers))
    return reading.cls.resolve(reading.modifiers, reading.layout, classes)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--family", help="only opcodes with this root (comma separated)")
    arguments.add_argument("--show", type=int, default=0, help="print up to N disagreements")
    options = arguments.parse_args()
    folder = table_path()
    requirements = json.loads((folder / "requirements.json").read_text())
    rows = [r.split("\t") for r in gzip.open(folder / "verdicts.tsv.gz", "rt").read().splitlines()]
    wanted = set(options.family.split(",")) if options.family else None
    pairs = [
        (t, v)
        for t, (first, _) in requirements["versions_of_target"].items()
        if FIRST_PTX[t] >= (4, 0)
        for v in VERSIONS
        if parse_version(first) <= parse_version(v)
    ]
    parsed = {v: parse_version(v) for v in VERSIONS}
    accepted_at: list[set[tuple[str, str]]] = []
    for spans in requirements["requirements"]:
        inside: set[tuple[str, str]] = set()
        for span in spans:
            low, high = parse_version(span["from"]), parse_version(span["to"])
            inside |= {(t, v) for t, v in pairs if t in span["targets"] and low <= parsed[v] <= high}
        accepted_at.append(inside)
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])  # rejected, false accepts, accepted, false rejects
    shown = 0
    start = time.perf_counter()
    judged = 0
    for _, requirement, text in rows:
        family = re.match(r"(?:@!?%p\d+ )?([\w]+)", text)
        name = family[1] if family else text
        if wanted is not None and name not in wanted:
            continue
        truth = accepted_at[int(requirement)]
        resolution = resolve(text)
        tally = counts[name]
        wrong: list[tuple[str, str]] = []
        for pair in pairs:
            target, version = pair
            problem = resolution.verdict(parsed[version], target)
            judged += 1
            if pair in truth:
                tally[2] += 1
                if problem is not None:
                    tally[3] += 1
                    wrong.append(pair)
            else:
                tally[0] += 1
                if problem is None:
                    tally[1] += 1
                    wrong.append(pair)
        if wrong and shown < options.show:
            shown += 1
            target, version = wrong[0]
            problem = resolution.verdict(parsed[version], target)
            said = f"we reject: {problem.message}" if problem else "we accept"
            print(f"{text}  [{len(wrong)} pairs, e.g. {target} {version}; ptxas {'accepts' if wrong[0] in truth else 'rejects'}] {said}")
    seconds = time.perf_counter() - start
    print(f"{'family':24} {'rejected':>9} {'false acc':>9} {'%':>7} {'accepted':>9} {'false rej':>9} {'%':>7}")
    accept_rates: list[float] = []
    reject_rates: list[float] = []
    for name, (rejected, false_accepts, accepted, false_rejects) in sorted(counts.items()):
        a = 100 * false_accepts / rejected if rejected else 0.0
        r = 100 * false_rejects / accepted if accepted else 0.0
        accept_rates.append(a)
        reject_rates.append(r)
        if false_accepts or false_rejects:
            print(f"{name:24} {rejected:9} {false_accepts:9} {a:7.3f} {accepted:9} {false_rejects:9} {r:7.3f}")
    if counts:
        n = len(counts)
        print(f"mean over {n} families: false accepts {sum(accept_rates) / n:.3f} %, false rejects {sum(reject_rates) / n:.3f} %")
    print(f"{judged} verdicts, {len(rows)} instances, {seconds:.1f} s, {len(rows) / max(seconds, 1e-9):.0f} instances/s")


if __name__ == "__main__":
    main()
