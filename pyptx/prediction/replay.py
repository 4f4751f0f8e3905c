"""One SM, cycle by cycle, over the instructions that its warps execute.

Four sub-cores issue one instruction a cycle each: the warp that issued last goes on, else the youngest that is ready. A warp waits
for its stall count, for the scoreboards that its instruction names, for a free pipe, register port and place in the memory
queue. Memory instructions of all sub-cores go through one pipe; what misses L1 goes through L2 and DRAM, which are
servers with a bandwidth and a latency. Docs: `docs/prediction.md`.
"""

from __future__ import annotations

from enum import IntEnum

from .native import Halves, Ints, Reals, native, popcount

# Columns of the table of instructions.
UNIT, INTERVAL, STALL, WRITE_BARRIER, READ_BARRIER, WAIT, KIND, LATENCY, PORTS, REUSE, GROUPS, SHARE, SOURCE_0 = range(
    13
)
COLUMNS = SOURCE_0 + 3
WHOLE = 1024
"""`SHARE`: of the sectors that a load asks L2 for, those that come from DRAM, in parts of this."""
# Columns of a record: one instruction of one warp.
INDEX, ACCESS, WAVEFRONTS, SECTORS, LINES, FIRST_LINE, RECORD = 0, 1, 2, 3, 4, 5, 6

# Kinds of instruction.
PLAIN, BARRIER, COMMIT, WAIT_GROUPS, LDMATRIX, SHUFFLE, ARRIVE = range(7)
# Kinds of access of a record.
NONE, SHARED, LOAD, STORE, REDUCTION, ASYNC_COPY, LOCAL = range(7)


class Unit(IntEnum):
    """The pipes of a sub-core that an instruction may need."""

    BRANCH = 0
    FMA = 1
    ALU = 2
    IMAD = 3
    XU = 4
    MEMORY = 5
    TENSOR = 6
    UNIFORM = 7
    HALF = 8
    DOUBLE = 9


UNITS = 12
U_FMA, U_IMAD, U_XU, U_MEMORY = int(Unit.FMA), int(Unit.IMAD), int(Unit.XU), int(Unit.MEMORY)


class Stall(IntEnum):
    """Why a warp did not issue, as profilers name it."""

    NOT_SELECTED = 0
    BARRIER = 1
    FIXED_LATENCY = 2
    SCOREBOARD = 3
    MEMORY_QUEUE = 4
    PIPE = 5
    REGISTER_PORT = 6
    GROUP = 7


REASONS = 8
S_BARRIER, S_FIXED, S_SCOREBOARD, S_QUEUE, S_PIPE, S_PORT, S_GROUP = 1, 2, 3, 4, 5, 6, 7

# `stalls` begins with the log of a timeline: how many entries it has, how many there is room for, where it begins.
LOG_COUNT, LOG_ROOM, LOG_AT, LOG_HEAD = 0, 1, 2, 8
LOG_FIELDS = 7
"""Of an entry: warp, instruction, cycle of issue; what the warp waited for, how long; and for the second wait."""

# Parameters.
(
    P_SUBCORES, P_QUEUE, P_ADDRESS_INTERVAL, P_LSU_INTERVAL, P_SHARED_LATENCY, P_L1_LATENCY, P_L2_LATENCY, P_L2_BYTES, P_DRAM_LATENCY,
    P_DRAM_BYTES, P_DRAM_READS, P_DRAM_WRITES, P_L1_LINES, P_LAUNCH, P_BARRIER_LATENCY, P_MATRIX_INTERVAL, P_TAG_INTERVAL, P_MISS_RETURN,
    P_STORE_SECTOR, P_OPERAND_READ, P_PRIVATE, P_TRACED, P_COPIES, P_LINES,
) = range(24)  # fmt: skip
PARAMETERS = 32

