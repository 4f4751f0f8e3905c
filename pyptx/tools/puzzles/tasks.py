"""The puzzles, in their order."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .puzzle import Arrays, Puzzle

__all__ = ["PUZZLES"]

Rng = np.random.Generator


def _floats(rng: Rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _whole(rng: Rng, *shape: int) -> np.ndarray:
    """Whole numbers as f32: sums of them are exact in any order."""
    return rng.integers(-50, 50, shape).astype(np.float32)


def _half(rng: Rng, *shape: int) -> np.ndarray:
    return rng.integers(-8, 8, shape).astype(ml_dtypes.bfloat16)


def _chunks(rng: Rng) -> Arrays:
    return (_whole(rng, 128 * int(rng.integers(4, 12))),)


def _column_sums(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, 128).sum(axis=0)


PUZZLES = (
    Puzzle(
        1,
        "Add",
        "out[i] = x[i] + y[i], with 256 threads for 256 elements.",
        """\
@kernel(in_specs=[Tile(256, f32), Tile(256, f32)], out_specs=[Tile(256, f32)], grid=1, block=256)
def answer(x, y, out):
    i = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_floats(rng, 256), _floats(rng, 256)),
        lambda x, y: x + y,
        ("(ptx.pointer(x) + i).load() is x[i].", "(ptx.pointer(out) + i).store(v) sets out[i]."),
    ),
    Puzzle(
        2,
        "Stay inside",
        "out[i] = 2 * x[i] for N elements. N is not always a multiple of 128, and no thread may touch what is outside.",
        """\
@kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=lambda N: (N + 127) // 128, block=128)
def answer(x, out, *, N=None):
    i = reg.from_(ptx.special.ctaid.x() * 128 + ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_floats(rng, int(rng.integers(130, 500)) | 1),),
        lambda x: 2 * x,
        ("i < N is a predicate.", "`with ptx.if_(i < N):` runs its body in the threads where it holds."),
    ),
    Puzzle(
        3,
        "Saxpy",
        "out[i] = a[0] * x[i] + y[i] with one fma.rn.f32 for each element; any N.",
        """\
@kernel(
    in_specs=[Tile(1, f32), Tile("N", f32), Tile("N", f32)],
    out_specs=[Tile("N", f32)],
    grid=lambda N: (N + 127) // 128,
    block=128,
)
def answer(a, x, y, out, *, N=None):
    i = reg.from_(ptx.special.ctaid.x() * 128 + ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_whole(rng, 1), *_whole(rng, 2, int(rng.integers(100, 300)))),
        lambda a, x, y: a[0] * x + y,
        ("ptx.op.fma.rn.f32(a, b, c) is a * b + c in a fresh register.", "All threads load a[0]."),
        ("fma.rn.f32",),
    ),
    Puzzle(
        4,
        "No branch",
        "out[i] = x[i] where x[i] is positive, else 0 (a ReLU), without a branch in the kernel.",
        """\
@kernel(in_specs=[Tile(128, f32)], out_specs=[Tile(128, f32)], grid=1, block=128)
def answer(x, out):
    i = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_floats(rng, 128),),
        lambda x: np.maximum(x, 0),
        (
            "max.f32 is one instruction: ptx.op.max.f32(v, 0.0).",
            "ptx.selp(f32, v, 0.0, v > 0.0) chooses by a predicate.",
        ),
        ("max.|selp.|fma.rn.relu",),
    ),
    Puzzle(
        5,
        "A loop",
        "32 threads add up N numbers: out[t] = x[t] + x[t + 32] + x[t + 64] + ...; any N.",
        """\
@kernel(in_specs=[Tile("N", f32)], out_specs=[Tile(32, f32)], grid=1, block=32)
def answer(x, out, *, N=None):
    t = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_whole(rng, int(rng.integers(40, 400))),),
        lambda x: np.array([x[t::32].sum() for t in range(32)], np.float32),
        (
            "`for i in ptx.range_(t, N, 32):` is a loop of the kernel.",
            "`total += v` changes the register; `total = total + v` does not.",
        ),
    ),
    Puzzle(
        6,
        "Matrix times vector",
        "out[r] = sum over k of a[r, k] * x[k], a thread for each row.",
        """\
@kernel(in_specs=[Tile("M", "K", f32), Tile("K", f32)], out_specs=[Tile("M", f32)], grid=1, block=lambda M, K: M)
def answer(a, x, out, *, M=None, K=None):
    row = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_whole(rng, 32, k := int(rng.integers(5, 40))), _whole(rng, k)),
        lambda a, x: a @ x,
        ("Row r begins at element r * K.", "A pointer can move: `p += 1`."),
    ),
    Puzzle(
        7,
        "The sum of a warp",
        "out[0] = the sum of 32 numbers, by shuffles: no shared memory, no atomics.",
        """\
@kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(1, f32)], grid=1, block=32)
def answer(x, out):
    lane = reg.from_(ptx.special.tid.x(), s32)
    v = (ptx.pointer(x) + lane).load()
    ...  # your code
