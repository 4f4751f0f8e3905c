"""Launches in pieces: results, reports and findings are those of one process, whoever runs the pieces and whatever fails."""

from __future__ import annotations

import io
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx.diagnostics import SimulationError
from pyptx.simulator import Report
from pyptx.simulator.launch.setup import sampled
from pyptx.simulator.launch.workers import MOST_PIECES
from pyptx.simulator.machine.threads import Launch

CTAS, THREADS = 48, 128
TEMPLATE = """.version 8.7
.target sm_90a
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 4 .u32 total;
.global .align 1 .b8 text[6] = {{37, 117, 32, 10, 0, 0}};
.visible .entry k(.param .u64 out, .param .u32 n)
{{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 buffer[512];
    .local .align 8 .b8 values[8];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
    mad.lo.u32 %r5, %r3, %r4, %r2;
    mul.wide.u32 %rd2, %r5, 4; add.u64 %rd3, %rd1, %rd2;
    mov.u32 %r6, buffer; shl.b32 %r7, %r2, 2; add.u32 %r8, %r6, %r7;
    {body}
    ret;
}}
"""
SQUARES = "mad.lo.u32 %r9, %r5, %r5, %r1; st.global.u32 [%rd3], %r9;"
NEIGHBOUR = """st.shared.u32 [%r8], %r5; xor.b32 %r9, %r8, 4; {barrier}
    ld.shared.u32 %r10, [%r9]; st.global.u32 [%rd3], %r10;"""
BODIES = {
    "squares": SQUARES,
    "through shared memory": NEIGHBOUR.format(barrier="bar.sync 0;"),
    "a race in each CTA": NEIGHBOUR.format(barrier=""),
    "never written": "ld.shared.u32 %r9, [%r8]; st.global.u32 [%rd3], %r9;",
    "a race of CTAs": "st.global.u32 [%rd1], %r3;",
    "another CTA's result": "st.global.u32 [%rd3], %r5; sub.u32 %r9, 6143, %r5; mul.wide.u32 %rd4, %r9, 4; add.u64 %rd5, %rd1, %rd4;"
    " ld.global.u32 %r10, [%rd5]; setp.eq.u32 %p1, %r10, 1; @%p1 st.global.u32 [%rd3], %r10;",
    "a sum": "red.global.add.u32 [%rd1], %r5;",
    "a sum in a variable": "red.global.add.u32 [total], 1;",
    "a count that is used": "atom.global.add.u32 %r9, [total], 1; st.global.u32 [%rd3], %r9;",
    "printed": "setp.ne.u32 %p1, %r2, 5; @%p1 ret; st.local.u32 [values], %r3; mov.u64 %rd4, values; cvta.local.u64 %rd4, %rd4;"
    " mov.u64 %rd5, text; cvta.global.u64 %rd5, %rd5; st.global.u32 [%rd3], %r3; {.param .b64 f; .param .b64 a; .param .b32 r;"
    " st.param.b64 [f], %rd5; st.param.b64 [a], %rd4; call (r), vprintf, (f, a);}",
}


def kernel_of(body: str) -> Any:
    return pyptx.load(TEMPLATE.format(body=body))["k"]


def run(body: str, **options: Any) -> tuple[bytes, bytes, Report]:
    """The results, the variable `total`, and the report of a launch on fresh random memory."""
    kernel = kernel_of(body)
    out = np.random.default_rng(5).integers(0, 1 << 32, CTAS * THREADS, np.uint32)
    report = kernel.simulate(out, 7, grid=CTAS, block=THREADS, **options)
    return out.tobytes(), kernel.variable("total").tobytes(), report


def said(report: Report) -> list[tuple[Any, ...]]:
    return sorted((f.rule, f.instruction, str(f.other), f.severity) for f in report.findings)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("what", BODIES)
def test_any_number_of_workers_gives_the_same(what: str, check: bool) -> None:
    """But for a read of another CTA's result that nothing orders, which only the sanitizer sees (docs/workers.md)."""
    if what == "another CTA's result" and not check:
        return
    options: dict[str, Any] = {"check": check, "profile": True}
    alone = run(BODIES[what], **options)
    if what == "squares":
        numbers = np.arange(CTAS * THREADS, dtype=np.uint32)
        assert alone[0] == (numbers * numbers + 7).astype(np.uint32).tobytes()
    for count in (2, 5):
        with ThreadPoolExecutor(count) as threads:
            shared = run(BODIES[what], workers=threads, **options)
        assert shared[:2] == alone[:2]
        assert str(shared[2].profile) == str(alone[2].profile)
        assert (shared[2].instructions, shared[2].opcodes, shared[2].prints) == (
            alone[2].instructions, alone[2].opcodes, alone[2].prints,
        )  # fmt: skip
        assert said(shared[2]) == said(alone[2])


