"""The machine itself: divergence, barriers, scheduling, memory spaces, faults, launches. Kernels are written
here, results come from NumPy.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel, load, simulate
from pyptx.simulator.engine import endless

ENGINES = (None, "jit")


def ptx(body: str, parameters: str = ".param .u64 out", before: str = "", directives: str = "") -> LoadedKernel:
    """A kernel `k` with plenty of registers; %rd1 holds the first parameter, %r1 %tid.x, %r2 %ctaid.x, %r3
    the global index, %rd3 &out[%r3].
    """
    text = f""".version 8.7
.target sm_90a
.address_size 64
{before}
.visible .entry k({parameters}) {directives}
{{
    .reg .pred %p<20>;
    .reg .b16 %h<20>;
    .reg .b32 %r<40>;
    .reg .f32 %f<20>;
    .reg .b64 %rd<40>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mad.lo.s32 %r3, %r2, %r4, %r1;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
{body}
}}
"""
    return load(text)["k"]


def poison(count: int, dtype: type = np.uint32) -> np.ndarray:
    a = np.empty(count, dtype)
    a.view(np.uint8)[...] = 0xA5
    return a


@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 100), (70, 128), (2, 1024), (1, 1)])
def test_loops_of_different_length(grid: int, block: int) -> None:
    """Collatz steps: every thread leaves the loop at its own time, and a value from before the loop survives
    it.
    """
    k = ptx("""
    add.s32 %r5, %r3, 1;
    mov.u32 %r6, 0;
    shl.b32 %r11, %r1, 8;
$loop:
    setp.eq.u32 %p1, %r5, 1;
    @%p1 bra $done;
    and.b32 %r7, %r5, 1;
    setp.eq.u32 %p2, %r7, 0;
    @%p2 bra $even;
    mad.lo.u32 %r5, %r5, 3, 1;
    bra $next;
$even:
    shr.u32 %r5, %r5, 1;
$next:
    add.s32 %r6, %r6, 1;
    bra $loop;
$done:
    add.s32 %r6, %r6, %r11;
    st.global.u32 [%rd3], %r6;
    ret;""")
    out = poison(grid * block)
    report = k.simulate(out, grid=grid, block=block)

    def collatz(n: int) -> int:
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    steps = [collatz(i + 1) for i in range(grid * block)]
    assert out.tolist() == [s + (i % block) * 256 for i, s in enumerate(steps)]
    assert report.opcodes["setp"] == sum(2 * s + 1 for s in steps)


def test_guards() -> None:
    """Guarded instructions leave their destination alone, also of loads, and in divergent code."""
    k = ptx("""
    setp.lt.u32 %p1, %r1, 10;
    mov.u32 %r5, 7;
    @%p1 mov.u32 %r5, 8;
    @!%p1 add.s32 %r5, %r5, 100;
    setp.gt.u32 %p2, %r1, 20;
    mov.u64 %rd5, 0;
    @!%p2 add.s64 %rd5, %rd3, 0;
    @!%p2 ld.global.u32 %r6, [%rd5];
    @%p2 mov.u32 %r6, 1;
    add.s32 %r5, %r5, %r6;
    @%p2 bra $far;
    @%p1 add.s32 %r5, %r5, 1000;
    @!%p1 add.s32 %r5, %r5, 2000;
$far:
    @%p2 st.global.u32 [%rd3], %r5;
    @%p2 exit;
    st.global.u32 [%rd3], %r5;
    ret;""")
    out = np.arange(40, dtype=np.uint32) * 5
    k.simulate(out, grid=1, block=40)
    want = []
    for i in range(40):
        v = (8 if i < 10 else 107) + (5 * i if i <= 20 else 1)
        if i <= 20:
            v += 1000 if i < 10 else 2000
        want.append(v)
    assert out.tolist() == want


@pytest.mark.parametrize("block", [64, 96, 1024])
def test_block_reduction(block: int) -> None:
    """A tree in shared memory with barriers in a loop, several CTAs at once."""
    k = ptx(
        """
    mov.u32 %r10, s;
    shl.b32 %r11, %r1, 2;
    add.s32 %r12, %r10, %r11;
    ld.global.u32 %r5, [%rd3];
    st.shared.u32 [%r12], %r5;
    mov.u32 %r6, 512;
