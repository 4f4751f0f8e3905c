"""What memory instructions touch, and what they load and store."""

from __future__ import annotations

from .accesses import coalesce, wavefronts
from .codes import (
    CONSTANTS,
    DO_ATOMIC,
    DO_COPY,
    DO_LOAD,
    DO_MATRIX_LOAD,
    DO_STORE,
    E_A,
    E_B,
    E_C,
    E_D,
    E_DO,
    E_FA,
    E_FB,
    E_OP,
    E_SPACE,
    E_WIDTH,
    E_X,
    E_Y,
    LOCAL_WORDS,
    M32,
    M_LINES,
    M_RANGES,
    M_RECORD,
    M_RECORDS,
    M_SHARED,
    M_SHARED_SIZE,
    M_UNKNOWN_ADDRESSES,
    M_WARPS,
    M_WINDOW,
    S_GENERIC,
    S_GLOBAL,
    S_LOCAL,
    S_SHARED,
    STATE,
    T_SILENT,
    ZERO,
)
from .lanes import fetch
from .native import Bytes, Halves, Ints, Words, native, popcount
from .replay import ASYNC_COPY, LOAD, LOCAL, RECORD, REDUCTION, SHARED, STORE
from .warps import mark, place


@native
def host_of(address: int, width: int, ranges: Ints, meta: Ints) -> int:
    """Where bytes of global memory are in this process; 0 where they are not."""
    for k in range(meta[M_RANGES]):
        base = ranges[3 * k]
        if address >= base and address + width <= base + ranges[3 * k + 1]:
            return ranges[3 * k + 2] + address - base if ranges[3 * k + 2] else 0
    return 0


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
    nw = meta[M_WARPS]
    a = fetch(place(code[row + E_A], warp, nw), code[row + E_FA], lane, regs)
    b = fetch(place(code[row + E_B], warp, nw), code[row + E_FB], lane, regs)
    return a * code[row + E_Y] + b + code[row + E_X]


@native
def note(
    index: int, warp: int, access: int, waves: int, sectors: int, lines: int, records: Halves, owners: Halves, states: Ints, meta: Ints
) -> int:  # fmt: skip
    """Record an instruction, unless the trace leaves this iteration out."""
    if meta[M_RECORD] and not states[warp * STATE + T_SILENT]:
        r = meta[M_RECORDS]
        records[r * RECORD] = index
        records[r * RECORD + 1] = access
        records[r * RECORD + 2] = waves
        records[r * RECORD + 3] = sectors
        records[r * RECORD + 4] = lines
        records[r * RECORD + 5] = meta[M_LINES]
        owners[r] = warp
        meta[M_RECORDS] = r + 1
        if access == LOAD or access == STORE or access == REDUCTION or access == ASYNC_COPY:
            meta[M_LINES] += lines
    return 0


