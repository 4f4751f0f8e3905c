"""`with` blocks of control flow, for `@kernel` and for the functions of a `pyptx.Module`.

What the two differ in is the trace's: how it names labels (`block_label`, `if_labels`), and whether Python's names are
checked, which in a faithful trace are those of a PTX file's registers.
"""

from __future__ import annotations

import sys
from types import FrameType, TracebackType
from typing import Any, Self

from ..core.instructions import opcode
from ..core.nonvalue import NotAValue
from ..core.registers import Guard, NegPred, Reg
from ..core.trace import ClosedIf, Trace, current
from ..lint.early_exit import leave_block
from ..lint.rebinding import Before, Branch, before, check_end, check_loop, close_branch

__all__ = ["Block", "Else", "If", "Loop", "Scope", "While", "branch", "check_blocks", "condition"]

_BRA = opcode("bra")
_BRA_UNI = opcode("bra.uni")


def branch(target: str, pred: Guard = None, *, uni: bool = False) -> None:
    """Branch to a label, always or where `pred` (or `~p`) holds."""
    (_BRA_UNI if uni else _BRA)(target, pred=pred)


def condition(trace: Trace, pred: Any) -> Reg | NegPred:
    """What a user gave as a condition. PTXError for what is not a predicate register."""
    if isinstance(pred, NotAValue):
        raise pred.refusal()
    if not isinstance(pred, (Reg, NegPred)):
        raise trace.error(
            f"a condition is a predicate register p or ~p, not {type(pred).__name__}",
            "compare registers with < <= > >= == != to get one; decide Python values with a Python if",
        )
    reg = pred.reg if isinstance(pred, NegPred) else pred
    if reg.dtype.name != "pred":
        raise trace.error(f"a condition is a predicate register, not a {reg.dtype} one", f"{reg.name} != 0 is one")
    return pred


def check_blocks(trace: Trace) -> None:
    """At the end of a trace: PTXError for a block that was left in a way that cannot be traced, or is not closed."""
    if trace.failures:
        raise trace.failures[0]
    for what, place in trace.blocks.values():
        raise trace.error(f"{what} is not closed", f"it is a block: `with {what}:` and its body", at=place)


class Block:
    """`with block() as b:`: `b.leave(p)` branches past the end of the block, always or where p (or `~p`) holds.

    The trace remembers a block until it is closed: one that never is, or was not entered, is an error.
    """

    what = "block()"

    def __init__(self) -> None:
        trace = current()
        self.end = ""
        self.before: Before | None = None
        trace.blocks[self] = (trace.surface + self.what, trace.place())

    def note_names(self, frame: FrameType) -> None:
        """Note what the names of the author's code are bound to, where the block's end checks that."""
        trace = current()
        self.before = None if trace.faithful else before(trace, frame)

    def close(self, frame: FrameType, error: BaseException | None) -> bool:
        """Whether the block ended as it should; `frame` is the one that called `__exit__`."""
        trace = current()
        what, _ = trace.blocks.pop(self, (trace.surface + self.what, 0))
        return leave_block(trace, frame, error, what)

    def __enter__(self) -> Self:
        return self

    def leave(self, pred: Guard = None, *, uni: bool = False) -> None:
        self.end = self.end or current().block_label("end")
        branch(self.end, pred, uni=uni)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.close(sys._getframe(1), error):
            self.finish()

    def finish(self) -> None:
        """What is written at the end of the block."""
        if self.end:
            current().label(self.end)


class Loop(Block):
    """`with loop() as l:`: `l.again(p)` goes back to the start of the block, `l.leave(p)` past its end."""

    what = "loop()"

    def __init__(self, start: str = "") -> None:
        super().__init__()
        self.start = start

    def __enter__(self) -> Self:
        self.start = self.start or current().block_label("loop")
        current().label(self.start)
        self.note_names(sys._getframe(1))
        return self

    def again(self, pred: Guard = None, *, uni: bool = False) -> None:
        branch(self.start, pred, uni=uni)


class While(Loop):
    """A loop that goes back at its end where a predicate holds, or always."""

    def __init__(self, start: str, pred: Any) -> None:
        self.what = f'loop("{start}")'
        self.pred = pred
        self.place = current().place()
        super().__init__(start)

    def finish(self) -> None:
        trace = current()
        reg = self.pred.reg if isinstance(self.pred, NegPred) else self.pred
        if self.before is not None:
            check_loop(trace, self.before, condition=reg)
        if self.pred is None:
            self.again(uni=True)
            return
        pred = condition(trace, self.pred)
        if self.before is not None:
            check_end(trace, self.before, reg, self.place)
        self.again(pred)


class If(Block):
    """`with if_(p):`: the block runs in the threads where p (or `~p`) holds."""

    what = "if_(p)"

    def __init__(self, pred: Any, uni: bool = False) -> None:
        super().__init__()
        self.pred, self.uni = pred, uni
        self.labels: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        trace = current()
        pred = condition(trace, self.pred)
        self.labels = trace.if_labels()
        self.end = self.labels[0]
        self.leave(pred.reg if isinstance(pred, NegPred) else NegPred(pred), uni=self.uni)
        self.note_names(sys._getframe(1))
        return self

    def finish(self) -> None:
        trace = current()
        noted = None
        if self.before is not None:
            negated = isinstance(self.pred, NegPred)
            reg = self.pred.reg if isinstance(self.pred, NegPred) else self.pred
            noted = close_branch(trace, self.before, (reg.name, negated))
        for name in self.labels:
            trace.label(name)
        trace.last_if = ClosedIf(len(trace.statements), self.labels, noted)


class Else(Block):
    """`with else_():` directly after an `if_`: the other threads run it. The block before ends with a branch past it."""

    what = "else_()"

    def __init__(self, uni: bool = False) -> None:
        super().__init__()
        self.uni = uni
        self.of: Branch | None = None

    def __enter__(self) -> Self:
        trace = current()
        closed = trace.last_if
        if closed is None or closed.at != len(trace.statements):
            own = trace.surface
            raise trace.error("else_ must follow its if_ directly", f"with {own}if_(p): ...\nwith {own}else_(): ...")
        trace.last_if = None
        assert closed.branch is None or isinstance(closed.branch, Branch)
        self.of = closed.branch
        for name in reversed(closed.labels):
            trace.take_label_back(name)
        otherwise, *end = closed.labels
        self.end = end[0] if end else ""
        self.leave(uni=self.uni)
        trace.label(otherwise)
        self.note_names(sys._getframe(1))
        return self

    def finish(self) -> None:
        trace = current()
        if self.before is not None:
            assert self.of is not None
            name, negated = self.of.condition
            close_branch(trace, self.before, (name, not negated), self.of)
        trace.label(self.end)


class Scope(Block):
    """`with scope():`: a `{ }` block."""

    what = "scope()"

    def __enter__(self) -> Self:
        current().open_scope()
        return self

    def finish(self) -> None:
        current().close_scope()
