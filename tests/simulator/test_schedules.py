"""A launch under several schedules (`simulate(..., schedules=)`): what one order of threads does not show is found.

Authority: PTX ISA 3.1 (threads of a warp make progress independently), 9.7.15.1 and 9.7.15.16 (a barrier counts arrivals, not
threads). A kernel is wrong where some legal order gives another result, and the right version of each is silent.
"""

from __future__ import annotations

import pickle
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import pyptx
from benchmarks import legal_orders, schedules
from pyptx.diagnostics import SimulationError
from pyptx.simulator import Report
from pyptx.simulator.sanitizer import Finding
from pyptx.tools.cli import main

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b)
{
    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>;
    .shared .align 16 .b8 s[4096]; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shr.u32 %r3, %r1, 5; shl.b32 %r4, %r1, 2; mov.u32 %r5, s; add.u32 %r5, %r5, %r4;
    mad.lo.u32 %r6, %r2, 256, %r1; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; setp.eq.u32 %p1, %r1, 0;
"""


def run(body: str, *, grid: int = 1, block: int = 128, **options: Any) -> tuple[Report, np.ndarray]:
    """The report, and the first argument after the launch."""
    a, b = np.zeros(2048, np.uint32), np.zeros(64, np.uint32)
    kernel = pyptx.load(f"{HEAD}{body}\n    ret;\n}}\n")["k"]
    return kernel.simulate(a, b, grid=grid, block=block, **options), a


def rules(report: Report) -> set[str]:
    return {f.rule for f in report.findings if isinstance(f, Finding)}


def tree(between: str) -> str:
    """A warp's sum through volatile shared memory."""
    steps = "".join(
        f"    ld.volatile.shared.u32 %r7, [%r5]; ld.volatile.shared.u32 %r8, [%r5+{4 * n}]; add.u32 %r7, %r7, %r8;\n"
        f"    {between}\n    st.volatile.shared.u32 [%r5], %r7;\n    {between}\n"
        for n in (16, 8, 4, 2, 1)
    )
    return f"""    st.volatile.shared.u32 [%r5], %r1; mov.u32 %r9, 0; st.volatile.shared.u32 [%r5+128], %r9; bar.sync 0;
{steps}    ld.volatile.shared.u32 %r7, [%r5];
    @%p1 st.global.u32 [%rd4], %r7;"""


def test_warp_synchronous_code_is_found() -> None:
    report, a = run(tree(""), block=32)
    assert rules(report) == {"schedule-dependent"}
    assert a[0] == sum(range(32))  # the result is that of the first run
    (finding,) = report.findings
    assert isinstance(finding, Finding)
    assert f'schedule="{finding.schedule}"' in finding.render()
    replayed, b = run(tree(""), block=32, schedule=finding.schedule)
    assert replayed.schedule == finding.schedule
    assert b[0] != a[0]


def test_with_its_barriers_it_is_silent() -> None:
    report, a = run(tree("bar.warp.sync 0xffffffff;"), block=32, schedules=12)
    assert not report.findings
    assert a[0] == sum(range(32))


@pytest.mark.parametrize("missing", [1, 2, 3, 4, 5, 6, 7, 8])
def test_one_missing_warp_barrier_is_found(missing: int) -> None:
    """The first one orders nothing (the upper lanes add zeros), nor does the last (lane 0 reads its own sum)."""
    parts = tree("bar.warp.sync 0xffffffff;").split("bar.warp.sync 0xffffffff;")
    body = "".join(
        part + "bar.warp.sync 0xffffffff;" * (n not in (missing, len(parts) - 1)) for n, part in enumerate(parts)
    )
    assert rules(run(body, block=32)[0]) == {"schedule-dependent"}


@pytest.mark.parametrize("idiom", legal_orders.IDIOMS, ids=lambda i: i.__name__)
def test_results_that_may_differ_are_no_mistake(idiom: Any) -> None:
    """Strong accesses and atomics see what others did so far (PTX ISA 8.7.1: they are no data race)."""
    setting, text = legal_orders.draw(idiom, Random(5))
    report, *_ = legal_orders.simulate(setting, text)
    assert not report.findings, text


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        # lane 0 hands its value to the others, which use it
        ("@%p1 st.volatile.shared.u32 [s], 9; ld.volatile.shared.u32 %r7, [s];", "error"),
        ("@%p1 st.volatile.global.u32 [%rd2], 5; ld.volatile.global.u32 %r7, [%rd2];", "error"),
        ("@%p1 st.volatile.shared.u32 [s], 5; bar.warp.sync -1; ld.volatile.shared.u32 %r7, [s];", None),
        # an exchange; who says .relaxed may know what that means
        ("st.relaxed.cta.shared.u32 [%r5], 5; ld.relaxed.cta.shared.u32 %r7, [%r5+4];", "warning"),
        ("st.relaxed.cta.shared.u32 [%r5], 5; bar.warp.sync -1; ld.relaxed.cta.shared.u32 %r7, [%r5+4];", None),
        # a flag: who tests it expects either
        ("@%p1 st.volatile.shared.u32 [s], 5; ld.volatile.shared.u32 %r8, [s]; setp.ne.u32 %p3, %r8, 0; @%p3 mov.u32 %r7, 1;", None),
        # lanes that go different ways
        ("@%p1 bra $store; ld.volatile.shared.u32 %r7, [s]; bra $go;\n$store: st.volatile.shared.u32 [s], 5;\n$go:", None),
        # an atomic
        ("red.shared.add.u32 [s], 1; ld.volatile.shared.u32 %r7, [s];", None),
    ],
)  # fmt: skip
def test_what_relies_on_lanes_in_step(body: str, severity: str | None) -> None:
    begin = "    mov.u32 %r7, 0; st.shared.u32 [%r5], %r7; @%p1 st.shared.u32 [s+128], %r7; bar.warp.sync -1;"
    report, _ = run(f"{begin}\n    {body} st.global.u32 [%rd4], %r7;", block=32)
    assert [(f.severity, f.rule) for f in report.findings if isinstance(f, Finding)] == (
        [(severity, "schedule-dependent")] if severity else []
    )
    for finding in report.findings:
        assert isinstance(finding, Finding) and finding.other is not None
        assert "bar.warp.sync" in (finding.hint or "")
        assert finding.instruction.startswith("ld.") and ".st." not in finding.instruction


