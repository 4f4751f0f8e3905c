"""Names that are bound anew inside a traced block: `s = s + v` in a loop, `s = t` under an `if_`.

Python runs the block once, while it is traced. The name stands for another register afterwards, but that is no
assignment in the kernel: the next round of the loop reads the old register, and threads that skip an `if_` read the new
one unwritten. Both are refused where they are certain: the name is read again before it is bound again (in the author's
bytecode), and so is the register (in the trace).
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, cast

from ..diagnostics import Diagnostic, PTXError
from .instructions import AddressOperand
from .pointers import Pointer
from .registers import NegPred, Reg, RegArray, SpecialReg
from .trace import _SKIPPED, Trace

if TYPE_CHECKING:
    from ..ssa.statement import Statement

_Names = tuple[str, ...]


@dataclass(slots=True)
class _Locals:
    """The local names of one frame, what they were bound to, and the offset in its code."""

    frame: FrameType
    offset: int
    bound: dict[str, Any]


@dataclass(slots=True)
class Before:
    """What the author's names were bound to when a block began at statement `start`."""

    start: int
    frames: list[_Locals]


@dataclass(slots=True, eq=False)
class Branch:
    """The statements of an `if_` or `else_`, and what was bound anew in them. `of`: the `if_` of an `else_`."""

    start: int
    end: int
    of: Branch | None
    rebound: list[_Rebound] = field(default_factory=list["_Rebound"])


@dataclass(slots=True)
class _Rebound:
    """One name (or element of a list) whose registers changed from `old` to `new`, in the code between two offsets."""

    name: str
    advice: str
    old: _Names
    new: _Names
    code: CodeType
    first: int
    last: int

    def place(self, trace: Trace, start: int) -> int:
        """Where the name is bound: its last assignment in the block's code, else what writes the register."""
        end = self.last
        if self.first == self.last:  # a `for`: its body lies between it and where it jumps at the end
            following = _flow(self.code)[self.first][0]
            end = following[1] if len(following) > 1 else self.first
        bound = [
            i.positions
            for i in _instructions(self.code)
            if self.first < i.offset < end and (True, self.name) in _accesses(i)
        ]
        if bound and bound[-1] is not None and bound[-1].lineno is not None:
            return trace.add_place(self.code.co_filename, bound[-1].lineno, (bound[-1].col_offset or 0) + 1)
        for statement in reversed(trace.statements[start:]):
            if set(self.new) & set(_written(statement)):
                return statement[3]
        return trace.place()


def before(trace: Trace, frame: FrameType) -> Before:
    """The author's names at the start of a block; `frame` is the one that entered it."""
    frames = [_Locals(f, _offset(f), dict(map(_copied, f.f_locals.items()))) for f in _authors(frame)]
    return Before(len(trace.statements), frames)


def _copied(item: tuple[str, Any]) -> tuple[str, Any]:
    """A name and its value, of which lists and dictionaries may change: nested ones too (a grid of accumulators)."""
    return item[0], _snapshot(item[1], 3)


def _snapshot(value: Any, depth: int) -> Any:
    if not depth or value.__class__ not in (list, tuple, dict):
        return value
    if value.__class__ is dict:
        return {k: _snapshot(v, depth - 1) for k, v in value.items()}
    return tuple(_snapshot(v, depth - 1) for v in value)