@native
def do_load(
    row: int, warp: int, mask: int, host_local: int, code: Ints, regs: Words, ranges: Ints, dirty: Bytes, bytes: Bytes, words: Words,
    addresses: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Registers from memory. Returns whether something that was loaded is not known."""
    width = code[row + E_WIDTH]
    d = place(code[row + E_D], warp, meta[M_WARPS])
    unknown = 0
    for lane in range(32):
        if mask >> lane & 1:
            address = addresses[lane]
            for k in range(0, width, 4):
                host = 0
                space = code[row + E_SPACE]
                if space == S_GENERIC and address >> 32 == meta[M_WINDOW]:
                    space = S_SHARED
                if space == S_SHARED:
                    offset = (address + k) & 0xFFFFFF
                    if offset + 4 <= meta[M_SHARED_SIZE]:
                        host = meta[M_SHARED] + offset
                        unknown = unknown | dirty[offset >> 2]
                elif space == S_LOCAL:
                    host = host_local + (lane * LOCAL_WORDS + ((address + k) >> 2) % LOCAL_WORDS) * 4 + (address & 3)
                else:
                    host = host_of(address + k, min(width, 4), ranges, meta)
                v = 0
                if host:
                    v = load_bytes(host, min(width, 4), code[row + E_OP], bytes, words)
                else:
                    unknown = 1
                if code[row + E_D] != ZERO:
                    regs[d + 8 * k + lane] = v & M32
    return int(unknown)


@native
def do_store(
    row: int, warp: int, mask: int, host_local: int, flag: int, code: Ints, regs: Words, dirty: Bytes, bytes: Bytes, words: Words,
    addresses: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Shared and local memory from registers."""
    width = code[row + E_WIDTH]
    c = place(code[row + E_C], warp, meta[M_WARPS])
    for lane in range(32):
        if mask >> lane & 1:
            address = addresses[lane]
            space = code[row + E_SPACE]
            if space == S_GENERIC and address >> 32 == meta[M_WINDOW]:
                space = S_SHARED
            for k in range(0, width, 4):
                v = 0 if code[row + E_C] == ZERO else regs[c + 8 * k + lane]
                host = 0
                if space == S_SHARED:
                    offset = (address + k) & 0xFFFFFF
                    if offset + 4 <= meta[M_SHARED_SIZE]:
                        host = meta[M_SHARED] + offset
                        dirty[offset >> 2] = flag
                elif space == S_LOCAL:
                    host = host_local + (lane * LOCAL_WORDS + ((address + k) >> 2) % LOCAL_WORDS) * 4 + (address & 3)
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
    space = code[row + E_SPACE]
    if space == S_GENERIC:
        lane = 0
        while lane < 31 and mask >> lane & 1 == 0:
            lane += 1
        space = S_SHARED if addresses[lane] >> 32 == meta[M_WINDOW] else S_GLOBAL
        if space == S_SHARED:
            for k in range(32):
                addresses[k] = addresses[k] & 0xFFFFFF
    return space


@native
def do_copy(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, dirty: Bytes, addresses: Ints, banks: Ints, found: Ints,
    lines: Ints, records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """An asynchronous copy: the shared side is in C with the offset in E_OP, the global one in A and B."""
    width = code[row + E_WIDTH]
    c = place(code[row + E_C], warp, meta[M_WARPS])
    for lane in range(32):
        found[8 + lane] = (regs[c + lane] + code[row + E_OP]) & 0xFFFFFF
        if mask >> lane & 1:
            for k in range(0, width, 4):
                dirty[min(found[8 + lane] + k, meta[M_SHARED_SIZE] - 1) >> 2] = 1
    waves = copy_wavefronts(mask, width, found, addresses, banks)
    coalesce(addresses, mask, lines, meta[M_LINES], found)
    return note(index, warp, ASYNC_COPY, waves, found[0], found[1], records, owners, states, meta)


@native
def note_access(
    index: int, row: int, warp: int, mask: int, space: int, code: Ints, addresses: Ints, banks: Ints, found: Ints, lines: Ints,
    records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Record what a load, store or atomic touches."""
    what = code[row + E_DO]
    width = code[row + E_WIDTH]
    if space == S_SHARED or what == DO_MATRIX_LOAD:
        rows = mask
        if what == DO_MATRIX_LOAD and width < 16:
            rows = mask & ((1 << 2 * width) - 1)
        waves = wavefronts(addresses, rows, 16 if what == DO_MATRIX_LOAD else width, banks)
        return note(index, warp, SHARED, waves, 0, 0, records, owners, states, meta)
    if space == S_LOCAL:
        return note(index, warp, LOCAL, max(1, width // 4), 0, 0, records, owners, states, meta)
    coalesce(addresses, mask, lines, meta[M_LINES], found)
    kind = LOAD
    if what == DO_STORE:
        kind = STORE
    elif what == DO_ATOMIC:
        kind = REDUCTION
    waves = max(1, width * popcount(mask) // 128)
    return note(index, warp, kind, waves, found[0], found[1], records, owners, states, meta)


@native
def do_memory(
    index: int, row: int, warp: int, mask: int, flag: int, local: int, code: Ints, regs: Words, ranges: Ints, marks: Ints,
    unknown: Bytes, dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves,
    owners: Halves, states: Ints, flagged: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Loads, stores, atomics and asynchronous copies: their addresses, what they touch, and their values."""
    what = code[row + E_DO]
    for lane in range(32):
        if mask >> lane & 1:
            addresses[lane] = address_lane(row, warp, lane, code, regs, meta)
    for k in range(2):
        slot = code[row + E_A + k]
        if slot < CONSTANTS and unknown[warp * 1024 + slot]:
            flagged[index] = flagged[index] | 2
            meta[M_UNKNOWN_ADDRESSES] += 1
    space = space_of(row, mask, code, addresses, meta)
    if what == DO_COPY:
        return do_copy(
            index, row, warp, mask, code, regs, dirty, addresses, banks, found, lines, records, owners, states, meta
        )
    note_access(index, row, warp, mask, space, code, addresses, banks, found, lines, records, owners, states, meta)
    if what == DO_LOAD:
        flag = flag | do_load(row, warp, mask, local, code, regs, ranges, dirty, bytes, words, addresses, meta)
        mark(row, warp, flag, code, marks, unknown)
    elif what == DO_STORE:
        c = code[row + E_C]
        if c < CONSTANTS:
            flag = int(flag | unknown[warp * 1024 + c])
        do_store(row, warp, mask, local, flag, code, regs, dirty, bytes, words, addresses, meta)
    else:
        mark(row, warp, 1, code, marks, unknown)
    return 0