# Results, from `out`.
(
    O_CYCLES, O_ISSUED, O_L2_BYTES, O_DRAM_BYTES, O_L1_HITS, O_L1_ACCESSES, O_PIPE_CYCLES, O_CTAS, O_STORE_BYTES, O_IDLE, O_L2_BUSY,
    O_DRAM_BUSY, O_SHARED_CYCLES,
) = range(13)  # fmt: skip
O_BUSY = 16
RESULTS = O_BUSY + UNITS

# State of a warp.
(
    W_POS, W_END, W_CTA, W_READY, W_SB, W_DONE, W_WAITING, W_LAST, W_SUB, W_GROUPS, W_INFLIGHT, W_AGE, W_WAKE, W_WHY, W_REPEAT, W_FROM, W_RING,
) = (0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21)  # fmt: skip
RING = 16
WARP = W_RING + RING
# State of a sub-core.
B_LAST, B_COUNT, B_PORT, B_AGU, B_HEAD, B_TAIL, B_UNITS, B_CACHE = 0, 1, 2, 3, 4, 5, 6, 18
QUEUE = 64
B_QUEUE = 24
B_WARPS = B_QUEUE + QUEUE
SUB = B_WARPS + 64
# State of a cache line in L1: the sectors that are there, when they arrive, its last use, whether more are being fetched.
L_MASK, L_READY, L_USE, L_NEXT, LINE = 0, 1, 2, 3, 4
NEVER = 1 << 60
BARRIERS = 16
LIMIT = 400_000_000


@native
def start_cta(
    cta: int, at: int, per_cta: int, subcores: int, of_cta: Halves, offsets: Ints, p: Reals, warps: Ints, subs: Ints, left: Ints
) -> int:  # fmt: skip
    """Put the warps of a CTA on the sub-cores that have the fewest."""
    left[cta] = per_cta
    for i in range(per_cta):
        number = cta * per_cta + i
        w = number * WARP
        trace = of_cta[number]
        warps[w + W_POS] = offsets[trace]
        warps[w + W_END] = offsets[trace + 1]
        warps[w + W_CTA] = cta
        warps[w + W_READY] = at
        warps[w + W_WAKE] = at
        warps[w + W_LAST] = at
        warps[w + W_AGE] = number
        warps[w + W_FROM] = S_FIXED
        warps[w + W_REPEAT] = cta // int(p[P_TRACED]) % int(p[P_COPIES]) * int(p[P_LINES] - p[P_PRIVATE])
        best = 0
        for s in range(1, subcores):
            if subs[s * SUB + B_COUNT] < subs[best * SUB + B_COUNT]:
                best = s
        warps[w + W_SUB] = best
        count = subs[best * SUB + B_COUNT]
        subs[best * SUB + B_WARPS + count] = number
        subs[best * SUB + B_COUNT] = count + 1
    return 0


@native
def remove_warp(number: int, warps: Ints, subs: Ints) -> int:
    b = warps[number * WARP + W_SUB] * SUB
    kept = 0
    for k in range(subs[b + B_COUNT]):
        other = subs[b + B_WARPS + k]
        if other != number:
            subs[b + B_WARPS + kept] = other
            kept += 1
    subs[b + B_COUNT] = kept
    return 0


@native
def release(bar: int, cta: int, per_cta: int, at: int, warps: Ints) -> int:
    """The warps of a CTA that wait at a barrier go on."""
    for i in range(per_cta):
        w = (cta * per_cta + i) * WARP
        if warps[w + W_WAITING] == bar + 1:
            warps[w + W_WAITING] = 0
            warps[w + W_READY] = max(warps[w + W_READY], at)
            warps[w + W_WAKE] = warps[w + W_READY]
            warps[w + W_FROM] = S_BARRIER
    return 0


@native
def groups_done(w: int, pending: int, warps: Ints) -> int:
    """When at most `pending` groups of asynchronous copies are left."""
    found = 0
    count = warps[w + W_GROUPS]
    for k in range(max(0, count - RING), count - pending):
        found = max(found, warps[w + W_RING + k % RING])
    return found


