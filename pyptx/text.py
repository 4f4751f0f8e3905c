"""PTX text in and out: `parse`, `to_ptx`, `diagnose` (the entry points of the package for text)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from .diagnostics import Diagnostic, PTXError
from .parser.diagnose import diagnose_text
from .parser.module import parse_text
from .passes.verify import module_diagnostics
from .printer.ptx import print_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def read_source(source: str | os.PathLike[str]) -> tuple[str, str | None]:
    """(text, filename) of PTX given as text or as a path. A string is a path when it has no newline and the file
    exists.
    """
    if isinstance(source, os.PathLike) or ("\n" not in source and len(source) < 4096 and _is_file(source)):
        path = Path(source)
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read(), str(path)
    return source, None


def _is_file(name: str) -> bool:
    try:
        return os.path.isfile(name)
    except (OSError, ValueError):
        return False


def parse(
    source: str | os.PathLike[str], *, filename: str | None = None, verify: bool = False, allow_unknown: bool = False
) -> ModuleOp:
    """Parse PTX (text, or the path of a file) into a `builtin.module` holding one `ptx.module`.

    Printing it with `to_ptx` gives the same bytes back. `verify=True` also judges every instruction on the module's
    target and checks the IR; `allow_unknown=True` carries instructions that pyptx does not know through as text.
    Raises PTXError, whose `.diagnostics` lists every error with its place.
    """
    text, path = read_source(source)
    name = filename or path
    module = parse_text(text, name, allow_unknown=allow_unknown)
    if verify:
        errors = [d for d in diagnose_text(text, name) if d.severity == "error"] or module_diagnostics(module)
        if errors:
            raise PTXError(errors)
    return module


def to_ptx(module: Operation) -> str:
    """The PTX text of a `builtin.module` or `ptx.module`."""
    return print_module(module)


def diagnose(source: object) -> list[Diagnostic]:
    """Everything wrong with PTX given as text, path, module or traced kernel. Empty means that ptxas should accept it.

    Never raises on bad PTX. Each finding says where (line and column in the user's source), what, and what would be
    legal.
    """
    if isinstance(source, Operation):
        return module_diagnostics(source)
    if isinstance(source, (str, os.PathLike)):
        text, path = read_source(source)
        return diagnose_text(text, path)
    check = getattr(source, "diagnose", None)
    if callable(check):
        return list(check())  # pyright: ignore
    raise TypeError(f"diagnose takes PTX text, a path, a module or a kernel, not {type(source).__name__}")
