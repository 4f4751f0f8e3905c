"""Highlighting: every piece of a legal file has the class that it should have, and the committed grammars are the dialect's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import RegexLexer
from pygments.token import Comment, Error, Keyword, Name, Number

from pyptx import sass
from pyptx.dialects.ptx.opcodes import OPCODES, roots
from pyptx.dialects.ptx.special_registers import SPECIAL_REGISTERS
from pyptx.runtime.ptxas import run_nvdisasm
from pyptx.tools.highlight import TOKENS, PtxLexer, SassLexer, treesitter
from pyptx.tools.highlight.rules import ptx_rules, sass_rules
from pyptx.tools.highlight.textmate import SCOPES, files, main
from tests.conftest import some_corpus_files

ROOT = Path(__file__).resolve().parent.parent.parent


def classified(lexer: type[RegexLexer], text: str) -> list[tuple[object, str]]:
    """The tokens without white space and comments; none is unclassified, and together they are the text."""
    tokens = list(lexer(stripnl=False, ensurenl=False).get_tokens(text))
    assert [t for t in tokens if t[0] is Error] == []
    assert "".join(value for _, value in tokens) == text
    return [(kind, value) for kind, value in tokens if value.strip() and kind not in Comment]


@pytest.mark.corpus
@pytest.mark.parametrize("folder", ["nvcc-13.0", "triton", "clang-22", "hard/ptx"])
def test_each_opcode_of_a_legal_file_is_known(folder: str, corpus_dir: Path) -> None:
    """No plain name is where an instruction starts, or after a dot, but for the names that DWARF's `.loc` has."""
    for path in some_corpus_files(corpus_dir / folder, 100_000):
        tokens = classified(PtxLexer, path.read_text(errors="replace"))
        for (_, before), (kind, value) in pairwise(tokens):
            assert not (kind is Name and before in (";", "}", ".") and value != "function_name"), (path, before, value)


def test_each_modifier_of_the_dialect_is_one() -> None:
    for cls in OPCODES.values():
        for value in {v for form in cls.forms for slot in form.slots for v in slot.values}:
            (kind, text) = list(PtxLexer().get_tokens(f"add.{value} "))[1]
            assert (kind in Keyword, text) == (True, f".{value}")


@pytest.mark.corpus
def test_machine_code(corpus_dir: Path) -> None:
    """Instructions alone, and the whole file that nvdisasm prints."""
    text = min((corpus_dir / "triton").glob("*sm90*.ptx"), key=lambda p: p.stat().st_size).read_text()
    listing = sass.assemble(text)
    opcodes = {i.opcode for function in listing for i in function}
    spelled = "\n".join(i.text for function in listing for i in function)
    assert {value for kind, value in classified(SassLexer, spelled) if kind is Keyword} == opcodes
    printed = classified(SassLexer, run_nvdisasm(listing.cubin))
    assert {value for kind, value in printed if kind is Keyword} - {"NOP"} == opcodes - {"NOP"}  # NOP: padding


def test_classes() -> None:
    text = ".reg .b32 %r<4>; // four\n$L1: @%p1 add.rn.f32 %f1, %f2, 0f3F800000; mov.u32 %r1, %tid.x; tex.2d.v4 x, 1.5"
    found = {value: kind for kind, value in PtxLexer().get_tokens(text)}
    assert found[".reg"] is Keyword.Declaration and found[".rn"] is Keyword.Type and found["add"] is Keyword
    assert found["%tid.x"] is Name.Builtin and found["%r1"] is Name.Variable and found["$L1"] is Name.Label
    assert found["0f3F800000"] is Number.Float and found["// four"] is Comment.Single
    assert found[".2d"] is Keyword.Type and found["1.5"] is Number.Float
    assert "<span" in highlight(text, PtxLexer(), HtmlFormatter())


def test_classes_of_machine_code() -> None:
    text = "@!P0 LDG.E R0, desc[UR4][R2.64] ;\nS2R R3, SR_TID.X ;\nFADD R1, RZ, -1.5 ;\nTEX.LL RZ, R7, R4, 0x0, 2D ;\nBRA `(.L_x_1) ;"
    found = {value: kind for kind, value in SassLexer().get_tokens(text)}
    assert found["LDG"] is Keyword and found["R2"] is Name.Variable and found[".64"] is Keyword.Type
    assert found["SR_TID.X"] is Name.Builtin and found["RZ"] is Name.Builtin and found["desc"] is Name.Builtin
    assert found["1.5"] is Number.Float and found["2D"] is Name and found[".L_x_1"] is Name.Label


def test_the_committed_grammars_are_those_of_the_dialect(tmp_path: Path) -> None:
    """Written by a process of its own: other tests define instructions."""
    module = "pyptx.tools.highlight.textmate"
    subprocess.run([sys.executable, "-m", module, str(tmp_path)], check=True, cwd=ROOT)
    for path in files():
        committed = (ROOT / "editors" / "vscode" / path).read_text()
        assert committed == (tmp_path / path).read_text(), f"run python -m {module} editors/vscode"
    assert main([]) == 2


TREE_SITTER = ROOT / "editors" / "tree-sitter-ptx"


def test_the_committed_tree_sitter_grammar_is_that_of_the_dialect(tmp_path: Path) -> None:
    module = "pyptx.tools.highlight.treesitter"
    subprocess.run([sys.executable, "-m", module, str(tmp_path)], check=True, cwd=ROOT)
    for path in treesitter.files():
        assert (TREE_SITTER / path).read_text() == (tmp_path / path).read_text(), (
            f"run python -m {module} {TREE_SITTER}"
        )


@pytest.mark.corpus
def test_the_tree_sitter_grammar_takes_legal_files(corpus_dir: Path, tmp_path: Path) -> None:
    """Read by node, with tree-sitter's rules for tokens; opcodes and registers are of their nodes."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    chosen = [p for name in ("triton", "nvcc-13.0", "hard/ptx") for p in some_corpus_files(corpus_dir / name, 100_000)]
    own = tmp_path / "own.ptx"
    own.write_text(
        "$L1: @%p1 add.rn.f32 %f1, %f2, 0f3F800000; mov.u32 %r1, %tid.x; tex.2d.v4 x, 1.5; /* a */ ld.global.L2::128B %tid2;"
    )
    done = subprocess.run(
        ["node", "scripts/lex.cjs", *map(str, chosen), str(own)], cwd=TREE_SITTER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    seen = {name: set(pieces) for name, pieces in json.loads(done.stdout).items()}
    assert {"add", "mov", "tex"} <= seen["opcode"] <= set(roots())
    assert {"%p1", "%tid2"} <= seen["register"] and not seen["register"] & set(SPECIAL_REGISTERS)
    assert "%tid.x" in seen["special_register"] and {".2d", ".L2::128B", ".rn"} <= seen["modifier"]
    assert "0f3F800000" in seen["float"] and seen.keys() <= treesitter.CAPTURES.keys() | {"_element", "block", "label"}


def test_each_class_has_a_token_type_and_a_scope() -> None:
    kinds = {rule.kind for rule in (*ptx_rules(), *sass_rules())}
    assert kinds == TOKENS.keys() == SCOPES.keys()


def test_hostile_text_takes_linear_time() -> None:
    """No pattern backtracks over what others have read."""
    for piece in ("/*", '"', "a.", "%", "`(", ".0", "\\\n", "0x", "::", "1e"):
        for lexer in (PtxLexer, SassLexer):
            assert sum(len(value) for _, value in lexer().get_tokens(piece * 2_000)) >= len(piece) * 2_000 - 1
