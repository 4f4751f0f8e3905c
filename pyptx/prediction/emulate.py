"""The warps of one CTA, run for what decides time: branches and addresses.

Integers, predicates and single-precision floats are computed; results of what is not (tensor cores, halves, doubles) are marked
as unknown, and so is all that derives from them. A branch or an address that depends on an unknown value is counted. Loads read
the launch's memory; stores to global memory are not performed, since the arguments belong to the caller.
"""

from __future__ import annotations

from .codes import (
    DO_ARRIVE,
    DO_BARRIER,
    DO_BEGIN,
    DO_BRANCH,
    DO_CALL,
    DO_EXIT,
    DO_INDIRECT,
    DO_JOIN,
    DO_RETURN,
    E_A,
    E_B,
    E_DO,
    E_GUARD,
    E_I,
    E_TARGET,
    E_X,
    E_Y,
    ENCODED,
    ENDED,
    FINISHED,
    FIRST_MEMORY,
    FULL,
    LAST_BARRIER,
    LAST_JUMP,
    LAST_MEMORY,
    LOCAL_WORDS,
    LOST,
    M32,
    M_EXECUTED,
    M_LIMIT,
    M_LINE_LIMIT,
    M_LINES,
    M_LOOP_FIRST,
    M_LOOP_KEPT,
    M_LOOP_LAST,
    M_RECORD_LIMIT,
    M_RECORDS,
    M_RUN,
    M_UNKNOWN_BRANCHES,
    M_WARPS,
    PREDICATES,
    READY,
    STATE,
    STUCK,
    T_ACTIVE,
    T_BARRIER,
    T_BLOCKED,
    T_ITERATION,
    T_JOIN,
    T_LIVE,
    T_SILENT,
    T_STATUS,
    WAITING,
)
from .memories import do_memory, note
from .native import Bytes, Halves, Ints, Words, native, popcount
from .replay import NONE
from .warps import compute, mark, place, predicate_mask, sources_unknown


@native
def leave_loop(index: int, warp: int, states: Ints, meta: Ints) -> int:
    """Outside of the loop whose later iterations are left out, everything is recorded."""
    s = warp * STATE
    if index < meta[M_LOOP_FIRST] or index > meta[M_LOOP_LAST]:
        states[s + T_SILENT] = 0
        states[s + T_ITERATION] = 0
    return 0


@native
def join(k: int, warp: int, pcs: Ints, states: Ints) -> int:
    """Lanes that wait where their warp's paths join go on when none that is alive is missing."""
    s = warp * STATE
    members = states[k] & states[s + T_LIVE]
    if states[k + 1] and states[k + 1] & members == members:
        states[s + T_BLOCKED] = states[s + T_BLOCKED] & ~states[k + 1]
        states[k + 1] = 0
    return 0


@native
def next_instruction(warp: int, pcs: Ints, states: Ints) -> int:
    """Of the lanes of a warp that do not wait for others, the place of those that are furthest after."""
    s = warp * STATE
    ready = states[s + T_LIVE] & ~states[s + T_BLOCKED]
    if ready == 0:
        states[s + T_BLOCKED] = 0
        ready = states[s + T_LIVE]
    index = 1 << 40
    for lane in range(32):
        if ready >> lane & 1:
            index = min(index, pcs[warp * 32 + lane])
    active = 0
    for lane in range(32):
        active = active | int(pcs[warp * 32 + lane] == index) << lane
    states[s + T_ACTIVE] = active & ready
    return index


@native
def do_barrier(
    index: int, row: int, warp: int, code: Ints, regs: Words, records: Halves, owners: Halves, states: Ints, barriers: Ints, meta: Ints
) -> int:  # fmt: skip
    number = code[row + E_X] if code[row + E_A] < 0 else regs[place(code[row + E_A], warp, meta[M_WARPS])]
    expected = code[row + E_Y] // 32
    if code[row + E_B] >= 0:
        expected = regs[place(code[row + E_B], warp, meta[M_WARPS])] // 32
    number = number & 15
    note(index, warp, NONE, 0, number, expected, records, owners, states, meta)
    barriers[2 * number] += 1
    barriers[2 * number + 1] = expected
    if code[row + E_DO] == DO_BARRIER:
        states[warp * STATE + T_STATUS] = WAITING
        states[warp * STATE + T_BARRIER] = number
    return ENDED


@native
def do_branch(
    index: int, row: int, warp: int, mask: int, code: Ints, preds: Ints, pcs: Ints, states: Ints, meta: Ints
) -> int:
    """Branches and calls. The iterations of the loop that is shortened are counted here."""
    s = warp * STATE
    taken = mask
    if code[row + E_I] >= 0:
        taken = taken & predicate_mask(code[row + E_I], warp * PREDICATES, preds)
    for lane in range(32):
        if taken >> lane & 1:
            pcs[warp * 32 + lane] = code[row + E_TARGET]
    inside = index >= meta[M_LOOP_FIRST] and index <= meta[M_LOOP_LAST]
    if taken and inside and code[row + E_DO] == DO_BRANCH and code[row + E_TARGET] == meta[M_LOOP_FIRST]:
        states[s + T_ITERATION] += 1
        states[s + T_SILENT] = int(states[s + T_ITERATION] >= meta[M_LOOP_KEPT])
    return ENDED


@native
def do_joins(row: int, warp: int, mask: int, code: Ints, pcs: Ints, states: Ints) -> int:
    """Where paths of a warp part and join: BSSY, BSYNC and BREAK."""
    s = warp * STATE
    k = s + T_JOIN + 2 * code[row + E_X]
    what = code[row + E_DO]
    if what == DO_BEGIN:
        states[k] = states[s + T_ACTIVE]
        states[k + 1] = 0
        return ENDED
    if what == DO_JOIN:
        states[k + 1] = states[k + 1] | mask
        states[s + T_BLOCKED] = states[s + T_BLOCKED] | mask
    else:
        states[k] = states[k] & ~mask
    return join(k, warp, pcs, states)