$loop:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r6;
    add.s32 %r7, %r1, %r6;
    setp.ge.u32 %p2, %r7, %r4;
    or.pred %p3, %p1, %p2;
    @%p3 bra $skip;
    shl.b32 %r8, %r7, 2;
    add.s32 %r8, %r10, %r8;
    ld.shared.u32 %r9, [%r8];
    ld.shared.u32 %r5, [%r12];
    add.s32 %r5, %r5, %r9;
    st.shared.u32 [%r12], %r5;
$skip:
    shr.u32 %r6, %r6, 1;
    setp.ne.u32 %p4, %r6, 0;
    @%p4 bra $loop;
    bar.sync 0;
    ld.shared.u32 %r5, [s];
    st.global.u32 [%rd3], %r5;
    ret;""",
        before=".shared .align 4 .b8 s[4096];",
    )
    given = np.random.default_rng(block).integers(0, 2**32, (5, block), dtype=np.uint32)
    out = given.copy()
    k.simulate(out, grid=5, block=block)
    assert np.array_equal(out, np.repeat(given.sum(axis=1, dtype=np.uint32)[:, None], block, axis=1))


def test_dynamic_shared_memory_and_generic_addresses() -> None:
    """One load instruction sees shared, local and global memory through generic addresses, thread by
    thread.
    """
    k = ptx(
        """
    .local .align 4 .b8 mine[16];
    mov.u32 %r10, dyn;
    cvta.shared.u64 %rd10, dyn;
    shl.b32 %r11, %r1, 2;
    add.s32 %r12, %r10, %r11;
    mul.lo.s32 %r13, %r1, 3;
    st.shared.u32 [%r12], %r13;
    mov.u64 %rd11, mine;
    cvta.local.u64 %rd12, %rd11;
    mul.lo.s32 %r14, %r1, 5;
    st.local.u32 [%rd11+8], %r14;
    bar.sync 0;
    mul.wide.u32 %rd13, %r1, 4;
    add.s64 %rd14, %rd10, %rd13;
    add.s64 %rd15, %rd12, 8;
    rem.u32 %r15, %r1, 3;
    setp.eq.u32 %p1, %r15, 0;
    setp.eq.u32 %p2, %r15, 1;
    selp.b64 %rd16, %rd14, %rd15, %p1;
    selp.b64 %rd16, %rd3, %rd16, %p2;
    ld.u32 %r16, [%rd16];
    isspacep.shared %p3, %rd16;
    isspacep.local %p4, %rd16;
    isspacep.global %p5, %rd16;
    selp.u32 %r17, 1000, 0, %p3;
    selp.u32 %r18, 2000, 0, %p4;
    selp.u32 %r19, 4000, 0, %p5;
    add.s32 %r16, %r16, %r17;
    add.s32 %r16, %r16, %r18;
    add.s32 %r16, %r16, %r19;
    st.u32 [%rd3], %r16;
    ret;""",
        before=".extern .shared .align 16 .b8 dyn[];",
    )
    out = (np.arange(3 * 64) * 7).astype(np.uint32)
    k.simulate(out, grid=3, block=64, smem=256)
    want = []
    for i in range(3 * 64):
        t = i % 64
        want.append([3 * t + 1000, 7 * i + 4000, 5 * t + 2000][t % 3])
    assert out.tolist() == want


def test_named_barriers_between_producer_and_consumer() -> None:
    """Half the CTA arrives at one barrier and waits at another; the other half does the opposite."""
    k = ptx(
        """
    setp.ge.u32 %p1, %r1, 64;
    mov.u32 %r10, s;
    and.b32 %r11, %r1, 63;
    shl.b32 %r12, %r11, 2;
    add.s32 %r12, %r10, %r12;
    mov.u32 %r20, 0;
    mov.u32 %r21, 0;
    @%p1 bra $consumer;
