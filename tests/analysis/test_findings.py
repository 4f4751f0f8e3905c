"""Divergent barriers, uninitialised reads, unreachable code: found where they are, and not where they are
not."""

from __future__ import annotations

import pytest

from .kernels import report_of

BRANCH = """
	mov.u32 %r1, {what};
	setp.{compare} %p1, %r1, {limit};
	@%p1 bra L;
	{inside}
L:
	ret;"""


def found(report, analysis: str) -> list[tuple[str, int | None]]:
    return [(f.severity, f.line) for f in report.findings if f.analysis == analysis]


@pytest.mark.parametrize(
    ("what", "compare", "limit", "divergent"),
    [
        ("%tid.x", "ge.u32", "16", True),  # half a warp
        ("%tid.x", "ge.u32", "64", False),  # whole warps
        ("%tid.x", "lt.u32", "0", False),  # nobody
        ("%laneid", "ne.u32", "0", True),
        ("%warpid", "ne.u32", "0", False),
        ("%ctaid.x", "ne.u32", "0", False),
        ("%clock", "gt.u32", "100", True),
    ],
)
@pytest.mark.parametrize("inside", ["bar.sync 0;", "barrier.sync.aligned 1, 64;"])
def test_barrier_under_a_branch(what: str, compare: str, limit: str, divergent: bool, inside: str) -> None:
    report = report_of(BRANCH.format(what=what, compare=compare, limit=limit, inside=inside), directives=".reqntid 128")
    # the branch to L leaves the kernel, so its threads are gone: a note. With code after L it is a warning
    assert [s for s, _ in found(report, "divergence")] == (["note"] if divergent else [])
    body = BRANCH.format(what=what, compare=compare, limit=limit, inside=inside).replace("L:\n", "L:\n\tbar.sync 2;\n")
    report = report_of(body, directives=".reqntid 128")
    assert [s for s, _ in found(report, "divergence")] == (["warning"] if divergent else [])


def test_unaligned_barrier_may_be_divergent() -> None:
    report = report_of(
        BRANCH.format(what="%tid.x", compare="ge.u32", limit="16", inside="barrier.sync 1;"),
        directives=".reqntid 128",
    )
    assert found(report, "divergence") == []


def test_barrier_after_the_join_is_fine() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	setp.ge.u32 %p1, %r1, 16;
	@%p1 bra L;
	st.global.u32 [%rd1], %r1;
L:
	bar.sync 0;
	ret;""",
        directives=".reqntid 128",
    )
    assert found(report, "divergence") == []


def test_guarded_barrier() -> None:
    report = report_of(
        "\tmov.u32 %r1, %tid.x;\n\tsetp.ge.u32 %p1, %r1, 16;\n\t@%p1 bar.sync 0;\n\tret;",
        directives=".reqntid 128",
    )
    ((severity, _),) = found(report, "divergence")
    assert severity == "warning"


def test_barrier_in_a_loop_of_uniform_length_is_fine_and_of_varying_length_is_not() -> None:
    loop = """
	mov.u32 %r1, {start};
L:
	bar.sync 0;
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p1, %r1, 8;
	@%p1 bra L;
	ret;"""
    assert found(report_of(loop.format(start="0"), directives=".reqntid 128"), "divergence") == []
    ((severity, _),) = found(report_of(loop.format(start="%tid.x"), directives=".reqntid 128"), "divergence")
    assert severity in ("warning", "note")


def test_uninitialised_reads() -> None:
    report = report_of("\tadd.u32 %r1, %r2, 1;\n\tst.global.u32 [%rd1], %r1;\n\tret;")
    assert [f.message.split()[0] for f in report.findings if f.analysis == "uninitialised"] == ["%r2", "%rd1"]
    assert {s for s, _ in found(report, "uninitialised")} == {"warning"}


def test_initialised_on_one_path_only() -> None:
    report = report_of(
        """
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 3;
	@%p1 bra L;
	mov.u32 %r2, 2;
