"""Whether the lit tests can fail: each CHECK line is made false in turn, and filecheck must say so.

    python -m benchmarks.falsify_lit [test ...]        # by default all of tests/filecheck

A CHECK line gets text that no output has; a CHECK-NOT gets a pattern that any character matches. Lines with which a test passes
all the same are printed: a positive one matches nothing (it may match its own printed copy), a CHECK-NOT looks at no text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "filecheck"
BIN = Path(sys.executable).parent
_RUN = re.compile(r"(?://|#)\s*RUN:\s*(.*)\|\s*[fF]ile[cC]heck %s(.*)$")


def main(arguments: list[str]) -> int:
    chosen = [Path(a).resolve() for a in arguments] or sorted(
        p for p in TESTS.rglob("*") if p.suffix in (".ptx", ".mlir", ".py")
    )
    counted = passed = 0
    for test in chosen:
        for what, output, options, prefix in runs(test):
            for line, text in falsified(what, prefix):
                counted += 1
                if accepted(text, output, options, test.suffix):
                    passed += 1
                    print(f"{test.relative_to(ROOT)}:{line}: {what.splitlines()[line - 1].strip()}")
    print(f"{counted} lines made false in {len(chosen)} tests: {counted - passed} seen, {passed} not")
    return int(passed > 0)


def runs(test: Path) -> Iterator[tuple[str, str, list[str], str]]:
    """(text, output, options of filecheck, prefix) of each RUN line that ends in filecheck."""
    text = test.read_text()
    for line in text.splitlines():
        found = _RUN.match(line)
        if found is None:
            continue
        command = found[1].replace("%s", str(test)).replace("%S", str(test.parent)).replace("%python", sys.executable)
        command = re.sub(r"(^|\|)\s*not ", r"\1 ", command)
        environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        made = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, check=False)
        options = found[2].split()
        prefix = next((o.partition("=")[2] for o in options if o.startswith("--check-prefix")), "CHECK")
        yield text, made.stdout, options, prefix


def falsified(text: str, prefix: str) -> Iterator[tuple[int, str]]:
    """(line, the text with that line's directive made false)."""
    lines = text.splitlines()
    directive = re.compile(rf"^(.*?\b{re.escape(prefix)}(-NOT|-NEXT|-SAME|-DAG|-COUNT-\d+)?:)(.*)$")
    for i, line in enumerate(lines):
        found = directive.match(line)
        if found is None or "RUN:" in line:
            continue
        wrong = f"{found[1]} {{{{[^ ]}}}}" if found[2] == "-NOT" else f"{found[1]}{found[3]}@no output has this@"
        yield i + 1, "\n".join([*lines[:i], wrong, *lines[i + 1 :], ""])


def accepted(text: str, output: str, options: list[str], suffix: str) -> bool:
    with tempfile.NamedTemporaryFile("w", suffix=suffix) as file:
        file.write(text)
        file.flush()
        command = [sys.executable, "-m", "filecheck", file.name, *options]
        return subprocess.run(command, input=output, capture_output=True, text=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
