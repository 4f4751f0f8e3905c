"""PTX assembled for its machine code: each instruction knows the line of the PTX it comes from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..diagnostics import Diagnostic, PTXError
from ..runtime.compile import compile_ptx
from ..runtime.ptxas import target_of
from ..sources import source_of
from .disassembly import read
from .listing import Listing

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp as BuiltinModule

__all__ = ["assemble"]


def assemble(
    ptx: str | os.PathLike[str] | BuiltinModule | Any, arch: str | None = None, options: Sequence[str] = ()
) -> Listing:
    """The machine code that ptxas makes of a PTX text, a `.ptx` file, a module or a kernel.

    `arch` is `sm_90a`; default is the `.target` of the text. `options` go to ptxas as they are. The text is assembled with
    `-lineinfo`, which changes no instruction: its line table has the line of the PTX for each (`Instruction.line`), and where the
    PTX has `.loc` of its own, the place in the source as well (`Instruction.source`). A cubin is compiled once and kept
    (`pyptx.runtime.cache`).

    PTXError where ptxas refuses it, SassError where its code is not understood, `pyptx.runtime.ptxas.ToolNotFound` or
    `pyptx.runtime.compile.NoCompiler` without nvdisasm or ptxas.
    """
    text, name = _text_of(ptx)
    chosen = arch or target_of(text)
    if chosen is None:
        raise PTXError(Diagnostic("error", "the text has no .target, and no architecture was given", name))
    wanted = options if "-lineinfo" in options else ("-lineinfo", *options)
    return read(compile_ptx(text, chosen, options=tuple(wanted), filename=name, compiler="ptxas").cubin)


def _text_of(ptx: Any) -> tuple[str, str | None]:
    if isinstance(ptx, (str, os.PathLike)):
        return source_of(ptx)
    if callable(getattr(ptx, "ptx", None)):  # a kernel, or a module of kernels
        return ptx.ptx(), None
    from ..printer.ptx import print_module

    return print_module(ptx), None
