"""What the examples share: 16-byte vectors of f32 or bf16, errors and what sums of tensor cores
allow of them, the command line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import pyptx
from pyptx import ptx, reg
from pyptx.kernel import Kernel
from pyptx.reg import Reg, RegArray
from pyptx.types import PtxType, b32, bf16, f32, from_name

NUMPY: dict[PtxType, Any] = {f32: np.float32, bf16: ml_dtypes.bfloat16}
"""The NumPy type of a kernel's tensors."""
LIMIT = {f32: 1e-6, bf16: 2**-8}
"""The relative error that a kernel with f32 arithmetic may have, by the type it rounds its result to."""


def directives(threads: int) -> list[tuple[str, tuple[int, ...]]]:
    """What ptxas needs to know for `setmaxnreg`: with less it cannot tell how many registers a thread starts with, and
    ignores the instruction (C7508).
    """
    return [("reqntid", (threads,)), ("minnctapersm", (1,))]


def per_vector(dtype: PtxType) -> int:
    """Elements in 16 bytes."""
    return 128 // dtype.bits


def load_vector(dtype: PtxType, values: RegArray, address: Any, *, pred: Any = None) -> None:
    """Read 16 bytes of f32 or bf16 from global memory into f32 registers, through the read-only cache.

    Where `pred` does not hold, the values become 0.
    """
    if dtype == f32:
        if pred is not None:
            for v in values:
                ptx.inst.mov.f32(v, 0.0)
        ptx.inst.ld.global_.nc.v4.f32(values, address, pred=pred)
        return
    words = reg.array(b32, 4)
    if pred is not None:
        for w in words:
            ptx.inst.mov.b32(w, 0)
    ptx.inst.ld.global_.nc.v4.b32(words, address, pred=pred)
    for i, w in enumerate(words):  # bf16 is the upper half of f32
        ptx.inst.shl.b32(values[2 * i], w, 16)
        ptx.inst.and_.b32(values[2 * i + 1], w, 0xFFFF0000)


def store_vector(dtype: PtxType, address: Any, values: RegArray, *, pred: Any = None) -> None:
    """Write f32 registers to global memory as 16 bytes of f32 or bf16 (rounded to nearest even)."""
    if dtype == f32:
        ptx.inst.st.global_.v4.f32(address, values, pred=pred)
        return
    words = reg.array(b32, 4)
    for i, w in enumerate(words):
        ptx.inst.cvt.rn.bf16x2.f32(w, values[2 * i + 1], values[2 * i])
    ptx.inst.st.global_.v4.b32(address, words, pred=pred)


