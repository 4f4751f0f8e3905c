"""Reading a statement through one seen before gives what reading it in full gives."""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.fuzz_verdicts import FOOTER, Draw, balanced
from pyptx.parser import known_lines, reader, recipes, templates
from pyptx.parser.reader import Reader
from pyptx.parser.templates import generalised
from pyptx.ssa.builder import FunctionSource
from pyptx.ssa.statement import Kind, Shape
from pyptx.text import diagnose
from pyptx.tools.oracle import header

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
FILES = sorted(CORPUS.rglob("*.ptx"))[::23] if CORPUS.exists() else []
SEED = int(os.environ.get("PYPTX_SEED", "1"))
FIELDS = (
    "kind", "tokens", "gaps", "op_class", "instruction", "modifiers", "layout", "plain_layout", "guard_mark", "written",
    "read", "tied", "guard", "bare", "column", "properties", "attributes", "opcode_tokens",
)  # fmt: skip


MEMOS = (
    (known_lines, "LINES"), (reader, "_unended"), (templates, "_templates"), (recipes, "_groups"), (recipes, "_definitions"),
)  # fmt: skip


@contextmanager
def in_full() -> Generator[None]:
    """Read without what was read before."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in MEMOS:
            patch.setattr(module, name, {})
        patch.setattr(templates, "find", lambda text, registers: None)
        patch.setattr(recipes, "find", lambda text, names: None)
        patch.setattr(reader, "definition_of", lambda text: None)
        yield


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in MEMOS:
        monkeypatch.setattr(module, name, {})


def plain(shape: Shape, name: str) -> dict[str, object]:
    """What a shape says, but for the registers and the label of the statement that it was made from."""
    labels = bool(name) and shape.kind in (Kind.LABEL, Kind.TERMINATOR)
    tokens = ["%" if t[0] == "%" or (labels and re.match(r"[\w$]", t) and i) else t for i, t in enumerate(shape.tokens)]
    if shape.kind == Kind.LABEL:
        tokens = []
    return {field: getattr(shape, field) for field in FIELDS} | {"tokens": tokens}


def statements(text: str) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for item in Reader(text).read().items:
        rows = item.statements if isinstance(item, FunctionSource) else [item]
        found += [(plain(s[0], s[4]), [r.name for r in s[1]], *s[2:]) for s in rows]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_files_read_the_same(path: Path, nothing_known: None, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    first = statements(text)  # with templates of this file
    second = statements(text)  # with those of all files so far
    with in_full():
        assert first == second == statements(text)


def test_constants_of_one_kind_are_judged_alike(nothing_known: None) -> None:
    """Of two instructions that differ in constants, the second is judged as if it stood alone."""
    choose = random.Random(SEED)
    draw = Draw(choose.random())
    lines = [line for _ in range(1500) if balanced(line := draw.instruction()) and generalised(line)[1]]
    head = header("9.5", "sm_100a")
    assert len(lines) > 300
    for line in lines:
        other = re.sub(r"(?<![\w$%.:])\d+(?![\w.])", lambda _: str(choose.choice((0, 1, 7, 64, 4096, 2**31 - 1))), line)
        if generalised(other)[0] != generalised(line)[0]:
            continue
        templates._templates.clear()
        known_lines.LINES.clear()
        alone = [d.message for d in diagnose(f"{head}{other}\n{FOOTER}")]
        together = [d.message for d in diagnose(f"{head}{line}\n{other}\n{FOOTER}") if d.line == head.count("\n") + 2]
        assert together == alone, f"{line}\n{other}"


def test_targets_do_not_leak_from_file_to_file(nothing_known: None) -> None:
    body = "elect.sync %r1|%p1, -1;\n"
    assert not diagnose(header("8.0", "sm_90") + body + FOOTER)
    assert diagnose(header("8.0", "sm_80") + body + FOOTER)
    assert not diagnose(header("8.0", "sm_90") + body + FOOTER)


def test_a_name_that_is_a_register_elsewhere(nothing_known: None) -> None:
    """`x` is a variable in one function and a register in the next: the same line is two different statements."""
    text = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.global .b32 x;\n"
        ".entry a() {\n.reg .b64 %d<3>;\nmov.b64 %d1, x;\nret;\n}\n"
        ".entry b() {\n.reg .b64 %d<3>;\n.reg .b64 x;\nmov.b64 %d1, x;\nret;\n}\n"
    )
    functions = [item for item in Reader(text).read().items if isinstance(item, FunctionSource)]
    reads = [[r.name for r in s[1]] for f in functions for s in f.statements if s[0].tokens[0] == "mov"]
    assert reads == [["%d1"], ["%d1", "x"]]


NAMES = ("g", "s", "p", "r64", "%tid.x", "f", "nowhere", "ld", "WARP_SZ", "_")
"""A global and a shared variable, a parameter, a register, a special register, a function, and what is not declared."""


def test_names_in_addresses_are_judged_one_by_one(nothing_known: None) -> None:
    """Of two instructions that differ in the variable, the second is read and judged as if it stood alone."""
    head = (
        ".version 8.0\n.target sm_90\n.address_size 64\n.global .b32 g[4];\n.func f()\n{\nret;\n}\n"
        ".entry k(.param .b32 p)\n{\n.shared .b32 s[4];\n.reg .b32 %r<3>;\n.reg .b64 r64;\n"
    )
    place = head.count("\n") + 2
    for spelling in (
        "ld.b32 %r1, [{}];",
        "ld.shared.b32 %r1, [{}+4];",
        "ld.param.b32 %r1, [{}];",
        "st.global.u32 [{}], 7;",
    ):
        for first, second in itertools.product(("g", "s", "p"), NAMES):
            line, other = spelling.format(first), spelling.format(second)
            together = [d for d in diagnose(f"{head}{line}\n{other}\nret;\n}}\n") if d.line == place]
            with in_full():
                alone = [d for d in diagnose(f"{head}ret;\n{other}\nret;\n}}\n") if d.line == place]
            assert together == alone, f"{line}\n{other}"
