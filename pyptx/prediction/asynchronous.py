"""What works by itself in the emulator: mbarriers and their phases, tensor copies, matrix instructions of one thread.

Copies are complete at once here; when they are complete in time is the replay's matter. A warp that waits for a phase runs on when it
is complete, and its record says which phase it needed, so that the replay waits for the same one.
"""

from __future__ import annotations

from . import codes as e
from .layout import (
    CLUSTER_ARRIVE,
    MATRIX,
    MATRIX_COMMIT,
    MBARRIER_ARRIVE,
    MBARRIER_INIT,
    MBARRIER_WAIT,
    TENSOR_LOAD,
    TENSOR_STORE,
)
from .memories import host_of, note_event
from .native import Bytes, Halves, Ints, Words, native, popcount
from .warps import place, set_predicate


@native
def mbarrier_of(address: int, sync: Ints) -> int:
    """The number of an mbarrier of a CTA by its address."""
    at = e.B_NUMBERS + (address & e.SHARED_BYTES - 1) // 8
    if sync[at] == 0:
        sync[e.B_COUNT] = min(sync[e.B_COUNT] + 1, e.MBARRIERS - 2)
        sync[at] = sync[e.B_COUNT]
    return sync[at] - 1


@native
def arrive_at(slot: int, arrivals: int, expected: int, sync: Ints) -> int:
    """Arrivals at an mbarrier, and bytes that it expects from now on; bytes that came count as negative."""
    s = e.B_STATES + slot * e.MBARRIER
    sync[s + e.B_PENDING] -= arrivals
    sync[s + e.B_BYTES] += expected
    if sync[s + e.B_PENDING] <= 0 and sync[s + e.B_BYTES] == 0:
        sync[s + e.B_DONE] += 1
        sync[s + e.B_PENDING] = sync[s + e.B_EXPECTED]
    return 0


@native
def read(slot: int, warp: int, lane: int, regs: Words, meta: Ints) -> int:
    return int(regs[place(slot, warp, meta[e.M_WARPS]) + lane])


@native
def first_lane(mask: int) -> int:
    lane = 0
    while lane < 31 and mask >> lane & 1 == 0:
        lane += 1
    return lane


@native
def lane_address(row: int, warp: int, lane: int, code: Ints, regs: Words, meta: Ints) -> int:
    """An address of shared memory: `[A + B + X]`."""
    found = read(code[row + e.E_A], warp, lane, regs, meta) + read(code[row + e.E_B], warp, lane, regs, meta)
    return found + code[row + e.E_X] & e.M32


@native
def do_initialize(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, sync: Ints, records: Halves, owners: Halves, states: Ints,
    meta: Ints,
) -> int:  # fmt: skip
    """The hardware's word of an mbarrier has the arrivals that it expects, complemented."""
    lane = first_lane(mask)
    slot = warp // meta[e.M_CTA_WARPS] * e.MBARRIERS
    slot += mbarrier_of(lane_address(row, warp, lane, code, regs, meta), sync)
    expected = 0x100000 - (read(code[row + e.E_C], warp, lane, regs, meta) >> 1) & 0xFFFFF
    s = e.B_STATES + slot * e.MBARRIER
    sync[s + e.B_PENDING] = expected
    sync[s + e.B_EXPECTED] = expected
    sync[s + e.B_BYTES] = 0
    note_event(index, warp, MBARRIER_INIT, slot, expected, 0, 0, records, owners, states, meta)
    return 1


