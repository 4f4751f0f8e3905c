"""Random edits of small PTX texts, bytes and tokens, through diagnose, parse, print and analyse: no traceback.

    python -m benchmarks.mutations [--count 500000] [--seed 1] [--seconds 0] [--show 20]

The texts are drawn from every area of `module_areas`; each is edited 1 to 4 times, at bytes or at tokens. Whatever comes out is
diagnosed and parsed; what parses must print back byte for byte, and one in ten is analysed. Prints each exception that is not the one
for bad input, with the shortest text that raises it, and the number of texts that were tried.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import Counter
from collections.abc import Callable

import pyptx
from pyptx.analysis.report import analyse
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.verify import module_diagnostics

from .module_areas import AREAS, WHOLE
from .module_areas.draw import Draw, edited

EDITS_OF_A_TEXT = 25
"""How many edited texts are made of each drawn one."""


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


def texts(seed: int, count: int, use: Callable[[str, bool], None]) -> None:
    """Call `use(text, deep)` with `count` edited texts."""
    names = list(AREAS)
    for number in range(count):
        if number % EDITS_OF_A_TEXT == 0:
            draw = Draw(f"{seed}/{number}")
            area = names[number // EDITS_OF_A_TEXT % len(names)]
            body = AREAS[area](draw)
            original = body if area in WHOLE else draw.header() + body
        text = original  # pyright: ignore[reportPossiblyUnboundVariable]
        edit = bytes_edited if number % 2 else edited
        for _ in range(draw.number(1, 2)):  # pyright: ignore[reportPossiblyUnboundVariable]
            text = edit(draw, text)  # pyright: ignore[reportPossiblyUnboundVariable]
        use(text, number % 10 == 0)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=500_000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=0, help="stop after so many instead")
    arguments.add_argument("--show", type=int, default=20)
    options = arguments.parse_args()
    kinds: Counter[str] = Counter()
    shortest: dict[str, str] = {}
    done = 0
    end = time.monotonic() + (options.seconds or 1e9)

    def use(text: str, deep: bool) -> None:
        nonlocal done
        if time.monotonic() > end:
            raise KeyboardInterrupt
        done += 1
        try:
            tried(text, deep)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {place.filename.rpartition('/')[2]}:{place.lineno}: {str(error)[:80]!r}"
            kinds[kind] += 1
            if kind not in shortest or len(text) < len(shortest[kind]):
                shortest[kind] = text

    try:
        texts(options.seed, options.count, use)
    except KeyboardInterrupt:
        pass
    for kind, number in kinds.most_common(options.show):
        print(f"{number:6} {kind}\n       {shortest[kind]!r}")
    print(f"{done} texts, {kinds.total()} with a traceback, of {len(kinds)} kinds")


if __name__ == "__main__":
    main()
