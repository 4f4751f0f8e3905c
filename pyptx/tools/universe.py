"""pyptx as an xDSL universe: dialect, passes, target `ptx` and frontend `.ptx`, for plain `xdsl-opt` too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import Universe
from xdsl.utils.exceptions import ParseError
from xdsl.utils.frontend import Frontend
from xdsl.utils.lexer import Input, Span
from xdsl.utils.target import Target

from ..diagnostics import Diagnostic, PTXError


@dataclass(frozen=True)
class PTXTarget(Target):
    """Print the module's `ptx.module` as PTX text (`-t ptx`).

    Passes that know nothing of registers (xDSL's own) may leave values in registers that were overwritten: these are
    repaired first, as by `ptx-assign-registers`.
    """

    name: ClassVar[str] = "ptx"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from ..passes.settle import settle
        from ..printer.ptx import print_module

        settle(module)
        output.write(print_module(module))


@dataclass(frozen=True)
class BarePTXTarget(PTXTarget):
    """`-t ptx-no-trivia`: PTX in the layout of `pyptx fmt`, without comments, for tests.

    Comments are part of the text, so a `// CHECK` in a PTX file would match its own printed copy.
    """

    name: ClassVar[str] = "ptx-no-trivia"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from ..passes.strip_comments import StripComments

        StripComments().apply(ctx, module)
        super().emit(ctx, module, output)


@dataclass(frozen=True)
class PTXFrontend(Frontend):
    """Read `.ptx` files."""

    name: ClassVar[str] = "ptx"

    def parse(self, ctx: Context, input: IO[bytes], input_name: str = "input") -> ModuleOp:
        from ..parser.module import parse_text

        ctx.get_optional_dialect("ptx")  # loads it, with what canonicalization needs
        text = input.read().decode("utf-8", errors="surrogateescape")
        try:
            return parse_text(text, input_name)
        except PTXError as error:
            source = Input(text, input_name)
            first = error.diagnostics[0]
            start = _offset(text, first.line or 1, first.column or 1)
            raise IllegalText(Span(start, min(start + 1, len(text)), source), error.diagnostics) from None


class IllegalText(ParseError):
    """Text that is not PTX. It reads as `pyptx check` puts it: xDSL's own picture would repeat the line, with a caret that
    takes a tab for one column.
    """

    def __init__(self, span: Span[str], diagnostics: Sequence[Diagnostic]):
        super().__init__(span, diagnostics[0].message)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        skipped = self.span.line_offset  # set by the driver for a part of a split file
        moved = (replace(d, line=d.line + skipped) if d.line else d for d in self.diagnostics)
        return "\n".join(d.render() for d in moved)


def _offset(text: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return min(start + column - 1, max(len(text) - 1, 0))


def _dialect() -> Dialect:
    from ..dialects.ptx.dialect import PTX
    from ..passes import canonicalization  # noqa: F401  # pyright: ignore[reportUnusedImport]  (gives the dialect its folder)

    return PTX


def _passes() -> dict[str, Callable[[], type[ModulePass]]]:
    from ..passes.registry import PASSES

    return PASSES


UNIVERSE = Universe(
    all_dialects={"ptx": _dialect},
    all_passes=_passes(),
    all_targets={"ptx": lambda: PTXTarget, "ptx-no-trivia": lambda: BarePTXTarget},
    all_frontends={"ptx": lambda: PTXFrontend},
)
