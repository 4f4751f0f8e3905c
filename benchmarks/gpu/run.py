"""One script for a machine with a GPU: are the kernels right on it, and how fast is everything.

    python benchmarks/gpu/run.py --minutes 4                 # on the GPU machine
    python benchmarks/gpu/run.py --fake --minutes 2          # here: a driver that records, CPU tensors, tiny sizes
    python benchmarks/gpu/run.py --fake 100                  # the same for a GPU of compute capability 10.0
    python benchmarks/gpu/run.py --pack                      # here, before: wheels for a machine without a network

The checks are in `checks.py`, the most telling first, and run in a process of their own. One that hangs is stopped after
its time, one that loses the CUDA context is reported, and another process goes on with the next: no check can take the
others with it. What time does not allow is listed as not run. The table comes last; `$OUT/gpu.json` is written anew after
every check. README.md next to this file has the command for a lent machine.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[0:1] = [str(HERE.parents[1])]

from benchmarks.gpu.checks import MARK, SECTIONS, Row  # noqa: E402

WHEELS = HERE / "wheels"
PACKAGES = ("xdsl>=0.75,<0.76", "immutabledict<4.3.2", "ordered-set==4.1", "typing-extensions<5,>=4.13")
START = 120.0
"""Seconds that a process may take to import torch and open the GPU."""


@dataclass
class Results:
    """What is known so far, kept in a file."""

    fake: bool
    path: Path
    started: float = field(default_factory=time.monotonic)
    facts: dict[str, str] = field(default_factory=dict[str, str])
    plan: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    rows: list[Row] = field(default_factory=list[Row])

    def add(self, row: Row) -> None:
        self.rows.append(row)
        seconds = time.monotonic() - self.started
        print(f"{seconds:6.1f} s  {row.section:12} {row.status:11} {row.name}  {row.note[:200]}", flush=True)
        self.write()

    def write(self) -> None:
        content = {"facts": self.facts, "fake": self.fake, "rows": [asdict(r) for r in self.rows]}
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(content, indent=1))
        os.replace(partial, self.path)


class Worker:
    """A process that runs the checks from one on, and what it says as a queue of dicts; None when it has ended."""

    def __init__(self, start: int, options: argparse.Namespace, packages: str) -> None:
        command = [sys.executable, str(HERE / "checks.py"), "--start", str(start)]
        command += ["--fake", str(options.fake)] + (["--only", *options.only] if options.only else [])
        paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", ""), packages]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.noise: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.said.put(json.loads(line.removeprefix(MARK)))
            else:
                self.noise = [*self.noise[-30:], line.rstrip()]
        self.said.put(None)

    def stop(self) -> None:
        """End it and what it started, hung on the GPU or not."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:  # the driver holds it until the GPU lets go
            print("a process that was killed has not ended", flush=True)


def run_from(start: int, results: Results, options: argparse.Namespace, packages: str, deadline: float) -> int | None:
    """Run checks from number `start` in one process. The number to go on with in another one; None: that is all."""
    worker = Worker(start, options, packages)
    current, limit = start, time.monotonic() + START
    begun = False
    try:
        while True:
            until = min(limit, deadline)
            try:
                said = worker.said.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                if until == deadline:
                    return None
                if not begun:
                    results.add(Row("start", "the process", "HUNG", note=f"no check began in {START:.0f} s"))
                    return None
                results.add(Row(*results.plan[current], status="HUNG", note="stopped after its time"))
                return current + 1
            if said is None:
                last = " | ".join(worker.noise[-3:])
                if not begun:
                    results.add(Row("start", "the process", "FAILED", note=last))
                    print("\n".join(worker.noise), flush=True)
                    return None
                if current < len(results.plan):
                    results.add(Row(*results.plan[current], status="FAILED", note=f"the process ended: {last}"))
                return current + 1
            if "problem" in said:
                results.add(Row("start", "the process", "FAILED", note=said["problem"]))
                return None
            if "facts" in said:
                results.facts = said["facts"]
            elif "plan" in said:
                results.plan = [(section, name) for section, name in said["plan"]]
            elif "begin" in said:
                begun, current, limit = True, said["begin"], time.monotonic() + said["limit"]
            elif "row" in said:
                results.add(Row(**said["row"]))
                current, limit = said["index"] + 1, time.monotonic() + 30
                if said["lost"]:
                    return current
            elif "end" in said:
                return None
    finally:
        worker.stop()


