"""Mutation testing: would the tests notice? Small changes of the source (cosmic-ray's operators), a sample of them, each with the
nearest tests.

    python -m benchmarks.mutants --sample 300 [--area passes] [--seed 1]

Works on a clone of HEAD in a temporary folder. Prints the survivors with their diffs, and per area how many were killed. A survivor
is a missing test, or a change that no program can tell from the original: those are listed in `EQUIVALENT`, with the reason.
"""

from __future__ import annotations

import argparse
import ast
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
TIMEOUT = 180
"""Seconds for the tests of one mutant; what hangs is killed, too."""


@dataclass(frozen=True)
class Area:
    modules: tuple[str, ...]
    """Patterns of files."""
    tests: tuple[str, ...]
    """Arguments of pytest, the likeliest to notice first."""
    lit: str = ""
    """A folder of `tests/filecheck`."""


AREAS = {
    "dialects": Area(
        ("pyptx/dialects/ptx/*.py",),
        ("tests/dialects", "--deselect", "tests/dialects/test_tcgen05.py", "--ignore", "tests/dialects/test_fuzz_verdicts.py",
         "--ignore", "tests/dialects/test_arithmetic_verdicts.py", "tests/frontend"),
        "errors",
    ),
    "passes": Area(("pyptx/passes/*.py",), ("tests/passes", "tests/analysis"), "passes"),
    "semantics": Area(
        ("pyptx/simulator/semantics/*.py",),
        ("tests/simulator/test_instructions.py", "tests/simulator/test_arithmetic.py", "tests/simulator", "--ignore", "tests/simulator/sanitizer",
         "--ignore", "tests/simulator/test_triton.py"),
    ),
    "sanitizer": Area(("pyptx/simulator/sanitizer/**/*.py",), ("tests/simulator/sanitizer",)),
    "printer": Area(("pyptx/printer/*.py", "pyptx/ssa/*.py"), ("tests/ssa", "tests/parser/test_mlir.py", "tests/frontend", "tests/parser/test_edits.py"), "xdsl"),
}  # fmt: skip
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


def command_of(area: Area) -> str:
    """The shell command that fails where a test notices."""
    tests = f"{sys.executable} -m pytest -q -x -p no:cacheprovider -p no:randomly {' '.join(area.tests)}"
    lit = f"PATH={Path(sys.executable).parent}:$PATH lit -q tests/filecheck/{area.lit}"
    return f"bash -c 'export PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1; {f'{lit} && ' if area.lit else ''}{tests}'"


def run_area(area: Area, clone: Path, count: int, rng: random.Random) -> list[tuple[str, str, str, str]]:
    """(file, source line, outcome, diff) of each mutant of the sample."""
    session = clone / "session.sqlite"
    session.unlink(missing_ok=True)
    config = clone / "session.toml"
    modules = ", ".join(f'"{path.relative_to(clone)}"' for path in files_of(area, clone))
    config.write_text(
        f'[cosmic-ray]\nmodule-path = [{modules}]\ntimeout = {TIMEOUT}.0\nexcluded-modules = []\ntest-command = """{command_of(area)}"""\n'
        '[cosmic-ray.distributor]\nname = "local"\n'
    )
    tool = [str(Path(sys.executable).parent / "cosmic-ray")]
    subprocess.run([*tool, "init", "session.toml", "session.sqlite"], cwd=clone, check=True)
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
    subprocess.run([*tool, "exec", "session.toml", "session.sqlite"], cwd=clone, check=True)
    with sqlite3.connect(session) as database:
        results = database.execute(
            "select module_path, start_pos_row, test_outcome, diff from mutation_specs join work_results using (job_id)"
        ).fetchall()
    return [(path, lines[path][row - 1].strip(), str(outcome), diff or "") for path, row, outcome, diff in results]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300, help="mutants in all")
    parser.add_argument("--area", choices=AREAS, action="append", help="these areas only")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if shutil.which(str(Path(sys.executable).parent / "cosmic-ray")) is None:
        print("cosmic-ray is not installed: pip install cosmic-ray", file=sys.stderr)
        return 2
    areas = options.area or list(AREAS)
    print(f"seed {options.seed}")
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "house", "main")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for extension in (ROOT / "pyptx" / "runtime").glob("_launcher*.so"):
            shutil.copy(extension, clone / "pyptx" / "runtime")
        shared = ROOT.parent / "shared"
        if shared.is_dir():
            (clone.parent / "shared").symlink_to(shared)
        for name in areas:
            found = run_area(AREAS[name], clone, options.sample // len(areas), random.Random(f"{options.seed} {name}"))
            survivors = [item for item in found if "survived" in item[2].lower()]
            for path, line, _, diff in survivors:
                print(f"--- {path}: {line}\n{diff}")
            print(f"{name}: {len(found) - len(survivors)} of {len(found)} killed", flush=True)
            total += Counter(killed=len(found) - len(survivors), made=len(found))
    print(f"all: {total['killed']} of {total['made']} killed ({100 * total['killed'] / max(1, total['made']):.1f} %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
