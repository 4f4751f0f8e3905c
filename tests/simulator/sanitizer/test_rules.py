"""Each rule of the sanitizer: minimal kernels that break it, found at their lines, and right ones next to them, silent; they are
in `rules/`, in files named as those of the rules.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load, tensor_map
from pyptx.simulator.sanitizer import RULES, Finding
from pyptx.simulator.sanitizer.rule import NAMED
from pyptx.tools.rules import filled, rules_by_file

from .kernels import HEAD, breaks, marked, run, silent
from .pieces import FILL, INIT, LOAD, WAIT, Pair

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(p.stem for p in (Path(__file__).parent / "rules").glob("[!_]*.py"))
PAIRS: dict[str, list[Pair]] = {name: import_module(f"{__package__}.rules.{name}").PAIRS for name in FILES}
"""By the file of the rule."""
ALL = [pytest.param(p, id=f"{name}-{i}-{p.rule}") for name, pairs in PAIRS.items() for i, p in enumerate(pairs)]


@pytest.mark.parametrize("pair", ALL)
def test_the_broken_kernel_is_found(pair: Pair) -> None:
    found = breaks(pair.broken, pair.rule, **pair.launch)
    assert found.severity == (pair.severity or NAMED[pair.rule].severity)


@pytest.mark.parametrize("pair", ALL)
def test_the_right_kernel_is_silent(pair: Pair) -> None:
    silent(pair.right, **pair.launch)


def test_each_rule_has_its_kernels() -> None:
    """A broken one and a right one, in the file named as the rule's."""
    assert list(PAIRS) == list(rules_by_file())
    for name, rules in rules_by_file().items():
        assert {rule.name for rule in rules} <= {pair.rule for pair in PAIRS[name]}, name


def test_the_page_has_the_rules() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text()
    assert page == filled(page), "run python -m pyptx.tools.rules docs/simulator.md"
    assert all(f"| `{rule.name}` |" in page for rule in RULES)


def test_only_rules_have_findings() -> None:
    assert len(RULES) == len({rule.name for rule in RULES})
    assert {rule.name: rule for rule in RULES} == NAMED
    with pytest.raises(ValueError, match="'race-condition' is not the name of a rule"):
        Finding("error", "text", rule="race-condition")
    with pytest.raises(ValueError, match="'' is not the name"):
        Finding("error", "text")


def test_a_parity_that_is_already_complete() -> None:
    """Waiting for the phase before the first returns at once: the data is not there if the copy is late. If it is not
    late, the wait is for the next phase, which never ends. The corrected kernel is that of the first bulk copy.
    """
    body = INIT + LOAD + WAIT.replace("[bar], 0", "[bar], 1") + "    ld.shared.u32 %r10, [%r5]; //!\n"
    rules: set[str] = set()
    for seed in range(1, 12):
        try:
            rules |= {f"{f.rule} {f.line}" for f in run(body, seed=seed).findings if isinstance(f, Finding)}
        except SimulationError as error:
            rules.add(str(error).partition("error: ")[2][:8])
    assert rules >= {f"bulk-copy-not-waited {marked(body)[0]}", "deadlock"}


