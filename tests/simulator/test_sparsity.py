"""spcompress and spdecompress against Python lists of numbers (ml_dtypes and NumPy decode them)."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import LoadedKernel
from tests.simulator.assembling import assembled

TYPES = {
    "u8": (8, 0, np.uint8),
    "s8": (8, 1, np.int8),
    "e5m2": (8, 2, ml_dtypes.float8_e5m2),
    "e4m3": (8, 3, ml_dtypes.float8_e4m3fn),
    "e3m2": (8, 4, ml_dtypes.float6_e3m2fn),
    "e2m3": (8, 5, ml_dtypes.float6_e2m3fn),
    "f16": (16, 0, np.float16),
    "bf16": (16, 1, ml_dtypes.bfloat16),
}
"""Size of an element, code in the descriptor, how NumPy calls it."""
COMPARISONS = ("MAX", "MAXABS", "MIN", "MINABS")
SPECIAL = {
    8: [0, 0x80, 0x7F, 0xFF, 0x7C, 0xFC, 0x7E, 1, 0x20],
    16: [0, 0x8000, 0x7C00, 0xFC00, 0x7F80, 0x7FC1, 0xFFFF, 1],
}
"""Codes that random ones seldom hit: zeros, infinities, NaNs."""


def registers(stem: str, count: int) -> str:
    return "{" + ", ".join(f"%{stem}{i}" for i in range(count)) + "}"


def kernel(line: str, inputs: dict[str, int], outputs: dict[str, int]) -> LoadedKernel:
    """Each thread loads the input registers one after another from `src`, and stores those of the output to `dst`."""
    reads, writes = sum(inputs.values()), sum(outputs.values())
    counts = {**inputs, **outputs}
    names = [f"%{s}{i}" for s, n in inputs.items() for i in range(n)]
    results = [f"%{s}{i}" for s, n in outputs.items() for i in range(n)]
    return assembled(f""".version 9.4
