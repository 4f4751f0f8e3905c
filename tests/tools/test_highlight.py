"""The Pygments lexer: every character of legal files has a class."""

from __future__ import annotations

import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.token import Comment, Error, Keyword, Name, Number

from pyptx.tools.highlight import PtxLexer
from tests.conftest import CORPUS


@pytest.mark.parametrize("folder", ["nvcc-13.0", "triton"])
def test_no_token_of_a_legal_file_is_unclassified(folder: str) -> None:
    files = sorted((CORPUS / folder).glob("*.ptx"), key=lambda p: p.stat().st_size)[:60]
    assert files
    for path in files:
        text = path.read_text(errors="replace")
        tokens = list(PtxLexer(stripnl=False, ensurenl=False).get_tokens(text))
        assert [t for t in tokens if t[0] is Error] == [], path
        assert "".join(value for _, value in tokens) == text


def test_classes() -> None:
    text = ".reg .b32 %r<4>; // four\n$L1: @%p1 add.rn.f32 %f1, %f2, 0f3F800000; mov.u32 %r1, %tid.x;"
    found = {value: kind for kind, value in PtxLexer().get_tokens(text)}
    assert found[".reg"] is Keyword.Declaration and found[".rn"] is Keyword.Type and found["add"] is Keyword
    assert found["%tid.x"] is Name.Builtin and found["%r1"] is Name.Variable and found["$L1"] is Name.Label
    assert found["0f3F800000"] is Number.Float and found["// four"] is Comment.Single
    assert "<span" in highlight(text, PtxLexer(), HtmlFormatter())
