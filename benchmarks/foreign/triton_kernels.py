"""Triton kernels in the usual styles as cases: python triton_kernels.py FOLDER ARCH, in a Python with triton."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import triton
import triton.language as tl
from case import Case, save
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

OUT, ARCH = sys.argv[1:3]
SM = int(re.sub(r"\D", "", ARCH))
rng = np.random.default_rng(5)


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def layer_norm(x, w, b, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < n
    v = tl.load(x + row * n + i, mask=m, other=0.0)
    mean = tl.sum(v, 0) / n
    d = tl.where(m, v - mean, 0.0)
    r = d / tl.sqrt(tl.sum(d * d, 0) / n + 1e-5)
    tl.store(out + row * n + i, r * tl.load(w + i, mask=m) + tl.load(b + i, mask=m), mask=m)


@triton.jit
def in_place(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(x + i, v * 2.0 + 1.0, mask=i < n)


@triton.jit
def in_place_scalar(x):
    tl.store(x, tl.load(x) * 2.0 + 1.0)


@triton.jit
def in_place_softmax(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(x + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def in_place_pairs(x, c, s, n, HALF: tl.constexpr):
    """The rotation of rotary embeddings."""
    i = tl.arange(0, HALF)
    row = x + tl.program_id(0) * n
    a, b = tl.load(row + i), tl.load(row + HALF + i)
    cos, sin = tl.load(c + i), tl.load(s + i)
    tl.store(row + i, a * cos - b * sin)
    tl.store(row + HALF + i, b * cos + a * sin)


@triton.jit
def in_place_steps(x, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(x + i, tl.load(x + i, mask=i < n) * 0.5, mask=i < n)


@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), 0))


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i), 0))


@triton.jit
def transpose(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    r = tl.program_id(0) * BLOCK + i
    c = tl.program_id(1) * BLOCK + i
    v = tl.load(x + r[:, None] * n + c[None, :])
    tl.store(out + c[:, None] * n + r[None, :], tl.trans(v))


@triton.jit
def arg_max(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(out + row, tl.argmax(tl.load(x + row * n + i, mask=i < n, other=-float("inf")), 0))


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def attention(q, k, v, out, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        y = tl.load(k + j[None, :] * D + d[:, None])
        s = tl.dot(x, y) * scale
        new = tl.maximum(best, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        old = tl.exp(best - new)
        norm = norm * old + tl.sum(p, 1)
        acc = acc * old[:, None]
        acc = tl.dot(p.to(tl.float16), tl.load(v + j[:, None] * D + d[None, :]), acc)
        best = new
    tl.store(out + m[:, None] * D + d[None, :], acc / norm[:, None])


TYPES = {"float32": "*fp32", "float16": "*fp16", "int32": "*i32", "uint16": "*bf16", "int8": "*i8"}


def emit(name: str, kernel: Any, grid: tuple[int, ...], values: list[Any], constants: dict[str, int], expected: dict[int, Any],
         tolerance: float = 1e-5, warps: int = 4, stages: int = 2) -> None:  # fmt: skip
    """`values` are arrays and numbers in the order of the kernel's parameters; `expected`: by the number of the array."""
    names = [n for n in kernel.arg_names if n not in constants]
    signature = {
        n: TYPES[v.dtype.name] if isinstance(v, np.ndarray) else "fp32" if isinstance(v, float) else "i32"
        for n, v in zip(names, values, strict=True)
    }
    aligned = {(kernel.arg_names.index(n),): [["tt.divisibility", 16]] for n, v in zip(names, values, strict=True)
               if isinstance(v, np.ndarray) or (isinstance(v, int) and v % 16 == 0)}  # fmt: skip
    signature |= dict.fromkeys(constants, "constexpr")
    signature = {n: signature[n] for n in kernel.arg_names}
    full = f"triton_{name}_sm{SM}"
    try:
        source = ASTSource(kernel, signature, {(kernel.arg_names.index(n),): c for n, c in constants.items()}, aligned)
        made = triton.compile(
            source, target=GPUTarget("cuda", SM, 32), options={"num_warps": warps, "num_stages": stages}
        )
        text, shared = made.asm["ptx"], made.metadata.shared
    except Exception as error:
        print(f"{full}: not generated: {type(error).__name__}: {str(error).strip().splitlines()[:1]}")
        return
    entry = re.search(r"\.entry\s+([\w$]+)\((.*?)\)", text, re.DOTALL)
    threads = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", text)
    assert entry and threads
    case = Case(full, text, entry[1], [*grid, 1, 1][:3], [int(threads[1]), 1, 1], None, shared, tolerance=tolerance)
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    taken = 0
    for number, value in enumerate(values):
        if isinstance(value, np.ndarray):
            case.pointers.append((number, 0, taken, 0))
            case.arguments.append(bytes(8).hex())
            taken += 1
        else:
            case.arguments.append(np.array(value, np.float32 if isinstance(value, float) else np.int32).tobytes().hex())
    case.arguments += [bytes(8).hex()] * (
        entry[2].count(".param") - len(values)
    )  # scratch memory, which none of these uses
    save(
        Path(OUT),
        case,
        arrays,
        expected,
        {i: arrays[i].dtype.name if arrays[i].dtype != np.uint16 else "bf16" for i in expected},
    )
    print(full)