@native
def earliest(w: int, b: int, ins: Ints, records: Halves, p: Reals, warps: Ints, subs: Ints, why: Ints) -> int:
    """When a warp could issue, as far as it is known now. `why`: what its own dependences wait for, until when, and what
    it contends for after that.
    """
    row = records[warps[w + W_POS] * RECORD + INDEX] * COLUMNS
    at = warps[w + W_READY]
    why[0] = warps[w + W_FROM]
    mask = ins[row + WAIT]
    if mask:
        for k in range(6):
            if mask >> k & 1 and warps[w + W_SB + k] > at:
                at = warps[w + W_SB + k]
                why[0] = S_SCOREBOARD
    if ins[row + KIND] == WAIT_GROUPS:
        done = groups_done(w, ins[row + GROUPS], warps)
        if done > at:
            at = done
            why[0] = S_GROUP
    why[1] = at
    why[2] = 0
    unit = ins[row + UNIT]
    free = subs[b + B_UNITS + unit]
    if unit == U_FMA or unit == U_IMAD:
        free = max(subs[b + B_UNITS + U_FMA], subs[b + B_UNITS + U_IMAD])
    if free > at:
        at = free
        if ins[row + INTERVAL] > 1:
            why[2] = S_PIPE
    if unit == U_MEMORY or unit == U_XU:
        length = subs[b + B_TAIL] - subs[b + B_HEAD]
        limit = int(p[P_QUEUE])
        if length >= limit:
            place = subs[b + B_QUEUE + (subs[b + B_TAIL] - limit) % QUEUE]
            if place > at:
                at = place
                why[2] = S_QUEUE
    if ins[row + PORTS] and subs[b + B_PORT] > at:
        at = subs[b + B_PORT]
        why[2] = S_PORT
    return int(at)


@native
def register_ports(number: int, row: int, t: int, b: int, ins: Ints, subs: Ints) -> int:
    """Two banks with one port each; an operand that the same warp kept for reuse costs none."""
    even = 0
    odd = 0
    for k in range(3):
        register = ins[row + SOURCE_0 + k]
        if (
            register < 0
            or (k > 0 and register == ins[row + SOURCE_0])
            or (k > 1 and register == ins[row + SOURCE_0 + 1])
        ):
            continue  # an operand that is there twice is read once
        slot = b + B_CACHE + 2 * k
        if subs[slot] != number + 1 or subs[slot + 1] != register:
            if register & 1:
                odd += 1
            else:
                even += 1
        if ins[row + REUSE] >> k & 1:
            subs[slot] = number + 1
            subs[slot + 1] = register
        else:
            subs[slot] = 0
    need = max(even, odd)
    if need > 1:
        subs[b + B_PORT] = t + need
    return need


@native
def evict(p: Reals, lines: Ints, ring: Ints, state: Ints) -> int:
    """Take the lines that were not used for longest out of L1."""
    while state[2] > int(p[P_L1_LINES]) and state[0] < state[1]:
        line = ring[2 * state[0]]
        if lines[line * LINE + L_MASK] and lines[line * LINE + L_USE] <= ring[2 * state[0] + 1]:
            lines[line * LINE + L_MASK] = 0
            state[2] -= 1
        state[0] += 1
    return 0