.target sm_107a
.address_size 64
.visible .entry k(.param .u64 src, .param .u64 dst)
{{
    .reg .b32 {", ".join(f"%{s}<{n}>" for s, n in counts.items())}, %t; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [src]; ld.param.u64 %rd2, [dst]; mov.u32 %t, %tid.x;
    mad.wide.u32 %rd3, %t, {4 * reads}, %rd1; mad.wide.u32 %rd4, %t, {4 * writes}, %rd2;
    {" ".join(f"ld.global.b32 {r}, [%rd3+{4 * i}];" for i, r in enumerate(names))}
    {line}
    {" ".join(f"st.global.b32 [%rd4+{4 * i}], {r};" for i, r in enumerate(results))}
    ret;
}}
""")


def best_two(codes: list[int], kind: str, comparison: str) -> list[int]:
    """The indices of the two elements of four that are kept, from the numbers that the codes stand for."""
    bits, _, dtype = TYPES[kind]
    mask = 63 if kind in ("e3m2", "e2m3") else (1 << bits) - 1
    values = [float(np.array([c & mask], f"u{bits // 8}").view(dtype)[0]) for c in codes]
    sign = -1 if comparison.startswith("MIN") else 1

    def key(i: int) -> tuple[object, ...]:
        value = values[i]
        if math.isnan(value):
            return (0, i)
        number = abs(value) if comparison.endswith("ABS") else value
        zero = 0.0 if comparison.endswith("ABS") else math.copysign(1, value)  # -0 is less than +0
        return (1, -sign * number, -sign * zero, i)

    return sorted(sorted(range(4), key=key)[:2])


def packed(values: list[int], bits: int, words: int) -> list[int]:
    """Values side by side in 32-bit words, lowest first."""
    whole = sum(v << bits * i for i, v in enumerate(values))
    return [whole >> 32 * i & 0xFFFFFFFF for i in range(words)]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("repeat", "index"), [(1, 2), (4, 4), (16, 2)])
def test_compress(kind: str, repeat: int, index: int) -> None:
    bits, code, _ = TYPES[kind]
    meta = math.ceil(repeat * index / bits)
    line = (
        f"spcompress.b{bits}.b{index}.sp::2:4.x{repeat} {registers('m', meta)}, {registers('c', repeat)},"
        f" {registers('d', 2 * repeat)}, %s0;"
    )
    k = kernel(line, {"d": 2 * repeat, "s": 1}, {"m": meta, "c": repeat})
    rng = np.random.default_rng()
    elements = rng.integers(0, 1 << bits, (32, 64 * repeat // bits), np.uint32)
    chosen = rng.random(elements.shape) < 0.5
    elements[chosen] = rng.choice(SPECIAL[bits], chosen.sum())
    comparison = rng.integers(0, 4, 32)
    source = np.zeros((32, 2 * repeat + 1), np.uint32)
    source[:, :-1] = elements.astype(f"u{bits // 8}").view(np.uint32)
    source[:, -1] = comparison | code << 2
    out = np.full((32, meta + repeat), 0xDEADBEEF, np.uint32)
    k.simulate(source, out, grid=1, block=32)
    for row, c, got in zip(elements.tolist(), comparison, out.tolist(), strict=True):
        groups = [row[i : i + 4] for i in range(0, len(row), 4)]
        best = [best_two(g, kind, COMPARISONS[c]) for g in groups]
        indices = [i for b in best for i in b]
        kept = [g[i] for g, b in zip(groups, best, strict=True) for i in b]
        assert got == packed(indices, index, meta) + packed(kept, bits, repeat), (COMPARISONS[c], row)


@pytest.mark.parametrize(
    ("bits", "index", "kept", "size", "repeat"),
    [(8, 2, 2, 4, 1), (8, 4, 1, 2, 2), (8, 4, 4, 16, 8), (16, 4, 2, 16, 4), (16, 2, 1, 4, 1), (8, 4, 1, 16, 1), (16, 2, 2, 4, 64),
     (8, 4, 4, 8, 64)],
)  # fmt: skip
def test_decompress(bits: int, index: int, kept: int, size: int, repeat: int) -> None:
    meta, few, many = (math.ceil(n * repeat / 32) for n in (kept * index, kept * bits, size * bits))
    line = (
        f"spdecompress.b{bits}.b{index}.sp::{kept}:{size}.x{repeat} {registers('d', many)}, {registers('m', meta)},"
        f" {registers('c', few)};"
    )
    k = kernel(line, {"m": meta, "c": few}, {"d": many})
    rng = np.random.default_rng()
    places = [[int(p) for _ in range(repeat) for p in rng.permutation(size)[:kept]] for _ in range(32)]
    elements = rng.integers(0, 1 << bits, (32, kept * repeat)).tolist()
    junk = rng.integers(0, 1 << 32, (32, meta + few), np.uint32)  # bits after the last element do not matter
    for row, p, e in zip(junk, places, elements, strict=True):
        for first, values, width, words in ((0, p, index, meta), (meta, e, bits, few)):
            keep = sum(((1 << width) - 1) << width * i for i in range(len(values)))
            old = sum(int(w) << 32 * i for i, w in enumerate(row[first : first + words]))
            new = (old & ~keep) | sum(v << width * i for i, v in enumerate(values))
            row[first : first + words] = [new >> 32 * i & 0xFFFFFFFF for i in range(words)]
    out = np.full((32, many), 0xDEADBEEF, np.uint32)
    k.simulate(junk, out, grid=1, block=32)
    for p, e, got in zip(places, elements, out.tolist(), strict=True):
        dense = [0] * (size * repeat)
        for i, (place, element) in enumerate(zip(p, e, strict=True)):
            dense[i // kept * size + place] = element
        assert got == packed(dense, bits, many)


def test_decompress_undoes_compress() -> None:
    """What comes back is the dense vector where two of four are not zero."""
    line = f"""spcompress.b16.b4.sp::2:4.x4 {{%m0}}, {registers("c", 4)}, {registers("d", 8)}, 0f00000001;
        spdecompress.b16.b4.sp::2:4.x4 {registers("e", 8)}, {{%m0}}, {registers("c", 4)};"""
    k = kernel(line, {"d": 8}, {"m": 1, "c": 4, "e": 8})
    rng = np.random.default_rng()
    dense = rng.standard_normal((32, 4, 4)).astype(np.float16)
    for group in dense.reshape(-1, 4):
        group[rng.permutation(4)[:2]] = 0
    out = np.full((32, 13), 0xDEADBEEF, np.uint32)
    k.simulate(dense.reshape(32, -1).view(np.uint32), out, grid=1, block=32)
    assert (np.ascontiguousarray(out[:, 5:]).view(np.uint16) == dense.reshape(32, -1).view(np.uint16)).all()


def test_a_guard_keeps_the_registers_of_the_others() -> None:
    line = """.reg .pred %p; setp.eq.u32 %p, %t, 7; mov.b32 %m0, 5; mov.b32 %c0, 6;
        @%p spcompress.b8.b2.sp::2:4.x1 {%m0}, {%c0}, {%d0, %d1}, %s0;"""
    k = kernel(line, {"d": 2, "s": 1}, {"m": 1, "c": 1})
    source = np.tile(np.array([0x04030201, 0x01020304, 0], np.uint32), (32, 1))
    out = np.zeros((32, 2), np.uint32)
    k.simulate(source, out, grid=1, block=32)
    assert out[7].tolist() == [0b01001110, 0x03040403]
    assert (np.delete(out, 7, 0) == [5, 6]).all()


@pytest.mark.parametrize(
    ("line", "words", "reason"),
    [
        ("spcompress.b16.b2.sp::2:4.x1 {%m0}, {%c0}, {%d0, %d1}, %s0;", (0, 0, 8), "type 2 in bits 2 to 31"),
        ("spcompress.b8.b2.sp::2:4.x1 {%m0}, {%c0}, {%d0, %d1}, %s0;", (0, 0, 32), "type 8"),
        ("mov.b32 %m0, 0; spdecompress.b8.b4.sp::2:4.x1 {%c0}, {%d0}, {%d1};", (0x31, 0, 0), ""),
        ("mov.b32 %m0, 0; spdecompress.b8.b4.sp::2:4.x1 {%c0}, {%d0}, {%d1};", (0x41, 0, 0), "is 4, and a group has 4"),
    ],
)
def test_faults(line: str, words: tuple[int, ...], reason: str) -> None:
    k = kernel(line, {"d": 2, "s": 1}, {"m": 1, "c": 1})
    source, out = np.tile(np.array(words, np.uint32), (32, 1)), np.zeros((32, 2), np.uint32)
    if not reason:
        k.simulate(source, out, grid=1, block=32)
        return
    with pytest.raises(SimulationError, match=reason):
        k.simulate(source, out, grid=1, block=32)
