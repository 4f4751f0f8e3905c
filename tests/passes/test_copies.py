"""Copy propagation says whether it changed a function."""

from __future__ import annotations

import pytest

import pyptx
from pyptx.dialects.ptx.structure import FunctionOp, ModuleOp
from pyptx.passes.copy_propagation import propagate_copies

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k(.param .u64 p)\n{\n.reg .b64 %d<3>;\n.reg .b32 %r<4>;\n"


def function_of(body: str) -> FunctionOp:
    module = pyptx.parse(f"{TEXT}{body}\nret;\n}}\n").body.block.first_op
    assert isinstance(module, ModuleOp)
    (function,) = module.functions
    return function


@pytest.mark.parametrize(
    ("body", "changed", "left"),
    [
        ("mov.b32 %r1, 5;\nmov.b32 %r2, %r1;", True, 1),  # nobody reads the copy
        ("mov.b32 %r1, 5;\nmov.b32 %r2, %r1;\nadd.s32 %r3, %r2, %r2;", True, 1),
        ("mov.b32 %r1, 5;\nadd.s32 %r3, %r1, %r1;", False, 1),
        ("add.s32 %r3, %r1, %r1;", False, 0),
    ],
)
def test_whether_copies_were_propagated(body: str, changed: bool, left: int) -> None:
    function = function_of(body)
    assert propagate_copies(function) is changed
    assert sum(getattr(op, "opcode", "") == "mov" for block in function.blocks for op in block.ops) == left