class Row:
    """How the threads of a CTA share a row of N elements: each has `rounds` vectors, `threads` vectors apart."""

    def __init__(self, N: int, dtype: PtxType):
        self.width = per_vector(dtype)
        if N < self.width or N % self.width:
            raise ValueError(
                f"rows are read in 16-byte vectors of {self.width} elements, and N = {N} is not a multiple"
            )
        vectors = N // self.width
        # 64 values per thread at most: they live in registers from the one read to the one write
        needed = -(-vectors // (64 // self.width))
        self.threads = min(1024, max(min(256, -(-vectors // 32) * 32), -(-needed // 32) * 32))
        self.rounds = -(-vectors // self.threads)
        if self.rounds * self.width > 64:
            raise ValueError(f"a row of N = {N} does not fit the registers of one CTA: 65536 elements at most")
        self.left = vectors - (self.rounds - 1) * self.threads
        """Threads that have a vector in the last round."""
        self.stride = self.threads * 16
        """Bytes from a thread's vector to its next."""

    def guard(self, tid: Reg) -> Callable[[int], Any]:
        """For each round, the predicate of the threads that have a vector in it, or None: all have."""
        inside = tid < self.left if self.left < self.threads else None
        return lambda i: inside if i == self.rounds - 1 else None


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Norm of the difference over the norm of the float64 reference."""
    return float(np.linalg.norm(got.astype(np.float64) - want) / np.linalg.norm(want))


@dataclass(frozen=True)
class Sums:
    """How a tensor core adds (docs/simulator.md): so many `products` and the accumulator at once, each cut off `fraction` bits
    below the largest; the sum is cut off to `kept` bits of fraction. `promoted`: after so many products it goes to f32 registers.
    """

    products: int
    fraction: int
    kept: int = 23
    promoted: int = 0

    def error(self, K: int, largest: float = 5.0) -> float:
        """The relative error (norm) that sums of K products may have whose signs are random.

        `largest`: the largest sum (or product) that is in the accumulator, over the root mean square of such sums. What is cut
        off each addend is at most 2**-fraction of it and evenly distributed, so K / products instructions err by
        sqrt(K / products * (products + 1) / 3) times that; what is cut off sums adds up, as it is always toward zero.
        """
        length = min(K, self.promoted or K)
        addends = largest * length**0.5 * 2.0**-self.fraction * ((self.products + 1) / (3 * self.products)) ** 0.5
        return addends + -(-length // self.products) * 2.0**-self.kept

    def __str__(self) -> str:
        promoted = f", promoted every {self.promoted} products" if self.promoted else ""
        return f"{min(self.fraction, self.kept)} bits of fraction{promoted}"


ROUNDED = 2.0**-9
"""The relative error of one rounding to bf16."""


def bf16_sums(arch: str) -> Sums:
    """How tensor cores add products of bf16."""
    return Sums(16, 25) if int(arch.strip("sm_af")) >= 90 else Sums(8, 24)


def told(error: float, limit: float, sums: Sums, arch: str) -> str:
    """The error of a result in words, with what the sums of an architecture allow."""
    return f"relative error {error:.1e} (at most {limit:.1e}, as {arch} sums: {sums})"


def findings(kernel: Kernel, seed: int = 0) -> list[Any]:
    """What the simulator's sanitizer finds when the kernel runs on random numbers (zeros for integers, which are indices);
    `seed` decides them and the order of the warps.
    """
    rng = np.random.default_rng(seed)
    inputs, outputs = kernel.in_specs or (), kernel.out_specs or ()
    sizes = dict.fromkeys(kernel.runtime_dims, 2)
    arrays: list[Any] = []
    for tile in inputs:
        array = tile.random(rng, **sizes)
        arrays.append(np.zeros_like(array) if tile.dtype.is_integer else array)
    arrays += [np.zeros_like(tile.random(rng, **sizes)) for tile in outputs]
    return list(pyptx.simulate(kernel, *arrays, seed=seed, check=True).findings)


def examine(kernel: Kernel) -> bool:
    """Print what pyptx, ptxas and the sanitizer (two seeds) have to say about a kernel; whether that is nothing but advice."""
    found = [*kernel.check(), *findings(kernel, 0), *findings(kernel, 1)]
    for finding in found:
        print(finding.render())
    print(f"{kernel.name} {kernel.arch}  checked by pyptx, ptxas and the sanitizer: {len(found) or 'no'} findings")
    return all(finding.severity == "advice" for finding in found)


def positive(text: str) -> int:
    """A number of the command line that is at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(
    description: str,
    check: Callable[..., float],
    build: Callable[..., Kernel],
    *,
    size: tuple[int, ...],
    names: tuple[str, ...],
    arch: str,
    limit: float | Callable[..., float] | None = None,
    flags: tuple[str, ...] = (),
) -> int:
    """The command line of an example: `--size`, `--arch`, `--dtype` (where it has one), its own `flags`, `--check`,
    `--ptx`. 0 if the result is right: the error that `check` returns is `limit` at most, or what it returns for the sizes.
    """
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--size", type=positive, nargs="+", metavar="N", default=size, help=" ".join(names))
    arguments.add_argument("--arch", default=arch)
    arguments.add_argument("--check", action="store_true", help="verify, assemble and sanitize it, too")
    arguments.add_argument("--ptx", action="store_true", help="print the PTX and stop")
    for flag in flags:
        arguments.add_argument(f"--{flag}", action="store_true")
    if limit is None:
        arguments.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    options = arguments.parse_args()
    sizes = tuple(options.size) * (len(names) if len(options.size) == 1 else 1)
    if len(sizes) != len(names):
        arguments.error(f"--size takes one number or {len(names)}: {' '.join(names)}")
    keywords: dict[str, Any] = {"arch": options.arch, **{flag: getattr(options, flag) for flag in flags}}
    if limit is None:
        keywords["dtype"] = from_name(options.dtype)
        limit = LIMIT[keywords["dtype"]]
    try:
        kernel = build(*sizes, **keywords)
    except ValueError as error:  # a size or target that the kernel is not made for
        arguments.error(str(error))
    try:
        text = kernel.ptx()
    except pyptx.PTXError as error:  # a target that lacks what the kernel uses
        arguments.exit(1, f"{error}\n")
    if options.ptx:
        print(text, end="")
        return 0
    right = check(*sizes, **keywords) <= (limit(*sizes, **keywords) if callable(limit) else limit)
    if options.check:
        right = examine(kernel) and right
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit("this is a part of the examples: run one of them, such as python -m examples.hopper.rms_norm")
