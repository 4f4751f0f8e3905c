"""Control flow, as ptxas accepts it and as the simulator runs it."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import PTXError, kernel, ptx, reg, simulate
from pyptx.types import pred, s32, u32, u64
from tests.frontend.tracing import assembled, body, ptx_of


def results(function, threads: int = 8, dtype=np.int32):
    """What `function(tid)` returns (an s32 or u32 register), for each thread."""

    @kernel(raw_params=[("u64", "out")])
    def run():
        tid = reg.from_(ptx.special.tid.x(), s32)
        out = ptx.param(u64, "out")
        out += tid * 4
        ptx.st(u32, out, function(tid))
        ptx.ret()

    assembled(run)
    out = np.full(threads, -99, dtype)
    simulate(run, out, grid=1, block=threads)
    return out.tolist()


def test_if_and_else():
    def function(tid):
        value = reg.scalar(s32, init=0)
        with ptx.if_(tid < 3):
            value += 1
        with ptx.else_():
            value += 2
            with ptx.if_(tid > 5):
                value += 10
        with ptx.if_(~(tid == 4)):
            value += 100
        return value

    assert results(function) == [101, 101, 101, 102, 2, 102, 112, 112]


def test_nested_ifs_with_a_bare_inner_if_before_else():
    def function(tid):
        value = reg.scalar(s32, init=0)
        with ptx.if_(tid < 4):
            with ptx.if_(tid < 2):
                value += 1
        with ptx.else_():
            value += 2
        return value

    assert results(function) == [1, 1, 0, 0, 2, 2, 2, 2]


def test_label_spelling_and_one_counter():
    def function():
        p = reg.scalar(pred)
        with ptx.if_(p):
            ptx.inst.bar.sync(0)
        with ptx.else_():
            ptx.inst.bar.sync(1)
        for _ in ptx.range_(0, 4):
            ptx.inst.bar.sync(2)

    assert body(ptx_of(function)) == [
        "@!%p0 bra $_else_0;", "bar.sync 0;", "bra $_endif_0;", "$_else_0:", "bar.sync 1;", "$_endif_0:",
        "mov.s32 %ri0, 0;", "$_loop_1:", "setp.ge.s32 %p1, %ri0, 4;", "@%p1 bra $_endloop_1;", "bar.sync 2;",
        "add.s32 %ri0, %ri0, 1;", "bra $_loop_1;", "$_endloop_1:", "ret;",
    ]  # fmt: skip


def test_else_needs_its_if():
    def detached():
        with ptx.if_(reg.scalar(pred)):
            ptx.inst.bar.sync(0)
        ptx.inst.bar.sync(1)
        with ptx.else_():
            pass

    with pytest.raises(PTXError, match="must follow its if_ directly"):
        ptx_of(detached)


@pytest.mark.parametrize("bounds", [(0, 5), (3, 10, 2), (4, 0, -1), (5, -6, -3), (0, 0), (2, 1)])
def test_range_runs_as_python_range(bounds):
    def function(tid):
        value = reg.scalar(s32, init=0)
        for i in ptx.range_(*bounds):
            value *= 10
            value += i
        return value

    expected = 0
    for i in range(*bounds):
        expected = expected * 10 + i
    assert results(function, 1) == [expected]


def test_range_with_register_bounds_break_and_continue():
    def function(tid):
        total = reg.scalar(s32, init=0)
        for i in ptx.range_(tid, tid + tid):
            ptx.continue_(pred=(i & 1) == 0)
            with ptx.if_(i > 9):
                ptx.break_()
            total += i
        return total

    def python(tid):
        total = 0
        for i in range(tid, 2 * tid):
            if i % 2 == 0:
                continue
            if i > 9:
                break
            total += i
        return total

    assert results(function) == [python(t) for t in range(8)]


def test_python_break_in_a_range_is_refused():
    def broken():
        for _ in ptx.range_(0, 4):
            break

    with pytest.raises(PTXError) as caught:
        kernel(broken).ptx()
    assert "ptx.break_()" in str(caught.value)


def test_loop_runs_while_the_predicate_holds():
    def function(tid):
        n = reg.scalar(s32, init=0)
        more = reg.scalar(pred)
        with ptx.loop("again", pred=more):
            n += 1
            ptx.setp("lt", s32, more, n, tid)
        return n

    assert results(function, 5) == [1, 1, 2, 3, 4]


def test_endless_loop_is_left_with_a_branch():
    def function(tid):
        n = reg.scalar(s32, init=0)
        with ptx.loop("spin"):
            n += 3
            ptx.bra("done", pred=n > tid)
        ptx.label("done")
        return n

    assert results(function) == [3, 3, 3, 6, 6, 6, 9, 9]


@pytest.mark.parametrize("unroll", [1, 2, 4, 8])
def test_kloop_runs_the_body_total_times(unroll):
    def function(tid):
        n, last = reg.scalar(s32, init=0), reg.scalar(s32, init=-1)

        def body(k):
            nonlocal n
            n += 1
            ptx.inst.add.s32(last, k, 100)

        ptx.kloop(tid, unroll=unroll, body=body)
        ptx.kloop(tid, unroll=unroll, body=lambda: ptx.inst.add.s32(n, n, 0))
        with ptx.if_(tid == 0):
            last += 100
        return n * 1000 + last

    assert results(function, 12) == [t * 1000 + (99 + t) for t in range(12)]


def test_kloop_with_a_python_int_is_unrolled():
    seen = []

    def function():
        r = reg.scalar(u32, init=0)

        def body(k):
            nonlocal r
            seen.append(k)
            r += k

        ptx.kloop(3, body=body)

    assert "bra" not in ptx_of(function)
    assert seen == [0, 1, 2]


def test_pipeline_goes_round_the_ring():
    def function(tid):
        pipe = ptx.pipeline(3)
        value = reg.scalar(s32, init=0)
        for _ in ptx.range_(0, tid):
            stage, phase = pipe.advance()
            value = ptx.mov(s32, value, stage + phase * 10)
        return value

    def python(n):
        return (n - 1) % 3 + (n - 1) // 3 % 2 * 10 if n else 0

    assert results(function, 10) == [python(n) for n in range(10)]


def test_expr_keeps_the_order_around_control_flow():
    def function(tid):
        value = reg.scalar(s32, init=1)
        with ptx.expr():
            with ptx.if_(tid == 2):
                value += 5
            value += 1
        return value

    assert results(function, 4) == [2, 2, 7, 2]


def test_labels_are_unique_and_well_formed():
    def twice():
        ptx.label("a")
        ptx.label("a")

    with pytest.raises(PTXError, match="placed twice"):
        ptx_of(twice)
    with pytest.raises(PTXError, match="is not a label name"):
        ptx_of(lambda: ptx.label("a b"))
    with pytest.raises(PTXError, match="condition is a predicate register"):
        ptx_of(lambda: ptx.if_(3 > 2).__enter__())


def test_reductions():
    for dtype, values in ((s32, [-5, 3, 2, -7]), (u32, [5, 2**31 + 4, 7, 1])):

        @kernel(raw_params=[("u64", "out"), ("u64", "x")])
        def reduced(*, dtype=dtype):
            tid = reg.from_(ptx.special.tid.x(), u32)
            x, out = ptx.param(u64, "x"), ptx.param(u64, "out")
            x += tid * 4
            out += tid * 4
            for i, reduce in enumerate((ptx.warp.reduce_sum, ptx.warp.reduce_max, ptx.warp.reduce_min)):
                value = reg.scalar(dtype)
                ptx.ld(dtype, value, x)
                reduce(value, width=4)
                ptx.st(dtype, ptx.addr(out, 128 * i), value)
            ptx.ret()

        assembled(reduced)
        numpy = np.int32 if dtype is s32 else np.uint32
        x = np.tile(np.array(values, numpy), 8)
        out = np.zeros((3, 32), numpy)
        simulate(reduced, out, x, grid=1, block=32)
        expected = [x[:4].sum(dtype=numpy), max(values), min(values)]
        np.testing.assert_array_equal(out, np.array(expected, numpy)[:, None].repeat(32, 1))


def test_reduction_widths_and_types():
    with pytest.raises(ValueError, match="2, 4, 8, 16 or 32"):
        ptx_of(lambda: ptx.warp.reduce_sum(reg.scalar(u32), width=5) and None)
    with pytest.raises(PTXError, match="not u64"):
        ptx_of(lambda: ptx.warp.reduce_sum(reg.scalar(u64)) and None)
