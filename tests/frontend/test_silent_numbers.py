"""Python numbers, lists and constants that would mean something else in the kernel than they look: an error or a
`TraceWarning` at the line; and registers that nothing writes.
"""

from __future__ import annotations

import itertools
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

import pyptx.modules as modules
from pyptx import PTXError, Tile, kernel, ptx, reg
from pyptx.diagnostics import TraceWarning
from pyptx.tools.commands.check import check_text
from pyptx.types import f32, s16, s32, u32, u64


def store(value: Any) -> None:
    ptx.inst.st.shared.b32(ptx.addr(reg.scalar(u32, init=0)), value)


def said(function: Callable[[], None]) -> tuple[str, list[str]]:
    """The error of tracing a function as a kernel, or "", and its warnings; each at a line of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            kernel(function).ptx()
        except PTXError as error:
            assert error.diagnostics[0].filename == __file__
            return str(error), []
    found = [w for w in caught if issubclass(w.category, TraceWarning)]
    assert all(w.filename == __file__ for w in found)
    return "", [str(w.message) for w in found]


@pytest.mark.parametrize(
    "use",
    [
        lambda: store(reg.scalar(u32, init=1) + 2**32),
        lambda: store(reg.scalar(u32, init=1).set(2**32)),
        lambda: store(reg.scalar(u32, init=2**33)),
        lambda: store(reg.scalar(s32, init=-(2**31) - 1)),
        lambda: store(reg.from_(2**32, s32)),
        lambda: reg.scalar(s16, init=1 << 16),
        lambda: reg.scalar(u64, init=1 << 64),
        lambda: ptx.inst.add.u32(reg.scalar(u32), reg.scalar(u32, init=1), 2**32),
        lambda: ptx.inst.mov.u32(reg.scalar(u32), -(2**32)),
        lambda: ptx.st(u32, ptx.addr(reg.scalar(u32, init=0)), 2**32, space="shared"),
        lambda: store(reg.scalar(u32, init=1) // (2**40)),
    ],
)
def test_constants_that_are_too_wide(use: Callable[[], None]) -> None:
    assert "bits" in said(use)[0]


@pytest.mark.parametrize("constant", [0xFFFFFFFF, -1, -(2**31), 2**31])
def test_constants_that_fit(constant: int) -> None:
    def right() -> None:
        store(reg.scalar(u32, init=constant) + constant)
        ptx.inst.add.u32(reg.scalar(u32), reg.scalar(u32, init=1), constant)

    assert said(right) == ("", [])


@pytest.mark.parametrize(
    ("compare", "answer"),
    [
        (lambda r: r < 0, "never"), (lambda r: r >= 0, "always"), (lambda r: r > 0xFFFFFFFF, "never"),
        (lambda r: r <= 0xFFFFFFFF, "always"), (lambda r: r > 0, ""), (lambda r: r < 1, ""), (lambda r: r == 0, ""),
    ],
)  # fmt: skip
def test_comparisons_with_one_answer(compare: Any, answer: str) -> None:
    _, warned = said(lambda: store(ptx.selp(u32, 1, 0, compare(reg.scalar(u32, init=5)))))
    assert [answer in w for w in warned] == ([True] if answer else [])


class Sums:
    total = 0

    def __init__(self) -> None:
        self.s = reg.scalar(s32, init=0)

    def step(self, i: Any) -> None:
        self.s = self.s + i

    def twice(self, i: Any) -> None:
        self.step(i)
        self.step(i)

    def right(self, i: Any) -> None:
        self.s += i


def method() -> None:
    c = Sums()
    for i in ptx.range_(4):
        c.step(i)
    store(c.s)


def method_of_method() -> None:
    c = Sums()
    for i in ptx.range_(4):
        c.twice(i)
    store(c.s)


def helper() -> None:
    c = Sums()

    def add(i: Any) -> None:
        c.s = c.s + i

    for i in ptx.range_(4):
        add(i)
    store(c.s)


def moved_queue() -> None:
    q = deque([reg.scalar(s32, init=0), reg.scalar(s32, init=1)])
    for _ in ptx.range_(4):
        store(q[0])
        q.rotate(1)


def refilled_queue() -> None:
    q = deque([reg.scalar(s32, init=0), reg.scalar(s32, init=1)])
    for _ in ptx.range_(4):
        store(q[0])
        q.append(q.popleft() + 1)


def queue_of_one_that_has_a_name() -> None:
    first = reg.scalar(s32, init=0)
    q = deque([first])
    for _ in ptx.range_(4):
        q.append(q.popleft() + 1)
    store(q[0])


def rotated_list() -> None:
    q = [reg.scalar(s32, init=0), reg.scalar(s32, init=1)]
    for _ in ptx.range_(4):
        q.insert(0, q.pop() + 1)
    store(q[0])


def register_of_a_class() -> None:
    class Local:
        s: Any = reg.scalar(s32, init=0)

    for i in ptx.range_(4):
        Local.s = Local.s + i
    store(Local.s)


@pytest.mark.parametrize(
    "function",
    [
        method,
        method_of_method,
        helper,
        moved_queue,
        refilled_queue,
        queue_of_one_that_has_a_name,
        rotated_list,
        register_of_a_class,
    ],
)
def test_registers_bound_anew_out_of_sight(function: Callable[[], None]) -> None:
    assert "the next round of the loop reads the old one" in said(function)[0]


def behind_a_loop() -> None:
    n = 5
    for _ in ptx.range_(4):
        n = n * 2
    store(n)


def under_else() -> None:
    with ptx.if_(reg.scalar(s32, init=1) > 0):
        v = 1
    with ptx.else_():
        store(v)


def changed_under_if() -> None:
    v = 0
    with ptx.if_(reg.scalar(s32, init=1) > 0):
        v = 1
    with ptx.else_():
        store(v)


def number_of_a_class() -> None:
    Sums.total = 0
    for _ in ptx.range_(4):
        store(Sums.total)
        Sums.total += 1


def counted() -> None:
    c = itertools.count()
    for _ in ptx.range_(4):
        store(next(c))


def taken() -> None:
    c = iter([1, 2, 3])
    for _ in ptx.range_(4):
        store(next(c))


def appended() -> None:
    vs: list[Any] = []
    for i in ptx.range_(4):
        vs.append(i + 1)
    for v in vs:
        store(v)


@pytest.mark.parametrize(
    "function", [behind_a_loop, under_else, changed_under_if, number_of_a_class, counted, taken, appended]
)
def test_numbers_that_change_once(function: Callable[[], None]) -> None:
    error, warned = said(function)
    assert error == ""
    assert len(warned) == 1
    assert "once" in warned[0]


def right_method() -> None:
    c = Sums()
    for i in ptx.range_(4):
        c.right(i)
    store(c.s)


def list_of_a_round() -> None:
    for i in ptx.range_(4):
        vs: list[Any] = []
        for k in range(4):
            vs.append(i + k)
        for v in vs:
            store(v)


def names() -> None:
    c = itertools.count()
    for _ in ptx.range_(4):
        ptx.label(f"here{next(c)}")
    ptx.label(f"here{next(c)}")


def unrolled() -> None:
    q = deque([reg.scalar(s32, init=0), reg.scalar(s32, init=1)])
    for _ in range(4):
        store(q[0])
        q.rotate(1)


def other_element() -> None:
    first = reg.scalar(s32, init=0)
    q = [first, reg.scalar(s32, init=1)]
    for _ in ptx.range_(4):
        store(q[1])
        q[0] = first + 1


def both_bound() -> None:
    with ptx.if_(reg.scalar(s32, init=1) > 0):
        v = 1
        store(v)
    with ptx.else_():
        v = 2
        store(v)


@pytest.mark.parametrize("function", [right_method, list_of_a_round, names, unrolled, both_bound, other_element])
def test_what_is_meant(function: Callable[[], None]) -> None:
    assert said(function) == ("", [])


# ------------------------------------------------------------------------------------------- registers nothing writes


def test_registers_that_nothing_writes() -> None:
    @kernel(in_specs=[], out_specs=[Tile(32, f32)], grid=1, block=32)
    def wrong(out: Any) -> None:
        r = reg.scalar(f32)
        (ptx.pointer(out) + ptx.special.tid.x()).store(r)  # here

    (found,) = [d for d in wrong.check() if "nothing in the kernel writes it" in d.message]
    assert found.severity == "warning"
    assert "# here" in (found.source_line or "")
    told, _ = check_text(wrong.ptx(), "wrong.ptx", with_ptxas=False)
    assert [d.severity for d in told] == ["warning"]
    assert "st.global" in (told[0].source_line or "")

    m = modules.Module("sm_90")

    @m.entry("k")
    def k() -> None:
        modules.inst.st.shared.u32(modules.addr(modules.new("b32")), 1)
        modules.inst.ret()

    assert any("nothing" in d.message for d in m.diagnose())


def test_registers_that_something_writes() -> None:
    @kernel(in_specs=[], out_specs=[Tile(32, f32)], grid=1, block=32)
    def right(out: Any) -> None:
        r = reg.scalar(f32)
        ptx.inst.mov.f32(r, 1.0, pred=ptx.special.tid.x() < 5)
        (ptx.pointer(out) + ptx.special.tid.x()).store(r)

    assert right.check() == []
    assert check_text(right.ptx(), None, with_ptxas=False)[0] == []
