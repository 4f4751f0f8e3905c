"""Control flow: labels and branches, `if_`/`else_`, loops, scopes, pipelines (PTX ISA 9.7.14)."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from ...diagnostics import PTXError
from ...types import s32, u32
from ..core.instructions import emit, move
from ..core.nonvalue import as_int
from ..core.registers import Guard, NegPred, PipeRef, Reg, predicate, temporary
from ..core.trace import Trace, current
from ..lint.consumers import collects_rounds, in_for_statement
from ..lint.rebinding import before, check_loop
from .blocks import Else, If, Scope, While, branch

__all__ = [
    "PipelineState", "bra", "break_", "continue_", "elect", "else_", "expr", "fresh_label", "if_", "kloop", "label", "loop",
    "pipeline", "range_", "ret", "scope",
]  # fmt: skip


def label(name: str) -> None:
    """Place a label here."""
    current().label(_label_name(name))


def fresh_label(stem: str = "label") -> str:
    """A label name that is not in use, `$_<stem>_N`."""
    return f"$_{stem}_{current().count('label')}"


def bra(target: str, *, pred: Guard = None) -> None:
    """Branch to a label, always or where `pred` (or `~p`) holds."""
    branch(_label_name(target), pred)


def ret(*, pred: Guard = None) -> None:
    """End the thread's run of the kernel."""
    emit("ret", pred=pred)


def _label_name(name: object) -> str:
    if (
        not isinstance(name, str)
        or not name.replace("$", "a").replace("_", "a").replace("%", "a").isalnum()
        or name[0].isdigit()
    ):
        raise current().error(f"{name!r} is not a label name", "letters, digits, _ and $, not starting with a digit")
    return name


def if_(pred: Reg | NegPred) -> If:
    """`with ptx.if_(p):` runs the body in the threads where p (or `~p`) holds."""
    return If(pred)


def elect(mask: Any = -1) -> If:
    """`with ptx.elect():` runs the body in one lane of the warp: `elect.sync` and an `if_` (sm_90). All lanes in the mask must be
    here; which one is elected is the same each time.

        with ptx.elect():
            ptx.mbarrier.arrive(bar)
    """
    trace = current()
    chosen = predicate(trace)
    emit("elect.sync", PipeRef(None, chosen), mask)
    return If(chosen)


def else_() -> Else:
    """`with ptx.else_():` directly after an `if_`: runs the body in the other threads."""
    return Else()


def loop(label: str, *, pred: Guard = None) -> While:
    """`with ptx.loop("name", pred=p):` repeats the body while p (or `~p`) holds at its end: do-while, so the body runs
    once at least. Without p it repeats always: leave with a branch.

    p is a register that the body writes, `ptx.setp("gt", s32, p, n, 0)`: a comparison such as `n > 0` in its place is
    made once, before the loop (TraceWarning where nothing in the body writes p and no branch leaves it). A while loop is one
    that `ptx.bra(done, pred=~p)` leaves, or one under `with ptx.if_(p):`.
    """
    return While(_label_name(label), pred)


def range_(start: int | Reg, stop: int | Reg | None = None, step: int = 1) -> Iterator[Reg]:
    """`for i in ptx.range_(start, stop, step):` traces the body once, as a loop; i is an s32 register.

    Bounds are ints or 32-bit registers (`stop` is read anew in each round), the step is a non-zero int. `range_(n)`
    counts from 0. Leave it with `ptx.break_()`, not with Python's break. Only a `for` statement takes it, or `yield from`:
    zip, enumerate, list, sum and the like would see one round, and are refused.
    """
    if stop is None:
        start, stop = 0, start
    trace = current()
    step = as_int(step)
    if not isinstance(step, int) or step == 0:
        raise trace.error(f"the step of range_ is a non-zero int, not {step!r}")
    start, stop = _bound(trace, start), _bound(trace, stop)
    if isinstance(start, int) and isinstance(stop, int):
        rounds = range(start, stop, step)
        if rounds and not _LEAST <= rounds[-1] + step <= _MOST:
            raise trace.error(
                f"range_({start}, {stop}, {step}) ends at {rounds[-1] + step}, where its s32 register overflows and it never ends",
                f"bounds and steps whose sum lies in {_LEAST} to {_MOST}",
            )
    return _Range(trace, start, stop, step)


