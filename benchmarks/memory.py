"""Memory of a process that reads very many files, or traces one kernel very many times: it must reach a plateau.

python -m benchmarks.memory [--files 100000] [--traces 20000]

Every file is a mutation that nobody has read before: other constants, names, types, comments, broken places. Printed is the
resident memory (MB) at twenty points of the run, and how often everything remembered was forgotten.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Callable
from pathlib import Path

import pyptx
from benchmarks.growth_shapes import SHAPES
from pyptx import Tile, kernel, ptx, reg
from pyptx.dialects.ptx import memo
from pyptx.types import f32

WORDS = (
    ".u32",
    ".s64",
    ".f16x2",
    ".rn",
    ".sat",
    ".global",
    ".shared",
    ".v2",
    ".wide",
    ".volatile",
    "%laneid",
    "0x7f",
    "{",
    "}",
    ";",
    ",",
)


def resident() -> float:
    """Megabytes of memory that the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def files() -> list[Callable[[random.Random], str]]:
    """Ways to make one more text."""
    return [lambda r, s=s: mutated(s.text(r.randrange(8, 25)), r) for s in SHAPES if s.name != "deep loops"]


def mutated(text: str, r: random.Random) -> str:
    """The text with other numbers and names, a comment, and perhaps a broken place."""
    lines = text.split("\n")
    for _ in range(r.randrange(1, 12)):
        at = r.randrange(3, len(lines))
        line = lines[at]
        match r.randrange(5):
            case 0:
                lines[at] = line.replace("1", str(r.randrange(10**9)), 1)
            case 1:
                lines[at] = f"{line} // {r.randrange(10**9)}"
            case 2:
                lines[at] = line.replace("r", f"r{r.randrange(10**6)}", 1)
            case 3:
                words = line.split(" ")
                words.insert(r.randrange(len(words) + 1), r.choice(WORDS))
                lines[at] = " ".join(words)
            case _:
                lines.insert(at, lines[r.randrange(3, len(lines))])
    name = f"k{r.randrange(10**9)}"
    return "\n".join(lines).replace(".entry k(", f".entry {name}(").replace("%f", f"%f{r.randrange(10**5)}_")


def read(text: str) -> None:
    """Everything that a text goes through."""
    pyptx.diagnose(text)
    try:
        pyptx.to_ptx(pyptx.parse(text, allow_unknown=True))
    except pyptx.PTXError:
        pass


def scaled() -> pyptx.Kernel:
    """A kernel whose text has its size in many places."""

    @kernel(arch="sm_90a", in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),), grid=(1, 1, 1), block=(32, 1, 1))
    def scale(x, y, *, N=None):  # pyright: ignore
        px, py = ptx.global_ptrs(x, y)
        for k in range(8):
            i = ptx.special.tid.x() + (N + 1) * k
            with ptx.if_(i < N):
                a = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(px + N * 8 + k))
                ptx.inst.st.global_.f32(ptx.addr(py + N * 4 + k), a)

    return scale


def followed(what: str, count: int, once: Callable[[int], object]) -> None:
    """Do something so often, and print the memory on the way."""
    print(f"{what}: {count}")
    forgotten = 0
    last = memo.Memo.entries
    for i in range(count):
        once(i)
        forgotten += memo.Memo.entries < last
        last = memo.Memo.entries
        if (i + 1) % max(count // 20, 1) == 0:
            gc.collect()
            print(f"{i + 1:>9}  {resident():7.1f} MB  {last:>7} entries, forgotten {forgotten} times", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--traces", type=int, default=20_000)
    options = arguments.parse_args()
    ways, r = files(), random.Random(1)
    followed("mutated files", options.files, lambda i: read(ways[i % len(ways)](r)))
    scale = scaled()
    followed("traces of one kernel", options.traces, lambda i: scale.ptx(N=1000 + i))


if __name__ == "__main__":
    main()