@native
def access_memory(
    r: int, t: int, w: int, b: int, row: int, ins: Ints, records: Halves, touched: Ints, p: Reals, warps: Ints, subs: Ints,
    lines: Ints, ring: Ints, state: Ints, servers: Reals, out: Reals, times: Ints,
) -> int:  # fmt: skip
    """One memory instruction: when its registers are read (`times[3]`) and its results are there (`times[4]`)."""
    kind = records[r + ACCESS]
    wavefronts = float(records[r + WAVEFRONTS])
    start = max(t + 2, subs[b + B_AGU])
    subs[b + B_AGU] = start + int(p[P_ADDRESS_INTERVAL])
    tags = max(records[r + LINES] * p[P_TAG_INTERVAL], p[P_LSU_INTERVAL])
    cost = max(tags, wavefronts)
    if kind == SHARED or kind == LOCAL:
        cost = max(wavefronts, p[P_MATRIX_INTERVAL] if ins[row + KIND] == LDMATRIX else p[P_LSU_INTERVAL])
        out[O_SHARED_CYCLES] += cost
    elif kind == ASYNC_COPY:
        cost = tags + wavefronts
    begin = max(float(start + 4), servers[0])
    servers[0] = begin + cost
    out[O_PIPE_CYCLES] += cost
    tail = subs[b + B_TAIL]
    subs[b + B_QUEUE + tail % QUEUE] = int(begin) + 1
    subs[b + B_TAIL] = tail + 1
    times[3] = int(begin + cost) + 6
    times[4] = int(servers[0] + p[P_SHARED_LATENCY])
    if kind == SHARED or kind == LOCAL:
        return 0
    if kind == STORE or kind == REDUCTION:
        late = write_through(records[r + SECTORS], begin, kind, p, servers, out, times)
        subs[b + B_QUEUE + tail % QUEUE] = max(subs[b + B_QUEUE + tail % QUEUE], late)
        return 0
    from_dram = p[P_DRAM_READS] * ins[row + SHARE] / WHOLE
    times[4] = read_through(
        r, t, begin, kind, from_dram, warps[w + W_REPEAT], records, touched, p, lines, ring, state, servers, out
    )
    if kind == ASYNC_COPY:
        warps[w + W_INFLIGHT] = max(warps[w + W_INFLIGHT], times[4] + int(wavefronts))
        times[4] = warps[w + W_INFLIGHT]
    return 0


@native
def write_through(sectors: int, begin: float, kind: int, p: Reals, servers: Reals, out: Reals, times: Ints) -> int:
    """Stores and atomics go to L2. Returns when the place in the queue is free."""
    bytes = sectors * 32.0
    out[O_STORE_BYTES] += bytes
    out[O_L2_BYTES] += bytes
    busy = sectors * p[P_STORE_SECTOR] / p[P_L2_BYTES]
    servers[1] = max(servers[1], begin) + busy
    out[O_L2_BUSY] += busy
    written = bytes * p[P_DRAM_WRITES]
    servers[2] = max(servers[2], begin) + written / p[P_DRAM_BYTES]
    out[O_DRAM_BYTES] += written
    out[O_DRAM_BUSY] += written / p[P_DRAM_BYTES]
    times[4] = int(servers[1] + p[P_SHARED_LATENCY])
    if kind == REDUCTION:
        times[4] = int(servers[1] + p[P_L2_LATENCY])
    return int(max(servers[1], servers[2] - p[P_DRAM_LATENCY]))


@native
def line_of(k: int, repeat: int, touched: Ints, p: Reals) -> int:
    """The number of a touched line: a CTA that repeats the trace of another has lines of its own in place of those that only it touched."""
    line = touched[2 * k]
    return int(line + repeat if line >= int(p[P_PRIVATE]) else line)


@native
def look_up(r: int, t: int, repeat: int, records: Halves, touched: Ints, p: Reals, lines: Ints, ring: Ints, state: Ints, out: Reals
) -> int:  # fmt: skip
    """The sectors of a load that are not in L1, which are noted as on their way."""
    missed = 0
    first = records[r + FIRST_LINE]
    for k in range(records[r + LINES]):
        line = line_of(first + k, repeat, touched, p)
        mask = int(touched[2 * (first + k) + 1])
        have = int(lines[line * LINE + L_MASK])
        out[O_L1_ACCESSES] += popcount(mask)
        out[O_L1_HITS] += popcount(mask & have)
        if mask & ~have:
            missed += popcount(mask & ~have)
            if have == 0:
                state[2] += 1
            lines[line * LINE + L_MASK] = have | mask
            lines[line * LINE + L_NEXT] = 1
        lines[line * LINE + L_USE] = t
        ring[2 * state[1]] = line
        ring[2 * state[1] + 1] = t
        state[1] += 1
    return missed


