"""Colours, in terminals only."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

__all__ = ["coloured"]

_WORD = re.compile(r"^((?:\S+: )?)(error|warning|note|hint)(?=: )", re.MULTILINE)
_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "hint": "1;32"}


def coloured(text: str, stream: TextIO | None = None) -> str:
    """Findings with their severities in colour, if the stream (standard output) is a terminal and NO_COLOR is not set."""
    terminal = getattr(stream or sys.stdout, "isatty", lambda: False)()
    if not terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return _WORD.sub(lambda m: f"{m[1]}\x1b[{_CODES[m[2]]}m{m[2]}\x1b[0m", text)
