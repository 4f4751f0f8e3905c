"""Fragments by row and column: against NVIDIA's own tables (tests/data/layouts), and in kernels against NumPy."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pyptx import PTXError, Tile, kernel, ptx, reg, smem
from pyptx.types import PtxType, b32, bf16, e4m3, f16, f32, f64, s8, s32, tf32, u8, u32
from tests.frontend.tracing import assembled, ptx_of

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"


def table(name: str) -> Any:
    return json.loads(gzip.decompress((LAYOUTS / f"{name}.json.gz").read_bytes()))


TYPES: dict[tuple[str, int], PtxType] = {("A", 8): s8, ("A", 16): bf16, ("A", 32): tf32, ("A", 64): f64, ("C", 16): f16,
                                         ("C", 32): f32, ("C", 64): f64}  # fmt: skip


def operands() -> dict[tuple[str, int, int, int, int], list[list[int]]]:
    """(operand, m, n, k, bits) -> [thread][value] -> column * rows + row, as the tables have it."""
    mma = table("mma_sync")
    found: dict[tuple[str, int, int, int, int], list[list[int]]] = {}
    for op in mma["ops"]:
        if isinstance(op.get("threads"), list) or "SFA" in op or "E" in op or ".sp" in op["ptx"]:
            continue  # by quads, scaled and sparse
        for operand in "ABC":
            bits = op["value_bits"][operand]
            if bits >= 8:
                found[operand, *op["mnk"], bits] = mma["layouts"][op[operand]]["tv"]
    return found


OPERANDS = operands()


def test_mma_against_the_tables() -> None:
    seen = 0

    def check() -> None:
        nonlocal seen
        for (operand, m, n, k, bits), values in OPERANDS.items():
            dtype = TYPES["C" if operand == "C" else "A", bits]
            held = reg.mma_frag(operand, (m, n, k), dtype)
            rows = {"A": m, "B": n, "C": m}[operand]
            for thread in range(32):
                for value, at in enumerate(values[thread]):
                    column, row = divmod(int(at), rows)  # B's table is N x K
                    place = (column, row) if operand == "B" else (row, column)
                    assert held.where(*place) == (thread, value // held.per, value % held.per)
                    seen += 1

    kernel(check).ptx()
    assert seen > 4000


def test_wgmma_against_the_tables() -> None:
    def check() -> None:
        for n in (8, 64, 256):
            held = reg.wgmma_frag(m=64, n=n, dtype=f32)
            assert isinstance(held, reg.Fragment)
            for thread, value, at in wgmma_places(n):
                column, row = divmod(at, 64)
                assert held.where(row, column) == (thread, value, 0)

    ptx_of(check)


def wgmma_places(n: int) -> list[tuple[int, int, int]]:
    layout = next(e for e in table("wgmma")["D_layouts"] if e["n"] == n)["layout"]
    shape, stride = layout["shape"], layout["stride"]
    threads, values = points(shape[0], stride[0]), points(shape[1], stride[1])
    return [(t, v, a + b) for t, a in enumerate(threads) for v, b in enumerate(values)]


def points(shape: Any, stride: Any) -> list[int]:
    """The offsets of a CuTe mode, the first of its parts fastest."""
    if isinstance(shape, int):
        return [i * stride for i in range(shape)]
    found = [0]
    for part, step in zip(shape, stride, strict=True):
        found = [a + b for b in points(part, step) for a in found]
    return found


@pytest.mark.parametrize(
    ("dtype", "k", "source"), [(bf16, 16, ml_dtypes.bfloat16), (e4m3, 32, ml_dtypes.float8_e4m3fn)]
)
def test_a_product_by_rows_and_columns(dtype: PtxType, k: int, source: Any) -> None:
    """Fragments filled and written by (row, column) alone."""

    @kernel(
        arch="sm_89", in_specs=[Tile(16, k, dtype), Tile(8, k, dtype)], out_specs=[Tile(16, 8, f32)], grid=1, block=32
    )
    def multiply(a, b, out):
        lane = ptx.special.laneid()
        fa, fb = reg.mma_frag("A", (16, 8, k), dtype), reg.mma_frag("B", (16, 8, k), dtype)
        d = reg.mma_frag("D", (16, 8, k), f32, init=0.0)
        pa, pb, po = ptx.pointer(a, b32), ptx.pointer(b, b32), ptx.pointer(out)
        row, depth = fa.origin(lane)
        for r, c, register, part in fa.items():
            if part == 0:
                (pa + ((row + r) * k + depth + c) // fa.per).load(dst=register)
        depth, column = fb.origin(lane)
        for r, c, register, part in fb.items():
            if part == 0:
                (pb + ((column + c) * k + depth + r) // fb.per).load(dst=register)
        ptx.mma.sync(shape=(16, 8, k), dtype_d=f32, dtype_a=dtype, dtype_b=dtype, d=d, a=fa, b=fb, c=d)
        d[8, 1] = d[8, 1] + 1.0
        row, column = d.origin(lane)
        for r, c, register, _ in d.items():
            (po + ((row + r) * 8 + column + c)).store(register)

    assembled(multiply)
    a, b = (np.random.default_rng().standard_normal(s).astype(source) for s in ((16, k), (8, k)))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    want[8:, 1::2] += 1
    # sums are cut 13 (FP8 on sm_89) or 24 bits below their largest term: ../shared/numerics/tensor_core_numerics.md
    bits = 13 if dtype is e4m3 else 24
    largest = np.abs(a.astype(np.float64)).max() * np.abs(b.astype(np.float64)).max()
    assert np.abs(multiply(a, b) - want).max() <= (k + 1) * 2.0 ** (1 - bits) * largest


def test_an_accumulator_of_wgmma_by_rows_and_columns() -> None:
    @kernel(arch="sm_90a", in_specs=[], out_specs=[Tile(64, 16, u32)], grid=1, block=128)
    def places(out):
        d = reg.wgmma_frag(m=64, n=16, dtype=u32)
        tid = reg.from_(ptx.special.tid.x(), u32)
        row, column = d.origin(tid)
        for r, c, register, _ in d.items():
            d[r, c] = tid * 100 + r + c
            (ptx.pointer(out) + ((row + r) * 16 + column + c)).store(register)

    assembled(places)
    found = places()
    for row in range(64):
        for column in range(16):
            thread = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
            assert found[row, column] == thread * 100 + (row // 8 % 2) * 8 + column // 8 * 8 + column % 2


def test_what_fragments_refuse() -> None:
    def check() -> None:
        d = reg.mma_frag("D", "m16n8k16", f32)
        with pytest.raises(IndexError, match=r"holds the elements at \(0, 0\), \(0, 1\), \(8, 0\), \(8, 1\)"):
            d[1, 0]
        with pytest.raises(IndexError, match=r"no element \(16, 0\)"):
            d.where(16, 0)
        a = reg.mma_frag("A", (16, 8, 16), f16)
        assert len(a) == 4
        with pytest.raises(PTXError, match="2 elements share a register"):
            a[0, 1] = reg.scalar(b32)
        for wrong in (lambda: reg.mma_frag("E", (16, 8, 16), f16), lambda: reg.mma_frag("A", (16, 8, 12), f16),
                      lambda: reg.mma_frag("D", (16, 16, 16), s32), lambda: reg.mma_frag("D", (16, 8, 12), f32),
                      lambda: reg.mma_frag("C", (8, 8, 8), f32), lambda: reg.mma_frag("A", (16, 8, 64), u8),
                      lambda: reg.mma_frag("D", (8, 8, 4), f32)):  # fmt: skip
            with pytest.raises(PTXError, match=r"mma\.sync has no operand"):
                wrong()
        smem.alloc(f32, 1)

    kernel(check).ptx()
