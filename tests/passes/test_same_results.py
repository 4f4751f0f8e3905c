"""Programs compute the same after a pass; they are printed and read again, so that registers count, not SSA values."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

import pyptx
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import DeclarationAttr, FunctionOp, ModuleOp, RegisterOp, head_labels
from pyptx.dialects.ptx.types import RegType
from pyptx.passes.assign_registers import assign_registers, is_fixed
from pyptx.passes.canonical import canonicalise
from pyptx.passes.copy_propagation import CopyPropagation
from pyptx.passes.cse import CommonSubexpressions
from pyptx.passes.dce import DeadCode
from pyptx.passes.fold import Fold
from pyptx.passes.inline import inline_calls
from pyptx.passes.outline import OutlineError, outline
from pyptx.passes.readable_names import rename_readable
from pyptx.runtime.ptxas import assemble
from pyptx.ssa.fastir import set_type
from tests.passes.sample import ptx_of, random_program

THREADS = 32
SEEDS = range(24)


def results(text: str) -> list[int]:
    out = np.zeros(8 * THREADS, np.uint32)
    pyptx.simulate(pyptx.parse(text), out, grid=1, block=THREADS)
    return out.tolist()


def functions(module: ModuleOp) -> list[FunctionOp]:
    return [f for f in module.functions if not f.is_declaration]


def rename_all(function: FunctionOp, name: Callable[[int], str]) -> None:
    """Give every value a register of its own (or none), whatever it flows into."""
    for op in [op for block in function.blocks for op in block.ops if isinstance(op, RegisterOp)]:
        op.detach()
        op.erase()
    values = [v for b in function.blocks for v in (*b.args, *(r for op in b.ops for r in op.results))]
    for i, value in enumerate(values):
        set_type(value, RegType((cast(RegType, value.type).register_class, name(i), 0)))


def blank(module: ModuleOp) -> None:
    for function in functions(module):
        rename_all(function, lambda i: "")
        assign_registers(function)


def distinct(module: ModuleOp) -> None:
    for function in functions(module):
        rename_all(function, lambda i: "")
        # as if a pass had named each value by itself: every join and every tie needs a move
        values = [v for b in function.blocks for v in (*b.args, *(r for op in b.ops for r in op.results))]
        declare: dict[str, list[str]] = {"pred": [], "b32": [], "b64": []}
        for i, value in enumerate(values):
            register_class = cast(RegType, value.type).register_class
            declare[register_class].append(f"%v{i}")
            set_type(value, RegType((register_class, f"%v{i}", 0)))
        first = function.blocks[0].first_op
        assert first is not None
        for register_class, names in declare.items():
            if names:
                declaration = DeclarationAttr(((".reg", f".{register_class}"), tuple((n, ()) for n in names)))
                op = RegisterOp.create(properties={"declaration": declaration})
                function.blocks[0].insert_op_before(op, first)
        assign_registers(function)


def shared_register(module: ModuleOp) -> None:
    """All values that no join or tie fixes sit in one register per class: nearly all of them are stale."""
    for function in functions(module):
        for block in function.blocks:
            for op in block.ops:
                for value in op.results:
                    if not is_fixed(value) and cast(RegType, value.type).register_class == "b32":
                        set_type(value, RegType(("b32", "%r0", 0)))
        assign_registers(function)


def each(pass_: type) -> Callable[[ModuleOp], None]:
    return lambda module: pass_().run(module)


def everything(module: ModuleOp) -> None:
    for pass_ in (Fold, CommonSubexpressions, CopyPropagation, Fold, DeadCode):
        pass_().run(module)


def outline_and_inline(module: ModuleOp) -> None:
    labels = [o.label for f in functions(module) for b in f.blocks for o in head_labels(b)]
    for i, label in enumerate(labels):
        try:
            outline(module, label, f"part{i}")
        except OutlineError:
            continue
    inline_calls(module)


CHANGES: dict[str, Callable[[ModuleOp], None]] = {
    "blank values": blank,
    "a register per value": distinct,
    "one register for all": shared_register,
    "dce": each(DeadCode),
    "cse": each(CommonSubexpressions),
    "copy propagation": each(CopyPropagation),
    "fold": each(Fold),
    "everything": everything,
    "fmt": canonicalise,
    "fmt --rename": rename_readable,
    "outline, inline": outline_and_inline,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int, change: str) -> None:
    text = random_program(seed)
    module = ptx_of(text)
    CHANGES[change](module)
    assert check_module(module) == []
    changed = pyptx.to_ptx(module)
    assert assemble(changed, "sm_80", check_only=True).ok
    assert results(changed) == results(text)


@pytest.mark.parametrize("name", CHANGES)
def test_the_changes_change_something(name: str) -> None:
    def changes(seed: int) -> bool:
        module = ptx_of(random_program(seed))
        before = pyptx.to_ptx(module)
        CHANGES[name](module)
        return pyptx.to_ptx(module) != before

    assert any(changes(seed) for seed in SEEDS)


def test_blank_values_need_no_moves() -> None:
    """What one register held can be held by one register again: only names may differ."""
    for seed in SEEDS:
        module = ptx_of(random_program(seed))
        before = opcodes(module)
        blank(module)
        assert opcodes(module) == before


def test_a_register_per_value_needs_moves() -> None:
    module = ptx_of(random_program(1))
    before = opcodes(module)
    distinct(module)
    assert opcodes(module).count("mov") > before.count("mov")


def opcodes(module: ModuleOp) -> list[str]:
    return [op.opcode for f in functions(module) for b in f.blocks for op in b.ops if isinstance(op, Instruction)]


def test_a_body_that_names_what_is_declared_behind_the_caller_stays_called() -> None:
    text = (
        ".version 8.8\n.target sm_90\n.address_size 64\n.func f(.reg .b32 x);\n"
        ".visible .entry k(.param .u32 n)\n{\n.reg .b32 %r<3>;\nld.param.u32 %r1, [n];\ncall f, (%r1);\nret;\n}\n"
        ".global .u32 gv;\n.func f(.reg .b32 x)\n{\nst.global.u32 [gv], x;\nret;\n}\n"
    )
    module = pyptx.parse(text)
    inner = next(iter(module.body.block.ops))
    assert isinstance(inner, ModuleOp)
    assert inline_calls(inner) == 0
    assert not [d for d in pyptx.diagnose(pyptx.to_ptx(module)) if d.severity == "error"]
    moved = text.replace(".global .u32 gv;\n", "").replace(
        ".func f(.reg .b32 x);", ".global .u32 gv;\n.func f(.reg .b32 x);"
    )
    inner = next(iter(pyptx.parse(moved).body.block.ops))
    assert isinstance(inner, ModuleOp)
    assert inline_calls(inner) == 1
