"""Traces, callbacks, the terminal stepper, timelines, profiles, and random schedules."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

import pyptx
from examples.blackwell import gemm_1sm
from examples.hopper import gemm
from pyptx.simulator import LoadedKernel, Step, Stored, Timeline, load
from pyptx.simulator.observers.trace import as_float
from pyptx.tools.cli import main
from pyptx.tools.commands.debug import argument

SQUARES = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 s[4096];
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra $end;
    mul.lo.u32 %r3, %r2, %r2;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
$end:
    bar.sync 0;
    cvt.rn.f32.u32 %f1, %r2;
    @!%p1 fma.rn.f32 %f2, %f1, %f1, %f1;
    ret;
}
"""


def squares() -> LoadedKernel:
    return load(SQUARES)["k"]


def test_trace_of_one_thread() -> None:
    lines: list[str] = []
    out = np.zeros(64, np.uint32)
    squares().simulate(out, 40, grid=1, block=64, trace=lines.append, threads=[(0, 5)])
    assert len(lines) == 13
    assert all("(0, 0, 0):5 " in line for line in lines)
    store = next(line for line in lines if "st.global" in line)
    assert "%r3=25" in store
    assert "<ptx>:19" in store
    assert "[%r2=5] -> %r3=25" in next(line for line in lines if "mul.lo" in line)
    assert any("bar.sync 0" in line for line in lines)


def test_threads_that_branch_away_are_traced_where_they_are() -> None:
    steps: list[Step] = []
    squares().simulate(
        np.zeros(64, np.uint32), 40, grid=2, block=64, on_instruction=steps.append, threads=[((1, 0, 0), 50), (0, 1)]
    )
    far = [s for s in steps if s.cta == (1, 0, 0)]
    assert {s.thread for s in far} == {50}
    assert [s.text.split()[0] for s in far] == [
        "ld.param.u64", "ld.param.u32", "mov.u32", "setp.ge.u32", "@%p1", "bar.sync", "cvt.rn.f32.u32", "@!%p1", "ret;",
    ]  # fmt: skip
    assert far[-2].executes is False
    assert far[4].executes is True
    near = [s for s in steps if s.cta == (0, 0, 0)]
    assert near[4].executes is False
    assert as_float(next(s.read["%f1"] for s in near if "fma" in s.text)) == 1.0
    assert "st.global.u32 [%rd3], %r3;" in [s.text for s in near]


def test_watchpoints() -> None:
    stores: list[Stored] = []
    out = np.zeros(64, np.uint32)
    squares().simulate(out, 40, grid=1, block=64, on_store=stores.append)
    assert [(s.thread, s.values) for s in stores] == [(i, (i * i,)) for i in range(40)]
    assert stores[1].address - stores[0].address == 4
    assert {s.space for s in stores} == {"global"}
    assert stores[0].inst.line == 19

    class Found(Exception):
        pass

    def stop(stored: Stored) -> None:
        if stored.thread == 7:
            raise Found

    with pytest.raises(Found):
        squares().simulate(out, 40, grid=1, block=64, on_store=stop)


