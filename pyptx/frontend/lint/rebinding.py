"""Names that are bound anew inside traced blocks: `s = s + v` in a loop, `s = t` under an `if_`, `phase ^= 1` in either.

Python runs the block once, while it is traced. The name stands for another register afterwards, but that is no
assignment in the kernel: the next round of the loop reads the old register, and threads that skip an `if_` read the new
one unwritten. Both are refused where they are certain: the name is read again before it is bound again (in the author's
bytecode), and so is the register (in the trace).

A Python number that changes does so once, for all rounds and all threads. It may be meant (a counter of what was
emitted), so it is a warning, and only where the number may get into the kernel again: read before it is bound, other
than by a Python `if`, a text, or its own update; after an `if_` also other than under an `if_`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...diagnostics import Diagnostic, PTXError
from ...ssa.statement import Kind
from ..core.bytecode import READS, Reading, offset_of, place_of, places_of, reads, ways_on
from ..core.instructions import AddressOperand
from ..core.registers import NegPred, Reg, RegArray, SpecialReg
from ..core.trace import _SKIPPED, Trace
from ..memory.pointers import Pointer
from .snapshots import bound_names, changed_pairs, elements, is_authors

if TYPE_CHECKING:
    from ...ssa.statement import Statement

_Names = tuple[str, ...]


@dataclass(slots=True)
class _Locals:
    """The names of one frame (with the globals that its code binds), what they were bound to, and the offset in its
    code.
    """

    frame: FrameType
    offset: int
    bound: dict[str, Any]


@dataclass(slots=True)
class Before:
    """What the author's names were bound to when a block began at statement `start`. `body`: the code of the function
    that is called for it.
    """

    start: int
    frames: list[_Locals]
    body: CodeType | None = None


@dataclass(slots=True, eq=False)
class Branch:
    """The statements of an `if_` or `else_`, and what was bound anew in them. `of`: the `if_` of an `else_`.
    `condition`: the predicate under which they run, negated or not. `spans`: where they are in the author's code.
    """

    start: int
    end: int
    of: Branch | None
    condition: tuple[str, bool]
    spans: list[tuple[CodeType, int, int]]
    rebound: list[_Rebound] = field(default_factory=list["_Rebound"])
    numbers: list[tuple[FrameType, str, Any]] = field(default_factory=list[tuple[FrameType, str, Any]])
    """The Python numbers that it bound."""


class _Block(NamedTuple):
    """A piece of the author's code: from `first` up to `end`, where it is entered at `start`; then it goes on at
    `after`.
    """

    code: CodeType
    first: int
    start: int
    end: int


@dataclass(slots=True)
class _Rebound:
    """One name, attribute or element that stands for other registers, or another number, at the end of a block.

    `path`: as the author would write it; `key`: what the code calls it, see `author_code`; `readers`: functions that
    read it. `old`, `new`: the registers, () for a number. `block`: the code that the block runs; `code` and `after`:
    where it goes on.
    """

    path: str
    key: str
    readers: _Names
    old: _Names
    new: _Names
    values: tuple[Any, Any]
    block: _Block
    code: CodeType
    behind: int

    def read_in_next_round(self) -> list[int]:
        """Where the code of a loop reads it before binding it."""
        code, first, start, end = self.block
        return reads(
            code, (self.key, *self.readers), start, first if first == end else end, kinds=_counted(self.old, self.new)
        )[0]

    def read_behind(self) -> list[int]:
        """Where the code after the block reads it before binding it."""
        found, ends = reads(self.code, (self.key, *self.readers), self.behind, kinds=_counted(self.old, self.new))
        if ends and self.new and self.key in (*self.code.co_freevars, *self.code.co_cellvars):
            found.append(self.behind)  # another function may read it
        return found

    def place(self, trace: Trace, start: int, read: Sequence[int] = (), behind: Sequence[int] = ()) -> int:
        """Where it is bound: its last assignment in the block's code (its first where the `read`s before it matter), else
        what writes the register, else where it is read, in the block or `after` it.
        """
        code, first, _, end = self.block
        if self.path.startswith("next("):  # which binds no name
            read = [*read, *self.read_in_next_round()][:1] or [*behind, *self.read_behind()][:1]
            bound = [p for p in (place_of(code, at) for at in read) if p is not None]
        else:
            bound = list(places_of(code, self.key, first, self.behind if first == end else end))
        if not bound:
            for statement in reversed(trace.statements[start:]):
                if set(self.new) & set(_written(statement)):
                    return statement[3]
            if not read:
                code, read = self.code, behind
            bound = [p for p in (place_of(code, at) for at in read) if p is not None]
        at = bound[0 if read else -1] if bound else None
        if at is not None and at.lineno is not None:
            return trace.add_place(code.co_filename, at.lineno, (at.col_offset or 0) + 1)
        return trace.place()

    @property
    def advice(self) -> str:
        return _advice(self.path, *self.values)


def before(trace: Trace, frame: FrameType, body: Any = None) -> Before:
    """The author's names at the start of a block; `frame` is the one that entered it, `body` a function that it is."""
    frames = [_Locals(f, offset_of(f), dict(bound_names(f))) for f in _authors(frame)]
    return Before(len(trace.statements), frames, getattr(body, "__code__", None))


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
    """At the end of a loop's body: PTXError for a name whose old register the next round would read, a warning for a
    number that changed. `condition`: the register that the loop branches on.
    """
    body = trace.statements[start.start :]
    _warn_of_lists(trace, start)
    for found in _changed(start):
        if not found.old:
            _warn_of_loop(trace, start, found)
            continue
        if (
            condition is not None
            and condition.name in found.old
            and not any(condition.name in _written(s) for s in body)
        ):
            raise trace.error(
                f"the loop goes on while {condition.name} holds, and {found.path} stands for another register from here on",
                f"write the predicate that the loop was given: {found.path}.set(...)",
                at=found.place(trace, start.start),
            )
        if not found.read_in_next_round() or _renewed(body, found):
            continue
        stale = set(found.old)
        if any(stale & set(_read(trace, s)) for s in body):
            other = (
                f"another register from here on ({_listed(found.new)})"
                if found.new
                else f"{found.values[1]!r} from here on"
            )
            raise trace.error(
                f"{found.path} stands for {other}, and the next round of the loop reads the old one "
                f"({_listed(found.old)}): Python runs the body once",
                found.advice,
                at=found.place(trace, start.start),
            )


