"""Checks of a simulated launch against the rules of the PTX memory and asynchrony model.

`simulate(..., check=True)` runs a `Sanitizer` and puts what it found into `Report.findings`.
"""

from __future__ import annotations

from .finding import SECTIONS, Finding
from .sanitizer import Sanitizer

__all__ = ["SECTIONS", "Finding", "Sanitizer"]
