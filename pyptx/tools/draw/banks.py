"""Bank maps: which banks of shared memory the lanes of a warp ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...analysis.banks import BANK_BYTES, BANKS, WARP, conflicts
from .picture import Cell, Grid, Picture, lane_colour, lane_legend

__all__ = ["banks"]

_LINE = BANKS * BANK_BYTES


def banks(addresses: Iterable[int] | Callable[[int], int], width: int = 4, *, title: str = "") -> Picture:
    """The banks that one request of a warp asks for: a column per bank, a line per 128 bytes of shared memory.

    addresses: the byte address of each lane (up to 32), or a function of the lane. width: bytes per lane, 1 to 16;
    requests of 8 bytes are served to half warps, of 16 to quarters. The bottom line counts, bank by bank, the
    different words of the worst pass: more than 1 is a conflict. ValueError for misaligned addresses.
    """
    found = list(map(addresses, range(WARP))) if callable(addresses) else [int(a) for a in addresses]
    if width not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane reads 1, 2, 4, 8 or 16 bytes, not {width}")
    if not 0 < len(found) <= WARP:
        raise ValueError(f"a warp has {WARP} lanes, not {len(found)}")
    wrong = [lane for lane, a in enumerate(found) if a % width or a < 0]
    if wrong:
        raise ValueError(
            f"address {found[wrong[0]]} of lane {wrong[0]} is not a multiple of the {width} bytes it reads"
        )
    per_pass = WARP * BANK_BYTES // max(width, BANK_BYTES)
    asked: dict[int, list[int]] = {}  # word -> lanes
    worst = [0] * BANKS
    for start in range(0, len(found), per_pass):
        words: dict[int, list[int]] = {}
        for lane in range(start, min(start + per_pass, len(found))):
            for word in range(found[lane] // BANK_BYTES, (found[lane] + width - 1) // BANK_BYTES + 1):
                words.setdefault(word, []).append(lane)
        for bank in range(BANKS):
            worst[bank] = max(worst[bank], sum(w % BANKS == bank for w in words))
        for word, lanes in words.items():
            asked.setdefault(word, []).extend(lanes)
    lines = sorted({w // BANKS for w in asked})
    cells = [_word(w, lanes, lines.index(w // BANKS)) for w, lanes in sorted(asked.items())]
    notes = ["words: different words of a bank in the worst pass; lanes that read the same word share it."]
    if any("+" in c.text[0] for c in cells):
        notes.append("T4+1: T4 and one more lane read this word; the mouse shows which.")
    cells += [_total(bank, n, len(lines)) for bank, n in enumerate(worst) if n]
    ways, passes, ideal = conflicts(np.array(found, np.int64), width)
    verdict = "no bank conflict" if ways == 1 else f"{ways}-way bank conflict"
    return Grid(
        title or f"banks of a warp's request, {width} bytes a lane",
        f"{verdict}; {passes} pass{'es' if passes != 1 else ''}, {ideal} without conflicts",
        "byte address",
        "bank",
        [*(str(_LINE * line) for line in lines), "words"],
        [str(b) for b in range(BANKS)],
        cells,
        lane_legend(),
        notes,
        cell_width=38.0,
        cell_height=26.0,
    ).picture()


def _word(word: int, lanes: list[int], line: int) -> Cell:
    text = f"T{lanes[0]}" if len(lanes) == 1 else f"T{lanes[0]}+{len(lanes) - 1}"
    detail = f"bank {word % BANKS}, byte {word * BANK_BYTES}: lanes {', '.join(map(str, lanes))}"
    return Cell(line, word % BANKS, (text,), lane_colour(lanes[0]), detail)


def _total(bank: int, words: int, line: int) -> Cell:
    fill = "#eef0f2" if words == 1 else "#f4a79a"
    return Cell(line, bank, (str(words),), fill, f"bank {bank}: {words} different words")
