"""Python's `return`, `break` and `continue` that leave a `with` block of the DSL: they cut the trace short, not the kernel.

`__exit__` is called in the same way at the end of a block and before such a statement in it. What tells them apart is the
statement that the author's code ran last: the instructions before the call, followed back over those that only unwind
(other blocks' `__exit__`, `finally`), have its place in the source.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from dis import Instruction, Positions
from functools import lru_cache
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import NamedTuple

from ..core.bytecode import flow, instructions, offset_of, per_code
from ..core.trace import _SKIPPED, Trace

__all__ = ["leave_block"]


class _Left(NamedTuple):
    """The statement that leaves a block."""

    word: str
    line: int
    column: int


_Leaving = ast.Return | ast.Break | ast.Continue
_Place = tuple[int | None, int | None, int | None, int | None]
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_NOWHERE: _Place = (None, None, None, None)
_ENTERS = ("BEFORE_WITH", "BEFORE_ASYNC_WITH", "LOAD_SPECIAL")
_INSTEAD = {
    "return": "write ptx.ret() in a @kernel, inst.ret() in a Module: it ends the threads that come there",
    "break": "in a ptx.range_ loop write ptx.break_(); a Python loop is unrolled: branch to a label after it with ptx.bra",
    "continue": "in a ptx.range_ loop write ptx.continue_(); in a Python loop put the rest of its body under ptx.else_()",
}


def leave_block(trace: Trace, frame: FrameType, error: BaseException | None, what: str) -> bool:
    """Called by a block's `__exit__`, from `frame`: whether it ended as it should. PTXError where Python's `return`,
    `break` or `continue` leaves it; an exception is one only if it does not end the trace.
    """
    if error is not None:
        trace.failures.append(
            trace.error(
                f"an exception ({type(error).__name__}) left {what} and was caught outside of it: the block has no end",
                "catch it inside the block, or let it end the trace",
            )
        )
        return False
    for author in _authors(frame):
        found = _leaving_statements(author.f_code).get(offset_of(author))
        if found is not None:
            word, line, column = found
            raise trace.error(
                f"Python's {word} inside a block (line {line}) cuts the trace short: what follows would be missing for all "
                "threads",
                _INSTEAD[word],
                at=trace.add_place(author.f_code.co_filename, line, column),
            )
    return True


def _authors(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames whose `with` may end here: the author's, and after a context manager of the author's own (a generator, a
    class with an `__exit__`, an ExitStack) the one that uses it.
    """
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_SKIPPED):
            yield frame
            if not code.co_flags & CO_GENERATOR and code.co_name not in ("__exit__", "close"):
                return
        frame = frame.f_back


@dataclass(slots=True)
class _Source:
    """The statements of a file: by place, with what they are in, and the `with` statements by the places that CPython
    gives their `__exit__` (the statement in 3.11, the item later).
    """

    parents: dict[ast.AST, ast.AST] = field(default_factory=dict[ast.AST, ast.AST])
    blocks: dict[_Place, ast.With] = field(default_factory=dict[_Place, ast.With])
    statements: dict[int, list[ast.stmt]] = field(default_factory=dict[int, list[ast.stmt]])  # by first line

    def innermost(self, place: Positions) -> ast.stmt | None:
        """The statement that a place is in."""
        if place.lineno is None or place.col_offset is None:
            return None
        at = (place.lineno, place.col_offset)
        for line in range(place.lineno, 0, -1):
            for found in reversed(self.statements.get(line, [])):
                if (found.lineno, found.col_offset) <= at < (found.end_lineno or 0, found.end_col_offset or 0):
                    return found
        return None