def _warn_of_lists(trace: Trace, start: Before) -> None:
    """At the end of a loop: warn of lists that grew in it and are read after it."""
    for was in start.frames:
        code, behind = was.frame.f_code, ways_on(was.frame.f_code, offset_of(was.frame))[1]
        for name, value in was.frame.f_locals.items():
            old = elements(was.bound.get(name))
            if value.__class__ is not list or old is None or len(value) <= len(old):
                continue
            more: list[Any] = value[len(old) :]
            if (
                not any(registers_of(v) or _is_number(v) for v in more)
                or not reads(code, (name,), behind, kinds=("read",))[0]
            ):
                continue
            trace.warn(
                f"{name} gets {len(more)} element{'s' if len(more) > 1 else ''} here once, while the loop is traced: however "
                "often the kernel repeats",
                "keep what each round computes in memory (smem.alloc), or in a register array that an unrolled Python loop fills",
                trace.place(),
            )


def check_end(trace: Trace, start: Before, condition: Reg, at: int) -> None:
    """At the end of a loop that goes on while `condition` holds: a warning at its place `at` where that cannot change,
    as no instruction of the body writes it and no branch leaves the body.
    """
    body = trace.statements[start.start :]
    if any(condition.name in _written(s) for s in body):
        return
    inside = {s[4] for s in body if s[0].kind == Kind.LABEL}
    if any(s[0].kind == Kind.TERMINATOR and s[4] not in inside for s in body):
        return
    trace.warn(
        f"nothing in the loop writes its condition {condition.name}: it never ends where that holds at first",
        "a comparison is made where it is written, here once before the loop: have p = reg.scalar(pred), write it at "
        'the end of the body, ptx.setp("gt", s32, p, n, 0), and give the loop pred=p',
        at,
    )


