"""Faithful mode: the program prints the file it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyptx
from pyptx.codegen import ptx_to_python
from tests.conftest import ROOT, corpus_files, corpus_id, some_corpus_files

from .programs import assert_harmless, printed, read, run, tokens

OWN = sorted((ROOT / "tests" / "data" / "ptx").glob("*.ptx"))
REFUSED = {"llvm-22/nvvm-reflect-arch-O0__1_sm_70.ptx"}
"""No PTX: ptxas and our parser reject them."""


@pytest.mark.parametrize("path", OWN, ids=lambda p: p.stem)
def test_own_files_come_back(path: Path) -> None:
    text = read(path)
    program = ptx_to_python(text)
    assert_harmless(program)
    assert run(program).ptx() == text
    bare = printed(text, trivia=False)
    assert tokens(bare) == tokens(text)
    assert not any(line in bare for line in text.split("\n") if line.strip().startswith("//"))


@pytest.mark.corpus
@pytest.mark.parametrize("folder", sorted({p.parent for p in corpus_files()}), ids=lambda p: p.name)
def test_corpus_comes_back(folder: Path, corpus_dir: Path) -> None:
    for path in some_corpus_files(folder):
        text = read(path)
        if corpus_id(path) in REFUSED:
            with pytest.raises(pyptx.PTXError):
                ptx_to_python(text)
            continue
        program = ptx_to_python(text)
        assert_harmless(program)
        assert run(program).ptx() == text, path
        assert tokens(printed(text, trivia=False)) == tokens(text), path


HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def kernel(body: str) -> str:
    return f"{HEADER}\n.visible .entry k(.param .u64 p)\n{{\n{body}\n}}\n"


def test_the_program_is_structure_not_text() -> None:
    """Changing the Python changes the PTX accordingly: a constant, a register, a label's two ends."""
    text = kernel(
        "\t.reg .b32 %r<4>;\n\t.reg .pred %p<2>;\n$L_top:\n\tadd.s32 %r1, %r2, 7;\n\tsetp.lt.s32 %p1, %r1, 9;\n"
        "\t@%p1 bra $L_top;\n\tret;"
    )
    program = ptx_to_python(text)
    changed = program.replace("r[2], 7", "r[3], 8").replace('"$L_top"', '"again"').replace('("%r", 4)', '("%count", 4)')
    want = text.replace("%r2, 7", "%r3, 8").replace("$L_top", "again").replace("%r", "%count")
    assert run(changed).ptx() == want


@pytest.mark.parametrize(
    "constant",
    [
        "0x3fb8aa3bU",
        "5U",
        "0b1011",
        "1<<4",
        "(3+4)*2",
        "017",
        "0X1F",
        "-1",
        "- 1",
        "~0",
        "WARP_SZ",
        "WARP_SZ - 1",
        "!0",
    ],
)
def test_integer_spellings(constant: str) -> None:
    text = kernel(f"\t.reg .b32 %r<4>;\n\tmov.u32 %r1, {constant};\n\tret;")
    assert printed(text) == text


@pytest.mark.parametrize(
    "constant",
    ["0f3F800000", "0f3f800000", "0F3F800000", "1.5", "1e-30", "0f7FC00000", "0fFF800000", "0f80000000", "-1.0"],
)
def test_float_spellings(constant: str) -> None:
    text = kernel(f"\t.reg .f32 %f<4>;\n\tmov.f32 %f1, {constant};\n\tret;")
    assert printed(text) == text
    text = kernel(f"\t.reg .f64 %f<4>;\n\tmov.f64 %f1, {constant.replace('0f', '0d00000000')};\n\tret;")
    assert printed(text) == text


@pytest.mark.parametrize("address", ["%rd1", "%rd1+8", "%rd1+-8", "%rd1+0", "%rd1+0x10", "p", "p+0", "p+8", "%rd1 + 4"])
def test_address_spellings(address: str) -> None:
    text = kernel(f"\t.reg .b64 %rd<4>;\n\t.reg .b32 %r1;\n\tld.u32 %r1, [{address}];\n\tret;")
    assert printed(text) == text


def test_scopes_that_hide_names() -> None:
    text = kernel(
        "\t.reg .b32 %r<4>;\n\t.reg .b32 x;\n\tmov.b32 x, 1;\n\t{\n\t.reg .b32 x;\n\t.reg .b64 %q<2>;\n\tmov.b32 x, 2;\n"
        "\tmov.b64 %q1, 3;\n\tmov.b32 %r3, 4;\nL:\n\t}\n\t{\n\t.reg .f32 x;\nL:\n\tmov.f32 x, 0f00000000;\n\tbra L;\n\t}\n"
        "\tmov.b32 %r1, x;\n\tret;"
    )
    assert printed(text) == text


def test_python_keywords_and_exotic_names() -> None:
    """PTX names that Python has taken: keywords, builtins, the names of the DSL, dunders, and one another."""
    names = [
        "class",
        "def",
        "print",
        "inst",
        "m",
        "addr",
        "reg",
        "__name__",
        "__builtins__",
        "$x",
        "_x",
        "x",
        "lambda",
        "match",
    ]
    body = "".join(f"\t.reg .b32 {name};\n\tmov.b32 {name}, {i};\n" for i, name in enumerate(names))
    text = kernel(body + "\tret;") + "".join(f".visible .entry {name}()\n{{\n\tret;\n}}\n" for name in names)
    program = ptx_to_python(text)
    assert_harmless(program)
    assert run(program).ptx() == text


def test_order_of_modifiers_is_kept() -> None:
    text = kernel("\t.reg .b64 %rd<4>;\n\t.reg .f32 %f<4>;\n\tatom.add.relaxed.gpu.f32 %f1, [%rd1], %f2;\n\tret;")
    assert printed(text) == text
    assert "exact.atom.add.relaxed.gpu.f32" in ptx_to_python(text)


def test_what_ptxas_refuses_comes_back_too() -> None:
    """An illegal instruction is the verifier's business: it is neither repaired nor refused here."""
    text = kernel("\t.reg .f32 %f<4>;\n\tmax.f32 %f1, %f2, 0;\n\tadd.f32 %f1, %f2, 1;\n\tret;").replace(
        "sm_90a", "sm_50"
    )
    assert printed(text) == text


def test_unknown_instructions() -> None:
    text = kernel("\t.reg .b32 %r<4>;\n\tfrobnicate.sync.b32 \t%r1, [%r2+4], {%r3, _};  // new\n\tret;")
    with pytest.raises(pyptx.PTXError, match="unknown instruction frobnicate"):
        ptx_to_python(text)
    assert printed(text, allow_unknown=True) == text


def test_label_that_is_not_there() -> None:
    with pytest.raises(pyptx.PTXError, match="label L is not defined") as caught:
        ptx_to_python(kernel("\tbra L;\n\t{\nL:\n\t}\n\tret;"))
    assert caught.value.diagnostics[0].line == 7


def test_deep_initialisers() -> None:
    deep = "{" * 150 + "1" + "}" * 150
    text = f"{HEADER}\n.global .b32 x[1] = {deep};\n"
    assert printed(text) == text


def test_label_with_the_name_of_an_outer_register() -> None:
    """ptxas takes it: in a scope, the label hides the register."""
    text = kernel("\t.reg .b32 x;\n\tmov.b32 x, 1;\n\t{\nx:\n\tbra x;\n\t}\n\tret;")
    assert not [d for d in pyptx.diagnose(text) if d.severity == "error"]
    assert printed(text) == text