@native
def do_arrive(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, sync: Ints, records: Halves, owners: Halves, states: Ints,
    meta: Ints,
) -> int:  # fmt: skip
    """`E_Y`: 1 where the address names a CTA of the cluster; `E_OP`: 1 for no arrival, 2 for no bytes, 4 for a count of arrivals."""
    rank = warp // meta[e.M_CTA_WARPS]
    d = place(code[row + e.E_D], warp, meta[e.M_WARPS])
    left = mask
    while left:
        first = first_lane(left)
        address = lane_address(row, warp, first, code, regs, meta)
        lanes = 0
        value = 0
        for lane in range(first, 32):
            if left >> lane & 1 and lane_address(row, warp, lane, code, regs, meta) == address:
                lanes = lanes | 1 << lane
                value += read(code[row + e.E_C], warp, lane, regs, meta)
        left = left & ~lanes
        to = address >> 24 if code[row + e.E_Y] else rank
        to = to if to < meta[e.M_RANKS] else rank
        slot = to * e.MBARRIERS + mbarrier_of(address, sync)
        if code[row + e.E_D] != e.ZERO:
            for lane in range(32):
                if lanes >> lane & 1:
                    regs[d + lane] = 0
                    regs[d + 32 + lane] = (sync[e.B_STATES + slot * e.MBARRIER + e.B_DONE] & 1) << 31
        arrivals = popcount(lanes)
        if code[row + e.E_OP] & 1:
            arrivals = 0
        if code[row + e.E_OP] & 4:
            arrivals = value
        expected = 0 if code[row + e.E_OP] & 6 else value
        arrive_at(slot, arrivals, expected, sync)
        note_event(
            index, warp, MBARRIER_ARRIVE, slot, arrivals, expected, int(to != rank), records, owners, states, meta
        )
    return 1


@native
def wait_for(slot: int, need: int, warp: int, sync: Ints, states: Ints) -> int:
    """Whether so many phases are complete; else the warp waits."""
    s = warp * e.STATE
    if sync[e.B_STATES + slot * e.MBARRIER + e.B_DONE] >= need:
        states[s + e.T_PHASE] = 0
        return 1
    states[s + e.T_STATUS] = e.AT_MBARRIER
    states[s + e.T_BARRIER] = slot
    states[s + e.T_PHASE] = need
    return 0


