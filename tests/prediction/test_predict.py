"""Predictions of kernels whose time follows from published numbers: a chain of dependent FFMA, a copy at DRAM bandwidth, the peak of a pipe."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx.diagnostics import PTXError, SimulationError
from pyptx.numerics.llvm import available
from pyptx.prediction import Prediction, card_of, emulation, model
from pyptx.prediction.model import predict_function
from pyptx.prediction.predict import launch_of
from pyptx.runtime.compile import NoCompiler
from pyptx.runtime.ptxas import ToolNotFound, find_tool
from pyptx.sass import assemble
from pyptx.simulator import load
from pyptx.simulator.launch.prepared import prepare


def has_tools() -> bool:
    try:
        return all(map(find_tool, ("ptxas", "nvdisasm"))) and available()
    except ToolNotFound:
        return False


pytestmark = pytest.mark.skipif(not has_tools(), reason="needs ptxas, nvdisasm and llvmlite")

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
LAUNCH_US = 1.2
"""Of the prediction; kernels that follow each other (NVIDIA's tuning notes and `measured.json` say 1 to 1.5 us)."""


def kernel(body: str, registers: str, parameters: str = ".param .u64 x") -> str:
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"


def chains(count: int, times: int) -> str:
    """Chains of fused multiplications and additions in each thread, `times` times 16 long."""
    start = [f"ld.global.f32 %f{i}, [%rd1+{4 * i}];" for i in range(count)]
    work = [f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{i};" for _ in range(16) for i in range(count)]
    end = [f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in range(count)]
    loop = [
        f"mov.u32 %r1, {times};",
        "again:",
        *work,
        "sub.u32 %r1, %r1, 1;",
        "setp.ne.u32 %p1, %r1, 0;",
        "@%p1 bra again;",
    ]
    body = ["ld.param.u64 %rd1, [x];", *start, '.pragma "nounroll";', *loop, *end]
    return kernel("\n".join(body), f".reg .f32 %f<{count}>;\n.reg .b64 %rd<2>;\n.reg .b32 %r<2>;\n.reg .pred %p<2>;")


def test_a_chain_of_ffma_takes_four_cycles_each() -> None:
    """Abdelkhalik et al.: a dependent fp32 operation follows after 4 cycles."""
    x = np.zeros(16, np.float32)
    short, long = (pyptx.predict(chains(1, n), x, card="A100", grid=1, block=32).cycles for n in (20, 70))
    assert short is not None and long is not None
    assert (long - short) / (50 * 16) == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(("card", "per_clock"), [("A100", 64), ("RTX 4090", 128)])
def test_independent_ffma_reach_the_rate_of_the_pipe(card: str, per_clock: int) -> None:
    """CUDA C++ Programming Guide, arithmetic throughput: results of a clock and SM."""
    x = np.zeros(16, np.float32)
    short, long = (pyptx.predict(chains(4, n), x, card=card, grid=1, block=512).cycles for n in (20, 40))
    assert short is not None and long is not None
    assert 512 * 4 * 320 / (long - short) == pytest.approx(per_clock, rel=0.06)


COPY = kernel(
    """ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 256, %r1;
    mul.wide.u32 %rd3, %r3, 16;
    add.s64 %rd1, %rd1, %rd3;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
    st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};""",
    ".reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<5>;",
    ".param .u64 x, .param .u64 y",
)


@pytest.mark.parametrize(("card", "gb_s"), [("H100 SXM", 3350), ("RTX A6000", 768)])
def test_a_large_copy_runs_at_dram_bandwidth(card: str, gb_s: float) -> None:
    """Data sheets; 85 to 95 % of them is what published copies reach."""
    ctas = 40_000
    x, y = (np.empty(ctas * 256 * 4, np.float32) for _ in range(2))
    prediction = pyptx.predict(COPY, x, y, card=card, grid=ctas, block=256)
    assert prediction.time_us is not None
    reached = 2 * x.nbytes / ((prediction.time_us - LAUNCH_US) * 1e3)
    assert 0.8 * gb_s <= reached <= 0.96 * gb_s
    assert prediction.binds.startswith("DRAM")
    low, high = prediction.range_us
    assert high is not None and low < prediction.time_us < high


def shared_loads(stride: int) -> str:
    """100 times 8 loads of words in shared memory, `stride` bytes apart from lane to lane."""
    work = "\n".join(f"ld.volatile.shared.u32 %r{4 + i}, [%r3];\nadd.u32 %r12, %r12, %r{4 + i};" for i in range(8))
    return kernel(
        f"""ld.param.u64 %rd1, [x];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, buffer;
        mad.lo.u32 %r3, %r1, {stride}, %r2;
        mov.u32 %r12, 0;
        mov.u32 %r13, 100;
    again:
        {work}
        sub.u32 %r13, %r13, 1;
        setp.ne.u32 %p1, %r13, 0;
        @%p1 bra again;
        st.global.u32 [%rd1], %r12;""",
        ".reg .b32 %r<14>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;\n.shared .align 16 .b8 buffer[16384];",
    )


@pytest.mark.parametrize(("stride", "ways"), [(8, 2), (128, 32)])
def test_bank_conflicts_cost_their_passes(stride: int, ways: int) -> None:
    """32 banks of 4 bytes: lanes `stride` bytes apart need stride / 4 passes (CUDA C++ Programming Guide, "Shared Memory")."""
    x = np.zeros(16, np.uint32)
    cycles = pyptx.predict(shared_loads(stride), x, card="H100 SXM", grid=1, block=128).cycles
    assert cycles == pytest.approx(4 * 800 * ways, rel=0.15)


def test_a_branch_on_loaded_data_is_followed() -> None:
    """Each thread makes as many iterations as its word says; the warp runs as long as its slowest lane."""
    text = kernel(
        """ld.param.u64 %rd1, [x];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        ld.global.u32 %r2, [%rd1];
        mov.f32 %f1, 0f3F800000;
    again:
        sqrt.approx.f32 %f1, %f1;
        sub.u32 %r2, %r2, 1;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra again;
        st.global.f32 [%rd1], %f1;""",
        ".reg .b32 %r<3>;\n.reg .b64 %rd<3>;\n.reg .f32 %f<2>;\n.reg .pred %p<2>;",
    )

    def cycles(longest: int) -> int:
        x = np.full(32, 10, np.uint32)
        x[7] = longest
        found = pyptx.predict(text, x, card="H100 SXM", grid=1, block=32)
        assert not [n for n in found.notes if "not known" in n] and x[7] == longest
        assert found.cycles is not None
        return found.cycles

    assert (cycles(900) - cycles(300)) / (cycles(600) - cycles(300)) == pytest.approx(2, rel=0.01)


def test_what_is_printed_says_that_it_is_predicted() -> None:
    x, y = (np.empty(1 << 16, np.float32) for _ in range(2))
    found = pyptx.predict(COPY, x, y, card="H100", grid=64, block=256)
    assert "predicted, not measured" in str(found) and "the launch" in found.binds
    data = json.loads(found.to_json())
    assert data["predicted"] is True and data["cycles"] == found.cycles and data["range_us"][0] < data["range_us"][1]
    assert sum(found.stalls.values()) == pytest.approx(1)


WRONG = [
    ({"card": "H1000"}, PTXError, r"'H1000' is not a known card: .*H100 SXM"),
    ({"card": None}, PTXError, r"card must be the name of a card, such as \"H100 SXM\", not None"),
    ({"card": "H100", "clock": 1755}, PTXError, r"clock must be a number of GHz, such as 1.755, not 1755"),
    ({"card": "H100", "registers": 4}, PTXError, r"registers must be between 16 and 255, not 4"),
    ({"card": "H100", "grid": None}, SimulationError, r"a launch needs grid= and block="),
    ({"card": "H100", "block": 2048}, SimulationError, r"a CTA has at most 1024"),
]


@pytest.mark.parametrize(("changes", "error", "words"), WRONG)
def test_wrong_arguments_say_what_is_needed(changes: dict[str, object], error: type[Exception], words: str) -> None:
    options: dict[str, object] = {"grid": 1, "block": 32, **changes}
    with pytest.raises(error, match=words):
        pyptx.predict(chains(1, 1), np.zeros(16, np.float32), **options)  # pyright: ignore[reportArgumentType]


def test_missing_arguments_and_other_architectures() -> None:
    with pytest.raises(SimulationError, match=r"k takes 1 argument, not 0: x \(.u64\)"):
        pyptx.predict(chains(1, 1), card="H100", grid=1, block=32)
    text = chains(1, 1).replace("sm_80", "sm_90a")
    with pytest.raises(
        PTXError, match=r"the kernel is for sm_90a, and A100 SXM 80GB is sm_80: choose a card of that architecture"
    ):
        pyptx.predict(text, np.zeros(16, np.float32), card="A100", grid=1, block=32)
    with pytest.raises(PTXError, match=r"k does not launch on RTX 4090: an SM has no room for a CTA .* 120,000 bytes"):
        pyptx.predict(chains(1, 1), np.zeros(16, np.float32), card="RTX 4090", grid=1, block=32, smem=120_000)


def test_wgmma_is_not_faster_than_the_peak() -> None:
    """A bf16 `wgmma` GEMM cannot be faster than the dense peak: 4096 operations of a clock and SM (989 TFLOP/s, H100 data sheet)."""
    import ml_dtypes

    from examples.hopper.gemm import build

    gemm = build(256, 256, 256)
    arrays = [np.ones((256, 256), ml_dtypes.bfloat16) for _ in range(2)]
    arrays.append(np.zeros((256, 256), np.float32 if "f32" in str(gemm.specs[2].dtype) else ml_dtypes.bfloat16))
    found = pyptx.predict(gemm, *arrays, card="H100 SXM")
    ctas = math.prod(gemm.resolve_launch({}).grid)
    assert found.cycles is not None and found.cycles >= 2 * 256**3 / (4096 * min(ctas, 132))
    assert not arrays[2].any()


def test_what_is_not_replayed_gets_a_range() -> None:
    text = """.version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x) { .reg .b64 %rd1; ld.param.u64 %rd1, [x];
    cp.async.bulk.prefetch.L2.global [%rd1], 4096; ret; }"""
    found = pyptx.predict(text, np.zeros(1024, np.float32), card="H100 SXM", grid=1, block=32)
    assert found.cycles is None and found.high is not None and found.high > 2 * found.low
    assert "UBLKPF" in found.notes[0] and "not replayed" in found.notes[0]
    assert "predicted time     between" in str(found)


WAITS = kernel(
    """ld.param.u64 %rd1, [x];
    again:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    st.global.u32 [%rd1+4], %r1;""",
    ".reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n.reg .pred %p<2>;",
)


def test_a_kernel_that_does_not_end_gets_a_lower_bound_and_the_lines_of_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sub-core issues an instruction of a warp in a cycle, so one warp needs as many cycles as it has instructions."""
    monkeypatch.setattr(emulation, "MOST_EXECUTED", 20_000)
    found = pyptx.predict(WAITS, np.zeros(2, np.uint32), card="H100", grid=1, block=32)
    assert (found.cycles, found.low, found.high) == (None, 20_000, None)
    lines = WAITS.split("\n")
    first, last = (next(n for n, line in enumerate(lines, 1) if word in line) for word in ("ld.volatile", "bra again"))
    assert f"in the loop at lines {first} to {last} (" in found.notes[0] and "at least" in str(found)
    assert pyptx.predict(WAITS, np.ones(2, np.uint32), card="H100", grid=1, block=32).cycles is not None


def test_an_instruction_that_is_not_known_is_named_and_the_time_is_a_range() -> None:
    x, y = (np.zeros(1 << 16, np.float32) for _ in range(2))
    prepared = prepare(load(COPY)["k"], (x, y), {"grid": 64, "block": 256, "cluster": None, "smem": 0}, "predict")
    launch, card = launch_of(prepared), card_of("H100")
    function = assemble(COPY, card.arch)["k"]
    odd = [replace(i, opcode="FROB") if i.opcode == "IMAD" else i for i in function]
    assert odd != list(function)
    found = predict_function(replace(function, instructions=tuple(odd)), launch.geometry(card.arch, 0), card)
    assert found.cycles is None and found.time_us is None and found.high is not None and found.high > found.low > 0
    assert any("the pipe of FROB" in note for note in found.notes) and "predicted time     between" in str(found)


def test_without_ptxas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXAS", "/nowhere/ptxas")
    with pytest.raises(NoCompiler, match=r"\$PTXAS is '/nowhere/ptxas', which is not an executable file"):
        pyptx.predict(WAITS + "// not compiled before", np.ones(2, np.uint32), card="H100", grid=1, block=32)


def test_what_if_says_what_conflicts_clock_and_card_do() -> None:
    """Lanes 4 bytes apart have no conflicts: the same code with that stride is what the variant has to take. Cycles without DRAM do not depend on the clock."""
    x = np.zeros(16, np.uint32)
    launch: dict[str, Any] = {"card": "H100 SXM", "grid": 1, "block": 128}
    found, free = (pyptx.predict(shared_loads(stride), x, **launch) for stride in (8, 4))
    table = found.what_if(clocks=[0.99], cards=["H1000"])
    by_name = {v.name: v for v in table.variants}
    without, slower, unknown = by_name["without bank conflicts"], by_name["at 0.99 GHz"], by_name["on H1000"]
    assert without.prediction is not None and without.prediction.cycles == free.cycles and free.cycles is not None
    assert slower.prediction is not None and slower.prediction.cycles == found.cycles != free.cycles
    assert unknown.prediction is None and unknown.lacking.startswith("'H1000' is not a known card")
    assert "what if (predicted, not measured)" in str(table) and len(str(table).split("\n")) == 3 + len(table.variants)
    assert "without bank conflicts" not in {v.name for v in free.what_if().variants}
    with pytest.raises(PTXError, match="what_if needs a prediction that predict made"):
        replace(found, question=None).what_if()


def test_what_if_takes_one_value_or_several() -> None:
    found = pyptx.predict(chains(1, 1), np.zeros(16, np.float32), card="A100", grid=1, block=32)
    table = found.what_if(clocks=1.2, registers=32, cards="H100")
    assert {"at 1.2 GHz", "at most 32 registers", "on H100"} <= {v.name for v in table.variants}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"clocks": ["x"]}, "clocks must be a number of GHz, such as 1.755, or several of them, not 'x'"),
        ({"registers": 1.5}, "registers must be a number of registers"),
        ({"cards": [5]}, "cards must be the name of a card"),
        ({"kernels": [found]}, "kernels must be kernels by name"),
    ]
    for given, words in wrong:
        with pytest.raises(PTXError, match=words):
            found.what_if(**given)


def test_what_if_has_more_and_fewer_ctas_and_registers() -> None:
    """A chain of dependent FFMA in one warp per CTA: an SM that has room for two at a time takes half as long as with one."""
    x = np.zeros(16, np.float32)
    found = pyptx.predict(chains(1, 40), x, card="A100", grid=108 * 64, block=32)
    names = {v.name: v.prediction for v in found.what_if(registers=[24]).variants}
    fewer = names[f"{found.resident - 1} CTAs per SM"]
    assert fewer is not None and fewer.resident == found.resident - 1 and fewer.low > 0
    bounded = names["at most 24 registers"]
    assert bounded is not None and bounded.registers <= 24
    kernels = found.what_if(kernels={"twice as long": chains(1, 80)}).variants
    longer = next(v.prediction for v in kernels if v.name == "twice as long")
    assert longer is not None and longer.cycles is not None and found.cycles is not None
    assert longer.cycles / found.cycles == pytest.approx(2, rel=0.1)


def test_an_iteration_of_a_loop_costs_its_chain() -> None:
    """16 dependent FFMA of four cycles each (Abdelkhalik et al.), the counter and the branch, which takes some 10 to 20 cycles."""
    text = chains(1, 40).replace("again:", 'again:\n.pragma "nounroll";')
    found = pyptx.predict(text, np.zeros(16, np.float32), card="A100", grid=1, block=32)
    (loop,) = found.loops
    first, last = (
        next(n for n, line in enumerate(text.split("\n"), 1) if word in line) for word in ("fma.rn", "bra again")
    )
    assert (loop.first, loop.last) == (first, last) and loop.iterations * (loop.instructions - 3) == pytest.approx(
        40 * 16
    )
    each_fma = loop.cycles / (loop.instructions - 3)
    assert 4 <= each_fma <= 5.5 and sum(loop.stalls.values()) == pytest.approx(loop.cycles - loop.instructions)
    assert f"lines {first} to {last}: " in str(found) and "Predicted loops" in found._repr_html_()


COUNTED = kernel(
    "ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2;\n"
    'mov.u32 %r3, 0; shr.u32 %r4, %r2, 5; mad.lo.u32 %r1, %r4, STEP, %r1;\n.pragma "nounroll";\nagain:\n'
    "ld.global.f32 %f1, [%rd1]; add.f32 %f1, %f1, %f1; st.global.f32 [%rd1], %f1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1;\n"
    "@%p1 bra again;",
    ".reg .b32 %r<5>; .reg .b64 %rd<3>; .reg .f32 %f<2>; .reg .pred %p<2>;",
    ".param .u64 x, .param .u32 n",
)
"""Each warp runs the body n + STEP * warp times; ptxas makes a loop of four of its bodies where all warps have one bound."""


@pytest.mark.parametrize(
    ("n", "step", "block", "iterations"),
    [(5, 0, 32, []), (5, 0, 128, []), (8, 0, 32, [2]), (8, 0, 128, [2]), (20, 0, 128, [5]), (8, 4, 128, [(8 + 12 + 16 + 20) / 4])],
)  # fmt: skip
def test_iterations_of_a_loop_are_those_of_a_warp(n: int, step: int, block: int, iterations: list[float]) -> None:
    """A loop that no warp goes back in is not one."""
    text, x = COUNTED.replace("STEP", str(step)), np.zeros(1024, np.float32)
    found = pyptx.predict(text, x, n, card="A100", grid=1, block=block)
    assert [loop.iterations for loop in found.loops] == iterations


LOCAL = kernel(
    "ld.param.u64 %rd1, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; mov.u64 %rd4, table;\n"
    "add.s64 %rd5, %rd4, %rd2; ld.global.u32 %r2, [%rd5]; and.b32 %r3, %r1, 7; mul.wide.u32 %rd6, %r3, 4; mov.u64 %rd7, own;\n"
    "cvta.local.u64 %rd7, %rd7; add.s64 %rd7, %rd7, %rd6; st.u32 [%rd7], %r2; ld.u32 %r2, [%rd7+-4];\nst.global.u32 [%rd3], %r2;\n"
    "red.global.add.u32 [%rd3], %r2;",
    ".local .b32 own[16]; .reg .b32 %r<4>; .reg .b64 %rd<8>;",
).replace(".visible", ".global .u32 table[64];\n.visible")


@pytest.mark.parametrize(("elements", "outside"), [(64, 0), (60, 8)])
def test_accesses_outside_of_the_arguments_have_a_note(elements: int, outside: int) -> None:
    """Threads 60 to 63 store and add past 60 elements; variables of the module and local memory are not arguments."""
    found = pyptx.predict(LOCAL, np.zeros(elements, np.uint32), card="A100", grid=1, block=64)
    line = next(n for n, text in enumerate(LOCAL.split("\n"), 1) if text.startswith("st.global.u32"))
    told = [f"{outside} accesses are outside of the arguments, at lines {line}, {line + 1} (1 CTA followed)"]
    assert [note for note in found.notes if "outside of" in note] == (told if outside else [])


def test_waits_are_told_by_the_line_of_the_source() -> None:
    """`.loc` says the place of the loads; a traced kernel has the lines of its Python."""
    lines = COPY.replace("ld.global", ".loc 1 77 3\nld.global").replace("st.global", ".loc 1 78 3\nst.global")
    x, y = (np.zeros(1 << 16, np.float32) for _ in range(2))
    found = pyptx.predict(lines + '.file 1 "/nowhere/copy.cu"\n', x, y, card="H100", grid=64, block=256)
    assert {(s.file, s.line) for s in found.sources if s.line in (77, 78)} == {
        ("/nowhere/copy.cu", 77),
        ("/nowhere/copy.cu", 78),
    }
    waiting = max(found.sources, key=lambda s: s.cycles.get("memory or scoreboard", 0))
    assert waiting.line == 78 and sum(s.total for s in found.sources) <= sum(s.total for s in found.lines) + 1e-6

    from examples.hopper.softmax import build

    traced = build(64, 1024, arch="sm_80")
    arrays = [np.zeros((64, 1024), np.float32) for _ in traced.specs]
    found = pyptx.predict(traced, *arrays, card="A100")
    by_python = found.sources
    assert by_python and all(s.file is not None and s.file.endswith(".py") and s.text for s in by_python)
    report = traced.report(card="A100")
    assert str(report).endswith(str(found)) and 'data-tab="time"' in report.html and "Timeline of one SM" in report.html
    assert f"{found.timeline().cycles:,} cycles of one SM, predicted" in report.html


LENGTHS = kernel(
    """ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd1, %rd1, %rd3;
    ld.global.u32 %r2, [%rd1];
    mov.f32 %f1, 0f3F800000;
    mul.wide.u32 %rd4, %r2, 4;
    add.s64 %rd5, %rd2, %rd4;
    ld.global.u32 %r3, [%rd5];
    again:
    sqrt.approx.f32 %f1, %f1;
    sub.u32 %r3, %r3, 1;
    setp.ne.u32 %p1, %r3, 0;
    @%p1 bra again;
    st.global.f32 [%rd1], %f1;""",
    ".reg .b32 %r<4>;\n.reg .b64 %rd<6>;\n.reg .f32 %f<2>;\n.reg .pred %p<2>;",
    ".param .u64 x, .param .u64 y",
)
"""As paged attention and MoE: a table says which entry of another table has the number of iterations."""


def test_tables_of_tables_steer_the_loops_of_a_cta() -> None:
    """All CTAs at one entry: the time grows with the entry's value, and not with those of entries that nobody looks up."""

    def cycles(page: int, lengths: Sequence[int]) -> int:
        found = pyptx.predict(
            LENGTHS, np.full(132, page, np.uint32), np.array(lengths, np.uint32), card="H100", grid=132, block=32
        )
        assert not [n for n in found.notes if "not known" in n] and found.cycles is not None
        return found.cycles

    one, two, three = (cycles(page, (100, 200, 300)) for page in range(3))
    assert one < two < three and (three - one) / (two - one) == pytest.approx(2, rel=0.01)
    assert cycles(0, (100, 9000, 1)) == one


def test_a_sample_stands_for_a_grid_whose_ctas_differ() -> None:
    """A tenth of the CTAs takes 40 times as long: the average is 4.9 times the short ones, the longest 40 / 4.9 times the average."""
    count = 132 * 32
    pages = (np.random.default_rng(1).random(count) < 0.1).astype(np.uint32)
    arguments = pages, np.array([50, 2000], np.uint32)
    launch: dict[str, Any] = {"card": "H100", "grid": count, "block": 32}
    found = pyptx.predict(LENGTHS, *arguments, **launch, sample=128)
    short = pyptx.predict(LENGTHS, np.zeros_like(pages), arguments[1], **launch, sample=128)
    assert found.cycles is not None and short.cycles is not None and found.high is not None
    (note,) = [n for n in found.notes if "CTAs differ" in n]
    share = pages.mean()
    times = float(re.findall(r"executes ([0-9.]+) times", note)[0])
    assert times == pytest.approx(2000 / (50 + share * 1950), rel=0.4)
    assert found.cycles > 1.5 * short.cycles and found.high > 2 * found.cycles
    assert not [n for n in short.notes if "CTAs differ" in n]
    with pytest.raises(PTXError, match="sample must be between 1 and 256 CTAs, not 0"):
        pyptx.predict(LENGTHS, *arguments, **launch, sample=0)


def test_the_line_through_two_replays_has_an_error() -> None:
    """A loop whose iterations are alike is a line."""
    text = chains(1, 300).replace("again:", 'again:\n.pragma "nounroll";')
    found = pyptx.predict(text, np.zeros(16, np.float32), card="A100", grid=108 * 16, block=256)
    assert found.extrapolated and found.fit_error is not None and found.fit_error < 0.02
    assert "a third replay is" in str(found)


@pytest.mark.parametrize("meet", [True, False])
def test_cut_traces_are_extrapolated_or_bounded(monkeypatch: pytest.MonkeyPatch, meet: bool) -> None:
    """The judge is the replay of the whole CTA. Warps that never wait for each other are not side by side in the beginning of a trace."""
    monkeypatch.setenv("PYPTX_CACHE_SIZE", "0")
    text = chains(1, 400)
    if meet:
        text = text.replace("sub.u32", "bar.sync 0;\nsub.u32")
    launch: dict[str, Any] = {"card": "A100", "grid": 108, "block": 64}
    whole = pyptx.predict(text, np.zeros(16, np.float32), **launch)
    monkeypatch.setattr(model, "MOST_TRACED", 9000)
    monkeypatch.setattr(model, "CUT", 3000)
    cut = pyptx.predict(text, np.zeros(16, np.float32), **launch)
    assert whole.cycles is not None and not whole.extrapolated and cut.extrapolated
    assert any("the replay ends after" in note for note in cut.notes)
    assert cut.high is not None and cut.low < whole.cycles < cut.high
    if meet:
        assert cut.cycles == pytest.approx(whole.cycles, rel=0.05)
    else:
        assert cut.cycles is None and cut.time_us is None


def test_the_same_prediction_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))
    x = np.full(132, 1, np.uint32)

    def predicted() -> Prediction:
        return pyptx.predict(LENGTHS, x, np.array([5, 9], np.uint32), card="H100", grid=132, block=32)

    first = predicted()
    monkeypatch.setattr(sys.modules["pyptx.prediction.predict"], "predict_function", None)  # is not called
    again = predicted()
    assert again == first and str(again) == str(first) and again.timeline().cycles > 0
    monkeypatch.undo()
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))
    x[:] = 0
    assert predicted().cycles != first.cycles
