"""Characters that PTX text may not hold, with their places."""

from __future__ import annotations

import pytest

import pyptx

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


@pytest.mark.parametrize("character", ["\u00a0", "\u3000", "\u2028", "\x85", "\x0b", "\x1c", "\0"])
def test_what_is_no_white_space_in_ptx(character: str) -> None:
    text = f"{HEADER}.entry k()\n{{\n\t.reg .b32 %r;\n\tmov.b32{character}%r, 1;\n\tret;\n}}\n"
    errors = [d for d in pyptx.diagnose(text) if d.severity == "error"]
    assert (errors[0].line, errors[0].column) == (7, 9)


def test_comments_may_hold_any_but_nul() -> None:
    text = f"// \u00e9\u00a0\n{HEADER}/* \u3000\n\u2028 */ .entry k() {{ ret; }}\n"
    assert not pyptx.diagnose(text)
    errors = pyptx.diagnose(text.replace("\u3000", "\0"))
    assert [d.line for d in errors if d.severity == "error"][:1] == [5]


def test_strings_are_ascii() -> None:
    errors = pyptx.diagnose(f'{HEADER}.file 1 "\u00e9.cu"\n.entry k() {{ ret; }}\n')
    assert [(d.line, d.column) for d in errors if d.severity == "error"] == [(4, 10)]


def test_parameters_have_one_dimension() -> None:
    errors = pyptx.diagnose(f"{HEADER}.entry k(.param .b32 a[2][3]) {{ ret; }}\n")
    assert "one dimension" in errors[0].message