""",
        lambda rng: (_whole(rng, 32),),
        lambda x: x.sum(keepdims=True),
        (
            "ptx.inst.shfl.sync.bfly.b32(other, v, 16, 31, -1) gives each lane the value of the lane 16 away.",
            "Five rounds: 16, 8, 4, 2, 1. One lane stores.",
        ),
        ("shfl.sync",),
    ),
    Puzzle(
        8,
        "The sum of a CTA",
        "out[0] = the sum of 256 numbers, through shared memory.",
        """\
@kernel(in_specs=[Tile(256, f32)], out_specs=[Tile(1, f32)], grid=1, block=256)
def answer(x, out):
    t = reg.from_(ptx.special.tid.x(), s32)
    s = smem.alloc(f32, 256)
    ...  # your code
""",
        lambda rng: (_whole(rng, 256),),
        lambda x: x.sum(keepdims=True),
        (
            "Halve the number of active threads in each of 8 rounds: s[t] += s[t + n] for t < n.",
            "A ptx.bar.sync(0) after each round, outside of the `if_`.",
        ),
        ("bar.sync|barrier", "ld.shared"),
    ),
    Puzzle(
        9,
        "Transpose",
        "out = x transposed, 32 x 32. Both the loads and the stores of a warp are of 32 neighbours in global memory.",
        """\
@kernel(in_specs=[Tile(32, 32, f32)], out_specs=[Tile(32, 32, f32)], grid=1, block=(32, 8))
def answer(x, out):
    column = reg.from_(ptx.special.tid.x(), s32)
    row = reg.from_(ptx.special.tid.y(), s32)  # 0 to 7: each thread has four elements
    ...  # your code
""",
        lambda rng: (_floats(rng, 32, 32),),
        lambda x: x.T.copy(),
        (
            "Through a tile in shared memory: stored by rows, read by columns.",
            "33 columns in the tile: no bank conflicts.",
        ),
        ("ld.shared", "st.shared"),
    ),
    Puzzle(
        10,
        "Histogram",
        "out[b] = how many of the N numbers are b, for b from 0 to 15. Many threads count at the same time.",
        """\
@kernel(in_specs=[Tile("N", s32)], out_specs=[Tile(16, s32)], grid=1, block=64)
def answer(x, out, *, N=None):
    t = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (rng.integers(0, 16, int(rng.integers(100, 300)), dtype=np.int32),),
        lambda x: np.bincount(x, minlength=16).astype(np.int32),
        (
            "Count in shared memory, which must be set to 0 first, with a barrier after that.",
            "ptx.inst.red.shared.add.s32(s.element(b), 1) counts; ordinary loads and stores would race.",
        ),
        ("red.|atom.",),
    ),
    Puzzle(
        11,
        "Neighbours",
        "out[i] = x[i - 1] + x[i] + x[i + 1] for 128 elements in a circle, and each thread loads one element from global memory.",
        """\
@kernel(in_specs=[Tile(128, f32)], out_specs=[Tile(128, f32)], grid=1, block=128)
def answer(x, out):
    i = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_whole(rng, 128),),
        lambda x: np.roll(x, 1) + x + np.roll(x, -1),
        (
            "Put x[i] into shared memory; a barrier; then read three places.",
            "(i + 1) & 127 is the next one in the circle.",
        ),
        ("ld.shared",),
    ),
    Puzzle(
        12,
        "Prefix sums",
        "out[i] = x[0] + ... + x[i] in a warp of 32, by shuffles.",
        """\
@kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32)], grid=1, block=32)
def answer(x, out):
    lane = reg.from_(ptx.special.tid.x(), s32)
    v = (ptx.pointer(x) + lane).load()
    ...  # your code
