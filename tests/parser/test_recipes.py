"""Text read through what was read before gives what reading it in full gives, also where the same words mean something else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import pyptx
from pyptx.parser.reader import Reader
from tests.conftest import corpus_files
from tests.parser.test_templates import MEMOS, in_full, statements

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
ENTRY = ".visible .entry k(.param .u64 p)\n{\n"

# each body is legal after the one before it was read, and says something else
PAIRS = [
    ("special register, then a register of that name",
     "\t.reg .b32 %r<9>;\n\tmov.u32 %r1, %tid.x;\n\tret;\n",
     "\t.reg .b32 %r<9>, %smid;\n\tmov.u32 %r1, %smid;\n\tret;\n"),
    ("a word that is a variable, then a register",
     "\t.shared .b32 w;\n\t.reg .b32 %r<9>;\n\t{ mov.u32 %r1, w; }\n\tret;\n",
     "\t.reg .b32 w;\n\t.reg .b32 %r<9>;\n\t{ mov.u32 %r1, w; }\n\tret;\n"),
    ("a register declared in the chunk, then one around it",
     "\t.reg .b32 %r<9>;\n\t{ .reg .b32 t; mov.u32 t, %r1; mov.u32 %r2, t; }\n\tret;\n",
     "\t.reg .b32 %r<9>;\n\t.reg .b32 t;\n\tmov.u32 t, 7;\n\t{ .reg .b32 t; mov.u32 t, %r1; mov.u32 %r2, t; }\n\tmov.u32 %r3, t;\n\tret;\n"),
    ("a symbol with a percent sign, then none",
     "\t.reg .b64 %rd<9>;\n\t.local .b64 %stack[4];\n\t{ mov.u64 %rd1, %stack; }\n\tret;\n",
     "\t.reg .b64 %rd<9>;\n\t{ mov.u64 %rd1, %stack; }\n\tret;\n"),
    ("a scope that ends, then the function's end on the same line",
     "\t.reg .b32 %r<9>;\n\t{\n\tmov.u32 %r1, 1; }\n\tret;\n",
     "\t.reg .b32 %r<9>;\n\tmov.u32 %r1, 1; }\n.visible .entry l()\n{\n\tret;\n"),
    ("registers in a range, then beyond it",
     "\t.reg .b32 %r<9>;\n\t{ add.s32 %r1, %r2, %r8; }\n\tret;\n",
     "\t.reg .b32 %r<5>;\n\t{ add.s32 %r1, %r2, %r8; }\n\tret;\n"),
    ("a range declared once, then twice",
     "\t.reg .b32 %r<9>;\n\tret;\n",
     "\t.reg .b32 %r<9>;\n\t.reg .b32 %r<9>;\n\tret;\n"),
    ("a name in a comment, then another",
     "\t.reg .b32 %r<9>;\n\tmov.u32 %r1, %laneid; // %r2\n\tret;\n",
     "\t.reg .b32 %r<9>;\n\tmov.u32 %r1, %laneid; // %r3\n\tret;\n"),
    ("a statement over several lines, with other registers",
     "\t.reg .b32 %r<9>;\n\tadd.s32 %r1,\n\t\t%r2,\n\t\t%r3;\n\tret;\n",
     "\t.reg .b32 %r<9>;\n\tadd.s32 %r4,\n\t\t%r4,\n\t\t%r5;\n\tret;\n"),
    ("a parameter that is a variable, then a function",
     "\t.reg .b64 %rd<9>;\n\t{ mov.u64 %rd1, f; }\n\tret;\n}\n.func f()\n{\n\tret;\n",
     "\t.shared .b32 f;\n\t.reg .b64 %rd<9>;\n\t{ mov.u64 %rd1, f; }\n\tret;\n"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in MEMOS:
        monkeypatch.setattr(module, name, {})


def outcome(text: str) -> object:
    """All that reading says: the statements with their lines and columns, the text after, the issues; and the diagnostics."""
    found = Reader(text).read()
    return statements(text), found.tail, found.issues, [d.render() for d in pyptx.diagnose(text)]


def cold(text: str) -> object:
    with in_full():
        return outcome(text)


@pytest.mark.parametrize(("first", "second"), [p[1:] for p in PAIRS], ids=[p[0] for p in PAIRS])
def test_words_that_mean_something_else(first: str, second: str) -> None:
    first, second = HEAD + ENTRY + first + "}\n", HEAD + ENTRY + second + "}\n"
    for text in (first, first, second, first, second):
        assert outcome(text) == cold(text)


def varied(text: str, rng: random.Random) -> str:
    """Lines moved, doubled, dropped and joined; registers and words exchanged: mostly still PTX."""
    lines = text.split("\n")
    names = re.findall(r"[%$\w]+", text) or [""]
    for _ in range(rng.randint(1, 5)):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines[at], lines[other] = lines[other], lines[at]
            case 1:
                lines.insert(other, lines[at])
            case 2:
                del lines[at]
                lines = lines or [""]
            case 3:
                lines[at : at + 2] = [" ".join(lines[at : at + 2])]
            case 4:
                lines[at] = re.sub(r"%[a-z]+", lambda m: rng.choice(["%r", "%rd", "%f", "%p", "%tid", m[0]]), lines[at])
            case _:
                lines[at] = re.sub(r"[%$\w]+", lambda m: rng.choice((m[0], m[0], rng.choice(names))), lines[at])
    return "\n".join(lines)


def small_files() -> list[Path]:
    return [p for p in corpus_files() if not p.exists() or p.stat().st_size < 12_000][::9]


@pytest.mark.corpus
@pytest.mark.parametrize("path", small_files(), ids=lambda p: p.name)
def test_varied_files(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    rng = random.Random(path.name)
    assert outcome(text) == cold(text)
    for _ in range(6):
        other = varied(text, rng)
        assert outcome(other) == cold(other)


def test_marks_in_the_text_are_no_registers() -> None:
    """A control character in a string or comment is not a place of a register."""
    body = '\t.reg .b32 %r<9>;\n\t.pragma "{}";\n\t{{ mov.u32 %r1, %r2; }} // {}\n\tret;\n'
    for a, b in (("%r1", "x"), ("\1", "\1"), ("\1\1", "%r2"), ("\0", "%tid"), ("x", "\1")):
        text = HEAD + ENTRY + body.format(a, b) + "}\n"
        assert outcome(text) == cold(text)


@pytest.mark.parametrize("label", ["5", "_", "WARP_SZ", "0f3F800000", "L"])
def test_a_branch_known_before_does_not_make_labels(label: str) -> None:
    for name in ("L", label):
        text = HEAD + ENTRY + f"\tbra {name};\n{name}:\n\tret;\n}}\n"
        assert outcome(text) == cold(text)


@pytest.mark.parametrize(
    ("outside", "inside", "message"),
    [
        ("%r1, %r2", "%t", ""),
        ("%r1", "%r2", "%r2 is not declared"),
        ("%r1, %r2", "%r2", ""),
        ("%r1", "%t", "%r2 is not declared"),
        ("%r2", "%r1", "%r1 is not declared"),
    ],
)
def test_a_statement_after_the_end_of_its_scope(outside: str, inside: str, message: str) -> None:
    """PTX ISA 4.3.2 (scopes): the registers of a `{ }` are not there after it, whatever was read before."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\n"
    learned = head + ".reg .b32 %r1, %r2;\n{\n.reg .b32 %t;\n} mov.u32 %r1, %r2;\nret;\n}\n"
    assert pyptx.diagnose(learned) == []
    text = head + f".reg .b32 {outside};\n{{\n.reg .b32 {inside};\n}} mov.u32 %r1, %r2;\nret;\n}}\n"
    assert [d.message for d in pyptx.diagnose(text)] == ([message] if message else [])
