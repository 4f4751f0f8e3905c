"""Mutation testing: would the tests notice? Small changes of the source (cosmic-ray's operators), a sample of them, each with the
tests that run the changed line (`benchmarks/mutant_tests.py`).

    python -m benchmarks.mutants --sample 300 [--area passes] [--seed 1] [--folder FOLDER] [--minutes 60]

Works on a clone of HEAD. The tests run once, to record which lines each of them runs. A mutant is then judged in a forked process
that has everything but pyptx and the tests imported, which takes a few seconds. Prints the survivors with their diffs, and per area
how many were killed. A survivor is a missing test, or a change that no program can tell from the original: those are in
`benchmarks/mutants_equivalent.tsv`, with the reason. With `--folder`, clone, record and results stay there, and the same command
continues after an interruption.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import csv
import difflib
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SLOW = 12
"""Test cases in a process that imports everything."""
AREAS = {
    "passes": ("pyptx/passes/**/*.py",),
    "printer": ("pyptx/printer/*.py", "pyptx/ssa/*.py"),
    "sanitizer": ("pyptx/simulator/sanitizer/**/*.py",),
    "semantics": ("pyptx/simulator/semantics/*.py",),
    "dialects": ("pyptx/dialects/ptx/*.py",),
}
"""Patterns of files."""
TESTS = [f"tests/{name}" for name in "passes analysis ssa parser frontend simulator dialects numerics tools codegen".split()]  # fmt: skip
EQUIVALENT = ROOT / "benchmarks" / "mutants_equivalent.tsv"
"""File, source line without its indentation, changed line (empty: any change), and why no test can tell them apart."""
UNCHANGED = {"name", "string", "newline", "endmarker", "fstring_start", "fstring_string", "fstring_end"}
"""Leaves that no operator changes."""
SPEED_ONLY = {"cache", "lru_cache", "cached_property", "dataclass", "override", "final", "staticmethod", "overload"}
"""Decorators, with their arguments, whose change only a profile or a type checker can tell."""
CHECKS_ONLY = {"strict", "frozen", "slots", "repr", "kw_only", "maxsize", "stacklevel"}
"""Arguments of calls, the same."""


@dataclass(frozen=True)
class Mutant:
    area: str
    file: str
    line: int
    column: int
    operator: str


def files_of(area: str, root: Path) -> list[Path]:
    found = {path for pattern in AREAS[area] for path in root.glob(pattern) if path.name != "__init__.py"}
    return sorted(found)


def told_by_no_test(tree: ast.AST) -> Iterator[ast.AST]:
    """Parts of a module that nothing evaluates, that only make it faster, or that are words of a message."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            a = node.args
            arguments = [*a.args, *a.kwonlyargs, *a.posonlyargs, a.vararg, a.kwarg]
            yield from filter(None, [node.returns, *(x.annotation for x in arguments if x is not None)])
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from (d for d in node.decorator_list if name_of(d) in SPEED_ONLY)
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
            if name_of(node.annotation) == "TypeAlias" and node.value is not None:
                yield node.value
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
            yield node
        if isinstance(node, ast.keyword) and node.arg in CHECKS_ONLY:
            yield node.value
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from (part for part in ast.walk(node.exc) if isinstance(part, ast.JoinedStr))


