"""Kernels that Triton compiled (corpus/triton, sources in corpus/triton_src), run with arguments and compared with NumPy.

Sizes cross tiles: rows and columns are not multiples of a block. They are multiples of 16, which the kernels were
compiled for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx.simulator import LoadedKernel, load
from pyptx.simulator.sanitizer import Finding
from tests.conftest import CORPUS, corpus_files

pytestmark = pytest.mark.corpus
TYPES: dict[str, Any] = {
    "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64, "i8": np.int8, "i32": np.int32,
    "fp8e5": ml_dtypes.float8_e5m2, "fp8e4nv": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
SMEM = {75: 64, 80: 163, 86: 99, 89: 99, 120: 99, 90: 227, 100: 227, 103: 227}
"""KB of shared memory a CTA may have: the files do not say how much Triton's launcher gives."""


def files(pattern: str) -> Any:
    """The corpus files of some kernels, by name."""
    found = [p for p in corpus_files("triton/*.ptx") if re.fullmatch(pattern, p.stem)]
    assert found or not CORPUS.exists(), pattern
    return pytest.mark.parametrize("path", found or [CORPUS / "missing.ptx"], ids=lambda p: p.stem)


@lru_cache(maxsize=4)
def kernel(path: Path) -> LoadedKernel:
    (found,) = load(path).values()
    return found


def run(path: Path, *args: Any, grid: Any, cluster: Any = None, scratch: Any = None) -> None:
    """Launch with the two pointers that Triton appends (scratch memory, profiling)."""
    k = kernel(path)
    need = re.search(r"\.reqntid (\d+)", path.read_text())
    assert need
    block = int(need[1])
    smem = 1024 * SMEM[int(path.stem.rpartition("sm")[2])]
    report = k.simulate(*args, scratch, None, grid=grid, block=block, cluster=cluster, smem=smem)
    # LLVM moves uses of registers before tcgen05.wait::ld, and Triton emits no tcgen05.fence, nor a barrier between two
    # setmaxnreg of a warpgroup (PTX ISA 9.7.21.5): warnings
    assert not report.errors, "\n".join(map(str, report.errors))
    assert {f.rule for f in report.findings if isinstance(f, Finding)} <= {
        "tcgen05-wait",
        "tcgen05-fence",
        "setmaxnreg",
    }


def normal(shape: Any, dtype: Any) -> np.ndarray:
    return np.random.default_rng().standard_normal(shape).astype(dtype)


