from itertools import product

import numpy as np
import pytest

from pyptx.numerics import integer

TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


def sample(name: str, count: int = 200, seed: int = 1) -> np.ndarray:
    dtype = np.dtype(integer.TYPES[name])
    rng = np.random.default_rng(seed)
    bits = 8 * dtype.itemsize
    values = rng.integers(0, 2**64 - 1, count, dtype=np.uint64) >> rng.integers(64 - bits, 64, count).astype(np.uint64)
    values[rng.integers(0, 2, count) == 0] *= np.uint64(2**64 - 1)  # negate
    edges = [0, 1, 2**64 - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    values[: len(edges)] = edges
    rng.shuffle(values)
    return values.astype(dtype.str.replace("i", "u")).view(dtype)


def wrap(value: int, name: str) -> int:
    bits = int(name[1:])
    value %= 1 << bits
    return value - (1 << bits) if name[0] == "s" and value >> (bits - 1) else value


def clamp(value: int, name: str) -> int:
    info = np.iinfo(integer.TYPES[name])
    return min(max(value, int(info.min)), int(info.max))


def check(got: np.ndarray, function, *operands: np.ndarray) -> None:
    for r, *values in zip(got.tolist(), *(x.tolist() for x in operands), strict=True):
        assert r == function(*values), (r, values)


@pytest.mark.parametrize("name", TYPES)
def test_arithmetic(name):
    a, b, c = (sample(name, seed=s) for s in (1, 2, 3))
    bits = int(name[1:])
    check(integer.add(a, b), lambda x, y: wrap(x + y, name), a, b)
    check(integer.sub(a, b), lambda x, y: wrap(x - y, name), a, b)
    check(integer.mul_lo(a, b), lambda x, y: wrap(x * y, name), a, b)
    check(integer.mul_hi(a, b), lambda x, y: wrap(x * y >> bits, name), a, b)
    check(integer.mad_lo(a, b, c), lambda x, y, z: wrap(x * y + z, name), a, b, c)
    check(integer.mad_hi(a, b, c), lambda x, y, z: wrap((x * y >> bits) + z, name), a, b, c)
    check(integer.sad(a, b, c), lambda x, y, z: wrap(z + abs(x - y), name), a, b, c)
    check(integer.minimum(a, b), min, a, b)
    check(integer.maximum(a, b), max, a, b)
    check(integer.maximum(a, b, relu=True), lambda x, y: max(x, y, 0), a, b)
    check(integer.neg(a), lambda x: wrap(-x, name), a)
    check(integer.cnot(a), lambda x: int(x == 0), a)
    check(integer.not_(a), lambda x: wrap(~x, name), a)
    if bits < 64:
        check(integer.mul_wide(a, b), lambda x, y: x * y, a, b)
        check(integer.add(a, b, sat=True), lambda x, y: clamp(x + y, name), a, b)
        check(integer.sub(a, b, sat=True), lambda x, y: clamp(x - y, name), a, b)
    if name[0] == "s":
        check(integer.absolute(a), lambda x: wrap(abs(x), name), a)


@pytest.mark.parametrize("name", TYPES)
def test_division(name):
    a, b = sample(name, 400, 1), sample(name, 400, 2)
    b[:3] = [0, 1, 1] if name[0] == "u" else [0, -1, -1]
    a[:3] = [5, 0, np.iinfo(a.dtype).min]
    ones = wrap(-1, name)

    def quotient(x: int, y: int) -> int:
        return ones if y == 0 else wrap((abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1), name)

    check(integer.div(a, b), quotient, a, b)
    check(integer.rem(a, b), lambda x, y: ones if y == 0 else wrap(x - y * quotient(x, y), name), a, b)


@pytest.mark.parametrize("name", ["u32", "s32"])
def test_24_bit_multiplication(name):
    a, b, c = (sample(name, seed=s) for s in (1, 2, 3))

    def low24(x: int) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if name == "s32" and x >> 23 else x

    check(integer.mul24_lo(a, b), lambda x, y: wrap(low24(x) * low24(y), name), a, b)
    check(integer.mul24_hi(a, b), lambda x, y: wrap(low24(x) * low24(y) >> 16, name), a, b)
    check(integer.mad24_lo(a, b, c), lambda x, y, z: wrap(low24(x) * low24(y) + z, name), a, b, c)
    if name == "s32":
        check(
            integer.mad24_hi(a, b, c, sat=True),
            lambda x, y, z: clamp((low24(x) * low24(y) >> 16) + z, name),
            a,
            b,
            c,
        )
        check(integer.mad_hi(a, b, c, sat=True), lambda x, y, z: clamp((x * y >> 32) + z, name), a, b, c)


@pytest.mark.parametrize("name", ["u32", "s64"])
def test_carry_chain_adds_subtracts_and_multiplies_wide_numbers(name):
    bits = int(name[1:])
    a = [sample(name, seed=s) for s in (1, 2, 3)]
    b = [sample(name, seed=s) for s in (4, 5, 6)]
    b[0] = ~a[0]  # long carry propagation
    b[1][::2] = ~a[1][::2]

    def number(limbs: list[np.ndarray], lane: int) -> int:
        return sum((int(x[lane]) % (1 << bits)) << (bits * i) for i, x in enumerate(limbs))

    for step, sign in ((integer.add_carry, 1), (integer.sub_carry, -1)):
        flag, limbs = None, []
        for x, y in zip(a, b, strict=True):
            r, flag = step(x, y, flag)
            limbs.append(r)
        assert flag is not None
        for lane in range(len(a[0])):
            exact = number(a, lane) + sign * number(b, lane)
            assert number(limbs, lane) == exact % (1 << (3 * bits))
            assert flag[lane] == (exact >= 1 << (3 * bits) if sign > 0 else exact >= 0)  # after subc: nothing borrowed
    if name[0] == "u":
        lo, flag = integer.mad_carry(a[0], b[0], a[1], hi=False)
        hi, flag = integer.mad_carry(a[0], b[0], a[2], hi=True, carry=flag)
        for lane in range(len(lo)):
            exact = number(a[:1], lane) * number(b[:1], lane) + number(a[1:], lane)
            assert number([lo, hi], lane) == exact % (1 << (2 * bits))
            assert flag[lane] == (exact >= 1 << (2 * bits))


@pytest.mark.parametrize("name", TYPES)
def test_shifts_clamp(name):
    a = np.repeat(sample(name, 20), 6)
    bits = int(name[1:])
    n = np.tile(np.array([0, 1, bits - 1, bits, bits + 1, 0xFFFFFFFF], np.uint32), 20)
    check(integer.shl(a, n), lambda x, k: wrap(x << min(k, bits), name), a, n)
    check(integer.shr(a, n), lambda x, k: x >> min(k, bits), a, n)


def test_funnel_shift():
    a, b = sample("u32", 60, 1), sample("u32", 60, 2)
    n = np.resize(np.array([0, 1, 7, 31, 32, 33, 0xFFFFFFFF], np.uint32), 60)
    for wrapped in (False, True):
        amount = (lambda k: k & 31) if wrapped else (lambda k: min(k, 32))
        left, right = integer.shf_l(a, b, n, wrap=wrapped), integer.shf_r(a, b, n, wrap=wrapped)
        check(left, lambda x, y, k: ((y << 32 | x) << amount(k) >> 32) & 0xFFFFFFFF, a, b, n)  # noqa: B023
        check(right, lambda x, y, k: ((y << 32 | x) >> amount(k)) & 0xFFFFFFFF, a, b, n)  # noqa: B023


@pytest.mark.parametrize("name", ["u32", "s32", "u64", "s64"])
def test_bit_fields(name):
    bits = int(name[1:])
    a, b = sample(name, 600, 1), sample(name, 600, 2)
    rng = np.random.default_rng(3)
    edges = np.array([0, 1, bits - 1, bits, bits + 1, 255, 256, 300])
    position = np.where(rng.integers(0, 2, 600), rng.choice(edges, 600), rng.integers(0, bits, 600)).astype(np.uint32)
    length = np.where(rng.integers(0, 2, 600), rng.choice(edges, 600), rng.integers(0, bits, 600)).astype(np.uint32)

    def bfe(x: int, p: int, n: int) -> int:  # the manual's loop
        p, n, top = p & 0xFF, n & 0xFF, bits - 1
        sign = 0 if name[0] == "u" or n == 0 else x >> min(p + n - 1, top) & 1
        d = sum((x >> (p + i) & 1 if i < n and p + i <= top else sign) << i for i in range(bits))
        return wrap(d, name)

    def bfi(x: int, y: int, p: int, n: int) -> int:
        p, n = p & 0xFF, n & 0xFF
        for i in range(n):
            if p + i < bits:
                y = (y & ~(1 << (p + i))) | (x >> i & 1) << (p + i)
        return wrap(y, name)

    check(integer.bfe(a, position, length), bfe, a, position, length)
    check(integer.bfi(a, b, position, length), bfi, a, b, position, length)

    def bfind(x: int) -> int:
        x = ~x if x < 0 else x
        return x.bit_length() - 1 if x else 0xFFFFFFFF

    check(integer.bfind(a), bfind, a)
    check(integer.bfind(a, shiftamt=True), lambda x: bits - 1 - bfind(x) if bfind(x) < bits else bfind(x), a)
    check(integer.popc(a), lambda x: (x % (1 << bits)).bit_count(), a)
    check(integer.clz(a), lambda x: bits - (x % (1 << bits)).bit_length(), a)
    check(integer.brev(a), lambda x: wrap(int(f"{x % (1 << bits):0{bits}b}"[::-1], 2), name), a)


def test_fns():
    """The manual's loop."""

    def fns(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else 0xFFFFFFFF
        position, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= position < 32:
            if mask >> position & 1:
                if count == 0:
                    return position
                count -= 1
            position += step
        return 0xFFFFFFFF

    cases = list(product([0, 0xFFFFFFFF, 0x8001_0110, 1], [0, 4, 8, 31], [0, 1, 2, 5, -1, -2, -33, 40]))
    mask, base, offset = (np.array(column) for column in zip(*cases, strict=True))
    mask, base, offset = mask.astype(np.uint32), base.astype(np.uint32), offset.astype(np.int32)
    check(integer.fns(mask, base, offset), fns, mask, base, offset)


def test_bmsk_and_szext():
    amounts = [0, 1, 5, 16, 31, 32, 33, 64, 0xFFFFFFFF]
    pairs = np.array(list(product(amounts, amounts)), np.uint32)
    p, w = pairs[:, 0].copy(), pairs[:, 1].copy()
    ones = 0xFFFFFFFF

    def bmsk(x: int, y: int, wrapped: bool) -> int:
        if wrapped:
            x, y = x & 31, y & 31
        return ((1 << min(y, 64)) - 1 << min(x, 64)) & ones

    for wrapped in (False, True):
        check(integer.bmsk(p, w, wrap=wrapped), lambda x, y: bmsk(x, y, wrapped), p, w)  # noqa: B023

    for name in ("u32", "s32"):
        a = sample(name, len(pairs))
        for wrapped in (False, True):

            def szext(x: int, n: int) -> int:
                n = n & 31 if wrapped else min(n, 32)  # noqa: B023
                x &= (1 << n) - 1
                return x - (1 << n) if name == "s32" and n and x >> (n - 1) else x  # noqa: B023

            check(integer.szext(a, w, wrap=wrapped), szext, a, w)


def test_lop3_every_table():
    a, b, c = np.array([0xF0], np.uint32), np.array([0xCC], np.uint32), np.array([0xAA], np.uint32)
    for table in range(256):  # these inputs spell the table itself, as the manual says
        assert int(integer.lop3(a, b, c, table)[0]) & 0xFF == table


def test_prmt():
    a, b = np.array([0x83_82_01_80], np.uint32), np.array([0x07_86_05_84], np.uint32)
    pool = [0x80, 0x01, 0x82, 0x83, 0x84, 0x05, 0x86, 0x07]

    def run(c: int, mode=None) -> list[int]:
        word = int(integer.prmt(a, b, np.array([c], np.uint32), mode)[0])
        return [word >> (8 * i) & 0xFF for i in range(4)]

    assert run(0x7531) == [pool[1], pool[3], pool[5], pool[7]]
    assert run(0xF9B8) == [0xFF, 0xFF, 0, 0]
    for i in range(4):
        assert run(i, "f4e") == [pool[i + k] for k in range(4)]
        assert run(i, "b4e") == [pool[(i - k) % 8] for k in range(4)]
        assert run(i, "rc8") == [pool[i]] * 4
        assert run(i, "ecl") == [pool[max(i, k)] for k in range(4)]
        assert run(i, "ecr") == [pool[min(i, k)] for k in range(4)]
        assert run(i + 4, "rc16") == [pool[2 * (i & 1) + (k & 1)] for k in range(4)]


def test_dot_products():
    a, b, c = (sample("u32", 100, s) for s in (1, 2, 3))

    def parts(x: int, width: int, kind: str) -> list[int]:
        fields = [x >> i & ((1 << width) - 1) for i in range(0, 32, width)]
        return [f - (1 << width) if kind == "s32" and f >> (width - 1) else f for f in fields]

    def dot(x: list[int], y: list[int], z: int) -> int:
        return wrap(z + sum(p * q for p, q in zip(x, y, strict=True)), "u32")

    for at, bt in product(["u32", "s32"], repeat=2):

        def dp4a(x: int, y: int, z: int) -> int:
            return dot(parts(x, 8, at), parts(y, 8, bt), z)  # noqa: B023

        check(integer.dp4a(a, b, c, at, bt), dp4a, a, b, c)
        for hi in (False, True):

            def dp2a(x: int, y: int, z: int) -> int:
                return dot(parts(x, 16, at), parts(y, 8, bt)[2 * hi : 2 * hi + 2], z)  # noqa: B023

            check(integer.dp2a(a, b, c, at, bt, hi=hi), dp2a, a, b, c)


def test_carryless_product():
    a, b, c = (sample("u64", 40, s) for s in (1, 2, 3))

    def clmul(x: int, y: int) -> int:
        r = 0
        while y:
            r ^= x if y & 1 else 0
            x, y = x << 1, y >> 1
        return r

    check(integer.clmad(a, b, c, hi=False), lambda x, y, z: clmul(x, y) % 2**64 ^ z, a, b, c)
    check(integer.clmad(a, b, c, hi=True), lambda x, y, z: clmul(x, y) >> 64 ^ z, a, b, c)


def test_comparisons_and_packed():
    a, b = sample("s32", 100, 1), sample("s32", 100, 2)
    check(integer.compare(a, b, "lt"), lambda x, y: x < y, a, b)
    check(integer.compare(a, b, "hi"), lambda x, y: x % 2**32 > y % 2**32, a, b)
    check(integer.compare(a, b, "ls"), lambda x, y: x % 2**32 <= y % 2**32, a, b)
    x, y = np.array([0x80007FFF], np.uint32), np.array([0x80010001], np.uint32)
    assert integer.packed(integer.add, "s16x2", x, y).tolist() == [0x00018000]
    assert integer.packed(integer.add, "s16x2", x, y, sat=True).tolist() == [0x80007FFF]
    assert integer.packed(integer.maximum, "u16x2", x, y).tolist() == [0x80017FFF]
    assert integer.packed(integer.minimum, "s8x4", x, y, relu=True).tolist() == [0]
    assert integer.packed(integer.sub, "u8x4", x, y, sat=True).tolist() == [0x00007FFE]
