"""PTX -> Python: a program in the DSL of `pyptx.modules` that gives the same PTX back (`python -m pyptx.codegen`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..diagnostics import PTXError
from ..dialects.ptx.style import detect
from ..parser.diagnose import diagnose_text
from ..parser.module import diagnostics, header_issues, style_samples
from ..parser.module_text import Issue, ModuleText
from ..parser.places import unresolved
from ..parser.reader import Reader
from ..sources import source_of
from ..ssa.builder import FunctionSource
from ..ssa.fastir import gc_paused
from ..ssa.statement import Kind, Statement
from ..text import to_ptx
from .directives import Unspellable
from .faithful import FaithfulWriter
from .sugar import SugarWriter

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

__all__ = ["ir_to_python", "ptx_to_python"]


def ptx_to_python(
    source: str | os.PathLike[str], *, sugar: bool = False, kernel_name: str | None = "matmul_kernel", trivia: bool = True,
    allow_unknown: bool = False, runnable: bool = False, filename: str | None = None,
) -> str:  # fmt: skip
    """The Python program for PTX (text, or the path of a file).

    Executed, it leaves the module in `m`; `m.ptx()` is the same text byte for byte, or without `trivia` the same but
    for comments and white space. `sugar` writes readable Python instead: structured control flow, operators, names;
    its PTX is the same up to the names of registers and labels. `kernel_name` names the first kernel's Python function
    (with sugar; None: its own name, demangled). `allow_unknown` carries instructions that pyptx does not know through; without it, they are errors.
    `runnable` adds a `main` that runs the kernels on the simulator with small inputs.

    PTXError, with every problem and its place, for text that is not PTX.
    """
    text, path = source_of(source)
    return text_to_python(
        text, filename=path, sugar=sugar, kernel_name=kernel_name, trivia=trivia, allow_unknown=allow_unknown,
        runnable=runnable,
    )  # fmt: skip


def ir_to_python(module: ModuleOp, *, sugar: bool = False, **options: Any) -> str:
    """As `ptx_to_python`, of a module that `pyptx.parse` made."""
    return ptx_to_python(to_ptx(module), sugar=sugar, **options)


def text_to_python(
    text: str,
    *,
    filename: str | None,
    sugar: bool,
    kernel_name: str | None,
    trivia: bool,
    allow_unknown: bool,
    runnable: bool,
) -> str:
    """As `ptx_to_python`, of text; `filename` is for messages."""
    with gc_paused():
        module = read_module(text, filename, allow_unknown=allow_unknown)
        if sugar:
            writer: FaithfulWriter = SugarWriter(module, kernel_name)
        else:
            writer = FaithfulWriter(module, detect(style_samples(module)), trivia)
        writer.runnable = runnable
        try:
            return writer.text()
        except PTXError:
            raise
        except Exception as error:
            # no Python spells it: what is wrong with the PTX says why
            found = [d for d in diagnose_text(text, filename) if d.severity == "error"]
            if found:
                raise PTXError(found) from error
            if isinstance(error, Unspellable):
                raise PTXError(str(error)) from error
            raise


def read_module(text: str, filename: str | None = None, *, allow_unknown: bool = False) -> ModuleText:
    """The statements of a PTX text. PTXError with every syntax error; legality is the verifier's business."""
    module = Reader(text, allow_unknown=allow_unknown).read()
    errors = [*module.issues, *header_issues(module), *_missing_labels(module)]
    if errors:
        raise PTXError(diagnostics(errors, text, filename))
    return module


def _missing_labels(module: ModuleText) -> Iterator[Issue]:
    """Branches to labels that are not visible from where they stand."""
    for item in module.items:
        if not isinstance(item, FunctionSource):
            continue
        labels: set[tuple[int, str]] = set()
        wanted: list[tuple[str, tuple[int, ...], Statement]] = []
        stack: list[int] = [0]
        for statement in item.statements:
            shape, _, _, _, name = statement
            if shape.kind == Kind.OPEN:
                stack.append(int(name))
            elif shape.kind == Kind.CLOSE:
                stack.pop()
            elif shape.kind == Kind.LABEL:
                labels.add((stack[-1], name))
            elif shape.kind == Kind.TABLE:
                labels.add((stack[-1], name))
                wanted += [(label, tuple(stack), statement) for label in shape.payload or ()]  # pyright: ignore
            elif shape.kind == Kind.TERMINATOR and name:
                wanted.append((name, tuple(stack), statement))
        for name, path, statement in wanted:
            if not any((scope, name) in labels for scope in path):
                yield unresolved(statement, name)