@native
def do_wait(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, sync: Ints, records: Halves, owners: Halves,
    states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """A wait for the phase of a parity: that before the current one, or the current one."""
    lane = first_lane(mask)
    slot = warp // meta[e.M_CTA_WARPS] * e.MBARRIERS
    slot += mbarrier_of(lane_address(row, warp, lane, code, regs, meta), sync)
    parity = read(code[row + e.E_C], warp, lane, regs, meta) >> 31 & 1
    done = sync[e.B_STATES + slot * e.MBARRIER + e.B_DONE]
    need = states[warp * e.STATE + e.T_PHASE]
    if sync[e.B_STATES + slot * e.MBARRIER + e.B_EXPECTED] == 0:
        need = 0  # one that the system keeps for allocations of tensor memory, free from the start
    elif need == 0:
        need = done if done & 1 != parity else done + 1
    if not wait_for(slot, need, warp, sync, states):
        return 0
    set_predicate(code[row + e.E_P], warp * e.PREDICATES, mask, mask, preds)
    note_event(index, warp, MBARRIER_WAIT, slot, need, 0, 0, records, owners, states, meta)
    return 1


@native
def do_cluster(
    index: int, row: int, warp: int, code: Ints, sync: Ints, records: Halves, owners: Halves, states: Ints, meta: Ints
) -> int:
    """The barrier of the cluster is an mbarrier at which every warp arrives once."""
    slot = e.MBARRIERS - 1
    s = warp * e.STATE
    at = e.B_STATES + slot * e.MBARRIER
    if sync[at + e.B_EXPECTED] == 0:
        sync[at + e.B_EXPECTED] = meta[e.M_WARPS]
        sync[at + e.B_PENDING] = meta[e.M_WARPS]
    if code[row + e.E_DO] == e.DO_CLUSTER_ARRIVE:
        states[s + e.T_CLUSTER] += 1
        arrive_at(slot, 1, 0, sync)
        note_event(index, warp, CLUSTER_ARRIVE, slot, meta[e.M_WARPS], 0, 1, records, owners, states, meta)
        return 1
    if not wait_for(slot, states[s + e.T_CLUSTER], warp, sync, states):
        return 0
    note_event(index, warp, MBARRIER_WAIT, slot, states[s + e.T_CLUSTER], 0, 0, records, owners, states, meta)
    return 1


@native
def element_bits(type: int) -> int:
    """By the number of the type in a tensor map."""
    if type == 0:
        return 8
    if type == 1 or type == 6 or type == 10:
        return 16
    if type == 4 or type == 5 or type == 9:
        return 64
    return 4 if type == 13 or type == 14 else 6 if type == 15 else 32


@native
def map_bytes(address: int, ranges: Ints, bank: Words, bytes: Bytes, words: Words, meta: Ints) -> int:
    """The bytes of a box of a tensor map that lies in global memory or in the parameters; 0 where it is neither."""
    at = address - meta[e.M_PARAMETERS]
    inside = at >= 0 and at + 128 <= 4 * meta[e.M_BANK]
    host = 0 if inside else host_of(address, 128, ranges, meta)
    if not inside and host == 0:
        return 0
    head = int(bank[at // 4 + 1]) if inside else int(words[(host + 4) >> 2])
    count = 1
    for k in range((head >> 16 & 255) + 1):
        word = int(bank[(at + 80 + 2 * k) // 4]) if inside else int(words[(host + 80 + 2 * k) >> 2])
        count = count * (word >> 16 * (k & 1) & 0xFFFF)
    return count * element_bits(head >> 8 & 255) // 8


@native
def do_tensor_copy(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, ranges: Ints, bank: Words, dirty: Bytes, bytes: Bytes,
    words: Words, sync: Ints, records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """A box between global and shared memory: `A` begins the registers of the shared address, the mbarrier, the coordinates; `B` has the
    tensor map's address, `C` the CTAs of a multicast (`E_Y` 1). `E_Y` 2: the mbarrier's address names its CTA.
    """
    lane = first_lane(mask)
    rank = warp // meta[e.M_CTA_WARPS]
    a = code[row + e.E_A]
    shared = read(a, warp, lane, regs, meta)
    map = read(code[row + e.E_B], warp, lane, regs, meta)
    map += read(code[row + e.E_B] + 1, warp, lane, regs, meta) << 32
    moved = map_bytes(map, ranges, bank, bytes, words, meta)
    key = map & 0xFFFFFFF
    for k in range(code[row + e.E_X]):
        key = (key * 1000003 + read(a + 2 + k, warp, lane, regs, meta)) & 0x3FFFFFFF
    if code[row + e.E_DO] == e.DO_TENSOR_STORE:
        note_event(index, warp, TENSOR_STORE, 0, moved // 32, 0, key, records, owners, states, meta)
        return 1
    targets = 1 << rank
    if code[row + e.E_Y] & 1:
        targets = read(code[row + e.E_C], warp, lane, regs, meta) >> 16  # the lower half is for cache hints
    number = mbarrier_of(read(a + 1, warp, lane, regs, meta), sync)
    named = read(a + 1, warp, lane, regs, meta) >> 24 if code[row + e.E_Y] & 2 else -1
    for to in range(meta[e.M_RANKS]):
        if targets >> to & 1:
            at = to if named < 0 or named >= meta[e.M_RANKS] else named
            arrive_at(at * e.MBARRIERS + number, 0, -moved, sync)
            start = ((shared & e.SHARED_BYTES - 1) + to * e.SHARED_BYTES) >> 2
            for k in range(start, min(start + moved // 4, meta[e.M_SHARED_SIZE] // 4)):
                dirty[k] = 1
    note_event(
        index, warp, TENSOR_LOAD, number + (named + 1 << 8), moved // 32, targets, key, records, owners, states, meta
    )
    return 1


@native
def do_matrix(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, sync: Ints, records: Halves, owners: Halves, states: Ints,
    meta: Ints,
) -> int:  # fmt: skip
    """Matrix instructions of tcgen05, with the shape from the instruction descriptor, and what commits them to an mbarrier."""
    lane = first_lane(mask)
    if code[row + e.E_DO] == e.DO_MATRIX:
        word = read(code[row + e.E_A], warp, lane, regs, meta)
        n = (word >> 17 & 63) * 8
        m = (word >> 24 & 31) * 16
        note_event(index, warp, MATRIX, n, m, code[row + e.E_Y], 0, records, owners, states, meta)
        return 1
    rank = warp // meta[e.M_CTA_WARPS]
    number = mbarrier_of(read(code[row + e.E_A], warp, lane, regs, meta), sync)
    targets = 1 << rank
    if code[row + e.E_Y] & 1:
        targets = read(code[row + e.E_C], warp, lane, regs, meta) & 0xFFFF
    for to in range(meta[e.M_RANKS]):
        if targets >> to & 1:
            arrive_at(to * e.MBARRIERS + number, 1, 0, sync)
    note_event(index, warp, MATRIX_COMMIT, number, targets, 0, 0, records, owners, states, meta)
    return 1


@native
def do_remote_store(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, sync: Ints, records: Halves, owners: Halves, states: Ints,
    meta: Ints,
) -> int:  # fmt: skip
    """Bytes that come to the mbarrier in the second register. What is stored is not kept."""
    for lane in range(32):
        if mask >> lane & 1:
            address = read(code[row + e.E_A] + 1, warp, lane, regs, meta)
            slot = min(address >> 24, meta[e.M_RANKS] - 1) * e.MBARRIERS + mbarrier_of(address, sync)
            arrive_at(slot, 0, -code[row + e.E_X], sync)
            note_event(index, warp, MBARRIER_ARRIVE, slot, 0, -code[row + e.E_X], 1, records, owners, states, meta)
    return 1


@native
def do_grant(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, records: Halves, owners: Halves, states: Ints,
    meta: Ints,
) -> int:  # fmt: skip
    """Registers or tensor memory that are asked for are granted."""
    set_predicate(code[row + e.E_P], warp * e.PREDICATES, e.ALL, e.ALL, preds)
    if code[row + e.E_D] != e.ZERO:
        d = place(code[row + e.E_D], warp, meta[e.M_WARPS])
        for lane in range(32):
            regs[d + lane] = 0
    note_event(index, warp, 0, 0, 0, 0, 0, records, owners, states, meta)
    return 1


@native
def do_asynchronous(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, ranges: Ints, bank: Words, dirty: Bytes,
    bytes: Bytes, words: Words, sync: Ints, records: Halves, owners: Halves, states: Ints, meta: Ints,
) -> int:  # fmt: skip
    """One instruction; 0 where its warp has to wait before it."""
    what = code[row + e.E_DO]
    if what == e.DO_GRANT:
        return do_grant(index, row, warp, mask, code, regs, preds, records, owners, states, meta)
    if what == e.DO_MBARRIER_INIT:
        return do_initialize(index, row, warp, mask, code, regs, sync, records, owners, states, meta)
    if what == e.DO_MBARRIER_ARRIVE:
        return do_arrive(index, row, warp, mask, code, regs, sync, records, owners, states, meta)
    if what == e.DO_MBARRIER_WAIT:
        return do_wait(index, row, warp, mask, code, regs, preds, sync, records, owners, states, meta)
    if what == e.DO_CLUSTER_ARRIVE or what == e.DO_CLUSTER_WAIT:
        return do_cluster(index, row, warp, code, sync, records, owners, states, meta)
    if what == e.DO_REMOTE_STORE:
        return do_remote_store(index, row, warp, mask, code, regs, sync, records, owners, states, meta)
    if what == e.DO_TENSOR_LOAD or what == e.DO_TENSOR_STORE:
        return do_tensor_copy(
            index, row, warp, mask, code, regs, ranges, bank, dirty, bytes, words, sync, records, owners, states, meta
        )
    return do_matrix(index, row, warp, mask, code, regs, sync, records, owners, states, meta)


@native
def release_mbarriers(warps: int, states: Ints, sync: Ints) -> int:
    """Let the warps go on whose phase is complete; how many."""
    released = 0
    for w in range(warps):
        s = w * e.STATE
        if states[s + e.T_STATUS] == e.AT_MBARRIER:
            at = e.B_STATES + states[s + e.T_BARRIER] * e.MBARRIER
            if sync[at + e.B_DONE] >= states[s + e.T_PHASE]:
                states[s + e.T_STATUS] = e.READY
                released += 1
    return released
