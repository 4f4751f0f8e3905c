"""Registers for printing, after passes that know nothing of them (xDSL's own, or an outsider's patterns)."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..analysis.cfg import cfg_of
from ..analysis.checks import check_function
from ..diagnostics import Diagnostic, PTXError
from ..dialects.ptx.instruction import Instruction
from ..dialects.ptx.structure import FunctionOp, LabelListOp, ModuleOp, RegisterOp, ScopeBeginOp, ScopeEndOp
from ..dialects.ptx.types import RegType
from ..ssa.shapes import table_name
from .assign_registers import assign_registers, list_name
from .verify import ptx_modules


def settle(module: BuiltinModule) -> bool:
    """Name blank values and repair those whose register no longer holds them; whether anything had to change.

    What passes of this package leave is in order, and stays as it is. PTXError where a pass removed what live code needs.
    """
    changed = False
    for ptx in ptx_modules(module):
        for function in ptx.functions:
            if function.is_declaration:
                continue
            lost = _lost(function, ptx)
            if lost is not None:
                raise PTXError(
                    Diagnostic(
                        "error",
                        f"{function.symbol}: a pass removed {lost} with an unreachable block",
                        hint="run ptx-dce and ptx-fold in place of dce and canonicalize: they keep unreachable blocks",
                    )
                )
            if _has_blank_values(function) or any(True for _ in check_function(function, cfg_of(function))):
                changed |= assign_registers(function)
    return changed


def _lost(function: FunctionOp, module: ModuleOp) -> str | None:
    """What the function still needs of a block that is gone: a register's declaration, a list of labels, the end of a
    scope. None where nothing is missing.
    """
    ops = _ops(function)
    if sum(isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp) for op in ops) > 0:
        return "the end of a { } scope"
    used = {r.type.register_name for op in ops for r in op.results if isinstance(r.type, RegType)} - {""}
    declared = [d for op in (*module.body.ops, *ops) if isinstance(op, RegisterOp) for d in [op.declaration]]
    declared += [*function.parameters, *function.returns]
    single = {name for d in declared for name, tail in d.items if tail[:1] != ("<",)}
    ranges = [d for d in declared if any(tail[:1] == ("<",) for _, tail in d.items)]
    for name in sorted(used - single):
        if not any(d.declares(name) for d in ranges):
            return f"the declaration of {name}"
    lists = {list_name(op) for op in ops if isinstance(op, LabelListOp)}
    for op in ops:
        if isinstance(op, Instruction) and op.symbol_kind == "branch targets" and table_name(op.layout) not in lists:
            return f"the list {table_name(op.layout)}"
    return None


def _has_blank_values(function: FunctionOp) -> bool:
    return any(isinstance(r.type, RegType) and not r.type.register_name for op in _ops(function) for r in op.results)


def _ops(function: FunctionOp) -> list[Operation]:
    return [op for block in function.blocks for op in block.ops]
