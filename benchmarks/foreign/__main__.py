"""Right kernels of others, generated here and run under the sanitizer.

    python -m benchmarks.foreign --python /tmp/foreign/bin/python --examples .../examples/python/CuTeDSL/cute

`--python` is a Python with nvidia-cutlass-dsl, triton, nvidia-cuda-nvcc and nvidia-cuda-cccl; a source whose package it does not have is skipped, and
said. `--examples` is the folder of that name of github.com/NVIDIA/cutlass. Printed for each kernel: silent, or what was found;
warnings by rule; instructions of threads; seconds; the error of its numbers.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .judge import judge

HERE = Path(__file__).parent
SOURCES = {"cute": "cutlass", "triton": "triton", "gluon": "triton.experimental.gluon", "cuda": "nvidia.cu13"}
"""Source -> the package that a Python needs for it."""
ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")


def generate(source: str, python: str, examples: str, folder: Path) -> str:
    """Write the cases of a source; what there is to say if it is skipped."""
    has = subprocess.run([python, "-c", f"import {SOURCES[source]}"], capture_output=True, check=False)
    if has.returncode:
        return f"{source}: skipped: {python} has no package {SOURCES[source]}"
    if source == "cute" and not Path(examples).is_dir():
        return f"{source}: skipped: --examples does not name a folder"
    for arch in ARCHS:
        more = [examples, arch] if source == "cute" else [arch]
        done = subprocess.run(
            [python, str(HERE / f"{source}_kernels.py"), str(folder), *more],
            capture_output=True,
            text=True,
            check=False,
        )
        lost = [line for line in done.stdout.splitlines() if "not generated" in line or "stopped" in line]
        print(
            *lost,
            *(done.stderr.splitlines()[-1:] if done.returncode else ()),
            sep="\n",
            end="\n" if lost or done.returncode else "",
        )
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.foreign", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--python", default=sys.executable, help="the Python that generates kernels")
    parser.add_argument("--examples", default="", help="examples/python/CuTeDSL/cute of NVIDIA/cutlass")
    parser.add_argument("--sources", nargs="*", default=[*SOURCES], choices=[*SOURCES])
    parser.add_argument("--cases", help="keep the cases in this folder, or run those that are there")
    parser.add_argument("--only", default="", help="kernels with this in their name")
    options = parser.parse_args()
    counts: Counter[tuple[str, bool]] = Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(options.cases or temporary)
        for source in options.sources:
            folder = root / source
            if not any(folder.glob("*.json")):
                said = generate(source, options.python, options.examples, folder)
                if said:
                    print(said)
            for file in (f for f in sorted(folder.glob("*.json")) if options.only in f.name):
                v = judge(file)
                counts[source, v.silent] += 1
                warned = ", ".join(f"{rule} {n}" for rule, n in v.warnings.items())
                print(
                    f"{v.name:48} {'silent' if v.silent else 'FOUND ':6} {v.steps:>11,} {v.seconds:6.1f} s  {v.difference:8.1e}  {warned}",
                    flush=True,
                )
                for error in v.errors[:3]:
                    print("    " + error.partition("\n")[0][:300])
    print(f"{time.perf_counter() - start:.0f} s")
    for source in options.sources:
        total = counts[source, True] + counts[source, False]
        print(f"{source}: {counts[source, True]} of {total} without an error")
    return 1 if any(n for (_, silent), n in counts.items() if not silent) else 0


if __name__ == "__main__":
    sys.exit(main())