$produce:
    bar.sync 2, 128;
    mad.lo.u32 %r13, %r20, 100, %r11;
    st.shared.u32 [%r12], %r13;
    bar.arrive 1, 128;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 5;
    @%p2 bra $produce;
    bra $end;
$consumer:
    bar.arrive 2, 128;
$consume:
    bar.sync 1, 128;
    ld.shared.u32 %r14, [%r12];
    add.s32 %r21, %r21, %r14;
    add.s32 %r20, %r20, 1;
    setp.lt.u32 %p2, %r20, 5;
    @!%p2 bra $end;
    bar.arrive 2, 128;
    bra $consume;
$end:
    st.global.u32 [%rd3], %r21;
    ret;""",
        before=".shared .align 4 .b8 s[256];",
    )
    out = poison(4 * 128)
    k.simulate(out, grid=4, block=128)
    sums = [sum(100 * i + t for i in range(5)) for t in range(64)]
    assert out.reshape(4, 128).tolist() == [[0] * 64 + sums] * 4


def test_spinning_threads_let_others_go_on() -> None:
    """Thread 0, at the lower address, spins on a flag that thread 1 of the same warp sets later; a lock is
    handed around.
    """
    k = ptx("""
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $others;
$spin:
    ld.volatile.global.u32 %r5, [%rd1];
    setp.lt.u32 %p2, %r5, 31;
    @%p2 bra $spin;
    st.global.u32 [%rd1+4], %r5;
    ret;
$others:
    atom.global.add.u32 %r6, [%rd1], 1;
    ret;""")
    out = np.zeros(2, np.uint32)
    k.simulate(out, grid=1, block=32)
    assert out.tolist() == [31, 31]


def test_lock() -> None:
    """A spin lock around a read-modify-write: mutual exclusion and progress."""
    k = ptx("""
$try:
    atom.global.cas.b32 %r5, [%rd1], 0, 1;
    setp.ne.u32 %p1, %r5, 0;
    @%p1 bra $try;
    ld.global.u32 %r6, [%rd1+4];
    add.s32 %r6, %r6, 1;
    st.global.u32 [%rd1+4], %r6;
    atom.global.exch.b32 %r7, [%rd1], 0;
    ret;""")
    out = np.zeros(2, np.uint32)
    k.simulate(out, grid=3, block=64)
    assert out.tolist() == [0, 192]


def test_warp_instructions_in_divergent_code() -> None:
    """shfl, vote and redux among half a warp, while the other half waits at another place; threads arrive
    one after the other.
    """
    k = ptx("""
    and.b32 %r5, %r1, 1;
    setp.eq.u32 %p1, %r5, 1;
    mov.u32 %r6, %r1;
    @%p1 bra $odd;
$wait:
    add.s32 %r6, %r6, 2;
    setp.lt.u32 %p2, %r6, 40;
    @%p2 bra $wait;
    redux.sync.add.s32 %r10, %r1, 0x55555555;
    shfl.sync.bfly.b32 %r11, %r1, 2, 31, 0x55555555;
    vote.sync.ballot.b32 %r12, %p2, 0x55555555;
    bra $join;
$odd:
    redux.sync.max.s32 %r10, %r1, 0xaaaaaaaa;
    shfl.sync.up.b32 %r11|%p3, %r1, 4, 0, 0xaaaaaaaa;
    activemask.b32 %r12;
$join:
    bar.warp.sync 0xffffffff;
    mad.lo.u32 %r10, %r10, 1000, %r11;
    add.u32 %r10, %r10, %r12;
    st.global.u32 [%rd3], %r10;
    ret;""")
    out = poison(64)
    k.simulate(out, grid=1, block=64)
    want = []
    for i in range(64):
        warp = [32 * (i // 32) + j for j in range(32)]
        if i % 2:
            v = max(warp) * 1000 + (i - 4 if i % 32 >= 4 else i) + 0xAAAAAAAA
        else:
            v = sum(warp[::2]) * 1000 + (i ^ 2)
        want.append(v % 2**32)
    assert out.tolist() == want


def test_several_batches_do_not_mix() -> None:
    """More CTAs than run at once: each sees fresh shared memory and its own index."""
    k = ptx(
        """
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $skip;
    mov.u32 %r5, 0;
    st.shared.u32 [s], %r5;