def close(got: np.ndarray, want: np.ndarray, relative: float) -> None:
    """Relative norm of the error over the whole result."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    assert np.isfinite(got).all()
    assert np.linalg.norm(got - want) <= relative * np.linalg.norm(want)


# ------------------------------------------------------------------------------------------------------ rows


@files(r"vadd_(fp32|fp16|bf16|fp64|i32|i8)__.*")
def test_vadd(path: Path) -> None:
    dtype = TYPES[path.stem.split("_")[1]]
    n = 2500
    x, y = (np.random.default_rng().integers(-50, 50, n).astype(dtype) for _ in range(2))
    out = np.zeros(n, dtype)
    run(path, x, y, out, n, grid=3)
    assert np.array_equal(out, x + y)


@files(r"softmax_(fp16|w1)__.*")
def test_softmax(path: Path) -> None:
    dtype, columns = (np.float16, 1456) if "fp16" in path.stem else (np.float32, 112)
    x = normal((7, 1536), dtype)
    out = np.zeros_like(x)
    run(path, x, out, 1536, columns, grid=7)
    e = np.exp(x[:, :columns].astype(np.float64))
    close(out[:, :columns], e / e.sum(1, keepdims=True), 1e-3 if dtype == np.float16 else 1e-6)
    assert not out[:, columns:].any()


@files(r"softmax_persist__.*")
def test_softmax_persistent(path: Path) -> None:
    x = normal((11, 1024), np.float32)
    out = np.zeros_like(x)
    run(path, x, out, 1024, 11, 976, grid=3)
    e = np.exp(x[:, :976].astype(np.float64))
    close(out[:, :976], e / e.sum(1, keepdims=True), 1e-6)


def normalised(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = x.astype(np.float64)
    mean = x.mean(1)
    rstd = 1 / np.sqrt(x.var(1) + eps)
    return (x - mean[:, None]) * rstd[:, None], mean, rstd


@files(r"layernorm_fwd__.*")
def test_layer_norm(path: Path) -> None:
    rows, columns = 5, 2576
    x, w, b = normal((rows, columns), np.float16), normal(columns, np.float16), normal(columns, np.float16)
    y, mean, rstd = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    run(path, x, y, w, b, mean, rstd, columns, columns, 1e-5, grid=rows)
    hat, m, r = normalised(x, 1e-5)
    close(y, hat * w.astype(np.float64) + b.astype(np.float64), 1e-3)
    assert np.allclose(mean, m, atol=1e-5)
    assert np.allclose(rstd, r, rtol=1e-5)


@files(r"layernorm_bwd__.*")
def test_layer_norm_backward(path: Path) -> None:
    """Rows meet at locks: 70 rows share 64 accumulators."""
    rows, columns = 70, 976
    x, dy, w = normal((rows, columns), np.float16), normal((rows, columns), np.float16), normal(columns, np.float16)
    hat, mean, rstd = normalised(x, 1e-5)
    dx = np.zeros_like(x)
    dw, db = np.zeros((64, columns), np.float32), np.zeros((64, columns), np.float32)
    lock = np.zeros(128, np.int32)
    run(path, dx, dy, dw, db, x, w, mean.astype(np.float32), rstd.astype(np.float32), lock, columns, columns, grid=rows)
    wdy = w.astype(np.float64) * dy.astype(np.float64)
    c1, c2 = (hat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    close(dx, (wdy - (hat * c1 + c2)) * rstd[:, None], 2e-3)
    close(dw.sum(0), (dy.astype(np.float64) * hat).sum(0), 2e-3)
    close(db.sum(0), dy.astype(np.float64).sum(0), 2e-3)
    assert not lock[:64].any()


@files(r"histo__.*")
def test_histogram(path: Path) -> None:
    n = 512
    x = np.random.default_rng().integers(0, 90, n).astype(np.int32)
    h, h2 = np.zeros(1024, np.int32), np.zeros(256, np.int32)
    run(path, x, h, h2, n, grid=1)
    want = np.bincount(x, minlength=256)
    assert np.array_equal(h[:90], want[:90])
    assert np.array_equal(h2, want)


@files(r"sort_(fp32|i32)__.*")
def test_sort(path: Path) -> None:
    dtype, rows, columns = (np.float32, 4, 64) if "fp32" in path.stem else (np.int32, 1, 256)
    x = (np.random.default_rng().standard_normal((2 * rows, columns)) * 1000).astype(dtype)
    out, index = np.zeros_like(x), np.zeros(2000, np.int32)
    run(path, x, out, index, columns, grid=2)
    assert np.array_equal(out, -np.sort(-x, axis=1))
    assert np.array_equal(index[: 2 * rows], x.argmax(1))
    assert np.array_equal(index[1000 : 1000 + 2 * rows], x.argmin(1))


@files(r"scans__.*")
def test_scans(path: Path) -> None:
    x = np.random.default_rng().uniform(0.5, 1.5, (32, 64)).astype(np.float32)
    out = [np.zeros_like(x) for _ in range(3)]
    run(path, x, *out, 64, grid=2)
    wide = x.astype(np.float64)
    close(out[0], wide.cumsum(1), 1e-6)
    # the second output is a scan with an operation that is not associative: its value depends on the compiler
    close(out[2], np.concatenate([wide[:16].cumprod(0), wide[16:].cumprod(0)]), 1e-5)


@lru_cache(maxsize=1)
def philox(seed: int, count: int) -> np.ndarray:
    """Philox 4x32-10 (Salmon et al. 2011) with the counter (i, 0, 0, 0): four words for each i."""
    counter = [np.arange(count, dtype=np.uint64)] + [np.zeros(count, np.uint64)] * 3
    key = [np.uint64(seed & 0xFFFF_FFFF), np.uint64(seed >> 32)]
    low = np.uint64(0xFFFF_FFFF)
    for _ in range(10):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = [b >> np.uint64(32) ^ counter[1] ^ key[0], b & low, a >> np.uint64(32) ^ counter[3] ^ key[1], a & low]
        key = [key[0] + np.uint64(0x9E3779B9) & low, key[1] + np.uint64(0xBB67AE85) & low]
    return np.stack(counter).astype(np.uint32)


def uniform(words: np.ndarray) -> np.ndarray:
    signed = words.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


@files(r"dropout__.*")
def test_dropout(path: Path) -> None:
    """Triton's rand and randn from an implementation of the paper's generator."""
    n, p, seed = 1500, 0.3, 0x1234_5678_9ABC
    x = normal(n, np.float32)
    out = np.zeros_like(x)
    run(path, x, out, n, p, seed, grid=2)
    words = philox(seed, 2 * n)
    keep = uniform(words[0, :n]) > np.float32(p)
    u1, u2 = (uniform(words[i, n:]).astype(np.float64) for i in range(2))
    z = np.sqrt(-2 * np.log(np.maximum(1e-7, u1))) * np.cos(2 * np.pi * u2)
    close(out, np.where(keep, x / (1 - p), 0) + z, 1e-5)


# -------------------------------------------------------------------------------------------------- matrices


def matrices(dtype: Any, out: Any, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Small integers, whose products and sums are exact."""
    rng = np.random.default_rng()
    a, b = rng.integers(-3, 4, (m, k)).astype(dtype), rng.integers(-3, 4, (k, n)).astype(dtype)
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(out)
    return a, b, np.zeros((m, n), out), want


