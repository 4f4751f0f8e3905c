"""Rotary position embedding of Q and K, and the three tensors apart: what comes between the QKV product and attention.

QKV (tokens, 3 * heads * d) in bf16 has a token's Q, K and V next to each other, each with its heads. Results Q, K and V are
(heads, tokens, d), as `flash_attention` reads them. Elements i and i + d/2 of a head of Q or K are turned by the
angle of the token: lo * cos - hi * sin and hi * cos + lo * sin; cosine and sine (tokens, d/2) are f32. V is copied.
(Su et al., RoFormer, arXiv 2104.09864, in the order of elements that Llama's published code uses.)

A CTA has a token; each thread has one pair of elements of Q, of K and of V.

    python -m examples.hopper.rotary --size 37 4 64

Measured: results against float64 on the simulator. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys
import time

import ml_dtypes
import numpy as np

from examples.common import LIMIT, relative_error
from examples.common import main as run
from pyptx import Tile, kernel, ptx, reg
from pyptx.kernel import Kernel
from pyptx.types import bf16, f32, s32

__all__ = ["LIMIT", "angles", "build", "check", "main", "reference"]


def build(tokens: int, heads: int, d: int, *, arch: str = "sm_90a") -> Kernel:
    """The kernel for QKV (tokens, 3 * heads * d), cosine and sine (tokens, d/2); results Q, K, V (heads, tokens, d)."""
    half = d // 2
    if d % 2 or not 1 <= heads * half <= 1024:
        raise ValueError(f"a thread has a pair of elements: heads * d / 2 is 1 to 1024, not {heads} * {d} / 2")
    each = heads * d
    result = Tile(heads, tokens, d, bf16)

    @kernel(
        arch=arch,
        in_specs=[Tile(tokens, 3 * each, bf16), Tile(tokens, half, f32), Tile(tokens, half, f32)],
        out_specs=[result, result, result],
        grid=tokens,
        block=heads * half,
    )
    def rotary(qkv, cosine, sine, q, k, v):
        token = reg.from_(ptx.special.ctaid.x(), s32)
        pair = reg.from_(ptx.special.tid.x(), s32)
        head, i = pair // half, pair % half
        cos = (ptx.pointer(cosine) + (token * half + i)).load()
        sin = (ptx.pointer(sine) + (token * half + i)).load()
        source = ptx.pointer(qkv) + (token * (3 * each) + head * d + i)
        target = (head * tokens + token) * d + i

        def widened(at):
            return ptx.cvt(f32, bf16, reg.scalar(f32), source.load(at))

        def rounded(value):
            return ptx.cvt(bf16, f32, reg.scalar(bf16), value, rounding="rn")

        for number, out in enumerate((q, k)):
            low, high = widened(number * each), widened(number * each + half)
            to = ptx.pointer(out) + target
            to.store(rounded(low * cos - high * sin))
            to.store(rounded(high * cos + low * sin), half)
        to = ptx.pointer(v) + target
        to.store(source.load(2 * each))
        to.store(source.load(2 * each + half), half)
        ptx.ret()

    return rotary


def angles(tokens: int, d: int, base: float = 10000.0) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine (tokens, d/2) of the positions 0 to tokens - 1, in f32."""
    angle = np.arange(tokens)[:, None] * base ** (-np.arange(d // 2) / (d // 2))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def reference(qkv: np.ndarray, cosine: np.ndarray, sine: np.ndarray, heads: int) -> list[np.ndarray]:
    """The same in float64."""
    tokens, d = len(qkv), 2 * cosine.shape[1]
    q, k, v = qkv.astype(np.float64).reshape(tokens, 3, heads, d).transpose(1, 2, 0, 3)
    cos, sin = (np.concatenate([t, t], axis=1).astype(np.float64) for t in (cosine, sine))

    def turned(x: np.ndarray) -> np.ndarray:
        low, high = np.split(x, 2, axis=2)
        return x * cos + np.concatenate([-high, low], axis=2) * sin

    return [turned(q), turned(k), v]


def check(tokens: int, heads: int, d: int, *, arch: str = "sm_90a") -> float:
    """Run it on fresh random data and return the largest relative error of Q, K and V; prints a line."""
    qkv = np.random.default_rng().standard_normal((tokens, 3 * heads * d)).astype(ml_dtypes.bfloat16)
    cosine, sine = angles(tokens, d)
    start = time.perf_counter()
    results = build(tokens, heads, d, arch=arch)(qkv, cosine, sine)
    seconds = time.perf_counter() - start
    error = max(map(relative_error, results, reference(qkv, cosine, sine, heads)))
    print(f"rotary {tokens:5} tokens, {heads} heads of {d:<5}  relative error {error:.1e}   {seconds:.2f} s")
    return error


def main() -> int:
    return run(
        "Rotary position embedding", check, build, size=(37, 4, 64), names=("tokens", "heads", "d"), arch="sm_90a",
        limit=LIMIT[bf16],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