$skip:
    bar.sync 0;
    atom.shared.add.u32 %r6, [s], %r2;
    bar.sync 0;
    ld.shared.u32 %r7, [s];
    st.global.u32 [%rd3], %r7;
    ret;""",
        before=".shared .align 4 .u32 s;",
    )
    out = poison(300 * 64)
    k.simulate(out, grid=300, block=64)
    assert np.array_equal(out.reshape(300, 64), np.repeat(np.arange(300)[:, None] * 64, 64, axis=1))


def test_grid_and_block_in_three_dimensions() -> None:
    k = ptx("""
    mov.u32 %r5, %tid.x; mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.z;
    mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ctaid.y; mov.u32 %r10, %ctaid.z;
    mov.u32 %r11, %ntid.x; mov.u32 %r12, %ntid.y; mov.u32 %r13, %ntid.z;
    mov.u32 %r14, %nctaid.x; mov.u32 %r15, %nctaid.y;
    mad.lo.u32 %r16, %r10, %r15, %r9;
    mad.lo.u32 %r16, %r16, %r14, %r8;
    mad.lo.u32 %r16, %r16, %r13, %r7;
    mad.lo.u32 %r16, %r16, %r12, %r6;
    mad.lo.u32 %r16, %r16, %r11, %r5;
    mul.wide.u32 %rd5, %r16, 4;
    add.s64 %rd5, %rd1, %rd5;
    st.global.u32 [%rd5], %r16;
    ret;""")
    out = poison(5 * 3 * 2 * 4 * 3 * 2)
    k.simulate(out, grid=(5, 3, 2), block=(4, 3, 2))
    assert np.array_equal(out, np.arange(out.size))


def test_wider_registers_extend() -> None:
    k = ptx("""
    ld.global.s8 %r5, [%rd3];
    ld.global.u8 %rd5, [%rd3+1];
    ld.global.s16 %rd6, [%rd3+2];
    cvt.u32.u64 %r6, %rd5;
    shr.s64 %rd7, %rd6, 32;
    cvt.u32.u64 %r7, %rd7;
    add.s32 %r5, %r5, %r6;
    add.s32 %r5, %r5, %r7;
    st.global.u8 [%rd3], %rd6;
    st.global.u16 [%rd3+2], %r5;
    ret;""")
    given = np.random.default_rng(3).integers(0, 2**32, 96, dtype=np.uint32)
    out = given.copy()
    k.simulate(out, grid=3, block=32)
    b = given.view(np.uint8).reshape(-1, 4)
    total = b[:, 0].view(np.int8).astype(np.int64) + b[:, 1] - (b[:, 3] >= 128)
    got = out.view(np.uint8).reshape(-1, 4)
    assert np.array_equal(got[:, 0], b[:, 2])
    assert np.array_equal(got[:, 1], b[:, 1])
    assert np.array_equal(out.view(np.uint16).reshape(-1, 2)[:, 1], total.astype(np.uint16))


#
#
#
#
# ------------------------------------------------------------------------------------------------------------ faults


def fault(k: LoadedKernel, *args: object, **launch: object) -> str:
    with pytest.raises(SimulationError) as caught:
        k.simulate(*args, **launch)  # pyright: ignore[reportArgumentType]
    return str(caught.value)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("ld.global.u32 %r5, [%rd3];", ("load of 4 bytes at", "past the end of out " "(argument 0) (256 bytes", "`ld.global.u32 %r5, [%rd3];`")),
        ("st.global.u32 [%rd3+-1024], %r5;", ("store of 4 bytes", "before out")),
        ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];", ("misaligned", "divisible by 16")),
        ("ld.global.u16 %h1, [%rd1+1];", ("misaligned", "divisible by 2")),
        ("ld.shared.u32 %r5, [s+64];", ("outside the shared memory of the CTA (64 bytes",)),
        ("ld.shared.u8 %r5, [s+-1];", ("outside the shared memory",)),
        ("mov.u32 %r6, s; cvt.u64.u32 %rd5, %r6; ld.u32 %r5, [%rd5];", ("cvta is missing",)),
        ("mov.u64 %rd5, 0; st.global.u32 [%rd5], %r5;", ("out of bounds",)),
        ("mov.u64 %rd5, mine; ld.local.u32 %r5, [%rd5+16];", ("local memory of the thread (",)),
        ("st.global.u32 [table], %r5;", ("not",)),
        ("trap;", ("trapped",)),
    ],
)  # fmt: skip
def test_faults_name_their_place(access: str, words: tuple[str, ...]) -> None:
    k = ptx(
        f"    .local .align 4 .b8 mine[16];\n    mov.u32 %r5, 3;\n    {access}\n    ret;",
        before=".shared .align 4 .b8 s[64];\n.const .align 4 .b8 table[16] = {1, 2};",
    )
    if access.startswith("st.global.u32 [table]"):
        words = ("read-only",)
    text = fault(k, np.zeros(64, np.uint32), grid=3, block=32)
    for word in words:
        assert word in text, text
    assert "of CTA (" in text
    assert "<ptx>:" in text


def test_the_thread_that_faults_is_named() -> None:
    k = ptx("    setp.lt.u32 %p1, %r1, 37;\n    @%p1 exit;\n    st.global.u32 [%rd3], %r1;\n    ret;")
    text = fault(k, np.zeros(37 + 64, np.uint32), grid=2, block=64)
    assert "thread (37, 0, 0) of CTA (1, 0, 0)" in text
    assert "0 bytes past the end" in text


def test_deadlocks_say_who_waits_where() -> None:
    k = ptx(
        "    setp.ge.u32 %p1, %r1, 48;\n    @%p1 bra $b;\n    bar.sync 1, "
        "96;\n    ret;\n$b:\n    bar.sync 2, 64;\n    ret;"
    )
    text = fault(k, np.zeros(64, np.uint32), grid=1, block=64)
    assert text.count("deadlock") == 2
    assert "48 threads" in text
    assert "16 threads" in text
    assert "bar.sync 1, 96" in text


def test_endless_loops_stop() -> None:
    k = ptx("$l:\n    add.s32 %r1, %r1, 1;\n    bra $l;\n    ret;")
    text = fault(k, np.zeros(64, np.uint32), grid=1, block=64, max_steps=10_000)
    assert "10000 steps" in text
    assert "bra $l" in text


_TREE = """
.func (.param .b32 r) f(.param .b32 n)
{
    .reg .b32 %q<5>; .reg .pred %p<2>;
    ld.param.b32 %q1, [n]; setp.eq.u32 %p1, %q1, 0; mov.b32 %q4, 1; @%p1 bra $z;
    sub.u32 %q1, %q1, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %q1; call (b), f, (a); ld.param.b32 %q2, [b]; }
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %q1; call (b), f, (a); ld.param.b32 %q3, [b]; }
    add.u32 %q4, %q2, %q3; add.u32 %q4, %q4, 1;
