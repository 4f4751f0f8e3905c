"""Python's iterators and endless loops in a kernel that is traced: refused or warned of at the line, not silent."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

import pyptx.frontend.core.trace as tracing
from pyptx import PTXError, kernel, ptx, reg, smem
from pyptx.frontend.core.registers import Reg
from pyptx.types import f32, u32


def registers(n: int) -> list[Reg]:
    return [reg.scalar(f32, init=float(i)) for i in range(n)]


def rounds(make: Callable[[], Iterator[Any]], each: int) -> None:
    """A loop of the kernel that takes so many elements in each round."""
    total = reg.scalar(f32, init=0.0)
    it = make()
    for _ in ptx.range_(4):
        for _ in range(each):
            total += next(it)


@pytest.mark.parametrize(
    "each", [1, 2, *([4] if sys.version_info < (3, 14) else [])]
)  # 3.14 hides where a second pass is
def test_a_cycle_of_registers_in_a_loop(each: int) -> None:
    def body() -> None:
        rounds(lambda: itertools.cycle(registers(3)), each)

    with pytest.raises(PTXError, match=r"next\(it\) stands for another register") as raised:
        kernel(body).ptx()
    found = raised.value.diagnostics[0]
    assert found.line == rounds.__code__.co_firstlineno + 6
    assert "unrolled Python loop" in (found.hint or "")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_cycle_that_has_come_round(n: int) -> None:
    """Each round takes the same elements."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(lambda: rounds(lambda: itertools.cycle(registers(n)), n)).ptx()
        kernel(lambda: rounds(lambda: itertools.cycle([1.0, 2.0]), 2)).ptx()


def test_a_cycle_of_numbers_in_a_loop() -> None:
    with pytest.warns(UserWarning, match=r"next\(it\) is the Python number 1.5 and becomes 2.5"):
        kernel(lambda: rounds(lambda: itertools.cycle([1.5, 2.5]), 1)).ptx()


def test_an_iterator_of_registers_in_a_loop() -> None:
    with pytest.raises(PTXError, match=r"next\(it\) stands for another register"):
        kernel(lambda: rounds(lambda: iter(registers(4)), 1)).ptx()


def test_a_cycle_that_is_unrolled() -> None:
    def body() -> None:
        total, it = reg.scalar(f32, init=0.0), itertools.cycle(registers(3))
        for _ in range(5):
            total += next(it)

    assert kernel(body).ptx().count("add.f32") == 5


