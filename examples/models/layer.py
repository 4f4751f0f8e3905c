"""A decoder layer of a language model (the structure of Llama's) in bf16, of the kernels of `examples/hopper` on torch tensors.

    h = rms_norm(x);   q, k, v = rotary(h Wqkv^T);   x = x + attention(q, k, v) Wo^T
    h = rms_norm(x);   y = x + swiglu(h Wgate^T, h Wup^T) Wdown^T

Weights are (outputs, inputs), as torch.nn.Linear has them. Attention is causal, and sums of residuals are torch's. On CPU tensors
everything runs on the simulator: `--check` with all checks of the sanitizer, `--workers 2` in two processes.

    python -m examples.models.layer --tokens 256 --hidden 1024

Measured: results against float64 on the simulator. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyptx
from examples.common import ROUNDED, relative_error
from examples.hopper import flash_attention, gemm, rms_norm, rotary, swiglu
from pyptx.kernel import Kernel
from pyptx.types import bf16

Run = Callable[..., Any]
"""Launches a kernel on input tensors and returns its results."""
LIMIT = 8 * ROUNDED
"""Eight results are rounded to bf16 one after the other, and what the sums add is less than that."""


@dataclass(frozen=True)
class Sizes:
    """`hidden` is `heads` heads of 64; the feed-forward part has `inner` columns."""

    tokens: int
    hidden: int
    inner: int

    @property
    def heads(self) -> int:
        return self.hidden // 64


def weights(sizes: Sizes, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Random weights of the scale that keeps the size of activations."""
    h, inner = sizes.hidden, sizes.inner
    shapes = {"qkv": (3 * h, h), "o": (h, h), "gate": (inner, h), "up": (inner, h), "down": (h, inner)}
    made = {name: random.standard_normal(shape) / shape[1] ** 0.5 for name, shape in shapes.items()}
    return {**made, "first": random.uniform(0.5, 1.5, h), "second": random.uniform(0.5, 1.5, h)}


def layer(x: Any, weight: dict[str, Any], sizes: Sizes, run: Run) -> Any:
    """The layer on tensors: x (tokens, hidden) bf16 and `weights` of the framework that `run` launches on."""
    tokens, hidden = sizes.tokens, sizes.hidden

    def times(a: Any, b: Any) -> Any:
        """a (tokens, K) times b (N, K) transposed."""
        return run(gemm.build(tokens, *b.shape), a, b)

    def normal(a: Any, gain: Any) -> Any:
        return run(rms_norm.build(tokens, hidden, dtype=bf16), a, gain)

    qkv = times(normal(x, weight["first"]), weight["qkv"])
    q, k, v = run(rotary.build(tokens, sizes.heads, 64), qkv, weight["cosine"], weight["sine"])
    seen, _ = run(flash_attention.build(sizes.heads, tokens, tokens, 64, causal=True), q, k, v)
    x = x + times(seen.permute(1, 0, 2).reshape(tokens, hidden).contiguous(), weight["o"])
    h = normal(x, weight["second"])
    inner = run(swiglu.build(tokens, sizes.inner, dtype=bf16), times(h, weight["gate"]), times(h, weight["up"]))
    return x + times(inner, weight["down"])


def reference(x: np.ndarray, weight: dict[str, np.ndarray], sizes: Sizes) -> np.ndarray:
    """The same in float64."""
    h = rms_norm.reference(x, weight["first"])
    q, k, v = rotary.reference(h @ weight["qkv"].T, weight["cosine"], weight["sine"], sizes.heads)
    seen, _ = flash_attention.reference(q, k, v, causal=True)
    x = x + seen.transpose(1, 0, 2).reshape(x.shape) @ weight["o"].T
    h = rms_norm.reference(x, weight["second"])
    return x + swiglu.reference(h @ weight["gate"].T, h @ weight["up"].T) @ weight["down"].T


def simulated(report: Callable[[str, float, Any], object], **options: Any) -> Run:
    """A `Run` for torch's CPU tensors, with options of `pyptx.simulate`; `report` gets names, seconds and reports."""
    import torch

    def run(kernel: Kernel, *inputs: Any) -> Any:
        outs = [
            torch.empty([int(n) for n in tile.dims], dtype=getattr(torch, _NAMES[str(tile.dtype)]))
            for tile in kernel.out_specs or ()
        ]
        start = time.perf_counter()
        done = pyptx.simulate(kernel, *inputs, *outs, **options)
        report(kernel.name, time.perf_counter() - start, done)
        return outs[0] if len(outs) == 1 else outs

    return run


_NAMES = {"bf16": "bfloat16", "f32": "float32"}


def check(tokens: int, hidden: int, inner: int, **options: Any) -> float:
    """Run a layer with fresh random weights and return the relative error; prints a line for each kernel."""
    import torch

    sizes = Sizes(tokens, hidden, inner)
    random = np.random.default_rng()
    cosine, sine = rotary.angles(tokens, 64)

    def tensor(array: np.ndarray) -> Any:
        return torch.from_numpy(array).to(torch.bfloat16)

    x = tensor(random.standard_normal((tokens, hidden)))
    weight = {name: tensor(array) for name, array in weights(sizes, random).items()}
    total = 0.0
    errors = 0

    def report(name: str, seconds: float, done: Any) -> None:
        nonlocal total, errors
        total += seconds
        errors += len(done.errors)
        print(f"{name:16} {seconds:6.2f} s  {done.instructions:>12,} thread instructions  {len(done.errors)} errors")

    angles = {"cosine": torch.from_numpy(cosine), "sine": torch.from_numpy(sine)}
    y = layer(x, {**weight, **angles}, sizes, simulated(report, **options))
    known = {name: array.to(torch.float64).numpy() for name, array in {**weight, **angles}.items()}
    error = relative_error(y.to(torch.float64).numpy(), reference(x.to(torch.float64).numpy(), known, sizes))
    print(f"layer: {tokens} tokens, hidden {hidden}: {total:.1f} s, relative error {error:.1e}")
    return error if not errors else float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=128, help="a multiple of 64, up to 2048")
    parser.add_argument(
        "--inner", type=int, help="columns of the feed-forward part (default: 8/3 of hidden, to a multiple of 64)"
    )
    parser.add_argument("--check", action="store_true", help="with the sanitizer")
    parser.add_argument("--engine", choices=("auto", "jit", "numpy"))
    parser.add_argument("--workers", type=int, help="processes")
    given = parser.parse_args()
    for name in ("tokens", "inner", "workers"):
        if (number := getattr(given, name)) is not None and number < 1:
            parser.error(f"--{name} is a positive integer, not {number}")
    if given.inner and given.inner % 8:
        parser.error(f"--inner is a multiple of 8, not {given.inner}")
    if given.hidden % 64 or not 64 <= given.hidden <= 2048:
        parser.error(f"--hidden is a multiple of 64 from 64 to 2048, not {given.hidden}")
    inner = given.inner or -(-given.hidden * 8 // 3 // 64) * 64
    error = check(given.tokens, given.hidden, inner, check=given.check, engine=given.engine, workers=given.workers)
    return int(not error <= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