def _bound(trace: Trace, value: Any) -> int | Reg:
    if isinstance(value, Reg):
        if value.dtype.is_integer and value.dtype.bits == 32:
            return value
        raise trace.error(
            f"the bounds of range_ are ints and 32-bit integer registers, not {value.dtype}",
            f"convert it: ptx.cvt(s32, {value.dtype}, reg.scalar(s32), n)",
        )
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise trace.error(f"the bounds of range_ are ints and 32-bit integer registers, not {value!r}")
    number = operator.index(value)
    if not _LEAST <= number <= _MOST:
        raise trace.error(f"a bound of range_ is {number}, and the loop counts in s32", f"{_LEAST} to {_MOST}")
    return number


_LEAST, _MOST = -(2**31), 2**31 - 1


class _Range:
    """What `range_` gives to a `for` statement."""

    __slots__ = ("_bounds", "_trace")

    def __init__(self, trace: Trace, start: int | Reg, stop: int | Reg, step: int):
        self._trace = trace
        self._bounds = (start, stop, step)

    def __iter__(self) -> Iterator[Reg]:
        if not in_for_statement(sys._getframe(1)):
            raise _refused(self._trace, _ONE_ROUND)
        return _range(self._trace, *self._bounds)

    def __next__(self) -> Reg:
        raise _refused(self._trace, "next() would see one round of it")

    def __len__(self) -> int:
        raise _refused(self._trace, "it has no len()")

    def __getitem__(self, index: object) -> Reg:
        raise _refused(self._trace, "it has no elements")

    def __contains__(self, value: object) -> bool:
        raise _refused(self._trace, "Python's in cannot look into it")

    def __reversed__(self) -> Iterator[Reg]:
        raise _refused(self._trace, "reversed() cannot turn it around, and a negative step counts down")


_ONE_ROUND = "zip, enumerate, list, sum or a comprehension would see one round of it"


def _refused(trace: Trace, why: str) -> PTXError:
    return trace.error(
        f"the body of a range_ loop is traced once, so only a for statement takes ptx.range_(...): {why}",
        "for i in ptx.range_(n): and compute from i what differs from round to round; range(n) is unrolled",
    )


def _range(trace: Trace, start: int | Reg, stop: int | Reg, step: int) -> Iterator[Reg]:
    if collects_rounds(sys._getframe(1)):
        raise _refused(trace, _ONE_ROUND)
    variable = trace.fresh(s32, "%ri")
    index = Reg(variable.name, s32, variable)
    number = trace.count("label")
    head, end, again = f"$_loop_{number}", f"$_endloop_{number}", f"$_continue_{number}"
    move(index, start)
    trace.label(head)
    done = predicate(trace)
    emit("setp.ge.s32" if step > 0 else "setp.le.s32", done, index, stop)
    branch(end, done)
    place = trace.place()
    entry = (again, end)
    trace.loops.append(entry)
    trace.open_ranges[number] = place
    names = before(trace, sys._getframe(1))
    try:
        yield index
    except GeneratorExit:
        trace.failures.append(range_left(trace, place))
        return
    trace.loops.remove(entry)
    del trace.open_ranges[number]
    check_loop(trace, names)
    if again in trace.targets:
        trace.label(again)
    emit("add.s32", index, index, step)
    branch(head)
    trace.label(end)


def range_left(trace: Trace, place: int) -> PTXError:
    """The error for a `range_` loop, at its place, whose end was not traced."""
    return trace.error(
        "Python's break (or return, or an exception caught outside) in a range_ loop cannot be traced: the loop has no end",
        "with ptx.if_(p): ptx.break_()",
        at=place,
    )


def break_(*, pred: Guard = None) -> None:
    """Leave the innermost `range_` loop."""
    branch(_innermost()[1], pred)


def continue_(*, pred: Guard = None) -> None:
    """Go on with the next round of the innermost `range_` loop."""
    trace = current()
    target = _innermost()[0]
    trace.targets.add(target)
    branch(target, pred)


def _innermost() -> tuple[str, str]:
    trace = current()
    if not trace.loops:
        raise trace.error(
            "break_ and continue_ belong into a `for i in ptx.range_(...)` loop", "use ptx.bra(label) elsewhere"
        )
    return trace.loops[-1]


def scope() -> Scope:
    """`with ptx.scope():` a `{ }` block: registers made inside (predicates apart) are declared there and end with
    it.
    """
    return Scope()


class _Expression:
    def __enter__(self) -> None:
        current()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def expr() -> _Expression:
    """`with ptx.expr():` groups the instructions of one computation. It has no effect on them."""
    return _Expression()


