"""What looks like a value and is none, wrong types of options and arguments: clear errors, at the kernel's line where
there is one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyptx import Kernel, PTXError, Tile, fat_kernel, kernel, ptx, reg, simulate, smem
from pyptx.diagnostics import TraceWarning
from pyptx.types import bf16, f32, pred, s32, u32, u64
from tests.frontend.tracing import assembled


def refused(function: Callable[..., None], **options: Any) -> str:
    """Message and hint of the one error of tracing, which is at the line with `# here`."""
    with pytest.raises(PTXError) as caught:
        kernel(**options)(function).ptx()
    (found,) = caught.value.diagnostics
    code, first = inspect.getsourcelines(function)
    assert found.line == first + next(i for i, text in enumerate(code) if "# here" in text)
    return f"{found.message}\n{found.hint}"


def test_places_in_shared_memory() -> None:
    def part_of_a_row() -> None:
        smem.alloc(f32, (4, 4))[1] + 1.0  # here

    assert "all indices together load an element: s[i, j]" in refused(part_of_a_row)

    def element() -> None:
        v = reg.scalar(f32, init=1.0)
        v += smem.alloc(f32, 4)[2]  # here

    assert "smem.load(f32, s[i]) or s[i,] loads the element" in refused(element)

    def initial() -> None:
        reg.scalar(f32, init=smem.alloc(f32, 4)[2])  # here

    assert "smem.load" in refused(initial)

    def stored() -> None:
        s = smem.alloc(f32, 4)
        s[0] = s[1]  # here

    assert "smem.load(f32, s[i])" in refused(stored)

    def operand() -> None:
        v = reg.scalar(f32)
        ptx.inst.add.f32(v, v, smem.alloc(f32, 4)[1])  # here

    assert "smem.load(f32, s[i])" in refused(operand)

    def whole() -> None:
        smem.alloc(f32, 4) < reg.scalar(f32)  # here  # noqa: B015

    assert "ptx.addr(s, bytes)" in refused(whole)

    def address() -> None:
        ptx.addr(reg.scalar(u64)) + 4  # here

    assert "ptx.addr(p, 16)" in refused(address)

    def too_few() -> None:
        smem.alloc(f32, (4, 4))[1] = 2.0  # here

    assert "an element is s[i, j], of (4, 4)" in refused(too_few)


def test_elements_three_ways() -> None:
    @kernel(raw_params=[("u64", "out")])
    def run():
        tid = reg.from_(ptx.special.tid.x(), u32)
        s, line = smem.alloc(u32, (2, 8)), smem.alloc(u32, 8)
        s[1, tid] = tid * 3
        line[tid] = tid * 5
        ptx.bar.sync(0)
        parts = [s[1, tid], s[1][tid], smem.load(u32, s.element(1, tid)), smem.load(u32, s.element((1, tid))),
                 smem.load(u32, s[1].element(tid)), line[tid,], smem.load(u32, line[tid])]  # fmt: skip
        at = ptx.param(u64, "out") + tid * 28
        for i, part in enumerate(parts):
            ptx.st(u32, ptx.addr(at, 4 * i), part)

    assembled(run)
    out = np.full((8, 7), 99, np.uint32)
    simulate(run, out, grid=1, block=8)
    assert np.array_equal(out, np.arange(8)[:, None] * np.array([3] * 5 + [5] * 2))


@pytest.mark.parametrize(
    "function",
    [lambda: ptx.special.tid.x * 4, lambda: 4 + ptx.special.ntid.y, lambda: reg.from_(ptx.special.tid.x, u32)],
)
def test_special_registers_are_called(function: Callable[[], Any]) -> None:
    with pytest.raises(PTXError, match=r"call it: ptx.special.n?tid.[xy]\(\)"):
        kernel(function).ptx()
    with pytest.raises(PTXError, match=r"it has elements: ptx.special.tid.x\(\)"):
        kernel(lambda: ptx.special.tid + 1).ptx()


@pytest.mark.parametrize("use", [lambda x: x[0], lambda x: x + 1, lambda x: x.__setitem__(0, 1.0), lambda x: x < 3])
def test_tensors_are_not_arrays(use: Callable[[Any], Any]) -> None:
    with pytest.raises(PTXError, match=r"x, a tensor, is not a value to compute with(.|\n)*ptx.pointer\(x\)"):
        kernel(in_specs=[Tile("N", f32)], out_specs=[])(lambda x: use(x)).ptx(N=4)


@pytest.mark.parametrize("use", [lambda x: ptx.addr(x), lambda x: x])
def test_tensors_are_no_global_addresses(use: Callable[[Any], Any]) -> None:
    with pytest.raises(PTXError, match=r"x is a parameter(.|\n)*ptx.global_ptrs|ptx.pointer\(x\) points"):
        kernel(in_specs=[Tile("N", f32)], out_specs=[])(lambda x: ptx.inst.ld.global_.f32(reg.scalar(f32), use(x))).ptx(
            N=4
        )


def test_predicates_or() -> None:
    def condition() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        ptx.if_(p | q).__enter__()  # here

    def guard() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        ptx.bar.sync(0, pred=~p | q)  # here

    def more() -> None:
        p, q = reg.scalar(pred), reg.scalar(pred)
        (p | q) & p  # here

    for function in (condition, guard, more):
        assert "ptx.or_(pred, p, q)" in refused(function)

    @kernel
    def both():
        x = reg.from_(ptx.special.tid.x(), u32)
        p, q = reg.scalar(pred), reg.scalar(pred)
        ptx.inst.setp.lt.and_.u32(p | q, x, 3, x < 2)
        with ptx.if_(ptx.or_(pred, p, q)):
            ptx.bar.sync(0)

    assert "setp.lt.and.u32 %p0|%p1" in assembled(both)


def test_signedness_of_comparisons() -> None:
    def less() -> None:
        reg.scalar(u32) < -1  # here  # noqa: B015

    assert "compares unsigned, as 4294967295" in refused(less)

    def wide() -> None:
        reg.scalar(s32) > 1 << 32  # here  # noqa: B015

    assert "more than 32 bits" in refused(wide)

    def high() -> None:
        reg.scalar(s32) < 0xFFFFFFFF  # here  # noqa: B015

    assert "would compare with -1" in refused(high)

    @kernel(raw_params=[("u64", "out")])
    def run():
        values = [reg.scalar(u32, init=0xFFFFFFFF) == -1, reg.scalar(s32, init=-1) == 0xFFFFFFFF,
                  reg.scalar(u32, init=3) < reg.scalar(s32, init=-1), reg.scalar(s32, init=3) < reg.scalar(u32, init=-1)]  # fmt: skip
        for i, p in enumerate(values):
            ptx.st(u32, ptx.addr(ptx.param(u64, "out"), 4 * i), ptx.selp(u32, 1, 0, p))

    assembled(run)
    out = np.full(4, 99, np.uint32)
    simulate(run, out, grid=1, block=1)
    assert out.tolist() == [1, 1, 1, 0]  # the left operand's type decides


def test_register_arrays() -> None:
    @kernel(raw_params=[("u64", "out")])
    def run():
        a = reg.array(u32, 8, init=7)
        a[2:4] = [1, a[0] + 1]
        a[4:6] = 3
        b = reg.array(u32, 2, init=a[2:4])
        part = a[6:8]
        part[1] = b[1] * 2
        out = ptx.param(u64, "out")
        ptx.inst.st.global_.v4.u32(ptx.addr(out), a[0:4])
        ptx.inst.st.global_.v4.u32(ptx.addr(out, 16), a[4:8])

    assembled(run)
    out = np.full(8, 99, np.uint32)
    simulate(run, out, grid=1, block=1)
    assert out.tolist() == [7, 7, 1, 8, 3, 3, 7, 16]

    def sum_of_arrays() -> None:
        reg.array(f32, 4) + 1.0  # here

    assert "compute with its elements" in refused(sum_of_arrays)

    def too_few() -> None:
        reg.array(f32, 4, init=[1.0, 2.0])  # here

    assert "2 values for 4 registers" in refused(too_few)

    def offset() -> None:
        ptx.addr(reg.scalar(u64), 1.5)  # here

    assert "the offset of an address is an int" in refused(offset)


def test_coordinates_in_a_register_array() -> None:
    @kernel(in_specs=[Tile(64, 64, bf16, tma_box=(64, 64))], out_specs=[])
    def load(x):
        bar, s, at = smem.mbarrier(1), smem.alloc(bf16, (64, 64)), reg.array(s32, 2, init=0)
        ptx.mbarrier.init(bar[0], 1)
        ptx.inst.cp.async_.bulk.prefetch.tensor._2d.L2.global_.tile(ptx.addr(x.tma_desc(), at))
        ptx.cp.async_.bulk.tensor_2d(dst=s, src=x, coord=at, mbar=bar[0])

    assert assembled(load).count("{%r0, %r1}") == 2


@pytest.mark.parametrize("what", ["ptx", "usage", "explain", "sass", "module"])
def test_dimensions_that_are_not_given(what: str) -> None:
    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)])
    def scaled(x, y, *, N=None):
        ptx.special.tid.x() < N  # noqa: B015

    @kernel(in_specs=[Tile("M", "N", f32)], out_specs=[Tile("N", f32)])
    def shaped(x, y):
        for _ in range(x.shape[0]):
            ptx.bar.sync(0)

    if what == "sass":
        pytest.importorskip("cuda.pathfinder")
    for function, missing in (
        (scaled, "dimension N of scaled has no value"),
        (shaped, "dimensions M, N of shaped have"),
    ):
        with pytest.raises(PTXError, match=missing) as caught:
            getattr(function, what)()
        assert caught.value.diagnostics[0].filename == __file__
        assert "N=..." in (caught.value.diagnostics[0].hint or "")


def empty() -> None:
    ptx.ret()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: kernel(arch=90), TypeError, 'arch is the name of a target such as "sm_90a", not 90'),
        (lambda: kernel(gird=3), TypeError, "no option 'gird'; did you mean grid"),
        (lambda: kernel(version=8.5), TypeError, 'version is a PTX version such as "8.7"'),
        (lambda: kernel(block="3"), PTXError, "the block of kernel empty is one to three positive ints, not '3'"),
        (lambda: kernel(grid=1.5), PTXError, "the grid of kernel empty is one to three positive ints"),
        (lambda: kernel(smem="1"), TypeError, "smem is a number of bytes"),
        (lambda: kernel(raw_params=["u32"]), TypeError, "raw_params is a list of pairs"),
        (lambda: kernel(raw_directives=["maxnreg"]), TypeError, "raw_directives is a list of pairs"),
        (lambda: kernel(in_specs=["N"]), TypeError, "in_specs are Tiles"),
    ],
)
def test_wrong_options(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()(empty).ptx()


def test_wrong_kernels_and_tiles() -> None:
    one = kernel(empty)
    for wrong in ([one, one], empty):
        with pytest.raises(TypeError, match="takes kernels one by one"):
            fat_kernel(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"one of pyptx.types: f32, not 'f32'"):
        Tile("N", "f32")
    with pytest.raises(TypeError, match=r"one of pyptx\.types"):
        Tile("N", dtype=np.float32)  # type: ignore[arg-type]


def launched(grid: Any) -> Kernel:
    def copy(x, y):
        tid = ptx.special.ctaid.x() * 4 + ptx.special.tid.x()
        (ptx.pointer(y) + tid).store((ptx.pointer(x) + tid).load())

    return kernel(in_specs=[Tile("M", "N", f32)], out_specs=[Tile("M", "N", f32)], grid=grid, block=4)(copy)


@pytest.mark.parametrize(
    "grid",
    [
        lambda M, N: M,
        lambda m, n: m,
        lambda M: M,
        lambda *d: d[0],
        lambda m, n, each=1: m,
        lambda **d: d["M"],
    ],
)
def test_grids_of_the_dimensions(grid: Callable[..., int]) -> None:
    x = np.random.default_rng().standard_normal((6, 4), dtype=np.float32)
    assert np.array_equal(launched(grid)(x), x)


def test_a_grid_of_names_that_say_nothing_is_taken_in_order_with_a_warning() -> None:
    x = np.random.default_rng().standard_normal((6, 4), dtype=np.float32)
    with pytest.warns(TraceWarning, match="none of them a dimension: taken in order, rows = M, columns = N") as caught:
        got = launched(lambda rows, columns: rows)(x)
    assert np.array_equal(got, x)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (lambda n, m: m, "function of n, m, and the dimensions are M, N"),
        (lambda rows: rows, "function of rows, and the dimensions are M, N"),
        (lambda M, K: M, "function of K, and"),
    ],
)
def test_grids_of_other_names(grid: Callable[..., int], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        launched(grid)(np.zeros((6, 4), np.float32))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ptx.if_(reg.scalar(u32)).__enter__(), "a condition is a predicate register, not a u32 one"),
        (lambda: list(ptx.range_(1.5)), "bounds of range_ are ints and 32-bit integer registers, not 1.5"),
        (lambda: list(ptx.range_(reg.scalar(u64))), "bounds of range_ are ints and 32-bit integer registers, not u64"),
        (lambda: ptx.add(reg.scalar(f32), 1.0, 2.0), "the first argument of these instructions is one of pyptx.types"),
        (lambda: ptx.selp(reg.scalar(f32), 1.0, 2.0, reg.scalar(pred)), "is one of pyptx.types"),
        (lambda: ptx.cvt(reg.scalar(f32), s32, reg.scalar(f32), reg.scalar(s32)), "is one of pyptx.types"),
        (lambda: ptx.mbarrier.phased(smem.mbarrier(1)[0], 2), "the parity of a phase is 0 or 1"),
    ],
)
def test_arguments_of_the_wrong_kind(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(PTXError, match=message):
        kernel(lambda: use()).ptx()


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda: bool(smem.alloc(f32, (4, 4))[0]), "smem_0[0], a place in shared memory, has no truth value"),
        (lambda: bool(ptx.special.tid.x), "call it: ptx.special.tid.x()"),
        (lambda: ptx.special.tid.x == 0, "call it: ptx.special.tid.x()"),
        (lambda: 0 == ptx.special.tid, "it has elements: ptx.special.tid.x()"),
        (lambda: bool((reg.scalar(u32) == 1) | (reg.scalar(u32) == 2)), "p or q is ptx.or_(pred, p, q)"),
        (lambda: reg.array(f32, 4) == 0.0, "compute with its elements"),
        (lambda: reg.scalar(f32) == reg.array(f32, 4), "compute with its elements"),
        (lambda: smem.alloc(f32, (4, 4))[0] != 0, "all indices together load an element"),
        (lambda: ptx.addr(reg.scalar(u64)) == 0, "an address in brackets is not a value"),
        (lambda: bool(ptx.elect_sync(None, reg.scalar(pred))), "with ptx.if_(p):"),
    ],
)
def test_comparisons_and_conditions(use: Callable[[], object], says: str) -> None:
    with pytest.raises(PTXError) as caught:
        kernel(lambda: use() and None).ptx()
    assert says in str(caught.value)


def test_optional_arguments_may_be_tested() -> None:
    @kernel
    def fine():
        for given in (reg.array(f32, 2), smem.alloc(f32, 4), smem.mbarrier(1), smem.mbarrier(1)[0]):
            assert given
            assert given == given
            assert given != None  # noqa: E711
            assert given in [given]
            assert {given: 1}[given] == 1

    fine.ptx()