L:
	st.global.u32 [%rd1], %r2;
	ret;"""
    )
    ((severity, _),) = found(report, "uninitialised")
    assert severity == "note"


@pytest.mark.parametrize(("use", "count"), [("@%p1 st", 0), ("@!%p1 st", 1), ("st", 1)])
def test_initialised_under_a_guard(use: str, count: int) -> None:
    report = report_of(
        f"""
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 3;
	@%p1 mov.u32 %r2, 2;
	{use}.global.u32 [%rd1], %r2;
	ret;"""
    )
    assert len(found(report, "uninitialised")) == count


def test_complementary_guards_initialise() -> None:
    report = report_of(
        """
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 3;
	@%p1 mov.u32 %r2, 2;
	@!%p1 mov.u32 %r2, 3;
	st.global.u32 [%rd1], %r2;
	ret;"""
    )
    assert found(report, "uninitialised") == []


def test_unreachable_code() -> None:
    report = report_of("\tbra.uni L;\n\tmov.u32 %r1, 0;\n\tmov.u32 %r2, 0;\nL:\n\tret;")
    ((severity, where),) = found(report, "unreachable")
    assert severity == "note"
    assert where is not None
    assert found(report_of("\tret;\n\tret;"), "unreachable") == []


@pytest.mark.parametrize(
    "reduce", ["bar.red.or.pred %p2, 0, %p1;", "barrier.cta.red.aligned.and.pred %p2, 0, %p1;", ""]
)
def test_the_result_of_a_reducing_barrier_is_the_same_for_all(reduce: str) -> None:
    body = (
        "\tmov.u32 %r1, %tid.x;\n\tsetp.ge.u32 %p1, %r1, 16;\n"
        + (f"\t{reduce}\n" if reduce else "\tmov.pred %p2, %p1;\n")
        + "\t@%p2 bra L;\n\tbar.sync 0;\nL:\n\tbar.sync 2;\n\tret;"
    )
    report = report_of(body, directives=".reqntid 128")
    assert [s for s, _ in found(report, "divergence")] == ([] if reduce else ["warning"])


@pytest.mark.parametrize(
    ("scale", "severities"),
    [("%p1", []), ("0", []), ("1", ["warning"]), ("%p2", ["warning"]), ("%p3", [])],
)
def test_wgmma_reads_its_accumulators_where_scale_d_is_true(scale: str, severities: list[str]) -> None:
    """The manual: D = A * B + D, and "when scale-d is false, then D = A * B is performed"."""
    fragment = "{%f1, %f2, %f3, %f4}"
    report = report_of(
        f"""
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 3;
	mov.u32 %r2, 1;
	setp.ne.b32 %p2, %r2, 0;
	setp.eq.b32 %p3, %r2, 0;
	mov.u64 %rd1, 0;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {fragment}, %rd1, %rd1, {scale}, 1, 1, 0, 0;
	ret;""",
        target="sm_90a",
    )
    told = [f for f in report.findings if f.analysis == "uninitialised"]
    assert [f.severity for f in told] == severities
    assert all("%f1, %f2, %f3 and %f4" in f.message for f in told)


def test_unrolled_code_is_told_once_with_a_count() -> None:
    """32 lanes that are 128 bytes apart meet in one bank, in each of eight loads."""
    loads = "\n".join(f"\tld.shared.u32 %r{3 + i}, [%r2+{4 * i}];" for i in range(8))
    head = ".shared .align 16 .b8 s[8192];\n\tmov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 7; mov.u32 %r2, s; add.u32 %r2, %r2, %r1;"
    report = report_of(f"{head}\n{loads}\n\tret;", directives=".reqntid 32")
    assert len(found(report, "banks")) == 8
    (told,) = [d for d in report.told() if "bank conflict" in d.message]
    assert "; 7 more like this at lines" in told.message
    assert told.hint
