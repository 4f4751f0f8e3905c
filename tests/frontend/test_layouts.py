"""Arrays with layouts of the library tensor_layouts: each element where the library says, on the simulator, by ptxas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx import Layout, PTXError, Tile, kernel, ptx, reg, simulate, smem
from pyptx.types import bf16, f32, s32, u16, u32
from tests.frontend.tracing import assembled, ptx_of

tl = pytest.importorskip("tensor_layouts", reason="the extra `layouts` is not installed")

LAYOUTS = {
    "rows": tl.Layout((8, 16), (16, 1)),
    "columns": tl.Layout((8, 16), (1, 8)),
    "padded": tl.Layout((8, 16), (17, 1)),
    "nested": tl.Layout(((2, 4), (4, 4)), ((4, 32), (1, 8))),
    "three": tl.Layout((3, (5, 2)), (10, (1, 5))),
    "odd": tl.Layout(((3, 2), 7), ((14, 1), 2)),
    "swizzled": tl.compose(tl.Swizzle(2, 2, 2), tl.Layout((8, 16), (16, 1))),
    "swizzled nested": tl.compose(tl.Swizzle(2, 1, 3), tl.Layout(((2, 4), 16), ((64, 16), 1))),
    "swizzled downwards": tl.compose(tl.Swizzle(2, 3, -2), tl.Layout((8, 16), (16, 1))),
}  # fmt: skip


def shape_of(layout: Any) -> tuple[int, int]:
    m, n = (tl.size(tl.mode(layout.inner if hasattr(layout, "inner") else layout, i)) for i in range(2))
    return m, n


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("constant", [False, True], ids=["registers", "constants"])
def test_elements_lie_where_the_library_says(name: str, constant: bool) -> None:
    """Each thread writes one element by its indices; the memory is read back as it lies."""
    layout = LAYOUTS[name]
    m, n = shape_of(layout)
    count = 1 + max(layout(i, j) for i in range(m) for j in range(n))

    @kernel(in_specs=[], out_specs=[Tile(count, s32)], grid=1, block=(n, m))
    def written(out: Any) -> None:
        array = smem.alloc(s32, layout=layout)
        assert array.shape == (m, n)
        x, y = ptx.special.tid.x(), ptx.special.tid.y()
        first = (x == 0) & (y == 0)
        for i in range(count):  # elements that the layout leaves out
            ptx.inst.st.shared.b32(ptx.addr(array, 4 * i), -1, pred=first)
        ptx.bar.sync(0)
        if constant:
            with ptx.if_(first):
                for i in range(m):
                    for j in range(n):
                        array[i, j] = reg.scalar(s32, init=100 * i + j)
        else:
            array[y, x] = reg.from_(y * 100 + x, s32)
        ptx.bar.sync(0)
        with ptx.if_(first):
            for i in range(count):
                word = ptx.inst.ld.shared.b32(reg.scalar(s32), ptx.addr(array, 4 * i))
                (ptx.pointer(out) + i).store(word)

    out = np.zeros(count, np.int32)
    assert simulate(written, out).findings == []
    assembled(written)
    want = np.full(count, -1)
    for i in range(m):
        for j in range(n):
            want[layout(i, j)] = 100 * i + j
    np.testing.assert_array_equal(out, want)


def test_one_register_and_one_constant() -> None:
    layout = LAYOUTS["swizzled nested"]
    m, n = shape_of(layout)

    @kernel(in_specs=[], out_specs=[Tile(n, s32)], grid=1, block=n)
    def written(out: Any) -> None:
        array = smem.alloc(s32, layout=layout)
        x = ptx.special.tid.x()
        array[5, x] = reg.from_(x, s32)
        ptx.bar.sync(0)
        (ptx.pointer(out) + x).store(array[5, n - 1 - x])

    out = np.zeros(n, np.int32)
    assert simulate(written, out).findings == []
    assert out.tolist() == list(range(n - 1, -1, -1))
    assert m == 8


def test_constants_are_folded_and_memory_is_aligned() -> None:
    layout = tl.compose(tl.Swizzle(3, 3, 3), tl.Layout((16, 64), (64, 1)))

    def loads() -> None:
        array = smem.alloc(bf16, layout=layout, name="tile")
        ptx.inst.ld.shared.b16(reg.scalar(u16), array.element(5, 9))

    text = ptx_of(loads)
    assert f"[tile+{2 * layout(5, 9)}]" in text
    assert ".align 1024 .b8 tile[2048]" in text
    assert "mul" not in text
    assert "xor" not in text


def through_tma(layout: Any) -> Any:
    """A box of 16 x 32 that TMA writes with its 128-byte swizzle, read by a layout."""

    @kernel(
        in_specs=[Tile(16, 32, f32, Layout.TMA_128B, tma_box=(16, 32))], out_specs=[Tile(16, 32, f32)], grid=1,
        block=(32, 16),
    )  # fmt: skip
    def copied(x: Any, out: Any) -> None:
        tile, full = smem.alloc(f32, layout=layout, align=1024), smem.mbarrier(1)
        column, row = ptx.special.tid.x(), ptx.special.tid.y()
        with ptx.if_((column == 0) & (row == 0)):
            ptx.mbarrier.init(full[0], 1)
            ptx.fence.mbarrier_init()
            ptx.mbarrier.arrive_expect_tx(full[0], 2048)
            ptx.cp.async_.bulk.tensor_2d(dst=tile, src=x, coord=(0, 0), mbar=full[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full[0], 0)
        (ptx.pointer(out) + (row * 32 + column)).store(tile[row, column])

    return copied


def test_the_swizzle_is_that_of_the_hardware() -> None:
    copied = through_tma(tl.compose(tl.Swizzle(3, 2, 3), tl.Layout((16, 32), (32, 1))))  # 16-byte chunks of f32
    assert copied.check() == []
    x = np.random.default_rng().standard_normal((16, 32), dtype=np.float32)
    np.testing.assert_array_equal(copied(x), x)
    for layout, what in (
        (tl.Layout((16, 32), (32, 1)), "has no swizzle of TMA, and TMA copies it with the 128B swizzle"),
        (
            tl.compose(tl.Swizzle(2, 2, 3), tl.Layout((16, 32), (32, 1))),
            "has the 64B swizzle, and TMA copies it with the 128B",
        ),
    ):
        (found,) = through_tma(layout).check()
        assert what in found.message
        assert "of bytes, the 128B swizzle is Swizzle(3, 4, 3)" in (found.hint or "")


def test_a_partition_by_a_thread_value_layout() -> None:
    """The accumulator of mma.m16n8: what `reg.mma_frag` knows of it, and the same in swizzled memory."""
    accumulator = tl.Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))  # (thread, value) -> row + 16 * column
    layout = tl.compose(tl.Swizzle(1, 2, 2), tl.Layout((16, 8), (8, 1)))

    @kernel(in_specs=[Tile(16, 8, f32)], out_specs=[Tile(32, 4, f32)], grid=1, block=32)
    def shared_out(x: Any, out: Any) -> None:
        lane = ptx.special.tid.x()
        for tile in (smem.alloc(f32, layout=layout), smem.alloc(f32, (16, 8))):
            for i in range(4):
                tile[lane // 8 + 4 * i, lane % 8] = (ptx.pointer(x) + (lane + 32 * i)).load()
            ptx.bar.sync(0)
            own = ptx.partition(tile, accumulator)
            assert own.shape == (32, 4)
            for value in range(4):
                (ptx.pointer(out) + (lane * 4 + value)).store(own[lane, value])

    x = np.arange(128, dtype=np.float32).reshape(16, 8)
    out = np.zeros((32, 4), np.float32)
    assert simulate(shared_out, x, out).findings == []
    assembled(shared_out)
    for thread in range(32):
        for value in range(4):
            row, column = thread // 4 + 8 * (value // 2), thread % 4 * 2 + value % 2
            assert out[thread, value] == x[row, column]


REFUSED = [
    (lambda: smem.alloc(f32, (8, 8), layout=LAYOUTS["rows"]), "the shape is (8, 8), and that of the layout (8, 16)"),
    (lambda: smem.alloc(f32, layout="row"), "layout= takes a Layout of tensor_layouts"),
    (lambda: smem.alloc(f32), "needs its shape, or a layout"),
    (lambda: smem.alloc(f32, layout=tl.Layout((4, 4), (-4, 1))), "strides not negative"),
    (lambda: smem.alloc(f32, swizzle="128B", layout=LAYOUTS["rows"]), "a layout is applied"),
    (lambda: smem.alloc(f32, layout=LAYOUTS["rows"])[1], "is not one place"),
    (lambda: smem.alloc(f32, layout=LAYOUTS["rows"])[8, 0], "index 8 is outside dimension 0"),
    (lambda: smem.alloc(f32, layout=LAYOUTS["rows"])[reg.scalar(u32)], "is not one place"),
    (lambda: ptx.partition(smem.alloc(f32, (4, 4)), tl.Layout((8, 4), (1, 8))), "chooses elements up to number 31, and the array of shape (4, 4) has 16"),
    (lambda: ptx.partition(smem.alloc(f32, (4, 4)), 5), "partition takes a Layout of tensor_layouts, not 5"),
    (lambda: ptx.partition(smem.mbarrier(1), LAYOUTS["rows"]), "partition takes an array of smem.alloc, not MbarrierArray"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises((PTXError, IndexError)) as caught:
        ptx_of(lambda: (call(), None)[1])
    assert message in str(caught.value)
