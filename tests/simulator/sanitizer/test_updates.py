"""Atomics of several threads on one word, read weakly afterwards: all of them must come before, not only the last."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, run, silent

OPERATIONS = {"red": "red.{}.add.u32 {}, 1;", "atom": "atom.{}.add.u32 %r10, {}, 1;"}
READERS = [0, 31, 32, 63]
operations = pytest.mark.parametrize("operation", OPERATIONS)


def update(operation: str, space: str, address: str) -> str:
    return OPERATIONS[operation].format(space, address)


SHARED = """
    @%p1 st.shared.u32 [buf], 0;
    bar.sync 0;
    {}
    {}
    setp.eq.u32 %p2, %r1, {};
    @%p2 ld.shared.u32 %r11, [buf];{}
"""


@operations
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sync", ["", "bar.warp.sync -1;"])
def test_shared_counter_read_without_a_barrier(operation: str, reader: int, sync: str) -> None:
    """A barrier of the warp does not reach the other warp's updates, wherever the reader stands among them."""
    body = SHARED.format(update(operation, "shared", "[buf]"), sync, reader, " //!")
    breaks(body, "race")
    seed = int(np.random.default_rng().integers(1, 1000))  # then some updates may come after the read
    assert {f.rule for f in run(body, seed=seed).findings if isinstance(f, Finding)} == {"race"}, seed


@operations
@pytest.mark.parametrize("reader", READERS)
def test_shared_counter_read_behind_a_barrier(operation: str, reader: int) -> None:
    silent(SHARED.format(update(operation, "shared", "[buf]"), "bar.sync 0;", reader, ""))


@operations
def test_stores_over_a_counter(operation: str) -> None:
    """A weak store is after all updates, too; what came before it is settled by it."""
    body = SHARED.format(update(operation, "shared", "[buf]"), "{}", 63, "").replace(
        "ld.shared.u32 %r11, [buf];", "st.shared.u32 [buf], 7;{} bar.warp.sync -1; ld.shared.u32 %r12, [buf];"
    )
    body = body.replace("bar.warp.sync -1; ld", "\n    @%p2 ld")
    breaks(body.format("", " //!"), "race")
    silent(body.format("bar.sync 0;", ""))


CLUSTER = """
    @%p1 st.shared.u32 [buf], 0;
    barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %r12, %r3, 0;
    {}
    {}
    setp.eq.u32 %p2, %r2, {}; and.pred %p2, %p2, %p1;
    @%p2 ld.shared::cluster.u32 %r11, [%r12];{}
    barrier.cluster.arrive; barrier.cluster.wait;
"""


@operations
@pytest.mark.parametrize("reader", [0, 1, 3])
def test_counter_of_a_cluster(operation: str, reader: int) -> None:
    """Each CTA's own barrier says nothing about the others."""
    body = CLUSTER.format(update(operation, "shared::cluster", "[%r12]"), "{}", reader, "{}")
    breaks(body.format("bar.sync 0;", " //!"), "race", grid=4, cluster=4)
    silent(body.format("barrier.cluster.arrive; barrier.cluster.wait;", ""), grid=4, cluster=4)


LAST = """
    {}
    {}
    bar.sync 0;
    @!%p1 bra $told;
    atom.global.add.u32 %r11, [%rd2], 1;
    st.shared.u32 [buf+256], %r11;
$told:
    bar.sync 0;
    ld.shared.u32 %r12, [buf+256];
    setp.ne.u32 %p3, %r12, 2;
    @%p3 bra $end;
    {}
    ld.global.u32 %r13, [%rd2+64];{}
$end:
"""
FENCE = "fence.acq_rel.gpu;"


@operations
@pytest.mark.parametrize(("writer", "reader"), [("", ""), (FENCE, ""), ("", FENCE), ("fence.acq_rel.cta;", FENCE)])
def test_the_last_cta_reads_what_all_have_added_to(operation: str, writer: str, reader: str) -> None:
    """Every CTA updates the same word, the reader last: it knows of its own updates and of no other's."""
    body = LAST.format(update(operation, "global", "[%rd2+64]"), writer, reader, " //!")
    breaks(body, "race", grid=3)


@operations
def test_the_last_cta_reads_behind_fences(operation: str) -> None:
    silent(LAST.format(update(operation, "global", "[%rd2+64]"), FENCE, FENCE, ""), grid=3)


@operations
def test_strong_reads_of_a_counter(operation: str) -> None:
    """They may come at any time, if their scope reaches the threads that count."""
    body = update(operation, "global", "[%rd2]") + "\n    ld.relaxed.{}.global.u32 %r11, [%rd2];"
    silent(body.format("gpu"), grid=3)
    breaks(body.format("cta") + " //!", "race", grid=3)


def test_wide_atomics_meet_narrow_ones() -> None:
    """The first CTA counts with `.cta` scope and its own last update is wide: another CTA's races with the narrow ones."""
    body = """
    setp.eq.u32 %p2, %r2, 0;
    @%p2 red.relaxed.cta.global.add.u32 [%rd2], 1;
    setp.eq.u32 %p3, %r1, 63; and.pred %p3, %p3, %p2;
    @%p3 red.relaxed.gpu.global.add.u32 [%rd2], 1;
    @!%p2 red.relaxed.{}.global.add.u32 [%rd2], 1;"""
    breaks(body.format("gpu") + " //!", "race", grid=2)
    silent(body.replace("relaxed.cta", "relaxed.gpu").format("gpu"), grid=2)