def _renewed(body: list[Statement], found: _Rebound) -> bool:
    """Whether the old register got the new value by its own name: `s = old + v; old.set(s)`."""
    old, new = set(found.old), set(found.new)
    defined = False
    for statement in body:
        written = set(_written(statement))
        if written & old and (defined or new & {r.name for r in statement[1]}):
            return True
        defined = defined or bool(written & new)
    return False


def _warn_of_loop(trace: Trace, start: Before, found: _Rebound) -> None:
    inside = found.read_in_next_round()
    behind = [] if inside else found.read_behind()
    if not inside and not behind:
        return
    old, new = found.values
    becomes = f"{found.path} is the Python number {old!r} and becomes {_listed(found.new) or repr(new)} here once, while the loop is traced"
    trace.warn(
        f"{becomes}: {f'all rounds of the kernel read {old!r}' if inside else 'however often the kernel repeats'}",
        found.advice,
        found.place(trace, start.start, inside, behind),
    )


def close_branch(trace: Trace, start: Before, condition: tuple[str, bool], of: Branch | None = None) -> Branch:
    """At the end of an `if_` (or of its `else_`): note which names were bound anew and are read after it."""
    spans = [(was.frame.f_code, was.offset, offset_of(was.frame)) for was in start.frames]
    rebound = [found for found in (*_changed(start), *_bound_first(start)) if found.read_behind()]
    branch = Branch(start.start, len(trace.statements), of, condition, spans, rebound, list(_numbers(start)))
    trace.notes(Branch).append(branch)
    if of is not None:
        _warn_of_else(trace, start, of)
    return branch


def _warn_of_else(trace: Trace, start: Before, of: Branch) -> None:
    """At the end of an `else_`: warn of the numbers that its `if_` bound and that it reads."""
    for was in start.frames:
        code, last = was.frame.f_code, offset_of(was.frame)
        inside = ways_on(code, was.offset)[0]
        for frame, name, value in of.numbers:
            read = reads(code, (name,), inside, last, kinds=("read",))[0] if frame is was.frame else []
            if not read:
                continue
            place = place_of(code, read[0])
            line = place.lineno if place is not None else None
            trace.warn(
                f"{name} was bound to the Python number {value!r} under the if_, once, while it was traced: the threads of "
                "the else_ read it, too",
                f"a number that differs between threads is a register: {name} = reg.scalar(s32) before the if_, "
                f"{name}.set({value!r}) in it",
                trace.add_place(code.co_filename, line, 1) if line is not None else trace.place(),
            )


def _numbers(start: Before) -> Iterator[tuple[FrameType, str, Any]]:
    """The names of the author's that are bound to other numbers now than when the block began, or to their first."""
    for was in start.frames:
        for name, value in was.frame.f_locals.items():
            old = was.bound.get(name)
            if (
                _is_number(value)
                and not isinstance(value, bool)
                and (old is None or (_is_number(old) and old != value))
            ):
                yield was.frame, name, value


def check_branches(trace: Trace) -> None:
    """At the end of the kernel: PTXError where the register of a name that was bound in an `if_` is read by threads
    that skipped it, a warning where a number that changed there may be.
    """
    rebound = [(branch, found) for branch in trace.notes(Branch) for found in branch.rebound]
    uses: dict[str, list[int]] = {name: [] for _, found in rebound for name in found.new if name not in found.old}
    if not rebound:
        return
    if uses:
        for i, statement in enumerate(trace.statements):
            for reg in statement[1]:
                if reg.name in uses:
                    uses[reg.name].append(i)
    problems: list[Diagnostic] = []
    for branch, found in rebound:
        if not found.new:
            _warn_of_branch(trace, branch, found)
        elif found.values[0] is None:
            if any(_is_read_under_the_opposite(trace, branch, name, uses[name]) for name in found.new):
                problems.append(
                    trace.diagnostic(
                        f"{found.path} is bound here, under {_held(branch)} only, and read where that does not hold: no "
                        f"thread that comes there has written {_listed(found.new)}",
                        f"have the register before the block, and change it here: {found.path}.set(...)",
                        found.place(trace, branch.start),
                    )
                )
        elif any(_is_read_by_others(trace, branch, name, uses[name]) for name in found.new if name in uses):
            what = f"{found.path} stands for another register from here on ({_listed(found.new)}), in all threads"
            problems.append(
                trace.diagnostic(
                    f"{what}: binding a name inside ptx.if_ is not an assignment in the kernel, and threads that skip the "
                    "block read that register after it too",
                    found.advice,
                    found.place(trace, branch.start),
                )
            )
    if problems:
        raise PTXError(problems)


