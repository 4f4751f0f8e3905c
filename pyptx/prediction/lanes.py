"""What an instruction computes on one lane: integers, bits, single-precision floats, comparisons."""

from __future__ import annotations

from . import codes as e
from .native import Words, as_bits, as_float, native, popcount


@native
def fetch(at: int, flags: int, lane: int, regs: Words) -> int:
    """An operand of a lane, with what is applied to it."""
    v = regs[at + lane]
    if flags:
        if flags & e.WIDE:
            v = v | regs[at + 32 + lane] << 32
            if flags & e.NEGATE:
                v = -v
            if flags & e.INVERT:
                v = ~v
            return v
        if flags & e.REAL:
            if flags & e.ABSOLUTE:
                v = v & 0x7FFFFFFF
            if flags & e.NEGATE:
                v = v ^ 0x80000000
            return v
        if flags & e.INVERT:
            v = ~v & e.M32
        if flags & e.SIGNED or flags & e.ABSOLUTE:
            v = v - ((v & 0x80000000) << 1)
        if flags & e.ABSOLUTE:
            v = abs(v)
        if flags & e.NEGATE:
            v = -v if flags & e.SIGNED else (~v & e.M32) + 1
    return v


@native
def logic(a: int, b: int, c: int, table: int) -> int:
    found = 0
    if table & 1:
        found = found | (~a & ~b & ~c)
    if table & 2:
        found = found | (~a & ~b & c)
    if table & 4:
        found = found | (~a & b & ~c)
    if table & 8:
        found = found | (~a & b & c)
    if table & 16:
        found = found | (a & ~b & ~c)
    if table & 32:
        found = found | (a & ~b & c)
    if table & 64:
        found = found | (a & b & ~c)
    if table & 128:
        found = found | (a & b & c)
    return found


@native
def logical_right(a: int, n: int) -> int:
    """A shift of 64 bits that fills with zeros."""
    if n <= 0:
        return a
    if n >= 64:
        return 0
    return a >> n & ((1 << (64 - n)) - 1)


@native
def permute(a: int, selector: int, b: int) -> int:
    found = 0
    for k in range(4):
        s = selector >> 4 * k & 15
        byte = (a >> 8 * (s & 7) if s & 4 == 0 else b >> 8 * (s & 3)) & 255
        if s & 8:
            byte = 255 if byte & 128 else 0
        found = found | byte << 8 * k
    return found


@native
def reverse(a: int) -> int:
    found = 0
    for k in range(32):
        found = found | (a >> k & 1) << (31 - k)
    return found


@native
def leading(a: int) -> int:
    """The number of the highest one, all ones without one."""
    k = 31
    while k >= 0 and a >> k & 1 == 0:
        k -= 1
    return k & e.M32


@native
def power_of_two(x: float) -> float:
    """2**x, to some 1e-7."""
    if x > 128.0:
        return as_float(0x7F800000)
    if x < -150.0:
        return 0.0
    n = int(x)
    f = (x - n) * 0.6931471805599453
    term = 1.0
    total = 1.0
    for k in range(1, 14):
        term = term * f / k
        total += term
    scale = 1.0
    for _ in range(abs(n)):
        scale = scale * 2.0 if n > 0 else scale * 0.5
    return total * scale


@native
def logarithm(x: float) -> float:
    """log2 of a number that is positive, to some 1e-9."""
    if not x > 0.0:
        return as_float(0xFF800000)
    n = 0
    while x >= 1.4142135623730951 and n < 1100:
        x = x * 0.5
        n += 1
    while x < 0.7071067811865476 and n > -1100:
        x = x * 2.0
        n -= 1
    z = (x - 1.0) / (x + 1.0)
    power = z
    total = 0.0
    for k in range(1, 22, 2):
        total += power / k
        power = power * z * z
    return n + 2.0 * total * 1.4426950408889634


@native
def root(x: float) -> float:
    if x < 0.0:
        return as_float(0x7FFFFFFF)
    if x == 0.0:
        return 0.0
    guess = power_of_two(0.5 * logarithm(x))
    for _ in range(3):
        guess = 0.5 * (guess + x / guess)
    return guess


