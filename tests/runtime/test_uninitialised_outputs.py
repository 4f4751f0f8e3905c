"""Outputs that a call allocates hold nothing: reading them, or adding to them, before they are written is found."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, reg
from pyptx.diagnostics import SimulationWarning
from pyptx.types import u32

torch = pytest.importorskip("torch")


def adding(how: str) -> Any:
    @kernel(arch="sm_80", in_specs=[Tile(64, u32)], out_specs=[Tile(64, u32), Tile(64, u32)], grid=2, block=32)
    def adds(x, copy, total):
        index = ptx.special.ctaid.x() * 32 + ptx.special.tid.x()
        value = (ptx.pointer(x) + index).load()
        (ptx.pointer(copy) + index).store(value)
        place = ptx.pointer(total) + index
        if how == "writes first":
            place.store(reg.scalar(u32, init=3))
        if how == "red":
            ptx.inst.red.global_.add.u32(ptx.addr(place), value)
        elif how == "atom":
            ptx.inst.atom.global_.add.u32(reg.scalar(u32), ptx.addr(place), value)
        elif how == "does not use it":
            place.load()
            place.store(value)
        else:
            place.store(place.load() + value)

    return adds


def told(call: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SimulationWarning)
        result = call()
    return result, [str(w.message) for w in caught if issubclass(w.category, SimulationWarning)]


def numbers() -> np.ndarray:
    return np.random.default_rng().integers(0, 1 << 30, 64, dtype=np.uint32)


@pytest.mark.parametrize("how", ["red", "atom", "load"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_adding_to_an_output_that_nobody_has_written(how: str, kind: str) -> None:
    x: Any = numbers()
    if kind == "torch":
        x = torch.from_numpy(x.astype(np.int32))
    _, messages = told(lambda: adding(how)(x))
    assert len(messages) == 1, messages
    assert "the output total" in messages[0]
    assert "out=" in messages[0]
    assert f"{__file__.rpartition('/')[2]}:" in messages[0]


@pytest.mark.parametrize("how", ["red", "atom", "load"])
def test_outputs_that_are_passed_hold_what_they_hold(how: str) -> None:
    x, start = numbers(), numbers()
    copy, total = np.zeros_like(x), start.copy()
    _, messages = told(lambda: adding(how)(x, out=(copy, total)))
    assert not messages
    assert np.array_equal(total, start + x)
    given = torch.from_numpy(start.astype(np.int32))
    _, messages = told(lambda: adding(how)(torch.from_numpy(x.astype(np.int32)), out=(torch.zeros_like(given), given)))
    assert not messages
    assert np.array_equal(given.numpy().view(np.uint32), start + x)


def test_what_the_kernel_wrote_before_is_there() -> None:
    x = numbers()
    (copy, total), messages = told(lambda: adding("writes first")(x))
    assert not messages
    assert np.array_equal(copy, x)
    assert np.array_equal(total, x + 3)


def test_values_that_nobody_uses_are_no_mistake() -> None:
    assert not told(lambda: adding("does not use it")(numbers()))[1]
