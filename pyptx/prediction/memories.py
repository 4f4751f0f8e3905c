"""What memory instructions touch, and what they load and store."""

from __future__ import annotations

from . import codes as e
from .accesses import coalesce, wavefronts
from .lanes import fetch
from .layout import ASYNC_COPY, LOAD, LOCAL, RECORD, REDUCTION, SHARED, STORE
from .native import Bytes, Halves, Ints, Words, native, popcount
from .warps import mark, place


@native
def range_of(address: int, width: int, ranges: Ints, meta: Ints) -> int:
    """Which buffer has these bytes of global memory; -1: none."""
    for k in range(meta[e.M_RANGES]):
        base = ranges[3 * k]
        if address >= base and address + width <= base + ranges[3 * k + 1]:
            return k
    return -1


@native
def host_of(address: int, width: int, ranges: Ints, meta: Ints) -> int:
    """Where bytes of global memory are in this process; 0 where they are not."""
    k = range_of(address, width, ranges, meta)
    if k < 0 or ranges[3 * k + 2] == 0:
        return 0
    return int(ranges[3 * k + 2] + address - ranges[3 * k])


@native
def outside(mask: int, width: int, addresses: Ints, ranges: Ints, meta: Ints) -> int:
    """How many lanes access global memory that no buffer has."""
    count = 0
    for lane in range(32):
        if mask >> lane & 1:
            count += int(range_of(addresses[lane], width, ranges, meta) < 0)
    return count


@native
def shared_offset(address: int, warp: int, meta: Ints) -> int:
    """Where an address of its own shared memory is, for a warp, in the shared memories of its cluster."""
    return (address & 0xFFFFFF) + warp // meta[e.M_CTA_WARPS] * e.SHARED_BYTES


@native
def load_bytes(host: int, width: int, signed: int, bytes: Bytes, words: Words) -> int:
    """Up to four bytes at an address of this process."""
    if width >= 4:
        return words[host >> 2]
    v = 0
    for k in range(width):
        v = v | bytes[host + k] << 8 * k
    if signed:
        v = v - ((v >> (8 * width - 1) & 1) << 8 * width)
    return v


@native
def address_lane(row: int, warp: int, lane: int, code: Ints, regs: Words, meta: Ints) -> int:
    """`[A + B + X]`, each register 32 or 64 bits wide; `E_Y` scales the first."""
    nw = meta[e.M_WARPS]
    a = fetch(place(code[row + e.E_A], warp, nw), code[row + e.E_FA], lane, regs)
    b = fetch(place(code[row + e.E_B], warp, nw), code[row + e.E_FB], lane, regs)
    return a * code[row + e.E_Y] + b + code[row + e.E_X]


@native
def note_event(
    index: int, warp: int, access: int, a: int, b: int, c: int, d: int, records: Halves, owners: Halves, states: Ints, meta: Ints
) -> int:  # fmt: skip
    """Record an instruction with four numbers."""
    if meta[e.M_RECORD] and not states[warp * e.STATE + e.T_SILENT]:
        r = meta[e.M_RECORDS]
        records[r * RECORD] = index
        records[r * RECORD + 1] = access
        records[r * RECORD + 2] = a
        records[r * RECORD + 3] = b
        records[r * RECORD + 4] = c
        records[r * RECORD + 5] = d
        owners[r] = warp
        meta[e.M_RECORDS] = r + 1
    return 0


@native
def note(
    index: int, warp: int, access: int, waves: int, sectors: int, lines: int, records: Halves, owners: Halves, states: Ints, meta: Ints
) -> int:  # fmt: skip
    """Record an access to memory, unless the trace leaves this iteration out."""
    before = meta[e.M_RECORDS]
    note_event(index, warp, access, waves, sectors, lines, meta[e.M_LINES], records, owners, states, meta)
    if meta[e.M_RECORDS] > before and (
        access == LOAD or access == STORE or access == REDUCTION or access == ASYNC_COPY
    ):
        meta[e.M_LINES] += lines
    return 0