def _authors(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame whose code has the block: past this package, and for a generator (a context manager or loop of the
    author's own) also the one that runs it.
    """
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_SKIPPED):
            yield frame
            if not code.co_flags & CO_GENERATOR:
                return
        frame = frame.f_back


def check_loop(trace: Trace, start: Before, *, condition: Reg | None = None) -> None:
    """At the end of a loop's body: PTXError for a name whose old register the next round would read. `condition`: the
    register that the loop branches on.
    """
    body = trace.statements[start.start :]
    for was in start.frames:
        for found in _changed(was):
            stale = set(found.old)
            if (
                condition is not None
                and condition.name in stale
                and not any(condition.name in _written(s) for s in body)
            ):
                raise trace.error(
                    f"the loop goes on while {condition.name} holds, and {found.name} stands for another register from here on",
                    f"write the predicate that the loop was given: {found.name}.set(...)",
                    at=found.place(trace, start.start),
                )
            if not _read_again(found.code, found.name, found.first, found.last):
                continue
            if any(stale & set(_read(trace, s)) for s in body):
                raise trace.error(
                    f"{found.name} stands for another register from here on ({_listed(found.new)}), and the next round of "
                    f"the loop reads the old one ({_listed(found.old)}): Python runs the body once",
                    found.advice,
                    at=found.place(trace, start.start),
                )


def close_branch(trace: Trace, start: Before, of: Branch | None = None) -> Branch:
    """At the end of an `if_` (or of its `else_`): note which names were bound anew and are read behind it."""
    branch = Branch(start.start, len(trace.statements), of)
    for was in start.frames:
        for found in _changed(was):
            if _read_again(found.code, found.name, found.last, None):
                branch.rebound.append(found)
    trace.branches.append(branch)
    return branch


def check_branches(trace: Trace) -> None:
    """At the end of the kernel: PTXError where the register of a name that was bound in an `if_` is read by threads
    that skipped it.
    """
    rebound = [(branch, found) for branch in trace.branches for found in branch.rebound]
    uses: dict[str, list[int]] = {name: [] for _, found in rebound for name in found.new if name not in found.old}
    if not uses:
        return
    for i, statement in enumerate(trace.statements):
        for reg in statement[1]:
            if reg.name in uses:
                uses[reg.name].append(i)
    problems: list[Diagnostic] = []
    for branch, found in rebound:
        if any(_is_read_by_all(trace, branch, name, uses[name]) for name in found.new if name in uses):
            what = f"{found.name} stands for another register from here on ({_listed(found.new)}), in all threads"
            problems.append(
                trace.diagnostic(
                    f"{what}: binding a name inside ptx.if_ is no assignment in the kernel, and threads that skip the "
                    "block read that register behind it too",
                    found.advice,
                    found.place(trace, branch.start),
                )
            )
    if problems:
        raise PTXError(problems)


def _is_read_by_all(trace: Trace, branch: Branch, name: str, uses: list[int]) -> bool:
    """Whether a statement behind the branch reads the register before it is written again, other than under a condition
    of its own. `uses`: the statements that name it.
    """
    for i in uses:
        statement = trace.statements[i]
        if i < branch.end or statement[0].guard >= 0:
            continue
        if any(b.start <= i < b.end and b.start >= branch.end and b.of is not branch for b in trace.branches):
            continue
        if name in _read(trace, statement):
            return True
        return False
    return False


def _changed(was: _Locals) -> list[_Rebound]:
    """The names of a frame whose registers are others now."""
    now = was.frame.f_locals
    found: list[_Rebound] = []
    for name, old in was.bound.items():
        new = now.get(name)
        if new is old:
            continue
        in_place = False
        if isinstance(new, (list, dict)) and isinstance(old, (tuple, dict)):
            in_place = True
            if len(cast("list[Any]", new)) != len(cast("tuple[Any, ...]", old)):
                continue  # a queue: what was taken out or put in moved the others
        for before_, after in _pairs(old, new):
            if before_ is after:
                continue
            first, second = registers_of(before_), registers_of(after)
            if not first or not second or first == second:
                continue
            if in_place and _held_elsewhere(now, name, set(first)):
                continue
            advice = _advice(name if before_ is old else f"{name}[i]", before_)
            found.append(_Rebound(name, advice, first, second, was.frame.f_code, was.offset, _offset(was.frame)))
            break
    return found


def _pairs(old: Any, new: Any) -> Iterator[tuple[Any, Any]]:
    first, second = _elements(old), _elements(new)
    if first is None or second is None:
        yield old, new
        return
    for a, b in zip(first, second, strict=False):
        yield from _pairs(a, b)


def _elements(value: Any) -> list[Any] | None:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else None


def registers_of(value: Any) -> _Names:
    """The names of the registers that a value stands for; () for anything else."""
    if isinstance(value, Reg):
        return (value.name,)
    if isinstance(value, RegArray):
        return tuple(r.name for r in value)
    if isinstance(value, NegPred):
        return (value.reg.name,)
    if isinstance(value, Pointer):
        return registers_of(value.__ptx_address__().base)
    return registers_of(value.base) if isinstance(value, AddressOperand) else ()


def _held_elsewhere(now: dict[str, Any], name: str, old: set[str]) -> bool:
    """Whether another name still stands for an old register, by which it may be read on purpose."""
    for other, value in now.items():
        parts = [value] if (elements := _elements(value)) is None else elements
        if other != name and any(old & set(registers_of(p)) for p in parts):
            return True
    return False


def _listed(names: _Names) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"


def _advice(name: str, old: Any) -> str:
    """How to change in place what the name stood for."""
    if isinstance(old, SpecialReg):
        return f"have a register of your own before the block, {name} = reg.from_({name}, u32), and change that: {name} += ..."
    if isinstance(old, RegArray):
        return f"write the elements: {name}[i] = ..."
    if isinstance(old, (Pointer, AddressOperand)):
        return "move a pointer in place: p = ptx.pointer(...) before the block, p += n in it"
    return f"change the register itself: {name} += ..., {name}.set(...), or an instruction with {name} as destination"


# ------------------------------------------------------------------------------------------------ reads in the trace


def _read(trace: Trace, statement: Statement) -> Iterator[str]:
    """The registers that a statement reads, special registers under their own names too."""
    shape, regs = statement[0], statement[1]
    for i, reg in enumerate(regs):
        if i in shape.read or i == shape.guard or (i in shape.tied and shape.guard < 0):
            yield reg.name
            for special, copy in trace.specials.items():
                if isinstance(copy, Reg) and copy.name == reg.name:
                    yield special


def _written(statement: Statement) -> list[str]:
    shape, regs = statement[0], statement[1]
    return [regs[i].name for i in shape.written]


# ------------------------------------------------------------------------------------------------ reads in the bytecode


@lru_cache(maxsize=4096)
def _read_again(code: CodeType, name: str, offset: int, stop: int | None) -> bool:
    """Whether the code behind `offset` reads the name before binding it, on a path that does not pass `stop`."""
    if name in code.co_freevars or (name in code.co_cellvars and not _only_comprehensions(code, name)):
        return True  # a closure may read it
    steps = _flow(code)
    if offset not in steps:
        return False
    waiting, seen = list(steps[offset][0][:1]), set[int]()
    while waiting:
        at = waiting.pop()
        if at in seen or at == stop or at not in steps:
            continue
        seen.add(at)
        following, accesses = steps[at]
        uses = [stores for stores, accessed in accesses if accessed == name]
        if uses and not uses[0]:
            return True
        if not uses:
            waiting += following
    return False


def _only_comprehensions(code: CodeType, name: str) -> bool:
    """Whether the functions that read a name of this code run where they stand (comprehensions before Python 3.12)."""
    inner = [c for c in code.co_consts if isinstance(c, CodeType) and name in c.co_freevars]
    return all(c.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>") for c in inner)


@lru_cache(maxsize=256)
def _flow(code: CodeType) -> dict[int, tuple[tuple[int, ...], tuple[tuple[bool, str], ...]]]:
    """Offset of each instruction -> offsets of those that may follow it (the next one first), and its accesses."""
    instructions = _instructions(code)
    steps: dict[int, tuple[tuple[int, ...], tuple[tuple[bool, str], ...]]] = {}
    for i, instruction in enumerate(instructions):
        following: list[int] = []
        if instruction.opname not in _NO_NEXT and i + 1 < len(instructions):
            following.append(instructions[i + 1].offset)
        if instruction.opcode in _JUMPS:
            following.append(instruction.argval)
        steps[instruction.offset] = tuple(following), _accesses(instruction)
    return steps


def _offset(frame: FrameType) -> int:
    """Where the frame's code is: `f_lasti` may stand on the cache of its instruction."""
    at = frame.f_lasti
    if at in _flow(frame.f_code):
        return at
    return max((offset for offset in _flow(frame.f_code) if offset <= at), default=at)


@lru_cache(maxsize=256)
def _instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


_NO_NEXT = frozenset(
    "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE".split()
)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


def _accesses(instruction: dis.Instruction) -> tuple[tuple[bool, str], ...]:
    """(whether it binds, name) for each local variable that an instruction accesses, in order."""
    kinds = _LOCALS.get(instruction.opname)
    if kinds is None:
        return ()
    names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    return tuple(zip(kinds, names, strict=False))


_LOCALS = {
    "LOAD_FAST": (False,), "LOAD_FAST_CHECK": (False,), "LOAD_FAST_BORROW": (False,), "LOAD_DEREF": (False,),
    "LOAD_CLOSURE": (False,), "LOAD_FAST_LOAD_FAST": (False, False), "STORE_FAST_LOAD_FAST": (True, False),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (False, False), "STORE_FAST_STORE_FAST": (True, True), "STORE_FAST": (True,),
    "STORE_FAST_MAYBE_NULL": (True,), "STORE_DEREF": (True,), "DELETE_FAST": (True,), "DELETE_DEREF": (True,),
}  # fmt: skip
"""What the instructions of CPython 3.11 and later do with local variables."""
