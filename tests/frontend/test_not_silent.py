"""Mistakes that trace and assemble: an error or a `TraceWarning` says so."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Layout, PTXError, Tile, kernel, ptx, reg, smem
from pyptx.diagnostics import TraceWarning
from pyptx.kernel import Kernel
from pyptx.types import b32, f16, f32, pred, s32, u8, u16, u32


def told(make: Callable[[], object]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [w for w in caught if issubclass(w.category, TraceWarning)]


# ------------------------------------------------------------------------------------------------- template parameters


def test_a_template_parameter_without_a_value() -> None:
    def filled(out: Any, *, flag: Any, value: Any = 1.0) -> None:
        (ptx.pointer(out) + ptx.special.tid.x()).store(2.0 if flag else value)

    def made() -> Kernel:
        return kernel(in_specs=[], out_specs=[Tile(32, f32)], grid=1, block=32)(filled)

    (found,) = told(lambda: made()())
    assert "filled needs flag=" in str(found.message)
    assert found.lineno == inspect.getsourcelines(filled)[1]
    with pytest.warns(TraceWarning, match="flag="):
        assert [d.message for d in made().diagnose() if "flag=" in d.message]
    assert told(lambda: made()(flag=True)) == []
    assert told(lambda: made()(flag=None)) == []


def test_dimensions_and_raw_parameters_are_no_missing_template_parameters() -> None:
    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], raw_params=[("f32", "s")], grid=1, block=32)
    def scaled(x: Any, out: Any, *, N: Any, s: Any) -> None:
        i = ptx.special.tid.x()
        assert N == 32
        (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * ptx.param(f32, "s"))

    x = np.random.default_rng().normal(size=32).astype(np.float32)
    assert told(lambda: np.testing.assert_array_equal(scaled(x, s=2.0), 2 * x)) == []


def test_an_error_in_a_kernel_names_the_parameter_that_is_missing() -> None:
    def unrolled(*, rounds: Any) -> None:
        for _ in range(rounds):
            ptx.bar.sync(0)

    with pytest.raises(TypeError) as caught:
        kernel(unrolled).ptx()
    assert any("rounds of unrolled was not given" in note for note in caught.value.__notes__)


# ------------------------------------------------------------------------------------------------------------ addresses


def test_a_loaded_value_is_no_address() -> None:
    def loads() -> None:
        tile = smem.alloc(f16, (2, 16, 16))
        row = reg.from_(ptx.special.tid.x(), u32) & 15
        ptx.ldmatrix(dst=reg.array(b32, 4), src=tile[0, row, 0])

    with pytest.raises(PTXError, match="address is a 32-bit or 64-bit integer register, not %h0 of type f16") as caught:
        kernel(loads).ptx()
    (found,) = caught.value.diagnostics
    assert "s.element(row, col)" in (found.hint or "")
    assert found.line == inspect.getsourcelines(loads)[1] + 3


@pytest.mark.parametrize("dtype", [u8, u16, f16, f32, pred])
def test_registers_that_are_no_addresses(dtype: Any) -> None:
    with pytest.raises(PTXError, match=f"integer register, not .* of type {dtype}"):
        kernel(lambda: ptx.inst.ld.shared.u32(reg.scalar(u32), ptx.addr(reg.scalar(dtype), 4))).ptx()


# ---------------------------------------------------------------------------------------------------------------- loops


def test_a_loop_whose_condition_cannot_change() -> None:
    def endless() -> None:
        n = reg.scalar(s32, init=5)
        with ptx.loop("again", pred=n > 0):  # here
            n -= 1

    def negated() -> None:
        p = reg.scalar(pred)
        n = reg.scalar(s32, init=5)
        ptx.setp("le", s32, p, n, 0)
        with ptx.loop("again", pred=~p):  # here
            with ptx.if_(n == 3):  # a branch, and none that leaves
                n -= 1
            n -= 1

    for function in (endless, negated):
        (found,) = told(lambda f=function: kernel(f).ptx())
        assert re.search("never ends(.|\n)*setp", str(found.message))
        code, first = inspect.getsourcelines(function)
        assert "# here" in code[found.lineno - first]


def test_loops_that_end() -> None:
    def writes() -> None:
        n, p = reg.scalar(s32, init=5), reg.scalar(pred)
        with ptx.loop("again", pred=p):
            n -= 1
            ptx.setp("gt", s32, p, n, 0)

    def branches() -> None:
        n = reg.scalar(s32, init=5)
        with ptx.loop("again", pred=n > 0):
            n -= 1
            ptx.bra("out", pred=n < 2)
        ptx.label("out")

    def returns() -> None:
        n = reg.scalar(s32, init=5)
        with ptx.loop("again", pred=n > 0):
            n -= 1
            ptx.ret(pred=n < 2)

    def breaks() -> None:
        for i in ptx.range_(9):
            with ptx.loop("again", pred=i > 0):
                ptx.break_(pred=ptx.special.clock() > 100)

    for function in (writes, branches, returns, breaks):
        assert told(lambda f=function: kernel(f).ptx()) == [], function.__name__


# --------------------------------------------------------------------------------------------------- copies at the call


def copied(layout: Layout) -> Kernel:
    @kernel(in_specs=[Tile(64, 64, f16, layout, tma_box=(64, 64))], out_specs=[Tile(32, f32)], grid=1, block=32)
    def copy(x: Any, out: Any) -> None:
        tile, bar = smem.wgmma_tile(f16, (64, 64)), smem.mbarrier(1)
        tid = reg.from_(ptx.special.tid.x(), u32)
        with ptx.if_(tid == 0):
            ptx.mbarrier.init(bar[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(bar[0], 64 * 64 * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x, coord=(0, 0), mbar=bar[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(bar[0], 0)
        (ptx.pointer(out) + tid).store(1.0)

    return copy


def test_a_call_says_what_check_says_about_copies() -> None:
    x = np.random.default_rng().normal(size=(64, 64)).astype(np.float16)
    wrong = copied(Layout.ROW)
    (found,) = told(lambda: wrong(x))
    assert "without a swizzle, and its layout is 128B" in str(found.message)
    assert "TMA_128B" in str(found.message)
    assert told(lambda: wrong(x)) == []
    assert told(lambda: copied(Layout.TMA_128B)(x)) == []


# --------------------------------------------------------------------------------------------- what a person looks at


def test_short_texts() -> None:
    k = copied(Layout.TMA_128B)
    text = repr(k.pressure())
    assert len(text) < 300
    assert re.search(r"written=\d+, estimated=\d+", text)
    shown = k._repr_markdown_()
    assert "**kernel `copy`**" in shown
    assert "- inputs: `x: (64, 64) f16`" in shown
    assert "- outputs: `out: (32,) f32`" in shown
    assert "`sm_90a`" in shown
    assert {"Any", "Cvta", "Special"}.isdisjoint(dir(ptx))
    assert {"inst", "special", "if_"} <= set(dir(ptx))
