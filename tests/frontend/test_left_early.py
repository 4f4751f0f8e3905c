"""Python's `break`, `continue`, `return` and exceptions that leave a traced block: refused, whatever encloses the block; and
those that skip nothing are not. Programs are generated: an enclosing construct, a block, a statement.
"""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import TracebackType
from typing import Any

import pytest

import pyptx.modules as modules
from pyptx import PTXError, kernel, ptx, reg
from pyptx.types import pred, s32, u32

AROUND = {
    "nothing": ["@"],
    "for": ["for k in range(3):", " @"],
    "while": ["n = 0", "while True:", " n += 1", " if n > 3: break", " @"],
    "else of a for": ["for k in range(0):", " pass", "else:", " for k in range(3):", "  @"],
    "if": ["for k in range(3):", " if k >= 0:", "  @"],
    "try": ["for k in range(3):", " try:", "  @", " finally:", "  emit(7)"],
    "except": ["for k in range(3):", " try:", "  raise KeyError", " except KeyError:", "  @"],
    "a block": ["for k in range(3):", " with ptx.scope():", "  @"],
    "range_": ["for i in ptx.range_(4):", " @"],
    "range_ in for": ["for k in range(3):", " for i in ptx.range_(4):", "  @"],
    "match": ["for k in range(3):", " match k:", "  case _:", "   @"],
    "a helper": ["def helper():", " for k in range(3):", "  @", "  emit(6)", "helper()"],
    "a generator": ["for k in (k for k in range(3)):", " @"],
}
BLOCKS = {
    "if_": ["with ptx.if_(p):"],
    "else_": ["with ptx.if_(p):", " emit(8)", "with ptx.else_():"],
    "loop": ["with ptx.loop(ptx.fresh_label('l'), pred=p):"],
    "scope": ["with ptx.scope():"],
    "two": ["with ptx.if_(p), ptx.scope():"],
    "as": ["with ptx.if_(p) as z:"],
    "stack": ["with ExitStack() as s:", " s.enter_context(ptx.if_(p))"],
    "generator": ["with guarded(p):"],
    "class": ["with Guarded(p):"],
    "range_": ["for i in ptx.range_(2):"],
}
BREAKS = {
    "break": ["break"],
    "continue": ["continue"],
    "if break": ["if emit(0) is None: break"],
    "if continue": ["if emit(0) is None:", " continue"],
    "try break": ["try:", " break", "finally:", " emit(4)"],
    "handler break": ["try:", " raise KeyError", "except KeyError as e:", " break"],
    "with break": ["with ptx.scope():", " break"],
    "break in else": ["for q in range(2):", " emit(1)", "else:", " break"],
    "in one line": ["emit(1); break"],
}
RETURNS = {
    "return": ["return"],
    "return value": ["return emit(3)"],
    "return constant": ["return 5"],
    "if return": ["if emit(0) is None:", " return p"],
    "for return": ["for q in range(2):", " return"],
    "with return": ["with ptx.if_(p):", " return"],
}
FINE = {
    "inner break": ["for q in range(2):", " break"],
    "inner continue": ["for q in range(2):", " continue", "pass"],
    "pass": ["pass"],
    "not taken": ["if emit(0) is not None:", " return", "emit(1)"],
    "not taken at the end": ["if emit(0) is not None:", " return"],
    "finally": ["try:", " emit(1)", "finally:", " emit(4)"],
    "two in one line": ["emit(1); pass"],
    "inner function": ["def g():", " return 1", "g()"],
    "inner block": ["with ptx.if_(p):", " emit(1)"],
}

_numbers = count()


@contextmanager
def guarded(p: Any) -> Iterator[None]:
    with ptx.if_(p):
        yield


class Guarded:
    def __init__(self, p: Any):
        self.block = ptx.if_(p)

    def __enter__(self) -> None:
        self.block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.block.__exit__(kind, error, traceback)


def emit(n: int) -> None:
    ptx.inst.mov.u32(reg.scalar(u32), n)