@native
def do_load(
    row: int, warp: int, mask: int, host_local: int, code: Ints, regs: Words, ranges: Ints, dirty: Bytes, bytes: Bytes, words: Words,
    addresses: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Registers from memory. Returns whether something that was loaded is not known."""
    width = code[row + e.E_WIDTH]
    d = place(code[row + e.E_D], warp, meta[e.M_WARPS])
    unknown = 0
    for lane in range(32):
        if mask >> lane & 1:
            address = addresses[lane]
            for k in range(0, width, 4):
                host = 0
                space = code[row + e.E_SPACE]
                if space == e.S_GENERIC and address >> 32 == meta[e.M_WINDOW]:
                    space = e.S_SHARED
                if space == e.S_SHARED:
                    offset = shared_offset(address + k, warp, meta)
                    if offset + 4 <= meta[e.M_SHARED_SIZE]:
                        host = meta[e.M_SHARED] + offset
                        unknown = unknown | dirty[offset >> 2]
                elif space == e.S_LOCAL:
                    host = (
                        host_local + (lane * e.LOCAL_WORDS + ((address + k) >> 2) % e.LOCAL_WORDS) * 4 + (address & 3)
                    )
                else:
                    host = host_of(address + k, min(width, 4), ranges, meta)
                v = 0
                if host:
                    v = load_bytes(host, min(width, 4), code[row + e.E_OP], bytes, words)
                else:
                    unknown = 1
                if code[row + e.E_D] != e.ZERO:
                    regs[d + 8 * k + lane] = v & e.M32
    return int(unknown)


@native
def do_store(
    row: int, warp: int, mask: int, host_local: int, flag: int, code: Ints, regs: Words, dirty: Bytes, bytes: Bytes, words: Words,
    addresses: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Shared and local memory from registers."""
    width = code[row + e.E_WIDTH]
    c = place(code[row + e.E_C], warp, meta[e.M_WARPS])
    for lane in range(32):
        if mask >> lane & 1:
            address = addresses[lane]
            space = code[row + e.E_SPACE]
            if space == e.S_GENERIC and address >> 32 == meta[e.M_WINDOW]:
                space = e.S_SHARED
            for k in range(0, width, 4):
                v = 0 if code[row + e.E_C] == e.ZERO else regs[c + 8 * k + lane]
                host = 0
                if space == e.S_SHARED:
                    offset = shared_offset(address + k, warp, meta)
                    if offset + 4 <= meta[e.M_SHARED_SIZE]:
                        host = meta[e.M_SHARED] + offset
                        dirty[offset >> 2] = flag
                elif space == e.S_LOCAL:
                    host = (
                        host_local + (lane * e.LOCAL_WORDS + ((address + k) >> 2) % e.LOCAL_WORDS) * 4 + (address & 3)
                    )
                if host:
                    if width >= 4:
                        words[host >> 2] = v
                    else:
                        for i in range(width):
                            bytes[host + i] = v >> 8 * i & 255
    return 0


@native
def copy_wavefronts(mask: int, width: int, found: Ints, addresses: Ints, banks: Ints) -> int:
    """The wavefronts of the shared side of an asynchronous copy, whose addresses are in `found` from 8 on."""
    for lane in range(32):
        banks[banks_end() + lane] = addresses[lane]
        addresses[lane] = found[8 + lane]
    waves = wavefronts(addresses, mask, width, banks)
    for lane in range(32):
        addresses[lane] = banks[banks_end() + lane]
    return waves


@native
def banks_end() -> int:
    return 32 * 65


@native
def space_of(row: int, mask: int, code: Ints, addresses: Ints, meta: Ints) -> int:
    """The space of an access; generic addresses of shared memory lose their window."""
    space = code[row + e.E_SPACE]
    if space == e.S_GENERIC:
        lane = 0
        while lane < 31 and mask >> lane & 1 == 0:
            lane += 1
        space = e.S_SHARED if addresses[lane] >> 32 == meta[e.M_WINDOW] else e.S_GLOBAL
        if space == e.S_SHARED:
            for k in range(32):
                addresses[k] = addresses[k] & 0xFFFFFF
    return space


@native
def do_copy(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, dirty: Bytes, addresses: Ints, banks: Ints, found: Ints,
    lines: Ints, records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """An asynchronous copy: the shared side is in C with the offset in E_OP, the global one in A and B."""
    width = code[row + e.E_WIDTH]
    c = place(code[row + e.E_C], warp, meta[e.M_WARPS])
    for lane in range(32):
        found[8 + lane] = (regs[c + lane] + code[row + e.E_OP]) & 0xFFFFFF
        if mask >> lane & 1:
            for k in range(0, width, 4):
                dirty[min(shared_offset(found[8 + lane] + k, warp, meta), meta[e.M_SHARED_SIZE] - 1) >> 2] = 1
    waves = copy_wavefronts(mask, width, found, addresses, banks)
    coalesce(addresses, mask, lines, meta[e.M_LINES], found)
    return note(index, warp, ASYNC_COPY, waves, found[0], found[1], records, owners, states, meta)


@native
def note_access(
    index: int, row: int, warp: int, mask: int, space: int, code: Ints, addresses: Ints, banks: Ints, found: Ints, lines: Ints,
    records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Record what a load, store or atomic touches."""
    what = code[row + e.E_DO]
    width = code[row + e.E_WIDTH]
    if space == e.S_SHARED or what == e.DO_MATRIX_LOAD:
        rows = mask
        if what == e.DO_MATRIX_LOAD and width < 16:
            rows = mask & ((1 << 2 * width) - 1)
        waves = wavefronts(addresses, rows, 16 if what == e.DO_MATRIX_LOAD else width, banks)
        return note(index, warp, SHARED, waves, 0, 0, records, owners, states, meta)
    if space == e.S_LOCAL:
        return note(index, warp, LOCAL, max(1, width // 4), 0, 0, records, owners, states, meta)
    coalesce(addresses, mask, lines, meta[e.M_LINES], found)
    kind = LOAD
    if what == e.DO_STORE:
        kind = STORE
    elif what == e.DO_ATOMIC:
        kind = REDUCTION
    waves = max(1, width * popcount(mask) // 128)
    return note(index, warp, kind, waves, found[0], found[1], records, owners, states, meta)


@native
def do_memory(
    index: int, row: int, warp: int, mask: int, flag: int, local: int, code: Ints, regs: Words, ranges: Ints, marks: Ints,
    unknown: Bytes, dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves,
    owners: Halves, states: Ints, counts: Ints, flagged: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Loads, stores, atomics and asynchronous copies: their addresses, what they touch, and their values."""
    what = code[row + e.E_DO]
    for lane in range(32):
        if mask >> lane & 1:
            addresses[lane] = address_lane(row, warp, lane, code, regs, meta)
    for k in range(2):
        slot = code[row + e.E_A + k]
        if slot < e.CONSTANTS and unknown[warp * 1024 + slot]:
            flagged[index] = flagged[index] | 2
            meta[e.M_UNKNOWN_ADDRESSES] += 1
    space = space_of(row, mask, code, addresses, meta)
    if what == e.DO_COPY:
        return do_copy(
            index, row, warp, mask, code, regs, dirty, addresses, banks, found, lines, records, owners, states, meta
        )
    # with an unknown guard, after a branch on an unknown value, and for generic addresses (of local memory too), it is not certain
    guessed = unknown[warp * 1024 + 600 + (code[row + e.E_GUARD] & 15)] | flagged[index] | meta[e.M_UNKNOWN_BRANCHES]
    if code[row + e.E_SPACE] == e.S_GLOBAL and guessed == 0:
        counts[e.COUNTS * index + e.N_OUTSIDE] += outside(mask, code[row + e.E_WIDTH], addresses, ranges, meta)
    note_access(index, row, warp, mask, space, code, addresses, banks, found, lines, records, owners, states, meta)
    if what == e.DO_LOAD:
        flag = flag | do_load(row, warp, mask, local, code, regs, ranges, dirty, bytes, words, addresses, meta)
        mark(row, warp, flag, code, marks, unknown)
    elif what == e.DO_STORE:
        c = code[row + e.E_C]
        if c < e.CONSTANTS:
            flag = int(flag | unknown[warp * 1024 + c])
        do_store(row, warp, mask, local, flag, code, regs, dirty, bytes, words, addresses, meta)
    else:
        mark(row, warp, 1, code, marks, unknown)
    return 0
