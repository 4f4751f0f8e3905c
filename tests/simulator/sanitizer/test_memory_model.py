"""PTX ISA chapter 8 clause by clause: docs/memory-model.md names these tests. The verdict on each litmus program is the one
that `litmus.Execution` computes from the chapter's definitions for the very execution that the simulator ran.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from random import Random

import pytest

from .kernels import breaks, run, silent
from .litmus import DATA, FLAG, Execution, Op, Program, Thread, describe, draw
from .litmus import run as run_litmus

LD, ST = Op("ld", at=DATA), Op("st", at=DATA, value=7)
TEST = Op("if", value=None)


def st(sem: str, scope: str = "gpu", value: int = 1, at: int = FLAG, size: int = 4) -> Op:
    return Op("st", sem, scope, at, size, value)


def ld(sem: str, scope: str = "gpu", at: int = FLAG, size: int = 4) -> Op:
    return Op("ld", sem, scope, at, size)


def atom(sem: str = "relaxed", scope: str = "gpu", kind: str = "atom", at: int = FLAG) -> Op:
    return Op(kind, sem, scope, at, 4, 1)


def fence(sem: str = "acq_rel", scope: str = "gpu") -> Op:
    return Op("fence", sem, scope)


def two(writer: list[Op], reader: list[Op], places: tuple[tuple[int, int], ...] = ((0, 0), (2, 0))) -> Program:
    return tuple(Thread(*place, tuple(ops)) for place, ops in zip(places, (writer, reader), strict=True))


MESSAGE = [st("release")], [ld("acquire"), TEST]
NEAR, FAR, PEER = ((0, 0), (0, 33)), ((0, 0), (2, 0)), ((0, 0), (1, 0))
CASES: dict[str, tuple[Program, bool]] = {
    # 8.5, 8.7: scopes include each other
    "cta-scope-within-a-cta": (two([ST, st("release", "cta")], [ld("acquire", "cta"), TEST, LD], NEAR), False),
    "cta-scope-between-ctas": (two([ST, st("release", "cta")], [ld("acquire"), TEST, LD], PEER), True),
    "cluster-scope-within-a-cluster": (two([ST, st("release", "cluster")], [ld("acquire"), TEST, LD], PEER), False),
    "cluster-scope-between-clusters": (two([ST, st("release", "cluster")], [ld("acquire"), TEST, LD], FAR), True),
    "volatile-is-relaxed-sys": (two([ST, fence(), st("volatile")], [ld("volatile"), TEST, fence(), LD]), False),
    # 8.7: complete overlap
    "sizes-of-stores": (two([st("relaxed", size=8)], [st("relaxed", value=2)]), True),
    "sizes-of-volatiles": (two([st("volatile", size=8)], [ld("volatile")]), True),
    "sizes-of-atomics": (two([st("relaxed", size=8)], [atom()]), True),
    "sizes-alike": (two([st("relaxed", size=8)], [ld("relaxed", size=8)]), False),
    # 8.7.1
    "weak-and-weak": (two([ST], [LD]), True),
    "weak-and-strong": (two([ST], [ld("relaxed", at=DATA)]), True),
    "strong-and-strong": (two([st("relaxed", at=DATA)], [ld("relaxed", at=DATA)]), False),
    "atomic-and-weak-store": (two([atom(at=DATA)], [ST]), True),
    # 8.8: release patterns
    "release-operation": (two([ST, *MESSAGE[0]], [*MESSAGE[1], LD]), False),
    "release-then-strong-write": (two([ST, st("release"), st("relaxed", value=2)], [*MESSAGE[1], LD]), False),
    "strong-write-between": (two([st("release"), ST, st("relaxed", value=2)], [*MESSAGE[1], LD]), True),
    "fence-then-strong-write": (two([ST, fence("release"), st("relaxed")], [*MESSAGE[1], LD]), False),
    "fence-then-weak-write": (two([ST, fence(), st("weak")], [*MESSAGE[1], LD]), True),
    "acquire-fence-does-not-release": (two([ST, fence("acquire"), st("relaxed")], [*MESSAGE[1], LD]), True),
    # 8.8: acquire patterns
    "acquire-operation": (two([ST, *MESSAGE[0]], [ld("acquire"), TEST, LD]), False),
    "read-then-acquire": (two([ST, *MESSAGE[0]], [ld("relaxed"), TEST, ld("acquire"), LD]), False),
    "read-then-fence": (two([ST, *MESSAGE[0]], [ld("relaxed"), TEST, fence("acquire"), LD]), False),
    "release-fence-does-not-acquire": (two([ST, *MESSAGE[0]], [ld("relaxed"), TEST, fence("release"), LD]), True),
    "red-does-not-acquire": (two([ST, *MESSAGE[0]], [atom(kind="red"), fence(), LD]), True),
    "atom-acquires": (two([ST, *MESSAGE[0]], [atom(), TEST, fence(), LD]), False),
    # 8.9.2
    "chain-of-atomics": (
        (*two([ST, st("release")], [atom()]), Thread(3, 0, (ld("acquire"), TEST, LD))), False),
    "chain-of-reductions": (
        (*two([ST, st("release")], [atom(kind="red")]), Thread(3, 0, (ld("acquire"), TEST, LD))), False),
    "chain-broken-by-a-store": (
        (*two([ST, st("release")], [st("relaxed", value=2)]), Thread(3, 0, (ld("acquire"), TEST, LD))), True),
    "chain-broken-by-a-scope": (
        (*two([ST, st("release")], [atom(scope="cta")]), Thread(3, 0, (ld("acquire"), TEST, LD))), True),
    # 8.9.3, 8.9.4
    "fence-sc": (
        two([ST, fence("sc"), ld("relaxed", at=FLAG + 8), st("relaxed")],
            [st("relaxed", at=FLAG + 8, value=9), fence("sc"), ld("relaxed"), TEST, LD]), False),
    "fence-acq-rel-in-its-place": (
        two([ST, fence(), ld("relaxed", at=FLAG + 8)],
            [st("relaxed", at=FLAG + 8, value=9), fence(), LD]), True),
    "fence-sc-of-the-cta": (
        two([ST, fence("sc", "cta"), ld("relaxed", at=FLAG + 8)],
            [st("relaxed", at=FLAG + 8, value=9), fence("sc", "cta"), LD]), True),
    "barrier": (two([ST, Op("bar")], [Op("bar"), LD], NEAR), False),
    "barrier-of-another-cta": (two([ST, Op("bar")], [Op("bar"), LD], FAR), True),
    # 8.9.5
    "cumulativity": (
        (*two([ST, st("release")], [ld("acquire"), TEST, st("release", at=FLAG + 8)]),
         Thread(3, 0, (ld("acquire", at=FLAG + 8), TEST, LD))), False),
    "observation-is-part-of-causality": (
        (Thread(0, 0, (atom(),)), Thread(2, 0, (atom(), TEST, st("weak", value=9)))), False),
    "observed-by-a-load": (two([st("relaxed")], [ld("relaxed"), TEST, ld("weak"), st("weak", value=2)]), False),
    "observation-does-not-reach-what-came-before": (two([ST, st("relaxed")], [ld("relaxed"), TEST, LD]), True),
    "observation-that-decides-nothing": (two([atom()], [atom(), st("weak", value=9)]), True),
    "reads-do-not-hide-each-other": (
        (Thread(2, 0, (LD,)), Thread(0, 0, (LD, ST))), True),
    "reads-of-three-do-not-hide-each-other": (
        (Thread(2, 0, (LD, st("release"))), Thread(1, 0, (LD,)), Thread(0, 0, (ld("acquire"), TEST, LD, ST))), True),
    "a-stronger-read-does-not-hide-a-weaker": (
        two([LD, ld("relaxed", at=DATA)], [st("relaxed", at=DATA)]), True),
    "a-stronger-write-does-not-hide-a-weaker": (
        two([ST, st("relaxed", at=DATA, value=8)], [ld("relaxed", at=DATA)]), True),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_clause(name: str) -> None:
    """The expected verdict, the chapter's on this execution, and the sanitizer's."""
    program, races = CASES[name]
    order, found = run_litmus(program)
    assert bool(Execution(program, order).races()) is races, describe(program)
    assert bool(found) is races, describe(program)


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_programs(start: int) -> None:
    """Race or not, in each execution of programs that a generator draws: as the definitions say."""
    for number in range(start, start + 20):
        random = Random(number)
        program = draw(random)
        space = "shared" if all(t.cta == 0 for t in program) else "global"
        for seed in (0, 1 + number):
            order, found = run_litmus(program, seed, space)
            want = Execution(program, order).races()
            assert bool(found) == bool(want), f"program {number}, seed {seed}\n{describe(program, space)}"


# ------------------------------------------------------------------------------------------- several threads and lanes


def test_the_last_block_resets_its_counter() -> None:
    """The one that saw the last value comes after all (8.9.5, clause 2): threadFenceReduction of the CUDA samples."""
    body = """
    @!%p1 bra $end;
    {}
    atom.global.add.u32 %r10, [%rd2], 1;
    {}
    setp.eq.u32 %p2, %r10, 3;
    @%p2 st.global.u32 [%rd2], 0;{}