@per_code
def _leaving_statements(code: CodeType) -> dict[int, _Left]:
    """The calls of `__exit__` before a statement that leaves its block and skips code, by their offsets."""
    lines = [line for _, _, line in code.co_lines() if line]
    text = "".join(linecache.getlines(code.co_filename)[min(lines) - 1 : max(lines)]) if lines else ""
    if text and not any(word in text for word in _INSTEAD):
        return {}
    source = _source(code.co_filename, tuple(linecache.getlines(code.co_filename))) if text else _Source()
    before = _before(code)
    known = {i.offset: i for i in instructions(code)}
    found: dict[int, _Left] = {}
    for i in known.values():
        if not i.opname.startswith("CALL") or not _passes_nones(i, before, known):
            continue
        block = source.blocks.get(_place(i))
        if block is None:
            left = None if text else _without_source(i, before, known)
            found |= {} if left is None else {i.offset: left}
            continue
        statement = _left_by(source, block, i.offset, before, known)
        if statement is not None and _skips(source, statement, block):
            word = type(statement).__name__.lower()
            found[i.offset] = _Left(word, statement.lineno, statement.col_offset + 1)
    return found


def _without_source(call: Instruction, before: dict[int, list[int]], known: dict[int, Instruction]) -> _Left | None:
    """The statement that leaves a block, where only bytecode is there (`python -c`, stdin): it leaves a NOP as wide as its
    word, or a value that is kept below the `__exit__`, before the call.
    """
    at = call
    while len(before.get(at.offset, ())) == 1:
        at = known[before[at.offset][0]]
        place, line = _place(at), at.positions.lineno if at.positions else None
        if at.opname == "SWAP" and place == _place(call):
            return _Left("return", line or 0, 1) if _goes_on_behind(call, known) else None
        if at.opname == "NOP" and line is not None and place[2] is not None and place[3] is not None:
            word = {len(w): w for w in _INSTEAD}.get(place[3] - place[2])
            skips = word != "return" or _goes_on_behind(call, known)
            return _Left(word, line, place[2] + 1) if word is not None and skips else None
        if at.opname not in _UNWINDING and not (at.opname == "LOAD_CONST" and at.argval is None):
            return None
    return None


_UNWINDING = frozenset("PRECALL CALL CACHE POP_TOP POP_EXCEPT EXTENDED_ARG".split())


def _goes_on_behind(call: Instruction, known: dict[int, Instruction]) -> bool:
    """Whether the code has lines after a block, as far as the place of its `__exit__` says where it ends."""
    last = (call.positions.end_lineno if call.positions else None) or 0
    return any(i.positions.lineno > last for i in known.values() if i.positions and i.positions.lineno)


@lru_cache(maxsize=8)
def _source(filename: str, lines: tuple[str, ...]) -> _Source:
    found = _Source()
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            found.parents[child] = node
        if isinstance(node, ast.stmt):
            found.statements.setdefault(node.lineno, []).append(node)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for part in (node, *[item.context_expr for item in node.items]):
                place = (part.lineno, part.end_lineno, part.col_offset, part.end_col_offset)
                found.blocks[place] = node  # pyright: ignore[reportArgumentType]
    for listed in found.statements.values():
        listed.sort(key=lambda s: (s.col_offset, -(s.end_lineno or 0), -(s.end_col_offset or 0)))
    return found


@per_code
def _before(code: CodeType) -> dict[int, list[int]]:
    """The instructions that may come directly before each, by their offsets; exceptions apart."""
    found: dict[int, list[int]] = {}
    for offset, (following, _) in flow(code).items():
        for after in following:
            found.setdefault(after, []).append(offset)
    return found


def _place(instruction: Instruction) -> _Place:
    found = instruction.positions
    return (found.lineno, found.end_lineno, found.col_offset, found.end_col_offset) if found else _NOWHERE


def _passes_nones(call: Instruction, before: dict[int, list[int]], known: dict[int, Instruction]) -> bool:
    """Whether a call is that of `__exit__(None, None, None)`, and not the one that makes the context manager."""
    nones, at = 0, call.offset
    while nones < 3 and len(before.get(at, ())) == 1:
        (at,) = before[at]
        if known[at].opname == "LOAD_CONST" and known[at].argval is None and _place(known[at]) == _place(call):
            nones += 1
        elif known[at].opname not in ("PRECALL", "CACHE", "EXTENDED_ARG"):
            break
    return nones == 3


