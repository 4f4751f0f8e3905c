"""Names bound anew inside traced blocks: refused where the kernel would not do what the Python says, and only there."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate, smem
from pyptx.types import f32, s32, u32, u64


def keep(value: Any) -> None:
    """Read a register."""
    smem.store(u32, smem.alloc(u32, 4)[0], value)


@contextmanager
def where(p: Any) -> Iterator[None]:
    with ptx.if_(p):
        yield


def fours(n: int) -> Iterator[Any]:
    for i in ptx.range_(n):
        yield i * 4


def sum_in_a_loop() -> None:
    s, v = reg.scalar(u32, init=0), reg.scalar(u32, init=1)
    for _ in ptx.range_(10):
        s = s + v  # here
    keep(s)


def read_before_it_is_bound() -> None:
    s = reg.scalar(u32, init=0)
    for i in ptx.range_(10):
        keep(s)
        s = i + 1  # here


def swapped() -> None:
    a, b = reg.scalar(u32, init=0), reg.scalar(u32, init=1)
    for _ in ptx.range_(10):
        keep(a)
        a, b = b, a  # here


def in_a_list() -> None:
    sums = [reg.scalar(u32, init=0) for _ in range(4)]
    for i in ptx.range_(10):
        for j in range(4):
            sums[j] = sums[j] + i  # here
    keep(sums[3])


def in_a_loop_with_a_label() -> None:
    i, s = reg.scalar(u32, init=10), reg.scalar(u32, init=0)
    p = i > 0
    with ptx.loop("top", pred=p):
        s = s + i  # here
        i -= 1
        ptx.inst.setp.gt.u32(p, i, 0)


def another_condition() -> None:
    i = reg.scalar(u32, init=10)
    p = i > 0
    with ptx.loop("top", pred=p):
        i -= 1
        p = i > 0  # here


def by_a_closure() -> None:
    s, n = reg.scalar(u32, init=0), reg.scalar(u32, init=5)

    def body(i: Any) -> None:
        nonlocal s
        s = s + i  # here

    ptx.kloop(n, unroll=2, body=body)
    keep(s)


def by_a_loop_of_the_authors() -> None:
    s = reg.scalar(s32, init=0)
    for i in fours(5):
        s = s + i  # here
    keep(s)


def a_pointer() -> None:
    p = ptx.pointer(smem.alloc(u32, 64)) + ptx.special.tid.x()
    for _ in ptx.range_(4):
        p.store(p.load())
        p = p + 4  # here


def a_special_register() -> None:
    t = ptx.special.tid.x()
    for _ in ptx.range_(4):
        keep(t)
        t = t + 32  # here


def sum_in_an_if() -> None:
    s = reg.scalar(u32, init=0)
    with ptx.if_(s > 3):
        s = s + 1  # here
    keep(s)


def another_name_for_it() -> None:
    best, candidate = reg.scalar(u32, init=0), reg.scalar(u32, init=5)
    with ptx.if_(candidate > best):
        best = candidate  # here
    keep(best)


def in_the_else() -> None:
    s = reg.scalar(u32, init=0)
    with ptx.if_(s > 3):
        s += 1
    with ptx.else_():
        s = s + 2  # here
    keep(s)


def read_in_the_else() -> None:
    s = reg.scalar(u32, init=0)
    with ptx.if_(s > 3):
        s = s + 1  # here
    with ptx.else_():
        keep(s)


def in_an_if_in_a_loop() -> None:
    best = reg.scalar(s32, init=0)
    for i in ptx.range_(4):
        with ptx.if_(i > best):
            best = i + 0  # here
    keep(best)


def by_a_context_manager_of_the_authors() -> None:
    s = reg.scalar(u32, init=0)
    with where(s > 3):
        s = s + 1  # here
    keep(s)


def in_a_function() -> None:
    def at_least_three(x: Any) -> Any:
        with ptx.if_(x < 3):
            x = x * 0 + 3  # here
        return x

    keep(at_least_three(reg.scalar(u32, init=0)))


WRONG = [
    sum_in_a_loop, read_before_it_is_bound, swapped, in_a_list, in_a_loop_with_a_label, another_condition, by_a_closure,
    by_a_loop_of_the_authors, a_pointer, a_special_register, sum_in_an_if, another_name_for_it, in_the_else,
    read_in_the_else, in_an_if_in_a_loop, by_a_context_manager_of_the_authors, in_a_function,
]  # fmt: skip


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_refused_at_the_binding(function: Callable[[], None]) -> None:
    with pytest.raises(PTXError, match="stands for another register from here on") as caught:
        kernel(function).ptx()
    (found,) = caught.value.diagnostics
    code, first = inspect.getsourcelines(function)
    assert found.line == first + next(i for i, text in enumerate(code) if "# here" in text)
    assert found.hint


def test_scratch_names_are_free() -> None:
    """Temporaries that are bound before they are read, in each round and in each branch."""

    @kernel
    def fine():
        t = reg.scalar(u32, init=1)
        keep(t)
        scratch = [t, t]
        for i in ptx.range_(10):
            t = reg.from_(i, u32)
            keep(t)
            for j in range(2):
                scratch[j] = t + j
                keep(scratch[j])
        with ptx.if_(t > 0):
            t = t * 2
            keep(t)
        with ptx.else_():
            t = reg.scalar(u32, init=3)
            keep(t)
        for j in range(3):
            with ptx.if_(scratch[0] == j):
                t = scratch[1] * j
                keep(t)
        t = reg.scalar(u32, init=4)
        keep(t)

    fine.ptx()


def test_the_same_condition_again() -> None:
    """What an `if_` wrote may be read where the same threads come by: only the author knows."""

    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        t = tid + 1
        keep(t)
        with ptx.if_(tid == 0):
            t = t * 2
        ptx.bar.sync(0)
        with ptx.if_(tid == 0):
            keep(t)
        p = tid == 0
        ptx.inst.st.shared.u32(ptx.addr(smem.alloc(u32, 1)), t, pred=p)

    fine.ptx()


def test_the_old_register_under_another_name() -> None:
    @kernel
    def fine():
        first = reg.scalar(u32, init=1)
        now = first
        for i in ptx.range_(3):
            now = first + reg.from_(i, u32)
            keep(now)

    fine.ptx()


def test_rewritten_before_it_is_read() -> None:
    @kernel
    def fine():
        t = reg.scalar(u32, init=1)
        keep(t)
        with ptx.if_(t > 0):
            t = reg.scalar(u32, init=2)
            keep(t)
        ptx.inst.mov.u32(t, 7)
        keep(t)

    fine.ptx()


def test_set_is_the_assignment() -> None:
    @kernel(raw_params=[("u64", "out")])
    def run():
        tid = reg.from_(ptx.special.tid.x(), s32)
        total, last = reg.scalar(s32, init=0), reg.scalar(f32, init=0.0)
        for i in ptx.range_(tid):
            total.set(total * 2 + i)
            with ptx.if_(i == 3):
                last.set(2.5)
        ptx.st(s32, ptx.param(u64, "out") + tid * 8, total)
        ptx.st(f32, ptx.addr(ptx.param(u64, "out") + tid * 8, 4), last)

    out = np.full((8, 2), -7, np.int32)
    simulate(run, out, grid=1, block=8)
    sums = [0]
    for i in range(7):
        sums.append(sums[-1] * 2 + i)
    assert out[:, 0].tolist() == sums
    assert out[:, 1].view(np.float32).tolist() == [0.0] * 4 + [2.5] * 4