def capability(text: str) -> int:
    """The compute capability of a fake GPU: one that the checks have kernels for."""
    known = ("75", "80", "86", "89", "90", "100", "103", "120")
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text} is not a compute capability of the checks: {', '.join(known)}")
    return int(text)


def main() -> int:
    arguments = argparse.ArgumentParser(description="checks and measurements on a GPU")
    arguments.add_argument("--minutes", type=float, default=4.0)
    arguments.add_argument("--only", nargs="+", choices=SECTIONS, help="these sections")
    arguments.add_argument(
        "--fake", nargs="?", type=capability, const=90, default=0, metavar="CC",
        help="a recording driver in place of a GPU, of compute capability 9.0, or 100 for 10.0",
    )  # fmt: skip
    arguments.add_argument("--json", type=Path, help="default: $OUT/gpu.json, else gpu.json here")
    arguments.add_argument("--pack", action="store_true", help="fetch the wheels for a machine without a network")
    options = arguments.parse_args()
    if options.pack:
        return pack()
    deadline = time.monotonic() + 60 * options.minutes
    results = Results(bool(options.fake), options.json or Path(os.environ.get("OUT", ".")) / "gpu.json")
    start: int | None = 0
    with tempfile.TemporaryDirectory() as scratch:
        for wheel in sorted(WHEELS.glob("*.whl")):  # pure Python, named as their modules: unpacked is installed
            if find_spec(wheel.name.partition("-")[0]) is None:
                zipfile.ZipFile(wheel).extractall(Path(scratch, "packages"))
        # one cache for all processes, so that a check that is run again compiles nothing
        os.environ.setdefault("PYPTX_CACHE_DIR", str(Path(scratch, "cache")))
        while start is not None and (start == 0 or start < len(results.plan)) and time.monotonic() < deadline:
            start = run_from(start, results, options, str(Path(scratch, "packages")), deadline)
    done = {(r.section, r.name) for r in results.rows}
    for section, name in results.plan:
        if (section, name) not in done:
            results.rows.append(Row(section, name, "not run", note="no time left"))
    results.write()
    report(results)
    bad = any(r.status in ("WRONG", "FAILED", "HUNG") for r in results.rows)
    return 1 if bad or not results.plan else 0


def pack() -> int:
    """Wheels for CPython 3.12 on x86-64 Linux."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--python-version", "3.12",
               "--implementation", "cp", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_17_x86_64",
               "--platform", "manylinux2014_x86_64", "-d", str(WHEELS), *PACKAGES]  # fmt: skip
    status = subprocess.run(command).returncode
    size = sum(wheel.stat().st_size for wheel in WHEELS.glob("*.whl"))
    print(f"{WHEELS}: {size / 2**20:.1f} MiB")
    return status


def report(results: Results) -> None:
    print("\n" + "\n".join(f"{name:20} {value}" for name, value in results.facts.items()) + "\n")
    if results.fake:
        print("a fake driver: kernels were compiled and launched, nothing ran, nothing was measured\n")
    order = {name: i for i, name in enumerate(("start", *SECTIONS))}
    quiet = ("ok", "not checked", "not run")
    shown = [r for r in results.rows if r.section != "differential" or r.status not in quiet]
    for row in sorted(shown, key=lambda r: order[r.section]):
        value = "" if row.value is None else f"{row.value:10.4g} {row.unit}"
        base = "" if row.baseline is None else f"{row.baseline:9.4g} {row.against}"
        ratio = "" if row.ratio is None else f"{row.ratio:5.2f}x"
        print(f"{row.section:12} {row.status:11} {row.name:38} {value:22} {base:26} {ratio:7} {row.note[:90]}".rstrip())
    counts = Counter(row.status for row in results.rows)
    print("\n" + ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) + f"; {results.path}")


if __name__ == "__main__":
    sys.exit(main())