$end:
"""
    silent(body.format("", "", ""), grid=4)
    silent(body.format("membar.gl;", "membar.gl;", ""), grid=4)
    breaks(
        body.replace("atom.global", "atom.cta.global").format("", "", " //!").replace("1;\n", "1; //!\n", 1),
        "race",
        grid=4,
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_reader_is_not_hidden_by_the_writers_own_read(seed: int) -> None:
    body = """
    @!%p1 bra $end;
    setp.eq.u32 %p2, %r2, 1;
    ld.global.u32 %r10, [%rd2];
    add.u32 %r10, %r10, 5;
    @%p2 st.global.u32 [%rd2], %r10;
$end:
"""
    assert {f.rule for f in run(body, grid=2, seed=seed).findings} == {"race"}  # pyright: ignore


@pytest.mark.parametrize("seed", range(6))
def test_an_atomic_is_not_another_store_of_the_same_value(seed: int) -> None:
    body = """
    @!%p1 bra $end;
    setp.eq.u32 %p2, %r2, 1;
    @%p2 st.global.u32 [%rd2], 1;
    @!%p2 atom.global.add.u32 %r10, [%rd2], 1;
$end:
"""
    assert {f.rule for f in run(body, grid=2, seed=seed).findings} == {"race"}  # pyright: ignore


# ---------------------------------------------------------------------------------------------------------- mbarriers

ARRIVE = """
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p3, %r1, 32;
    @!%p1 bra $reader;
    st.shared.u32 [buf], 7;
    {}
    bra $end;
