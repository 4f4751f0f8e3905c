"""What a deadlock is told as: the cause first, once for all CTAs, barriers by their symbols (PTX ISA 9.7.15)."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx import Tile, kernel, ptx, simulate, smem
from pyptx.diagnostics import SimulationError
from pyptx.types import u32

from .kernels import run

WAIT = "{label}: mbarrier.try_wait.parity.shared.b64 %p9, [{bar}], {parity};\n    @!%p9 bra {label};\n"
INIT = """    @%p1 mbarrier.init.shared.b64 [bar+8], {count};
    bar.sync 0;
    setp.lt.u32 %p2, %r1, 32;
"""


def deadlock(body: str, **launch: int) -> list[str]:
    """The findings of a deadlock in the order in which they are told, each with its hint."""
    with pytest.raises(SimulationError) as caught:
        run(body, **launch)  # pyright: ignore[reportArgumentType]
    return [d.render() for d in caught.value.diagnostics]


def test_one_deadlock_is_told_once_for_all_ctas() -> None:
    (told,) = deadlock(INIT.format(count=65) + "    mbarrier.arrive.shared.b64 _, [bar+8];\n"
                       + WAIT.format(label="$w", bar="bar+8", parity=0), grid=6)  # fmt: skip
    assert "64 threads in each of 6 CTAs poll the mbarrier bar[1]" in told
    assert "64 arrivals have come" in told
    assert "count of mbarrier.init is 65" in told
    assert "parity that" not in told  # the count is too large, the parity is right


@pytest.mark.parametrize("grid", [1, 3])
def test_a_barrier_in_one_role_is_told_before_the_mbarrier_that_waits_for_it(grid: int) -> None:
    """Warp 0 has a bar.sync for the whole CTA before its arrive; warp 1 polls and never comes to it."""
    body = (
        INIT.format(count=1)
        + "    @!%p2 bra $consumer;\n    bar.sync 0;\n    @%p1 mbarrier.arrive.shared.b64 _, [bar+8];\n"
        "    bra $end;\n$consumer:\n" + WAIT.format(label="$w", bar="bar+8", parity=0) + "$end:\n"
    )
    first, second = deadlock(body, grid=grid)
    assert "wait at barrier 0: 32 of 64 threads have come" in first
    assert "in a branch" in first
    assert "parity" not in first
    assert "poll the mbarrier bar[1]" in second
    assert "may follow from the one at line" in second
    assert "parity that" not in second


def test_a_count_that_is_too_large_comes_before_those_who_wait_behind_it() -> None:
    """Warp 1 waits for full, which warp 0 completes only after its own barrier of 96 threads."""
    body = (
        INIT.format(count=1)
        + "    @!%p2 bra $consumer;\n    bar.sync 1, 96;\n    @%p1 mbarrier.arrive.shared.b64 _, [bar+8];\n"
        "    bra $end;\n$consumer:\n" + WAIT.format(label="$w", bar="bar+8", parity=0) + "    bar.sync 1, 96;\n$end:\n"
    )
    first, second = deadlock(body)
    assert "32 of 96 threads have come" in first
    assert "thread count of the barrier, 96, is too large: at most 64" in first
    assert "poll the mbarrier" in second


def test_a_cluster_barrier_in_one_role() -> None:
    body = (
        INIT.format(count=1) + "    @!%p2 bra $consumer;\n    barrier.cluster.arrive;\n    barrier.cluster.wait;\n"
        "    @%p1 mbarrier.arrive.shared.b64 _, [bar+8];\n    bra $end;\n$consumer:\n"
        + WAIT.format(label="$w", bar="bar+8", parity=0) + "$end:\n"
    )  # fmt: skip
    first, second = deadlock(body, grid=2, cluster=2)
    assert "32 threads in each of 2 CTAs wait for the barrier of the cluster: 64 of 128 threads have arrived" in first
    assert "barrier.cluster.arrive" in first.split("hint: ")[1]
    assert "poll the mbarrier bar[1]" in second
    assert "parity that" not in second


def test_a_wait_for_the_cluster_without_an_arrive() -> None:
    (told,) = deadlock("    barrier.cluster.wait;\n", grid=2, cluster=2)
    assert "have not" in told
    assert "barrier.cluster.arrive before barrier.cluster.wait" in told


def test_an_mbarrier_that_nobody_arrives_at() -> None:
    (told,) = deadlock(INIT.format(count=1) + WAIT.format(label="$w", bar="bar+8", parity=0))
    assert "1 of 1 arrivals" in told
    assert "is an arrival missing, or the parity" in told


@pytest.mark.parametrize("words", [64, 20_000])
def test_traced_kernels_name_their_python(words: int) -> None:
    """Static and dynamic shared memory, by the names that the author gave."""

    @kernel(arch="sm_90a", in_specs=[], out_specs=[Tile(32, u32)], grid=1, block=32)
    def k(out):
        buffer = smem.alloc(u32, words)
        full = smem.mbarrier(4)
        with ptx.if_(ptx.special.tid.x() == 0):
            ptx.mbarrier.init(full[1], 2)
        ptx.bar.sync(0)
        buffer[ptx.special.tid.x(),] = 1
        ptx.mbarrier.wait(full[1], 0)
        (ptx.pointer(out) + ptx.special.tid.x()).store(buffer[0,])

    with pytest.raises(SimulationError, match=r"poll the mbarrier full\[1\] "):
        simulate(k, np.zeros(32, np.uint32))
