"""What the author's bytecode does with names and attributes, and in which order.

Keys are names (`n`, local or global) and attributes with a dot (`.n`, of any object). CPython 3.11 and later.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from types import CodeType, FrameType
from typing import Literal, NamedTuple, TypeVar

__all__ = [
    "Access",
    "instructions",
    "offset_of",
    "per_code",
    "place_of",
    "places_of",
    "reads",
    "stored_globals",
    "ways_on",
]

T = TypeVar("T")


def per_code(function: Callable[[CodeType], T]) -> Callable[[CodeType], T]:
    """Remember what a function says of each code object, by its identity: comparing and hashing them is slow."""
    known: dict[int, tuple[CodeType, T]] = {}  # which keeps the code, so that the id stays its own

    @wraps(function)
    def remembered(code: CodeType) -> T:
        found = known.get(id(code))
        if found is None:
            if len(known) >= 1000:
                known.clear()
            found = known[id(code)] = (code, function(code))
        return found[1]

    return remembered


Reading = Literal["read", "update", "decide"]


READS: tuple[Reading, ...] = ("read", "update", "decide")


class Access(NamedTuple):
    """One use of a key. `update`: a read that only serves to bind the same key (`n += 1`, `n = n + 1`); `decide`: one
    whose value goes into a Python `if`, a text or a `return`, where only trace time is meant.
    """

    kind: Reading | Literal["bind"]
    key: str


Step = tuple[tuple[int, ...], tuple[Access, ...]]
"""The offsets of the instructions that may follow (the next one first), and the accesses."""


def offset_of(frame: FrameType) -> int:
    """Where the frame's code is: `f_lasti` may stand on the cache of its instruction."""
    at = frame.f_lasti
    steps = flow(frame.f_code)
    if at in steps:
        return at
    return max((offset for offset in steps if offset <= at), default=at)


def ways_on(code: CodeType, offset: int) -> tuple[int, int]:
    """Where the instruction at an offset goes on: the next one, and for a `for` where it goes when it is done."""
    following = flow(code)[offset][0] if offset in flow(code) else ()
    return (following[0], following[-1]) if following else (offset, offset)


def reads(
    code: CodeType, keys: Sequence[str], start: int, stop: int | None = None, *, kinds: Sequence[Reading] = READS
) -> tuple[list[int], bool]:
    """The offsets from `start` on where the first of the keys is read before it is bound, on paths that do not pass
    `stop`; the other keys are functions that read it. And whether a path ends without binding it. `kinds`: which reads
    count.
    """
    steps = flow(code)
    waiting, seen = [start], set[int]()
    found: list[int] = []
    ends = False
    while waiting:
        at = waiting.pop()
        if at in seen or at == stop or at not in steps:
            continue
        seen.add(at)
        following, accesses = steps[at]
        bound = False
        for kind, key in accesses:
            if key not in keys:
                continue
            if kind == "bind":
                bound = bound or key == keys[0]
            elif kind in kinds and not bound:
                found.append(at)
        if not bound:
            waiting += following
            ends = ends or not following
    return found, ends


def places_of(code: CodeType, key: str, first: int, end: int) -> Iterator[dis.Positions]:
    """Where a key is bound between two offsets, or an element of it (`n[i] = ...`)."""
    inside = [i for i in instructions(code) if first < i.offset < end]
    starts = {_start(i) for i in inside if any(a.key == key and a.kind != "bind" for a in _accesses(code)[i.offset])}
    for i in inside:
        element = i.opname == "STORE_SUBSCR" and _start(i) in starts
        if i.positions is not None and (element or ("bind", key) in _accesses(code)[i.offset]):
            yield i.positions


def place_of(code: CodeType, offset: int) -> dis.Positions | None:
    """Where the instruction at an offset is in the source."""
    return next((i.positions for i in instructions(code) if i.offset == offset), None)


@per_code
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(dis.get_instructions(code))


@per_code
def flow(code: CodeType) -> dict[int, Step]:
    """What follows each instruction, and what it accesses."""
    found = instructions(code)
    accesses = _accesses(code)
    steps: dict[int, Step] = {}
    for i, instruction in enumerate(found):
        following: list[int] = []
        if instruction.opname not in _NO_NEXT and i + 1 < len(found):
            following.append(found[i + 1].offset)
        if instruction.opcode in _JUMPS:
            following.append(instruction.argval)
        steps[instruction.offset] = tuple(following), accesses[instruction.offset]
    return steps


@per_code
def stored_globals(code: CodeType) -> tuple[str, ...]:
    """The globals that a code binds (`global n`), and the functions nested in it."""
    found = {i.argval for i in instructions(code) if i.opname == "STORE_GLOBAL"} if code.co_names else set[str]()
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found.update(stored_globals(inner))
    return tuple(sorted(found))


_NO_NEXT = frozenset(
    "JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE".split()
)
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


