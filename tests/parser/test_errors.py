"""Bad PTX: a located message that says what would be legal, further errors reported too, never a traceback or a hang."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyptx
from pyptx.diagnostics import Diagnostic

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
DECLS = "\t.reg .pred %p<4>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<9>;\n\t.reg .f32 %f<9>;\n"


def kernel(body: str) -> str:
    return f"{HEAD}{DECLS}\t{body}\n\tret;\n}}\n"


def one(text: str) -> Diagnostic:
    found = pyptx.diagnose(text)
    assert len(found) == 1, [d.render() for d in found]
    return found[0]


@pytest.mark.parametrize(
    ("body", "message", "hint", "column"),
    [
        ("ad.s32 %r1, %r2, %r3;", "unknown instruction ad", "add", 2),
        ("add.s23 %r1, %r2, %r3;", "no modifier .s23", ".s32", 5),
        ("add.s32 %r1, %rd2, %r3;", "operand a must be .s32, and the register is .b64", "syntax: add", 15),
        ("add.s32 %r1, %r2;", "takes 3 operands, not 2", "syntax: add", None),
        ("ld.global.v2.u32 %r1, [%rd1];", "vector of 2 elements", "syntax: ld", 19),
        ("ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1];", "must have 2 elements, not 3", "syntax: ld", 19),
        ("add.f32 %f1, %f2, 1;", "needs a floating-point constant", "syntax: add", 20),
        (
            "add.rn.f32x2 %rd1, %rd2, %rd3;",
            "needs target sm_100 or newer and PTX 8.6 or newer, not sm_90 and 8.0",
            None,
            2,
        ),
        ("add.s32 %r1, %r2, %r33;", "%r33 is not declared", None, 20),
        ("add.s32 %r1 %r2, %r3;", "unexpected '%r2'", None, 14),
    ],
)
def test_message_place_and_hint(body: str, message: str, hint: str | None, column: int | None) -> None:
    found = one(kernel(body))
    assert message in found.message
    assert found.line == 10
    if column is not None:
        assert found.column == column
    if hint is not None:
        assert hint in (found.hint or "")


def test_feature_newer_than_the_version() -> None:
    text = (
        kernel("add.bf16 %r1, %r2, %r3;")
        .replace(".b32 %r<9>", ".b16 %r<9>")
        .replace("8.0", "7.8")
        .replace("add.bf16", "add.s16")
    )
    assert not [d for d in pyptx.diagnose(text) if d.line == 10]
    newer = kernel("add.u16x2 %r1, %r2, %r3;").replace(".version 8.0", ".version 7.8")
    assert "needs PTX 8.0 or newer" in one(newer).message


def test_an_instruction_that_needs_a_target_and_a_version_names_both() -> None:
    text = kernel("wgmma.fence.sync.aligned;").replace(".version 8.0", ".version 7.8")
    assert "needs target sm_90a and PTX 8.0 or newer, not sm_90 and 7.8" in one(text).message
    assert one(text.replace("7.8", "8.0")).message.endswith("needs target sm_90a, not sm_90")
    assert "PTX 8.0 or newer, and .version is 7.8" in one(text.replace("target sm_90", "target sm_90a")).message


MMA = "{%f0, %f1, %f2, %f3}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f4, %f5, %f6, %f7};"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16 {MMA}", "4 types, .dtype.atype.btype.ctype, and has 3"),
        (f"mma.sync.aligned.m16n8k16.row.col.f32.bf16 {MMA}", "4 types, .dtype.atype.btype.ctype, and has 2"),
        (f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {MMA}", ""),
    ],
)
def test_modifiers_that_are_missing_among_alike_ones_are_counted(body: str, count: str) -> None:
    if not count:
        assert pyptx.diagnose(kernel(body)) == []
        return
    found = one(kernel(body))
    assert count in found.message
    assert "syntax: mma.sync.aligned.shape" in (found.hint or "")


def test_errors_go_on_to_the_end_of_the_file() -> None:
    body = "\n\t".join(
        ["ad.s32 %r1, %r2, %r3;", "mov.b32 %r1, ;", "add.s32 %rx, %r1, 1;", "add.s32 %r1, %r2, %rd1;", "bra NOWHERE;"]
    )
    lines = [d.line for d in pyptx.diagnose(kernel(body))]
    assert lines == [10, 11, 12, 13, 14]


def test_parse_raises_with_rendered_place() -> None:
    with pytest.raises(pyptx.PTXError) as caught:
        pyptx.parse(kernel("mov.b32 %r1, ;"), filename="k.ptx")
    text = str(caught.value)
    assert "k.ptx:10:15: error:" in text
    assert "mov.b32 %r1, ;" in text
    assert "^" in text


@pytest.mark.parametrize(
    "text",
    [
        "", "\0", "\0" * 1000, "}", "{", ";", "@", ".version", ".version 8.0", HEAD, HEAD + "\tmov.b32", "/* never closed",
        'pragma "', HEAD + "\t{" * 2000, "(" * 5000, HEAD + "\tmov.b32 %r1, " + "(" * 3000 + "1" + ")" * 3000 + ";\n",
        HEAD + "\tadd.s32 " + "%r1, " * 200_000, ".entry k(", ".visible .func (.reg .b32 %r) f (.reg", ".section .debug {",
        ".global .b8 x[10] = {1, 2", "\ufeff.version 8.0\n",
    ],
    ids=range(22),
)  # fmt: skip
def test_garbage_is_an_error_quickly(text: str) -> None:
    start = time.monotonic()
    found = pyptx.diagnose(text)
    assert found, "garbage must be reported"
    assert all(isinstance(d.line, int) for d in found)
    assert time.monotonic() - start < 20


@given(st.binary(max_size=300))
def test_random_bytes_never_crash(data: bytes) -> None:
    pyptx.diagnose(data.decode("utf-8", "surrogateescape") + "\n")


@pytest.mark.parametrize(
    "head", ["add.s32", "sub.s32"]
)  # one that was read before with other operands, one that was not
def test_control_characters_are_refused_with_a_place(head: str) -> None:
    """The reader has such characters in its keys, where registers and constants were."""
    body = "\tadd.s32 %r1, %r1, 4;\n\tadd.s32 %r1, %r1, %r1;\n"
    for operands in product(["%r1", "4", "\0", "\1", "\4", "\0f"], repeat=3):
        line = f"\t{head} {', '.join(operands)};\n"
        found = pyptx.diagnose(
            f".version 8.5\n.target sm_90a\n.address_size 64\n.entry k()\n{{\n\t.reg .b32 %r<9>;\n{body}{line}\tret;\n}}\n"
        )
        foreign = any(operand[0] < " " for operand in operands)
        assert bool(found) == (foreign or operands[0] == "4"), (line, found)
        assert {d.line for d in found} <= {9}


SEEDS = [p.read_bytes() for p in sorted(DATA.glob("*.ptx"))]


@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files_parse_or_fail_with_a_place(seed: bytes, data: st.DataObject) -> None:
    text = bytearray(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        action = data.draw(st.integers(0, 3))
        if action == 0:
            text[at] = data.draw(st.integers(0, 255))
        elif action == 1:
            del text[at : at + data.draw(st.integers(1, 40))]
        elif action == 2:
            text[at:at] = text[at : at + 30]
        else:
            text[at:at] = data.draw(
                st.sampled_from([b";", b"{", b"}", b"(", b"\0", b"@", b"/*", b'"', b"%r1", b".b32"])
            )
        if not text:
            return
    source = text.decode("utf-8", "surrogateescape")
    found = pyptx.diagnose(source)
    assert all(d.line is not None and d.line >= 1 for d in found)
    try:
        module = pyptx.parse(source + "\n")
    except pyptx.PTXError as error:
        assert error.diagnostics
    else:
        assert pyptx.to_ptx(module) == source + "\n"


@pytest.mark.parametrize(
    "line",
    [
        "add.s32 %r1, %r2, =;", "add.s32 %r1, %r2, ~;", "ret =;", "ld.global.u32 %r1, [=];", "mov.b64 %rd1, {=, %r1};",
        "add.s32 %r1, %r2, ^0;", "bra ^0;", "add.s32 $, $, $;", "add.s32 %r1, $, %r2;", "add.s32 %r1, %r2, %;",
        "ld.global.u32 %r1, [%rd1+.s64];",
    ],
)  # fmt: skip
def test_marks_of_the_ir_are_no_ptx(line: str) -> None:
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<20>;\n.reg .b64 %rd<9>;\n"
        f"add.s32 %r4, %r2, %r3;\n{line}\nret;\n}}\n"
    )
    found = pyptx.diagnose(text)
    assert [d.line for d in found] == [9]
    with pytest.raises(pyptx.PTXError) as caught:
        pyptx.parse(text)
    assert [d.line for d in caught.value.diagnostics] == [9]


def test_an_outer_range_beyond_an_inner_one() -> None:
    """`%r<4>` in a scope hides %r0 to %r3 of the outer `%r<20>`, and no others."""
    text = (
        ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<20>;\n{\n.reg .b32 %r<4>;\n"
        "mov.b32 %r4, 1;\nmov.b32 %r3, %r4;\n}\nmov.b32 %r3, %r4;\nret;\n}\n"
    )
    assert pyptx.diagnose(text) == []
    module = pyptx.parse(text)
    assert pyptx.to_ptx(module) == text
    scopes = [r.type.data[1:] for op in module.walk() if op.name == "ptx.mov" for r in op.results]
    assert scopes == [("%r4", 0), ("%r3", 1), ("%r3", 0)]


@pytest.mark.parametrize(
    ("head", "line"),
    [(".target sm_90\n.address_size,64", 3), (".target sm_90,\n", 2), (".target, sm_90\n", 2)],
)
def test_headers_that_could_not_be_printed_back(head: str, line: int) -> None:
    text = f".version 8.5\n{head}\n.visible .entry k()\n{{\nret;\n}}\n"
    with pytest.raises(pyptx.PTXError) as caught:
        pyptx.parse(text)
    assert line in [d.line for d in caught.value.diagnostics]


def test_a_missing_modifier_is_named_with_all_that_would_do() -> None:
    (found,) = pyptx.diagnose(kernel("\tsqrt.f32 %f1, %f2;\n"))
    assert found.message == "sqrt.f32 needs one of .approx .rn .rz .rm .rp"


def test_a_variable_needs_a_name_that_is_one() -> None:
    """`.str`, as LLVM lets it through: ptxas stops at it, too."""
    found = one(".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .align 1 .b8 .str[11];\n")
    assert found.message.startswith(".str is not a name")
    assert found.location is not None
    assert found.location.split(":")[1:3] == ["4", "31"]


@pytest.mark.parametrize(
    ("body", "place"),
    [("\t@!%p10 bra   nowhere;\nL: bra L;", (6, 15)), ("bra L; L: @%p1 bra.uni nowhere;", (6, 24))],
)
def test_a_label_that_is_not_there_is_told_at_the_operand(body: str, place: tuple[int, int]) -> None:
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .pred %p<12>;\n"
    text = f"{head}{body}\nret;\n}}\n"
    with pytest.raises(pyptx.PTXError) as error:
        pyptx.parse(text)
    for (found,) in (error.value.diagnostics, pyptx.diagnose(text)):
        assert (found.message, (found.line, found.column)) == ("label nowhere is not defined in this function", place)


@pytest.mark.parametrize(
    "statement",
    ["bra {};", "add.s32 %r1, {}, %r2;", "mov.u32 %r1, {};", "st.global.u32 [{}], %r1;", "ex2.approx.f32 {}, {};"],
)
def test_control_characters_are_no_operands(statement: str) -> None:
    """The parser marks registers and names with control characters of its own, and has read such statements before."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<4>;\n"
    for mark in map(chr, range(1, 9)):
        text = f"{head}L: add.s32 %r1, %r1, %r2; mov.u32 %r1, %r2; bra L;\n{statement.replace('{}', mark)}\nret;\n}}\n"
        assert any(d.severity == "error" and d.line == 7 for d in pyptx.diagnose(text))
        with pytest.raises(pyptx.PTXError):
            pyptx.parse(text)


def test_a_semicolon_between_the_brackets_of_a_parameter() -> None:
    text = ".version 8.0\n.target sm_90\n.address_size 64\n.func n1()\n{\n.func c(.param .u32 p0[4]; .reg .b32 p1)\n{ ret; }\nret;\n}\n"
    found = next(d for d in pyptx.diagnose(text) if d.severity == "error")
    assert (found.message, found.line) == ("'[' is not closed", 6)


@pytest.mark.parametrize("address", ["[%d1+-}]", "[%d1-", "[%d1-]", "[%d1+-", "[-", "[%d1+-]"])
def test_a_sign_at_the_end_of_an_address(address: str) -> None:
    """The proposal of `+-` looked at the token after the sign, which these do not have."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    text = f"{head}ld.global.b32 %r1, {address};\nret;\n}}\n"
    assert any(d.severity == "error" and d.line == 6 for d in pyptx.diagnose(text))
