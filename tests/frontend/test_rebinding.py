"""Names bound anew inside traced blocks: refused where the kernel would not do what the Python says, and only there."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate, smem
from pyptx.diagnostics import TraceWarning
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


def in_a_grid_of_accumulators() -> None:
    sums = [[reg.scalar(u32, init=0) for _ in range(2)] for _ in range(2)]
    for i in ptx.range_(10):
        for j in range(2):
            sums[1][j] = sums[1][j] + i  # here
    keep(sums[1][0])


def in_a_pair_of_a_dictionary() -> None:
    both = {"a": (reg.scalar(u32, init=0), reg.scalar(u32, init=0))}
    for i in ptx.range_(10):
        both["a"] = (both["a"][0] + i, both["a"][1])  # here
    keep(both["a"][0])


class State:
    """What authors keep registers and numbers in."""

    def __init__(self) -> None:
        self.sum = reg.scalar(u32, init=0)
        self.phase = 0
        self.used = 0

    def add(self, value: Any) -> None:
        self.sum = self.sum + value

    def advance(self) -> None:
        self.phase ^= 1

    def take(self, bytes: int) -> int:
        self.used += bytes
        return self.used - bytes


@dataclass(slots=True)
class Slotted:
    sum: Any


class Immutable(NamedTuple):
    sum: Any
    phase: int


def an_attribute() -> None:
    state = State()
    for i in ptx.range_(10):
        state.sum = state.sum + i  # here
    keep(state.sum)


def a_slot() -> None:
    state = Slotted(reg.scalar(u32, init=0))
    for i in ptx.range_(10):
        state.sum = state.sum + i  # here


def an_attribute_in_an_if() -> None:
    state = State()
    with ptx.if_(state.sum > 3):
        state.sum = state.sum + 1  # here
    keep(state.sum)


def a_new_tuple() -> None:
    state = Immutable(reg.scalar(u32, init=0), 0)
    for i in ptx.range_(10):
        state = Immutable(state.sum + i, state.phase)  # here
    keep(state.sum)


def a_pair_of_a_dictionary_unpacked() -> None:
    both = {"a": (reg.scalar(u32, init=0), reg.scalar(u32, init=0))}
    for i in ptx.range_(10):
        u, v = both["a"]
        both["a"] = (u + i, v)  # here
    keep(both["a"][0])


def a_global() -> None:
    global of_the_module
    of_the_module = reg.scalar(u32, init=0)
    for i in ptx.range_(10):
        of_the_module = of_the_module + i  # here
    keep(of_the_module)


of_the_module: Any = None


def by_a_function_called_in_the_loop() -> None:
    s = reg.scalar(u32, init=0)

    def add(i: Any) -> None:
        nonlocal s
        s = s + i  # here

    for i in ptx.range_(10):
        add(i)
    keep(s)


def a_number_instead_of_a_register() -> None:
    s = reg.scalar(u32, init=1)
    for _ in ptx.range_(10):
        keep(s)
        s = 5  # here


def under_the_opposite_condition() -> None:
    tid = reg.from_(ptx.special.tid.x(), u32)
    t, p = tid + 1, tid == 0
    with ptx.if_(p):
        t = t * 2  # here
    with ptx.if_(~p):
        keep(t)


def a_register_instead_of_a_number_in_an_if() -> None:
    tid, t = reg.from_(ptx.special.tid.x(), u32), 0
    with ptx.if_(tid > 3):
        t = tid + 1  # here
    keep(t)


WRONG = [
    an_attribute, a_slot, an_attribute_in_an_if, a_new_tuple, a_pair_of_a_dictionary_unpacked,
    a_global, by_a_function_called_in_the_loop, a_number_instead_of_a_register, under_the_opposite_condition,
    a_register_instead_of_a_number_in_an_if,
    in_a_grid_of_accumulators, in_a_pair_of_a_dictionary,
    sum_in_a_loop, read_before_it_is_bound, swapped, in_a_list, in_a_loop_with_a_label, another_condition, by_a_closure,
    by_a_loop_of_the_authors, a_pointer, a_special_register, sum_in_an_if, another_name_for_it, in_the_else,
    read_in_the_else, in_an_if_in_a_loop, by_a_context_manager_of_the_authors, in_a_function,
]  # fmt: skip


@pytest.mark.parametrize("function", WRONG, ids=lambda f: f.__name__)
def test_refused_at_the_binding(function: Callable[[], None]) -> None:
    with pytest.raises(PTXError, match=r"stands for .* from here on") as caught:
        kernel(function).ptx()
    (found,) = caught.value.diagnostics
    code, first = inspect.getsourcelines(function)
    assert found.line == first + next(i for i, text in enumerate(code) if "# here" in text)
    assert found.hint


def test_refused_in_the_method_that_binds_it() -> None:
    @kernel
    def wrong():
        state = State()
        for i in ptx.range_(10):
            keep(state.sum)
            state.add(i)

    with pytest.raises(PTXError, match=r"state\.sum stands for another register") as caught:
        wrong.ptx()
    assert caught.value.diagnostics[0].line == inspect.getsourcelines(State.add)[1] + 1


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


def test_comprehensions_and_queues_are_free() -> None:
    """A comprehension reads its names where it stands (Python 3.11 makes it a function); taking from a queue moves the rest."""

    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        t, s = tid, reg.scalar(u32, init=0)
        for i in ptx.range_(3):
            t = tid + i
            for product in [t * k for k in range(1, 3)]:
                s += product
        queue = [tid + k for k in range(4)]
        with ptx.if_(tid < 3):
            s += queue.pop(0)
        s += queue.pop(0)
        keep(s)

    assert fine.diagnose() == []


# ------------------------------------------------------------------------------------------------------ Python numbers


def a_phase_in_a_loop() -> None:
    phase, bar = 0, smem.mbarrier(1)[0]
    ptx.mbarrier.init(bar, 1)
    for _ in ptx.range_(10):
        ptx.mbarrier.wait(bar, phase)
        phase ^= 1  # here


def a_stage_and_its_phase() -> None:
    stage, phase, bars = 0, 0, smem.mbarrier(4)
    ptx.mbarrier.init(bars[0], 1)
    with ptx.loop("top"):
        ptx.mbarrier.wait(bars[stage], phase)
        stage += 1  # here
        if stage == 4:
            stage, phase = 0, phase ^ 1


def a_sum_read_behind_the_loop() -> None:
    n = 0
    for _ in ptx.range_(10):
        n += 1  # here
    keep(reg.scalar(u32, init=n))


def a_number_in_a_list() -> None:
    phases, bars = [0, 0], smem.mbarrier(2)
    ptx.mbarrier.init(bars[1], 1)
    for _ in ptx.range_(10):
        ptx.mbarrier.wait(bars[1], phases[1])
        phases[1] ^= 1  # here


def a_number_in_an_attribute() -> None:
    state, bar = State(), smem.mbarrier(1)[0]
    ptx.mbarrier.init(bar, 1)
    for _ in ptx.range_(10):
        ptx.mbarrier.wait(bar, state.phase)
        state.phase ^= 1  # here


def a_number_changed_by_a_method() -> None:
    state, bar = State(), smem.mbarrier(1)[0]
    ptx.mbarrier.init(bar, 1)
    for _ in ptx.range_(10):
        ptx.mbarrier.wait(bar, state.phase)  # here
        state.advance()


def a_number_of_an_outer_function() -> None:
    phase, bar, n = 0, smem.mbarrier(1)[0], reg.scalar(u32, init=10)
    ptx.mbarrier.init(bar, 1)

    def body() -> None:
        nonlocal phase
        ptx.mbarrier.wait(bar, phase)
        phase ^= 1  # here

    ptx.kloop(n, body=body)


def a_global_number() -> None:
    global number_of_the_module
    number_of_the_module = 0
    for _ in ptx.range_(10):
        keep(reg.scalar(u32, init=number_of_the_module))
        number_of_the_module += 1  # here


number_of_the_module = 0


def a_register_instead_of_a_number() -> None:
    total, v = 0, reg.scalar(u32, init=3)
    for _ in ptx.range_(10):
        total = total + v  # here
    keep(total)


def a_number_in_an_if() -> None:
    tid, n = reg.from_(ptx.special.tid.x(), u32), 1
    with ptx.if_(tid > 3):
        n = 5  # here
    keep(tid * n)


def a_number_in_both_branches() -> None:
    tid, n = reg.from_(ptx.special.tid.x(), u32), 0
    with ptx.if_(tid > 3):
        n = 5
    with ptx.else_():
        n = 6  # here
    keep(tid * n)


def a_number_instead_of_a_register_in_an_if() -> None:
    tid = reg.from_(ptx.special.tid.x(), u32)
    t = tid + 1
    with ptx.if_(tid > 3):
        t = 0  # here
    ptx.inst.add.u32(tid, tid, t)


def a_number_of_an_object_in_an_if() -> None:
    tid, state = reg.from_(ptx.special.tid.x(), u32), State()
    with ptx.if_(tid > 3):
        state.phase ^= 1  # here
    keep(tid * state.phase)


def a_number_changed_by_a_method_in_an_if() -> None:
    tid, state = reg.from_(ptx.special.tid.x(), u32), State()
    with ptx.if_(tid > 3):
        state.advance()
    keep(tid * state.phase)  # here


LIKELY_WRONG = [
    a_number_changed_by_a_method_in_an_if,
    a_phase_in_a_loop, a_stage_and_its_phase, a_sum_read_behind_the_loop, a_number_in_a_list, a_number_in_an_attribute,
    a_number_changed_by_a_method, a_number_of_an_outer_function, a_global_number, a_register_instead_of_a_number,
    a_number_in_an_if, a_number_in_both_branches, a_number_instead_of_a_register_in_an_if, a_number_of_an_object_in_an_if,
]  # fmt: skip


@pytest.mark.parametrize("function", LIKELY_WRONG, ids=lambda f: f.__name__)
def test_a_number_that_changes_is_a_warning_at_its_line(function: Callable[[], None]) -> None:
    made = kernel(function)
    with pytest.warns(TraceWarning, match="Python number") as caught:
        found = [d for d in made.check() if d.severity == "warning"]
    code, first = inspect.getsourcelines(function)
    line = first + next(i for i, text in enumerate(code) if "# here" in text)
    assert [d.line for d in found] == [line]
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]
    assert ".set(...)" in (found[0].hint or "")
    assert made.ptx()


def test_the_warning_is_shown_once_for_each_place() -> None:
    @kernel
    def specialised(*, n=1):
        phase, bar = 0, smem.mbarrier(1)[0]
        ptx.mbarrier.init(bar, 1)
        for _ in range(n):
            for _ in ptx.range_(10):
                ptx.mbarrier.wait(bar, phase)
                phase = 1 - phase

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for n in (1, 2, 3):
            specialised.ptx(n=n)
    assert len([w for w in caught if w.category is TraceWarning]) == 1


def test_numbers_of_trace_time_are_free() -> None:
    """Counters of what was emitted, unrolled pipelines, memory that helpers hand out, numbers reset by the block."""

    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        first, bars, state = tid == 0, smem.mbarrier(2), State()
        numbers, emitted, loaded, phase, slot, k, seen = count(), 0, 0, 0, 0, 0, {"add": 0}
        counted = 0

        def count_it() -> None:
            nonlocal counted
            counted += 1

        for b in range(2):
            ptx.mbarrier.init(bars[b], 1, pred=first)
        with ptx.if_(first):
            while loaded < 2:
                ptx.mbarrier.arrive(bars[loaded])
                loaded += 1
        for k in range(4):
            ptx.mbarrier.wait(bars[k % 2], phase)
            if k % 2:
                phase ^= 1
            with ptx.if_(first):
                if loaded < 4:
                    ptx.mbarrier.arrive(bars[loaded % 2])
                    loaded += 1
            emitted += 1
        for _ in ptx.range_(8):
            slot = 0
            for _ in range(2):
                ptx.mbarrier.wait(bars[slot], phase)
                slot = (slot + 1) % 2
                emitted += 1
            for k in range(4):
                ptx.mbarrier.wait(bars[k % 2], phase)
                phase ^= k % 2
            seen["add"] += 1
            smem.store(u32, ptx.addr(smem.alloc(u32, 8), state.take(4)), tid)
            ptx.label(f"here_{emitted}_{next(numbers)}")
            count_it()
        with ptx.if_(first):
            count_it()
        print(f"{emitted} rounds", counted, end="")
        for k in range(counted):
            ptx.mbarrier.wait(bars[k % 2], phase)
        if emitted != 6 or seen["add"] != 1:  # an assert would be rewritten by pytest
            raise ValueError
        ptx.bar.sync(0)

    assert [d for d in fine.check() if d.severity == "warning"] == []


def test_a_function_that_reads_a_name_bound_in_each_round() -> None:
    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        t = tid
        keep(t)
        late = lambda: t + 1  # noqa: E731
        for i in ptx.range_(4):
            early = lambda: t * 3  # noqa: E731, B023
            t = tid + i
            doubled = lambda: t * 2  # noqa: E731, B023
            keep(doubled())
            keep(late())
            keep(early())
            keep(sum([tid, *map(lambda v: v + t, [tid])], start=tid))

    assert fine.check() == []


def test_the_old_register_set_by_its_own_name() -> None:
    """`kept.set(s)`: the register that the next round reads has the new value."""

    @kernel(raw_params=[("u64", "out")])
    def run():
        tid = reg.from_(ptx.special.tid.x(), s32)
        kept = reg.scalar(s32, init=1)
        s = kept
        for i in ptx.range_(tid):
            s = s * 3 + i
            kept.set(s)
        ptx.st(s32, ptx.param(u64, "out") + tid * 4, kept)

    out = np.full(8, -7, np.int32)
    simulate(run, out, grid=1, block=8)
    expected = []
    for t in range(8):
        s = 1
        for i in range(t):
            s = s * 3 + i
        expected.append(s)
    assert out.tolist() == expected


@pytest.mark.parametrize("otherwise", [lambda p: ptx.if_(~p), lambda p: ptx.else_()], ids=["if_", "else_"])
def test_bound_in_one_branch_and_read_in_the_other(otherwise: Callable[[Any], Any]) -> None:
    def wrong():
        tid = reg.from_(ptx.special.tid.x(), u32)
        p = tid == 0
        with ptx.if_(p):
            t = tid * 2  # here
        with otherwise(p):
            keep(t)

    with pytest.raises(PTXError, match=r"t is bound here, under %p0 only, and read where that does not hold") as caught:
        kernel(wrong).ptx()
    code, first = inspect.getsourcelines(wrong)
    assert caught.value.diagnostics[0].line == first + next(i for i, text in enumerate(code) if "# here" in text)


def test_bound_in_one_branch_and_read_where_it_may_be_written() -> None:
    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        p, q = tid == 0, tid == 1
        with ptx.if_(p):
            t = tid * 2
            u = tid * 3
        with ptx.if_(p):
            keep(t)
        with ptx.if_(q):
            keep(t)
        with ptx.if_(~p):
            u = tid * 4
            keep(u)
        for i in ptx.range_(2):
            r = i == 0
            with ptx.if_(r):
                v = tid * 5
            with ptx.else_():
                keep(v)

    assert fine.check() == []


def test_an_opposite_condition_of_another_round() -> None:
    """What one round writes under p, a later one may read under ~p: p changes between them."""

    @kernel
    def fine():
        tid = reg.from_(ptx.special.tid.x(), u32)
        t = tid + 1
        keep(t)
        for i in ptx.range_(4):
            p = i == 0
            with ptx.if_(p):
                t = tid * 2
            with ptx.if_(~p):
                keep(t)

    fine.ptx()


def test_attributes_that_are_scratch() -> None:
    @kernel
    def fine():
        state, tid = State(), reg.from_(ptx.special.tid.x(), u32)
        kept = state.sum
        for i in ptx.range_(4):
            state.sum = tid + i
            keep(state.sum)
            keep(kept)
            state.phase = 0
            state.advance()
            state.phase = 0

    assert fine.check() == []
