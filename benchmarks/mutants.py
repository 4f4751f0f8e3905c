"""Mutation testing: would the tests notice? Small changes of the source (cosmic-ray's operators), a sample of them, each with the
tests that run the changed line (`benchmarks/mutant_tests.py`).

    python -m benchmarks.mutants --sample 300 [--area passes] [--seed 1] [--folder FOLDER]

Works on a clone of HEAD. The tests near an area run once, to record which lines each of them runs; a mutant then takes a few
seconds. Prints the survivors with their diffs, and per area how many were killed. A survivor is a missing test, or a change that no
program can tell from the original: those are listed in `EQUIVALENT`, with the reason. With `--folder`, clone, records and cosmic-ray's
session databases stay there, and the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 150
"""Seconds for the tests of one mutant; what hangs is killed, too."""


@dataclass(frozen=True)
class Area:
    modules: tuple[str, ...]
    """Patterns of files."""
    tests: tuple[str, ...]
    """What pytest records: test modules or folders."""


AREAS = {
    "passes": Area(("pyptx/passes/**/*.py",), ("tests/passes", "tests/analysis")),
    "printer": Area(("pyptx/printer/*.py", "pyptx/ssa/*.py"), ("tests/ssa", "tests/parser", "tests/frontend")),
    "sanitizer": Area(("pyptx/simulator/sanitizer/**/*.py",), ("tests/simulator/sanitizer",)),
    "semantics": Area(("pyptx/simulator/semantics/*.py",), ("tests/simulator", "--ignore=tests/simulator/sanitizer")),
    "dialects": Area(("pyptx/dialects/ptx/*.py",), ("tests/dialects", "tests/parser", "tests/analysis")),
}
EQUIVALENT: dict[tuple[str, str], str] = {}
"""(file, the source line without its indentation) -> why no test can tell a mutant of this line."""


def files_of(area: Area, root: Path) -> list[Path]:
    found = {path for pattern in area.modules for path in root.glob(pattern) if path.name != "__init__.py"}
    return sorted(found)


def annotated(path: Path) -> set[tuple[int, int]]:
    """Places inside annotations and `if TYPE_CHECKING` blocks: nothing evaluates them."""
    places: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        parts: list[ast.AST | None] = []
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [
                *node.args.args,
                *node.args.kwonlyargs,
                *node.args.posonlyargs,
                node.args.vararg,
                node.args.kwarg,
            ]
            parts = [node.returns, *(a.annotation for a in arguments if a is not None)]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            parts = [node]
        for part in parts:
            for inner in ast.walk(part) if part is not None else ():
                if hasattr(inner, "lineno"):
                    places |= {(line, c) for line in range(inner.lineno, inner.end_lineno + 1) for c in range(inner.col_offset, inner.end_col_offset)}  # fmt: skip
    return places


def environment(clone: Path) -> dict[str, str]:
    paths = [str(clone), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def record(area: Area, clone: Path, records: Path) -> None:
    """Run the tests of an area, to learn which of them run a line."""
    if (records / "seconds.json").exists():
        return
    records.mkdir(parents=True, exist_ok=True)
    (records / "files.json").write_text(json.dumps([str(path) for path in files_of(area, clone)]))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "benchmarks.mutant_tests",
        *area.tests,
    ]
    recording = environment(clone) | {"MUTANT_RECORD": str(records)}
    del recording["PYTHONDONTWRITEBYTECODE"]  # what is compiled now serves all mutants
    subprocess.run(command, cwd=clone, env=recording, stdout=subprocess.DEVNULL, check=False)


def sampled(session: Path, clone: Path, count: int, rng: random.Random) -> None:
    """Keep a sample of the mutants of a session."""
    with sqlite3.connect(session) as database:
        rows = database.execute(
            "select job_id, module_path, start_pos_row, start_pos_col from mutation_specs"
        ).fetchall()
        kept: list[str] = []
        skipped = {path: annotated(clone / path) for path in {r[1] for r in rows}}
        lines = {path: (clone / path).read_text().split("\n") for path in skipped}
        rng.shuffle(rows)
        for job, path, row, column in rows:
            text = lines[path][row - 1].strip()
            if (row, column) not in skipped[path] and (path, text) not in EQUIVALENT and len(kept) < count:
                kept.append(job)
        marks = ",".join("?" * len(kept))
        for table in ("mutation_specs", "work_items"):
            database.execute(f"delete from {table} where job_id not in ({marks})", kept)


def run_area(name: str, clone: Path, count: int, rng: random.Random) -> list[tuple[str, str, str, str]]:
    """(file, source line, outcome, diff) of each mutant of the sample."""
    area, folder = AREAS[name], clone.parent / name
    record(area, clone, folder)
    session, config = folder / "session.sqlite", folder / "session.toml"
    tool = [str(Path(sys.executable).parent / "cosmic-ray")]
    if not session.exists():
        modules = ", ".join(f'"{path.relative_to(clone)}"' for path in files_of(area, clone))
        config.write_text(
            f"[cosmic-ray]\nmodule-path = [{modules}]\ntimeout = {TIMEOUT}.0\nexcluded-modules = []\n"
            f'test-command = "{sys.executable} -m benchmarks.mutant_tests {folder}"\n'
            '[cosmic-ray.distributor]\nname = "local"\n'
        )
        subprocess.run([*tool, "init", str(config), str(session)], cwd=clone, check=True)
        sampled(session, clone, count, rng)
    subprocess.run([*tool, "exec", str(config), str(session)], cwd=clone, env=environment(clone), check=True)
    with sqlite3.connect(session) as database:
        results = database.execute(
            "select module_path, start_pos_row, test_outcome, output, diff from mutation_specs join work_results using (job_id)"
        ).fetchall()
    lines = {path: (clone / path).read_text().split("\n") for path in {r[0] for r in results}}
    return [
        (path, lines[path][row - 1].strip(), "timeout" if output == "timeout" else str(outcome).lower(), diff or "")
        for path, row, outcome, output, diff in results
    ]


def clone_of_head(clone: Path) -> None:
    if clone.exists():
        subprocess.run(["git", "checkout", "-q", "."], cwd=clone, check=True)
        return
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    for extension in (ROOT / "pyptx" / "runtime").glob("_launcher*.so"):
        shutil.copy(extension, clone / "pyptx" / "runtime")
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        (clone.parent / "shared").symlink_to(shared)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="mutants in all")
    parser.add_argument("--area", choices=AREAS, action="append", help="these areas only")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--folder", type=Path, help="where clone, records and sessions are kept")
    options = parser.parse_args()
    if missing := [name for name in ("cosmic_ray", "coverage") if importlib.util.find_spec(name) is None]:
        print(f"not installed: pip install {' '.join(missing)}", file=sys.stderr)
        return 2
    areas = options.area or list(AREAS)
    print(f"seed {options.seed}", flush=True)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(options.folder or temporary).resolve() / "house" / "main"
        clone_of_head(clone)
        for name in areas:
            found = run_area(name, clone, options.sample // len(areas), random.Random(f"{options.seed} {name}"))
            for path, line, outcome, diff in found:
                if outcome.endswith("survived"):
                    print(f"--- {path}: {line}\n{diff}")
            counts = Counter(outcome.rpartition(".")[2] for _, _, outcome, _ in found)
            print(f"{name}: {len(found)} mutants, {dict(counts)}", flush=True)
            total += counts
    killed = total["killed"] + total["timeout"]
    print(f"all: {killed} of {total.total()} killed ({100 * killed / max(1, total.total()):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
