"""`ptx` dialect -> PTX text, structurally: every byte comes from the IR and its trivia, never from stored source."""

from __future__ import annotations

from .ptx import print_module

__all__ = ["print_module"]
