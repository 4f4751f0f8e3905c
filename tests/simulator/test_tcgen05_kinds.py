"""tcgen05.mma as PTX 9.4 extended it: integers of eleven bits, B from lookup tables, wider K, scale factors of type ue5m3 and
in 128 lanes, columns that count as zero. NumPy is the reference; every kernel is assembled by ptxas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.dialects.ptx.instruction_descriptor import KINDS, InstructionDescriptor, read_descriptor
from pyptx.simulator import LoadedKernel
from pyptx.simulator.semantics.tensor_core_operands import column_mask
from tests.simulator import test_tcgen05 as basic
from tests.simulator.assembling import assembled
from tests.simulator.test_tcgen05 import COMMIT, COMMIT_PAIR, DESCRIPTORS, FORMATS, SPACE, blackwell, noise, values
from tests.simulator.test_wgmma import layout_for, place

RUBIN = "9.5 sm_107a"


@pytest.fixture(autouse=True)
def _assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic, "load", lambda source: {"k": assembled(source)})


def kernel(body: str, **options: Any) -> LoadedKernel:
    return basic.kernel(body, **({"target": RUBIN} | options))


def descriptor(kind: str, d: str, a: str, b: str, m: int, n: int, k: int, **more: Any) -> int:
    """An instruction descriptor, bit by bit from the tables of PTX ISA 9.7.18.4.2."""
    word = n >> 3 << 17
    code = {"f16": 0, "s1z4m11": 3, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5, "bf16": 1, "u8": 0, "s8": 1}
    if kind in ("mxf4", "mxf4nvf4"):
        word |= 1 << 7 | 1 << 10 | m >> 7 << 27
    else:
        word |= code[a] << 7 | code[b] << 10 | (m >> 7 << 27 if kind == "mxf8f6f4" else m >> 4 << 24)
    dense = k // 2 if more.get("sparse") else k
    if kind[:2] != "mx":
        word |= {"f16": 0, "f32": 1, "s32": 2}[d] << 4 | (kind == "f8f6f4" and dense == 64) << 29
    elif kind == "mxf8f6f4":
        word |= 1 << 23 | (dense == 64) << 31
    else:
        word |= (
            (dense == 96) << 31 | (dense == 128) << 3 | {"ue4m3": 0, "ue8m0": 1, "ue5m3": 2}[more.pop("scales")] << 23
        )
    more.pop("scales", None)
    places = {"sparse": 2, "saturate": 3, "a_sf": 29, "b_sf": 4, "version": 12, "wide": 26, "a_negate": 13, "b_negate": 14,
              "a_mn": 15, "b_mn": 16}  # fmt: skip
    for name, value in more.items():
        word |= int(value) << places[name]
    return word


def bits_of(matrix: np.ndarray, kind: str, bits: int) -> np.ndarray:
    """Elements without padding: rows of bytes, the first element lowest."""
    codes = matrix.astype(FORMATS[kind]).view(np.uint8)
    words = [sum(int(x) << bits * i for i, x in enumerate(row)) for row in codes]
    return np.stack([np.frombuffer(w.to_bytes(matrix.shape[1] * bits // 8, "little"), np.uint8) for w in words])


def run(
    text: str, tiles: np.ndarray, image: np.ndarray, a: int, b: int, word: int, accumulate: int = 1, before: str = "",
    target: str = RUBIN,
) -> Any:  # fmt: skip
    """Simulate one instruction; `tiles` and `image` have the CTAs of the pair, or the only one."""
    pair = len(tiles) == 2
    body = f"{before} {text}; {COMMIT_PAIR if pair else COMMIT}"
    grid = {"grid": 2, "cluster": 2} if pair else {"grid": 1}
    return kernel(body, cluster=len(tiles), target=target).simulate(
        tiles, image, a, b, word, accumulate, block=128, **grid
    )


def put_s32(image: np.ndarray, d: np.ndarray, mode: str) -> None:
    image[basic.d_places(*d.shape, mode)] = (d & 0xFFFF_FFFF).astype(np.uint32)


# ---------------------------------------------------------------------------------------------------------- ti16


def ti16(x: np.ndarray) -> np.ndarray:
    """A sign, four zeros, eleven bits of magnitude; half of the zeros are negative ones."""
    sign = (x < 0) | ((x == 0) & (np.random.default_rng().random(x.shape) < 0.5))
    return (sign.astype(np.uint16) << 15) | np.abs(x).astype(np.uint16)


@pytest.mark.parametrize(
    ("m", "n", "opcode", "mode", "source", "major"),
    [
        (128, 96, "mma", "1", "smem", "K"), (64, 24, "mma", "1", "tmem", "K"), (128, 64, "mma", "1", "smem", "MN"),
        (32, 64, "mma.ws", "ws", "smem", "K"), (256, 64, "mma", "2", "smem", "K"), (128, 32, "mma", "2", "smem", "K"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("negate", [0, 1])
def test_integers_of_eleven_bits(m: int, n: int, opcode: str, mode: str, source: str, major: str, negate: int) -> None:
    """The sums are exact and wrap; collectors of A and B change nothing."""
    rng = np.random.default_rng()
    a, b = (rng.integers(-2047, 2048, (rows, 16)) for rows in (m, n))
    a[0], b[0] = 2047, -2047
    c = rng.integers(-(1 << 31), 1 << 31, (m, n))
    group = 2 if mode == "2" else 1
    tiles, image = np.zeros((group, SPACE), np.uint8), noise(group)
    la, lb = layout_for(major, "64B", m // group, 16, 2), layout_for("K", "128B", n // group, 16, 2)
    want = (a @ b.T * (-1 if negate else 1)) + c
    expected = image.copy()
    for i in range(group):
        rows = slice(i * m // group, (i + 1) * m // group)
        place(ti16(a[rows]), la, tiles[i], 0)
        place(ti16(b[i * n // group : (i + 1) * n // group]), lb, tiles[i], 32768)
        put_s32(image[i], c[rows], mode)
        expected[i] = image[i]
        put_s32(expected[i], want[rows], mode)
    da, before = "%rd3", ""
    if source == "tmem":
        lane = np.arange(m) % 16 + 32 * (np.arange(m) // 16)
        image[0, lane, 300:308] = expected[0, lane, 300:308] = ti16(a).view(np.uint32)
        da, before = "[%r11]", "mov.u32 %r11, 300;"
    collectors = ".collector::b1::fill" if mode == "ws" else ".collector::a::fill.collector::b::lastuse"
    text = f"tcgen05.{opcode}.cta_group::{group}.kind::ti16{collectors} [%r30], {da}, %rd4, %r20, %p8"
    word = descriptor("ti16", "s32", "s1z4m11", "s1z4m11", m, n, 16, a_negate=negate, a_mn=major == "MN")
    run(text, tiles, image, blackwell(la, 0), blackwell(lb, 32768), word, before=before)
    assert np.array_equal(image, expected)


def test_the_zeros_of_s1z4m11_do_not_count() -> None:
    rng = np.random.default_rng()
    a, b = (rng.integers(-2047, 2048, (rows, 16)) for rows in (128, 16))
    dirt = rng.integers(0, 16, a.shape).astype(np.uint16) << 11
    tiles, image = np.zeros((1, SPACE), np.uint8), noise()
    la, lb = layout_for("K", "128B", 128, 16, 2), layout_for("K", "128B", 16, 16, 2)
    place(ti16(a) | dirt, la, tiles[0], 0)
    place(ti16(b), lb, tiles[0], 32768)
    want = image[0].copy()
    put_s32(want, a @ b.T, "1")
    word = descriptor("ti16", "s32", "s1z4m11", "s1z4m11", 128, 16, 16)
    text = "tcgen05.mma.cta_group::1.kind::ti16 [%r30], %rd3, %rd4, %r20, %p8"
    run(text, tiles, image, blackwell(la, 0), blackwell(lb, 32768), word, 0)
    assert np.array_equal(image[0], want)


# --------------------------------------------------------------------------------------------------- lookup tables


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(
    ("kind", "group", "n"), [("f8f6f4", 1, 256), ("mxf8f6f4", 1, 40), ("f8f6f4", 2, 128), ("mxf8f6f4", 2, 64)]
)
def test_lookup_tables(kind: str, group: int, n: int, half: int) -> None:
    """Each eight columns of B share eight values; each element is an index of three bits."""
    rng = np.random.default_rng()
    m, k = 128 * group, 64
    a, c = values("e4m3", (m, k)), values("f32", (m, n))
    tables = rng.integers(-8, 9, (n // 8, 8)).astype(np.float64)
    codes = rng.integers(0, 8, (n, 128))
    b = np.array([[tables[column // 8, codes[column, 64 * half + i]] for i in range(k)] for column in range(n)])
    packed = np.stack([
        np.frombuffer(sum(int(x) << 3 * i for i, x in enumerate(row)).to_bytes(48, "little"), np.uint8) for row in codes
    ])  # fmt: skip
    factors = 2.0 ** rng.integers(-2, 3, m + n) if kind[0] == "m" else np.ones(m + n)
    want = (a * factors[:m, None]) @ (b * factors[m:, None]).T + c
    tiles, image = np.zeros((group, SPACE), np.uint8), noise(group)
    la, lb = layout_for("K", "128B", 128, k, 1), layout_for("K", "64B", n // group, 48, 1)
    for i in range(group):
        rows = slice(128 * i, 128 * (i + 1))
        place(a[rows].astype(FORMATS["e4m3"]), la, tiles[i], 0)
        place(packed[i * n // group : (i + 1) * n // group], lb, tiles[i], 32768)
        basic.put_d(image[i], c[rows], "f32", str(group))
        image[i, : n // 8, 500:502] = tables.astype(FORMATS["e4m3"]).view(np.uint32)
        raw = factors.astype(FORMATS["ue8m0"]).view(np.uint8)
        for row, x in enumerate(raw[:m][rows]):
            image[i, row % 32, 400 + row // 32] = int(x) << 8
        for row, x in enumerate(raw[m:]):
            image[i, row % 32, 420 + row // 32] = x
    expected = image.copy()
    for i in range(group):
        basic.put_d(expected[i], want[128 * i : 128 * (i + 1)], "f32", str(group))
    scale, operands = (".block_scale", "[%r12], [%r13], ") if kind[0] == "m" else ("", "")
    text = (
        f"tcgen05.mma.cta_group::{group}.kind::{kind}{scale}.decompress::lut::b.collector::b::fill [%r30], %rd3, %rd4, "
        f"[%r11], %r20, {operands}%p8"
    )
    word = descriptor(kind, "f32", "e4m3", "e4m3", m, n, k, **({"a_sf": 1} if scale else {}))
    before = "mov.u32 %r11, 500; mov.u32 %r12, 400; mov.u32 %r13, 420;"
    run(text, tiles, image, blackwell(la, 0), blackwell(lb, 32768) | half << 53, word, before=before)
    assert np.array_equal(image, expected)


# ----------------------------------------------------------------------------------------------------------- depth


WIDE = [
    # kind, A, B, K, CTAs, N, qualifier, type and number of scale factors, first byte of A's and B's
    ("f8f6f4", "e4m3", "e5m2", 64, 1, 40, "", "", 0, 0, 0), ("f8f6f4", "e5m2", "e4m3", 64, 2, 64, "", "", 0, 0, 0),
    ("mxf8f6f4", "e4m3", "e5m2", 64, 1, 256, ".block32", "ue8m0", 1, 3, 2),
    ("mxf8f6f4", "e3m2", "e2m3", 64, 1, 64, "", "ue8m0", 1, 0, 1), ("mxf8f6f4", "e2m1", "e3m2", 64, 2, 32, "", "ue8m0", 1, 0, 0),
    ("mxf4", "e2m1", "e2m1", 96, 1, 128, ".block32", "ue8m0", 3, 1, 3), ("mxf4", "e2m1", "e2m1", 96, 1, 256, "", "ue8m0", 3, 2, 2),
    ("mxf4nvf4", "e2m1", "e2m1", 96, 1, 192, ".block16", "ue5m3", 6, 2, 0),
    ("mxf4nvf4", "e2m1", "e2m1", 96, 2, 64, ".block16", "ue4m3", 6, 0, 2),
    ("mxf4", "e2m1", "e2m1", 128, 2, 64, ".block32", "ue8m0", 4, 0, 0),
    ("mxf4nvf4", "e2m1", "e2m1", 128, 2, 160, ".block16", "ue5m3", 8, 0, 0),
    ("mxf4nvf4", "e2m1", "e2m1", 64, 1, 72, ".block32", "ue5m3", 2, 2, 0),
]  # fmt: skip


def scale_factors(stype: str, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(codes, values) of a few powers of two, and for the types with a mantissa numbers between them."""
    exponent = np.random.default_rng().integers(-2, 3, shape)
    mantissa = np.random.default_rng().integers(0, 8, shape) & 4
    if stype == "ue8m0":
        return (exponent + 127).astype(np.uint8), 2.0**exponent
    bias = {"ue4m3": 7, "ue5m3": 15}[stype]
    return (exponent + bias << 3 | mantissa).astype(np.uint8), 2.0**exponent * (1 + mantissa / 8)


