"""Which tests run a line of the source: recorded once, then asked for each mutant (benchmarks/mutants.py).

    python -m pytest -p benchmarks.mutant_tests ...     with MUTANT_RECORD=FOLDER: record

The record holds the lines that each test case ran (coverage.py's contexts, one per case) and its CPU seconds. A mutant gets the
cases that run its line, the fastest first, then those that run lines near it (what a cache kept from running again, what runs at
import), as long as `BUDGET` lasts.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest

CASES = 12
"""Cases of one parametrized test that are recorded at most; the first ones of all tests come first."""
SLOWEST = 10
"""CPU seconds that a recorded case may take (with coverage)."""
ALL = 900
"""CPU seconds that the whole record may take."""
SAVED = 200
"""Cases after which the record is written, so that a crash loses little."""
BUDGET = 6
"""CPU seconds, as recorded, for the tests of one mutant."""
MOST = 25
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
        if len(self.seconds) % SAVED == 0:
            self.save()
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self.seconds.pop(report.nodeid, None)
            self.failed.add(report.nodeid)

    failed: set[str] = set()

    def pytest_sessionfinish(self) -> None:
        self.save()
        self.coverage.stop()

    def save(self) -> None:
        self.coverage.save()
        passed = {name: taken for name, taken in self.seconds.items() if name not in self.failed}
        (self.folder / "seconds.json").write_text(json.dumps(passed))


class Judged(Limited):
    """The chosen test cases of a mutant: one that takes far longer than before has noticed it."""

    def __init__(self, seconds: dict[str, float], cases: Sequence[str]) -> None:
        self.seconds, self.cases = seconds, {case: number for number, case in enumerate(cases)}

    def limit(self, item: pytest.Item) -> float:
        return 5 + 3 * self.seconds.get(item.nodeid, SLOWEST)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.cases), key=lambda i: self.cases[i.nodeid])


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The first hook of all: coverage must start before pyptx is imported."""
    if folder := os.environ.get("MUTANT_RECORD"):
        pluginmanager.register(Recorder(Path(folder)), "mutant-recorder")


def tests_for(folder: Path, file: str, line: int, seconds: dict[str, float]) -> list[str]:
    """Test cases for a changed line, the likeliest to notice first."""
    data = coverage.CoverageData(str(folder / "lines"))
    data.read()
    name = next((f for f in data.measured_files() if f.endswith(file)), file)
    near: dict[str, int] = {}
    for number, contexts in data.contexts_by_lineno(name).items():
        distance = abs(number - line)
        for case in contexts:
            if case not in near or distance < near[case]:
                near[case] = distance
    # One case of each test before the second ones, so that few cases mean many tests.
    turns: dict[str, int] = defaultdict(int)
    ranked: list[tuple[int, int, float, str]] = []
    for case in sorted((c for c in near if c in seconds), key=lambda c: seconds[c]):
        test = case.partition("[")[0]
        rank = 0 if near[case] == 0 else 1 if near[case] <= NEAR else 2
        ranked.append((rank, turns[f"{rank} {test}"], seconds[case], case))
        turns[f"{rank} {test}"] += 1
    return within([case for *_, case in sorted(ranked)], seconds)


def named_cases(file: str, seconds: dict[str, float]) -> list[str]:
    """Recorded cases of test modules that share a word with the name of a module: what runs at import has no lines in the record."""
    words = {word for word in Path(file).stem.split("_") if len(word) > 3}
    folders = ["dialects", "simulator", "numerics", "analysis"] if "sanitizer" not in file else ["simulator/sanitizer"]
    if file.startswith("pyptx/passes"):
        folders = ["passes"]
    modules = {case.partition("::")[0] for case in seconds}
    named = {
        m for m in modules if str(Path(m).parent.relative_to("tests")) in folders and words & {*Path(m).stem.split("_")}
    }
    return within([c for c in sorted(seconds, key=lambda c: seconds[c]) if c.partition("::")[0] in named], seconds)


def within(cases: Sequence[str], seconds: dict[str, float]) -> list[str]:
    """The first cases, as far as the time for a mutant allows, but at least one."""
    chosen: list[str] = []
    left = float(BUDGET)
    for case in cases:
        if len(chosen) < MOST and (seconds[case] <= left or not chosen):
            chosen.append(case)
            left -= seconds[case]
    return chosen


def lit_tests(root: Path, file: str) -> list[Path]:
    """A few lit tests that run the pass of a module, or all of passes for a module that several use."""
    tests = root / "tests/filecheck/passes"
    named = [path for path in sorted(tests.iterdir()) if names_pass(path, Path(file).stem)][:3]
    return named or ([tests] if file.startswith("pyptx/passes/") and "lowering" not in file else [])


def names_pass(path: Path, stem: str) -> bool:
    """Whether a lit test runs the pass of a module."""
    return path.suffix in (".ptx", ".mlir") and f"ptx-{stem.replace('_', '-')}" in path.read_text()