@pytest.mark.parametrize(
    ("what", "pieces"),
    [
        ("squares", True), ("a race in each CTA", True), ("printed", True), ("a race of CTAs", False), ("another CTA's result", False),
        ("a sum", False), ("a count that is used", False),
    ],
)  # fmt: skip
def test_which_grids_are_cut(what: str, pieces: bool) -> None:
    """A checked launch is cut unless a piece touched what another one wrote, or the kernel looks for what others did."""
    with ThreadPoolExecutor(2) as threads:
        report = run(BODIES[what], workers=threads)[2]
    assert (report.pieces > 1) == pieces
    assert bool(report.together) == (what in ("a sum", "a count that is used"))


def test_processes_and_joblib() -> None:
    joblib = pytest.importorskip("joblib")
    alone = run(SQUARES)
    processes = run(SQUARES, workers=2)
    assert processes[0] == alone[0]
    assert processes[2].pieces == 2
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert run(SQUARES, workers="joblib")[0] == alone[0]


def test_a_fault_is_told_as_by_one_process() -> None:
    body = "mul.wide.u32 %rd4, %r5, 4096; add.u64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r5;"
    with pytest.raises(SimulationError) as alone:
        run(body)
    with ThreadPoolExecutor(2) as threads, pytest.raises(SimulationError) as shared:
        run(body, workers=threads)
    assert str(shared.value) == str(alone.value)
    assert shared.value.report is not None


class Failing(Executor):
    """Fails in one of the two ways in which executors do."""

    def __init__(self, at_once: bool):
        self.at_once = at_once
        self.calls = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        if self.calls == 2 and self.at_once:
            raise RuntimeError("cannot schedule new futures")
        if self.calls == 2:
            future.set_exception(OSError("the worker died"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("at_once", [False, True])
def test_a_worker_that_dies_costs_its_piece(at_once: bool) -> None:
    alone = run(SQUARES)
    executor = Failing(at_once)
    with pytest.warns(RuntimeWarning, match=r"workers=: .*CTAs run here; the results are the same"):
        shared = run(SQUARES, workers=executor)
    assert shared[0] == alone[0]
    assert shared[2].pieces == executor.calls == min(MOST_PIECES, CTAS * THREADS // 1024)


def test_clusters_stay_whole() -> None:
    text = TEMPLATE.format(body=SQUARES).replace("u32 n)", "u32 n) .reqnctapercluster 4")
    kernel = pyptx.load(text)["k"]
    out = np.zeros(CTAS * THREADS, np.uint32)
    with ThreadPoolExecutor(5) as threads:
        report = kernel.simulate(out, 0, grid=CTAS, block=THREADS, workers=threads)
    numbers = np.arange(CTAS * THREADS, dtype=np.uint32)
    assert np.array_equal(out, numbers * numbers)
    assert report.pieces == 6  # 12 clusters of 512 threads, two in each piece of 1024


@pytest.mark.parametrize("share", [0.001, 0.1, 0.3, 0.5, 1])
@pytest.mark.parametrize(("ctas", "cluster"), [(1, 1), (7, 1), (64, 4), (1000, 2)])
def test_samples(share: float, ctas: int, cluster: int) -> None:
    """Ranges of whole clusters that do not overlap, and as many CTAs as the share asks for."""
    ranges = sampled(Launch((ctas, 1, 1), (32, 1, 1), (cluster, 1, 1), 0), share)
    chosen = [cta for first, count in ranges for cta in range(first, first + count)]
    assert chosen == sorted(set(chosen))
    assert chosen[-1] < ctas
    assert all(first % cluster == count % cluster == 0 for first, count in ranges)
    assert len(chosen) == cluster * max(1, round(share * (ctas // cluster)))


def test_a_sample_runs_its_ctas_only() -> None:
    kernel = kernel_of(SQUARES)
    out = np.full(CTAS * THREADS, 3, np.uint32)
    report = kernel.simulate(out, 0, grid=CTAS, block=THREADS, sample=0.25, profile=True)
    assert report.sampled == 12
    assert "of a sample of 12 of 48 CTAs" in str(report)
    written = (out.reshape(CTAS, THREADS) != 3).any(axis=1)
    assert written.sum() == 12
    assert report.profile is not None
    assert report.profile.bytes["global"] == 12 * THREADS * 4
    with pytest.raises(SimulationError, match=r"sample=0\.5 runs a part of the CTAs"):
        kernel_of(BODIES["a count that is used"]).simulate(out, 0, grid=CTAS, block=THREADS, sample=0.5)


def test_an_interrupt_has_the_report() -> None:
    kernel = kernel_of(SQUARES)

    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        kernel.simulate(np.zeros(CTAS * THREADS, np.uint32), 0, grid=CTAS, block=THREADS, trace=stop)
    assert stopped.value.report.entry == "k"  # pyright: ignore[reportAttributeAccessIssue]


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr("pyptx.progress.DELAY", 0.0)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for terminal, shows in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", terminal)
        run(SQUARES, check=False)
        assert ("simulate k" in terminal.getvalue()) == shows