$reader:
    @!%p3 bra $end;
$wait:
    {}
    @!%p4 bra $wait;
    {}
    ld.shared.u32 %r10, [buf];{}
$end:
    barrier.cluster.arrive; barrier.cluster.wait;
"""
WAIT = "mbarrier.try_wait.parity{}.shared.b64 %p4, [bar], 0;"


@pytest.mark.parametrize("scope", ["cta", "cluster"])
def test_fences_around_relaxed_operations_of_an_mbarrier(scope: str) -> None:
    fence, arrive, wait = f"fence.acq_rel.{scope};", "mbarrier.arrive{}.shared.b64 _, [bar];", WAIT
    relaxed, release, acquire = f".relaxed.{scope}", f".release.{scope}", f".acquire.{scope}"
    silent(ARRIVE.format(fence + arrive.format(relaxed), wait.format(acquire), "", ""))
    silent(ARRIVE.format(arrive.format(release), wait.format(relaxed), fence, ""))
    silent(ARRIVE.format(fence + arrive.format(relaxed), wait.format(relaxed), fence, ""))
    breaks(ARRIVE.format(arrive.format(relaxed), wait.format(acquire), "", " //!"), "race")
    breaks(ARRIVE.format(arrive.format(release), wait.format(relaxed), "", " //!"), "race")


def test_an_asynchronous_arrival_publishes_copies_only() -> None:
    """8.9.1.1: cp.async.mbarrier.arrive is ordered after the thread's cp.async, and after nothing else."""
    body = ARRIVE.format(
        "cp.async.ca.shared.global [buf+64], [%rd1], 4;\n    cp.async.mbarrier.arrive.noinc.shared.b64 [bar];",
        WAIT.format(""), "", "{}",
    )  # fmt: skip
    breaks(body.format(" //!"), "race")
    silent(body.format("").replace("ld.shared.u32 %r10, [buf];", "ld.shared.u32 %r10, [buf+64];"))


# ------------------------------------------------------------------------------------------------- proxies, other paths


@pytest.mark.parametrize(
    "read", ["ld.global.nc.u32 %r10, [%rd5+4];", "ld.global.nc.L1::no_allocate.u32 %r10, [%rd5+4];"]
)
def test_non_coherent_loads(read: str) -> None:
    """8.1: they are outside the model, so that no barrier orders them."""
    breaks(f"    st.global.u32 [%rd5], %r1;\n    bar.sync 0;\n    {read} //!", "non-coherent-load", block=32)
    breaks(f"    {read}\n    bar.sync 0;\n    st.global.u32 [%rd5], %r1; //!", "non-coherent-load", block=32)
    silent(f"    {read.replace('%rd5', '%rd4')}\n    bar.sync 0;\n    st.global.u32 [%rd5], %r10;")
    silent(
        f"    st.global.u32 [%rd5], %r1;\n    bar.sync 0;\n    {read.replace('.nc', '').replace('.L1::no_allocate', '')}"
    )


