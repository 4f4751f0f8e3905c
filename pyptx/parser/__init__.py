"""PTX text -> `ptx` dialect, losslessly."""

from __future__ import annotations

from .module import parse_text

__all__ = ["parse_text"]
