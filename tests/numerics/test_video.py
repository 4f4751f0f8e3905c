"""Against loops over Python integers, written from the manual's pseudocode."""

from itertools import product

import numpy as np
import pytest

from pyptx.numerics import video

RNG = np.random.default_rng(1)
EDGES = np.array([0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x80FF7F01, 0x0180FE7F], np.uint32)


def registers(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(EDGES), rng.integers(0, 1 << 32, 60, dtype=np.uint64).astype(np.uint32)])


A, B, C = registers(1), registers(2), registers(3)
TYPES = ("u32", "s32")
OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: (a + b + (1 if a + b >= 0 else 0)) >> 1,
    "lt": lambda a, b: int(a < b),
    "ne": lambda a, b: int(a != b),
}


def field(x: int, low: int, width: int, signed: bool) -> int:
    x = x >> low & ((1 << width) - 1)
    return x - (1 << width) if signed and x >> (width - 1) else x


def part(x: int, sel: str | None, type_: str) -> int:
    width = 32 if sel is None else 8 if sel[0] == "b" else 16
    return field(x, 0 if sel is None else width * int(sel[1]), width, type_ == "s32")


def clamp(x: int, width: int, signed: bool) -> int:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return min(max(x, low), high)


@pytest.mark.parametrize(("dtype", "atype", "btype"), list(product(TYPES, repeat=3)))
@pytest.mark.parametrize("op", [o for o in OPS if o != "avrg"])
def test_scalar(op, dtype, atype, btype):
    for asel, bsel, sat in [(None, None, False), (None, None, True), ("b3", "h1", True), ("h0", "b1", False)]:
        for dsel, secondary in [
            (None, None),
            ("b2", None),
            ("h1", None),
            (None, "add"),
            (None, "min"),
            (None, "max"),
        ]:
            got = video.scalar(
                op,
                A,
                B,
                C,
                dtype=dtype,
                atype=atype,
                btype=btype,
                asel=asel,
                bsel=bsel,
                dsel=dsel,
                sat=sat,
                secondary=secondary,
            )
            for a, b, c, r in zip(A.tolist(), B.tolist(), C.tolist(), got.tolist(), strict=True):
                t = OPS[op](part(a, asel, atype), part(b, bsel, btype))
                width = 32 if dsel is None else 8 if dsel[0] == "b" else 16
                if sat:
                    t = clamp(t, width, dtype == "s32")
                if dsel:
                    low = width * int(dsel[1])
                    mask = ((1 << width) - 1) << low
                    t = (c & ~mask) | (t << low & mask)
                elif secondary == "add":
                    t += c
                elif secondary:
                    signed = dtype == "s32"
                    t = {"min": min, "max": max}[secondary](field(t, 0, 32, signed), field(c, 0, 32, signed))
                assert r == t % (1 << 32), (hex(a), hex(b), hex(c))


@pytest.mark.parametrize(("dtype", "atype", "wrap"), list(product(TYPES, TYPES, (False, True))))
def test_shift(dtype, atype, wrap):
    amounts = np.resize(np.array([0, 1, 15, 31, 32, 33, 0xFFFFFFFF], np.uint32), A.size)
    for direction, sat in product("lr", (False, True)):
        got = video.shift(direction, A, amounts, wrap=wrap, dtype=dtype, atype=atype, sat=sat)
        for a, n, r in zip(A.tolist(), amounts.tolist(), got.tolist(), strict=True):
            n = n & 31 if wrap else min(n, 32)
            x = part(a, None, atype)
            t = x << n if direction == "l" else x >> n
            assert r == (clamp(t, 32, dtype == "s32") if sat else t) % (1 << 32)


@pytest.mark.parametrize(("atype", "btype", "ctype"), list(product(TYPES, repeat=3)))
def test_mad(atype, btype, ctype):
    for negate, po, scale, sat in product((None, "product", "c"), (False, True), (0, 7, 15), (False, True)):
        if negate and po:
            continue
        got = video.mad(
            A,
            B,
            C,
            dtype="u32",
            atype=atype,
            btype=btype,
            ctype=ctype,
            negate=negate,
            plus_one=po,
            scale=scale,
            sat=sat,
        )
        signed = "s32" in (atype, btype) or negate is not None
        for a, b, c, r in zip(A.tolist(), B.tolist(), C.tolist(), got.tolist(), strict=True):
            p = part(a, None, atype) * part(b, None, btype)
            z = part(c, None, ctype if signed else "u32")
            t = (-p if negate == "product" else p) + (-z if negate == "c" else z) + po >> scale
            assert r == (clamp(t, 32, signed) if sat else t) % (1 << 32)


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("op", OPS)
def test_simd(op, lanes):
    width = 32 // lanes
    selectors = {2: [(None, None), ("23", "00")], 4: [(None, None), ("7654", "0246")]}[lanes]
    masks = {2: [None, "1"], 4: [None, "310", "2"]}[lanes]
    for dtype, atype, btype in product(TYPES, repeat=3):
        for (asel, bsel), mask, (sat, add) in product(selectors, masks, [(False, False), (True, False), (False, True)]):
            got = video.simd(
                op,
                A,
                B,
                C,
                lanes=lanes,
                dtype=dtype,
                atype=atype,
                btype=btype,
                asel=asel,
                bsel=bsel,
                mask=mask,
                sat=sat,
                add=add,
            )
            first = asel or ("10" if lanes == 2 else "3210")
            second = bsel or ("32" if lanes == 2 else "7654")
            for a, b, c, r in zip(A.tolist()[:20], B.tolist(), C.tolist(), got.tolist(), strict=False):
                pool = b << 32 | a
                want = c
                for i in range(lanes):
                    if mask is not None and str(i) not in mask:
                        continue
                    x = field(pool, width * int(first[::-1][i]), width, atype == "s32")
                    y = field(pool, width * int(second[::-1][i]), width, btype == "s32")
                    t = OPS[op](x, y)
                    t = clamp(t, width, dtype == "s32") if sat else t
                    if add:
                        want += t
                    else:
                        m = ((1 << width) - 1) << (width * i)
                        want = (want & ~m) | (t << (width * i) & m)
                assert r == want % (1 << 32)
