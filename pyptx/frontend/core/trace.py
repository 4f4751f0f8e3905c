"""One trace: the statements, registers and variables that a kernel function records while it runs.

There is one current trace per context (a contextvar, no other global state). Statements are those of `ssa.statement`,
so the SSA builder makes the same IR from a traced kernel as from parsed text. All names come from counters of the
trace: the same kernel gives the same text.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr

from ...diagnostics import Diagnostic, PTXError, PtxValidationError
from ...dialects.ptx.forms import Problem
from ...dialects.ptx.instruction import Resolution
from ...dialects.ptx.memo import Memo
from ...dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    LabelOp,
    RegisterOp,
    ScopeBeginOp,
    ScopeEndOp,
    TokensAttr,
    VariableOp,
)
from ...dialects.ptx.target import FIRST_PTX, NEWEST_PTX, Need, Version, target_in
from ...ssa.statement import Kind, Range, Reg, Shape, Statement
from .bytecode import per_code
from .spaces import symbol_problem

if TYPE_CHECKING:
    from ...types import PtxType
    from .tiles import Tile

_current: ContextVar[Trace | None] = ContextVar("pyptx_trace", default=None)
_getframe = sys._getframe
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SKIPPED = (
    *(os.path.join(_PACKAGE, name) for name in ("frontend" + os.sep, "compat" + os.sep, "ptx.py")),
    os.path.abspath(os.path.join(os.path.dirname(os.__file__), "contextlib.py")),
)
"""Where the files of frames begin that are not the author's."""

_Position = tuple[int | None, int | None, int | None, int | None]

PREFIXES = {
    "u32": "%r", "s32": "%r", "b32": "%r", "u64": "%rd", "s64": "%rd", "b64": "%rd", "u16": "%rs",
    "s16": "%rs", "b16": "%rs", "u8": "%rc", "s8": "%rc", "b8": "%rc", "f32": "%f", "tf32": "%f",
    "f64": "%fd", "f16": "%h", "bf16": "%h",
    "f16x2": "%hh", "bf16x2": "%hh", "b128": "%rq", "pred": "%p",
}  # fmt: skip
"""Prefix of a generated register name; types not listed get `%b` (8-bit floats and the like)."""
ALLOC_PREFIXES = {
    "f32": "%af", "tf32": "%atf", "f64": "%afd", "bf16": "%abf", "f16": "%ah", "b32": "%ar", "u32": "%au", "s32": "%as",
    "b64": "%ad", "u64": "%aud", "s64": "%asd", "pred": "%ap", "b128": "%aq",
}  # fmt: skip


MOST_STATEMENTS = 1_000_000
"""Instructions of one trace: ptxas would take hours for more."""
FINISHED = "finished"
"""The class of the registers of a finished trace, so that their use in another kernel is noticed."""


@dataclass(slots=True)
class Declaration:
    """A register declaration at the top of the body: one register, or a range when `count` is set."""

    register_class: str
    name: str
    count: int | None = None
    hidden: bool = False
    """Not needed after all (its register was replaced by another)."""


_Note = TypeVar("_Note")


class SharedVariable(Protocol):
    """What the trace knows of an allocation of shared memory."""

    align: int

    @property
    def by_name(self) -> str:
        """The symbol that stands for it, noted as read."""
        ...


@dataclass(frozen=True, slots=True)
class ClosedIf:
    """The `if_` that has just ended, for the `else_` that may follow. `at`: the number of statements then; `labels`: those
    at its end, that of its `else_` first; `branch`: what was noted about it.
    """

    at: int
    labels: tuple[str, ...]
    branch: object


