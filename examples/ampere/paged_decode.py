"""Attention of one new token per sequence over a paged cache of keys and values, split along the keys (sm_80).

Q (sequences, heads, d) is bf16, the caches (pages, 64, key heads, d) hold 64 tokens in a page. `table` (sequences, width) says which pages
a sequence has, `last` (sequences) the number of its last token. Up to 16 query heads share a key head (GQA): they are the rows of the
tensor core's instruction, so that a key is read once for all of them. A few sequences do not fill a GPU, so `splits` CTAs share the pages of a
sequence and key head; each leaves its sum, maximum and weight, and `combine` adds them (https://crfm.stanford.edu/2023/10/12/flashdecoding.html).

Four warps have 16 tokens each of every page. A warp copies its own rows (`cp.async`, zeros after the last token), multiplies Q by K, keeps a
running maximum, and multiplies the exponentials by V, without waiting for the others; in the end the four sums are added in shared memory. Keys and
values lie in panels of 64 columns with the 128-byte swizzle: `ptx.ldmatrix(at=)` finds their rows, without bank conflicts.
The numbers of sequences and pages and the table's width are parameters: one cubin serves all.

    python -m examples.ampere.paged_decode --size 8 2 64

Measured: results against float64 on the simulator, no spills with ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import math
import sys
import time
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

from examples.common import ROUNDED, bf16_sums, relative_error, told
from examples.common import main as run
from pyptx import Tile, dim, kernel, ptx, reg, smem
from pyptx.kernel import Kernel
from pyptx.reg import Reg
from pyptx.types import b32, bf16, f32, s32

PAGE, WARPS, STAGES = 64, 4, 3
"""Tokens in a page, warps of a CTA, pages under way."""
LOWEST = -1e30
"""The maximum of no scores: its difference to itself is 0."""
SEQUENCES, PAGES, WIDTH = (dim(name, runtime=True) for name in ("SEQUENCES", "PAGES", "WIDTH"))


def partial(heads: int, d: int, splits: int) -> list[Tile]:
    """What `decode` leaves: sums of exponentials times V, the maxima that they are relative to, sums of exponentials."""
    return [Tile(SEQUENCES, splits, heads, d, f32), *[Tile(SEQUENCES, splits, heads, f32)] * 2]


def build(heads: int, key_heads: int, d: int, *, splits: int = 4, arch: str = "sm_80") -> Kernel:
    """`decode`: Q, K, V, table and last to what `partial` says."""
    group = heads // key_heads
    if heads % key_heads or not 1 <= group <= 16 or d not in (64, 128):
        raise ValueError(f"1 to 16 query heads share a key head of 64 or 128; not {heads} and {key_heads} of {d}")
    panels, chunks = d // 64, d // 8
    cache = Tile(PAGES, PAGE, key_heads, d, bf16)

    @kernel(
        arch=arch, in_specs=[Tile(SEQUENCES, heads, d, bf16), cache, cache, Tile(SEQUENCES, WIDTH, s32), Tile(SEQUENCES, s32)],
        out_specs=partial(heads, d, splits), grid=lambda SEQUENCES: (splits, key_heads, SEQUENCES), block=32 * WARPS,
    )  # fmt: skip
    def decode(q, k, v, table, last, sums, maxima, weights, *, WIDTH=None):
        split, key_head, sequence = ptx.special.ctaid.x(), ptx.special.ctaid.y(), ptx.special.ctaid.z()
        thread = reg.from_(ptx.special.tid.x(), s32)
        lane, warp = thread & 31, thread >> 5
        keys, values = (smem.alloc(bf16, (STAGES, panels, PAGE, 64), swizzle="128B") for _ in range(2))
        length = (ptx.pointer(last) + sequence).load() + 1
        pages = (length + (PAGE - 1)) // PAGE
        each = (pages + (splits - 1)) // splits
        first = reg.from_(split, s32) * each
        count = ptx.op.min.s32(pages - first, each)
        row, pair = lane >> 2, (lane & 3) * 2

        queries = reg.array(b32, 4 * (d // 16), init=0)  # rows of the group, zeros below them
        source = ptx.pointer(q, b32) + ((sequence * heads + key_head * group + row) * d + pair) // 2
        for below in range(2):
            with ptx.if_(row + 8 * below < group):
                for part in range(d // 8):  # two parts of 8 columns in a step
                    source.load((8 * below * d + 8 * part) // 2, dst=queries[2 * part + below])

        def copy(number):
            """The warp's 16 tokens of a page, 16 bytes at a time; a group even if there is none."""
            with ptx.if_(number < count):
                page = (ptx.pointer(table) + (sequence * WIDTH + first + number)).load()
                start = ptx.op.mul.wide.s32(page, PAGE * key_heads * d)
                stage = number % STAGES
                for i in range(16 * chunks // 32):
                    chunk = lane % chunks
                    token = warp * 16 + lane // chunks + i * (32 // chunks)
                    there = ptx.selp(s32, 16, 0, (first + number) * PAGE + token < length)
                    place = (token * key_heads + key_head) * d + chunk * 8
                    for shared, tensor in ((keys, k), (values, v)):
                        to = shared.element(stage, chunk >> 3, token, (chunk & 7) * 8)
                        ptx.cp.async_.cg(to, ptx.pointer(tensor) + start + place, src_bytes=there)
            ptx.cp.async_.commit_group()

        total = reg.array(f32, d // 2, init=0.0)
        highest, weight = reg.array(f32, 2, init=LOWEST), reg.array(f32, 2, init=0.0)
        for number in range(STAGES - 1):
            copy(reg.from_(number, s32))
        for number in ptx.range_(count):
            ptx.cp.async_.wait_group(STAGES - 2)
            ptx.bar.warp_sync()
            copy(number + (STAGES - 1))
            stage = number % STAGES
            fragment, scores = reg.array(b32, 4), reg.array(f32, 8, init=0.0)
            for step in range(d // 16):
                panel = keys[stage, step // 4, :, :]
                ptx.ldmatrix(dst=fragment, src=panel, at=(warp * 16, step % 4 * 16), order="rows", lane=lane)
                multiply(scores, queries[4 * step : 4 * step + 4], fragment)
            softmax(scores, total, highest, weight, (first + number) * PAGE + warp * 16 + pair, length, d)
            exponentials = [ptx.op.cvt.rn.bf16x2.f32(scores[2 * i + 1], scores[2 * i]) for i in range(4)]
            for column in range(0, d, 16):
                panel = values[stage, column // 64, :, :].T
                ptx.ldmatrix(dst=fragment, src=panel, at=(column % 64, warp * 16), order="rows", lane=lane)
                multiply(total[column // 2 : column // 2 + 8], exponentials, fragment)
        ptx.cp.async_.wait_group(0)

        # the four sums, each relative to its warp's maximum
        own_sum, own_max, own_weight = (smem.alloc(f32, (WARPS, 16, *more)) for more in ((d + 8,), (), ()))
        for half in range(2):
            line = row + 8 * half
            own_max[warp, line] = highest[half]
            own_weight[warp, line] = quad(ptx.op.add.f32, weight[half])
            for column in range(0, d, 8):
                at = column // 2 + 2 * half
                ptx.inst.st.shared.v2.f32(own_sum.element(warp, line, pair + column), [total[at], total[at + 1]])
        ptx.bar.sync(0)
        at = (sequence * splits + split) * heads + key_head * group
        for i in ptx.range_(thread, group * d, 32 * WARPS):
            line, column = i // d, i % d
            top = reduce(ptx.op.max.f32, [own_max[other, line] for other in range(WARPS)])
            added, weighed = reg.array(f32, 2, init=0.0)
            for other in range(WARPS):
                factor = ptx.op.ex2.approx.ftz.f32(own_max[other, line] - top)
                ptx.inst.fma.rn.f32(added, own_sum[other, line, column], factor, added)
                ptx.inst.fma.rn.f32(weighed, own_weight[other, line], factor, weighed)
            (ptx.pointer(sums) + (at * d + i)).store(added)
            with ptx.if_(column == 0):
                (ptx.pointer(maxima) + (at + line)).store(top)
                (ptx.pointer(weights) + (at + line)).store(weighed)

    return decode


def build_combine(heads: int, d: int, *, splits: int = 4, arch: str = "sm_80") -> Kernel:
    """`combine`: what `decode` leaves to O (sequences, heads, d)."""

    @kernel(
        arch=arch, in_specs=partial(heads, d, splits), out_specs=[Tile(SEQUENCES, heads, d, bf16)],
        grid=lambda SEQUENCES: (heads, SEQUENCES), block=d,
    )  # fmt: skip
    def combine(sums, maxima, weights, o):
        head, sequence, column = ptx.special.ctaid.x(), ptx.special.ctaid.y(), ptx.special.tid.x()
        at = [(sequence * splits + split) * heads + head for split in range(splits)]
        tops = [(ptx.pointer(maxima) + place).load() for place in at]
        top = reduce(ptx.op.max.f32, tops)
        added, weighed = reg.array(f32, 2, init=0.0)
        for place, each in zip(at, tops, strict=True):
            factor = ptx.op.ex2.approx.ftz.f32(each - top)
            ptx.inst.fma.rn.f32(added, (ptx.pointer(sums) + (place * d + column)).load(), factor, added)
            ptx.inst.fma.rn.f32(weighed, (ptx.pointer(weights) + place).load(), factor, weighed)
        result = ptx.op.div.full.f32(added, weighed)
        (ptx.pointer(o) + ((sequence * heads + head) * d + column)).store(ptx.op.cvt.rn.bf16.f32(result))

    return combine


def multiply(sums: Any, a: Any, b: Any) -> None:
    """sums (16 x 16) += a (16 x 16) * b (16 x 16), two instructions."""
    types: Any = {"dtype_d": f32, "dtype_a": bf16, "dtype_b": bf16}
    for half in range(2):
        d = sums[4 * half : 4 * half + 4]
        ptx.mma.sync(shape=(16, 8, 16), **types, d=d, a=a, b=b[2 * half : 2 * half + 2], c=d)


def quad(operation: Any, value: Reg) -> Reg:
    """An operation over the four lanes that hold a row."""
    for distance in (1, 2):
        value = operation(value, ptx.op.shfl.sync.bfly.b32(value, distance, 31, -1))
    return value


def softmax(scores: Any, total: Any, highest: Any, weight: Any, token: Reg, length: Reg, d: int) -> None:
    """Scores of 16 tokens, two rows of a thread, become exponentials; sums so far are scaled where the maximum grows. `token`: that of the first."""
    scale = math.log2(math.e) / math.sqrt(d)
    for i in range(8):
        right = i // 4 * 8 + i % 2
        scores[i].set(ptx.selp(f32, scores[i] * scale, LOWEST, token + right < length))
    for half in range(2):
        own = [scores[i] for i in range(8) if i // 2 % 2 == half]
        top = ptx.op.max.f32(quad(ptx.op.max.f32, reduce(ptx.op.max.f32, own)), highest[half])
        factor = ptx.op.ex2.approx.ftz.f32(highest[half] - top)
        highest[half] = top
        weight[half] *= factor
        for value in own:
            value.set(ptx.op.ex2.approx.ftz.f32(value - top))
            weight[half] += value
        for i in range(2 * half, d // 2, 4):
            total[i] *= factor
            total[i + 1] *= factor


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, table: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The same in float64, sequence by sequence."""
    found = np.zeros(q.shape)
    group = q.shape[1] // k.shape[2]
    for i, pages in enumerate(table):
        keys, values = (x[pages].reshape(-1, *x.shape[2:])[: last[i] + 1].astype(np.float64) for x in (k, v))
        for head in range(q.shape[1]):
            scores = keys[:, head // group] @ q[i, head].astype(np.float64) / math.sqrt(q.shape[2])
            weights = np.exp(scores - scores.max())
            found[i, head] = weights @ values[:, head // group] / weights.sum()
    return found


def limit(heads: int, key_heads: int, d: int, *, arch: str = "sm_80", **_: Any) -> float:
    """The relative error that O may have, as in `flash_attention`: exponentials and O are rounded, sums of 400 products err."""
    sums = bf16_sums(arch)
    return 2 * ROUNDED + sums.error(400) + 8 * sums.error(d)


def check(heads: int, key_heads: int, d: int, *, splits: int = 4, arch: str = "sm_80") -> float:
    """Run it on fresh random data, pages in random order and NaN beyond the last token; the largest relative error of a sequence, and a line."""
    tokens, rng = (1, 400, 130), np.random.default_rng()
    width = -(-max(tokens) // PAGE)
    table = rng.permutation(len(tokens) * width).astype(np.int32).reshape(len(tokens), width)
    last = np.array(tokens, np.int32) - 1
    q = rng.standard_normal((len(tokens), heads, d)).astype(ml_dtypes.bfloat16)
    k, v = rng.standard_normal((2, table.size, PAGE, key_heads, d)).astype(ml_dtypes.bfloat16)
    for pages, count in zip(table, tokens, strict=True):
        beyond = (np.arange(width * PAGE) >= count).reshape(width, PAGE)
        for x in (k, v):
            x[pages] = np.where(beyond[..., None, None], np.nan, x[pages])
    start = time.perf_counter()
    partial_sums = build(heads, key_heads, d, splits=splits, arch=arch)(q, k, v, table, last)
    o = build_combine(heads, d, splits=splits, arch=arch)(*partial_sums)
    seconds = time.perf_counter() - start
    error = max(map(relative_error, o, reference(q, k, v, table, last)))
    allowed = told(error, limit(heads, key_heads, d, arch=arch), bf16_sums(arch), arch)
    print(f"paged_decode {heads} heads, {key_heads} of keys, {d}; {tokens} tokens  {allowed}   {seconds:.2f} s")
    return error


def main() -> int:
    return run("Attention over a paged cache, one token at a time", check, build, size=(8, 2, 64),
               names=("HEADS", "KEY_HEADS", "D"), arch="sm_80", limit=limit)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