def _left_by(
    source: _Source, block: ast.With, call: int, before: dict[int, list[int]], known: dict[int, Instruction]
) -> _Leaving | None:
    """The statement that leaves a block by this call of its `__exit__`; None at the block's end."""
    waiting, seen = list(before.get(call, ())), set[int]()
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = known[at]
        statement = source.innermost(instruction.positions) if instruction.positions else None
        left = _leaves_by(source, statement, instruction, block)
        if left is not None:
            return left
        if _unwinds(source, statement, instruction, block):
            waiting += before.get(at, ())
    return None


def _leaves_by(source: _Source, statement: ast.stmt | None, at: Instruction, block: ast.With) -> _Leaving | None:
    """The leaving statement that the instruction is of, or that follows it in one line (and left no instruction)."""
    if statement is None:
        return None
    following: list[ast.stmt] = [statement]
    if isinstance(statement, ast.With):
        entered = at.opname in _ENTERS or at.opname.startswith(("STORE_", "UNPACK"))
        following = statement.body if entered else []
    elif not hasattr(statement, "body"):
        suite = _suite(source, statement)
        following = suite[suite.index(statement) :]
    for i, found in enumerate(following):
        if isinstance(found, _Leaving):
            return found if _leaves(source, found, block) else None
        same_line = i + 1 < len(following) and following[i + 1].lineno == at.positions.lineno if at.positions else False
        if not same_line or (i > 0 and not isinstance(found, ast.Pass)):
            return None
    return None


def _unwinds(source: _Source, statement: ast.stmt | None, at: Instruction, block: ast.With) -> bool:
    """Whether an instruction only serves to leave blocks, loops and handlers, or is in a `finally` of the block."""
    if statement is None:
        return True
    if isinstance(statement, ast.With):
        return at.opname not in _ENTERS
    if isinstance(statement, (ast.Try, ast.TryStar, ast.For, ast.AsyncFor)) and at.opname != "FOR_ITER":
        return True
    node: ast.AST = statement
    while node is not block and node in source.parents:
        parent = source.parents[node]
        if isinstance(parent, (ast.Try, ast.TryStar)) and node in parent.finalbody:
            return True
        node = parent
    return False


def _suite(source: _Source, statement: ast.stmt) -> list[ast.stmt]:
    """The list of statements that one is in."""
    parent = source.parents.get(statement)
    for _, value in ast.iter_fields(parent) if parent is not None else ():
        if isinstance(value, list) and statement in value:
            return value
    return [statement]


def _leaves(source: _Source, statement: _Leaving, block: ast.With) -> bool:
    """Whether a statement leaves the block, and not just a loop or function in it."""
    node: ast.AST = statement
    while node in source.parents:
        parent = source.parents[node]
        if parent is block:
            return True
        if isinstance(parent, _Function):
            return False
        in_loop = isinstance(parent, (ast.For, ast.AsyncFor, ast.While)) and node in parent.body
        if in_loop and not isinstance(statement, ast.Return):
            return False
        node = parent
    return False


def _skips(source: _Source, statement: _Leaving, block: ast.With) -> bool:
    """Whether code after the block is skipped: a `return` at the end of a function skips none, nor does a `continue` at the end
    of its loop's body. A `break` skips the rounds that are to come.
    """
    if isinstance(statement, ast.Break):
        return True
    node: ast.AST = block
    while node in source.parents:
        parent = source.parents[node]
        if isinstance(node, ast.stmt):
            suite = _suite(source, node)
            if any(not _does_nothing(s) for s in suite[suite.index(node) + 1 :]):
                return True
        if isinstance(parent, _Function):
            return False
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)) and node in parent.body:
            return isinstance(statement, ast.Return)
        if isinstance(parent, (ast.Try, ast.TryStar)) and node in parent.body and parent.orelse:
            return True
        node = parent
    return False


def _does_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(ast.Constant()) | ast.Return(None) | ast.Return(ast.Constant() | ast.Name()):
            return True
        case _:
            return False