FENCED = """
    @!%p1 bra $other;
    st.shared.v4.u32 [buf], {{%r1, %r1, %r1, %r1}};
    {}
    cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 16;{}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    bra $end;
$other:
    {}
$end:
"""


def test_a_proxy_fence_is_for_its_memory_and_its_path() -> None:
    shared, both, other = "fence.proxy.async.shared::cta;", "fence.proxy.async;", "fence.proxy.async.global;"
    silent(FENCED.format(shared, "", ""))
    silent(FENCED.format(both, "", ""))
    silent(FENCED.format(both, "", other))
    for elsewhere in ("", shared, both):
        breaks(FENCED.format(other, " //!", elsewhere), "proxy")
        breaks(FENCED.format("", " //!", elsewhere), "proxy")


REUSED = """
    @!%p1 bra $end;
    mbarrier.init.shared.b64 [bar], 1;
    fence.mbarrier_init.release.cluster;
    st.shared.u32 [buf+512], 0;
    {}
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 16, [bar];{}
$wait:
    mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
    @!%p4 bra $wait;
    ld.shared.u32 %r11, [buf];
$end:
"""


def test_reads_before_asynchronous_writes() -> None:
    """A write after a read through another proxy needs a proxy fence, too (8.6): a warning."""
    init = "st.shared.v4.u32 [buf], {%r1, %r1, %r1, %r1}; fence.proxy.async; ld.shared.u32 %r10, [buf]; "
    found = breaks(REUSED.format(init, " //!"), "proxy-reuse")
    assert found.severity == "warning"
    silent(REUSED.format(init + "fence.proxy.async;", ""))


REPLICATED = """
    and.b32 %r20, %r1, 15; mul.wide.u32 %rd10, %r20, 4; add.s64 %rd10, %rd10, %rd2;
    setp.lt.u32 %p3, %r1, 16;
    ld.global.u32 %r21, [%rd10];
    add.u32 %r21, %r21, 1;
    {}
    {}st.global.u32 [%rd10], {};{}
"""


def test_replicated_lanes() -> None:
    """Two lanes hold one element; one of them overwrites it, as compilers do for small tensors: a warning of its own."""
    found = breaks(REPLICATED.format("", "@%p3 ", "%r21", " //!"), "replicated-lanes", block=32)
    assert found.severity == "warning"
    silent(REPLICATED.format("bar.warp.sync -1;", "@%p3 ", "%r21", ""), block=32)
    # a lane that has something else to store is not a double
    shifted = REPLICATED.format("", "", "%r21", " //!").replace("st.global.u32 [%rd10]", "st.global.u32 [%rd5]")
    breaks(shifted, "race", block=32)


def test_reductions_of_two_proxies() -> None:
    """8.7: operations through different proxies are never morally strong."""
    bulk = """
    st.shared.v4.u32 [buf], {1, 1, 1, 1};
    fence.proxy.async;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [buf], 16;{}
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""
    body = (
        "    @!%p1 bra $end;\n    setp.eq.u32 %p2, %r2, 0;\n    @%p2 bra $bulk;\n    {}\n    bra $end;\n$bulk:"
        + bulk
        + "\n$end:\n"
    )
    text = body.replace("{1, 1, 1, 1}", "{{1, 1, 1, 1}}")
    found = run(text.format("red.global.add.u32 [%rd2], 1;", ""), grid=2).findings
    assert found
    assert not run(text.format(bulk.replace("{}", ""), ""), grid=2).findings


def test_arguments_are_written_before() -> None:
    """Each byte has a value before the threads start (8.2.6): what the host gave is there for all."""
    body = "    ld.global.u32 %r10, [%rd1];\n    st.global.u32 [%rd5], %r10;"
    silent(body)


def test_the_page_names_tests_that_exist() -> None:
    """Each line of a table of docs/memory-model.md ends with the tests that hold it, and every test of the page is collected."""
    here = Path(__file__)
    page = (here.parents[3] / "docs" / "memory-model.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| clause")]
    assert len(rows) > 30
    assert all("`test_" in row.rsplit("|", 2)[1] for row in rows)
    named = re.findall(r"`(?:([\w/]+)\.py::)?(test_\w+)(?:\[([\w-]+)\])?`", page)
    assert len(named) == len(re.findall(r"`[\w/.:]*\btest_[^`]*`", page)) - 1  # the first names the file
    for file, name, case in named:
        module = importlib.import_module(f"{__package__}.{file}" if file else __name__)
        function = getattr(module, name)
        ids = [str(value) for mark in getattr(function, "pytestmark", ()) for value in mark.args[1]]
        assert not case or case in ids, f"{name} has no case {case}"
