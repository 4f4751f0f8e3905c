"""Python's `return` and `continue` inside a `with` of the DSL: they cut the trace short, not the kernel.

`__exit__` is called in the same way at the end of a block and before a `return` in it. What tells them apart is the
caller's bytecode behind the call, and that the block has such a statement at all.
"""

from __future__ import annotations

import ast
import dis
import linecache
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FrameType

_LEAVING = {"RETURN_VALUE": "return", "RETURN_CONST": "return", "JUMP_BACKWARD": "continue"}
_UNWINDING = frozenset("CACHE NOP POP_TOP LOAD_CONST PRECALL CALL SWAP COPY LOAD_SMALL_INT EXTENDED_ARG".split())


def left_early(frame: FrameType) -> str | None:
    """`return` or `continue`, if that statement leaves the `with` block whose `__exit__` this frame is calling and
    skips code; else None.
    """
    return _leaving(frame.f_code, frame.f_lasti)


@lru_cache(maxsize=4096)
def _leaving(code: CodeType, at: int) -> str | None:
    instructions = _instructions(code)
    index = next((i for i, found in enumerate(instructions) if found.offset == at), len(instructions))
    place = instructions[index].positions if index < len(instructions) else None
    if place is None or place.lineno is None or place.end_lineno is None or place.col_offset is None:
        return None
    first, last = place.lineno, place.end_lineno
    block = "".join(linecache.getlines(code.co_filename)[first - 1 : last])
    if "return" not in block and "continue" not in block:
        return None
    after = next((found for found in instructions[index + 1 :] if found.opname not in _UNWINDING), None)
    what = _LEAVING.get(after.opname) if after is not None else None
    where = after.positions if after is not None else None
    if what is None or where is None or where.lineno is None or not first <= where.lineno <= last:
        return None
    lines = [found.positions.lineno for found in instructions if found.positions and found.positions.lineno]
    if what == "return" and max(lines) <= last:
        return None  # nothing is skipped
    return what if what in _statements(block) else None


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


def _statements(block: str) -> set[str]:
    """Which of `return` and `continue` leave the `with` statement whose source this is."""
    try:
        (statement,) = ast.parse(textwrap.dedent(block)).body
    except (SyntaxError, ValueError):
        return set()
    return set(_leaves(statement, False))


def _leaves(node: ast.AST, in_loop: bool) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield "return"
        elif isinstance(child, ast.Continue) and not in_loop:
            yield "continue"
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _leaves(child, in_loop or isinstance(child, (ast.For, ast.While)))