$z: st.param.b32 [r], %q4; ret;
}
"""


@pytest.mark.parametrize("depth", [13, 14])
def test_long_recursion_is_no_endless_loop(depth: int) -> None:
    """The same function is called again and again with the same registers: who called it is part of the state."""
    call = (
        f"mov.b32 %r1, {depth}; {{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), f, (a); "
        "ld.param.b32 %r5, [b]; } st.global.u32 [%rd1], %r5; ret;"
    )
    out = poison(32)
    simulate(ptx(call, before=_TREE), out, grid=1, block=32, check=False)
    assert out[0] == 2 ** (depth + 1) - 1


def test_a_wait_for_the_clock_is_no_endless_loop() -> None:
    body = (
        "$l: mov.u32 %r1, %clock; and.b32 %r1, %r1, 0x20000; setp.eq.u32 %p1, %r1, 0; mov.b32 %r1, 0; @%p1 bra $l; "
        "mov.b32 %r5, 7; st.global.u32 [%rd1], %r5; ret;"
    )
    out = poison(32)
    simulate(ptx(body), out, grid=1, block=32, check=False)
    assert out[0] == 7


@pytest.mark.parametrize(
    "body",
    [
        "$l: bra $l;",
        "$l: add.u32 %r5, %r1, 1; st.global.u32 [%rd3], %r5; setp.lt.u32 %p1, %r1, 64; @%p1 bra $l;",  # no increment
        "$l: ld.volatile.global.u32 %r5, [%rd1]; setp.eq.u32 %p1, %r5, 0; @%p1 bra $l;",  # nobody writes it
        "$l: xor.b32 %r1, %r1, 1; bra $l;",
        "setp.lt.u32 %p2, %r1, 16; @%p2 bra $b; $l: xor.b32 %r5, %r1, 3; bra $l; $b: bar.sync 0;",
    ],
)
def test_loops_that_come_back_to_the_same_state(body: str) -> None:
    """It is a proof, so it comes long before any limit, without one."""
    begin = time.monotonic()
    text = fault(ptx(body + " ret;"), np.zeros(64, np.uint32), grid=1, block=64, check=False)
    assert "never ends: all registers, memory and barriers are as they were" in text
    assert "<ptx>:" in text
    assert "bra $l" in text
    assert time.monotonic() - begin < 20


OVERSHOOT = "mov.u32 %r5, 0; $l: add.u32 %r5, %r5, 2;{} setp.ne.u32 %p1, %r5, 7; @%p1 bra $l; ret;"


def test_loops_that_change_registers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless, "QUIET_STEPS", 200_000)
    monkeypatch.setattr(endless, "QUIET_SECONDS", 0.1)
    text = fault(ptx(OVERSHOOT.format("")), np.zeros(64, np.uint32), grid=1, block=64)
    assert "nothing was stored, copied or exchanged" in text
    assert "max_steps=" in text
    monkeypatch.setattr(endless, "MOST_STEPS", 300_000)
    text = fault(ptx(OVERSHOOT.format(" st.global.u32 [%rd3], %r5;")), np.zeros(64, np.uint32), grid=1, block=64)
    assert "stopped after 300,000 steps" in text


def test_loops_that_end_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that wait for the clock, for another warp that computes for long, or toggle for a while."""
    monkeypatch.setattr(endless, "FIRST_LOOK", 64)
    out = np.zeros(64, np.uint32)
    bodies = [
        "mov.u32 %r5, %clock; $l: mov.u32 %r6, %clock; sub.u32 %r6, %r6, %r5; setp.lt.u32 %p1, %r6, 3000; @%p1 bra $l;",
        "setp.lt.u32 %p2, %r1, 32; @%p2 bra $work; $l: ld.volatile.global.u32 %r5, [%rd1+128]; setp.eq.u32 %p1, %r5, 0;"
        "@%p1 bra $l; bra $e; $work: mov.u32 %r5, 0; $m: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 5000; @%p1 bra $m;"
        "st.volatile.global.u32 [%rd1+128], %r5; $e:",
        "mov.u32 %r5, 0; $l: st.global.u32 [%rd3], %r1; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 5000; @%p1 bra $l;",
    ]
    for body in bodies:
        ptx(body + " st.global.u32 [%rd3], 9; ret;").simulate(out, grid=1, block=64, check=False)
        assert (out == 9).all()
        out[...] = 0


