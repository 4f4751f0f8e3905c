"""PTX text in and out: `parse`, `to_ptx`, `diagnose` (the entry points of the package for text).

What they are made of is imported by the first call: naming `pyptx.parse` costs nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .sources import source_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from .diagnostics import Diagnostic


def parse(
    source: str | os.PathLike[str], *, filename: str | None = None, verify: bool = False, allow_unknown: bool = False
) -> ModuleOp:
    """Parse PTX (text, or the path of a file: see `sources.source_of`) into a `builtin.module` holding one `ptx.module`.

    Printing it with `to_ptx` gives the same bytes back. `verify=True` also judges every instruction on the module's
    target and checks the IR; `allow_unknown=True` carries instructions that pyptx does not know through as text.
    Raises PTXError, whose `.diagnostics` lists every error with its place.
    """
    from .ssa.collector import gc_paused

    with gc_paused():  # the first call imports: objects that stay
        from .parser.module import parse_text

    text, path = source_of(source)
    name = filename or path
    module = parse_text(text, name, allow_unknown=allow_unknown)
    if verify:
        from .diagnostics import PTXError
        from .parser.diagnose import diagnose_text
        from .passes.verify import module_diagnostics

        errors = [d for d in diagnose_text(text, name) if d.severity == "error"] or module_diagnostics(module)
        if errors:
            raise PTXError(errors)
    return module


def to_ptx(module: Operation) -> str:
    """The PTX text of a `builtin.module` or `ptx.module`. TypeError for what is not an operation."""
    from xdsl.ir import Operation

    from .printer.ptx import print_module

    if not isinstance(module, Operation):
        raise TypeError(f"to_ptx takes a builtin.module or a ptx.module, not {type(module).__name__}")

    return print_module(module)


def diagnose(source: object) -> list[Diagnostic]:
    """Everything wrong with PTX given as text, path, module or traced kernel. Empty means that ptxas should accept it.

    Never raises on bad PTX. Each finding says where (line and column in the user's source), what, and what would be
    legal.
    """
    if isinstance(source, (str, os.PathLike)):
        from .parser.diagnose import diagnose_text

        text, path = source_of(source)
        return diagnose_text(text, path)
    from xdsl.ir import Operation

    from .passes.verify import module_diagnostics

    if isinstance(source, Operation):
        return module_diagnostics(source)
    check = getattr(source, "diagnose", None)
    if callable(check):
        return list(check())  # pyright: ignore
    raise TypeError(f"diagnose takes PTX text, a path, a module or a kernel, not {type(source).__name__}")
