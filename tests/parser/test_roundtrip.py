"""Parse and print give the same bytes; every module check holds on what comes in."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyptx
from benchmarks.fuzz_verdicts import FOOTER, Draw, balanced
from pyptx.analysis.checks import check_module
from pyptx.dialects.ptx.structure import ModuleOp
from pyptx.parser.module import parse_text
from pyptx.passes.verify import module_diagnostics
from pyptx.tools.oracle import header
from tests.conftest import corpus_files, corpus_id

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
NOT_PTX = {"nvvm-reflect-arch-O0__1_sm_70.ptx"}
"""Corpus files ptxas rejects because they hold no PTX instruction where one is due."""


def text_of(path: Path) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def ptx_of(text: str, name: str) -> ModuleOp:
    module = parse_text(text, name)
    inner = module.body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.name)
def test_own_files_come_back_byte_for_byte(path: Path) -> None:
    text = text_of(path)
    module = ptx_of(text, path.name)
    assert pyptx.to_ptx(module) == text
    assert check_module(module) == []


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_files(), ids=corpus_id)
def test_corpus_comes_back_byte_for_byte(path: Path) -> None:
    text = text_of(path)
    if path.name in NOT_PTX:
        with pytest.raises(pyptx.PTXError):
            parse_text(text, path.name)
        return
    module = ptx_of(text, path.name)
    assert pyptx.to_ptx(module) == text
    assert check_module(module) == []


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_line_ends_and_missing_final_newline(ending: str, final: bool) -> None:
    text = ending.join(
        [".version 8.0", ".target sm_90", ".address_size 64", "", ".visible .entry k()", "{", "\tret;", "}"]
    )
    text += ending if final else ""
    assert pyptx.to_ptx(pyptx.parse(text)) == text


@pytest.mark.parametrize(
    "offset", ["+~1", " + ~ 1 ", "+ (~ /*x*/1+7 )*4", "+(1 + 7)* 4", "-8", "+-8", "+4^12", " + 4 ^ (2==010)"]
)
@pytest.mark.parametrize("base", ["gb", "%d1"])
def test_offsets_come_back_byte_for_byte(base: str, offset: str) -> None:
    """`~` and `^` in an offset are operators; in the layouts of the IR they mark registers and labels."""
    text = (
        ".version 8.5\n.target sm_90\n.address_size 64\n.global .b32 gb[64];\n.visible .entry k()\n{\n"
        f"\t.reg .b32 %r<4>;\n\t.reg .b64 %d<2>;\n\tld.global.b32 %r1, [{base}{offset}];\n"
        f"\t@!%p0 ld.global.b32 %r2, [{base}{offset}];\n\tret;\n}}\n"
    ).replace("%d<2>;", "%d<2>;\n\t.reg .pred %p<1>;")
    module = pyptx.parse(text)
    assert pyptx.to_ptx(module) == text
    assert pyptx.to_ptx(pyptx.parse(text)) == text, "remembered lines"


def test_parsed_ops_know_their_place() -> None:
    text = ".version 8.0\n.target sm_90\n.entry k()\n{\n\t.reg .b32 %r<2>;\n\tmov.b32 %r1, 7;\n\tret;\n}\n"
    module = ptx_of(text, "k.ptx")
    (function,) = module.functions
    places = {
        op.name: (op.location.filename.data, op.location.line.data, op.location.column.data)  # pyright: ignore
        for op in function.blocks[0].ops
    }
    assert places["ptx.mov"] == ("k.ptx", 6, 2)
    assert places["ptx.ret"] == ("k.ptx", 7, 2)


def test_instructions_of_every_form_in_one_module() -> None:
    """What one prints never serves for another that differs in a flag, a modifier or a constant."""
    draw = Draw("round trip")
    lines = {line for _ in range(6000) if balanced(line := draw.instruction())}
    lines |= {f"{a}.f32 %r1, %r2, %r3;" for a in ("div.full", "div.approx", "add.ftz", "add.sat")}
    body = [
        line for line in sorted(lines) if not line.startswith(("bra", "@%p1 bra", "@!%p2 bra", "brx", "ret", "exit"))
    ]
    head, foot = header("9.5", "sm_100a"), FOOTER
    text = head + "\n".join(body) + "\n" + foot
    problems = {d.line for d in pyptx.diagnose(text)}
    first = head.count("\n") + 1
    kept = [line for number, line in enumerate(body, first) if number not in problems]
    assert len(kept) > 800
    text = head + "\n".join(kept) + "\n" + foot
    module = pyptx.parse(text)
    printed = pyptx.to_ptx(module)
    assert printed == text
    assert not module_diagnostics(module)
