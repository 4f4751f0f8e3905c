"""Verify a whole module fast: every instruction's verdict, then the module checks."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..analysis.checks import check_module
from ..diagnostics import Diagnostic
from ..dialects.ptx.instruction import Instruction, problem_of
from ..dialects.ptx.structure import ModuleOp
from ..dialects.ptx.target import FIRST_PTX, version_text
from ..printer.ptx import print_op


def ptx_modules(module: Operation) -> list[ModuleOp]:
    if isinstance(module, ModuleOp):
        return [module]
    if isinstance(module, BuiltinModule):
        return [op for op in module.body.block.ops if isinstance(op, ModuleOp)]
    return []


def module_diagnostics(module: Operation) -> list[Diagnostic]:
    """Everything wrong with the PTX in a module: illegal instructions, then broken rules of the IR."""
    found: list[Diagnostic] = []
    for ptx in ptx_modules(module):
        target = ptx.target
        first = FIRST_PTX.get(target.target)
        if first is None:
            found.append(Diagnostic("error", f"unknown target {target.target}"))
            continue
        if target.version < first:
            found.append(
                Diagnostic(
                    "error", f"target {target.target} needs PTX {version_text(first)} or newer, not {target.data[1]}"
                )
            )
        for function in ptx.functions:
            for block in function.blocks:
                for op in block.ops:
                    if "layout" not in op.properties:
                        continue
                    problem = problem_of(cast(Instruction, op), target)
                    if problem is not None:
                        found.append(diagnostic_at(op, problem.message, problem.hint))
        found += [diagnostic_at(v.op, v.message) for v in check_module(ptx)]
    return found


def diagnostic_at(op: Operation, message: str, hint: str | None = None, severity: str = "error") -> Diagnostic:
    """A diagnostic at an op's source place; the op's text stands in for the source line."""
    location = op.location
    level = "warning" if severity == "warning" else "error"
    if isinstance(location, FileLineColLoc):
        return Diagnostic(
            level, message, location.filename.data, location.line.data, location.column.data, hint, source_line=None
        )
    return Diagnostic(level, f"{message}: {print_op(op)}", hint=hint)
