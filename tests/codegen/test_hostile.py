"""No PTX can make the generated program do anything but define kernels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import pyptx
from pyptx.codegen import ptx_to_python

from .programs import assert_harmless, assert_sugar_harmless, run

ATTACKS = [
    "'); import os; os.system('id') #", '"""', "'''", "\\", "\\'", '\\"', "\n", "\r", "\x00", "{0}", "%s", "%(x)s", "${x}",
    "'+__import__('os').system('id')+'", "\u2028", "\x0c", "\udc80", "ⓘⓜⓟⓞⓡⓣ", "*/", "//", "#", "exec", "__import__",
]  # fmt: skip
pieces = st.lists(st.one_of(st.sampled_from(ATTACKS), st.text(max_size=6)), max_size=6).map("".join)
words = st.from_regex(r"[A-Za-z][A-Za-z0-9_$]{0,12}|[_$%][A-Za-z0-9_$]{1,12}", fullmatch=True) | st.sampled_from(
    [
        "import",
        "exec",
        "eval",
        "__import__",
        "m",
        "inst",
        "addr",
        "True",
        "None",
        "print",
        "os",
        "_",
        "__class__",
        "lead",
    ]
)


def check(text: str) -> None:
    """The program of any text that is PTX is harmless, and is that PTX."""
    try:
        program = ptx_to_python(text, allow_unknown=True)
    except pyptx.PTXError:
        return
    assert program.isascii()
    assert_harmless(program)
    assert run(program).ptx() == text
    readable = ptx_to_python(text, allow_unknown=True, sugar=True)
    assert readable.isascii()
    assert_sugar_harmless(readable)
    run(readable).ptx()


HEADER = ".version 8.7\n.target sm_90a\n.address_size 64\n"


@given(pieces)
def test_comments(text: str) -> None:
    line = text.replace("\n", " ").replace("\r", " ")
    check(
        f"// {line}\n{HEADER}// {line}\n.entry k() // {line}\n{{ // {line}\n\tret; // {line}\n// {line}\n}}// {line}\n"
    )


@given(pieces)
def test_strings(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    check(
        f'{HEADER}.file 1 "{quoted}"\n.pragma "{quoted}";\n.entry k()\n.pragma "{quoted}";\n{{\n\t.pragma "{quoted}";\n\tret;\n}}\n'
    )


@given(pieces)
def test_raw_strings(text: str) -> None:
    check(f'{HEADER}.file 1 "{text}"\n.entry k()\n{{\n\t.pragma "{text}";\n\tret;\n}}\n')


@given(st.lists(words, min_size=6, max_size=6, unique=True))
def test_names(names: list[str]) -> None:
    a, b, c, d, e, f = names
    check(
        f"{HEADER}.global .b32 {a};\n.entry {b}(.param .u64 {c})\n{{\n\t.reg .b32 {d};\n\t.reg .b32 {e}<4>;\n{f}:\n"
        f"\tmov.b32 {d}, {e}1;\n\tmov.b64 {e}2, {a};\n\tld.param.u64 {d}, [{c}];\n\tfoo.bar {a}, {d}, [{c}+4];\n\tbra {f};\n}}\n"
    )


@given(st.lists(words | pieces | st.sampled_from(list("[]{}(),;:@!|+-.<>=")), max_size=12).map(" ".join))
def test_statements(text: str) -> None:
    check(f"{HEADER}.entry k()\n{{\n\t{text};\n\tret;\n}}\n")


@given(pieces)
def test_anything(text: str) -> None:
    check(HEADER + text)
