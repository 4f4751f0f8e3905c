"""Which tests run a line of the source: recorded once, then asked for each mutant (benchmarks/mutants.py).

    python -m pytest -p benchmarks.mutant_tests ...     with MUTANT_RECORD=FOLDER: record
    python -m benchmarks.mutant_tests FOLDER            fails where a test notices the change of the working tree

The record holds the lines that each test case ran (coverage.py's contexts, one per case) and its CPU seconds. A mutant gets the
cases that run its line, the fastest first, then those that run lines near it (what a cache kept from running again, what runs at
import), as long as `BUDGET` lasts.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import coverage
import pytest

CASES = 200
"""Cases of one parametrized test that are recorded at most; the first ones of all tests come first."""
SLOWEST = 20
"""CPU seconds that a recorded case may take (with coverage)."""
ALL = 1200
"""CPU seconds that the whole record may take."""
BUDGET = 30
"""CPU seconds, as recorded, for the tests of one mutant."""
MOST = 60
"""Test cases for one mutant."""
NEAR = 12
"""Lines around a mutated one whose tests come next."""


class TooSlow(BaseException):
    """The limit of a test; no test catches it."""


class Limited:
    """A CPU limit on each test."""

    def limit(self, item: pytest.Item) -> float:
        return SLOWEST

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        def stop(*_: object) -> None:
            raise TooSlow(item.nodeid)

        before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, self.limit(item))
        try:
            return (yield)
        except TooSlow as error:
            pytest.fail(f"took too long: {error}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)


class Recorder(Limited):
    """Runs a sample of the cases of each test and keeps which lines they run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seconds = folder, dict[str, float]()
        files = json.loads((folder / "files.json").read_text())
        self.coverage = coverage.Coverage(str(folder / "lines"), include=files, messages=False)
        self.coverage.start()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rng = random.Random(0)
        cases: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            cases[item.nodeid.partition("[")[0]].append(item)
        chosen = {name: rng.sample(found, min(CASES, len(found))) for name, found in cases.items()}
        # One case of each test first, since the time may not suffice for all.
        items[:] = [found[turn] for turn in range(CASES) for found in chosen.values() if turn < len(found)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        if time.process_time() > ALL:
            return True
        self.coverage.switch_context(item.nodeid)
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds.pop(report.nodeid, None)
            self.failed.add(report.nodeid)

    failed: set[str] = set()

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        passed = {name: taken for name, taken in self.seconds.items() if name not in self.failed}
        (self.folder / "seconds.json").write_text(json.dumps(passed))


class Judged(Limited):
    """The tests of a mutant: one that takes far longer than before has noticed it."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())

    def limit(self, item: pytest.Item) -> float:
        return 5 + 3 * self.seconds.get(item.nodeid, SLOWEST)


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("MUTANT_JUDGE"):
        config.pluginmanager.register(Judged(Path(folder)), "mutant-judge")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The first hook of all: coverage must start before pyptx is imported."""
    if folder := os.environ.get("MUTANT_RECORD"):
        pluginmanager.register(Recorder(Path(folder)), "mutant-recorder")


def changed() -> tuple[str, set[int]]:
    """The file that is mutated, and the lines of HEAD that are."""
    diff = subprocess.run(["git", "diff", "-U0", "HEAD"], capture_output=True, text=True, check=True).stdout
    file = re.search(r"^--- a/(.*)$", diff, re.MULTILINE)
    lines: set[int] = set()
    for start, count in re.findall(r"^@@ -(\d+)(?:,(\d+))?", diff, re.MULTILINE):
        lines |= set(range(int(start), int(start) + int(count or 1)))
    return file[1] if file else "", lines


def tests_for(folder: Path, file: str, lines: set[int]) -> list[str]:
    """Test cases, the likeliest to notice first."""
    seconds: dict[str, float] = json.loads((folder / "seconds.json").read_text())
    data = coverage.CoverageData(str(folder / "lines"))
    data.read()
    name = next((f for f in data.measured_files() if f.endswith(file)), file)
    near: dict[str, int] = {}
    for line, contexts in data.contexts_by_lineno(name).items():
        distance = min(abs(line - changed) for changed in lines)
        for case in contexts:
            near[case] = min(distance, near.get(case, distance))
    # One case of each test before the second ones, so that few cases mean many tests.
    turns: dict[str, int] = defaultdict(int)
    ranked: list[tuple[int, int, float, str]] = []
    for case in sorted((c for c in near if c in seconds), key=lambda c: seconds[c]):
        test = case.partition("[")[0]
        rank = 0 if near[case] == 0 else 1 if near[case] <= NEAR else 2
        ranked.append((rank, turns[f"{rank} {test}"], seconds[case], case))
        turns[f"{rank} {test}"] += 1
    chosen: list[str] = []
    left = float(BUDGET)
    for *_, taken, case in sorted(ranked):
        if len(chosen) < MOST and (taken <= left or not chosen):
            chosen.append(case)
            left -= taken
    return chosen


def main() -> int:
    folder = Path(sys.argv[1])
    file, lines = changed()
    cases = tests_for(folder, file, lines)
    if lit := [path for path in Path("tests/filecheck/passes").iterdir() if names_pass(path, Path(file).stem)]:
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        if subprocess.run(["lit", "-q", *map(str, lit[:4])], check=False, env=environment).returncode:
            return 1
    if not cases:
        print("no test runs this line")
        return 0
    # As few test modules at a time as possible, since each takes time to import.
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "benchmarks.mutant_tests"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *cases], check=False, env=os.environ | {"MUTANT_JUDGE": str(folder)}
    ).returncode


def names_pass(path: Path, stem: str) -> bool:
    """Whether a lit test runs the pass of a module."""
    return path.suffix in (".ptx", ".mlir") and f"ptx-{stem.replace('_', '-')}" in path.read_text()


if __name__ == "__main__":
    sys.exit(main())