def singles(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


x, y = singles(1000), singles(1000)
emit("add", add, (4,), [x, y, np.zeros_like(x), 1000], {"BLOCK": 256}, {2: x + y})
h, g = x.astype(np.float16), y.astype(np.float16)
emit("add_f16", add, (2,), [h, g, np.zeros_like(h), 1000], {"BLOCK": 512}, {2: h + g}, 1e-3)
s = singles(6, 200)
e = np.exp(s.astype(np.float64) - s.max(1, keepdims=True))
emit("softmax", softmax, (6,), [s, np.zeros_like(s), 200], {"BLOCK": 256}, {1: e / e.sum(1, keepdims=True)})
w, b = singles(200), singles(200)
d = s.astype(np.float64) - s.mean(1, keepdims=True, dtype=np.float64)
emit("layer_norm", layer_norm, (6,), [s, w, b, np.zeros_like(s), 200], {"BLOCK": 256},
     {3: d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * w + b})  # fmt: skip
emit("in_place", in_place, (4,), [x.copy(), 1000], {"BLOCK": 256}, {0: x.astype(np.float64) * 2 + 1})
emit("in_place_scalar", in_place_scalar, (1,), [x[:1].copy()], {}, {0: x[:1].astype(np.float64) * 2 + 1})
for block in (1, 8, 32, 64):
    for warps in (4, 8):
        emit(f"in_place_{block}_w{warps}", in_place, (3,), [x[: 3 * block].copy(), 3 * block], {"BLOCK": block},
             {0: x[: 3 * block].astype(np.float64) * 2 + 1}, warps=warps)  # fmt: skip
for block in (32, 64):
    rows = x[: 4 * block].reshape(4, block)
    e = np.exp(rows.astype(np.float64) - rows.max(1, keepdims=True))
    emit(f"in_place_softmax_{block}", in_place_softmax, (4,), [rows.copy(), block], {"BLOCK": block},
         {0: e / e.sum(1, keepdims=True)})  # fmt: skip
    cos, sin = (np.asarray(f(np.arange(block)), np.float32) for f in (np.cos, np.sin))
    a, b = (v.astype(np.float64) for v in (x[: 2 * block].reshape(2, 1, block)[:, 0], y[: 2 * block].reshape(2, block)))
    emit(f"in_place_pairs_{block}", in_place_pairs, (2,), [np.concatenate([a, b], 1).astype(np.float32), cos, sin, 2 * block],
         {"HALF": block}, {0: np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)})  # fmt: skip
    emit(f"in_place_steps_{block}", in_place_steps, (1,), [x[:300].copy(), 300], {"BLOCK": block}, {0: x[:300] * 0.5})
emit(
    "total",
    total,
    (4,),
    [x, np.zeros(1, np.float32), 1000],
    {"BLOCK": 256},
    {1: x.sum(dtype=np.float64, keepdims=True)},
    1e-4,
)
bins = rng.integers(0, 16, 1000, dtype=np.int32)
emit(
    "histogram",
    histogram,
    (4,),
    [bins, np.zeros(16, np.int32), 1000],
    {"BLOCK": 256},
    {1: np.bincount(bins, minlength=16)},
)
emit("scan", scan, (2,), [x[:1024].copy()[:512], np.zeros(512, np.float32)], {"BLOCK": 256},
     {1: np.cumsum(x[:512].reshape(2, 256).astype(np.float64), 1).reshape(-1)})  # fmt: skip
t = singles(64, 64)
emit("transpose", transpose, (2, 2), [t, np.zeros_like(t), 64], {"BLOCK": 32}, {1: t.T})
emit("arg_max", arg_max, (6,), [s, np.zeros(6, np.int32), 200], {"BLOCK": 256}, {1: s.argmax(1)})
for kind, tile in (
    ("float16", (64, 64, 32)),
    ("float32", (32, 32, 32)),
    ("int8", (64, 64, 64)),
    ("bfloat16", (128, 64, 32)),
):
    m, n, k = tile[0] * 2, tile[1], tile[2] * 3
    p, r = (rng.integers(-3, 4, shape) for shape in ((m, k), (k, n)))
    if kind == "int8":
        continue
    if kind == "bfloat16":
        pa, ra = ((v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for v in (p, r))
    else:
        pa, ra = p.astype(kind), r.astype(kind)
    for warps in (4, 8) if kind == "float16" else (4,):
        emit(f"matmul_{kind}_w{warps}", matmul, (2, 1), [pa, ra, np.zeros((m, n), np.float32), m, n, k],
             dict(zip(("BM", "BN", "BK"), tile, strict=True)), {2: p @ r}, warps=warps, stages=3)  # fmt: skip
q, kk, v = (singles(128, 64).astype(np.float16) for _ in range(3))
scores = q.astype(np.float64) @ kk.astype(np.float64).T * 0.125
pr = np.exp(scores - scores.max(1, keepdims=True))
emit("attention", attention, (2,), [q, kk, v, np.zeros((128, 64), np.float32), 128, 0.125], {"D": 64, "BM": 64, "BN": 64},
     {3: pr / pr.sum(1, keepdims=True) @ v.astype(np.float64)}, 5e-3)  # fmt: skip
