"""`ptx.printf` and `ptx.assert_`: formats against the C library's, what is refused at the line, errors with kernel, line and thread."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, SimulationError, Tile, kernel, ptx, reg, simulate
from pyptx.types import bf16, f16, f32, f64, pred, s16, s32, s64, u32, u64
from tests.frontend.tracing import assembled, ptx_of


def of_c(format: str, *values: Any) -> str:
    """What the C library prints."""
    buffer = ctypes.create_string_buffer(1000)
    ctypes.CDLL(None).snprintf(buffer, 1000, format.encode(), *values)
    return buffer.value.decode()


CASES: list[tuple[str, tuple[tuple[Any, Any, Any], ...]]] = [
    ("none\n", ()),
    ("%d|%u|%x|%8d|%-4d|%04x", tuple((t, v, ctypes.c_int(v)) for t, v in
     ((s32, -5), (u32, 7), (u32, 48879), (s32, -12), (s32, 3), (u32, 171)))),
    ("%lld %llu %llx %ld", tuple((t, v, ctypes.c_longlong(v)) for t, v in
     ((s64, -(2**40)), (u64, 2**63), (u64, 2**60 + 1), (s64, 3)))),
    ("%f %8.3f %e %g %.0f", tuple((t, v, ctypes.c_double(v)) for t, v in
     ((f32, 1.5), (f64, -2.25), (f64, 1e100), (f32, 0.125), (f32, 2.5)))),
    ("%d %f", ((s16, -300, ctypes.c_int(-300)), (f16, 0.5, ctypes.c_double(0.5)))),
    ("100%% %c", ((u32, 65, ctypes.c_int(65)),)),
]  # fmt: skip


@pytest.mark.parametrize(("format", "values"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_formats_against_c(format: str, values: Any) -> None:
    @kernel
    def printing():
        held = []
        for dtype, value, _ in values:
            r = reg.scalar(dtype, name=None, init=value if dtype != f16 else None)
            if dtype == f16:
                ptx.cvt(f16, f32, r, reg.scalar(f32, init=value), rounding="rn")
            held.append(r)
        ptx.printf(format, *held)

    assembled(printing)
    report = simulate(printing, grid=1, block=1)
    assert report.output == of_c(format, *(c for _, _, c in values))
    assert report.findings == []


def test_numbers_strings_and_predicates_of_python() -> None:
    @kernel
    def printing():
        t = ptx.special.tid.x()
        ptx.printf("%d %s %lld %f %d\n", 5, "héé", -1, 0.5, t == 1, pred=t < 2)

    assembled(printing)
    assert simulate(printing, grid=1, block=32).output == "5 héé -1 0.500000 0\n5 héé -1 0.500000 1\n"


def test_prints_have_line_and_thread_and_a_call_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel(in_specs=[Tile(4, f32)], out_specs=[Tile(4, f32)], grid=2, block=2)
    def doubled(x: Any, out: Any) -> None:
        i = ptx.special.ctaid.x() * 2 + ptx.special.tid.x()
        value = (ptx.pointer(x) + i).load()
        ptx.printf("%g ", value, pred=value > 2.0)
        (ptx.pointer(out) + i).store(value * 2.0)

    x = np.array([1, 2, 3, 4], np.float32)
    assert doubled(x).tolist() == [2, 4, 6, 8]
    assert capsys.readouterr().out == "3 4 "
    assembled(doubled)
    out = np.zeros(4, np.float32)
    prints = simulate(doubled, x, out).prints
    lines, first = inspect.getsourcelines(doubled.__wrapped__)
    line = first + next(i for i, text in enumerate(lines) if "printf" in text)
    assert [(p.text, p.line, p.thread) for p in prints] == [
        ("3 ", line, "thread (0, 0, 0) of CTA (1, 0, 0)"),
        ("4 ", line, "thread (1, 0, 0) of CTA (1, 0, 0)"),
    ]
    assert {p.filename for p in prints} == {__file__}


def test_a_failed_assertion(capsys: pytest.CaptureFixture[str]) -> None:
    @kernel(in_specs=[Tile(64, s32)], out_specs=[Tile(64, s32)], grid=1, block=64)
    def halved(x: Any, out: Any) -> None:
        tid = ptx.special.tid.x()
        value = (ptx.pointer(x) + tid).load()
        ptx.printf("first\n", pred=tid == 0)
        ptx.assert_(value % 2 == 0)
        ptx.assert_(~(value < 0), "negative")
        (ptx.pointer(out) + tid).store(value // 2)

    assembled(halved)
    x = np.arange(64, dtype=np.int32) * 2
    assert halved(x).tolist() == list(range(64))
    x[37] = 7
    capsys.readouterr()
    with pytest.raises(SimulationError, match=r"assertion failed in halved: ptx.assert_\(value % 2 == 0\)") as caught:
        halved(x)
    assert capsys.readouterr().out == "first\n"
    assert "thread (37, 0, 0) of CTA (0, 0, 0)" in str(caught.value)
    lines, first = inspect.getsourcelines(halved.__wrapped__)
    line = first + next(i for i, text in enumerate(lines) if "% 2 == 0" in text)
    assert f"{__file__}:{line}:" in str(caught.value)
    x[37] = -2
    with pytest.raises(SimulationError, match="assertion failed in halved: negative"):
        halved(x)


def test_strings_and_prototypes_are_declared_once() -> None:
    def twice() -> None:
        for _ in range(2):
            ptx.printf("again\n")
            ptx.assert_(ptx.special.tid.x() < 32, "again\n")

    text = ptx_of(twice)
    assert text.count(".extern .func") == 2
    assert text.count("97, 103, 97, 105, 110") == 1


def test_a_bool_is_decided_while_tracing() -> None:
    assert "call" not in ptx_of(lambda: ptx.assert_(True))
    with pytest.raises(PTXError, match="assertion failed: N is a multiple of 4"):
        ptx_of(lambda: ptx.assert_(False, "N is a multiple of 4"))


REFUSED = [
    (("%d %d", s32), "has 2 conversions, and 1 value is given"),
    (("no", s32), "has 0 conversions"),
    (("%d", f32), "%d, which takes an integer register of 16 or 32 bits, a predicate or an int, not a register of f32"),
    (("%d", u64), "%lld"),
    (("%lld", u32), "%d takes 32 bits"),
    (("%f", s32), "an integer is printed by %d"),
    (("%f", bf16), "not a register of bf16"),
    (("%s", u64), "takes a Python str"),
    (("%p", u32), "register of 64 bits"),
    (("%d", "x"), "not str 'x'"),
    (("%d", 2**32), "more than the 32 bits"),
    (("%n", u64), "'%n' in the format is not a conversion"),
    (("50%", s32), "'%' in the format is not a conversion"),
    (("%*d", s32), "the width of a conversion is a number"),
    (("%hd", s32), "h is not a length"),
    ((5,), "the format of printf is a str, not int"),
    (("%d" * 33, *[s32] * 33), "32 values at most"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=lambda v: str(v)[:12])
def test_what_is_refused(arguments: Any, message: str) -> None:
    def printing() -> None:
        made = [reg.scalar(a) if hasattr(a, "bits") else a for a in arguments]
        ptx.printf(*made)

    with pytest.raises(PTXError) as caught:
        ptx_of(printing)
    assert message in str(caught.value)
    assert "test_printing.py:" in str(caught.value)


def test_assertions_take_predicates() -> None:
    with pytest.raises(PTXError, match="takes a predicate p or ~p, not a register of s32"):
        ptx_of(lambda: ptx.assert_(reg.scalar(s32)))
    with pytest.raises(PTXError, match="the message of assert_ is a str, not int"):
        ptx_of(lambda: ptx.assert_(reg.scalar(pred), 5))  # pyright: ignore[reportArgumentType]
