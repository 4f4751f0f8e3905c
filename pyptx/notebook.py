"""HTML for notebooks: PTX highlighted and folded, findings, tables. It knows nothing of pyptx's classes, whose `_repr_html_` use it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["finding", "folded", "framed", "preformatted", "ptx", "table"]

_COLOURS = {"error": "#c62828", "warning": "#b26a00"}


def preformatted(text: str) -> str:
    """Text as it is."""
    return f'<pre style="line-height: 1.3">{escape(text)}</pre>'


def folded(title: str, content: str, *, opened: bool = False) -> str:
    """HTML that opens with a click."""
    return f"<details{' open' if opened else ''}><summary><code>{escape(title)}</code></summary>{content}</details>"


def ptx(text: str, title: str) -> str:
    """PTX, highlighted where Pygments is installed, and open if it is short."""
    count = text.count("\n")
    return folded(f"{title} ({count} lines of PTX)", _highlighted(text), opened=count <= 30)


def _highlighted(text: str) -> str:
    """By pyptx's lexer, which Pygments finds by its name where pyptx is installed."""
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ModuleNotFoundError:
        return preformatted(text)
    try:
        lexer = get_lexer_by_name("ptx")
    except ClassNotFound:
        return preformatted(text)
    return highlight(text, lexer, HtmlFormatter(noclasses=True))


def finding(text: str, severity: str) -> str:
    """A finding, with the colour of its severity next to it."""
    colour = _COLOURS.get(severity, "#546e7a")
    return f'<div style="border-left: 4px solid {colour}; padding-left: 8px">{preformatted(text)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows under a head; numbers with separators."""
    cells = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(_cell(c))}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table><tr>{cells}</tr>{body}</table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def framed(page: str, height: int = 480) -> str:
    """A whole page, with its own styles, in a frame."""
    return f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {height}px; border: 1px solid #ccc"></iframe>'