def kloop(total: int | Reg, *, unroll: int = 1, body: Callable[..., Any], loop_label: str = "kloop") -> None:
    """Run `body` `total` times. An int is unrolled completely; for a register the loop is unrolled `unroll` times (a
    power of two).

    What is left after the unrolled loop runs in nested `if_`s, one per power of two below `unroll`. `body` is called
    with the number of the round (an int, or an s32 register) when it takes an argument. ValueError for other `unroll`s.

        ptx.kloop(count, unroll=4, body=lambda k: total.set(total + k))
    """
    trace = current()
    if not isinstance(unroll, int) or unroll < 1 or unroll & (unroll - 1):
        raise ValueError(f"unroll is a power of two, not {unroll!r}")
    takes = _takes_argument(body)
    call = body if takes else lambda _: body()
    if isinstance(total, int):
        for i in range(total):
            call(i)
        return
    count = temporary(trace, u32)
    move(count, total)
    done = temporary(trace, s32) if takes else None
    if done is not None:
        move(done, 0)

    def rounds(number: int) -> None:
        for _ in range(number):
            call(done)
            if done is not None:
                emit("add.s32", done, done, 1)

    name = loop_label
    while name in trace.labels or f"{name}_end" in trace.labels:
        name = f"{loop_label}_{trace.count('label')}"
    end = f"{name}_end"
    less = predicate(trace)
    emit("setp.lt.u32", less, count, unroll)
    branch(end, less)
    trace.label(name)
    start = before(trace, sys._getframe(1), body)
    rounds(unroll)
    check_loop(trace, start)
    emit("sub.u32", count, count, unroll)
    emit("setp.ge.u32", less, count, unroll)
    branch(name, less)
    trace.label(end)
    part = unroll >> 1
    while part:
        bit = temporary(trace, u32)
        emit("and.b32", bit, count, part)
        some = predicate(trace)
        emit("setp.ne.u32", some, bit, 0)
        with if_(some):
            rounds(part)
        part >>= 1


def _takes_argument(body: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(body).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) and p.default is p.empty
        for p in parameters
    )


class PipelineState:
    """Where a ring of `n_stages` buffers stands: `cursor`, the next stage (`n_stages` stands for stage 0 of the next
    round), and `phase`, the parity of the round, both u32 registers; fresh ones, set to 0, where they are left out.
    ValueError unless `n_stages` is a positive int.
    """

    def __init__(self, n_stages: int, *, cursor: Reg | None = None, phase: Reg | None = None):
        if not isinstance(n_stages, int) or n_stages < 1:
            raise ValueError(f"a pipeline has a positive number of stages, not {n_stages!r}")
        self.n_stages = n_stages
        self.cursor = _zero() if cursor is None else cursor
        self.phase = _zero() if phase is None else phase

    def advance(self) -> tuple[Reg, Reg]:
        """(stage, phase) of this step, in u32 registers of their own: where the cursor has come to the end, it wraps and
        the phase flips; then the cursor moves on. Call it once per step, in code that every thread of the role runs.
        """
        trace = current()
        stage, phase = temporary(trace, u32), temporary(trace, u32)
        wrapped = predicate(trace)
        emit("setp.eq.u32", wrapped, self.cursor, self.n_stages)
        emit("xor.b32", self.phase, self.phase, 1, pred=wrapped)
        emit("mov.u32", self.cursor, 0, pred=wrapped)
        move(stage, self.cursor)
        move(phase, self.phase)
        emit("add.u32", self.cursor, self.cursor, 1)
        return stage, phase


def pipeline(n: int, *, cursor: Reg | None = None, phase: Reg | None = None) -> PipelineState:
    """The state of an n-stage ring, from stage 0 and phase 0, or in the registers given (u32, which the author has
    initialised). Each `advance()` gives the stage (0 to n-1) and the parity to wait for at that stage's mbarrier:

        stage, phase = ring.advance()
        ptx.mbarrier.wait(full[stage], phase)

    Who waits for stages to be *filled* starts at phase 0. Who waits for them to be *free* starts at phase 1
    (`phase=reg.scalar(u32, init=1)`): its first n waits do not wait, as nothing has been put there yet. Where both are
    the same threads, one ring each. ValueError unless n is a positive int.
    """
    return PipelineState(n, cursor=cursor, phase=phase)


def _zero() -> Reg:
    """A fresh u32 register that is 0."""
    result = temporary(current(), u32)
    move(result, 0)
    return result