""",
        lambda rng: (_whole(rng, 32),),
        lambda x: np.cumsum(x, dtype=np.float32),
        (
            "shfl.sync.up: lane i gets the value of lane i - n. Its constant for a whole warp is 0, not 31.",
            "For n = 1, 2, 4, 8, 16: lanes with lane >= n add what they get; all lanes execute the shuffle.",
        ),
        ("shfl.sync",),
    ),
    Puzzle(
        13,
        "Vectors",
        "out = -x for 512 elements, with 128 threads, each with one load and one store of 16 bytes.",
        """\
@kernel(in_specs=[Tile(512, f32)], out_specs=[Tile(512, f32)], grid=1, block=128)
def answer(x, out):
    t = reg.from_(ptx.special.tid.x(), s32)
    ...  # your code
""",
        lambda rng: (_floats(rng, 512),),
        lambda x: -x,
        ("(ptx.pointer(x) + t * 4).load(vec=4) is an array of four registers.", "p.store([a, b, c, d]) is one st.v4."),
        ("ld.global.v4", "st.global.v4"),
    ),
    Puzzle(
        14,
        "Vote",
        "out[0] = how many of 32 numbers are positive, without shuffles, atomics or shared memory.",
        """\
@kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(1, s32)], grid=1, block=32)
def answer(x, out):
    lane = reg.from_(ptx.special.tid.x(), s32)
    v = (ptx.pointer(x) + lane).load()
    ...  # your code
""",
        lambda rng: (_floats(rng, 32),),
        lambda x: np.array([(x > 0).sum()], np.int32),
        (
            "vote.sync.ballot.b32 gives each lane a word with one bit for each lane's predicate.",
            "popc.b32 counts bits.",
        ),
        ("vote.sync.ballot", "popc"),
    ),
    Puzzle(
        15,
        "An asynchronous copy",
        "out[i] = x[255 - i], where cp.async brings x into shared memory.",
        """\
@kernel(arch="sm_80", in_specs=[Tile(256, f32)], out_specs=[Tile(256, f32)], grid=1, block=256)
def answer(x, out):
    i = reg.from_(ptx.special.tid.x(), s32)
    s = smem.alloc(f32, 256)
    ...  # your code
""",
        lambda rng: (_floats(rng, 256),),
        lambda x: x[::-1].copy(),
        (
            "ptx.cp.async_.ca(s.element(i), ptx.pointer(x) + i, 4), commit_group, wait_group(0).",
            "A thread waits for its own copies only: what comes next for those of the others?",
        ),
        ("cp.async",),
    ),
    Puzzle(
        16,
        "One mma",
        "out = a * b.T by one mma.m16n8k16: a is 16 x 16, b is 8 x 16 (its rows are the columns of the second operand).",
        """\
@kernel(arch="sm_80", in_specs=[Tile(16, 16, bf16), Tile(8, 16, bf16)], out_specs=[Tile(16, 8, f32)], grid=1, block=32)
def answer(a, b, out):
    lane = reg.from_(ptx.special.laneid(), s32)
    g, t = lane >> 2, lane & 3
    pa, pb = ptx.pointer(a, b32), ptx.pointer(b, b32)  # eight words of two bf16 in a row
    fa, fb = reg.array(b32, 4), reg.array(b32, 2)
    d = reg.mma_frag("D", (16, 8, 16), f32, init=0.0)
    ...  # your code
    ptx.mma.sync(shape=(16, 8, 16), dtype_d=f32, dtype_a=bf16, dtype_b=bf16, d=d, a=fa, b=fb, c=d)
    row, column = d.origin(lane)
    p = ptx.pointer(out) + (row * 8 + column)
    p.store([d[0, 0], d[0, 1]])
    p.store([d[8, 0], d[8, 1]], 8 * 8)
""",
        lambda rng: (_half(rng, 16, 16), _half(rng, 8, 16)),
        lambda a, b: a.astype(np.float32) @ b.astype(np.float32).T,
        (
            "fa[0] is row g, word t; fa[1] row g + 8; fa[2] row g, word t + 4; fa[3] both.",
            "fb[0] is row g of b, word t; fb[1] word t + 4. ptx.inst.ld.global_.b32(fa[0], pa + ...) loads into a register.",
        ),
        ("mma.sync",),
    ),
    Puzzle(
        17,
        "Arrive and wait",
        "Threads 0 to 31 square x[t] into shared memory; threads 32 to 63 store them to out. They meet at an mbarrier, not at a "
        "barrier of the CTA.",
        """\
