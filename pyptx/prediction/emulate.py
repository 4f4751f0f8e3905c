"""The warps of one CTA, or of a cluster of CTAs, run for what decides time: branches and addresses.

Integers, predicates and single-precision floats are computed; results of what is not (tensor cores, halves, doubles) are marked
as unknown, and so is all that derives from them. A branch or an address that depends on an unknown value is counted. Loads read
the launch's memory; stores to global memory are not performed, since the arguments belong to the caller.
"""

from __future__ import annotations

from . import codes as e
from .asynchronous import do_asynchronous, release_mbarriers
from .layout import NONE
from .memories import do_memory, note
from .native import Bytes, Halves, Ints, Words, native, popcount
from .warps import compute, mark, place, predicate_mask, sources_unknown


@native
def leave_loop(index: int, warp: int, states: Ints, meta: Ints) -> int:
    """Outside of the loop whose later iterations are left out, everything is recorded."""
    s = warp * e.STATE
    if index < meta[e.M_LOOP_FIRST] or index > meta[e.M_LOOP_LAST]:
        states[s + e.T_SILENT] = 0
        states[s + e.T_ITERATION] = 0
    return 0


@native
def join(k: int, warp: int, pcs: Ints, states: Ints) -> int:
    """Lanes that wait where their warp's paths join go on when none that is alive is missing."""
    s = warp * e.STATE
    members = states[k] & states[s + e.T_LIVE]
    if states[k + 1] and states[k + 1] & members == members:
        states[s + e.T_BLOCKED] = states[s + e.T_BLOCKED] & ~states[k + 1]
        states[k + 1] = 0
    return 0


@native
def next_instruction(warp: int, pcs: Ints, states: Ints) -> int:
    """Of the lanes of a warp that do not wait for others, the place of those that are furthest after."""
    s = warp * e.STATE
    ready = states[s + e.T_LIVE] & ~states[s + e.T_BLOCKED]
    if ready == 0:
        states[s + e.T_BLOCKED] = 0
        ready = states[s + e.T_LIVE]
    index = 1 << 40
    for lane in range(32):
        if ready >> lane & 1:
            index = min(index, pcs[warp * 32 + lane])
    active = 0
    for lane in range(32):
        active = active | int(pcs[warp * 32 + lane] == index) << lane
    states[s + e.T_ACTIVE] = active & ready
    return index