@pytest.mark.parametrize(
    ("broken", "corrected", "words"),
    [
        (  # one arrival is missing
            "    @%p1 mbarrier.init.shared.b64 [bar], 65;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];\n"
            "$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n    @!%p2 bra $w;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];\n"
            "$w:\n    mbarrier.try_wait.shared.b64 %p2, [bar], %rd6;\n    @!%p2 bra $w;",
            ("deadlock: 64 threads", "waits for 1 of 65 arrivals", "count of mbarrier.init"),
        ),
        (  # expect_tx does not match the copy
            INIT + LOAD.replace("[bar], 1024", "[bar], 2048") + WAIT,
            INIT + LOAD + WAIT,
            ("deadlock", "0 of 1 arrivals and 1024 bytes", "does expect_tx match"),
        ),
        (  # the phase bit was flipped once too often
            INIT + LOAD + WAIT + WAIT.replace("$wait", "$again").replace("[bar], 0", "[bar], 1"),
            INIT + LOAD + WAIT,
            ("deadlock", "phase (parity 1)", "or the parity that is waited for wrong?"),
        ),
        (  # a flag that nobody sets
            "    @%p1 st.shared.u32 [buf], 0;\n    bar.sync 0;\n$s:\n    ld.volatile.shared.u32 %r10, [buf];\n"
            "    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $s;",
            "    @%p1 st.shared.u32 [buf], 1;\n    bar.sync 0;\n$s:\n    ld.volatile.shared.u32 %r10, [buf];\n"
            "    setp.eq.u32 %p2, %r10, 0;\n    @%p2 bra $s;",
            ("deadlock: 64 threads poll memory here", "ld.volatile.shared.u32"),
        ),
        (  # half wait at a barrier for threads that poll
            "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    bar.sync 0;\n    setp.lt.u32 %p3, %r1, 32;\n"
            "    @%p3 bra $x;\n$w:\n    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n    @!%p2 bra $w;\n$x:\n"
            "    bar.sync 0;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 1;\n    bar.sync 0;\n    setp.lt.u32 %p3, %r1, 32;\n"
            "    @%p1 mbarrier.arrive.shared.b64 _, [bar];\n"
            "    @%p3 bra $x;\n$w:\n    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n    @!%p2 bra $w;\n$x:\n"
            "    bar.sync 0;",
            ("32 threads poll the mbarrier bar[0] ", "32 threads wait at barrier 0", "may follow from the one at line"),
        ),
        (  # a count that the living threads cannot reach
            "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 exit;\n    bar.sync 0, 64;",
            "    setp.ge.u32 %p2, %r1, 32;\n    @%p2 exit;\n    bar.sync 0, 32;",
            ("deadlock: 32 threads wait at barrier 0", "bar.sync 0, 64", "at most 32 can come"),
        ),
        (
            "    @%p1 mbarrier.init.shared.b64 [bar], 3;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar], 5;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 320;\n    bar.sync 0;\n"
            "    mbarrier.arrive.shared.b64 %rd6, [bar], 5;",
            ("5 arrivals are more than the 3",),
        ),
        (
            "    mbarrier.arrive.shared.b64 %rd6, [bar];",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n    mbarrier.arrive.shared.b64 %rd6, [bar];",
            ("not initialised",),
        ),
        (
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 16;",
            "    @%p1 mbarrier.init.shared.b64 [bar], 64;\n    bar.sync 0;\n"
            "    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048575;",
            ("leaves its range",),
        ),
    ],
)  # fmt: skip
def test_what_can_never_go_on_stops(broken: str, corrected: str, words: tuple[str, ...]) -> None:
    with pytest.raises(SimulationError) as caught:
        run(broken)
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert "max_steps" not in text
    silent(corrected)


