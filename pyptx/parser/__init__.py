"""PTX text -> `ptx` dialect, losslessly."""

from __future__ import annotations

from .module import parse_text
from .module import parse_text as parse

__all__ = ["parse", "parse_text"]
