"""Inputs that a kernel writes and outputs that it does not: warnings, and only where they are certain."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg, simulate, smem
from pyptx.diagnostics import TraceWarning
from pyptx.types import f32, u32, u64

SPECS: dict[str, Any] = {
    "in_specs": [Tile(32, 32, f32, tma_box=(32, 32))], "out_specs": [Tile(32, 32, f32, tma_box=(32, 32))],
    "grid": 1, "block": 32,
}  # fmt: skip


def element(tensor: Any) -> Any:
    return ptx.pointer(tensor) + ptx.special.tid.x()


def warned(function: Callable[..., None], **options: Any) -> list[tuple[str, int]]:
    """(message, line within the function) of the warnings of `check`."""
    first = inspect.getsourcelines(function)[1]
    found = kernel(**{**SPECS, **options})(function).check()
    assert all(d.severity == "warning" and d.filename == __file__ for d in found), found
    return [(d.message, (d.line or 0) - first) for d in found]


def test_an_input_that_is_written() -> None:
    def by_a_store(x, y):
        element(y).store(1.0)
        element(x).store(2.0)

    def by_a_reduction(x, y):
        element(y).store(1.0)
        ptx.inst.red.global_.add.f32(ptx.addr(element(x)), 1.0)

    def by_a_pointer_that_moves(x, y):
        p, q = ptx.global_ptrs(x, y)
        for _ in ptx.range_(4):
            ptx.inst.st.global_.f32(ptx.addr(p), 1.0)
            p += 4
            ptx.inst.st.global_.f32(ptx.addr(q, 8), 1.0)

    def by_a_tensor_copy(x, y):
        tile = smem.alloc(f32, (32, 32), align=128)
        ptx.cp.async_.bulk.tensor_2d.store(dst=x, src=tile, coord=(0, 0))
        ptx.cp.async_.bulk.tensor_2d.store(dst=y, src=tile, coord=(0, 0))

    for function, line in ((by_a_store, 2), (by_a_reduction, 2), (by_a_pointer_that_moves, 3), (by_a_tensor_copy, 2)):
        ((message, at),) = warned(function)
        assert message.startswith("x is an input, of in_specs, and written here")
        assert at == line


def test_an_output_that_is_not_written() -> None:
    def nothing(x, y):
        element(x).load()

    def only_read(x, y):
        element(y).load()

    def other_way_round(x, y):
        element(x).store(element(y).load())

    assert [m for m, _ in warned(nothing)] == [
        "y is an output, of out_specs, and the kernel never writes it: a call returns memory as it was"
    ]
    assert len(warned(only_read)) == 1
    assert [m.split(",")[0] for m, _ in warned(other_way_round)] == ["x is an input", "y is an output"]


def test_outputs_that_are_written_or_may_be() -> None:
    def under_a_guard(x, y):
        p, q = ptx.global_ptrs(x, y)
        tid = reg.from_(ptx.special.tid.x(), u32)
        ptx.inst.add.u64(q, q, 64, pred=tid > 3)
        ptx.inst.st.global_.f32(ptx.addr(q), 1.0, pred=tid > 5)
        ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(p))

    def chosen(x, y):
        tid = reg.from_(ptx.special.tid.x(), u32)
        first, second = ptx.global_ptrs(y, y)
        ptx.st(f32, ptx.selp(u64, first, second, tid > 3), 1.0)

    def by_bulk_copy(x, y):
        _, q = ptx.global_ptrs(x, y)
        tile = smem.alloc(f32, (32, 32), align=128)
        ptx.inst.cp.async_.bulk.global_.shared__cta.bulk_group(ptx.addr(q), ptx.addr(tile), 4096)

    def through_memory(x, y):
        _, q = ptx.global_ptrs(x, y)
        table = smem.alloc(u64, 1)
        smem.store(u64, table[0], q)
        ptx.st(f32, smem.load(u64, table[0]), 1.0)

    for function in (under_a_guard, chosen, by_bulk_copy, through_memory):
        assert warned(function) == [], function.__name__


def test_a_call_warns_once_for_each_specialisation() -> None:
    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=1, block=32)
    def in_place(x, y):
        element(y).store(element(x).load())
        element(x).store(0.0)

    x = np.ones(32, np.float32)
    with pytest.warns(TraceWarning, match=r"(?s)x is an input.*out=x") as caught:
        in_place(x)
    in_place(x)  # the second call says nothing: pytest would make it an error
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, inspect.getsourcelines(in_place)[1] + 3)]
    assert not x.any()


def test_raw_parameters_may_be_written() -> None:
    @kernel(raw_params=[("u64", "x")])
    def raw():
        ptx.st(u32, ptx.param(u64, "x"), 7)

    x = np.zeros(1, np.uint32)
    simulate(raw, x, grid=1, block=1)
    assert x[0] == 7
    assert raw.check() == []