class Trace:
    """What has been recorded so far. `name` and `target` serve messages and verdicts; `version` is None when it is to
    be inferred.
    """

    faithful = False
    """Whether it records what a PTX file has, odd or not, rather than what an author means."""
    surface = "ptx."
    """What the author writes before the names of the DSL, for messages."""
    unsigned_operators = False
    """Whether `+ - *` of integers are spelled as unsigned instructions, see `operators`."""

    def __init__(
        self, name: str, target: str, version: Version | None = None, place: tuple[str, int] = ("<kernel>", 1)
    ):
        self.name, self.target, self.version = name, target, version
        self.filename = place[0]
        self.statements: list[Statement] = []
        self.prologue: list[Statement] = []  # loads of TMA descriptors that are needed on every path
        self.insertions: dict[int, list[Statement]] = {}  # statement index -> statements to put after it
        self.declarations: dict[str, Declaration] = {}
        self.variables: list[Statement] = []  # .shared, .local, ... of the function
        self.module_statements: list[Statement] = []  # variables and directives of the module
        self.names: dict[str, Reg] = {}  # register name -> the visible register
        self.ranges: dict[str, Range] = {}  # of registers, declared by raw text
        self.symbols: set[str] = set()  # variables and parameters
        self.spaces: dict[str, str] = {}  # variable -> its state space
        self.allocations: dict[str, SharedVariable] = {}
        self.shared_bytes = 0
        self.block: tuple[int, int, int] | None = None  # of every launch, where @kernel says it as numbers
        self.shared_is_dynamic = False  # known beforehand: @kernel(smem=...) asks for more than 48 KiB
        self.externs: list[str] = []  # .extern .shared symbols
        self.used: dict[Shape, int] = {}  # shape -> place of its first use
        self.needs: Version = FIRST_PTX.get(target, (1, 0))
        self.locations: list[LocationAttr] = []
        self.specials: dict[str, object] = {}  # special register that never changes -> the register it was copied to
        self.descriptors: dict[str, object] = {}  # tensor name -> register with its TMA descriptor's address
        self.tiles: dict[str, Tile] = {}  # tensor name -> its Tile
        self.described: dict[str, Tile] = {}  # register with a descriptor's address -> the tensor's Tile
        self.template: dict[str, object] = {}
        self.parameters: dict[str, str] = {}  # raw parameter -> its type words
        self.pool = 0  # predicates in %p<N>
        self.scope = 0
        self.scopes: list[int] = []
        self.labels_outside: list[int] = []  # for each open scope, the number of labels when it was opened
        self.scope_count = 0
        self.labels: dict[str, int] = {}  # label of an open scope -> place
        self.loops: list[tuple[str, str]] = []  # (continue label, end label) of the open loops, innermost last
        self.open_ranges: dict[int, int] = {}  # range_ loops whose end is not traced yet -> their places
        self.targets: set[str] = set()  # continue labels that are branched to
        self.lead = ""  # comment lines before the next statement
        self.blocks: dict[object, tuple[str, int]] = {}  # `with` blocks made and not closed yet -> what, place
        self.last_if: ClosedIf | None = None
        self.failures: list[PTXError] = []
        self.warnings: dict[str, Diagnostic] = {}  # place -> what is probably a mistake
        self._notes: dict[type, list[object]] = {}
        self._counters: dict[str, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._codes: dict[int, CodeType] = {}  # keeps the ids in `_places` valid
        self.add_place(place[0], place[1], 1)

    def notes(self, kind: type[_Note]) -> list[_Note]:
        """What has been noted of a kind; each kind belongs to the module that defines it."""
        return cast("list[_Note]", self._notes.setdefault(kind, []))

    # ---------------------------------------------------------------------------------------------------------- names

    def count(self, what: str, by: int = 1) -> int:
        """The next number of a counter."""
        value = self._counters.get(what, 0)
        self._counters[what] = value + by
        return value

    def peek(self, what: str) -> int:
        """What `count` would return next."""
        return self._counters.get(what, 0)

    def at_least(self, what: str, value: int) -> None:
        """Move a counter on, past numbers that are taken."""
        if self._counters.get(what, 0) < value:
            self._counters[what] = value

    def fresh(self, dtype: PtxType, prefix: str | None = None) -> Reg:
        """A register with a generated name: prefix + number; predicates come from the pool `%p<N>`."""
        if prefix is None:
            if dtype.name == "pred":
                return self.fresh_predicate()
            prefix = PREFIXES.get(dtype.name, "%b")
        while True:
            name = f"{prefix}{self.count(prefix)}"
            if name not in self.names and name not in self.symbols:
                return self.declare(dtype.register_class, name)

    def fresh_predicate(self) -> Reg:
        name = f"%p{self.pool}"
        self.pool += 1
        while name in self.names:
            name = f"%p{self.pool}"
            self.pool += 1
        pool = self.declarations.pop("%p<>", None) or Declaration("pred", "%p", 0)
        pool.count = self.pool
        self.declarations["%p<>"] = pool
        reg = self.names[name] = Reg(name, "pred", 0)
        return reg

    def declare(self, register_class: str, name: str) -> Reg:
        """A new register of that name: at the top of the function, or here when inside `ptx.scope()`."""
        self.check_free(name)
        if self.scope and register_class != "pred":
            reg = self.names[name] = Reg(name, register_class, self.scope)
            self.record(declaration_shape(RegisterOp, (".reg", "." + register_class), name), (), self.place())
        else:
            reg = self.names[name] = Reg(name, register_class, 0)
            self.declarations[name] = Declaration(register_class, name)
        return reg

    def declare_range(self, register_class: str, base: str, count: int) -> list[Reg]:
        """New registers `base0` to `base<count-1>`."""
        scope = self.scope if register_class != "pred" else 0
        regs: list[Reg] = []
        for i in range(count):
            name = f"{base}{i}"
            self.check_free(name)
            reg = self.names[name] = Reg(name, register_class, scope)
            regs.append(reg)
        if scope:
            shape = declaration_shape(RegisterOp, (".reg", "." + register_class), base, count)
            self.record(shape, (), self.place())
        else:
            self.declarations[base + "<>"] = Declaration(register_class, base, count)
        return regs

    def check_free(self, name: str) -> None:
        if name in self.names or name in self.symbols:
            what = "register" if name in self.names else "variable or parameter"
            raise self.error(f"{name} is already a {what} of this kernel", "leave the name out to get a fresh one")

    # ------------------------------------------------------------------------------------------------------ statements

    def place(self, above: int = 1) -> int:
        """Index of the location of the kernel's own line that is running (frames of this package are skipped, the first
        `above` without a look).
        """
        frame = _getframe(above)
        while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
            frame = frame.f_back
        if frame is None:
            return 0
        key = (id(frame.f_code), frame.f_lasti)
        found = self._places.get(key)
        if found is None:
            code = frame.f_code
            self._codes[id(code)] = code
            line, _, column, _ = _positions_of(code)[frame.f_lasti // 2]
            found = self._places[key] = self.add_place(code.co_filename, line or frame.f_lineno, (column or 0) + 1)
        if len(self.statements) > MOST_STATEMENTS:
            self._refuse_endless(found)
        return found

    def _refuse_endless(self, at: int) -> None:
        raise self.error(
            f"{MOST_STATEMENTS:,} instructions are traced, and the kernel has not ended: a Python loop around this line does not "
            "end, or makes too many rounds, each of which is unrolled",
            "write a loop of the kernel: for i in ptx.range_(n)",
            at=at,
        )

    def codes(self) -> list[CodeType]:
        """The functions of the author's that have recorded something."""
        return list(self._codes.values())

    def add_place(self, filename: str, line: int, column: int) -> int:
        """The index of a new location."""
        self.locations.append(_location(filename, line, column))
        return len(self.locations) - 1

    def record(self, shape: Shape, regs: list[Reg] | tuple[()], place: int, name: str = "") -> None:
        """Append a statement."""
        self.statements.append((shape, regs, self.lead, place, name))
        self.lead = ""

    def label(self, name: str) -> None:
        """Put a label here. PTXError if it stands somewhere already."""
        place = self.place()
        if name in self.labels:
            raise self.error(
                f"label {name} is placed twice", "labels are unique within a scope; ptx.fresh_label() makes one"
            )
        if name in self.names or name in self.symbols:
            raise self.error(f"label {name} has the name of a register or variable")
        self.labels[name] = place
        self.record(_LABEL, (), place, name)

    def take_label_back(self, name: str) -> None:
        """Remove the label that the latest statement is."""
        del self.labels[name]
        self.statements.pop()

    def block_label(self, stem: str) -> str:
        """A label name that is not in use, for the start or the end of a block."""
        return f"$_{stem}_{self.count('label')}"

    def if_labels(self) -> tuple[str, ...]:
        """The labels at the end of an `if_`: that of its `else_`, and of the end of both where they have one already."""
        number = self.count("label")
        return f"$_else_{number}", f"$_endif_{number}"

    def open_scope(self) -> None:
        self.scope_count += 1
        self.scopes.append(self.scope)
        self.labels_outside.append(len(self.labels))
        self.scope = self.scope_count
        self.record(_OPEN, (), self.place(), str(self.scope))

    def close_scope(self) -> None:
        for name in [n for n, reg in self.names.items() if reg.scope == self.scope]:
            del self.names[name]
        outside = self.labels_outside.pop()
        while len(self.labels) > outside:
            self.labels.popitem()
        self.scope = self.scopes.pop()
        self.record(_CLOSE, (), self.place())

    def dominating(self, emit: Callable[[], object]) -> None:
        """Let `emit` record one instruction where every path from here on has passed: here, or at the top when labels
        or branches precede.
        """
        at = len(self.statements)
        emit()
        if self.labels or any(s[0].kind == Kind.TERMINATOR for s in self.statements[:at]):
            self.prologue.append(self.statements.pop())

    @contextmanager
    def outermost(self) -> Generator[None]:
        """Declare registers at the top of the function, whatever scope is open."""
        scope, self.scope = self.scope, 0
        try:
            yield
        finally:
            self.scope = scope

    def directive(self, words: tuple[str, ...], op_class: type[DirectiveOp] = DirectiveOp) -> None:
        self.record(directive_shape(words, op_class), (), self.place())

    def check(self, shape: Shape, place: int) -> None:
        """Judge an instruction at its first use; PTXError at the kernel's line where it is not legal on the target."""
        cls = shape.instruction
        if cls is None:
            return
        if shape.guard >= 0 and shape.bare[0] != "pred":
            raise self.refusal(f"the guard of an instruction is a .pred register, not .{shape.bare[0]}", at=place)
        resolution, problem, least = judged(shape, self.version or NEWEST_PTX, self.target)
        if problem is not None:
            raise self.refusal(*self._explained(problem, resolution), at=place)
        problem = symbol_problem(resolution, self.spaces) if self.spaces else None
        if problem is not None:
            raise self.error(problem.message, problem.hint, at=place)
        self.used[shape] = place
        if least > self.needs:
            self.needs = least

    def _explained(self, problem: Problem, resolution: Resolution) -> tuple[str, str | None]:
        hint = problem.hint
        if resolution.uses and hint is None:
            if "PTX" in problem.message and self.version is not None:
                hint = "leave `version` out of @kernel(...): pyptx then picks the lowest that fits"
            else:
                hint = 'choose the target with @kernel(arch="sm_..."): this kernel is for ' + self.target
        return problem.message, hint

    # --------------------------------------------------------------------------------------------------------- messages

    def error(self, message: str, hint: str | None = None, *, at: int | None = None) -> PTXError:
        """An error at the kernel's own line (or at a place recorded before)."""
        return PTXError(self.diagnostic(message, hint, at))

    def refusal(self, message: str, hint: str | None = None, *, at: int | None = None) -> PtxValidationError:
        """The error of an instruction that is not legal, with a place as `error`."""
        return PtxValidationError(self.diagnostic(message, hint, at))

    def warn(self, message: str, hint: str, at: int) -> None:
        """Note what is probably a mistake, once for each place."""
        found = replace(self.diagnostic(message, hint, at), severity="warning")
        self.warnings.setdefault(found.location, found)

    def diagnostic(self, message: str, hint: str | None = None, at: int | None = None) -> Diagnostic:
        location = self.locations[self.place() if at is None else at]
        assert isinstance(location, FileLineColLoc)
        filename, line = location.filename.data, location.line.data
        source = linecache.getline(filename, line).rstrip("\n") or None
        return Diagnostic("error", message, filename, line, location.column.data, hint, source_line=source)


@per_code
def _positions_of(code: CodeType) -> list[_Position]:
    """The positions of a code object's instructions."""
    return list(code.co_positions())


@lru_cache(maxsize=20_000)
def _location(filename: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(filename), IntAttr(line), IntAttr(column))


_judged: Memo[tuple[Shape, Version, str], tuple[Resolution, Problem | None, Version]] = Memo()


def judged(shape: Shape, version: Version, target: str) -> tuple[Resolution, Problem | None, Version]:
    """What a traced instruction may be, what is wrong with it, and the lowest PTX version in which some form of it exists
    on the target.
    """
    found = _judged.get((shape, version, target))
    if found is None:
        assert shape.instruction is not None
        classes = shape.bare[1:] if shape.guard >= 0 else shape.bare
        resolution = shape.instruction.resolve(shape.modifiers, shape.plain_layout, classes)
        versions = [
            max((n.since for _, n in use.needs), default=(1, 0))
            for use in resolution.uses
            if all(_on_target(n, target) for _, n in use.needs)
        ]
        found = resolution, resolution.verdict(version, target), min(versions, default=(1, 0))
        _judged[shape, version, target] = found
    return found


def _on_target(need: Need, target: str) -> bool:
    return (not need.targets or target_in(target, need.targets)) and (not need.option or need.option[0] == "!")


# --------------------------------------------------------------------------------------------------------------- shapes


def _plain_shape(kind: Kind, op_class: type[LabelOp | ScopeBeginOp | ScopeEndOp]) -> Shape:
    shape = Shape(kind, [], [])
    shape.op_class, shape.properties, shape.styled = op_class, {}, True
    return shape


_LABEL = _plain_shape(Kind.LABEL, LabelOp)
_OPEN = _plain_shape(Kind.OPEN, ScopeBeginOp)
_CLOSE = _plain_shape(Kind.CLOSE, ScopeEndOp)


def declaration_shape(
    op_class: type[RegisterOp | VariableOp],
    head: tuple[str, ...],
    name: str,
    count: int | None = None,
    tail: tuple[str, ...] = (),
) -> Shape:
    """`.reg .b32 %r<10>;` or `.shared .align 8 .b64 bar[2];` as a statement's shape."""
    if count is not None:
        tail = ("<", str(count), ">")
    shape = Shape(Kind.REGISTERS if op_class is RegisterOp else Kind.OTHER, [], [])
    shape.op_class, shape.styled = op_class, True
    shape.properties = {"declaration": DeclarationAttr((head, ((name, tail),)))}
    return shape


def directive_shape(words: tuple[str, ...], op_class: type[DirectiveOp] = DirectiveOp) -> Shape:
    shape = Shape(Kind.OTHER, [], [])
    shape.op_class, shape.styled = op_class, True
    shape.properties = {"words": TokensAttr(words)}
    return shape


# -------------------------------------------------------------------------------------------------------------- context


class NotTracing(PTXError, RuntimeError):
    """A DSL function was called where no kernel is being traced."""


class NotABool(PTXError, TypeError):
    """A register was used where Python needs a truth value at trace time (`if`, `while`, `in`, `and`, `or`, `not`)."""


class OutOfRange(PTXError, IndexError):
    """An index that a register array or an allocation does not have."""


class InvalidTypeError(PTXError, TypeError):
    """Something of a type that cannot be used here: as an index, a number, an argument."""


def current() -> Trace:
    """The trace in progress. NotTracing (a PTXError and RuntimeError) outside of one."""
    trace = _current.get()
    if trace is None:
        raise NotTracing(
            Diagnostic(
                "error",
                "no kernel is being traced",
                hint="reg, smem and ptx work inside a function decorated with @kernel",
            )
        )
    return trace


def tracing() -> Trace | None:
    """The trace in progress, or None."""
    return _current.get()


@contextmanager
def trace_scope(trace: Trace) -> Generator[Trace]:
    """Make a trace the current one."""
    token = _current.set(trace)
    try:
        yield trace
    finally:
        _current.reset(token)