def indented(lines: list[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


def program(around: str, block: str, statement: list[str], one_line: bool = False) -> str:
    *before, header = BLOCKS[block] if block != "stack" else ["with ExitStack() as s:"]
    extra = BLOCKS["stack"][1:] if block == "stack" else []
    inner = [*before, header + " " + statement[0]] if one_line else [*before, header, *extra, *indented(statement, 1)]
    lines: list[str] = []
    for line in AROUND[around]:
        by = len(line) - len(line.lstrip())
        lines += indented([*inner, "emit(2)"], by) if line.strip() == "@" else [line]
    start = "p = reg.scalar(pred); ptx.setp('gt', s32, p, reg.scalar(s32, init=1), 0)"
    return "\n".join(["def f():", *indented([start, *lines, "emit(5)"], 1)]) + "\n"


def outcome(text: str) -> str:
    """What tracing a program says; "" for nothing."""
    filename = f"<program {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names = dict(globals())
    exec(compile(text, filename, "exec"), names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kernel(names["f"]).ptx()
        except PTXError as error:
            assert "caught outside" in str(error) or error.diagnostics[0].filename == filename
            return str(error)
    return ""


@pytest.mark.parametrize("around", AROUND)
def test_statements_that_leave_a_block(around: str) -> None:
    for number, block in enumerate(BLOCKS):
        statements = {**RETURNS, **({} if around == "nothing" and block != "range_" else BREAKS)}
        for name, statement in list(statements.items())[number % 3 :: 3]:
            if block == "range_" and "continue" in name:  # which is the end of a round
                continue
            text = program(around, block, statement)
            said = outcome(text)
            assert "cuts the trace short" in said or "cannot be traced" in said, text


@pytest.mark.parametrize("around", AROUND)
def test_statements_that_stay_in_a_block(around: str) -> None:
    for number, block in enumerate(BLOCKS):
        for statement in list(FINE.values())[number % 3 :: 3]:
            text = program(around, block, statement)
            assert outcome(text) == "", text


@pytest.mark.parametrize("statement", ["break", "continue", "return", "emit(1); break", "pass; return"])
@pytest.mark.parametrize("block", ["if_", "scope", "loop", "two"])
def test_in_one_line(block: str, statement: str) -> None:
    text = program("for", block, [statement], one_line=True)
    assert "cuts the trace short" in outcome(text), text
    assert outcome(program("for", block, ["emit(1); pass"], one_line=True)) == ""


def test_the_message_names_the_statement() -> None:
    text = "def f():\n for k in range(2):\n  with ptx.scope():\n   emit(1)\n   if k == 1:\n    break\n"
    said = outcome(text)
    assert "Python's break inside a block (line 6)" in said
    assert ":6:5: error" in said


def test_a_continue_after_which_nothing_follows() -> None:
    """A Python `if` over what is known while tracing: the rounds it leaves early lack what follows in the block, no more."""
    head = "def f():\n p = reg.scalar(s32, init=1) > 0\n for k in range(4):\n"
    for text, left, rounds in (
        ("  with ptx.if_(p):\n   if k == 2:\n    continue\n   emit(k)\n", [0, 1, 3], 4),
        ("  with ptx.if_(p):\n   with ptx.scope():\n    if k < 2: continue\n    emit(k)\n", [2, 3], 4),
        ("  if k != 1:\n   with ptx.if_(p):\n    if k == 2:\n     continue\n    emit(k)\n", [0, 3], 3),
    ):
        filename = f"<program {next(_numbers)}>"
        linecache.cache[filename] = (len(text), None, (head + text).splitlines(True), filename)
        names = dict(globals())
        exec(compile(head + text, filename, "exec"), names)
        made = kernel(names["f"]).ptx()
        assert [int(n) for n in re.findall(r"mov\.u32 %r\d+, (\d+);", made)] == left, text
        assert made.count("bra") == rounds  # each has its block
    assert "continue inside a block" in outcome(head + "  with ptx.if_(p):\n   if k == 2:\n    continue\n  emit(k)\n")


@pytest.mark.parametrize("block", BLOCKS)
def test_an_exception_that_is_caught_outside(block: str) -> None:
    caught = ["try:", " @", "except KeyError:", " pass"]
    text = program("nothing", block, ["raise KeyError"]).replace("emit(2)", "pass").split("\n")
    body = text[2:-2]
    whole = [*text[:2], *indented([caught[0]], 1), *indented(body, 1), *indented(caught[2:], 1), " emit(5)"]
    said = outcome("\n".join(whole) + "\n")
    assert "caught outside" in said, "\n".join(whole)


def test_a_generator_that_is_not_run_to_its_end() -> None:
    text = (
        "def steps(p):\n with ptx.if_(p):\n  yield 1\n  yield 2\n"
        "def f():\n p = reg.scalar(s32, init=1) > 0\n for k in steps(p):\n  break\n emit(1)\n"
    )
    assert "caught outside" in outcome(text)
    kept = "kept = []\ndef g():\n yield from ptx.range_(4)\ndef f():\n kept.append(g())\n next(kept[0])\n emit(1)\n"
    assert "has no end" in outcome(kept)
    assert "only a for statement" in outcome(kept.replace("append(g())", "append(ptx.range_(4))"))


def test_a_return_after_which_nothing_follows() -> None:
    for text in (
        "def f():\n with ptx.scope():\n  emit(1)\n  return\n",
        "def f(c=True):\n if c:\n  with ptx.scope():\n   return emit(1)\n else:\n  emit(2)\n",
        "def f():\n with ptx.scope():\n  for k in range(3):\n   if k == 1:\n    return\n",
        "def f():\n with ptx.scope():\n  with ptx.scope():\n   return\n",
    ):
        assert outcome(text) == "", text


@pytest.mark.parametrize("statement", ["break", "continue", "return"])
@pytest.mark.parametrize("block", ["if_(p)", "else_()", "block()", "loop()"])
def test_in_a_module(block: str, statement: str) -> None:
    text = (
        "def f():\n for k in range(2):\n  p = modules.op.setp.eq.u32(modules.special.tid.x(), 1)\n"
        "  with modules.if_(p):\n   modules.inst.membar.cta()\n"
        f"  with modules.{block}:\n   modules.inst.membar.gl()\n   @\n  modules.inst.membar.sys()\n modules.inst.ret()\n"
    )

    def made(statement: str) -> str:
        source = text.replace("@", statement)
        filename = f"<program {next(_numbers)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        names = dict(globals())
        exec(compile(source, filename, "exec"), names)
        m = modules.Module("sm_90")
        m.entry("f")(names["f"])
        return m.ptx()

    assert made("pass").count("membar.sys") == 2
    with pytest.raises(PTXError, match=f"Python's {statement} inside a block"):
        made(statement)


# keep the names that the programs use
_USED = (ExitStack, pred, s32)
