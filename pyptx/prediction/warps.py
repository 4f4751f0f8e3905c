"""What an instruction computes for a warp: values, predicates, exchanges between lanes."""

from __future__ import annotations

from . import codes as e
from .lanes import compare, fetch, logic, value
from .native import Bytes, Ints, Words, native


@native
def place(slot: int, warp: int, warps: int) -> int:
    """Where the 32 words of a slot begin."""
    if slot < e.CONSTANTS:
        return (warp * e.CONSTANTS + slot) * 32
    return (warps * e.CONSTANTS + slot - e.CONSTANTS) * 32


@native
def test_predicate(index: int, lane: int, at: int, preds: Ints) -> int:
    """A source predicate; 16 more for its complement."""
    bit = preds[at + (index & 15)] >> lane & 1
    return bit ^ (index >> 4 & 1)


@native
def predicate_mask(index: int, at: int, preds: Ints) -> int:
    mask = preds[at + (index & 15)]
    return (~mask if index & 16 else mask) & e.ALL


@native
def set_predicate(index: int, at: int, mask: int, bits: int, preds: Ints) -> int:
    if index >= 0 and index != e.TRUE and index != e.UNIFORM_TRUE:
        preds[at + index] = (preds[at + index] & ~mask) | (bits & mask)
    return 0


@native
def mark(row: int, warp: int, flag: int, code: Ints, marks: Ints, unknown: Bytes) -> int:
    """Say of all that an instruction writes whether it is known."""
    first = code[row + e.E_MARKS]
    for k in range(code[row + e.E_MARKED]):
        unknown[warp * 1024 + marks[first + k]] = flag
    return 0


@native
def sources_unknown(row: int, warp: int, code: Ints, unknown: Bytes) -> int:
    found = 0
    for k in range(3):
        slot = code[row + e.E_A + k]
        if slot >= 0 and slot < e.CONSTANTS:
            found = found | unknown[warp * 1024 + slot]
            if code[row + e.E_FA + k] & e.WIDE:
                found = found | unknown[warp * 1024 + slot + 1]
    for k in range(2):
        p = code[row + e.E_I + k]
        if p >= 0:
            found = found | unknown[warp * 1024 + 600 + (p & 15)]
    return int(found | unknown[warp * 1024 + 600 + (code[row + e.E_GUARD] & 15)])


@native
def do_value(row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, meta: Ints) -> int:
    nw = meta[e.M_WARPS]
    op = code[row + e.E_OP]
    a = place(code[row + e.E_A], warp, nw)
    b = place(code[row + e.E_B], warp, nw)
    c = place(code[row + e.E_C], warp, nw)
    d = place(code[row + e.E_D], warp, nw)
    at = warp * e.PREDICATES
    fa = code[row + e.E_FA]
    fb = code[row + e.E_FB]
    fc = code[row + e.E_FC]
    x = code[row + e.E_X]
    y = code[row + e.E_Y]
    write = code[row + e.E_D] != e.ZERO
    wide = code[row + e.E_WORDS] == 2
    p = 0
    q = 0
    for lane in range(32):
        if mask >> lane & 1:
            i = test_predicate(code[row + e.E_I], lane, at, preds) if code[row + e.E_I] >= 0 else 0
            j = test_predicate(code[row + e.E_J], lane, at, preds) if code[row + e.E_J] >= 0 else 0
            u = fetch(a, fa, lane, regs)
            v = fetch(b, fb, lane, regs)
            w = fetch(c, fc, lane, regs)
            r = value(op, u, v, w, x, y, i, j)
            if write:
                regs[d + lane] = r & e.M32
                if wide:
                    regs[d + 32 + lane] = r >> 32 & e.M32
            if op == e.V_LOGIC:
                p = p | int(r & e.M32 != 0) << lane
            elif wide:
                # a carry out of 64 bits: the sum is smaller than an addend
                p = p | int((r ^ (1 << 63)) < (w ^ (1 << 63))) << lane
            else:
                carry = r >> 32
                p = p | int(carry > 0) << lane
                q = q | int(carry > 1) << lane
    set_predicate(code[row + e.E_P], at, mask, p, preds)
    set_predicate(code[row + e.E_Q], at, mask, q, preds)
    if code[row + e.E_UNIFORM]:
        spread(row, warp, mask, d, code, regs, preds)
    return 0


