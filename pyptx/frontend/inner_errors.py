"""What functions of this package raise about their arguments (ValueError and the like), at the kernel's line."""

from __future__ import annotations

import os
from types import TracebackType

from ..diagnostics import PTXError
from .trace import NoIndex, OutOfRange, Trace

__all__ = ["at_the_kernels_line"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class BadValue(PTXError, ValueError):
    """An argument has a value that it cannot have."""


class NoSuchName(PTXError, AttributeError):
    """A name that pyptx does not have."""


_KINDS: tuple[tuple[type[Exception], type[PTXError]], ...] = (
    (ValueError, BadValue), (TypeError, NoIndex), (IndexError, OutOfRange), (AttributeError, NoSuchName),
)  # fmt: skip


def at_the_kernels_line(trace: Trace, error: Exception) -> PTXError | None:
    """An error that this package has raised, of the same kind and with a place: the author's line that called it. None
    for errors of the author's own code and of other packages.
    """
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), None)
    author: TracebackType | None = None
    inside = False
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        inside = code.co_filename.startswith(_PACKAGE)
        made = code.co_filename == "<string>" and code.co_name == "__init__"  # by dataclass
        if not inside and not made:
            author = at
        at = at.tb_next
    if kind is None or author is None or not inside:
        return None
    code = author.tb_frame.f_code
    line, _, column, _ = list(code.co_positions())[author.tb_lasti // 2]
    place = trace.add_place(code.co_filename, line or author.tb_lineno, (column or 0) + 1)
    return kind(trace.diagnostic(str(error), at=place))