@pytest.mark.parametrize(
    ("args", "launch", "words"),
    [
        ((), {"grid": 1, "block": 32}, "takes 2 arguments, not 0"),
        ((0, 1), {"grid": 1, "block": 1025}, "at most 1024"),
        ((0, 1), {"grid": 0, "block": 32}, "positive"),
        ((0, 1), {"grid": 3, "block": 32, "cluster": 2}, "does not divide"),
        ((0, 1), {"grid": 32, "block": 32, "cluster": 32}, "at most 16"),
        ((0, 1), {"grid": 1, "block": 32, "smem": 300_000}, "exceed"),
        ((0, 1), {"grid": 1, "block": 32, "smem": -4}, "cannot be negative"),
        ((0, 1), {"grid": 1, "block": 32, "smem": 1.5}, "smem must be an integer, not 1.5"),
        ((0, 1), {"grid": 1, "block": 32, "seed": "a"}, "seed must be an integer, not 'a'"),
        ((0, 1), {"grid": 1, "block": 32, "max_steps": "9"}, "max_steps must be an integer, not '9'"),
        ((0, 1), {"grid": 1, "block": 32, "max_steps": 0}, "needs a step at least"),
        ((0, 1), {"grid": 1}, "needs grid= and block="),
        ((0, 2**40), {"grid": 1, "block": 32}, "does not fit"),
        ((0, 1.5), {"grid": 1, "block": 32}, "not a float"),
        ((0, "x"), {"grid": 1, "block": 32}, "cannot be str"),
        ((0, np.zeros(3, np.float32)[None].T[:, ::2]), {"grid": 1, "block": 32}, "argument 1"),
        ((np.zeros((4, 4))[:, ::2], 1), {"grid": 1, "block": 32}, "not contiguous"),
        ((np.zeros(4, ">f4"), 1), {"grid": 1, "block": 32}, "big-endian"),
        ((np.ma.masked_array(np.zeros(4, np.float32)), 1), {"grid": 1, "block": 32}, "masked array"),
        ((np.array([None]), 1), {"grid": 1, "block": 32}, "Python objects"),
    ],
)  # fmt: skip
def test_bad_launches(args: tuple[object, ...], launch: dict[str, object], words: str) -> None:
    k = ptx("    ret;", ".param .u64 out, .param .u32 n")
    assert words in fault(k, *args, **launch)