@native
def spread(row: int, warp: int, mask: int, d: int, code: Ints, regs: Words, preds: Ints) -> int:
    """A uniform result is that of all lanes."""
    lane = 0
    while lane < 31 and mask >> lane & 1 == 0:
        lane += 1
    if code[row + e.E_D] != e.ZERO and code[row + e.E_D] >= 0:
        for k in range(code[row + e.E_WORDS]):
            v = regs[d + 32 * k + lane]
            for other in range(32):
                regs[d + 32 * k + other] = v
    at = warp * e.PREDICATES
    for k in range(2):
        p = code[row + e.E_P + k]
        if p >= 0 and p != e.TRUE and p != e.UNIFORM_TRUE:
            preds[at + p] = e.ALL if preds[at + p] >> lane & 1 else 0
    return 0


@native
def do_compare(row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, meta: Ints) -> int:
    """`E_X`: and, or, xor with the first predicate; `E_Y`: the second is the result of the lower words."""
    nw = meta[e.M_WARPS]
    op = code[row + e.E_OP]
    a = place(code[row + e.E_A], warp, nw)
    b = place(code[row + e.E_B], warp, nw)
    at = warp * e.PREDICATES
    p = 0
    q = 0
    for lane in range(32):
        if mask >> lane & 1:
            u = fetch(a, code[row + e.E_FA], lane, regs)
            v = fetch(b, code[row + e.E_FB], lane, regs)
            r = compare(op, u, v)
            if code[row + e.E_Y]:
                lower = test_predicate(code[row + e.E_J], lane, at, preds)
                if op == e.C_EQ:
                    r = r & lower
                elif op == e.C_NE:
                    r = r | lower
                elif u == v:
                    r = lower
            i = test_predicate(code[row + e.E_I], lane, at, preds)
            other = 1 - r
            if code[row + e.E_X] == 0:
                r = r & i
                other = other & i
            elif code[row + e.E_X] == 1:
                r = r | i
                other = other | i
            else:
                r = r ^ i
                other = other ^ i
            p = p | r << lane
            q = q | other << lane
    set_predicate(code[row + e.E_P], at, mask, p, preds)
    set_predicate(code[row + e.E_Q], at, mask, q, preds)
    if code[row + e.E_UNIFORM]:
        spread(row, warp, mask, 0, code, regs, preds)
    return 0


@native
def do_logic(row: int, warp: int, mask: int, code: Ints, preds: Ints) -> int:
    """PLOP3: three predicates, in the columns of the operands, and a table for each result."""
    at = warp * e.PREDICATES
    a = predicate_mask(code[row + e.E_FA], at, preds)
    b = predicate_mask(code[row + e.E_FB], at, preds)
    c = predicate_mask(code[row + e.E_FC], at, preds)
    set_predicate(code[row + e.E_P], at, mask, logic(a, b, c, code[row + e.E_X]), preds)
    set_predicate(code[row + e.E_Q], at, mask, logic(a, b, c, code[row + e.E_Y]), preds)
    return 0


@native
def do_shuffle(
    row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, temporary: Ints, meta: Ints
) -> int:
    """PTX ISA, shfl.sync; `E_OP`: idx, up, down, bfly."""
    nw = meta[e.M_WARPS]
    a = place(code[row + e.E_A], warp, nw)
    b = place(code[row + e.E_B], warp, nw)
    c = place(code[row + e.E_C], warp, nw)
    d = place(code[row + e.E_D], warp, nw)
    mode = code[row + e.E_OP]
    p = 0
    for lane in range(32):
        clamp = regs[c + lane] & 31
        segment = regs[c + lane] >> 8 & 31
        low = lane & segment
        high = low | clamp & ~segment
        n = regs[b + lane] & 31
        source = lane ^ n
        inside = source <= high
        if mode == 0:
            source = low | n & ~segment
            inside = source <= high
        elif mode == 1:
            source = lane - n
            inside = source >= high
        elif mode == 2:
            source = lane + n
            inside = source <= high
        if not inside:
            source = lane
        p = p | int(inside) << lane
        temporary[lane] = regs[a + (source & 31)]
    if code[row + e.E_D] != e.ZERO:
        for lane in range(32):
            if mask >> lane & 1:
                regs[d + lane] = temporary[lane]
    set_predicate(code[row + e.E_P], warp * e.PREDICATES, mask, p, preds)
    return 0