def _warn_of_branch(trace: Trace, branch: Branch, found: _Rebound) -> None:
    """A number is read after an `if_`, other than in one: all threads have the new one."""
    spans = [(first, last) for b in trace.notes(Branch) for code, first, last in b.spans if code is found.code]
    behind = [at for at in found.read_behind() if not any(first < at <= last for first, last in spans)]
    if not behind:
        return
    trace.warn(
        f"{found.path} is the Python number {found.values[1]!r} from here on in all threads, also in those that skip the block",
        found.advice,
        found.place(trace, branch.start, behind=behind),
    )


def _is_read_by_others(trace: Trace, branch: Branch, name: str, uses: list[int]) -> bool:
    """Whether a statement after the branch reads the register before it is written again, other than under a condition
    of its own, unless that is the opposite one. `uses`: the statements that name it.
    """
    for i in uses:
        statement = trace.statements[i]
        if i < branch.end:
            continue
        guards = [
            b for b in trace.notes(Branch) if b.start <= i < b.end and b.start >= branch.end and b.of is not branch
        ]
        opposite = any(_is_opposite(trace, branch, b) for b in guards)
        if not opposite and (guards or statement[0].guard >= 0):
            continue
        if name in _read(trace, statement):
            return True
        return False
    return False


def _is_read_under_the_opposite(trace: Trace, branch: Branch, name: str, uses: list[int]) -> bool:
    """Whether the first statement after the branch that names the register reads it, where the condition of the branch
    does not hold.
    """
    i = next((i for i in uses if i >= branch.end), None)
    if i is None or any(i < branch.start for i in uses) or name not in _read(trace, trace.statements[i]):
        return False
    return any(_is_opposite(trace, branch, b) for b in trace.notes(Branch) if branch.end <= b.start <= i < b.end)


def _held(branch: Branch) -> str:
    name, negated = branch.condition
    return f"~{name}" if negated else name


def _is_opposite(trace: Trace, branch: Branch, later: Branch) -> bool:
    """Whether a later branch runs in just the threads that skipped this one: on the same value of the predicate,
    negated.
    """
    (name, negated), (other, otherwise) = branch.condition, later.condition
    if name != other or negated == otherwise:
        return False
    writes = [i for i, s in enumerate(trace.statements[: later.end]) if name in _written(s)]
    return len(writes) == 1 and writes[0] < branch.start and not _in_one_loop(trace, writes[0], later.end)


def _in_one_loop(trace: Trace, first: int, last: int) -> bool:
    """Whether a branch from after `last` goes back to before `first`: then there are several rounds of them."""
    labels = {s[4] for s in trace.statements[: first + 1] if s[0].kind == Kind.LABEL}
    return any(s[4] in labels for s in trace.statements[last:] if s[0].kind == Kind.TERMINATOR)


def _changed(start: Before) -> Iterator[_Rebound]:
    """The names of the author's (attributes and elements, too) whose registers or numbers are others now."""
    for was in start.frames:
        frame = was.frame
        code, last = frame.f_code, offset_of(frame)
        block = _Block(code, was.offset, ways_on(code, was.offset)[0], last)
        if start.body is not None:
            block = _Block(start.body, -1, 0, sys.maxsize)
        behind = ways_on(code, last)[1]
        now = frame.f_locals
        for name, old in was.bound.items():
            new = now[name] if name in now else frame.f_globals.get(name)
            if new is old:
                continue
            keys = set[str]()
            for key, path, a, b in changed_pairs(name, name, old, new):
                first, second = registers_of(a), registers_of(b)
                if (key in keys and not first) or not _differ(a, b, first, second):
                    continue
                if path.endswith("]") and first and _read_by_another_name(was.bound, name, set(first), block):
                    continue
                keys.add(key)
                readers = _readers(now, key, _counted(first, second), _globals_of(frame))
                yield _Rebound(path, key, readers, first, second, (a, b), block, code, behind)


