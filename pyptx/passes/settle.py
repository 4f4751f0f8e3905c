"""Registers for printing, after passes that know nothing of them (xDSL's own, or an outsider's patterns)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..analysis.cfg import cfg_of
from ..analysis.checks import check_function
from ..diagnostics import Diagnostic, PTXError
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import DeclarationAttr, FunctionOp, LabelListOp, RegisterOp, ScopeBeginOp, ScopeEndOp
from ..dialects.ptx.types import RegType
from ..ssa.shapes import table_name
from .assign_registers import assign_registers
from .fresh import Names, module_names
from .verify import ptx_modules


def settle(module: BuiltinModule) -> bool:
    """Name blank values and repair those whose register no longer holds them; whether anything had to change.

    What passes of this package leave is in order, and stays as it is. PTXError where a pass removed what live code needs.
    """
    changed = False
    for ptx in ptx_modules(module):
        outside = [op.declaration for op in ptx.body.ops if isinstance(op, RegisterOp)]
        with module_names(ptx):
            for function in ptx.functions:
                if not function.is_declaration:
                    changed |= _settle(function, outside)
    return changed


def _settle(function: FunctionOp, outside: Sequence[DeclarationAttr]) -> bool:
    lost = _lost(function, outside)
    if lost is not None:
        raise PTXError(
            Diagnostic(
                "error",
                f"{function.symbol}: a pass removed {lost} with an unreachable block",
                hint="run ptx-dce and ptx-fold in place of dce and canonicalize: they keep unreachable blocks",
            )
        )
    if not _has_blank_values(function) and not any(True for _ in check_function(function, cfg_of(function))):
        return False
    return assign_registers(function)


def _lost(function: FunctionOp, outside: Sequence[DeclarationAttr]) -> str | None:
    """What the function still needs of a block that is gone: a register's declaration, a list of labels, the end of a
    scope. None where nothing is missing.
    """
    ops = _ops(function)
    if sum(isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp) for op in ops) > 0:
        return "the end of a { } scope"
    used = {r.type.register_name for op in ops for r in op.results if isinstance(r.type, RegType)} - {""}
    declared = Names()
    for d in (*outside, *(op.declaration for op in ops if isinstance(op, RegisterOp))):
        declared.add(d)
    for d in (*function.parameters, *function.returns):
        declared.add(d)
    for name in sorted(used):
        if declared.is_free(name):
            return f"the declaration of {name}"
    lists = {op.list_name for op in ops if isinstance(op, LabelListOp)}
    for op in ops:
        if isinstance(op, Instruction) and op.symbol_kind == "branch targets" and table_name(op.layout) not in lists:
            return f"the list {table_name(op.layout)}"
    return None


def _has_blank_values(function: FunctionOp) -> bool:
    return any(isinstance(r.type, RegType) and not r.type.register_name for op in _ops(function) for r in op.results)


def _ops(function: FunctionOp) -> list[Operation]:
    return [op for block in function.blocks for op in block.ops]