@native
def do_barrier(
    index: int, row: int, warp: int, code: Ints, regs: Words, records: Halves, owners: Halves, states: Ints, barriers: Ints, meta: Ints
) -> int:  # fmt: skip
    number = code[row + e.E_X] if code[row + e.E_A] < 0 else regs[place(code[row + e.E_A], warp, meta[e.M_WARPS])]
    expected = code[row + e.E_Y] // 32
    if code[row + e.E_B] >= 0:
        expected = regs[place(code[row + e.E_B], warp, meta[e.M_WARPS])] // 32
    number = (number & 15) + 16 * (warp // meta[e.M_CTA_WARPS])
    note(index, warp, NONE, 0, number, expected, records, owners, states, meta)
    barriers[2 * number] += 1
    barriers[2 * number + 1] = expected
    if code[row + e.E_DO] == e.DO_BARRIER:
        states[warp * e.STATE + e.T_STATUS] = e.WAITING
        states[warp * e.STATE + e.T_BARRIER] = number
    return e.ENDED


@native
def do_branch(
    index: int, row: int, warp: int, mask: int, code: Ints, preds: Ints, pcs: Ints, states: Ints, counts: Ints, meta: Ints
) -> int:  # fmt: skip
    """Branches and calls. The iterations of the loop that is shortened are counted here."""
    s = warp * e.STATE
    taken = mask
    if code[row + e.E_I] >= 0:
        taken = taken & predicate_mask(code[row + e.E_I], warp * e.PREDICATES, preds)
    for lane in range(32):
        if taken >> lane & 1:
            pcs[warp * 32 + lane] = code[row + e.E_TARGET]
    if taken and code[row + e.E_TARGET] <= index:
        counts[e.COUNTS * index + e.N_BACK] += 1
    inside = index >= meta[e.M_LOOP_FIRST] and index <= meta[e.M_LOOP_LAST]
    if taken and inside and code[row + e.E_DO] == e.DO_BRANCH and code[row + e.E_TARGET] == meta[e.M_LOOP_FIRST]:
        states[s + e.T_ITERATION] += 1
        states[s + e.T_SILENT] = int(states[s + e.T_ITERATION] >= meta[e.M_LOOP_KEPT])
    return e.ENDED


@native
def do_joins(row: int, warp: int, mask: int, code: Ints, pcs: Ints, states: Ints) -> int:
    """Where paths of a warp part and join: BSSY, BSYNC and BREAK."""
    s = warp * e.STATE
    k = s + e.T_JOIN + 2 * code[row + e.E_X]
    what = code[row + e.E_DO]
    if what == e.DO_BEGIN:
        states[k] = states[s + e.T_ACTIVE]
        states[k + 1] = 0
        return e.ENDED
    if what == e.DO_JOIN:
        states[k + 1] = states[k + 1] | mask
        states[s + e.T_BLOCKED] = states[s + e.T_BLOCKED] | mask
    else:
        states[k] = states[k] & ~mask
    return join(k, warp, pcs, states)


@native
def flow(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, counts: Ints, meta: Ints,
) -> int:  # fmt: skip
    """Instructions that say what comes next."""
    s = warp * e.STATE
    what = code[row + e.E_DO]
    if what == e.DO_BRANCH or what == e.DO_CALL:
        return do_branch(index, row, warp, mask, code, preds, pcs, states, counts, meta)
    if what == e.DO_RETURN or what == e.DO_INDIRECT:
        a = place(code[row + e.E_A], warp, meta[e.M_WARPS])
        for lane in range(32):
            if mask >> lane & 1:
                pcs[warp * 32 + lane] = (regs[a + lane] + code[row + e.E_X] & e.M32) >> 4
        return e.ENDED
    if what == e.DO_EXIT:
        states[s + e.T_LIVE] = states[s + e.T_LIVE] & ~mask
        if states[s + e.T_LIVE] == 0:
            states[s + e.T_STATUS] = e.FINISHED
        for k in range(16):
            join(s + e.T_JOIN + 2 * k, warp, pcs, states)
        return e.ENDED
    return do_joins(row, warp, mask, code, pcs, states)


@native
def step(
    warp: int, code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, unknown: Bytes, marks: Ints, ranges: Ints, bank: Words,
    dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves, owners: Halves,
    counts: Ints, flagged: Ints, barriers: Ints, sync: Ints, local: int, meta: Ints,
) -> int:  # fmt: skip
    """One instruction of a warp."""
    index = next_instruction(warp, pcs, states)
    if index >= meta[e.M_RUN]:
        return e.LOST
    row = index * e.ENCODED
    what = code[row + e.E_DO]
    active = states[warp * e.STATE + e.T_ACTIVE]
    mask = active & predicate_mask(code[row + e.E_GUARD], warp * e.PREDICATES, preds)
    leave_loop(index, warp, states, meta)
    counts[e.COUNTS * index + e.N_WARPS] += 1
    counts[e.COUNTS * index + e.N_LANES] += popcount(mask)
    meta[e.M_EXECUTED] += 1
    flag = sources_unknown(row, warp, code, unknown)
    if flag and what >= e.DO_BRANCH and what <= e.LAST_JUMP:
        flagged[index] = flagged[index] | 1
        meta[e.M_UNKNOWN_BRANCHES] += 1
    for lane in range(32):
        if active >> lane & 1:
            pcs[warp * 32 + lane] = index + 1
    if what == e.DO_BARRIER or (what == e.DO_ARRIVE and mask):
        return do_barrier(index, row, warp, code, regs, records, owners, states, barriers, meta)
    if mask and what >= e.FIRST_MEMORY and what <= e.LAST_MEMORY:
        do_memory(
            index, row, warp, mask, flag, local, code, regs, ranges, marks, unknown, dirty, bytes, words, addresses, banks, found, lines,
            records, owners, states, counts, flagged, meta,
        )  # fmt: skip
        return e.ENDED
    if mask and what >= e.FIRST_ASYNC:
        passed = do_asynchronous(
            index, row, warp, mask, code, regs, preds, ranges, bank, dirty, bytes, words, sync, records, owners, states, meta
        )  # fmt: skip
        if not passed:  # the warp waits, and executes the instruction again
            for lane in range(32):
                if active >> lane & 1:
                    pcs[warp * 32 + lane] = index
        mark(row, warp, 0, code, marks, unknown)
        return e.ENDED
    note(index, warp, NONE, 0, 0, 0, records, owners, states, meta)
    if mask == 0:
        return e.ENDED
    if what > e.LAST_BARRIER:
        return flow(index, row, warp, mask, code, regs, preds, pcs, states, counts, meta)
    flag = compute(row, warp, mask, flag, code, regs, preds, unknown, bank, addresses, meta)
    mark(row, warp, flag, code, marks, unknown)
    return e.ENDED


@native
def release_barriers(warps: int, states: Ints, barriers: Ints, meta: Ints) -> int:
    """Let the warps go on whose barrier is full; how many."""
    released = 0
    for number in range(16 * meta[e.M_RANKS]):
        alive = 0
        first = number // 16 * meta[e.M_CTA_WARPS]
        for w in range(first, first + meta[e.M_CTA_WARPS]):
            alive += int(states[w * e.STATE + e.T_STATUS] != e.FINISHED)
        expected = barriers[2 * number + 1] if barriers[2 * number + 1] > 0 else alive
        if barriers[2 * number] > 0 and barriers[2 * number] >= expected:
            barriers[2 * number] = 0
            for w in range(warps):
                if states[w * e.STATE + e.T_STATUS] == e.WAITING and states[w * e.STATE + e.T_BARRIER] == number:
                    states[w * e.STATE + e.T_STATUS] = e.READY
                    released += 1
    return released


@native
def emulate(
    code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, unknown: Bytes, marks: Ints, ranges: Ints, bank: Words,
    dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves, owners: Halves,
    counts: Ints, flagged: Ints, barriers: Ints, sync: Ints, local: int, meta: Ints,
) -> int:  # fmt: skip
    """Run the warps of a CTA, one until it waits, then the next."""
    warps = meta[e.M_WARPS]
    while True:
        alive = 0
        ran = 0
        for warp in range(warps):
            s = warp * e.STATE
            while states[s + e.T_STATUS] == e.READY:
                ran = 1
                if meta[e.M_EXECUTED] >= meta[e.M_LIMIT]:
                    return e.FULL
                if meta[e.M_RECORDS] + 1 >= meta[e.M_RECORD_LIMIT] or meta[e.M_LINES] + 40 >= meta[e.M_LINE_LIMIT]:
                    return e.FULL
                result = step(
                    warp, code, regs, preds, pcs, states, unknown, marks, ranges, bank, dirty, bytes, words, addresses, banks, found,
                    lines, records, owners, counts, flagged, barriers, sync, local + warp * e.LOCAL_WORDS * 128, meta,
                )  # fmt: skip
                if result != e.ENDED:
                    return result
            alive += int(states[s + e.T_STATUS] != e.FINISHED)
        if alive == 0:
            return e.ENDED
        if not release_barriers(warps, states, barriers, meta) + release_mbarriers(warps, states, sync) and not ran:
            return e.STUCK