def test_relaxed_stores_to_the_shared_memory_of_several_ctas() -> None:
    """Each CTA has its own word, of which any thread's value may stay (8.9.3)."""
    assert not run("    st.relaxed.cta.shared.u32 [s], %r1;", grid=3)[0].findings


def ring(arrivals: int, wait: str = "") -> str:
    """Warp 4 hands 4 values to warps 0 to 3 through one place: `arrivals` free it."""
    return f"""    @%p1 mbarrier.init.shared.b64 [full], 32; @%p1 mbarrier.init.shared.b64 [empty], {arrivals}; bar.sync 0;
    mov.u32 %r10, 0; setp.ge.u32 %p2, %r1, 128; and.b32 %r11, %r1, 31; shl.b32 %r11, %r11, 2; mov.u32 %r12, s; add.u32 %r12, %r12, %r11;
    @!%p2 bra $consume;
$produce:
    and.b32 %r13, %r10, 1; xor.b32 %r13, %r13, 1;
$free:
    mbarrier.try_wait.parity.shared.b64 %p3, [empty], %r13;
    @!%p3 bra $free;
    add.u32 %r14, %r10, %r1; st.shared.u32 [%r12], %r14; mbarrier.arrive.shared.b64 _, [full];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 4;
    @%p4 bra $produce;
    bra $end;
$consume:
    and.b32 %r13, %r10, 1;
$ready:
    mbarrier.try_wait.parity.shared.b64 %p3, [full], %r13;
    @!%p3 bra $ready;
    ld.shared.u32 %r14, [%r12]; add.u32 %r15, %r15, %r14; {wait} mbarrier.arrive.shared.b64 _, [empty];
    add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 4;
    @%p4 bra $consume;
    st.global.u32 [%rd4], %r15;
$end:"""


READY = "    mov.u32 %r15, 0;\n"


@pytest.mark.parametrize("count", [127, 126, 96, 64, 32, 1])
def test_a_count_that_is_too_small_is_found(count: int) -> None:
    try:
        report, _ = run(READY + ring(count), block=160)
    except SimulationError as error:  # some of these deadlock, and the cause is told
        report = error.report
    assert "mbarrier-phase" in rules(report)


def test_the_right_count_is_silent() -> None:
    report, _ = run(READY + ring(128), block=160, schedules=12)
    assert not report.findings


@pytest.mark.parametrize("count", [48, 63, 255])
def test_the_lanes_of_an_arrive_straddle_two_phases(count: int) -> None:
    threads = (count + 63) // 64 * 64
    body = f"""    @%p1 mbarrier.init.shared.b64 [full], {count}; bar.sync 0;
    mbarrier.arrive.shared.b64 _, [full];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p3, [full], 0;
    @!%p3 bra $wait;"""
    assert rules(run(body, block=threads)[0]) == {"mbarrier-phase"}
    assert not run(body.replace(f" {count};", f" {threads};"), block=threads)[0].findings


def groups(second: int) -> str:
    """Two pairs of warps exchange their values, at barriers 1 and `second`."""
    return f"""    st.shared.u32 [%r5], %r1; xor.b32 %r7, %r4, 128; mov.u32 %r8, s; add.u32 %r8, %r8, %r7; setp.lt.u32 %p2, %r1, 64;
    @!%p2 bra $other;
    bar.sync 1, 64;
    bra $go;
$other:
    bar.sync {second}, 64;
$go:
    ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd4], %r9;"""