def _bound_first(start: Before) -> Iterator[_Rebound]:
    """The names that stand for registers now and for nothing when the block began."""
    for was in start.frames:
        frame = was.frame
        code, last = frame.f_code, offset_of(frame)
        block = _Block(code, was.offset, ways_on(code, was.offset)[0], last)
        for name, value in frame.f_locals.items():
            if name not in was.bound and (new := registers_of(value)):
                yield _Rebound(name, name, (), (), new, (None, value), block, code, ways_on(code, last)[1])


def _globals_of(frame: FrameType) -> dict[str, Any]:
    """The globals that a frame's code names."""
    return {n: frame.f_globals[n] for n in frame.f_code.co_names if n in frame.f_globals}


def _differ(old: Any, new: Any, first: _Names, second: _Names) -> bool:
    """Whether both are registers or numbers, and not the same."""
    if first and second:
        return first != second
    if not (first or _is_number(old)) or not (second or _is_number(new)):
        return False
    return bool(first or second or old != new)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def _counted(old: _Names, new: _Names) -> tuple[Reading, ...]:
    """The reads that matter: of a number those by which it gets into the kernel."""
    return READS if old and new else ("read", "update") if new else ("read",)


def _readers(now: dict[str, Any], key: str, kinds: tuple[Reading, ...], outer: dict[str, Any]) -> _Names:
    """The keys of functions and methods that read a variable of the frame, or an attribute, when they are called, by
    themselves or by calling another of them.
    """
    known = [(name, code) for name, code in _called(now, outer) if key[0] == "." or key in code.co_freevars]
    found: list[str] = []
    keys = [key]
    for _ in range(3):
        new = [name for name, code in known if name not in found and _reads_any(code, keys, kinds)]
        if not new:
            break
        found += new
        keys = new
    return tuple(found)


def _reads_any(code: CodeType, keys: Sequence[str], kinds: tuple[Reading, ...]) -> bool:
    return any(reads(code, (key,), 0, kinds=kinds)[0] for key in keys)


def _called(now: dict[str, Any], outer: dict[str, Any]) -> Iterator[tuple[str, CodeType]]:
    """The author's functions that a frame knows by name, and the methods of the objects that it has."""
    classes: set[type] = set()
    for name, value in (*now.items(), *((n, outer[n]) for n in outer if n not in now)):
        if value.__class__ is FunctionType:
            yield name, value.__code__
        elif is_authors(value.__class__):
            classes.update(c for c in value.__class__.__mro__ if is_authors(c))
    for cls in classes:
        for name, value in vars(cls).items():
            if value.__class__ is FunctionType and name[:2] != "__":
                yield f".{name}", value.__code__


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


def _read_by_another_name(bound: dict[str, Any], name: str, old: set[str], block: _Block) -> bool:
    """Whether another name stood for an old register already, by which the block reads it on purpose."""
    for other, value in bound.items():
        parts = elements(value) or [value]
        if other == name or not any(old & set(registers_of(p)) for p in parts):
            continue
        end = block.first if block.first == block.end else block.end
        if reads(block.code, (other,), block.start, end)[0]:
            return True
    return False


def _listed(names: _Names) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"


def _advice(name: str, old: Any, new: Any) -> str:
    """How to change in place what the name stood for."""
    if name.startswith("next("):
        return (
            "an iterator goes on while the kernel is traced, not in its rounds: take its elements in an unrolled Python loop, or "
            "keep them in memory (smem.alloc) and load the one of the round"
        )
    if _is_number(old):
        kind = "f32" if isinstance(new, float) or (isinstance(new, Reg) and new.dtype.is_float) else "s32"
        kind = new.dtype.name if isinstance(new, Reg) else kind
        return (
            f"a number that changes in the kernel is a register: {name} = reg.scalar({kind}, init={old!r}) before the "
            f"block, {name} += ... or {name}.set(...) in it (for the phase of an mbarrier ptx.mbarrier.phased or ptx.pipeline)"
        )
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
