"""NumPy's numbers as operands, sizes and offsets; and mistakes in names and arguments, told at the kernel's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, smem
from pyptx.diagnostics import suggest
from pyptx.types import b32, f32, s32, u32
from tests.frontend.tracing import ptx_of

INTEGERS = [np.int64, np.int32, np.uint8]


def counter() -> Any:
    return reg.scalar(s32, init=1)


def _empty_loop(rounds: Any) -> None:
    for _ in rounds:
        pass


@pytest.mark.parametrize("n", INTEGERS)
@pytest.mark.parametrize(
    "use",
    [
        lambda n: counter() + n(4),
        lambda n: n(4) - counter(),
        lambda n: counter() < n(4),
        lambda n: counter() == n(4),
        lambda n: counter() << n(2),
        lambda n: reg.scalar(u32, init=n(3)),
        lambda n: ptx.inst.st.shared.u32(ptx.addr(reg.scalar(u32, init=0), n(16)), n(1)),
        lambda n: smem.alloc(f32, n(32)),
        lambda n: smem.alloc(f32, (n(32), n(4)))[n(1), n(2)],
        lambda n: smem.mbarrier(n(2))[n(1)],
        lambda n: reg.array(b32, n(4), init=0)[n(2)],
        lambda n: _empty_loop(ptx.range_(n(0), n(8), n(2))),
    ],
)
def test_integers(use: Callable[[Any], object], n: Any) -> None:
    def with_numpys() -> None:
        use(n)

    def with_pythons() -> None:
        use(int)

    assert ptx_of(with_numpys).replace("with_numpys", "") == ptx_of(with_pythons).replace("with_pythons", "")


@pytest.mark.parametrize("n", [np.float32, np.float64, np.float16])
def test_floats(n: Any) -> None:
    def of(number: Any) -> Callable[[], None]:
        def function() -> None:
            r = reg.scalar(f32, init=number(2))
            r += number(0.5)
            r.set(number(3) * (r / number(4)))
            ptx.add(f32, reg.scalar(f32), r, number(1))

        return function

    assert ptx_of(of(n)) == ptx_of(of(float))


@pytest.mark.parametrize("array", [np.array(4), np.array([4, 5]), np.ma.masked_array([1, 2], [0, 1]), np.ma.masked])
def test_arrays_are_no_operands(array: Any) -> None:
    with pytest.raises(PTXError, match=r"int\(...\) or float\(...\)"):
        kernel(lambda: counter() + array).ptx()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ptx.wgmma.mma(1, 2), "mma_async"),
        (lambda: ptx.mbarrier.wait(smem.mbarrier(1)[0], 0, ordering="acquire"), "ordering"),
        (lambda: reg.scalar(f32, init=1).sqrt(), r"sqrt\.rn\.f32"),
    ],
)
def test_names_that_are_not_there(use: Callable[[], object], message: str) -> None:
    with pytest.raises(PTXError, match=message) as caught:
        kernel(use).ptx()
    (found,) = caught.value.diagnostics
    assert found.filename == __file__


def test_errors_of_the_author_stay_their_own() -> None:
    class Own:
        pass

    with pytest.raises(AttributeError) as caught:
        kernel(lambda: Own().missing).ptx()  # pyright: ignore[reportAttributeAccessIssue]
    assert not isinstance(caught.value, PTXError)


def test_specs_that_are_no_lists() -> None:
    with pytest.raises(TypeError, match="in_specs is a list of Tiles"):
        kernel(in_specs=3, out_specs=[])(lambda: None)


def test_numbers_between_two() -> None:
    shapes = [f"m64n{n}k16" for n in range(8, 257, 8)]
    assert suggest("m64n100k16", shapes) == ["m64n96k16", "m64n104k16"]
    assert "m64n8k16" not in suggest("m64n260k16", shapes)[:1]
