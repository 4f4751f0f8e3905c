"""Machine code of all examples and of the corpus: is every instruction understood, and its pipe known?

python -m benchmarks.sass [--every N] [--limit N] [--seconds S]

Prints, for each architecture, how many files and instructions were read, and the opcodes whose pipe is not known, with counts and a file.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from pyptx.diagnostics import PTXError
from pyptx.prediction.encode import encode
from pyptx.prediction.pipes import pipe_of
from pyptx.sass import SassError, assemble
from pyptx.tools.ptxas import supported_archs, target_of

from .predicted import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "examples", ROOT / "tests" / "data" / "ptx", ROOT.parent / "shared" / "corpus")


def texts(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """The examples, and the files; each with its name."""
    for name, sizes, more in EXAMPLES:
        yield f"examples.{name}", import_module(f"examples.{name}").build(*sizes, **more).ptx()
    for path in paths:
        yield path.name, path.read_text(encoding="utf-8", errors="surrogateescape")


def main() -> None:
    parser = argparse.ArgumentParser(description="Is every machine instruction understood?")
    parser.add_argument("--every", type=int, default=1, help="only every Nth file")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    options = parser.parse_args()
    paths = sorted({p for folder in FOLDERS for p in folder.rglob("*.ptx")})[:: options.every]
    read: Counter[str] = Counter()
    files: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    opaque: Counter[str] = Counter()
    where: dict[str, str] = {}
    refused: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    for name, text in texts(paths):
        if time.monotonic() > until:
            refused["not looked at: no time left"] += 1
            continue
        target = target_of(text) or ""
        if target.removeprefix("sm_") not in supported_archs():
            refused[f"ptxas makes no code for {target or 'no target'}"] += 1
            continue
        try:
            listing = assemble(text)
        except (PTXError, SassError) as error:
            refused[type(error).__name__] += 1
            if isinstance(error, SassError):
                print(f"{name}: {error}")
            continue
        files[listing.arch] += 1
        for function in listing:
            not_computed = encode(function).unknown
            for index, i in enumerate(function):
                read[listing.arch] += 1
                if pipe_of(i) is None:
                    unknown[f"{listing.arch} {i.opcode}"] += 1
                    where.setdefault(f"{listing.arch} {i.opcode}", name)
                if index in not_computed:
                    opaque[i.opcode] += 1
    for arch in sorted(read):
        print(f"{arch:<10}{files[arch]:>5} files{read[arch]:>12,} instructions")
    print(f"{sum(unknown.values())} of {sum(read.values()):,} instructions have no known pipe")
    for name, count in unknown.most_common():
        print(f"  {name:<24}{count:>7}  {where[name]}")
    print(
        f"{sum(opaque.values()):,} have results that predictions do not compute, and treat as unknown where a branch or address needs them:"
    )
    print("  " + ", ".join(f"{opcode} {count}" for opcode, count in opaque.most_common(20)))
    for reason, count in refused.most_common():
        print(f"{count:>5} files: {reason}")


if __name__ == "__main__":
    main()
