"""Registers for printing, after passes that know nothing of them (xDSL's own, or an outsider's patterns)."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Block, Operation

from ..analysis.cfg import cfg_of
from ..analysis.checks import check_function
from ..dialects.ptx.structure import FallOp, FunctionOp, ScopeBeginOp, ScopeEndOp
from ..dialects.ptx.types import RegType
from ..ssa.fastir import create
from .assign_registers import assign_registers
from .verify import ptx_modules


def settle(module: BuiltinModule) -> bool:
    """Name blank values and repair those whose register no longer holds them; whether anything had to change.

    What passes of this package leave is in order, and stays as it is.
    """
    changed = False
    for ptx in ptx_modules(module):
        for function in ptx.functions:
            if function.is_declaration:
                continue
            changed |= _close_scopes(function)
            if _has_blank_values(function) or any(True for _ in check_function(function, cfg_of(function))):
                changed |= assign_registers(function)
    return changed


def _close_scopes(function: FunctionOp) -> bool:
    """Close the scopes whose end was in a block that a pass removed."""
    depth = sum(isinstance(op, ScopeBeginOp) - isinstance(op, ScopeEndOp) for op in _ops(function))
    if depth <= 0:
        return False
    ends: list[Operation] = [create(ScopeEndOp, (), (), {}, {}) for _ in range(depth)]
    function.regions[0].add_block(Block([*ends, create(FallOp, (), (), {}, {})]))
    return True


def _has_blank_values(function: FunctionOp) -> bool:
    return any(isinstance(r.type, RegType) and not r.type.register_name for op in _ops(function) for r in op.results)


def _ops(function: FunctionOp) -> list[Operation]:
    return [op for block in function.blocks for op in block.ops]