@per_code
def _accesses(code: CodeType) -> dict[int, tuple[Access, ...]]:
    found = instructions(code)
    stores = {_start(i) for i in found if i.opname.startswith("STORE_")}
    cells = frozenset((*code.co_cellvars, *code.co_freevars))
    return {i.offset: _accesses_of(found, at, stores, cells) for at, i in enumerate(found)}


def _accesses_of(
    found: Sequence[dis.Instruction], at: int, stores: set[tuple[int | None, ...]], cells: frozenset[str]
) -> tuple[Access, ...]:
    instruction = found[at]
    binds = _NAMES.get(instruction.opname)
    dot = ""
    if binds is None:
        binds = _ATTRIBUTES.get(instruction.opname)
        dot = "."
    if binds is None:
        return ()
    takes_cell = instruction.opname == "LOAD_CLOSURE" or (
        instruction.opname == "LOAD_FAST" and instruction.argval in cells  # from Python 3.13 on
    )
    if takes_cell and _is_named_function(found, at):
        return ()
    names: tuple[str, ...] = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
    accesses: list[Access] = []
    for bind, name in zip(binds, names, strict=False):
        key = dot + name
        kind: Reading | Literal["bind"] = (
            "bind" if bind else "update" if _start(instruction) in stores else _read(found, at, key)
        )
        accesses.append(Access(kind, key))
    return tuple(accesses)


def _is_named_function(found: Sequence[dis.Instruction], at: int) -> bool:
    """Whether the closure that a function takes here is bound to a name: it is read where that name is."""
    made = next((n for n in range(at, len(found)) if found[n].opname == "MAKE_FUNCTION"), len(found))
    while made + 1 < len(found) and found[made + 1].opname == "SET_FUNCTION_ATTRIBUTE":
        made += 1
    return made + 1 < len(found) and found[made + 1].opname.startswith("STORE_")


def _read(found: Sequence[dis.Instruction], at: int, key: str) -> Reading:
    """What becomes of the value that an instruction reads, as far as the instructions after it show."""
    for i in found[at + 1 : at + 12]:
        if i.opname.startswith("POP_JUMP") or i.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE"):
            return "decide"
        if i.opname.startswith("RETURN_"):
            return "decide" if i is found[at + 1] else "read"
        if i.opname.startswith("STORE_"):
            binds = _NAMES.get(i.opname), _ATTRIBUTES.get(i.opname)
            same = i.argval == key if binds[0] else binds[1] and "." + i.argval == key
            return "update" if same and i is not found[at + 1] else "read"
        if i.opname.startswith("CALL") and _start(i) in _called(found, at, _TELLING):
            return "decide"
        if i.opname.startswith("CALL") and _start(i) in _called(found, at, _PASSING):
            continue
        if i.opname.startswith(_USES):
            return "read"
    return "read"


def _called(found: Sequence[dis.Instruction], at: int, names: frozenset[str]) -> set[tuple[int | None, ...]]:
    """Where calls of these Python functions begin."""
    before = found[max(at - 12, 0) : at]
    return {_start(i) for i in before if i.opname == "LOAD_GLOBAL" and i.argval in names}


_TELLING = frozenset(("print", "str", "repr", "format", "range", "len"))
"""Those that only tell a number, or count with it at trace time."""
_PASSING = frozenset(("next",))
"""Those whose result is used as what they are given would be."""


_USES = ("CALL", "BUILD_", "POP_", "FOR_ITER", "GET_ITER", "YIELD_", "SEND", "RAISE", "UNPACK", "JUMP")


def _start(instruction: dis.Instruction) -> tuple[int | None, ...]:
    positions = instruction.positions
    return (positions.lineno, positions.col_offset) if positions is not None else (None, None)


_NAMES = {
    "LOAD_FAST": (False,), "LOAD_FAST_CHECK": (False,), "LOAD_FAST_BORROW": (False,), "LOAD_DEREF": (False,),
    "LOAD_CLOSURE": (False,), "LOAD_FAST_LOAD_FAST": (False, False), "STORE_FAST_LOAD_FAST": (True, False),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": (False, False), "STORE_FAST_STORE_FAST": (True, True), "STORE_FAST": (True,),
    "STORE_FAST_MAYBE_NULL": (True,), "STORE_DEREF": (True,), "DELETE_FAST": (True,), "DELETE_DEREF": (True,),
    "LOAD_GLOBAL": (False,), "LOAD_NAME": (False,), "STORE_GLOBAL": (True,), "STORE_NAME": (True,),
    "DELETE_GLOBAL": (True,), "DELETE_NAME": (True,),
}  # fmt: skip
"""Whether the instructions of CPython that access variables bind them."""

_ATTRIBUTES = {"LOAD_ATTR": (False,), "LOAD_METHOD": (False,), "STORE_ATTR": (True,), "DELETE_ATTR": (True,)}