@native
def flow(
    index: int, row: int, warp: int, mask: int, code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, meta: Ints
) -> int:  # fmt: skip
    """Instructions that say what comes next."""
    s = warp * STATE
    what = code[row + E_DO]
    if what == DO_BRANCH or what == DO_CALL:
        return do_branch(index, row, warp, mask, code, preds, pcs, states, meta)
    if what == DO_RETURN or what == DO_INDIRECT:
        a = place(code[row + E_A], warp, meta[M_WARPS])
        for lane in range(32):
            if mask >> lane & 1:
                pcs[warp * 32 + lane] = (regs[a + lane] + code[row + E_X] & M32) >> 4
        return ENDED
    if what == DO_EXIT:
        states[s + T_LIVE] = states[s + T_LIVE] & ~mask
        if states[s + T_LIVE] == 0:
            states[s + T_STATUS] = FINISHED
        for k in range(16):
            join(s + T_JOIN + 2 * k, warp, pcs, states)
        return ENDED
    return do_joins(row, warp, mask, code, pcs, states)


@native
def step(
    warp: int, code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, unknown: Bytes, marks: Ints, ranges: Ints, bank: Words,
    dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves, owners: Halves,
    counts: Ints, flagged: Ints, barriers: Ints, local: int, meta: Ints,
) -> int:  # fmt: skip
    """One instruction of a warp."""
    index = next_instruction(warp, pcs, states)
    if index >= meta[M_RUN]:
        return LOST
    row = index * ENCODED
    what = code[row + E_DO]
    active = states[warp * STATE + T_ACTIVE]
    mask = active & predicate_mask(code[row + E_GUARD], warp * PREDICATES, preds)
    leave_loop(index, warp, states, meta)
    counts[2 * index] += 1
    counts[2 * index + 1] += popcount(mask)
    meta[M_EXECUTED] += 1
    flag = sources_unknown(row, warp, code, unknown)
    if flag and what >= DO_BRANCH and what <= LAST_JUMP:
        flagged[index] = flagged[index] | 1
        meta[M_UNKNOWN_BRANCHES] += 1
    for lane in range(32):
        if active >> lane & 1:
            pcs[warp * 32 + lane] = index + 1
    if what == DO_BARRIER or (what == DO_ARRIVE and mask):
        return do_barrier(index, row, warp, code, regs, records, owners, states, barriers, meta)
    if mask and what >= FIRST_MEMORY and what <= LAST_MEMORY:
        do_memory(
            index, row, warp, mask, flag, local, code, regs, ranges, marks, unknown, dirty, bytes, words, addresses, banks, found, lines,
            records, owners, states, flagged, meta,
        )  # fmt: skip
        return ENDED
    note(index, warp, NONE, 0, 0, 0, records, owners, states, meta)
    if mask == 0:
        return ENDED
    if what > LAST_BARRIER:
        return flow(index, row, warp, mask, code, regs, preds, pcs, states, meta)
    flag = compute(row, warp, mask, flag, code, regs, preds, unknown, bank, addresses, meta)
    mark(row, warp, flag, code, marks, unknown)
    return ENDED


@native
def release_barriers(warps: int, states: Ints, barriers: Ints) -> int:
    """Let the warps go on whose barrier is full; how many."""
    alive = 0
    for w in range(warps):
        alive += int(states[w * STATE + T_STATUS] != FINISHED)
    released = 0
    for number in range(16):
        expected = barriers[2 * number + 1] if barriers[2 * number + 1] > 0 else alive
        if barriers[2 * number] > 0 and barriers[2 * number] >= expected:
            barriers[2 * number] = 0
            for w in range(warps):
                if states[w * STATE + T_STATUS] == WAITING and states[w * STATE + T_BARRIER] == number:
                    states[w * STATE + T_STATUS] = READY
                    released += 1
    return released


@native
def emulate(
    code: Ints, regs: Words, preds: Ints, pcs: Ints, states: Ints, unknown: Bytes, marks: Ints, ranges: Ints, bank: Words,
    dirty: Bytes, bytes: Bytes, words: Words, addresses: Ints, banks: Ints, found: Ints, lines: Ints, records: Halves, owners: Halves,
    counts: Ints, flagged: Ints, barriers: Ints, local: int, meta: Ints,
) -> int:  # fmt: skip
    """Run the warps of a CTA, one until it waits, then the next."""
    warps = meta[M_WARPS]
    while True:
        alive = 0
        ran = 0
        for warp in range(warps):
            s = warp * STATE
            while states[s + T_STATUS] == READY:
                ran = 1
                if meta[M_EXECUTED] >= meta[M_LIMIT]:
                    return FULL
                if meta[M_RECORDS] + 1 >= meta[M_RECORD_LIMIT] or meta[M_LINES] + 40 >= meta[M_LINE_LIMIT]:
                    return FULL
                result = step(
                    warp, code, regs, preds, pcs, states, unknown, marks, ranges, bank, dirty, bytes, words, addresses, banks, found,
                    lines, records, owners, counts, flagged, barriers, local + warp * LOCAL_WORDS * 128, meta,
                )  # fmt: skip
                if result != ENDED:
                    return result
            alive += int(states[s + T_STATUS] != FINISHED)
        if alive == 0:
            return ENDED
        if not release_barriers(warps, states, barriers) and not ran:
            return STUCK
