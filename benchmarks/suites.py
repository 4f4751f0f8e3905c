"""Suites that others wrote, on the simulator: which of their tests pass under `pytest --pyptx`, and why the others do not.

    git clone --depth 1 https://github.com/triton-lang/triton
    python -m benchmarks.suites core triton               # python/test/unit/language/test_core.py
    python -m benchmarks.suites consan triton             # python/test/gluon/test_consan.py
    python -m benchmarks.suites liger Liger-Kernel        # test/transformers; needs the package transformers

`--one-in N` takes a random Nth of the cases of each test, `--minutes` ends the run, `--limit` a test, `-k` selects as pytest does, `--log FILE` keeps
what is known of each case, `--read FILE` prints the table of such a file. The tests should be those of the installed version of Triton.

ConSan's tests want a failing kernel to fail on the device. They run here without Triton's instrumentation, and the sanitizer's errors stand for the failure.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Suite:
    """Where the tests are in a repository, and what they need."""

    tests: str
    folders: tuple[str, ...]
    """To import from."""
    options: str
    """Of `--pyptx`."""
    skipped: str = ""
    """pytest's -k, where none is given."""
    environment: dict[str, str] = field(default_factory=dict[str, str])


SUITES = {
    "core": Suite("python/test/unit/language/test_core.py", ("python/test/unit/language",), "check"),
    "consan": Suite("python/test/gluon/test_consan.py", (), "arch=sm_100,findings=none"),
    "liger": Suite(
        "test/transformers",
        (".", "src"),
        "check",
        "not (cutile or cutedsl or auto_model or monkey_patch or trainer)",
        {"TRITON_DEFAULT_FP_FUSION": "0"},
    ),
}

REASONS = (
    ("pyptx: finding", r"pyptx found"),
    ("longer than the limit for a test", r"longer than \d+ s"),
    ("pyptx: not supported", r"Unsupported|pyptx: "),
    ("pyptx: simulator", r"SimulationError|PTXError"),
    ("device: another vendor's, or another generation", r"(?i)^skipped.*(hip|amd|cdna|rdna|gfx|xpu|hopper|blackwell|rubin|ampere|capability|sm_?\d|cuda|native tma|cluster size|device|gpu)"),
    ("the test itself skips the case", r"^Skipped"),
    ("Triton: not compiled for this target", r"CompilationError|CompileTimeAssertion|PassManager|OutOfResources|out of resource|LLVM|UnsupportedLanguage|Compile[T]ime|ptxas|failed to translate"),
    ("Triton: another version than the tests", r"AttributeError|ImportError|ModuleNotFound|TypeError|unexpected keyword|has no attribute|fixture"),
    ("values differ", r"AssertionError|Mismatch|not close|assert "),
)  # fmt: skip
"""Why a case did not pass: the first pattern that its message has."""


def reason_of(case: dict[str, Any]) -> str:
    """The line of the table that a case which did not pass is counted in."""
    return next((name for name, pattern in REASONS if re.search(pattern, case["why"])), "other")


