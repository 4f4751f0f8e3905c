"""Operands by the names of the syntax line, and ops made from text."""

from __future__ import annotations

import pytest
from xdsl.traits import SymbolTable, is_side_effect_free, is_speculatable
from xdsl.utils.exceptions import VerifyException

import pyptx
from pyptx.dialects.ptx.instruction import Instruction, iter_instructions
from pyptx.dialects.ptx.making import make_op
from pyptx.dialects.ptx.operands import Memory, Value
from pyptx.dialects.ptx.structure import FunctionOp
from pyptx.dialects.ptx.syntax import Immediate
from pyptx.dialects.ptx.types import RegType

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
BODY = "{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<9>;\n"


def instruction(text: str) -> Instruction:
    (op,) = iter_instructions(pyptx.parse(f"{HEADER}.entry k()\n{BODY}{text}\n}}\n"))
    return op


def test_operands_have_the_names_of_the_syntax_line() -> None:
    op = instruction("fma.rn.f32 %r1, %r2, 0f3F800000, %r3;")
    assert op.operand("d") == Value(op.results[0], True)
    assert op.operand("a") == Value(op.operands[0], False)
    assert op.operand("b") == Immediate("0f3F800000")
    assert op.operand("c") == Value(op.operands[1], False)
    store = instruction("st.global.b32 [%rd1+8], %r2;")
    assert store.operand("a") == Memory(Value(store.operands[0], False), 8)
    assert store.operand("b") == Value(store.operands[1], False)


def test_an_optional_operand_may_be_absent() -> None:
    assert instruction("bar.sync 0;").operand("b") is None
    with pytest.raises(KeyError, match="add has no operand 'c': it has d, a, b"):
        instruction("add.s32 %r1, %r2, %r3;").operand("c")


def test_make_op_is_what_the_parser_makes() -> None:
    parsed = instruction("shl.b32 %r1, %r2, 3;")
    made = make_op("shl.b32 =, $, 3;", list(parsed.operands), [RegType.of("b32", "%r1")])
    assert (type(made), made.properties, list(made.operands)) == (
        type(parsed),
        parsed.properties,
        list(parsed.operands),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shift.b32 =, $, 3", "shift.b32 is not a PTX instruction"),
        ("shl.b33 =, $, 3", "shl has no form with the modifiers of shl.b33"),
        ("shl.b32 =, $, (", "is not an operand list"),
        ("shl.b32 =, $, $", "reads 2 registers and writes 1, and 0 operands and 0 results are given"),
    ],
)
def test_make_op_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_op(text)


def test_make_op_says_of_which_type_its_arguments_are() -> None:
    value = instruction("shl.b32 %r1, %r2, 3;").operands[0]
    for text, operands, results, message in (
        (3, (), (), "make_op takes an instruction as text, not int"),
        ("shl.b32 =, $, 3", (1,), (RegType.of("b32"),), "the operands of make_op are values, not int"),
        ("shl.b32 =, $, 3", (value,), ("b32",), "the results of make_op are register types, not str"),
    ):
        with pytest.raises(TypeError, match=message):
            make_op(text, operands, results)  # pyright: ignore


@pytest.mark.parametrize("text", ["bra L", "bra.uni L"])
def test_a_branch_without_successors_is_not_legal(text: str) -> None:
    with pytest.raises(VerifyException, match="bra needs the blocks that it goes to"):
        make_op(text).verify()


def test_a_definition_is_found_before_its_declarations() -> None:
    module = pyptx.parse(f"{HEADER}.func f();\n.func f()\n{{\nret;\n}}\n.func g();\n.entry k()\n{{\nret;\n}}\n")
    (ptx,) = module.body.block.ops
    found = SymbolTable.lookup_symbol
    for trait in ptx.get_traits_of_type(SymbolTable):
        found = trait.lookup_symbol
    definition, declaration = found(ptx, "f"), found(ptx, "g")
    assert isinstance(definition, FunctionOp) and not definition.is_declaration
    assert isinstance(declaration, FunctionOp) and declaration.is_declaration
    assert found(ptx, "h") is None


@pytest.mark.parametrize(
    ("text", "free"),
    [
        ("add.s32 %r1, %r2, %r3;", True),
        ("mov.u32 %r1, %tid.x;", True),
        ("mov.u32 %r1, %clock;", False),
        ("add.cc.u32 %r1, %r2, %r3;", False),
        ("ld.global.b32 %r1, [%rd1];", False),
        ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", False),
    ],
)
def test_speculation(text: str, free: bool) -> None:
    op = instruction(text)
    assert is_side_effect_free(op) is free
    assert is_speculatable(op) is free


@pytest.mark.parametrize(
    ("text", "first"), [("cp.async.wait_all;", 80), ("griddepcontrol.wait;", 90), ("add.s32 %r1, %r2, %r3;", 50)]
)
@pytest.mark.parametrize("target", [50, 70, 80, 90])
def test_an_op_is_verified_for_the_target_of_its_module(text: str, first: int, target: int) -> None:
    """PTX ISA, "Target ISA Notes" of each instruction."""
    header = f".version 8.0\n.target sm_{target}\n.address_size 64\n"
    (op,) = iter_instructions(pyptx.parse(f"{header}.entry k()\n{BODY}{text}\n}}\n", verify=False))
    if target >= first:
        op.verify()
        return
    with pytest.raises(VerifyException, match=f"sm_{first}"):
        op.verify()