@native
def do_vote(row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, meta: Ints) -> int:
    """`E_OP`: all, any, eq; the ballot goes to a register."""
    at = warp * e.PREDICATES
    bits = predicate_mask(code[row + e.E_I], at, preds) & mask
    if code[row + e.E_D] >= 0 and code[row + e.E_D] != e.ZERO:
        d = place(code[row + e.E_D], warp, meta[e.M_WARPS])
        for lane in range(32):
            regs[d + lane] = bits
    r = int(bits == mask)
    if code[row + e.E_OP] == 1:
        r = int(bits != 0)
    elif code[row + e.E_OP] == 2:
        r = int(bits == mask or bits == 0)
    set_predicate(code[row + e.E_P], at, e.ALL if code[row + e.E_UNIFORM] else mask, e.ALL if r else 0, preds)
    return 0


@native
def do_predicates(row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, meta: Ints) -> int:
    """R2P and P2R: the predicates in a byte of a register."""
    nw = meta[e.M_WARPS]
    at = warp * e.PREDICATES
    a = place(code[row + e.E_A], warp, nw)
    b = place(code[row + e.E_B], warp, nw)
    shift = code[row + e.E_X]
    for lane in range(32):
        if mask >> lane & 1:
            wanted = regs[b + lane]
            if code[row + e.E_DO] == e.DO_TO_PREDICATES:
                for k in range(7):
                    if wanted >> k & 1:
                        set_predicate(k, at, 1 << lane, (regs[a + lane] >> (k + shift) & 1) << lane, preds)
            else:
                bits = 0
                for k in range(7):
                    bits = bits | (preds[at + k] >> lane & 1) << k
                d = place(code[row + e.E_D], warp, nw)
                kept = regs[a + lane] & ~(wanted << shift)
                regs[d + lane] = (kept | (bits & wanted) << shift) & e.M32
    return 0


@native
def do_constant(row: int, warp: int, mask: int, code: Ints, regs: Words, bank: Words, meta: Ints) -> int:
    """Words of the first constant bank, at an address that a register has."""
    d = place(code[row + e.E_D], warp, meta[e.M_WARPS])
    a = place(code[row + e.E_A], warp, meta[e.M_WARPS])
    for lane in range(32):
        if (mask >> lane & 1 or code[row + e.E_UNIFORM]) and code[row + e.E_D] != e.ZERO:
            for k in range(code[row + e.E_WORDS]):
                offset = ((regs[a + lane] + code[row + e.E_X] & e.M32) >> 2) + k
                regs[d + 32 * k + lane] = bank[offset] if offset < meta[e.M_BANK] else 0
    return int(code[row + e.E_Y] != 0)


@native
def do_elect(row: int, warp: int, mask: int, code: Ints, preds: Ints) -> int:
    lane = 0
    while lane < 31 and mask >> lane & 1 == 0:
        lane += 1
    set_predicate(code[row + e.E_P], warp * e.PREDICATES, e.ALL, 1 << lane, preds)
    return 0


@native
def compute(
    row: int, warp: int, mask: int, flag: int, code: Ints, regs: Words, preds: Ints, unknown: Bytes, bank: Words, temporary: Ints, meta: Ints
) -> int:  # fmt: skip
    """Results that come from registers. Returns whether they are not known; `flag`: whether the sources are not."""
    what = code[row + e.E_DO]
    if what == e.DO_VALUE:
        do_value(row, warp, mask, code, regs, preds, meta)
    elif what == e.DO_COMPARE:
        do_compare(row, warp, mask, code, regs, preds, meta)
    elif what == e.DO_LOGIC:
        do_logic(row, warp, mask, code, preds)
        flag = 0
        for k in range(3):
            flag = int(flag | unknown[warp * 1024 + 600 + (code[row + e.E_FA + k] & 15)])
    elif what == e.DO_SHUFFLE:
        do_shuffle(row, warp, mask, code, regs, preds, temporary, meta)
    elif what == e.DO_VOTE:
        do_vote(row, warp, mask, code, regs, preds, meta)
    elif what == e.DO_TO_PREDICATES or what == e.DO_FROM_PREDICATES:
        do_predicates(row, warp, mask, code, regs, preds, meta)
    elif what == e.DO_CONSTANT:
        flag = flag | do_constant(row, warp, mask, code, regs, bank, meta)
    elif what == e.DO_ELECT:
        do_elect(row, warp, mask, code, preds)
    else:
        flag = 1
    return flag
