"""The few shapes of HTML that the tabs of the page are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: text (escaped), or `html` as it is. `kind`: words of `num` (right-aligned), `mono`, `bad`
    (highlighted)."""

    text: str = ""
    kind: str = ""
    html: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A table row; clicking it goes to `line` of the PTX."""

    cells: tuple[Cell, ...]
    line: int | None = None


def number(value: object, *, bad: bool = False) -> Cell:
    """A right-aligned cell; `?` for None."""
    return Cell("?" if value is None else str(value), "num bad" if bad else "num")


def mono(text: str) -> Cell:
    return Cell(text, "mono")


def bar(part: float) -> Cell:
    """A bar of up to 260 pixels, for a part from 0 to 1."""
    return Cell(html=f'<span class="bar" style="width:{part * 260:.0f}px"></span>')


def table(title: str, head: Sequence[str], rows: Iterable[Row]) -> str:
    """A titled table. A heading that starts with `#` is over numbers."""
    names = "".join(
        f'<th class="num">{escape(name[1:])}</th>' if name.startswith("#") else f"<th>{escape(name)}</th>"
        for name in head
    )
    body = "".join(f"<tr{at_line(row.line)}>{''.join(map(_cell, row.cells))}</tr>" for row in rows)
    heading = f"<tr>{names}</tr>" if head else ""
    return f"<h3>{escape(title)}</h3><table>{heading}{body}</table>"


def _cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return f"<td{kind}>{cell.html or escape(cell.text)}</td>"


def at_line(line: int | None) -> str:
    """The attribute that links an element with a line of the PTX."""
    return f' data-line="{line}"' if line is not None else ""


def paragraph(*sentences: str) -> str:
    return f"<p>{escape(' '.join(s for s in sentences if s))}</p>"