@native
def read_through(
    r: int, t: int, begin: float, kind: int, share: float, repeat: int, records: Halves, touched: Ints, p: Reals, lines: Ints, ring: Ints, state: Ints,
    servers: Reals, out: Reals,
) -> int:  # fmt: skip
    """When a load has its sectors from L1, L2 or DRAM; asynchronous copies pass L1 by."""
    done = int(servers[0] + p[P_L1_LATENCY])
    first = records[r + FIRST_LINE]
    missed = records[r + SECTORS] + 0
    if kind != ASYNC_COPY:
        missed = look_up(r, t, repeat, records, touched, p, lines, ring, state, out)
        for k in range(records[r + LINES]):
            done = max(done, lines[line_of(first + k, repeat, touched, p) * LINE + L_READY])
    if missed == 0:
        return int(done)
    bytes = missed * 32.0
    out[O_L2_BYTES] += bytes
    servers[1] = max(servers[1], begin) + bytes / p[P_L2_BYTES]
    out[O_L2_BUSY] += bytes / p[P_L2_BYTES]
    back = servers[1] + p[P_L2_LATENCY]
    fetched = bytes * share
    if fetched > 0:
        servers[2] = max(servers[2], begin) + fetched / p[P_DRAM_BYTES]
        out[O_DRAM_BYTES] += fetched
        out[O_DRAM_BUSY] += fetched / p[P_DRAM_BYTES]
        back = max(back, servers[2] + p[P_L2_LATENCY] + p[P_DRAM_LATENCY] * share)
    done = max(done, int(back))
    if kind == LOAD:
        for k in range(records[r + LINES]):
            line = line_of(first + k, repeat, touched, p)
            if lines[line * LINE + L_NEXT]:
                lines[line * LINE + L_READY] = done
                lines[line * LINE + L_NEXT] = 0
        evict(p, lines, ring, state)
    return int(done)


@native
def choose(
    s: int, t: int, ins: Ints, records: Halves, p: Reals, warps: Ints, subs: Ints, state: Ints, scratch: Ints
) -> int:  # fmt: skip
    """The warp that a sub-core issues from: the last one, else the youngest that is ready; -1 for none. `state[3]`: the next cycle
    at which one may be ready.
    """
    b = s * SUB
    last = subs[b + B_LAST] - 1
    if last >= 0:
        w = last * WARP
        if not warps[w + W_DONE] and not warps[w + W_WAITING] and warps[w + W_WAKE] <= t:
            at = earliest(w, b, ins, records, p, warps, subs, scratch)
            if at <= t:
                return last
            warps[w + W_WAKE] = at
            if scratch[2]:
                warps[w + W_WHY] = scratch[2]
    best = -1
    age = -1
    for k in range(subs[b + B_COUNT]):
        number = subs[b + B_WARPS + k]
        w = number * WARP
        if warps[w + W_WAITING]:
            continue
        if warps[w + W_WAKE] <= t:
            at = earliest(w, b, ins, records, p, warps, subs, scratch)
            warps[w + W_WAKE] = at
            if at > t and scratch[2]:
                warps[w + W_WHY] = scratch[2]
        if warps[w + W_WAKE] > t:
            state[3] = min(state[3], warps[w + W_WAKE])
        elif warps[w + W_AGE] > age:
            age = warps[w + W_AGE]
            best = number
    return best


