"""PTX assembled for its machine code: each instruction knows the line of the PTX it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..diagnostics import Diagnostic, PTXError, UsageError
from ..dialects.ptx.target import FIRST_PTX, near_targets, runs_on, unknown_target
from ..runtime.compile import compile_ptx
from ..runtime.ptxas import ToolNotFound, supported_archs, target_of
from ..sources import source_of
from .disassembly import read
from .listing import Listing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModule

__all__ = ["assemble"]

_LATER = "choose an architecture that is not older, and for a target that ends in a or f one of the same kind"


def assemble(
    ptx: str | os.PathLike[str] | BuiltinModule | Any,
    arch: str | None = None,
    options: Sequence[str] = (),
    filename: str | None = None,
) -> Listing:
    """The machine code that ptxas makes of a PTX text, a `.ptx` file, a module or a kernel.

    `arch` is `sm_90a`; default is the `.target` of the text. `options` go to ptxas as they are; `filename` is what errors call a text. The text is assembled with
    `-lineinfo`, which changes no instruction: its line table has the line of the PTX for each (`Instruction.line`), and where the
    PTX has `.loc` of its own, the place in the source as well (`Instruction.source`). A cubin is compiled once and kept
    (`pyptx.disk_cache`).

    PTXError where ptxas refuses it, UsageError where a value is not legal, OSError where a file cannot be read, SassError where its code is not understood, `pyptx.runtime.ptxas.ToolNotFound` or
    `pyptx.runtime.compile.NoCompiler` without nvdisasm or ptxas.
    """
    text, name = _text_of(ptx)
    name = name or filename
    if arch is not None:
        _check_arch(arch)
    if isinstance(options, str) or not all(isinstance(o, str) and "\0" not in o for o in _items(options)):
        raise PTXError(f"options must be a sequence of strings, such as ('-O1',), not {options!r}")
    chosen = arch or target_of(text)
    if chosen is None:
        raise PTXError(_errors(text, name) or [Diagnostic("error", "the text has no .target", name)])
    if (own := target_of(text)) in FIRST_PTX and not runs_on(own, chosen):
        raise UsageError(f"the text is for {own}, of which no code for {chosen} can be made: {_LATER}")
    wanted = options if "-lineinfo" in options else ("-lineinfo", *options)
    return read(compile_ptx(text, chosen, options=tuple(wanted), filename=name, compiler="ptxas").cubin)


def _check_arch(arch: object) -> None:
    """UsageError for what this ptxas makes no code for."""
    try:
        supported = [f"sm_{number}" for number in supported_archs()]
    except ToolNotFound:  # compiling says it, and how to get it
        supported = []
    if not isinstance(arch, str) or not supported:
        wrong = unknown_target(arch)
    elif arch in supported:
        return
    else:
        near = [t for t in near_targets(arch) if t in supported]
        legal = f"did you mean {' or '.join(near)}?" if near else f"it takes {', '.join(supported)}"
        wrong = f"ptxas makes no code for arch {arch!r}; {legal}"
    if wrong is not None:
        raise UsageError(wrong)


def _errors(text: str, name: str | None) -> list[Diagnostic]:
    """What `pyptx check` says of a text."""
    from ..parser.diagnose import diagnose_text

    return [d for d in diagnose_text(text, name) if d.severity == "error"]


def _items(options: object) -> Iterable[object]:
    return cast("Iterable[object]", options) if isinstance(options, Iterable) else (options,)


def _text_of(ptx: Any) -> tuple[str, str | None]:
    if isinstance(ptx, (str, os.PathLike)):
        return source_of(ptx)
    if callable(getattr(ptx, "ptx", None)):  # a kernel, or a module of kernels
        return ptx.ptx(), None
    from xdsl.dialects.builtin import ModuleOp

    from ..printer.ptx import print_module

    if not isinstance(ptx, ModuleOp):
        raise PTXError(f"sass.assemble takes PTX as text, a path, a module or a kernel, not {type(ptx).__name__}")
    return print_module(ptx), None
