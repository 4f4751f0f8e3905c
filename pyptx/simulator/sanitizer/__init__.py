"""Checks of a simulated launch against the rules of the PTX memory and asynchrony model.

`simulate(..., check=True)` runs a `Sanitizer` and puts what it found into `Report.findings`; `RULES` are what it looks for.
"""

from __future__ import annotations

from .finding import Finding
from .parts import RULES
from .rule import Rule
from .sanitizer import Sanitizer

__all__ = ["RULES", "Finding", "Rule", "Sanitizer"]