def test_profile() -> None:
    body = SQUARES.replace(
        "    bar.sync 0;\n",
        """    bar.sync 0;
    shl.b32 %r4, %r2, 2; mov.u32 %r5, s; add.u32 %r6, %r5, %r4; st.shared.u32 [%r6], %r2;
    shl.b32 %r4, %r2, 3; add.u32 %r6, %r5, %r4;
    st.shared.u32 [%r6], %r2;
    shl.b32 %r4, %r2, 5; add.u32 %r6, %r5, %r4;
    st.shared.u32 [%r6], %r2;
    st.shared.u32 [s], 7;
    mul.wide.u32 %rd2, %r2, 64; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r7, [%rd3];
    ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd1];
""",
    )
    report = load(body)["k"].simulate(np.zeros(1024, np.uint32), 40, grid=1, block=64, profile=True, check=False)
    profile = report.profile
    assert profile is not None
    lines = {line.line: line for line in profile.lines.values()}
    by_text: dict[str, list[float]] = {}
    for line in profile.lines.values():
        if line.text.startswith("st.shared"):
            by_text.setdefault("ways", []).append(line.ways)
    assert by_text["ways"] == [1.0, 2.0, 8.0, 1.0]  # strides of 4, 8 and 32 bytes, one word for all
    store = lines[19]
    assert (store.warps, store.threads, store.requests, store.sectors) == (2, 40, 2, 4 + 1)
    assert store.active == 40 / 64
    loads = [line for line in profile.lines.values() if line.text.startswith("ld.global")]
    assert [line.sectors_per_request for line in loads] == [32.0, 1.0]
    assert profile.bytes["global"] == 40 * 4 + 64 * 4 + 64 * 16
    assert profile.bytes["shared"] == 4 * 64 * 4
    assert profile.flops == 40 * 2
    assert profile.roofline("H100") == profile.bytes["global"] / 3.35e12
    with pytest.raises(ValueError, match="H100"):
        profile.roofline("H1")
    assert "model, not a measurement" in str(report)


def test_profile_of_matrix_instructions() -> None:
    mma = SQUARES.replace(
        "    bar.sync 0;\n",
        "    mov.b32 %r4, 0; mov.f32 %f0, 0f00000000;\n    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%f0,%f1,%f2,%f3}, {%r4,%r4,%r4,%r4}, {%r4,%r4}, {%f0,%f0,%f0,%f0};\n",
    )
    report = load(mma)["k"].simulate(np.zeros(64, np.uint32), 0, grid=3, block=64, profile=True)
    assert report.profile is not None
    assert report.profile.flops == 3 * 2 * (2 * 16 * 8 * 8)


