"""A grid of labelled, coloured cells as SVG: what all layout pictures are."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

__all__ = ["Cell", "Grid", "Picture", "lane_colour", "lane_legend", "shade"]

_SANS = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_MARGIN, _LINE = 24.0, 18.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: where it is, its lines of text, its colour, and the sentence that the mouse shows."""

    row: int
    column: int
    text: tuple[str, ...]
    fill: str = "#ffffff"
    detail: str = ""


@dataclass(frozen=True)
class Picture:
    """An SVG picture. Notebooks show it; `cells` are its contents."""

    title: str
    cells: tuple[Cell, ...] = field(repr=False)
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whose name ends in .svg. ValueError for another ending."""
        path = Path(path)
        if path.suffix.lower() != ".svg":
            raise ValueError(
                f"a picture is saved as .svg, and {path.name} is not; convert it with a browser or rsvg-convert"
            )
        path.write_text(self.svg, encoding="utf-8")

    def __getitem__(self, at: tuple[int, int]) -> Cell:
        """The cell of (row, column). KeyError where the grid has none."""
        for cell in self.cells:
            if (cell.row, cell.column) == at:
                return cell
        raise KeyError(at)


Legend = Sequence[tuple[Sequence[str], str]]
"""Entries of (colours side by side, what they mean)."""


@dataclass
class Grid:
    """What to draw. `rows`, `columns`: the labels at the edges; `row_axis`, `column_axis`: what they count;
    `row_rule`, `column_rule`: a heavier line after so many.
    """

    title: str
    subtitle: str
    row_axis: str
    column_axis: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Cell]
    legend: Legend = ()
    notes: Sequence[str] = ()
    cell_width: float = 44.0
    cell_height: float = 34.0
    row_rule: int = 0
    column_rule: int = 0

    def picture(self) -> Picture:
        return Picture(self.title, tuple(self.cells), _Drawing(self).svg())


class _Drawing:
    def __init__(self, grid: Grid):
        self.grid = grid
        self.parts: list[str] = []
        longest = max((len(r) for r in grid.rows), default=0)
        self.left = _MARGIN + 20 + 7.2 * longest + 6
        self.top = _MARGIN + 22 + _LINE * bool(grid.subtitle) + 38
        self.width = grid.cell_width * len(grid.columns)
        self.height = grid.cell_height * len(grid.rows)
        self.right = self.left + self.width + _MARGIN

    def text(
        self, x: float, y: float, text: str, size: float, *, anchor: str = "start", colour: str = "#1d2125",
        font: str = "s", weight: int = 400, turned: bool = False,
    ) -> None:  # fmt: skip
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
        heavy = f' font-weight="{weight}"' if weight != 400 else ""
        self.parts.append(
            f'<text class="{font}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
            f'fill="{colour}"{heavy}{turn}>{escape(text)}</text>'
        )
        if not turned:
            wide = len(text) * size * (0.62 if font == "m" else 0.56)
            self.right = max(self.right, x + (wide if anchor == "start" else wide / 2) + _MARGIN)

    def svg(self) -> str:
        grid = self.grid
        self.text(_MARGIN, _MARGIN + 14, grid.title, 18, weight=650)
        if grid.subtitle:
            self.text(_MARGIN, _MARGIN + 14 + 20, grid.subtitle, 12.5, colour="#555d66")
        self._axes()
        for cell in grid.cells:
            self._cell(cell)
        self._rules()
        bottom = self._legend(self.top + self.height + 26)
        width, height = self.right, bottom + _MARGIN - 12
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{escape(grid.title)}</title>'
            f"<style>.s{{font-family:{_SANS}}}.m{{font-family:{_MONO}}}</style>"
            f'<rect width="100%" height="100%" fill="#ffffff"/>'
        )
        return head + "\n".join(self.parts) + "</svg>\n"

    def _axes(self) -> None:
        grid = self.grid
        soft = "#68707a"
        self.text(self.left + self.width / 2, self.top - 24, grid.column_axis, 12, anchor="middle", colour=soft)
        if 7 * len(grid.row_axis) > self.height:  # too low a picture to turn the word
            self.text(_MARGIN, self.top - 24, grid.row_axis, 12, colour=soft)
        else:
            middle = self.top + self.height / 2
            self.text(_MARGIN + 8, middle, grid.row_axis, 12, anchor="middle", colour=soft, turned=True)
        for i, label in enumerate(grid.columns):
            x = self.left + (i + 0.5) * grid.cell_width
            self.text(x, self.top - 7, label, 11, anchor="middle", colour=soft, font="m")
        for i, label in enumerate(grid.rows):
            y = self.top + (i + 0.5) * grid.cell_height + 4
            self.text(self.left - 7, y, label, 11, anchor="end", colour=soft, font="m")

    def _cell(self, cell: Cell) -> None:
        grid = self.grid
        x, y = self.left + cell.column * grid.cell_width, self.top + cell.row * grid.cell_height
        tip = f"<title>{escape(cell.detail)}</title>" if cell.detail else ""
        self.parts.append(
            f'<g class="cell"><rect x="{x:.1f}" y="{y:.1f}" width="{grid.cell_width:g}" height="{grid.cell_height:g}" '
            f'fill="{cell.fill}" stroke="#ffffff" stroke-width="1"/>{tip}'
        )
        lines = len(cell.text)
        for i, text in enumerate(cell.text):
            size = min(12.0, (grid.cell_width - 4) / (0.62 * max(len(text), 1)))
            at = y + grid.cell_height / 2 + 4 + (i - (lines - 1) / 2) * 13
            self.text(
                x + grid.cell_width / 2, at, text, round(size, 1), anchor="middle", font="m", weight=650 if i == 0 else 400
            )  # fmt: skip
        self.parts.append("</g>")

    def _rules(self) -> None:
        grid = self.grid
        right, bottom = self.left + self.width, self.top + self.height
        pen = 'stroke="#1d2125" stroke-width="1.4" fill="none"'
        self.parts.append(
            f'<rect x="{self.left:.1f}" y="{self.top:.1f}" width="{self.width:.1f}" height="{self.height:.1f}" {pen}/>'
        )
        for i in range(grid.row_rule, len(grid.rows), grid.row_rule or 1) if grid.row_rule else ():
            y = self.top + i * grid.cell_height
            self.parts.append(f'<path d="M{self.left:.1f} {y:.1f}H{right:.1f}" {pen}/>')
        for i in range(grid.column_rule, len(grid.columns), grid.column_rule or 1) if grid.column_rule else ():
            x = self.left + i * grid.cell_width
            self.parts.append(f'<path d="M{x:.1f} {self.top:.1f}V{bottom:.1f}" {pen}/>')

    def _legend(self, y: float) -> float:
        """Draw legend and notes from `y` on; the y below them."""
        x = _MARGIN
        end = max(self.right - _MARGIN, _MARGIN + 620)
        for colours, meaning in self.grid.legend:
            wide = 14 * len(colours) + 8 + 6.9 * len(meaning) + 18
            if x > _MARGIN and x + wide > end:
                x, y = _MARGIN, y + 22
            for i, colour in enumerate(colours):
                self.parts.append(
                    f'<rect x="{x + 14 * i:.1f}" y="{y - 11:.1f}" width="14" height="14" fill="{colour}" '
                    'stroke="#ffffff" stroke-width="0.5"/>'
                )
            self.text(x + 14 * len(colours) + 6, y, meaning, 12)
            x += wide
        y += 22 if self.grid.legend else 0
        for note in self.grid.notes:
            self.text(_MARGIN, y, note, 12, colour="#555d66")
            y += _LINE
        return y


def shade(hue: float, lightness: float, saturation: float = 0.72) -> str:
    """A colour as `#rrggbb`; all arguments from 0 to 1."""
    return "#" + "".join(f"{round(255 * c):02x}" for c in colorsys.hls_to_rgb(hue % 1, lightness, saturation))


_HUES = (0.58, 0.08, 0.36, 0.94, 0.76, 0.14, 0.49, 0.02)
"""Neighbours far apart."""


def lane_colour(lane: int) -> str:
    """Groups of four lanes share a hue; the lanes of a group go from dark to light."""
    return shade(_HUES[lane // 4 % 8], 0.70 + 0.065 * (lane % 4))


def lane_legend(lanes: int = 32) -> Legend:
    return [([lane_colour(g + i) for i in range(4)], f"T{g}-T{g + 3}") for g in range(0, min(lanes, 32), 4)]