@kernel(arch="sm_90a", in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32)], grid=1, block=64)
def answer(x, out):
    t = reg.from_(ptx.special.tid.x(), s32)
    s, ready = smem.alloc(f32, 32), smem.mbarrier(1)[0]
    with ptx.if_(t == 0):
        ptx.mbarrier.init(ready, 32)  # so many arrivals
    ptx.bar.sync(0)
    ...  # your code
""",
        lambda rng: (_floats(rng, 32),),
        lambda x: x * x,
        (
            "The first warp: s[t,] = v * v, then ptx.mbarrier.arrive(ready).",
            "The second: ptx.mbarrier.wait(ready, 0), then s[t - 32,].",
        ),
        ("mbarrier.arrive", "mbarrier.try_wait|mbarrier.test_wait"),
    ),
    Puzzle(
        18,
        "A bulk copy",
        "out[i] = 2 * x[i] for 128 elements, which one bulk copy brings into shared memory.",
        """\
@kernel(arch="sm_90a", in_specs=[Tile(128, f32)], out_specs=[Tile(128, f32)], grid=1, block=128)
def answer(x, out):
    i = reg.from_(ptx.special.tid.x(), s32)
    s, full = smem.alloc(f32, 128), smem.mbarrier(1)[0]
    ...  # your code
""",
        lambda rng: (_floats(rng, 128),),
        lambda x: 2 * x,
        (
            "One thread: ptx.mbarrier.init(full, 1), ptx.fence.mbarrier_init(); then a barrier of the CTA.",
            "One thread: ptx.mbarrier.arrive_expect_tx(full, 512), ptx.cp.async_.bulk.load(s, ptx.pointer(x), 512, full).",
            "All: ptx.mbarrier.wait(full, 0).",
        ),
        ("cp.async.bulk",),
    ),
    Puzzle(
        19,
        "Again and again",
        "out[t] = x[t] + x[t + 128] + x[t + 256] + ...: bulk copies of 128 elements, one after the other, into the same buffer.",
        """\
@kernel(arch="sm_90a", in_specs=[Tile("N", f32)], out_specs=[Tile(128, f32)], grid=1, block=128)
def answer(x, out, *, N=None):
    t = reg.from_(ptx.special.tid.x(), s32)
    s, full = smem.alloc(f32, 128), smem.mbarrier(1)[0]
    with ptx.if_(t == 0):
        ptx.mbarrier.init(full, 1)
        ptx.fence.mbarrier_init()
    ptx.bar.sync(0)
    total, parity = reg.scalar(f32, init=0.0), reg.scalar(u32, init=0)
    ...  # your code
    (ptx.pointer(out) + t).store(total)
""",
        _chunks,
        _column_sums,
        (
            "for i in ptx.range_(0, N, 128): one thread starts the copy of x[i] to x[i + 127], all wait for `parity`.",
            "The parity flips in each round: parity ^= 1.",
            "All must have read the buffer before it is filled again.",
        ),
        ("cp.async.bulk",),
    ),
    Puzzle(
        20,
        "A ring",
        "The same sums with three stages: thread 128 is the producer, threads 0 to 127 are the consumers. `full` counts the bytes of a "
        "stage, `empty` the consumers that have read it.",
        """\
@kernel(arch="sm_90a", in_specs=[Tile("N", f32)], out_specs=[Tile(128, f32)], grid=1, block=160)
def answer(x, out, *, N=None):
    t = reg.from_(ptx.special.tid.x(), s32)
    stages, full, empty = smem.alloc(f32, (3, 128)), smem.mbarrier(3), smem.mbarrier(3)
    with ptx.if_(t == 0):
        for s in range(3):
            ptx.mbarrier.init(full[s], 1)
            ptx.mbarrier.init(empty[s], 128)
        ptx.fence.mbarrier_init()
    ptx.bar.sync(0)
    ...  # your code
""",
        _chunks,
        _column_sums,
        (
            "Consumers: ring = ptx.pipeline(3); in each round stage, parity = ring.advance().",
            "They wait for full[stage], add stages[stage, t], and arrive at empty[stage].",
            "The producer's ring starts with ptx.pipeline(3, phase=reg.scalar(u32, init=1), cursor=reg.scalar(u32, init=0)): its first "
            "waits for empty[stage] do not wait.",
        ),
        ("cp.async.bulk", "mbarrier.arrive"),
    ),
)
