"""Who takes the rounds of a `ptx.range_` loop, whose body is traced once.

A `for` statement does it right. `list`, `sum`, a comprehension and the like take one round for all, directly or from a
generator that yields the rounds. What tells them apart is the instruction that the author's code executes, of CPython
3.11 to 3.14; in the bytecode of others nothing is refused.
"""

from __future__ import annotations

import builtins
import dis
import sys
from inspect import CO_GENERATOR
from types import CodeType, FrameType

from ..core.bytecode import instructions, offset_of, per_code, place_of

__all__ = ["collects_rounds", "in_for_statement"]

_IS_KNOWN = sys.implementation.name == "cpython" and sys.version_info < (3, 15)
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_APPENDS = ("LIST_APPEND", "SET_ADD", "MAP_ADD")
_COLLECTS = frozenset("LIST_EXTEND SET_UPDATE UNPACK_SEQUENCE UNPACK_EX CONTAINS_OP".split())
_COLLECTORS = frozenset("list tuple set frozenset dict sorted sum min max any all".split())
_SKIPPED = frozenset("CACHE NOP EXTENDED_ARG PUSH_NULL".split())


def in_for_statement(frame: FrameType) -> bool:
    """Whether the instruction that a frame executes is the head of a `for` statement, or a `yield from`."""
    if not _IS_KNOWN:
        return True
    code = frame.f_code
    if code.co_name in _COMPREHENSIONS:
        return False
    opname = _opname(frame)
    if opname == "GET_YIELD_FROM_ITER":
        return True
    if opname != "GET_ITER":
        return False
    at = frame.f_lasti
    head = next((i.offset for i in instructions(code) if i.offset > at and i.opname not in _SKIPPED), at)
    return head in _loops(code) and not _comprehends(code, head)


def collects_rounds(frame: FrameType | None) -> bool:
    """Whether generators that yield the rounds of a loop, from the one that executes it outwards, are called by code that
    collects what they yield. Of a call only Python's own functions are known to do it.
    """
    while frame is not None and _IS_KNOWN:
        code, opname = frame.f_code, _opname(frame)
        if (
            opname == "FOR_ITER"
            and code.co_name != "<genexpr>"
            and (code.co_name in _COMPREHENSIONS or _comprehends(code, offset_of(frame)))
        ):
            return True
        if not code.co_flags & CO_GENERATOR or not (opname == "SEND" or _yields(code, offset_of(frame))):
            return opname in _COLLECTS or (opname.startswith("CALL") and _calls_collector(frame))
        frame = frame.f_back
    return False


def _opname(frame: FrameType) -> str:
    return dis.opname[frame.f_code.co_code[offset_of(frame)]]


@per_code
def _loops(code: CodeType) -> dict[int, int]:
    """Where the loops of a code begin (`FOR_ITER`) and end."""
    return {i.offset: i.argval for i in instructions(code) if i.opname == "FOR_ITER"}


def _comprehends(code: CodeType, head: int) -> bool:
    """Whether a loop is one of a comprehension that Python 3.12 and later have put into the code of its function: what
    appends names its list by how many loops lie above it on the stack.
    """
    loops = _loops(code)
    for i in instructions(code):
        if i.opname in _APPENDS and i.arg is not None and head < i.offset < loops.get(head, head):
            around = sorted((first for first, end in loops.items() if first < i.offset < end), reverse=True)
            if head in around[: i.arg - 1]:
                return True
    return False


def _yields(code: CodeType, head: int) -> bool:
    """Whether the body of a loop yields."""
    end = _loops(code).get(head, head)
    return any(i.opname == "YIELD_VALUE" and head < i.offset < end for i in instructions(code))


def _calls_collector(frame: FrameType) -> bool:
    """Whether the call that a frame executes is one of `list(...)`, `sum(...)` and the like, of Python's own."""
    place = place_of(frame.f_code, offset_of(frame))
    for i in instructions(frame.f_code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval in _COLLECTORS and i.positions is not None:
            begins = place is not None and i.positions[0] == place[0] and i.positions[2] == place[2]
            if begins and i.argval not in frame.f_locals and i.argval not in frame.f_globals:
                return hasattr(builtins, i.argval)
    return False
