"""`ptx-strip-comments`: comments away, the rest in one canonical layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.passes import ModulePass

from .canonical import canonicalise
from .trivia import strip_trivia
from .verify import ptx_modules


@dataclass(frozen=True)
class StripComments(ModulePass):
    """Remove every comment, and lay the module out as `pyptx fmt` does.

    Contract: instructions, declarations, registers and names stay; comments and the layout of the text go. Idempotent.

    For tests: FileCheck then reads what a pass made, and not the test's own comments.
    """

    name: ClassVar[str] = "ptx-strip-comments"

    def apply(self, ctx: Context, op: BuiltinModule) -> None:
        for module in ptx_modules(op):
            strip_trivia(module)
            canonicalise(module)
