"""Single-token corruptions of real files: of those that ptxas rejects, how many do we reject?

    python -m benchmarks.corruptions [--files 24] [--per-file 40] [--seed 1] [--show 20]

Takes a fixed sample of the corpus (or, with --own, of the project's own files), changes one token of one statement (a
modifier, a register,
an immediate, a label, a symbol, a type in a declaration), and asks ptxas and `pyptx.diagnose`. Prints the rates and the
misses by kind.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyptx
from pyptx.runtime.ptxas import assemble, target_of

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
OWN = ROOT / "tests" / "data" / "ptx"
MODIFIERS = (
    "s32 u32 b32 f32 f64 s64 u64 b64 u16 s16 b16 f16 f16x2 bf16 pred u8 b8 b128 v2 v4 v8 rn rz rm ftz sat sync "
    "aligned global shared const local param lo hi wide lt ge eq and or add min max relaxed acquire volatile gpu cta "
    "sys cluster nc ca cg uni x4 trans m16n8k16 "
    "row col to approx full"
).split()
_TOKEN = re.compile(r"\.[A-Za-z_][\w:]*|%?[A-Za-z_$%][\w$]*|0[xXfFdD][0-9a-fA-F]+|\d+(?:\.\d+)?|[{}\[\],;()@!|<>+-]")
_REGISTER = re.compile(r"%[A-Za-z_]+\w*")


@dataclass(frozen=True)
class Corruption:
    """A changed text, what kind of change it is, and the line before and after."""

    kind: str
    before: str
    after: str
    text: str


def corruptions(text: str, count: int, random_: random.Random) -> list[Corruption]:
    """`count` single-token changes of statements of a file."""
    lines = text.split("\n")
    code = [
        i
        for i, line in enumerate(lines)
        if re.match(r"\s*(@!?%|[a-z]|\.reg|\.param|\.shared|\.global|\.local)", line)
        and ";" in line
        and "//" not in line
    ]
    registers = sorted({m for line in lines for m in _REGISTER.findall(line)} - {"%tid", "%ntid"})
    symbols = sorted(set(re.findall(r"\[([A-Za-z_]\w+)", text)))
    labels = sorted(set(re.findall(r"^\s*([$\w]+):", text, re.M)))
    found: list[Corruption] = []
    while len(found) < count and code:
        number = random_.choice(code)
        line = lines[number]
        tokens = list(_TOKEN.finditer(line))
        match = random_.choice(tokens)
        kind, new = _change(match.group(), line, registers, symbols, labels, random_)
        if new is None or new == match.group():
            continue
        after = line[: match.start()] + new + line[match.end() :]
        found.append(
            Corruption(kind, line.strip(), after.strip(), "\n".join([*lines[:number], after, *lines[number + 1 :]]))
        )
    return found


def _change(
    token: str, line: str, registers: list[str], symbols: list[str], labels: list[str], random_: random.Random
) -> tuple[str, str | None]:
    if token[0] == ".":
        choice = random_.randrange(4)
        if choice == 0:
            return "modifier dropped", ""
        if choice == 1:
            return "modifier doubled", token + token
        return "modifier changed", "." + random_.choice(MODIFIERS)
    if token[0] == "%":
        choice = random_.randrange(5)
        if choice == 0:
            return "register -> constant", random_.choice(["1", "-1", "1.0", "0f3F800000", "4294967296"])
        if choice == 1:
            return "register undeclared", token + "_x"
        if choice == 2 and symbols:
            return "register -> symbol", random_.choice(symbols)
        return "register -> register", random_.choice(registers)
    if token[0].isdigit():
        return "constant changed", random_.choice(["0", "1.5", "-7", "1000000", "%r1", "0f3F800000", "3"])
    if token in labels:
        return "label changed", random_.choice([token + "x", *labels[:3], *symbols[:1]])
    if token in symbols:
        return "symbol changed", random_.choice([token + "x", *symbols[:3], *labels[:1]])
    if token[0].isalpha() and line.lstrip().startswith(token):
        return "opcode changed", random_.choice(["add", "mov", "ld", "st", "cvt", "setp", "mul", token + "x"])
    if token in "{}[],()@!|<>":
        return "punctuation dropped", ""
    return "other", None


def judge(corruption: Corruption, target: str) -> tuple[list[str], list[str]]:
    """(ptxas's errors, ours)."""
    result = assemble(corruption.text, target, check_only=True)
    ours = [d.message for d in pyptx.diagnose(corruption.text) if d.severity == "error"]
    return [e.message for e in result.errors] or ([] if result.ok else ["ptxas failed"]), ours


def sample(files: int, own: bool) -> list[Path]:
    """A fixed sample: every nth accepted file of at most 2,500 lines."""
    if own or not CORPUS.is_dir():
        return sorted(OWN.glob("nvcc_*.ptx"))[:files]
    rows = [r.split("\t") for r in (CORPUS / "manifest.tsv").read_text().splitlines()[1:]]
    paths = [CORPUS / r[0] for r in rows if r[4] == "ok" and int(r[3]) <= 2500]
    return paths[:: max(1, len(paths) // files)][:files]


@dataclass
class Tally:
    """Counts over all corruptions."""

    rejected: int = 0
    missed: int = 0
    accepted: int = 0
    refused: int = 0


def measure(
    paths: list[Path], per_file: int, seed: int
) -> tuple[Tally, dict[str, list[tuple[Corruption, str]]], dict[str, list[tuple[Corruption, str]]]]:
    """Totals, what ptxas rejects and we accept, and what we reject and ptxas accepts, by kind."""
    tally = Tally()
    misses: dict[str, list[tuple[Corruption, str]]] = defaultdict(list)
    refusals: dict[str, list[tuple[Corruption, str]]] = defaultdict(list)
    for path in paths:
        text = path.read_text(errors="surrogateescape")
        target = target_of(text) or "sm_90"
        changes = corruptions(text, per_file, random.Random(f"{seed} {path.name}"))
        with ThreadPoolExecutor(2) as pool:
            judged = list(pool.map(lambda c, target=target: judge(c, target), changes))
        for change, (theirs, ours) in zip(changes, judged, strict=True):
            if theirs:
                tally.rejected += 1
                if not ours:
                    tally.missed += 1
                    misses[change.kind].append((change, theirs[0]))
            else:
                tally.accepted += 1
                if ours:
                    tally.refused += 1
                    refusals[change.kind].append((change, ours[0]))
    return tally, misses, refusals


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, default=24)
    arguments.add_argument("--per-file", type=int, default=40)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--show", type=int, default=20)
    arguments.add_argument("--own", action="store_true", help="the project's own files instead of the corpus")
    options = arguments.parse_args()
    tally, misses, refusals = measure(sample(options.files, options.own), options.per_file, options.seed)
    for title, found in (("ptxas rejects, we accept", misses), ("we reject, ptxas accepts", refusals)):
        counts = Counter({kind: len(cases) for kind, cases in found.items()})
        print(f"{title}: {dict(counts.most_common())}")
        shown = [case for cases in found.values() for case in cases][: options.show]
        for change, message in shown:
            print(f"    {change.kind}: {change.before}  ->  {change.after}   [{message[:110]}]")
    rate = 100 * (1 - tally.missed / max(tally.rejected, 1))
    print(
        f"rejected by us: {rate:.2f} % of {tally.rejected} that ptxas rejects; "
        f"rejected wrongly: {tally.refused} of {tally.accepted}"
    )


if __name__ == "__main__":
    main()