def test_what_needs_too_much_memory_says_so() -> None:
    k = ptx("    .local .align 8 .b8 big[600000];\n    ret;")
    assert "600,016 bytes of local memory" in fault(k, 0, grid=1, block=32)
    k = ptx("    .local .align 8 .b8 big[500000];\n    ret;")
    text = fault(k, 0, grid=16, block=1024, cluster=16)
    assert "GiB of host memory" in text
    assert "16 CTAs of 1024 threads" in text


def test_an_interrupt_ends_a_launch_at_once() -> None:
    k = ptx("$l:\n    add.s32 %r1, %r1, 1;\n    bra $l;\n    ret;")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    gc.disable()  # hypothesis has a callback there, which would lose an interrupt
    try:
        for check in (True, False):
            timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            begin = time.monotonic()
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                k.simulate(np.zeros(64, np.uint32), grid=1, block=64, max_steps=10**7, check=check)
            assert time.monotonic() - begin < 5
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)


def test_launch_bounds_are_kept() -> None:
    k = ptx("    ret;", directives=".reqntid 64, 1, 1")
    assert ".reqntid" in fault(k, 0, grid=1, block=32)
    k.simulate(0, grid=1)
    k = ptx("    ret;", directives=".maxntid 64, 1, 1")
    assert ".maxntid" in fault(k, 0, grid=1, block=128)


def test_unknown_entry_and_function() -> None:
    with pytest.raises(SimulationError, match="declared but not defined"):
        ptx("    call far;\n    ret;", before=".extern .func far;").simulate(0, grid=1, block=32)


def test_empty_arrays_and_shared_arguments() -> None:
    k = ptx(
        "    ld.global.u32 %r5, [%rd3];\n    ld.param.u64 %rd5, [b];\n    add.s64 "
        "%rd5, %rd5, %rd2;\n    st.global.u32 [%rd5], %r5;\n    ret;",
        ".param .u64 out, .param .u64 b",
    )
    a = np.arange(64, dtype=np.uint32)
    k.simulate(a, a, grid=2, block=32)  # the same array twice is one allocation
    assert "out of bounds" in fault(k, np.zeros(0, np.uint32), a, grid=1, block=32)
    frozen = np.zeros(32, np.uint32)
    frozen.flags.writeable = False
    assert "read-only" in fault(k, a, frozen, grid=1, block=32)