def table(cases: list[dict[str, Any]], show: int) -> str:
    """What became of the cases, and of those that did not pass, why, with examples."""
    outcomes = Counter(case["outcome"] for case in cases)
    ran = outcomes["passed"] + outcomes["failed"]
    lines = [
        f"{len(cases)} cases of {len({_function(c['test']) for c in cases})} tests: "
        + ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        + (f"; {outcomes['passed'] / ran:.1%} of those that ran" if ran else "")
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for case in cases:
        if case["outcome"] != "passed":
            groups[case["outcome"], reason_of(case)].append(case)
    for (outcome, reason), members in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        lines.append(f"{len(members):6}  {outcome}: {reason}")
        if outcome == "failed":
            first = list({_function(c["test"]): c for c in reversed(members)}.values())[:show]
            lines += [f"        {case['test'].partition('::')[2]}: {_short(case['why'])}" for case in first]
    return "\n".join(lines)


def _short(why: str) -> str:
    """The beginning of a message, on one line, from what pyptx found on."""
    return " ".join(why.split("of this test:\n")[-1].split())[:200]


def consan_table(cases: list[dict[str, Any]], show: int) -> str:
    """Seeded bugs that were found, right variants with nothing to say of, and what is said of the others."""
    ran = [c for c in cases if c["outcome"] in ("passed", "failed") and (c["launches"] or c["failure"])]
    for case in ran:
        if case["failure"]:
            case["errors"].append(("the launch fails", case["failure"]))
    seeded = [c for c in ran if _is_seeded(c)]
    right = [c for c in ran if not _is_seeded(c)]
    missed = [c for c in seeded if not c["errors"]]
    loud = [c for c in right if c["errors"]]
    lines = [
        f"seeded bugs found: {len(seeded) - len(missed)} of {len(seeded)}",
        *(f"        missed: {c['test'].partition('::')[2]}: {_short(c['why'])}" for c in missed),
        f"right variants without an error: {len(right) - len(loud)} of {len(right)}; with neither error nor warning: "
        f"{sum(not c['errors'] and not c['warnings'] for c in right)}",
    ]
    by_rule: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for case in loud:
        by_rule[tuple(sorted({rule for rule, _ in case["errors"]}))].append(case)
    for rules, members in sorted(by_rule.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(members):6}  {', '.join(rules)}")
        lines += [f"        {c['test'].partition('::')[2]}: {c['errors'][0][1][:200]}" for c in members[:show]]
    warned = Counter(rule for case in right for rule in {rule for rule, _ in case["warnings"]})
    lines += [f"{count:6}  warning: {rule}" for rule, count in warned.most_common()]
    return "\n".join(lines)


def _is_seeded(case: dict[str, Any]) -> bool:
    """Whether a test wants its kernel to fail: it looked at the message, or missed the failure."""
    return bool(case["wanted"]) or "is not None" in case["why"]


def _function(test: str) -> str:
    return test.partition("[")[0]


def run(suite: Suite, folder: Path, log: Path, asked: argparse.Namespace) -> None:
    """pytest in a process of its own; what is known of each case goes to `log`."""
    path = os.pathsep.join([str(ROOT), *(str(folder / f) for f in suite.folders), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **suite.environment, "PYTHONPATH": path}
    selected = asked.k or suite.skipped
    command = [
        sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-p", "benchmarks._suite_plugin",
        f"--pyptx={asked.options or suite.options}", f"--suite-log={log}", f"--suite-one-in={asked.one_in}", f"--suite-seed={asked.seed}",
        f"--suite-minutes={asked.minutes}", f"--suite-limit={asked.limit}", *(["-k", selected] if selected else []),
        *(["--suite-findings"] if asked.suite == "consan" else []), str(folder / suite.tests),
    ]  # fmt: skip
    if "pyptx" not in _plugins():
        command[4:4] = ["-p", "pyptx.adapters.pytest_plugin"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not log.exists():
        sys.exit(f"pytest ran no test:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def _plugins() -> set[str]:
    from importlib.metadata import entry_points

    return {entry.name for entry in entry_points(group="pytest11")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("folder", type=Path, nargs="?", help="of the repository")
    parser.add_argument("-k", default="")
    parser.add_argument("--one-in", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--limit", type=int, default=120, help="seconds for a test")
    parser.add_argument("--options", default="", help="of pytest --pyptx")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--show", type=int, default=3, help="examples of each reason")
    asked = parser.parse_args()
    with TemporaryDirectory() as temporary:
        log = asked.read or (asked.log.resolve() if asked.log else Path(temporary) / "log.jsonl")
        if asked.read is None:
            if asked.folder is None:
                parser.error("name the folder of the repository")
            run(SUITES[asked.suite], asked.folder.resolve(), log, asked)
        cases = [json.loads(line) for line in log.read_text().splitlines()]
    print(table(cases, asked.show))
    if asked.suite == "consan":
        print(consan_table(cases, asked.show))


if __name__ == "__main__":
    main()