RESULTS = {"fp8e5": np.float16, "fp8e4nv": ml_dtypes.bfloat16, "i8": np.int32}


@files(r"matmul_(fp16_w.*|bf16|fp8e5|fp8e4nv|i8|fp32_\w+?|fp64|2cta)__sm(75|80|86|89|90|100|120)")
def test_matmul(path: Path) -> None:
    name = path.stem.split("__")[0].split("_")
    dtype = TYPES.get(name[1], np.float16)
    out = RESULTS.get(name[1], dtype)
    tile = (
        name[3]
        if name[1] == "fp16"
        else {"bf16": "128x64", "fp32": "64x64", "i8": "64x64", "fp64": "32x32"}.get(name[1], "128x128")
    )
    bm, bn = map(int, tile.split("x")[:2])
    m, n, k = bm + 16, 2 * bn - 48 if bn > 48 else bn + 16, 112  # two tiles each way
    a, b, c, want = matrices(dtype, out, m, n, k)
    cluster = 2 if name[1] == "2cta" else None
    grid = -(-m // bm) * -(-n // bn) * (2 if cluster else 1)
    run(path, a, b, c, m, n, k, k, 1, n, 1, n, 1, grid=grid, cluster=cluster)
    assert np.array_equal(c, want)


@files(r"matmul_splitk__sm(75|80|90|100|120)")
def test_matmul_split_k(path: Path) -> None:
    """Four CTAs add their parts of each tile with atomics."""
    m, n, k = 128, 64, 256
    a, b, c, want = matrices(np.float16, np.float32, m, n, k)
    run(path, a, b, c, m, n, k, k, n, n, grid=(2, 1, 4))
    assert np.array_equal(c, want)


# matmul_tma_fp16_ws1__sm120 needs more shared memory than sm_120 has
@files(r"matmul_tma_(fp16_ws\d__sm(90|103)|fp8e4nv_ws1__sm120)")
def test_matmul_with_tensor_maps_made_on_the_gpu(path: Path) -> None:
    dtype = TYPES[path.stem.split("_")[2]]
    m, n, k = 3416, 560, 80  # 27 x 5 tiles of 128 x 128
    rng = np.random.default_rng()
    a, b = rng.integers(-2, 3, (m, k)).astype(dtype), rng.integers(-2, 3, (n, k)).astype(dtype)
    c = np.zeros((m, n), dtype)
    run(path, a, b, c, m, n, k, grid=3, scratch=np.zeros(1 << 18, np.uint8))
    product = (a.astype(np.float32) @ b.astype(np.float32).T).astype(dtype)
    want = np.zeros_like(c)
    for tile in (0, 1, 2, 132, 133, 134):  # the kernels count on 132 CTAs; those that run make two tiles each
        i, j = 128 * (tile // 5), 128 * (tile % 5)
        want[i : i + 128, j : j + 128] = product[i : i + 128, j : j + 128]
    assert np.array_equal(c.view(np.uint8), want.view(np.uint8))


@files(r"attn_fwd_d(64|128)_(causal|full)__sm(75|80|89|90|100|120)")
def test_attention(path: Path) -> None:
    d = int(path.stem.split("_")[2][1:])
    causal = "causal" in path.stem
    heads, context = 2, 192
    q, k, v = (normal((heads, context, d), np.float16) for _ in range(3))
    out, lse = np.zeros_like(q), np.zeros((heads, context), np.float32)
    scale = d**-0.5
    run(path, q, k, v, out, lse, scale, context * d, d, context, grid=(2, heads))
    s = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * scale
    if causal:
        s = np.where(np.tril(np.ones((context, context), np.bool_)), s, -np.inf)
    # the kernel begins its sum with one, which it scales away from the first block on
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    close(out, p / p.sum(-1, keepdims=True) @ v.astype(np.float64), 2e-3)


@files(r"conv2d__sm(75|80|90|100|120)")
def test_convolution(path: Path) -> None:
    h, w, c, o = 12, 14, 48, 64
    rng = np.random.default_rng()
    x, weights = rng.integers(-2, 3, (h, w, c)).astype(np.float16), rng.integers(-2, 3, (3, 3, c, o)).astype(np.float16)
    y = np.zeros((h - 2, w - 2, o), np.float16)
    run(path, x, weights, y, h, w, c, o, grid=(2, 1))
    want = np.zeros((h - 2, w - 2, o))
    for r in range(3):
        for s in range(3):
            want += x[r : r + h - 2, s : s + w - 2].astype(np.float64) @ weights[r, s].astype(np.float64)
    assert np.array_equal(y, want.astype(np.float16))