COPY = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 s[1024];
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2;
    cp.async.ca.shared.global [%r4], [%rd4], 4;
    cp.async.commit_group;
    WAIT
    bar.sync 0;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd5], %r5;
    cp.async.wait_all;
    ret;
}
"""


def test_late_copies_and_seeds() -> None:
    """With a seed, a copy that nobody waits for may be late; the same seed gives the same run, and a kernel that waits is
    right with every seed.
    """
    source = np.arange(1, 257, dtype=np.uint32)

    def result(wait: str, seed: int) -> np.ndarray:
        out = np.zeros(256, np.uint32)
        load(COPY.replace("WAIT", wait))["k"].simulate(source, out, grid=1, block=256, seed=seed, check=False)
        return out

    missing = [result("", seed) for seed in range(1, 9)]
    assert any(not np.array_equal(out, source) for out in missing)
    assert np.array_equal(result("", 0), source)
    for seed in range(1, 9):
        assert np.array_equal(result("", seed), missing[seed - 1])
        assert np.array_equal(result("cp.async.wait_group 0;", seed), source)


def test_warps_run_in_an_order_that_the_seed_decides() -> None:
    order = SQUARES.replace("mul.lo.u32 %r3, %r2, %r2;", "atom.global.add.u32 %r3, [%rd1+1024], 1;")

    def tickets(seed: int) -> list[int]:
        out = np.zeros(257, np.uint32)
        load(order)["k"].simulate(out, 256, grid=1, block=256, seed=seed)
        return out[:256].tolist()

    assert sorted(tickets(3)) == list(range(256))
    assert tickets(0) == list(range(256))
    assert tickets(3) == tickets(3)
    assert len({tuple(tickets(seed)) for seed in range(6)}) > 2


def test_timeline(tmp_path: Path) -> None:
    timeline = Timeline()
    source, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    kernel = load(COPY.replace("WAIT", "cp.async.wait_all;"))["k"]
    kernel.simulate(source, out, grid=2, block=128, seed=5, observers=[timeline])
    timeline.save(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    assert {e["pid"] for e in slices} == {0, 1}
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names >= {"warp 0", "warp 1", "warp 2", "warp 3", "copies 1"}
    assert all(n.startswith(("warp ", "copies ")) for n in names)
    assert {"copy", "wait", "memory", "compute"} <= {e["cat"] for e in slices}
    assert all(e["dur"] > 0 for e in slices)
    copies = [e for e in slices if e["cat"] == "copy"]
    assert any(e["dur"] > 1 for e in copies)  # late, so that it overlaps
    for a in slices:  # what overlaps has rows of its own
        for b in slices:
            if a is not b and (a["pid"], a["tid"]) == (b["pid"], b["tid"]):
                assert a["ts"] >= b["ts"] + b["dur"] or b["ts"] >= a["ts"] + a["dur"]
    timeline.save(tmp_path / "t.svg")
    root = ElementTree.parse(tmp_path / "t.svg").getroot()
    assert root.tag.endswith("svg")
    assert len(root.findall("{*}rect/{*}title")) == len(slices)
    labels = [t.text for t in root.findall("{*}text")]
    assert labels.count("warp 3") == 2
    assert "CTA 1" in labels


def test_values_of_floating_point_registers_are_read_as_such() -> None:
    lines: list[str] = []
    stores: list[str] = []
    out = np.zeros(64, np.uint32)
    squares().simulate(
        out, 2, grid=1, block=64, trace=lines.append, threads=[(0, 5)], on_store=lambda s: stores.append(str(s))
    )
    assert "[%p1=1, %f1=5]  (guard is false)" in next(line for line in lines if "fma" in line)
    assert "-> %f1=5" in next(line for line in lines if "cvt" in line)
    assert len(stores) == 2
    assert stores[1].startswith("(0, 0, 0):1 ")
    assert stores[1].endswith("<- 1")


def test_profile_of_tensor_copies_and_the_roofline() -> None:
    """Bytes of global memory are those of the tensors, without what lies outside; the products are counted."""
    for example, size in ((gemm, (130, 72, 200)), (gemm_1sm, (130, 72, 200))):
        kernel = example.build(*size)
        M, N, K = size
        arrays = [np.zeros(t.dims, ml_dtypes.bfloat16) for t in (*kernel.in_specs, *kernel.out_specs)]
        profile = pyptx.simulate(kernel, *arrays, profile=True).profile
        assert profile is not None
        assert profile.flops >= 2 * M * N * K
        whole = 2 * (M * K + N * K + M * N)
        assert whole <= profile.bytes["global"] <= 3 * whole
        assert "roofline (bf16 peak): at least H100" in str(profile)
        assert profile.roofline("H100") == max(profile.bytes["global"] / 3.35e12, profile.flops / 989e12)


def debug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: str, *options: str) -> int:
    file = tmp_path / "k.ptx"
    file.write_text(SQUARES)
    monkeypatch.setattr("sys.stdin", io.StringIO(commands))
    return main(["debug", str(file), "--block", "64", "--arg", "zeros:u32:64", "--arg", "u32:40", *options])


def test_debugger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    commands = "s\ns 2\nb 19\nc\np %rd3\np %none\nl\nt 0 9\np %r3\nw\nc\n"
    assert debug(tmp_path, monkeypatch, commands, "--timeline", str(tmp_path / "t.svg")) == 0
    text = capsys.readouterr().out
    assert "k.ptx:11: ld.param.u64 %rd1, [out];" in text
    assert "k.ptx:14: setp.ge.u32" in text
    assert "breakpoints: 19" in text
    assert "->    19      st.global.u32 [%rd3], %r3;" in text
    assert "unknown register %none" in text
    assert "%r3 = 81  0x51" in text
    assert "thread 9, " in text
    assert "the kernel ended" in text
    assert "0 findings" in text
    assert (tmp_path / "t.svg").read_text().startswith("<svg")


def test_debugger_stops_at_a_breakpoint_and_quits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert debug(tmp_path, monkeypatch, "q\n", "--break", "16") == 0
    text = capsys.readouterr().out
    assert "k.ptx:16: mul.lo.u32" in text
    assert "ended" not in text


def test_debugger_suggests_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`help` lists them; slips and the words of gdb get the nearest one, which exists."""
    assert debug(tmp_path, monkeypatch, "help\nbt\ninfo\nbraek 3\nn\nfrobnicate\nq\n", "--break", "16") == 0
    text = capsys.readouterr().out.replace("(pyptx) ", "")
    listed = {line.split(" ", 1)[0].rstrip(",") for line in text.splitlines() if "  " in line}
    for word, meant in {"bt": "where", "info": "print", "braek": "break", "n": "step"}.items():
        assert f"unknown command {word}; did you mean `{meant}`? h for help" in text
        assert meant in listed
    assert "unknown command frobnicate; h for help" in text