@native
def real_value(op: int, a: int, b: int, c: int, x: int) -> int:
    """Single precision, rounded once from double."""
    u = as_float(a)
    v = as_float(b)
    if op == e.F_ADD:
        return as_bits(u + v)
    if op == e.F_MUL:
        return as_bits(u * v)
    if op == e.F_FMA:
        return as_bits(u * v + as_float(c))
    if op == e.F_MIN:
        return as_bits(min(u, v))
    if op == e.F_MAX:
        return as_bits(max(u, v))
    if op == e.F_FROM_INT:
        return as_bits(float(a - ((a & 0x80000000) << 1)))
    if op == e.F_FROM_UINT:
        return as_bits(float(a))
    if op == e.F_TO_INT:
        low = 0 if x else -0x80000000
        high = e.M32 if x else 0x7FFFFFFF
        return min(max(int(u), low), high)
    if op == e.F_RCP:
        return as_bits(1.0 / u)
    if op == e.F_RSQ:
        return as_bits(1.0 / root(u))
    if op == e.F_SQRT:
        return as_bits(root(u))
    if op == e.F_EX2:
        return as_bits(power_of_two(u))
    return as_bits(logarithm(u))


@native
def shifted(op: int, a: int, b: int, c: int, x: int) -> int:
    """SHF: `c` is the high word, sign-extended for signed types; `x` the bits that the amount wraps or clamps at, `b` it."""
    n = b & (63 if x == 64 else 31) if x & 1 == 0 else min(b, x)
    whole = a & e.M32 | c << 32
    if op == e.V_LEFT:
        return whole << n if n < 64 else 0
    if op == e.V_LEFT_HIGH:
        return logical_right(whole << n, 32) if n < 64 else 0
    if op == e.V_RIGHT:
        return whole >> n if n < 64 else whole >> 63
    return c >> min(n, 63)


@native
def compare(op: int, a: int, b: int) -> int:
    if op >= e.C_FLOAT:
        u = as_float(a)
        v = as_float(b)
        kind = op & 7
        unordered = u != u or v != v
        if unordered:
            return op >> 3 & 1
        if kind == e.C_EQ:
            return int(u == v)
        if kind == e.C_NE:
            return int(u != v)
        if kind == e.C_LT:
            return int(u < v)
        if kind == e.C_LE:
            return int(u <= v)
        if kind == e.C_GT:
            return int(u > v)
        return int(u >= v)
    if op == e.C_EQ:
        return int(a == b)
    if op == e.C_NE:
        return int(a != b)
    if op == e.C_LT:
        return int(a < b)
    if op == e.C_LE:
        return int(a <= b)
    if op == e.C_GT:
        return int(a > b)
    if op == e.C_GE:
        return int(a >= b)
    return int(op == e.C_TRUE)


@native
def value(op: int, a: int, b: int, c: int, x: int, y: int, i: int, j: int) -> int:
    """The result of an operation on a lane; `i` and `j` are predicates."""
    if (op >= e.F_ADD and op <= e.F_LG2) or op == e.F_FROM_UINT:
        return real_value(op, a, b, c, x)
    if op == e.V_MOVE:
        return a
    if op == e.V_ADD:
        return a + b + c + i + j
    if op == e.V_MAD:
        return a * b + c + i
    if op == e.V_HIGH:
        return logical_right(a * b + c, 32) + i
    if op == e.V_LEA:
        return ((a << x) & e.M32) + b + i
    if op == e.V_LEA_HIGH:
        return (logical_right(a & e.M32 | c << 32, 32 - x) & e.M32) + b + i
    if op == e.V_LOGIC:
        return logic(a, b, c, x)
    if op >= e.V_LEFT and op <= e.V_RIGHT_HIGH:
        return shifted(op, a, b, c, x)
    return bits_of(op, a, b, c, x, i)


@native
def bits_of(op: int, a: int, b: int, c: int, x: int, i: int) -> int:
    """The rarer operations of `value`."""
    if op == e.V_SELECT:
        return a if i else b
    if op == e.V_MIN or op == e.V_MAX:
        return min(a, b) if (op == e.V_MIN) == (i != 0) else max(a, b)
    if op == e.V_PERMUTE:
        return permute(a, b, c)
    if op == e.V_REVERSE:
        return reverse(a)
    if op == e.V_COUNT:
        return popcount(a & e.M32)
    if op == e.V_LEADING:
        return leading(a & e.M32)
    if op == e.V_MASK:
        return ((1 << min(b, 32)) - 1) << min(a, 32) if b <= 32 else e.ALL << min(a, 32)
    if op == e.V_EXTEND:
        n = min(max(b & 63, 1), 32)
        v = a & ((1 << n) - 1)
        return v - ((v >> (n - 1) & 1) << n) if x else v
    return 0
