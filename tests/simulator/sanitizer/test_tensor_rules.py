"""More on the rules of tensor memory (tcgen05)."""

from __future__ import annotations

import pytest

from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, run, silent
from .tensor_pieces import (
    AFTER,
    ALL,
    BEGIN,
    COMMIT,
    COPIED,
    END,
    HALF,
    LOAD,
    LOADED,
    MULTIPLY,
    OTHER,
    STORE,
    STORED,
    USE,
    collecting,
)


def test_an_operation_that_nobody_waits_for() -> None:
    found = run(BEGIN + COPIED + COMMIT, block=128, sm=100).findings
    assert {f.rule for f in found if isinstance(f, Finding)} == {"tensor-leak", "exit-in-flight"}


PACK = "    mov.b64 %rd11, {%r23, %r1};\n    mov.b64 {%r24, %r25}, %rd11;\n    mov.b32 %r26, %r24;\n"
EARLY = BEGIN + STORE + STORED + LOAD + "\n" + PACK


def test_moves_before_the_wait_are_no_use() -> None:
    """The state travels with the copies: packed, unpacked, moved. What is computed with them after the wait is fine."""
    silent(EARLY + LOADED + "    add.u32 %r27, %r26, %r25; st.global.u32 [%rd5], %r27;" + END, block=128, sm=100)


def test_a_use_of_a_copy_before_the_wait() -> None:
    found = breaks(EARLY + "    add.u32 %r27, %r26, 1; //!" + LOADED + END, "tcgen05-wait", block=128, sm=100)
    assert found.severity == "warning"
    # one warning for the load, however many uses there are
    breaks(
        EARLY + "    add.u32 %r27, %r26, 1; //!\n    add.u32 %r28, %r23, 1;" + LOADED + END,
        "tcgen05-wait",
        block=128,
        sm=100,
    )


def test_a_copy_that_is_overwritten_is_nothing_in_flight() -> None:
    silent(EARLY + "    mov.u32 %r26, 5; add.u32 %r27, %r26, 1;" + LOADED + END, block=128, sm=100)
    breaks(EARLY + "    mov.u32 %r23, 5; //!" + LOADED + END, "tcgen05-wait", block=128, sm=100)


def test_what_a_restricted_commit_says() -> None:
    """After `.sync_restrict::shared::read::mma::a` A may be written again, but not B, and D is not there yet."""
    write = "    st.shared.u32 [%r5+{}], %r1;"
    silent(MULTIPLY + write.format(0) + ALL + AFTER + HALF + LOADED + USE + END, block=128, sm=107)
    breaks(MULTIPLY + write.format(2048) + " //!" + ALL + AFTER + END, "tcgen05-source-reused", block=128, sm=107)
    silent(MULTIPLY + ALL + write.format(2048) + AFTER + END, block=128, sm=107)
    breaks(MULTIPLY + AFTER + HALF + " //!" + LOADED + USE + ALL + END, "tcgen05-commit", block=128, sm=107)


@pytest.mark.parametrize(
    "mmas",
    [
        (".collector::a::fill", ".collector::a::use", ".collector::a::lastuse", ""),
        (".collector::b::fill.collector::a::fill", OTHER, ".collector::b::use", ".collector::b::lastuse"),
        (".collector::a::fill", OTHER, ".collector::a::fill", ".collector::a::use"),
    ],
)
def test_collectors_as_they_are_meant(mmas: tuple[str, ...]) -> None:
    silent(collecting(*mmas), block=128, sm=107)


@pytest.mark.parametrize(
    ("mmas", "words"),
    [
        ((".collector::a::use //!",), "A may be taken from the collector buffer a, which holds nothing"),
        ((".collector::a::fill", ".collector::b::lastuse //!"), "B may be taken from the collector buffer b, which holds nothing"),
        ((".collector::a::fill", "", ".collector::a::use //!"), "holds nothing"),
        ((".collector::a::fill", ".collector::a::lastuse", ".collector::a::use //!"), "holds nothing"),
        ((".collector::a::fill", OTHER, ".collector::a::use //!"), "holds another matrix"),
    ],
)  # fmt: skip
def test_collectors_that_hold_something_else(mmas: tuple[str, ...], words: str) -> None:
    assert words in breaks(collecting(*mmas), "tcgen05-collector", block=128, sm=107).message


SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
"""Shape of tcgen05.ld -> registers of `.x1`."""
FILLED = "    mov.u32 %r38, 0;\n" + "".join(
    f"    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r22+{i}], {{%r38}};\n" for i in range(32)
)  # fmt: skip


def load_of(shape: str, count: int, first: int, name: str = "a") -> str:
    """A load that defines registers %`name`0 and so on."""
    registers = ", ".join(f"%{name}{i}" for i in range(count * SHAPES[shape]))
    half = ", 0" if shape.endswith("x2") else ""
    return f"    tcgen05.ld.sync.aligned.{shape}.x{count}.b32 {{{registers}}}, [%r22+{first}]{half};\n"


def used(count: int, name: str = "a", skip: int = -1) -> str:
    return "".join(f"    xor.b32 %r38, %r38, %{name}{i};\n" for i in range(count) if i != skip)


def declared(body: str) -> str:
    return "    .reg .b32 %a<8>; .reg .b32 %b<8>;\n" + BEGIN + FILLED + STORED + body + END


def problems(body: str) -> list[tuple[str, str]]:
    found = run(declared(body), block=128, sm=100).findings
    return sorted({(f.rule, f.severity) for f in found if isinstance(f, Finding)})


WARNED = [("tcgen05-wait", "warning")]
LOST = [("tcgen05-wait", "error"), ("tcgen05-wait", "warning")]


@pytest.mark.parametrize(("shape", "count"), [(s, n) for s, per in SHAPES.items() for n in (1, 2, 4) if n * per <= 8])
def test_a_load_of_which_every_register_was_used_is_complete(shape: str, count: int) -> None:
    """ptxas makes each use wait for the register, so that the load is complete without tcgen05.wait::ld: only that is told."""
    each = count * SHAPES[shape]
    one, two = load_of(shape, count, 0), load_of(shape, count, 8, "b")
    assert problems(one + used(each)) == WARNED
    assert problems(one + used(each) + "    bar.sync 0;\n" + two + used(each, "b")) == WARNED
    assert problems(one + two + used(each, "b") + used(each)) == WARNED
    again = load_of(shape, count, 8)  # into the same registers
    assert problems(one + used(each) + again + used(each)) == WARNED
    for skip in {0, each - 1}:  # a register that nobody used
        assert problems(one + used(each, skip=skip)) == (LOST if each > 1 else LOST[:1])
    assert problems(one + two + used(each)) == LOST


def test_a_use_of_a_copy_completes_a_load() -> None:
    load = load_of("32x32b", 2, 0)
    copies = "    mov.b64 %rd12, {%a0, %a1};\n    mov.b64 {%b0, %b1}, %rd12;\n"
    assert problems(load + copies + used(2, "b")) == WARNED
    assert problems(load + copies) == LOST[:1]
    assert problems(load + copies + LOADED) == []


PEERS = """
    setp.lt.u32 %p4, %r1, 32;{begun}
    @!%p4 bra $allocated;
    tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [bar+24], 32;{alloc}
    tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;
$allocated:
    bar.sync 0;
    ld.shared.b32 %r20, [bar+24];{met}
    @!%p4 bra $freed;
    tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r20, 32;{dealloc}
$freed:
"""
CLUSTER = "\n    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RELAXED = "\n    barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("begun", "alloc", "met", "dealloc"),
    [
        ("", " //!", CLUSTER, ""),
        (CLUSTER, "", "", " //!"),
        ("", " //!", "", " //!"),
        ("\n    bar.sync 0;", " //!", CLUSTER, ""),
    ],
)
def test_a_pair_that_allocates_without_its_peer(begun: str, alloc: str, met: str, dealloc: str) -> None:
    """The manual: with .cta_group::2 the warp must make sure that the peer CTA is launched and still active."""
    text = PEERS.format(begun=begun, alloc=alloc, met=met, dealloc=dealloc)
    found = breaks(text, "tcgen05-peer", grid=2, cluster=2, block=64, sm=100)
    assert found.severity == "error"


@pytest.mark.parametrize("begun", [CLUSTER, RELAXED])
def test_a_pair_that_meets(begun: str) -> None:
    silent(PEERS.format(begun=begun, alloc="", met=CLUSTER, dealloc=""), grid=2, cluster=2, block=64, sm=100)