def test_two_groups_at_one_barrier_are_found() -> None:
    assert rules(run(groups(1))[0]) == {"barrier-round"}
    report, a = run(groups(2), schedules=12)
    assert not report.findings
    assert np.array_equal(a[:128], np.arange(128) ^ 32)


def grid_barrier(count: int) -> str:
    """All CTAs store, meet, and load what the next one stored."""
    return f"""    st.global.u32 [%rd4], %r6; bar.sync 0;
    @!%p1 bra $met;
    fence.acq_rel.gpu; atom.global.gpu.add.u32 %r7, [%rd2], 1;
$poll:
    ld.acquire.gpu.global.u32 %r7, [%rd2]; setp.lt.u32 %p3, %r7, {count};
    @%p3 bra $poll;
$met:
    bar.sync 0;
    add.u32 %r8, %r2, 1; and.b32 %r8, %r8, 3; mad.lo.u32 %r8, %r8, 256, %r1; mul.wide.u32 %rd5, %r8, 4; add.s64 %rd5, %rd1, %rd5;
    ld.global.u32 %r9, [%rd5]; st.global.u32 [%rd4+4096], %r9;"""


def test_a_grid_barrier_that_waits_for_three_of_four_ctas_is_found() -> None:
    assert rules(run(grid_barrier(3), grid=4, block=64)[0]) == {"race"}
    report, a = run(grid_barrier(4), grid=4, block=64, schedules=12)
    assert not report.findings
    assert np.array_equal(a[1024 : 1024 + 64], a[256 : 256 + 64])


def test_what_is_found_is_the_same_each_time() -> None:
    texts = {str([f.render() for f in run(grid_barrier(3), grid=4, block=64, seed=5)[0].findings]) for _ in range(3)}
    assert len(texts) == 1
    assert 'schedule="5:' in texts.pop()


def test_a_finding_can_be_replayed() -> None:
    report, _ = run(grid_barrier(3), grid=4, block=64)
    token = next(f.schedule for f in report.findings if isinstance(f, Finding))
    assert rules(run(grid_barrier(3), grid=4, block=64, schedule=token)[0]) == {"race"}


def test_inputs_are_restored_between_schedules() -> None:
    """Each run adds 1 to each element."""
    body = """    atom.global.add.u32 %r7, [%rd4], 1;"""
    report, a = run(body, schedules=7)
    assert (a[:128] == 1).all()
    assert report.opcodes["atom"] == 128


def test_an_error_keeps_the_findings_before_it() -> None:
    body = """    st.shared.u32 [%r5], %r1; ld.shared.u32 %r7, [%r5+4];
    st.global.u32 [%rd4+1048576], %r7;"""
    with pytest.raises(SimulationError) as caught:
        run(body)
    error = caught.value
    assert rules(error.report) == {"race", "uninitialised-shared"}
    text = str(error)
    assert text.index("data race") < text.index("past the end of")
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_the_debugger_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(f"{HEAD}{tree('')}\n    ret;\n}}\n")
    printed: list[str] = []
    for schedule in ("0", "0:1"):
        monkeypatch.setattr("sys.stdin", StringIO("continue\n"))
        main(["debug", str(file), "--arg", "zeros:u32:4", "--arg", "zeros:u32:4", "--schedule", schedule])
        printed.append(capsys.readouterr().out)
    assert f"[{sum(range(32))} " in printed[0]
    assert f"[{sum(range(32))} " not in printed[1]


def test_threads_may_leave_past_the_last_instruction() -> None:
    """The statement after a guarded return is the end of the kernel."""
    a = np.zeros(2048, np.uint32)
    text = f"{HEAD}    st.global.u32 [%rd4], %r1;\n    @%p1 ret;\n}}\n"
    pyptx.load(text)["k"].simulate(a, np.zeros(64, np.uint32), grid=1, block=64)
    assert np.array_equal(a[:64], np.arange(64))


@pytest.mark.parametrize("name", ["a grid barrier", "a warp's sum by volatile accesses", "st.async to the peer"])
def test_the_default_costs_at_most_three_times_one_schedule(name: str) -> None:
    """Counted in calls of functions, which do not depend on the machine. These three cost the most of `benchmarks.schedules`."""
    case = next(c for c in schedules.cases() if c.name == name)
    kernel = case.loaded(case.body)
    case.run(kernel)
    once = schedules.calls(lambda: case.run(kernel, schedules=1))
    default = schedules.calls(lambda: case.run(kernel))
    assert 1.3 * once < default <= 3 * once


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedules": 0}, "a launch needs a schedule at least"),
        ({"schedules": 2.5}, "schedules must be an integer"),
        ({"schedule": "x"}, "it is a number, such as 3"),
        ({"schedule": -1}, "it is a number, such as 3"),
        ({"schedule": 1, "schedules": 2}, "give one of them"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run("", **options)