@native
def attribute(w: int, index: int, t: int, warps: Ints, scratch: Ints, stalls: Reals) -> int:
    """What the warp waited for before this instruction, as `earliest` left it in `scratch`."""
    own = max(scratch[1], warps[w + W_LAST])
    contended = scratch[2]
    if contended == 0:
        contended = warps[w + W_WHY]
    row = LOG_HEAD + index * REASONS
    stalls[row + scratch[0]] += own - warps[w + W_LAST]
    stalls[row + contended] += t - own
    entry = int(stalls[LOG_COUNT])
    if entry < int(stalls[LOG_ROOM]):
        at = int(stalls[LOG_AT]) + entry * LOG_FIELDS
        stalls[at] = float(w // WARP)
        stalls[at + 1] = float(index)
        stalls[at + 2] = float(t)
        stalls[at + 3] = float(scratch[0])
        stalls[at + 4] = float(own - warps[w + W_LAST])
        stalls[at + 5] = float(contended)
        stalls[at + 6] = float(t - own)
        stalls[LOG_COUNT] = float(entry + 1)
    warps[w + W_LAST] = t + 1
    warps[w + W_WHY] = 0
    warps[w + W_FROM] = S_FIXED
    return 0


@native
def issue(
    number: int, t: int, b: int, ins: Ints, records: Halves, touched: Ints, p: Reals, warps: Ints, subs: Ints, lines: Ints, ring: Ints,
    state: Ints, servers: Reals, scratch: Ints, stalls: Reals, out: Reals,
) -> int:  # fmt: skip
    """One instruction of a warp; what it takes, and what waits for it."""
    w = number * WARP
    subs[b + B_LAST] = number + 1
    earliest(w, b, ins, records, p, warps, subs, scratch)
    r = warps[w + W_POS] * RECORD
    index = records[r + INDEX] + 0
    row = index * COLUMNS
    unit = ins[row + UNIT]
    attribute(w, index, t, warps, scratch, stalls)
    if ins[row + PORTS]:
        register_ports(number, row, t, b, ins, subs)
    subs[b + B_UNITS + unit] = t + ins[row + INTERVAL]
    out[O_BUSY + unit] += ins[row + INTERVAL]
    warps[w + W_READY] = t + max(ins[row + STALL], 1)
    scratch[3] = t + int(p[P_OPERAND_READ])
    scratch[4] = t + ins[row + LATENCY]
    if records[r + ACCESS]:
        access_memory(r, t, w, b, row, ins, records, touched, p, warps, subs, lines, ring, state, servers, out, scratch)
    elif unit == U_MEMORY or unit == U_XU:
        begin = max(t + 2, subs[b + B_AGU])
        if unit == U_MEMORY:
            subs[b + B_AGU] = begin + 1
        scratch[3] = begin + 4
        if ins[row + KIND] == SHUFFLE:  # through the pipe that loads go through
            servers[0] = max(float(begin + 4), servers[0]) + p[P_LSU_INTERVAL]
            out[O_PIPE_CYCLES] += p[P_LSU_INTERVAL]
            scratch[3] = max(scratch[3], int(servers[0]))
            scratch[4] = int(servers[0] + p[P_SHARED_LATENCY]) - 4
    if ins[row + KIND] == COMMIT:
        warps[w + W_RING + warps[w + W_GROUPS] % RING] = warps[w + W_INFLIGHT]
        warps[w + W_GROUPS] += 1
        scratch[4] = t + 4
    if ins[row + WRITE_BARRIER] < 6:
        slot = w + W_SB + ins[row + WRITE_BARRIER]
        warps[slot] = max(warps[slot], scratch[4])
    if ins[row + READ_BARRIER] < 6:
        slot = w + W_SB + ins[row + READ_BARRIER]
        warps[slot] = max(warps[slot], scratch[3], t + 2)
    warps[w + W_WAKE] = warps[w + W_READY]
    warps[w + W_POS] += 1
    return r


@native
def meet(
    w: int, r: int, t: int, per_cta: int, ins: Ints, records: Halves, p: Reals, warps: Ints, left: Ints, arrived: Ints
) -> int:
    """A warp comes to a barrier of its CTA."""
    kind = ins[records[r + INDEX] * COLUMNS + KIND]
    if kind != BARRIER and kind != ARRIVE:
        return 0
    cta = warps[w + W_CTA]
    bar = records[r + SECTORS] + 0
    expected = records[r + LINES] if records[r + LINES] > 0 else left[cta]
    if kind == BARRIER:
        warps[w + W_WAITING] = bar + 1
    arrived[cta * BARRIERS + bar] += 1
    if arrived[cta * BARRIERS + bar] >= expected:
        arrived[cta * BARRIERS + bar] = 0
        release(bar, cta, per_cta, t + int(p[P_BARRIER_LATENCY]), warps)
    return 0


@native
def leave(
    number: int, t: int, per_cta: int, p: Reals, warps: Ints, subs: Ints, left: Ints, arrived: Ints, ends: Ints
) -> int:
    """A warp ends. Returns whether its CTA does."""
    w = number * WARP
    cta = warps[w + W_CTA]
    warps[w + W_DONE] = 1
    warps[w + W_WAITING] = 0
    remove_warp(number, warps, subs)
    left[cta] -= 1
    if left[cta] == 0:
        ends[cta] = t + 1
        return 1
    if arrived[cta * BARRIERS] >= left[cta]:
        arrived[cta * BARRIERS] = 0
        release(0, cta, per_cta, t + int(p[P_BARRIER_LATENCY]), warps)
    return 0


@native
def replay(
    ins: Ints, records: Halves, touched: Ints, offsets: Ints, of_cta: Halves, ctas: int, per_cta: int, resident: int, p: Reals,
    warps: Ints, subs: Ints, left: Ints, arrived: Ints, lines: Ints, ring: Ints, state: Ints, servers: Reals, scratch: Ints,
    stalls: Reals, out: Reals, ends: Ints,
) -> int:  # fmt: skip
    """Run `ctas` CTAs, `resident` at a time. Returns the cycles, -1 where it does not end."""
    subcores = int(p[P_SUBCORES])
    next_cta = 0
    t = 0
    while next_cta < ctas and next_cta < resident:
        start_cta(next_cta, 0, per_cta, subcores, of_cta, offsets, p, warps, subs, left)
        next_cta += 1
    live = next_cta
    end = 0
    while live > 0:
        issued = 0
        state[3] = NEVER
        for s in range(subcores):
            b = s * SUB
            while subs[b + B_HEAD] < subs[b + B_TAIL] and subs[b + B_QUEUE + subs[b + B_HEAD] % QUEUE] <= t:
                subs[b + B_HEAD] += 1
            best = choose(s, t, ins, records, p, warps, subs, state, scratch)
            if best < 0:
                if subs[b + B_COUNT]:
                    out[O_IDLE] += 1
                continue
            issued += 1
            w = best * WARP
            r = issue(
                best, t, b, ins, records, touched, p, warps, subs, lines, ring, state, servers, scratch, stalls, out
            )
            meet(w, r, t, per_cta, ins, records, p, warps, left, arrived)
            if warps[w + W_POS] >= warps[w + W_END] and leave(best, t, per_cta, p, warps, subs, left, arrived, ends):
                end = t + 1
                live -= 1
                if next_cta < ctas:
                    start_cta(next_cta, t + int(p[P_LAUNCH]), per_cta, subcores, of_cta, offsets, p, warps, subs, left)
                    next_cta += 1
                    live += 1
        out[O_ISSUED] += issued
        if issued:
            t += 1
        elif state[3] >= NEVER:
            return -1
        else:
            out[O_IDLE] += (max(state[3], t + 1) - t - 1) * subcores
            t = max(state[3], t + 1)
        if t > LIMIT:
            return -1
    end = max(end, int(servers[1]), int(servers[2]))
    out[O_CYCLES] = end
    return end