def tensor_map_kernel(release: str, acquire: str) -> str:
    """Thread 0 copies the map of the parameter to global memory, and thread 32 copies with it."""
    words = "".join(f"    ld.param.b64 %rd9, [map+{i}]; st.global.b64 [%rd2+{i}], %rd9;\n" for i in range(0, 128, 8))
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 spare)
{{
    .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<10>;
    .shared .align 1024 .b8 box[256]; .shared .align 8 .b64 bar;
    ld.param.u64 %rd2, [spare]; mov.u32 %r1, %tid.x; mov.u32 %r0, 0;
    setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 32;
    @!%p0 bra $written;
    mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
{words}    {release}
$written:
    bar.sync 0;
    @!%p1 bra $end;
    {acquire}
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd2, {{%r0, %r0}}], [bar];
$wait:
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
    @!%p2 bra $wait;
$end:
    ret;
}}
"""


RELEASE, ACQUIRE = (
    "fence.proxy.tensormap::generic.release.gpu;",
    "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;",
)


@pytest.mark.parametrize(
    ("release", "acquire", "words"),
    [
        ("", ACQUIRE, "executed no fence.proxy.tensormap"),
        (RELEASE, "", "acquired it after"),
        (RELEASE, "fence.proxy.async;", "acquired it after"),
        (RELEASE, ACQUIRE, ""),
    ],
)
def test_a_tensor_map_that_the_kernel_writes(release: str, acquire: str, words: str) -> None:
    array, spare = np.zeros((16, 16), np.uint8), np.zeros(128, np.uint8)
    text = tensor_map_kernel(release, acquire)
    report = load(text)["k"].simulate(tensor_map(array, (16, 16)), spare, grid=1, block=64)
    found = [f for f in report.findings if isinstance(f, Finding)]
    assert [f.rule for f in found] == (["proxy"] if words else [])
    assert all(words in f.message and f.instruction.startswith("cp.async.bulk.tensor") for f in found)


def test_a_finding_names_both_sides() -> None:
    found = breaks(FILL + "    ld.shared.u32 %r10, [buf+28]; //!", "race")
    assert found.severity == "error"
    assert found.space == "shared"
    assert found.address == 0x400 + 28
    assert found.count == 63
    assert found.other is not None
    assert found.other.message == "`st.shared.u32 [%r5], %r1;`"
    assert found.other.line is not None
    assert found.line is not None
    assert found.other.line < found.line
    assert "written by thread (7, 0, 0) of CTA (0, 0, 0)" in found.message
    assert "bar.sync" in str(found)


def test_without_checks_nothing_is_found() -> None:
    kernel = load(HEAD + FILL + "    ld.shared.u32 %r10, [buf+28];\n    ret;\n}\n")["k"]
    assert not kernel.simulate(0, 0, grid=1, block=64, check=False).findings
    assert kernel.simulate(0, 0, grid=1, block=64).findings


BULK = "    st.bulk.weak.shared::cta [%r3], 512, 0;\n"
TAKE = "    ld.shared.u32 %r10, [%r5];\n    st.global.u32 [%rd5], %r10;"


def test_st_bulk_is_a_store() -> None:
    """Of one thread: what it fills is written, and others see it after a barrier."""
    by_one = "    @!%p1 bra $one;\n{}$one:\n"
    silent(by_one.format(BULK) + "    bar.sync 0;\n" + TAKE, sm=100)
    breaks(by_one.format(BULK) + TAKE.replace(";\n", "; //!\n"), "race", sm=100)
    breaks(FILL + by_one.format(BULK.replace("0;\n", "0; //!\n")), "race", sm=100)
    with pytest.raises(SimulationError, match="out of bounds"):
        run(by_one.format(BULK.replace("512", "8192")), sm=100)


def test_st_bulk_at_a_generic_address() -> None:
    generic = "    mov.u64 %rd9, buf; cvta.shared.u64 %rd9, %rd9;\n    @%p1 st.bulk [%rd9], 512, 0;\n"
    silent(generic + "    bar.sync 0;\n" + TAKE, sm=100)


EDGE = "    setp.lt.u32 %p2, %r1, 40;\n    @%p2 mov.u32 %r11, 5;\n"


def test_what_is_computed_from_undefined_registers() -> None:
    """It is told as a read where it was computed, once something depends on it: a store, an address, a branch. Kernels that
    mask the edge of a tile compute with elements that they neither load nor store.
    """
    compute = "    add.u32 %r12, %r11, %r1; mul.lo.u32 %r12, %r12, 3;\n"
    silent(EDGE + compute + "    @%p2 st.global.u32 [%rd5], %r12;")
    told = compute.replace("%r1; ", "%r1; //!\n    ")
    for use in (
        "    st.global.u32 [%rd5], %r12;",
        "    and.b32 %r12, %r12, 0; cvt.u64.u32 %rd9, %r12; add.s64 %rd9, %rd9, %rd5; st.global.u32 [%rd9], %r1;",
        "    setp.eq.u32 %p3, %r12, 7; @%p3 bra $x;\n    st.global.u32 [%rd5], %r1;\n$x:",
    ):
        found = breaks(EDGE + told + use, "uninitialised-register")
        assert found.other is not None


def test_half_of_a_packed_register() -> None:
    """The halves of an f16x2 at the edge: one was loaded, and it alone is stored."""
    pack = "    .reg .b16 %h<4>;\n    mov.b16 %h0, 1; mov.b32 %r12, {%h0, %h1};\n    add.f16x2 %r12, %r12, %r12;\n"
    silent(pack + "    mov.b32 {%h2, %h3}, %r12;\n    st.global.b16 [%rd5], %h2;")
