"""Structural printing: renaming everything and bumping every immediate in the IR equals the same edit on the text.

The edit on the text is made by an independent tokenizer (below), which knows nothing of the parser.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, StringAttr

import pyptx
from pyptx.dialects.ptx.instruction import Instruction, iter_instructions
from pyptx.dialects.ptx.structure import LabelOp, ModuleOp, RegisterOp
from pyptx.dialects.ptx.syntax import Address, Immediate, Operand, Symbol, transform
from pyptx.parser.module import parse_text
from pyptx.passes.rename import rename_labels, rename_registers
from tests.conftest import corpus_files, corpus_id

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
SKIPPED = {"nvvm-reflect-arch-O0__1_sm_70.ptx"}

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\.[A-Za-z_]\w*(?:::\w+)*|[%$A-Za-z_][\w$]*|\d[\w.]*|.|\n', re.S
)


def text_of(path: Path) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def ptx_of(text: str) -> ModuleOp:
    inner = parse_text(text).body.block.first_op
    assert isinstance(inner, ModuleOp)
    return inner


def register_names(module: ModuleOp) -> set[str]:
    names: set[str] = set()
    for function in module.functions:
        for declaration in (*function.parameters, *function.returns):
            if declaration.space == "reg":
                names |= {n for n, _ in declaration.items}
        for block in function.blocks:
            for op in block.ops:
                if isinstance(op, RegisterOp):
                    for i, (name, tail) in enumerate(op.declaration.items):
                        count = op.declaration.count(i) if tail[:1] == ("<",) else None
                        names |= {name} if count is None else {name, *(f"{name}{n}" for n in range(count))}
    return names


def rename(name: str) -> str:
    stem = name.rstrip("0123456789")
    return ("%" if name[0] == "%" else "") + "zz_" + stem.lstrip("%") + name[len(stem) :]


def renamed_text(text: str, names: set[str], labels: set[str]) -> str:
    """Rename at the level of characters: every identifier token that is a register or label."""
    out: list[str] = []
    for token in TOKEN.findall(text):
        if token in names:
            out.append(rename(token))
        elif token in labels:
            out.append("Lab_" + token.replace("$", "d"))
        else:
            out.append(token)
    return "".join(out)


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_files(), ids=corpus_id)
def test_renaming_everything(path: Path) -> None:
    if path.name in SKIPPED:
        pytest.skip("no PTX")
    text = text_of(path)
    module = ptx_of(text)
    names = register_names(module)
    labels = {op.label for f in module.functions for b in f.blocks for op in b.ops if isinstance(op, LabelOp)}
    variables = {w for w in re.findall(r"[%$\w]+", text) if w in labels and w in names}
    assert not variables
    # a name that is both a register here and something else there cannot be told apart by a text edit
    others = {p for f in module.functions for d in f.parameters if d.space == "param" for p, _ in d.items}
    if names & others:
        pytest.skip("register names double as other names: the text edit is ambiguous")
    for function in module.functions:
        rename_registers(function, rename)
        rename_labels(function, lambda n: "Lab_" + n.replace("$", "d"))
    assert pyptx.to_ptx(module) == renamed_text(text, names, labels)


def bump(operand: Operand) -> Operand:
    return Immediate("77") if isinstance(operand, Immediate) else operand


NUMBER = r"-?(?:0[fFdDxX][0-9a-fA-F]+U?|\d+\.\d+(?:[eE][-+]?\d+)?|\d+U?)"


def bumped_line(line: str) -> str:
    """Replace every constant operand on a line by 77: numbers after an opcode, outside brackets and names."""
    code, comment, tail = line.partition("//")
    return "".join(bumped_statement(s) for s in re.findall(r"[^;]*;?", code)) + comment + tail


def bumped_statement(text: str) -> str:
    match = re.fullmatch(r"([\s{]*(?:@!?[%\w]+\s+)?[a-z][\w.:]*\s+)(.*)(;)", text)
    if match is None:
        return text
    out, depth = "", 0
    for token in re.findall(NUMBER + r"|[%$\w.]+|.", match[2]):
        depth += (token == "[") - (token == "]")
        out += "77" if depth == 0 and re.fullmatch(NUMBER, token) else token
    return match[1] + out + match[3]


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_files("hard/ptx/*.ptx"), ids=corpus_id)
def test_bumping_every_immediate(path: Path) -> None:
    text = text_of(path)
    module = ptx_of(text)
    touched: set[int] = set()
    for op in iter_instructions(module):
        layout = transform(op.layout, bump)
        layout = tuple(o if isinstance(o, Address) else n for o, n in zip(op.layout, layout, strict=True))
        if layout != op.layout:
            touched.add(op.location.line.data)  # pyright: ignore
            op.layout = layout
    lines = text.split("\n")
    multi = [i for i in touched if ";" not in lines[i - 1]]
    assert not multi, "the text edit works on single lines"
    expected = [bumped_line(line) if i in touched else line for i, line in enumerate(lines, 1)]
    assert pyptx.to_ptx(module).split("\n") == expected
    assert touched or path.stem in ("weakext", "dynpar", "gridconst")


def first(module: ModuleOp, name: str) -> Instruction:
    return next(op for op in iter_instructions(module) if op.opcode == name)


def test_changing_one_thing_changes_only_that() -> None:
    module = ptx_of(text_of(DATA / "nvcc_shmem.ptx"))
    op = first(module, "add")
    before = pyptx.to_ptx(module).split("\n")
    assert op.slot("type") == "s64"
    op.properties["type"] = StringAttr("u64")
    after = pyptx.to_ptx(module).split("\n")
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]
    assert isinstance(op.location, FileLineColLoc)
    assert changed == [op.location.line.data]
    assert after[changed[0] - 1] == before[changed[0] - 1].replace("add.s64", "add.u64")


def test_symbol_is_structural() -> None:
    module = ptx_of(text_of(DATA / "nvcc_shmem.ptx"))
    op = first(module, "ld")
    layout = transform(op.layout, lambda o: Symbol("other", o.offset) if isinstance(o, Symbol) else o)
    op.layout = layout
    assert "[other]" in pyptx.to_ptx(module)
