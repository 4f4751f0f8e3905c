"""A timeline of warps, barriers and copies, as Chrome-trace JSON (Perfetto, chrome://tracing) and as an SVG.

Time is the number of instructions the machine has issued, not clocks: it shows the order and the overlap of
one run (of one seed), not durations on a GPU.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np

from ..machine.machine import Action, Observer
from ..machine.pending import Copy
from ..machine.program import Inst

if TYPE_CHECKING:
    from ..machine.machine import Machine

Array = Any
COLOURS = {"compute": "#7c9fd6", "memory": "#8fbf7f", "matrix": "#d08a5a", "wait": "#d9d9d9", "copy": "#b59ad6"}


@dataclass(slots=True)
class Slice:
    """What a warp or the copy engine of a CTA does from `start` to `end` (in issued instructions)."""

    cta: int
    row: str
    """`warp 3` or `copies`."""
    kind: str
    """A key of COLOURS."""
    name: str
    start: int
    end: int


def _kind(inst: Inst) -> str:
    family = inst.family
    if family.unit == "tensor core":
        return "matrix"
    if family.unit == "barrier" or (family.polls and family.access != "atomic"):
        return "wait"
    return "memory" if family.access else "compute"


class Timeline(Observer):
    """Records the first `ctas` CTAs of a launch."""

    def __init__(self, ctas: int = 4):
        self.ctas = ctas
        self.slices: list[Slice] = []
        self._open: dict[int, Slice] = {}
        self._copies: dict[int, Slice] = {}
        self._time = 0

    def attach(self, machine: Machine) -> None:
        self.machine = machine

    def _warps(self, mask: Array) -> list[int]:
        machine = self.machine
        most = (self.ctas - machine.first_cta) * machine.padded
        if most <= 0:
            return []
        here = machine.executing(mask)[:most]
        return np.flatnonzero(here.reshape(-1, 32).any(axis=1)).tolist()

    def _add(self, inst: Inst, mask: Array, kind: str) -> None:
        self._time += 1
        now = self._time
        per = self.machine.padded // 32
        name = inst.opcode
        for warp in self._warps(mask):
            last = self._open.get(warp)
            if last is not None and last.kind == kind and (last.end == now - 1 or kind == "wait"):
                last.end = now
                if last.name != name and kind != "wait":
                    last.name = kind
                continue
            if last is not None and last.kind == "wait":
                last.end = max(last.end, now - 1)
            made = Slice(warp // per + self.machine.first_cta, f"warp {warp % per}", kind, name, now - 1, now)
            self._open[warp] = made
            self.slices.append(made)

    def bound(self, inst: Inst, action: Action) -> Action:
        if inst.copies:
            return action
        kind, machine = _kind(inst), self.machine

        def watched(mask: Array) -> object:
            self._add(inst, machine.active(inst, mask), kind)
            return action(mask)

        return watched

    def barrier_waits(self, inst: Inst, number: int, mask: np.ndarray) -> None:
        self._add(inst, mask, "wait")

    def copy_issued(self, copy: Copy) -> None:
        cta = int(self.machine.cta_of_lane[copy.lanes[0]]) + self.machine.first_cta
        if cta < self.ctas:
            made = Slice(cta, "copies", "copy", copy.inst.opcode, self._time, self._time + 1)
            self._copies[id(copy)] = made
            self.slices.append(made)

    def copy_completed(self, copy: Copy) -> None:
        made = self._copies.pop(id(copy), None)
        if made is not None:
            made.end = max(self._time, made.start + 1)

    # ------------------------------------------------------------------------------------------------- exports

    def _placed(self) -> list[tuple[Slice, str]]:
        """The slices and their rows: copies that are in flight together have rows of their own."""
        busy: dict[int, list[int]] = {}
        placed: list[tuple[Slice, str]] = []
        for s in sorted(self.slices, key=lambda s: s.start):
            row = s.row
            if s.kind == "copy":
                ends = busy.setdefault(s.cta, [])
                number = next((i for i, end in enumerate(ends) if end <= s.start), len(ends))
                ends[number : number + 1] = [s.end]
                row = f"copies {number + 1}"
            placed.append((s, row))
        return placed

    def chrome(self) -> str:
        """Chrome-trace JSON: a process per CTA, a thread per warp; a microsecond is an issued instruction."""
        placed = self._placed()
        rows = sorted({row for _, row in placed}, key=_row_order)
        events: list[dict[str, object]] = []
        for cta in sorted({s.cta for s in self.slices}):
            events.append({"ph": "M", "name": "process_name", "pid": cta, "args": {"name": f"CTA {cta}"}})
            for i, row in enumerate(rows):
                events.append({"ph": "M", "name": "thread_name", "pid": cta, "tid": i, "args": {"name": row}})
        for s, row in placed:
            events.append(
                {
                    "ph": "X", "name": s.name, "cat": s.kind, "pid": s.cta, "tid": rows.index(row), "ts": s.start,
                    "dur": s.end - s.start,
                }
            )  # fmt: skip
        return json.dumps({"traceEvents": events, "otherData": {"time": "issued instructions, not clocks"}})

    def svg(self, width: int = 1200) -> str:
        """A drawing: a row per warp of each CTA, and as many for its copies as are in flight together."""
        placed = self._placed()
        rows = sorted({(s.cta, row) for s, row in placed}, key=lambda x: (x[0], _row_order(x[1])))
        ctas = sorted({cta for cta, _ in rows})
        height, heading, left, top = 16, 22, 80, 34
        end = max((s.end for s in self.slices), default=1)
        scale = (width - left - 14) / max(end, 1)
        at: dict[tuple[int, str], int] = {}
        y = top
        parts: list[str] = []
        for cta in ctas:
            parts.append(f'<text x="6" y="{y + 15}" font-weight="bold">CTA {cta}</text>')
            y += heading
            for key in (k for k in rows if k[0] == cta):
                at[key] = y
                parts.append(f'<text x="14" y="{y + 12}" fill="#444">{escape(key[1])}</text>')
                parts.append(
                    f'<rect x="{left}" y="{y + 1}" width="{width - left - 14}" height="{height - 2}" fill="#f5f6f8"/>'
                )
                y += height
        for tick in _ticks(end):
            x = left + tick * scale
            parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y + 4}" stroke="#dfe2e7"/>')
            parts.append(f'<text x="{x:.1f}" y="{y + 17}" text-anchor="middle" fill="#666">{tick:,}</text>')
        for s, row in placed:
            x, w = left + s.start * scale, max((s.end - s.start) * scale - 0.3, 0.5)
            parts.append(
                f'<rect x="{x:.2f}" y="{at[s.cta, row] + 1}" width="{w:.2f}" height="{height - 2}" '
                f'fill="{COLOURS[s.kind]}"><title>{escape(s.name)}: {s.start} to {s.end}</title></rect>'
            )
        legend = [
            f'<rect x="{left + 80 * i}" y="9" width="10" height="10" fill="{colour}"/>'
            f'<text x="{left + 80 * i + 14}" y="18">{kind}</text>'
            for i, (kind, colour) in enumerate(COLOURS.items())
        ]
        caption = (
            f'<text x="{width - 14}" y="18" text-anchor="end" fill="#666">time: instructions issued by the simulator, '
            "not clocks</text>"
        )
        total = y + 26
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}" font-family="sans-serif" '
                'font-size="11">',
                f'<rect width="{width}" height="{total}" fill="white"/>',
                *legend,
                caption,
                *parts,
                "</svg>",
            ]
        )

    def _repr_svg_(self) -> str:
        """How a notebook shows it."""
        return self.svg()

    def save(self, path: str | Path) -> None:
        """Write the timeline: `.svg` as a drawing, everything else as Chrome-trace JSON."""
        path = Path(path)
        path.write_text(self.svg() if path.suffix == ".svg" else self.chrome())


def _row_order(row: str) -> tuple[int, int]:
    kind, _, number = row.partition(" ")
    return (0, int(number)) if kind == "warp" else (1, int(number or 1))


def _ticks(end: int) -> range:
    """Round numbers from 0 to `end`, at most twelve steps."""
    step = next(m * 10**p for p in range(20) for m in (1, 2, 5) if end <= 12 * m * 10**p)
    return range(0, end + 1, step)
