"""Random edits of small PTX texts, bytes and tokens, through diagnose, parse, print and analyse: no traceback.

    python -m benchmarks.mutations [--count 500000] [--seed 1] [--seconds 0] [--processes 2] [--show 20]

The texts are drawn from every area of `module_areas`; each is edited once or twice, at bytes or at tokens. Whatever comes out is
diagnosed and parsed; what parses must print back byte for byte, and one in ten is verified and analysed. Prints each exception that is
not the one for bad input, with the shortest text that raises it, and the number of texts that were tried; Ctrl-C and the end of
`--seconds` print what was found so far. Text number n of a seed is the same in any run.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyptx
from pyptx.analysis.report import analyse
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.verify import module_diagnostics

from .module_areas import AREAS, WHOLE
from .module_areas.draw import Draw, edited

EDITS_OF_A_TEXT = 25
"""How many edited texts are made of each drawn one."""
LONGEST = 400
"""Characters of a text: a fault needs few, and the time is that of reading them."""
CHUNK = 40 * EDITS_OF_A_TEXT
"""How many texts a process tries before it reports."""
CHUNKS_OF_A_PROCESS = 30
"""After so many a new process begins: what one remembers of odd texts is of no use to others."""


def bytes_edited(draw: Draw, text: str) -> str:
    """A text with a few characters dropped, doubled, exchanged or replaced by any byte."""
    data = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(draw.number(1, 3)):
        if not data:
            break
        at = draw.number(0, len(data) - 1)
        action = draw.number(0, 4)
        if action == 0:
            del data[at : at + draw.number(1, 6)]
        elif action == 1:
            data[at:at] = data[at : at + draw.number(1, 12)]
        elif action == 2:
            data[at] = draw.number(0, 255)
        elif action == 3:
            other = draw.number(0, len(data) - 1)
            data[at], data[other] = data[other], data[at]
        else:
            data[at:at] = draw.one(*'{}()[]<>;:,.%$_-+*/"#@!&|=?~^0U\n\r\t\0').encode()
    return bytes(data).decode("utf-8", "surrogateescape")


def tried(text: str, deep: bool) -> None:
    """Everything that reads a text; an exception that is not for bad input comes through."""
    found = pyptx.diagnose(text)
    assert all(d.message for d in found)
    try:
        module = pyptx.parse(text)
    except pyptx.PTXError:
        return
    assert pyptx.to_ptx(module) == text, "it does not print back as it was"
    if deep:
        list(module_diagnostics(module))
        for op in module.body.ops:
            if isinstance(op, ModuleOp):
                analyse(op)


def texts(seed: int, start: int, stop: int) -> Iterator[str]:
    """The edited texts of these numbers; `start` is a multiple of `EDITS_OF_A_TEXT`."""
    names = list(AREAS)
    for first in range(start, stop, EDITS_OF_A_TEXT):
        draw = Draw(f"{seed}/{first}")
        area = names[first // EDITS_OF_A_TEXT % len(names)]
        original = min((_original(draw, area) for _ in range(3)), key=lambda t: len(t) > LONGEST and len(t))
        for number in range(first, min(first + EDITS_OF_A_TEXT, stop)):
            edit = bytes_edited if number % 2 else edited
            text = edit(draw, original)
            yield edit(draw, text) if draw.chance(0.5) else text


def _original(draw: Draw, area: str) -> str:
    body = AREAS[area](draw)
    return body if area in WHOLE else draw.header() + body


@dataclass
class Found:
    """How many texts were tried, and what they raised."""

    tried: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    shortest: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, kind: str, text: str, count: int = 1) -> None:
        self.kinds[kind] += count
        if kind not in self.shortest or len(text) < len(self.shortest[kind]):
            self.shortest[kind] = text

    def merge(self, other: Found) -> None:
        self.tried += other.tried
        for kind, count in other.kinds.items():
            self.add(kind, other.shortest[kind], count)


def chunk(task: tuple[int, int, int]) -> Found:
    """Try the texts of these numbers of a seed."""
    found = Found()
    for number, text in enumerate(texts(*task)):
        found.tried += 1
        try:
            tried(text, number % 10 == 0)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            file = place.filename.rpartition("/")[2]
            found.add(f"{type(error).__name__} at {file}:{place.lineno}: {str(error)[:80]!r}", text)
    return found


def run(count: int, seed: int, seconds: float, processes: int) -> Found:
    """Try `count` texts, with a line of progress on stderr."""
    found = Found()
    began = time.monotonic()
    tasks = [(seed, start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with multiprocessing.Pool(processes, maxtasksperchild=CHUNKS_OF_A_PROCESS) as pool:
        try:
            for part in pool.imap_unordered(chunk, tasks):
                found.merge(part)
                spent = time.monotonic() - began
                line = f"{found.tried} texts, {found.tried / spent:.0f} a second, {len(found.kinds)} kinds of traceback"
                print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)
                if seconds and spent > seconds:
                    break
        except KeyboardInterrupt:
            pass
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=500_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=0, help="stop after so many")
    arguments.add_argument("--processes", type=int, default=2)
    arguments.add_argument("--show", type=int, default=20)
    options = arguments.parse_args()
    found = run(options.count, options.seed, options.seconds, options.processes)
    for kind, number in found.kinds.most_common(options.show):
        print(f"{number:6} {kind}\n       {found.shortest[kind]!r}")
    print(f"{found.tried} texts, {found.kinds.total()} with a traceback, of {len(found.kinds)} kinds")


if __name__ == "__main__":
    main()