@pytest.mark.parametrize("endless", [itertools.count, lambda: itertools.cycle("ab"), lambda: itertools.repeat(0)])
def test_a_python_loop_that_does_not_end(endless: Callable[[], Iterator[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_STATEMENTS", 2000)

    def body() -> None:
        total = reg.scalar(f32, init=0.0)
        for _ in endless():
            total += 1.0

    with pytest.raises(PTXError, match="a Python loop around this line does not end") as raised:
        kernel(body).ptx()
    assert raised.value.diagnostics[0].line == body.__code__.co_firstlineno + 3


def test_an_argument_that_a_wait_does_not_take() -> None:
    def body() -> None:
        ptx.mbarrier.wait(smem.mbarrier(1), 0, order="acquire")  # pyright: ignore[reportCallIssue]

    with pytest.raises(PTXError, match="unexpected keyword argument 'order'") as raised:
        kernel(body).ptx()
    assert raised.value.diagnostics[0].hint == "wait takes mbar, phase, scope, pred"


def test_the_hint_is_of_the_kernels_own_function() -> None:
    """`pyptx.Module` has a class Mbarrier, too, which takes other arguments: whichever was imported first, the hint is right."""
    program = """
import pyptx.frontend.module.async_objects
from pyptx import kernel, ptx, smem
def body():
    ptx.mbarrier.wait(smem.mbarrier(1), 0, order="acquire")
try:
    kernel(body).ptx()
except ValueError as error:
    print(error.diagnostics[0].hint)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("wait takes mbar, phase, scope, pred")


SEES_ONE_ROUND: list[Callable[[Any], Any]] = [
    list, tuple, set, sorted, sum, min, max, any, all, iter, enumerate, reversed, len, lambda r: next(iter(r)),
    lambda r: zip(r, itertools.cycle([1, 2])), lambda r: zip(itertools.cycle([1, 2]), r), lambda r: zip(r, [1, 2, 3, 4], strict=True),
    lambda r: zip(r, ptx.range_(3), strict=False), lambda r: next(r), lambda r: map(str, r), lambda r: filter(None, r), lambda r: itertools.chain([1], r),
    lambda r: [*itertools.chain([1], r)], lambda r: itertools.islice(r, 2), lambda r: itertools.cycle(r), lambda r: [*r],
    lambda r: {*r}, lambda r: [i for i in r], lambda r: {i: i for i in r}, lambda r: sum(i for i in r), lambda r: 3 in r, lambda r: r[1],
    lambda r: [i for _ in (1, 2) for i in r], lambda r: {i for _ in (1, 2) for i in r}, lambda r: {i: 1 for _ in (1, 2) for i in r},
    lambda r: [[i for i in r] for _ in (1, 2)], lambda r: [k for i in r for k in (i, 1)],
]  # fmt: skip


@pytest.mark.parametrize("use", SEES_ONE_ROUND)
def test_only_a_for_statement_takes_a_range(use: Callable[[Any], Any]) -> None:
    """Everything else would see one round of a loop that is traced once (`cycle` never ended)."""

    def body() -> None:
        found = use(ptx.range_(4))
        if isinstance(found, itertools.chain):  # its elements are looked at one after the other
            list(found)

    with pytest.raises(PTXError, match="only a for statement takes") as raised:
        kernel(body).ptx()
    assert raised.value.diagnostics[0].line


def _rounds_of(n: int) -> Iterator[Reg]:
    yield from ptx.range_(n)


def test_helpers_that_give_the_rounds_of_a_range() -> None:
    def counted(make: Callable[[int], Any]) -> str:
        def body() -> None:
            total = reg.scalar(u32, init=0)
            for i in make(4):
                total += i

        return kernel(body).ptx()

    assert counted(_rounds_of) == counted(ptx.range_) == counted(lambda n: ptx.range_(n))


def _loop_that_yields(n: int) -> Iterator[Reg]:
    for i in ptx.range_(n):
        yield 3 * i


def _twice_removed(n: int) -> Iterator[Reg]:
    for i in _loop_that_yields(n):
        yield i + 1


def _unpacked(rounds: Any) -> None:
    (_first,) = rounds


COLLECTS: list[Callable[[Any], Any]] = [
    lambda r: list(r), lambda r: sum(r), lambda r: max(r, default=0), lambda r: [*r], lambda r: {i for i in r}, lambda r: 3 in r,
    lambda r: {i: i for i in r}, lambda r: sum(i for i in r), lambda r: [i for _ in (1, 2) for i in r], _unpacked,
]  # fmt: skip


@pytest.mark.parametrize("make", [_rounds_of, _loop_that_yields, _twice_removed])
def test_the_rounds_that_a_generator_yields_are_not_collected(make: Callable[[int], Any]) -> None:
    for use in COLLECTS:

        def body() -> None:
            use(make(4))  # noqa: B023

        with pytest.raises(PTXError, match="only a for statement takes"):
            kernel(body).ptx()


@contextlib.contextmanager
def _rounds_around(n: int) -> Generator[Reg]:
    for i in ptx.range_(n):
        yield 3 * i


def _loop_before_a_yield(n: int) -> Iterator[int]:
    for i in ptx.range_(n):
        _ = i + 1
    yield 5


def test_what_takes_each_round_of_a_generator_is_not_refused() -> None:
    def body() -> None:
        total = reg.scalar(u32, init=0)
        for i in _twice_removed(4):
            total += i
        for i in (2 * i for i in _rounds_of(4)):
            total += i
        with _rounds_around(4) as i:
            total += i
        rounds = _loop_that_yields(4)
        total += next(rounds)
        assert next(rounds, None) is None
        assert list(_loop_before_a_yield(4)) == [5]
        for i in ptx.range_(4):
            total += i + sum([k for k in range(3) for _ in (1, 2)])

    assert kernel(body).ptx().count("$_loop_") == 2 * 6
