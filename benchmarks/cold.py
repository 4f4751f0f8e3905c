"""What a fresh process takes: to import pyptx, to check a file (next to ptxas), to parse a first file.

python -m benchmarks.cold [--runs N] [--every N] [--against CHECKOUT]

Times are CPU seconds (user and system) of child processes, the smallest of all runs, since the machines are shared;
bytecode is compiled beforehand, as it is in an installed package. `--against` runs the same commands on another
checkout in turns and prints both. First parses are of the corpus's files of more than 500 lines (every N-th of them), each
in a process of its own that has imported all that a parse imports and has read a module without functions.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._table import Table
from pyptx.runtime.ptxas import ToolNotFound, find_tool

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
FILE = ROOT / "examples" / "transpile" / "gemm.ptx"
EMPTY = ".version 8.0\n.target sm_90\n.address_size 64\n"
LEAST_LINES = 500

PYTHON = {
    "python, nothing imported": (["-c", "pass"], None),
    "import xdsl.dialects.builtin": (["-c", "import xdsl.dialects.builtin"], None),
    "import pyptx; pyptx.parse": (["-c", "import pyptx; pyptx.parse"], 0.2),
    "parse (import included)": (["-c", f"import pyptx; pyptx.parse({str(FILE)!r})"], None),
    "check --no-ptxas": (["-m", "pyptx", "check", "--no-ptxas", str(FILE)], 0.25),
    "check": (["-m", "pyptx", "check", str(FILE)], None),
}
"""What is run -> arguments of Python, and the CPU seconds that it may take."""


def seconds(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """CPU time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processes(runs: int, against: Path | None) -> Table:
    table = Table(f"a fresh process, {FILE.name} of {FILE.read_text().count(chr(10))} lines", "CPU s")
    commands: dict[str, tuple[list[str], float | None]] = {
        name: ([sys.executable, *arguments], most) for name, (arguments, most) in PYTHON.items()
    }
    try:
        commands["ptxas"] = ([str(find_tool("ptxas")), "-arch=sm_90a", str(FILE), "-o", os.devnull], None)
    except ToolNotFound:
        del commands["check"]
    folders = [ROOT, *([against] if against is not None else [])]
    with tempfile.TemporaryDirectory() as cache:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": "."}
        for name, (command, most) in commands.items():
            times: dict[Path, list[float]] = {folder: [] for folder in folders}
            for _ in range(runs + 1):  # the first compiles the bytecode
                for folder in folders:
                    times[folder].append(seconds(command, folder, environment))
            best = [min(times[folder][1:]) for folder in folders]
            note = f"{best[1]:.3f} in {against}, {best[0] / best[1]:.2f} of it" if against is not None else ""
            table.add(name, best[0], at_most=most, note=note)
    return table


def first_parses(every: int) -> Table:
    """Lines per second of first parses, the slowest first."""
    import pyptx
    from pyptx.dialects.ptx import all as _chapters  # noqa: F401  # pyright: ignore[reportUnusedImport]

    pyptx.parse(EMPTY)
    rates: list[tuple[float, str, int]] = []
    gc.collect()  # not gc.freeze(): with frozen objects a parse ends in a collection that a fresh process has not
    files = sorted(CORPUS.rglob("*.ptx"))
    texts = [(path, path.read_text(encoding="utf-8", errors="surrogateescape")) for path in files]
    for path, text in [(p, t) for p, t in texts if t.count("\n") > LEAST_LINES][::every]:
        taken = _forked(text)
        lines = text.count("\n")
        rates.append((lines / taken, str(path.relative_to(CORPUS)), lines))
    rates.sort()
    table = Table(f"first parse in a process, {len(rates)} files", "lines/s")
    for rate, name, lines in rates[:5] + rates[len(rates) // 2 : len(rates) // 2 + 1] + rates[-1:]:
        table.add(name, rate, at_least=30_000, note=f"{lines} lines")
    table.add("files that reach it", sum(rate >= 30_000 for rate, _, _ in rates), at_least=len(rates))
    return table


def _forked(text: str) -> float:
    """CPU seconds of a parse in a child of this process."""
    import pyptx

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        start = time.process_time()
        pyptx.parse(text)
        os.write(writing, repr(time.process_time() - start).encode())
        os._exit(0)
    os.close(writing)
    taken = float(os.read(reading, 64))
    os.close(reading)
    os.waitpid(child, 0)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each command, of which the shortest counts")
    parser.add_argument("--every", type=int, default=1, help="parse every N-th file of the corpus only")
    parser.add_argument("--against", type=Path, help="another checkout, to be run in turns with this one")
    options = parser.parse_args()
    processes(options.runs, options.against).print()
    if CORPUS.exists():
        first_parses(options.every).print()


if __name__ == "__main__":
    main()
