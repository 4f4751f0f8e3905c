"""Liveness and pressure of kernels small enough to count by hand."""

from __future__ import annotations

from pyptx.analysis.operands import line_of, register_name
from pyptx.dialects.ptx.instruction import Instruction

from .kernels import report_of


def point(report, opcode: str, index: int = 0):
    ops = [op for block in report.cfg.blocks for op in block.ops if isinstance(op, Instruction) and op.opcode == opcode]
    return report.pressure.points[ops[index]]


def test_counts_by_width() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd1, %r1, 8;
	setp.lt.u32 %p1, %r1, 5;
	add.u64 %rd2, %rd1, 1;
	@%p1 add.u64 %rd2, %rd2, %rd1;
	st.global.u64 [%rd2], %rd1;
	st.global.u32 [%rd2], %r1;
	ret;"""
    )
    # at the guarded add: %r1 (1), %rd1 (2), old and new %rd2 in one register (2), %p1
    guarded = point(report, "add", 1)
    assert (guarded.written, guarded.estimated, guarded.predicates) == (5, 5, 1)
    assert point(report, "mov").estimated == 1
    assert (report.pressure.written, report.pressure.predicates) == (5, 1)


def test_copies_and_parts_share_registers_in_the_estimate() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mov.b64 %rd1, {%r1, %r2};
	cvta.to.global.u64 %rd2, %rd1;
	mov.u64 %rd3, %rd2;
	st.global.u64 [%rd3], %rd1;
	st.global.u64 [%rd2], %rd3;
	st.global.u32 [%rd2], %r1;
	st.global.u32 [%rd2], %r2;
	ret;"""
    )
    assert report.pressure.written == 8  # %r1 %r2 %rd1 %rd2 %rd3 at once
    assert report.pressure.estimated == 2


def test_loads_written_early_are_relaxed_to_their_uses() -> None:
    loads = "\n".join(f"\tld.global.f32 %f{i + 1}, [%rd1+{4 * i}];" for i in range(16))
    sums = "\n".join(f"\tadd.f32 %f0, %f0, %f{i + 1};" for i in range(16))
    body = (
        f"\tld.param.u64 %rd1, [p];\n\tmov.f32 %f0, 0f00000000;\n{loads}\n{sums}\n\tst.global.f32 [%rd1], %f0;\n\tret;"
    )
    pressure = report_of(body).pressure
    assert pressure.estimated == 19  # the address pair, the sum and 16 numbers
    assert pressure.relaxed == 4  # one number at a time


def test_a_store_between_keeps_loads_where_they_are() -> None:
    loads = "\n".join(f"\tld.global.f32 %f{i + 1}, [%rd1+{4 * i}];" for i in range(16))
    sums = "\n".join(f"\tadd.f32 %f0, %f0, %f{i + 1};" for i in range(16))
    body = f"\tld.param.u64 %rd1, [p];\n\tmov.f32 %f0, 0f00000000;\n{loads}\n\tst.global.f32 [%rd1], %f0;\n{sums}\n"
    pressure = report_of(body + "\tst.global.f32 [%rd1], %f0;\n\tret;").pressure
    assert pressure.relaxed >= 18  # 16 numbers and the address are live across the first store


def test_values_live_around_a_loop_are_counted_in_it() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mov.u32 %r3, %tid.z;
L:
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, 100;
	@%p1 bra L;
	add.u32 %r4, %r1, %r2;
	cvt.u64.u32 %rd1, %r4;
	st.global.u32 [%rd1], %r3;
	ret;"""
    )
    assert point(report, "add", 0).estimated == 3  # %r1 and %r2 wait, %r3 counts
    top = report.pressure.top
    assert top is not None
    assert line_of(top) is not None
    assert {"%r1", "%r2", "%r3"} <= {register_name(v) for v in report.pressure.live_at_top}


def test_dead_results_need_a_register() -> None:
    report = report_of("\tmov.u32 %r1, %tid.x;\n\tret;")
    assert report.pressure.estimated == 1