def test_torch_tensors_are_changed_in_place() -> None:
    torch = pytest.importorskip("torch")
    k = ptx("    ld.global.u32 %r5, [%rd3];\n    add.s32 %r5, %r5, 1;\n    st.global.u32 [%rd3], %r5;\n    ret;")
    t = torch.arange(64, dtype=torch.int32)
    k.simulate(t, grid=2, block=32)
    assert t.tolist() == list(range(1, 65))
    assert "not contiguous" in fault(k, torch.zeros(8, 8).T, grid=1, block=32)


def test_module_variables_keep_their_values() -> None:
    k = ptx(
        "    atom.global.add.u32 %r5, [count], 1;\n    st.global.u32 [%rd3], %r5;\n    ret;",
        before=".global .align 4 .u32 count = 5;",
    )
    out = poison(32)
    k.simulate(out, grid=1, block=32)
    assert out.tolist() == list(range(5, 37))
    k.simulate(out, grid=1, block=32)
    assert out.tolist() == list(range(37, 69))
    assert k.variable("count").view(np.uint32)[0] == 69


def test_simulate_takes_modules_and_kernels() -> None:
    k = ptx("    st.global.u32 [%rd3], %r3;\n    ret;")
    for kernel in (k, k.module, k.loaded.entries["k"]):
        out = poison(64)
        simulate(kernel, out, grid=2, block=32)
        assert np.array_equal(out, np.arange(64))
    with pytest.raises(SimulationError, match="takes a kernel"):
        simulate(3, grid=1, block=1)


def test_what_stands_before_a_cluster_barrier_runs_once() -> None:
    """All threads are together at the barrier, which makes the engine leave its fast path there."""
    k = ptx("""
    mov.u32 %r5, 1;
    add.u32 %r5, %r5, 1;
    barrier.cluster.arrive;
    add.u32 %r5, %r5, 5;
    barrier.cluster.wait;
    st.global.u32 [%rd3], %r5;
    ret;""")
    out = poison(64)
    k.simulate(out, grid=1, block=64)
    assert out.tolist() == [7] * 64


PER_CTA = """.version 9.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 sizes) .minperctamemory 1500 .language "ptx"
{
.reg .b32 %r<9>; .reg .b64 %d<9>;
ld.param.u64 %d1, [out]; ld.param.u64 %d5, [sizes];
mov.u32 %r1, %ctaid.x; mov.u32 %r5, %nctaid.x; mov.u32 %r6, %ctaid.y; mad.lo.u32 %r1, %r6, %r5, %r1;
mov.u64 %d2, %perctamemoryoffset; mov.u32 %r2, %perctamemorysize;
cvt.u64.u32 %d3, %r2; add.u64 %d4, %d2, %d3;
st.global.u32 [%d2], %r1; st.global.u32 [%d4+-4], %r1;
ld.global.u32 %r3, [%d2]; ld.global.u32 %r4, [%d4+-4]; add.u32 %r3, %r3, %r4;
mul.wide.u32 %d6, %r1, 4; add.u64 %d1, %d1, %d6; add.u64 %d5, %d5, %d6;
st.global.u32 [%d1], %r3; st.global.u32 [%d5], %r2;
ret;
}
"""


def test_each_cta_has_global_memory_of_its_own() -> None:
    """.minperctamemory: a slice of at least that, a multiple of 1024 bytes, that no other CTA writes to."""
    out, sizes = np.full(6, 99, np.uint32), np.full(6, 99, np.uint32)
    load(PER_CTA)["k"].simulate(out, sizes, grid=(3, 2), block=1)
    assert np.array_equal(out, 2 * np.arange(6))
    assert (sizes >= 1500).all() and not (sizes % 1024).any()
    beyond = PER_CTA.replace("[%d4+-4], %r1", "[%d4], %r1").replace("ld.global.u32 %r4, [%d4+-4]", "mov.u32 %r4, 0")
    with pytest.raises(SimulationError, match="the CTAs' own memory"):
        load(beyond)["k"].simulate(out, sizes, grid=(1, 1), block=1)
    with pytest.raises(SimulationError, match="minperctamemory"):
        load(PER_CTA.replace("1500", "4294966272"))["k"].simulate(out, sizes, grid=(1 << 20, 1), block=1)
