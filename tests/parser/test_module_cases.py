"""Whole modules in the corners of the grammar, each with the verdict of ptxas 13.5 written down, and asked again where
there is one: initial values, linking, aliases, call tables, line markers, headers, names of special registers.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import pyptx
from benchmarks.module_judge import refusals
from pyptx.passes.verify import module_diagnostics
from pyptx.runtime.ptxas import ToolNotFound, find_tool, tool_version
from pyptx.tools.cli import main

DATA = json.loads((Path(__file__).resolve().parent.parent / "data" / "isa" / "module_cases.json").read_text())
HEADER = ".version 9.5\n.target sm_90a\n.address_size 64\n"
CASES: list[tuple[str, bool]] = [
    (body if body.startswith(".version") else HEADER + body, legal) for body, legal in DATA["cases"]
]


def errors(text: str) -> list[str]:
    return [d.message for d in pyptx.diagnose(text) if d.severity == "error"]


def test_the_cases_are_judged_as_ptxas_judged_them() -> None:
    assert sum(legal for _, legal in CASES) > 250 and sum(not legal for _, legal in CASES) > 400
    wrong = [f"{text[-200:]!r}: {found[:1]}" for text, legal in CASES if bool(found := errors(text)) == legal]
    assert not wrong, "\n".join(wrong[:20])


def test_legal_cases_parse_print_back_and_verify() -> None:
    for text, legal in CASES:
        if legal:
            module = pyptx.parse(text)
            assert pyptx.to_ptx(module) == text
            assert not [d.message for d in module_diagnostics(module) if d.severity == "error"], text


def test_ptxas_still_says_so() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    if not tool_version("ptxas").startswith(DATA["ptxas"]):
        pytest.skip(f"the verdicts are those of ptxas {DATA['ptxas']}")
    some = CASES[::12]
    target = re.compile(r"\.target\s+(sm_\w+)").search
    asked = refusals([(text, found[1] if (found := target(text)) else "sm_90a") for text, _ in some], batch=1)
    assert [(text, not said) for (text, _), said in zip(some, asked, strict=True)] == some


ONCE_A_TRACEBACK = (
    ".shared .align  .u32 n;\n",
    ".entry k(){ .shared 16 .align .v4 .s32 s[4]; ret; }\n",
    ".global .u64 t[] = {generic).x, x};\n",
    ".func f(.reg x) { .reg .b64 %d; mov.b64 %d, {1, x}; ret; }\n",
    ".global .b32 g; .global .u8 v = 0xFF0000000000000000(g);\n",
)
"""Illegal texts that raised from inside, found by `benchmarks.mutations` but for the last two."""


@pytest.mark.parametrize("body", ONCE_A_TRACEBACK)
def test_bad_text_is_an_error_with_a_place(body: str) -> None:
    assert errors(HEADER + body)
    try:
        module_diagnostics(pyptx.parse(HEADER + body))
    except pyptx.PTXError as error:
        assert all(d.line for d in error.diagnostics)


ODD_BUT_LEGAL = (
    ".entry k(){.reg .u32 %r1; .reg .u64 %d1; ld.global.u32 %r1, [%d1+18446744073709551615]; ret;}\n",
    ".entry k(){.reg .u32 %r1; .reg .u64 %d1; ld.global.u32 %r1, [%d1+5 % 3]; st.global.u32 [%d1], %r1; ret;}\n",
    ".entry k(){.shared .align 1U .b8 s[4]; .shared .align 0x10 .b8 t[18446744073709551617]; ret;}\n",
)


@pytest.mark.parametrize("body", ODD_BUT_LEGAL)
@pytest.mark.parametrize("command", ["analyse", "fmt", "transpile"])
def test_the_tools_take_what_is_legal(body: str, command: str, tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(HEADER + body)
    assert main([command, str(file)]) == 0


def test_an_offset_with_a_remainder_survives_the_text_of_its_layout() -> None:
    text = HEADER + ".entry k(){.reg .u32 r; .reg .u64 d; ld.global.u32 r, [d+5 % 3]; mov.u64 d, 7 %3; ret;}\n"
    assert errors(text)  # `7 %3` has the name %3
    module = pyptx.parse(text.replace("7 %3", "7 % 3"))
    from pyptx.dialects.ptx.syntax import layout_text, parse_layout

    layouts = [op.layout for op in module.walk() if hasattr(op, "layout") and getattr(op, "layout", None)]  # pyright: ignore
    assert layouts and all(parse_layout(layout_text(layout)) == layout for layout in layouts)


EXTERN = HEADER + ".extern .func g();\n.visible .entry k(){ call g; ret;}\n"


def test_check_says_that_a_part_of_a_program_needs_linking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    file = tmp_path / "k.ptx"
    file.write_text(EXTERN)
    assert main(["check", str(file)]) == 0
    said = capsys.readouterr().out
    assert "g" in said and "-c" in said and "fine (pyptx and ptxas -c)" in said
