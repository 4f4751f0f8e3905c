"""`fmt --rename`: new names are free ones, and a module that describes registers in its debug information is refused."""

from __future__ import annotations

import re

import pytest

import pyptx
from pyptx.diagnostics import PTXError
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.passes.readable_names import rename_readable

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
LOOP = """{
.reg .pred p;
.reg .b32 i;
mov.b32 i, 0;
again:
add.s32 i, i, 1;
setp.lt.s32 p, i, 9;
@p bra again;
@p bra out;
add.s32 i, i, 2;
out:
ret;
}
"""


def renamed(text: str) -> str:
    module = pyptx.parse(HEAD + text)
    (inner,) = (op for op in module.body.block.ops if isinstance(op, ModuleOp))
    rename_readable(inner)
    found = pyptx.to_ptx(module)
    assert pyptx.diagnose(found) == []
    return found


def labels(text: str) -> list[str]:
    return re.findall(r"^\s*(\w+):", text, re.MULTILINE)


def test_labels_are_counted_from_zero_by_kind() -> None:
    assert labels(renamed(f".entry k() {LOOP}")) == ["loop_0", "L_0"]


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [(["L_0"], ["loop_0", "L_1"]), (["loop_0", "loop_1"], ["loop_2", "L_0"]), (["L_1"], ["loop_0", "L_0"])],
)
def test_a_label_has_no_name_of_a_function(taken: list[str], wanted: list[str]) -> None:
    functions = "".join(f".func {name}() {{ ret; }}\n" for name in taken)
    assert labels(renamed(f"{functions}.entry k() {LOOP}")) == wanted


@pytest.mark.parametrize(
    ("numbers", "refused"),
    [
        ("0x90", True), ("0x92", True), ("144", True), ("0x91", False), ("17, 3", False), ("0x9000", True),
        ("0x920000000000", True), ("-112", True), ("-1", False), ("-0x6e", True), ("0x900", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("section", [".debug_loc", ".debug_info", ".debug_str"])
def test_registers_in_debug_information(section: str, numbers: str, refused: bool) -> None:
    """DWARF 4, 7.7.1: DW_OP_regx is 0x90 and DW_OP_bregx 0x92; numbers are little-endian, negative ones two's complement."""
    text = f".entry k() {LOOP}\n.section {section}\n{{\n.b64 {numbers}\n}}\n"
    if refused and section != ".debug_str":
        with pytest.raises(PTXError, match="describes registers by name"):
            renamed(text)
    else:
        assert labels(renamed(text)) == ["loop_0", "L_0"]
