"""PTX assembled for its machine code: each instruction knows the line of the PTX it comes from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..diagnostics import Diagnostic, PTXError
from ..dialects.ptx.target import unknown_target
from ..runtime.compile import compile_ptx
from ..runtime.ptxas import target_of
from ..sources import source_of
from .disassembly import read
from .listing import Listing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModule

__all__ = ["assemble"]


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

    PTXError where ptxas refuses it or a value is not legal, OSError where a file cannot be read, SassError where its code is not understood, `pyptx.runtime.ptxas.ToolNotFound` or
    `pyptx.runtime.compile.NoCompiler` without nvdisasm or ptxas.
    """
    text, name = _text_of(ptx)
    name = name or filename
    if arch is not None and (wrong := unknown_target(arch)) is not None:
        raise PTXError(wrong)
    if isinstance(options, str) or not all(isinstance(o, str) and "\0" not in o for o in _items(options)):
        raise PTXError(f"options must be a sequence of strings, such as ('-O1',), not {options!r}")
    chosen = arch or target_of(text)
    if chosen is None:
        raise PTXError(Diagnostic("error", "the text has no .target, and no architecture was given", name))
    wanted = options if "-lineinfo" in options else ("-lineinfo", *options)
    return read(compile_ptx(text, chosen, options=tuple(wanted), filename=name, compiler="ptxas").cubin)


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