def test_debugger_shows_what_is_and_says_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Special registers, registers never written, shared memory, breakpoints between instructions, unknown commands."""
    global_store = "    st.global.u32 [%rd3], %r3;\n"
    monkeypatch.setattr(
        "tests.simulator.test_watching.SQUARES",
        SQUARES.replace(global_store, global_store + "    mov.u32 %r4, s;\n    add.u32 %r4, %r4, 16;\n")
        .replace("    bar.sync 0;", "    @!%p1 st.shared.v2.u32 [%r4], {%r2, 0x12345678};\n    bar.sync 0;")
        .replace("s[4096]", "s[64]"),
    )
    commands = "wat\np %tid.x\np %tid\np %clock\np %f2\np %p1\nb 18\nb 99\nt 0 5\np %tid.x\nmem\nb 20\nb 25\nc\nc\nc\n"
    commands += "mem s+16 16\nx none\nx s+64\np %p1\np %f1\ndelete 15 18 20 25\nc\n"
    debug(tmp_path, monkeypatch, commands, "--no-check")
    text = capsys.readouterr().out
    assert text.count("unknown command wat; h for help") == 1
    assert "step [n]" not in text
    assert "%tid.x = 0 " in text
    assert "%tid.x = 5 " in text
    assert "%tid is a vector of 4" in text
    assert "%clock changes" in text
    assert "%f2: not written" in text
    assert "%p1: not written" in text
    assert "line 99: no instruction there or after it" in text
    assert "s  0x400  64 bytes" in text
    assert "mem takes a shared variable (s)" in text
    assert "0x440 is after the end" in text
    last = text[text.index("mem takes") :]
    assert "%p1 = 0 " in last
    assert "%f1: not written" in last
    words = next(line for line in text.splitlines() if line.startswith(("(pyptx) 0x00410", "0x00410"))).split()
    stored = np.frombuffer(bytes.fromhex("".join(words[-4:])), np.uint32)
    assert stored[1] == 0x12345678
    assert stored[0] < 40


def test_debugger_moves_breakpoints_to_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert debug(tmp_path, monkeypatch, "q\n", "--break", "20") == 0
    text = capsys.readouterr().out
    assert "line 20 has no instruction: the breakpoint is at the next one, line 21" in text
    assert "k.ptx:21: bar.sync 0;" in text
    assert debug(tmp_path, monkeypatch, "q\n", "--break", "99") == 2


def test_debugger_takes_the_block_from_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(SQUARES.replace(".param .u32 n)", ".param .u32 n) .reqntid 96, 1, 1"))
    monkeypatch.setattr("sys.stdin", io.StringIO("p %ntid.x\nc\n"))
    assert main(["debug", str(file), "--arg", "zeros:u32:96", "--arg", "u32:96"]) == 0
    assert "%ntid.x = 96 " in capsys.readouterr().out


def test_random_arguments_differ() -> None:
    first, second = (argument("random:f32:100", i) for i in range(2))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, argument("random:f32:100", 0))


@pytest.mark.parametrize("bad", ["u33:1", "zeros:u32", "some:u32:4", "u32:x"])
def test_debugger_explains_arguments(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert debug(tmp_path, monkeypatch, "", "--arg", bad) == 2
    assert "pyptx debug: " in capsys.readouterr().err