def name_of(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def skipped_places(text: str) -> set[tuple[int, int]]:
    places: set[tuple[int, int]] = set()
    lengths = [len(line) for line in text.split("\n")]
    for part in told_by_no_test(ast.parse(text)):
        for inner in ast.walk(part):
            if isinstance(inner, (ast.expr, ast.stmt)) and inner.end_lineno is not None:
                for line in range(inner.lineno, inner.end_lineno + 1):
                    first = inner.col_offset if line == inner.lineno else 0
                    last = inner.end_col_offset if line == inner.end_lineno else lengths[line - 1]
                    places |= {(line, column) for column in range(first, last or 0)}
                # the decorator's `@`
                places.add((inner.lineno, inner.col_offset - 1))
    return places


def operators() -> dict[str, Any]:
    import cosmic_ray.plugins as plugins

    found = {name: plugins.get_operator(name) for name in plugins.operator_names()}
    return {name: kind() for name, kind in found.items() if not kind.arguments()}


def sample(area: str, clone: Path, count: int, rng: random.Random) -> list[Mutant]:
    """One mutant of each of some lines. A walk with all operators over all files takes minutes, so that only nodes of random lines are
    asked for theirs.
    """
    import parso
    from cosmic_ray.ast import ast_nodes

    texts = {str(path.relative_to(clone)): path.read_text() for path in files_of(area, clone)}
    lines = [(file, n) for file, text in texts.items() for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    wanted: dict[str, set[int]] = defaultdict(set)
    for file, line in rng.sample(lines, min(len(lines), 6 * count)):
        wanted[file].add(line)
    kinds, found = operators(), dict[tuple[str, int], list[Mutant]]()
    for file, chosen in wanted.items():
        skipped = skipped_places(texts[file])
        for node in ast_nodes(parso.parse(texts[file])):
            if node.start_pos[0] in chosen and node.type not in UNCHANGED:
                positions = (
                    (name, start) for name, kind in kinds.items() for start, _ in kind.mutation_positions(node)
                )
                for name, start in positions:
                    if start not in skipped:
                        found.setdefault((file, start[0]), []).append(Mutant(area, file, start[0], start[1], name))
    return [rng.choice(mutants) for mutants in rng.sample(list(found.values()), min(count, len(found)))]


def mutated(text: str, mutant: Mutant, kind: Any) -> str | None:
    """The text with the mutation; cosmic-ray counts the places of an operator."""
    import parso
    from cosmic_ray.ast import ast_nodes
    from cosmic_ray.mutating import mutate_code

    starts = [start for node in ast_nodes(parso.parse(text)) for start, _ in kind.mutation_positions(node)]
    return mutate_code(text, kind, starts.index((mutant.line, mutant.column)))


def sampled(kept: Path, clone: Path, areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """The sample of these areas, in a random order; kept, so that a later run continues."""
    if kept.exists():
        return [Mutant(**fields) for fields in json.loads(kept.read_text())]
    chosen: list[Mutant] = []
    for area in areas:
        chosen += sample(area, clone, count // len(areas), random.Random(f"{seed} {area}"))
    random.Random(seed).shuffle(chosen)
    kept.write_text(json.dumps([asdict(mutant) for mutant in chosen]))
    return chosen


def environment(clone: Path) -> dict[str, str]:
    paths = [str(clone), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def record(clone: Path, records: Path) -> None:
    """Run the tests, to learn which of them run a line."""
    if (records / "seconds.json").exists():
        return
    records.mkdir(parents=True, exist_ok=True)
    (records / "files.json").write_text(json.dumps([str(path) for area in AREAS for path in files_of(area, clone)]))
    options = ["-q", "-p", "no:cacheprovider", "-p", "benchmarks.mutant_tests"]
    command = [sys.executable, "-m", "pytest", *options, *TESTS]
    recording = environment(clone) | {"MUTANT_RECORD": str(records)}
    subprocess.run(command, cwd=clone, env=recording, stdout=subprocess.DEVNULL, check=False)


def preload(clone: Path) -> None:
    """Import what pyptx and its tests import, but not them: each mutant imports its own."""
    code = (
        "import sys, pytest, hypothesis, tests.conftest, pyptx, pyptx.simulator, pyptx.parser, pyptx.tools.cli, xdsl.xdsl_opt_main;"
        "print(*(m for m in sys.modules if m.split('.')[0] not in ('pyptx', 'tests', '__main__', 'torch', 'jax', 'triton')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=clone, env=environment(clone), capture_output=True, text=True, check=True)  # fmt: skip
    for name in done.stdout.split():
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
            importlib.import_module(name)
    assert "pyptx" not in sys.modules


def run_tests(clone: Path, records: Path, seconds: dict[str, float], cases: Sequence[str]) -> str:
    """ "survived", "killed" or "timeout", of a process that imports the changed tree."""
    from .mutant_server import forked

    def work() -> int:
        import pytest

        from .mutant_tests import Judged

        os.chdir(clone)
        os.environ |= environment(clone) | {"PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(clone))
        files = dict.fromkeys(case.partition("::")[0] for case in cases)
        code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *files], plugins=[Judged(seconds, cases)])
        return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)

    return forked(work, records / "last.log")


def run_lit(clone: Path, file: str) -> str:
    from .mutant_tests import lit_tests

    chosen = lit_tests(clone, file)
    if not chosen:
        return "survived"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["lit", "-q", *map(str, chosen)], check=False, cwd=clone, env=environment(clone) | {"PATH": path}, stdout=subprocess.DEVNULL)  # fmt: skip
    return "killed" if done.returncode else "survived"


class Judge:
    """Says what the tests say of a mutant."""

    def __init__(self, clone: Path, records: Path) -> None:
        from .mutant_server import serve

        self.clone, self.records = clone, records
        self.seconds: dict[str, float] = json.loads((records / "seconds.json").read_text())
        preload(clone)
        self.server, other = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process
        process(target=serve, args=(other, self.server, clone, self.seconds, records / "last.log"), daemon=True).start()
        self.server.recv()

    def outcome(self, mutant: Mutant, before: str, after: str) -> str:
        from .mutant_tests import named_cases, tests_for

        path = self.clone / mutant.file
        cases = tests_for(self.records, mutant.file, mutant.line, self.seconds)
        cases += [case for case in named_cases(mutant.file, self.seconds) if case not in cases]
        self.server.send((path, before, after, cases))
        outcome = self.server.recv()
        if outcome not in ("survived", "unknown"):
            return outcome
        # The forms of instructions are compiled at import, by functions; elsewhere import runs no function that counts.
        imported = outcome == "unknown" or mutant.file.startswith("pyptx/dialects")
        with changed(path, after):
            if (
                cases
                and imported
                and (outcome := run_tests(self.clone, self.records, self.seconds, cases[:SLOW])) != "survived"
            ):
                return outcome
            if (outcome := run_lit(self.clone, mutant.file)) != "survived":
                return outcome
        return "survived" if cases else "no test"


@contextlib.contextmanager
def changed(path: Path, text: str) -> Generator[None]:
    """The file has this text; afterwards its own, and its time, so that its bytecode stays valid."""
    before, status = path.read_text(), path.stat()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def judged(mutant: Mutant, judge: Judge, kinds: dict[str, Any], reasons: dict[tuple[str, str, str], str]) -> dict[str, Any]:  # fmt: skip
    """The outcome of a mutant, with its diff."""
    before = (judge.clone / mutant.file).read_text()
    after = mutated(before, mutant, kinds[mutant.operator])
    source = before.split("\n")[mutant.line - 1].strip()
    diff = list(difflib.unified_diff(before.split("\n"), (after or before).split("\n"), lineterm="", n=0))[3:]
    new = " ".join(line[1:].strip() for line in diff if line[0] == "+")
    result = asdict(mutant) | {"source": source, "diff": "\n".join(diff)}
    if any((mutant.file, source, change) in reasons for change in ("", new)):
        return result | {"outcome": "equivalent"}
    try:
        assert after is not None
        compile(after, mutant.file, "exec")
    except (SyntaxError, AssertionError):
        return result | {"outcome": "invalid"}
    return result | {"outcome": judge.outcome(mutant, before, after)}


def equivalents() -> dict[tuple[str, str, str], str]:
    with EQUIVALENT.open(newline="") as file:
        return {(r[0], r[1], r[2]): r[3] for r in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if r and not r[0].startswith("#")}  # fmt: skip


def clone_of_head(clone: Path) -> None:
    if clone.exists():
        return
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    for extension in (ROOT / "pyptx" / "runtime").glob("_launcher*.so"):
        shutil.copy(extension, clone / "pyptx" / "runtime")
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        (clone.parent / "shared").symlink_to(shared)


def run(folder: Path, areas: Sequence[str], count: int, seed: int, end: float) -> list[dict[str, Any]]:
    """The results of the sample, as far as the time allows."""
    clone, records, results = folder / "house" / "main", folder / "record", folder / "results.jsonl"
    clone_of_head(clone)
    subprocess.run(["git", "checkout", "-q", "pyptx"], cwd=clone, check=True)
    record(clone, records)
    chosen = sampled(folder / f"sample-{seed}-{count}-{'-'.join(areas)}.json", clone, areas, count, seed)
    done: dict[Mutant, dict[str, Any]] = {}
    if results.exists():
        for result in map(json.loads, results.read_text().splitlines()):
            done[Mutant(**{name: result[name] for name in Mutant.__dataclass_fields__})] = result
    judge, kinds, reasons = Judge(clone, records), operators(), equivalents()
    for mutant in chosen:
        if mutant not in done and time.monotonic() < end:
            done[mutant] = judged(mutant, judge, kinds, reasons)
            with results.open("a") as file:
                file.write(json.dumps(done[mutant]) + "\n")
            if done[mutant]["outcome"] in ("survived", "no test"):
                report(done[mutant])
    return [done[m] for m in chosen if m in done]


def report(result: dict[str, Any]) -> None:
    print(f"--- {result['outcome']}: {result['file']}:{result['line']}\n{result['diff']}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="mutants in all")
    parser.add_argument("--area", choices=AREAS, action="append", help="these areas only")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--folder", type=Path, help="where clone, record and results are kept")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant starts after these")
    options = parser.parse_args()
    if missing := [name for name in ("cosmic_ray", "coverage") if importlib.util.find_spec(name) is None]:
        print(f"not installed: pip install {' '.join(missing)}", file=sys.stderr)
        return 2
    print(f"seed {options.seed}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary).resolve()
        found = run(folder, options.area or list(AREAS), options.sample, options.seed, end)
    for area in AREAS:
        if counts := Counter(r["outcome"] for r in found if r["area"] == area):
            print(f"{area}: {counts.total()} mutants, {dict(counts)}")
    outcomes = Counter(r["outcome"] for r in found)
    killed = outcomes["killed"] + outcomes["timeout"]
    told = killed + outcomes["survived"] + outcomes["no test"]
    print(f"all: {killed} of {told} killed ({100 * killed / max(1, told):.1f} %), {outcomes['equivalent']} equivalent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
