"""Waits carry the registers in flight, so that nothing that reads them can move above the wait."""

from __future__ import annotations

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import ModuleOp

HEAD = ".version 8.0\n.target sm_90a\n.entry k(.param .u64 p)\n{\n\t.reg .pred %p<3>;\n\t.reg .b32 %r<20>;\n\t.reg .f32 %f<20>;\n\t.reg .b64 %rd<9>;\n"
MMA = "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, %rd1, %p1, 1, 1, 0;\n"


def module_of(body: str) -> tuple[ModuleOp, str]:
    text = HEAD + body + "\tret;\n}\n"
    inner = pyptx.parse(text, verify=True).body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner, text


def ops(module: ModuleOp, opcode: str) -> list[Instruction]:
    (function,) = module.functions
    return [op for b in function.blocks for op in b.ops if isinstance(op, Instruction) and op.opcode == opcode]


def names(values: object) -> list[str]:
    return [v.type.data[1] for v in values]  # pyright: ignore


def test_the_wait_defines_what_the_reader_reads() -> None:
    module, text = module_of(
        "\twgmma.fence.sync.aligned;\n"
        + MMA
        + "\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n"
        "\tadd.f32 %f5, %f0, %f1;\n"
    )
    (wait,) = ops(module, "wgmma.wait_group")
    (mma,) = ops(module, "wgmma.mma_async")
    (add,) = ops(module, "add")
    assert names(wait.results) == ["%f0", "%f1", "%f2", "%f3"]
    assert sorted(names(wait.operands)) == sorted(["%r0", "%r1", "%r2", "%r3", "%f0", "%f1", "%f2", "%f3"])
    assert add.operands[0] is wait.results[0]
    assert wait.operands[4] is mma.results[0]
    assert pyptx.to_ptx(module) == text
    assert check_module(module) == []


def test_a_wait_in_another_block_carries_them_too() -> None:
    module, text = module_of(
        MMA
        + "\t@%p2 bra SKIP;\n\tadd.s32 %r9, %r9, 1;\nSKIP:\n\twgmma.wait_group.sync.aligned 0;\n\tadd.f32 %f5, %f0, %f1;\n"
    )
    (wait,) = ops(module, "wgmma.wait_group")
    assert names(wait.results) == ["%f0", "%f1", "%f2", "%f3"]
    assert pyptx.to_ptx(module) == text
    assert check_module(module) == []


def test_nothing_in_flight_after_wait_0_but_after_wait_1() -> None:
    module, _ = module_of(MMA + "\twgmma.wait_group.sync.aligned 0;\n\twgmma.wait_group.sync.aligned 0;\n")
    first, second = ops(module, "wgmma.wait_group")
    assert len(first.results) == 4 and len(second.results) == 0
    module, _ = module_of(MMA + "\twgmma.wait_group.sync.aligned 1;\n\twgmma.wait_group.sync.aligned 0;\n")
    first, second = ops(module, "wgmma.wait_group")
    assert len(first.results) == 4 and len(second.results) == 4


def test_tcgen05_loads_are_in_flight_until_their_wait() -> None:
    text = (
        ".version 8.6\n.target sm_100a\n.entry k()\n{\n\t.reg .b32 %r<9>;\n"
        "\ttcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3];\n\ttcgen05.wait::ld.sync.aligned;\n"
        "\tadd.s32 %r4, %r1, %r2;\n\tret;\n}\n"
    )
    inner = pyptx.parse(text, verify=True).body.block.first_op
    assert isinstance(inner, ModuleOp)
    (wait,) = ops(inner, "tcgen05.wait::ld")
    (add,) = ops(inner, "add")
    assert names(wait.results) == ["%r1", "%r2"]
    assert list(add.operands) == list(wait.results)
    assert pyptx.to_ptx(inner) == text
