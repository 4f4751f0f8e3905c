"""Speed of the transpiler over the corpus, in lines of PTX per second: python -m benchmarks.transpile [folder].

Transpile (faithful, sugared), then what the faithful program costs: compiling the Python, running it to IR, printing.
Lines of the sugared programs as a share of the PTX's, blank ones left out, as a median over the files.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyptx
from pyptx.codegen import ptx_to_python

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared" / "corpus"


def filled(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def main(folder: Path) -> None:
    names = ("faithful", "sugared", "compile", "run to IR", "print")
    spent = dict.fromkeys(names, 0.0)
    lines, shares = 0, list[float]()
    for path in sorted(folder.rglob("*.ptx")):
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        marks = [time.perf_counter()]
        try:
            program = ptx_to_python(text)
        except pyptx.PTXError:
            continue
        marks.append(time.perf_counter())
        sugared = ptx_to_python(text, sugar=True)
        marks.append(time.perf_counter())
        code = compile(program, str(path), "exec")
        marks.append(time.perf_counter())
        namespace: dict[str, Any] = {"__name__": "program"}
        exec(code, namespace)
        namespace["m"].module()
        marks.append(time.perf_counter())
        assert namespace["m"].ptx() == text
        marks.append(time.perf_counter())
        for i, name in enumerate(names):
            spent[name] += marks[i + 1] - marks[i]
        lines += text.count("\n")
        shares.append(filled(sugared) / max(filled(text), 1))
    print(f"{len(shares)} files, {lines} lines")
    for name, seconds in spent.items():
        print(f"{name:12}{lines / seconds:12,.0f} lines/s")
    running = spent["run to IR"] + spent["print"]
    print(
        f"{'run, print':12}{lines / running:12,.0f} lines/s; with compiling {lines / (running + spent['compile']):,.0f}"
    )
    print(f"sugared lines: {median(shares):.0%} of the PTX's (median)")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS)