@pytest.mark.parametrize(("kind", "atype", "btype", "k", "group", "n", "qualifier", "stype", "count", "fa", "fb"), WIDE)
@pytest.mark.parametrize("lanes", [32, 128])
def test_wider_k(
    kind: str, atype: str, btype: str, k: int, group: int, n: int, qualifier: str, stype: str, count: int, fa: int, fb: int,
    lanes: int,
) -> None:  # fmt: skip
    """Scale factors: byte i of word i / 4 of a row, from the first that the descriptor names; the words of all rows that are
    held (128, or 256 of B) come before the next ones. Those of A in 32 lanes, or row by row in 128.
    """
    m = 128 * group
    a, b, c = values(atype, (m, k)), values(btype, (n, k)), values("f32", (m, n))
    packed = {"e2m1": 4, "e3m2": 6, "e2m3": 6}
    ma, mb = (
        bits_of(x, t, packed[t]) if t in packed else x.astype(FORMATS[t]).view(np.uint8)
        for x, t in ((a, atype), (b, btype))
    )
    tiles, image = np.zeros((group, SPACE), np.uint8), noise(group)
    la, lb = (layout_for("K", "128B", r, x.shape[1], 1) for r, x in ((128, ma), (n // group, mb)))
    want, operands = a @ b.T, ""
    if count:
        (ca, va), (cb, vb) = scale_factors(stype, (m, count)), scale_factors(stype, (n, count))
        want = (a * np.repeat(va, k // count, 1)) @ (b * np.repeat(vb, k // count, 1)).T
        operands = "[%r12], [%r13], "
    for i in range(group):
        rows = slice(128 * i, 128 * (i + 1))
        place(ma[rows], la, tiles[i], 0)
        place(mb[i * n // group : (i + 1) * n // group], lb, tiles[i], 32768)
        basic.put_d(image[i], c[rows], "f32", str(group))
        words = image[i].view(np.uint8).reshape(128, 512, 4)
        for row in range(128 if count else 0):
            for s in range(count):
                at = divmod(fa + s, 4)
                lane, column = (row % 32, 4 * at[0] + row // 32) if lanes == 32 else (row, at[0])
                words[lane, 400 + column, at[1]] = ca[128 * i + row, s]
        for row in range(n if count else 0):
            for s in range(count):
                at = divmod(fb + s, 4)
                words[row % 32, 420 + (4 if n <= 128 else 8) * at[0] + row // 32, at[1]] = cb[row, s]
    expected = image.copy()
    for i in range(group):
        basic.put_d(expected[i], (want + c)[128 * i : 128 * (i + 1)], "f32", str(group))
    more = {"scales": stype, "a_sf": fa, "b_sf": fb, "wide": lanes == 128} if count else {}
    word = descriptor(kind, "f32", atype, btype, m, n, k, **more)
    scale = ".block_scale" if count else ""
    text = f"tcgen05.mma.cta_group::{group}.kind::{kind}{scale}{qualifier} [%r30], %rd3, %rd4, %r20, {operands}%p8"
    run(
        text, tiles, image, blackwell(la, 0), blackwell(lb, 32768), word, before="mov.u32 %r12, 400; mov.u32 %r13, 420;"
    )
    assert np.array_equal(image, expected)


@pytest.mark.parametrize("start", [0, 48, 96, 112])
def test_rows_of_48_bytes_go_on_in_the_next_buffer(start: int) -> None:
    """An absolute leading address: what reaches beyond 128 bytes lies at the beginning of the rows of another buffer."""
    m, n, k = 128, 64, 96
    a, b = values("e2m1", (m, k)), values("e2m1", (n, k))
    ones = np.full((128, 16), 127, np.uint8)
    tiles, image = np.zeros((1, SPACE), np.uint8), noise()
    wide = np.zeros((m, 256), np.uint8)
    wide[:, start : start + 48] = bits_of(a, "e2m1", 4)
    la, lb = layout_for("K", "128B", m, 128, 1), layout_for("K", "128B", n, 48, 1)
    place(wide[:, :128], la, tiles[0], 0)
    place(wide[:, 128:], la, tiles[0], 16384)
    place(bits_of(b, "e2m1", 4), lb, tiles[0], 32768)
    image[0, :32, 400:416] = np.repeat(ones[:32].view(np.uint32)[:, :1], 16, 1)
    expected = image[0].copy()
    basic.put_d(expected, a @ b.T, "f32", "1")
    da = start >> 4 | 1024 >> 4 << 32 | 1 << 46 | 1 << 52 | 2 << 61
    before = "cvt.u64.u32 %rd12, %r5; shl.b64 %rd12, %rd12, 16; add.s64 %rd3, %rd3, %rd12; mov.u32 %r12, 400;"
    text = "tcgen05.mma.cta_group::1.kind::mxf4.block_scale [%r30], %rd3, %rd4, %r20, [%r12], [%r12], %p8"
    word = descriptor("mxf4", "f32", "e2m1", "e2m1", m, n, k, scales="ue8m0")
    run(text, tiles, image, da | 16384 >> 4 << 16, blackwell(lb, 32768), word, 0, before)
    assert np.array_equal(image[0], expected)


# -------------------------------------------------------------------------------------------------------- sparsity


@pytest.mark.parametrize(
    ("kind", "ab", "k", "version", "target"),
    [
        ("f8f6f4", "e4m3", 128, 0, RUBIN), ("mxf4", "e2m1", 128, 0, "9.0 sm_100a"), ("mxf4", "e2m1", 128, 1, RUBIN),
        ("ti16", "s1z4m11", 32, 0, RUBIN),
    ],
)  # fmt: skip
def test_sparse_kinds(kind: str, ab: str, k: int, version: int, target: str) -> None:
    """Two of four elements of A, or two of four pairs (version 0 of kind mxf4), where metadata in tensor memory says so."""
    m, n = 128, 64
    unit = 2 if kind == "mxf4" and not version else 1
    rng = np.random.default_rng()
    groups = k // (4 * unit)
    where = np.sort(np.argsort(rng.random((m, groups, 4)), 2)[:, :, :2], 2)
    kept = values(ab if ab != "s1z4m11" else "s32", (m, groups, 2, unit))
    dense = np.zeros((m, groups, 4, unit))
    np.put_along_axis(dense, where[..., None].repeat(unit, 3), kept, 2)
    dense, kept = dense.reshape(m, k), kept.reshape(m, k // 2)
    b = values(ab if ab != "s1z4m11" else "s32", (n, k))
    if ab == "s1z4m11":
        ma, mb = ti16(kept), ti16(b)
    else:
        ma, mb = (bits_of(x, ab, 4) if ab == "e2m1" else x.astype(FORMATS[ab]).view(np.uint8) for x in (kept, b))
    tiles, image = np.zeros((1, SPACE), np.uint8), noise()
    la, lb = layout_for("K", "128B", m, ma.shape[1], ma.itemsize), layout_for("K", "128B", n, mb.shape[1], mb.itemsize)
    place(ma, la, tiles[0], 0)
    place(mb, lb, tiles[0], 32768)
    codes = where[..., 0] | where[..., 1] << 2
    bits = np.zeros((128, 256), np.uint8)
    for row in range(m):
        for g in range(groups):
            lane, bit = row, 4 * g
            if ab == "s1z4m11":  # as for f16, by the table's formula
                lane, bit = row % 8 + 16 * (row // 16) + 8 * (4 * g // 16), 4 * g % 16 + 16 * (row // 8 % 2)
            for i in range(4):
                bits[lane, bit + i] = codes[row, g] >> i & 1
    words = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    columns = max(1, groups // 8) if ab != "s1z4m11" else 1
    image[0, :, 333 : 333 + columns] = words[:, :columns]
    image[0, :, 400:408] = 0x7F7F7F7F
    expected = image[0].copy()
    if kind == "ti16":
        put_s32(expected, (dense @ b.T).astype(np.int64), "1")
    else:
        basic.put_d(expected, dense @ b.T, "f32", "1")
    scale, operands = (".block_scale", "[%r12], [%r12], ") if kind == "mxf4" else ("", "")
    text = f"tcgen05.mma.sp.cta_group::1.kind::{kind}{scale} [%r30], %rd3, %rd4, [%r11], %r20, {operands}%p8"
    d = "s32" if kind == "ti16" else "f32"
    more = {"scales": "ue8m0", "version": version} if scale else {}
    word = descriptor(kind, d, ab, ab, m, n, k, sparse=1, **more)
    before = "mov.u32 %r11, 333; mov.u32 %r12, 400;"
    run(text, tiles, image, blackwell(la, 0), blackwell(lb, 32768), word, 0, before, target)
    assert np.array_equal(image[0], expected)


# ------------------------------------------------------------------------------------------------- masks and shifts


def spans(start: int, first: int, skip: int, use: int, width: int) -> list[int]:
    """A part of a zero-column mask, span by span."""
    made: list[int] = []
    value = first
    while len(made) < start + width:
        made += [value] * ((skip if value else use) + 1)
        value ^= 1
    return made[start : start + width]


def mask_descriptor(starts: list[int], firsts: list[int], skip: int, use: int, shift: int, on: int = 1) -> int:
    word = on << 39 | skip << 40 | use << 48 | shift << 56
    for i, (start, first) in enumerate(zip(starts, firsts, strict=True)):
        word |= start << 8 * i | first << 32 + i
    return word


def test_the_manuals_masks() -> None:
    """The examples of PTX ISA 9.7.18.4.3, their lowest bit on the right."""
    for m, n, starts, firsts, shown in [
        (128, 16, [0], [0], ["11100001110000"]),
        (64, 40, [0, 0], [1, 0], ["11100001110000111", "00001110000111" + "0000"]),
        (32, 64, [0, 1, 2, 1], [1, 1, 0, 0], ["00001110000111", "0000111000011", "111000011100", "1110000111000"]),
    ]:
        found = column_mask(mask_descriptor(starts, firsts, 2, 3, 0), m, n).reshape(128 // m, -1)
        for part, text in zip(found, shown, strict=True):
            bits = [int(x) for x in text[::-1]][: part.size]
            assert part[: len(bits)].tolist() == bits
    assert not column_mask(mask_descriptor([0], [0], 4, 3, 0, on=0), 128, 64).any()


@pytest.mark.parametrize("m", [32, 64, 128])
@pytest.mark.parametrize("on", [0, 1])
def test_zero_columns(m: int, on: int) -> None:
    rng = np.random.default_rng()
    n, parts = 128, 128 // m
    skip, use, shift = (int(x) for x in rng.integers(0, (20, 20, 17)))
    starts, firsts = rng.integers(0, 30, parts).tolist(), rng.integers(0, 2, parts).tolist()
    a, b, c = values("f16", (m, 16)), values("f16", (n + 32, 16)), values("f32", (m, n))
    b[b == 0] = 1
    zero = [x for s, f in zip(starts, firsts, strict=True) for x in spans(s, f, skip, use, n // parts)]
    seen = b[shift : shift + n].copy()
    if on:
        seen[np.array(zero, bool)] = 0
    tiles, image = np.zeros((1, SPACE), np.uint8), noise()
    la, lb = layout_for("K", "128B", m, 16, 2), layout_for("K", "64B", n + 32, 16, 2)
    place(a.astype(np.float16), la, tiles[0], 0)
    place(b.astype(np.float16), lb, tiles[0], 32768)
    basic.put_d(image[0], c, "f32", "ws")
    expected = image[0].copy()
    basic.put_d(expected, a @ seen.T + c, "f32", "ws")
    mask = mask_descriptor(starts, firsts, skip, use, shift, on)
    text = "tcgen05.mma.ws.cta_group::1.kind::f16 [%r30], %rd3, %rd4, %r20, %p8, %rd12"
    word = descriptor("f16", "f32", "f16", "f16", m, n, 16)
    run(text, tiles, image, blackwell(la, 0), blackwell(lb, 32768), word, before=f"mov.b64 %rd12, {mask};")
    assert np.array_equal(image[0], expected)


@pytest.mark.parametrize("group", [1, 2])
def test_shifted_rows(group: int) -> None:
    """`.ashift`: row i + 1 of the product is that of row i of A; the first row stays."""
    m, n = 128 * group, 64
    a, b = values("f16", (m, 16)), values("f16", (n, 16))
    tiles, image = np.zeros((group, SPACE), np.uint8), noise(group)
    lb = layout_for("K", "128B", n // group, 16, 2)
    expected = image.copy()
    for i in range(group):
        part = a[128 * i : 128 * (i + 1)]
        place(b[i * n // group : (i + 1) * n // group].astype(np.float16), lb, tiles[i], 32768)
        image[i, :, 300:308] = expected[i, :, 300:308] = part.astype(np.float16).view(np.uint32)
        basic.put_d(expected[i], np.concatenate([part[:1], part[:-1]]) @ b.T, "f32", str(group))
    text = f"tcgen05.mma.cta_group::{group}.kind::f16.ashift.collector::b::use [%r30], [%r11], %rd4, %r20, %p8"
    word = descriptor("f16", "f32", "f16", "f16", m, n, 16)
    run(text, tiles, image, 0, blackwell(lb, 32768), word, 0, "mov.u32 %r11, 300;")
    assert np.array_equal(image, expected)


# ------------------------------------------------------------------------------------------------------- mistakes


LUT = "tcgen05.mma.cta_group::1.kind::f8f6f4.decompress::lut::b [%r30], %rd3, %rd4, [%r11], %r20, %p8"
TI16 = "tcgen05.mma.cta_group::1.kind::ti16 [%r30], %rd3, %rd4, %r20, %p8"
F8 = "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r30], %rd3, %rd4, %r20, %p8"


@pytest.mark.parametrize(
    ("text", "word", "words"),
    [
        (LUT, descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, 32), "K = 64, not of .e4m3 with K = 32"),
        (LUT, descriptor("f8f6f4", "f32", "e4m3", "e5m2", 128, 64, 64), "not of .e5m2"),
        (LUT, descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, 64), "lookup table begins at column 3"),
        (F8, descriptor("f8f6f4", "f32", "e4m3", "e2m1", 128, 64, 64), "with K = 64 are of .e4m3 or .e5m2"),
        (F8, descriptor("f8f6f4", "f32", "e4m3", "e4m3", 64, 64, 64), "M is 64; it is 128 here"),
        (F8, descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 24, 32, b_mn=1), "N is 24; it is a multiple of 16"),
        (TI16, descriptor("ti16", "f32", "s1z4m11", "s1z4m11", 128, 64, 16), "type 1 of D"),
        (TI16, descriptor("ti16", "s32", "s1z4m11", "f16", 128, 64, 16), "operand types 3 and 0"),
        (TI16, descriptor("ti16", "s32", "s1z4m11", "s1z4m11", 128, 24, 16), "N is 24; it is a multiple of 16"),
        (TI16, descriptor("ti16", "s32", "s1z4m11", "s1z4m11", 128, 64, 16) | 1 << 6, "bit 6 of .* must be 0"),
        (TI16 + ", 3", descriptor("ti16", "s32", "s1z4m11", "s1z4m11", 128, 64, 16), "scale-input-d"),
    ],
)  # fmt: skip
def test_mistakes_are_named(text: str, word: int, words: str) -> None:
    layout = layout_for("K", "128B", 64, 16, 2)
    at = blackwell(layout, 0)
    with pytest.raises(SimulationError, match=words):
        run(text, np.zeros((1, SPACE), np.uint8), noise(), at, at, word, before="mov.u32 %r11, 3;")


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (1 << 15, "bit 15 of the descriptor"), (3 << 54, "bit 54, 55 of the descriptor"), (1 << 52 | 4 << 61, "absolute leading"),
        (3 << 61, "swizzle mode 3"),
    ],
)  # fmt: skip
def test_bits_of_shared_memory_descriptors(bits: int, words: str) -> None:
    word = descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, 32)
    with pytest.raises(SimulationError, match=words):
        run(F8, np.zeros((1, SPACE), np.uint8), noise(), 1 << 46 | bits, 1 << 46, word)


def test_what_a_target_lacks() -> None:
    word = descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, 64)
    at = blackwell(layout_for("K", "128B", 64, 16, 2), 0)
    with pytest.raises(SimulationError, match=r"K = 64, which .* says, needs sm_107a or sm_107f"):
        run(F8, np.zeros((1, SPACE), np.uint8), noise(), at, at, word, target="9.0 sm_100a")


# ------------------------------------------------------------------------------------------------------ descriptors


def test_words_of_descriptors() -> None:
    """What is read is what is written, for every kind; the bits are those of the manual's tables."""
    rng = np.random.default_rng()
    for name, kind in KINDS.items():
        for k in kind.depths:
            a, b = rng.choice(list(kind.types), 2).tolist()
            scale = str(rng.choice(list(kind.scales))) if kind.scales else ""
            d = InstructionDescriptor(name, a, b, kind.sums[0], 128, 8 * int(rng.integers(1, 33)), k, scale_type=scale)
            assert d.word == descriptor(
                name,
                kind.sums[0],
                a if a != "tf32" else "s1z4m11",
                b if b != "tf32" else "s1z4m11",
                128,
                d.n,
                k,
                scales=scale,
            ) & ~((1 << 7 | 1 << 10) if name == "tf32" else 0)
            assert read_descriptor(d.word, name) == d


def test_newer_fields_where_cutlass_has_them() -> None:
    """Bits of sm_107, from NVIDIA's own descriptor builder."""
    fields = DESCRIPTORS["newer_fields"]
    assert fields["idesc"]["k_dim"] == 29
    assert read_descriptor(descriptor("f8f6f4", "f32", "e4m3", "e4m3", 128, 64, 32) | 1 << 29, "f8f6f4").k == 64  # type: ignore[union-attr]
    mx = read_descriptor(
        0x08A00000 | 1 << fields["idesc_mx"]["a_sf_layout"] | 1 << fields["idesc_mx"]["k_dim"], "mxf8f6f4"
    )
    assert isinstance(mx, InstructionDescriptor)
    assert (mx.wide_scales, mx.k) == (True, 64)
    four = fields["idesc_mxf4"]
    base = 1 << 7 | 1 << 10 | 128 >> 7 << 27 | 8 << 17
    for bit, k in ((four["k_dim_lower"], 96), (four["k_dim_upper"], 128)):
        found = read_descriptor(base | 2 << 23 | 1 << bit | 1 << four["sparsity_version"], "mxf4nvf4")
        assert isinstance(found, InstructionDescriptor)
        assert (found.k, found.scale_type, found.sparsity_version) == (k, "ue5m3", 1)
