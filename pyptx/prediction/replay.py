"""One SM, or the SMs of a cluster, cycle by cycle, over the instructions that its warps execute.

Four sub-cores issue one instruction a cycle each: the warp that issued last goes on, else the youngest that is ready. A warp waits
for its stall count, for the scoreboards that its instruction names, for a free pipe, register port and place in the memory
queue. Memory instructions of all sub-cores go through one pipe; what misses L1 goes through L2 and DRAM, which are
servers with a bandwidth and a latency. Docs: `docs/prediction.md`.
"""

from __future__ import annotations

from . import layout as m
from .completions import act, happen
from .native import Halves, Ints, Reals, native, popcount


@native
def start_cta(
    cta: int, at: int, per_cta: int, subcores: int, of_cta: Halves, offsets: Ints, p: Reals, warps: Ints, subs: Ints, left: Ints
) -> int:  # fmt: skip
    """Put the warps of a CTA on the sub-cores that have the fewest."""
    ranks = int(p[m.P_RANKS])
    for i in range(per_cta):
        rank = i // int(p[m.P_CTA_WARPS])
        number = cta * per_cta + i
        w = number * m.WARP
        trace = of_cta[number]
        warps[w + m.W_POS] = offsets[trace]
        warps[w + m.W_END] = offsets[trace + 1]
        warps[w + m.W_CTA] = cta
        warps[w + m.W_READY] = at
        warps[w + m.W_WAKE] = at
        warps[w + m.W_LAST] = at
        warps[w + m.W_AGE] = number
        warps[w + m.W_FROM] = m.S_FIXED
        warps[w + m.W_REPEAT] = cta // int(p[m.P_TRACED]) % int(p[m.P_COPIES]) * int(p[m.P_LINES] - p[m.P_PRIVATE])
        warps[w + m.W_RANK] = rank
        if offsets[trace] == offsets[trace + 1]:  # a trace that was cut before the warp's first instruction
            warps[w + m.W_DONE] = 1
            continue
        left[cta * ranks + rank] += 1
        each = subcores // ranks
        best = rank * each
        for s in range(rank * each + 1, (rank + 1) * each):
            if subs[s * m.SUB + m.B_COUNT] < subs[best * m.SUB + m.B_COUNT]:
                best = s
        warps[w + m.W_SUB] = best
        count = subs[best * m.SUB + m.B_COUNT]
        subs[best * m.SUB + m.B_WARPS + count] = number
        subs[best * m.SUB + m.B_COUNT] = count + 1
    return 0


@native
def remove_warp(number: int, warps: Ints, subs: Ints) -> int:
    b = warps[number * m.WARP + m.W_SUB] * m.SUB
    kept = 0
    for k in range(subs[b + m.B_COUNT]):
        other = subs[b + m.B_WARPS + k]
        if other != number:
            subs[b + m.B_WARPS + kept] = other
            kept += 1
    subs[b + m.B_COUNT] = kept
    return 0


@native
def release(bar: int, cta: int, per_cta: int, at: int, warps: Ints) -> int:
    """The warps of a CTA that wait at a barrier go on."""
    for i in range(per_cta):
        w = (cta * per_cta + i) * m.WARP
        if warps[w + m.W_WAITING] == bar + 1:
            warps[w + m.W_WAITING] = 0
            warps[w + m.W_READY] = max(warps[w + m.W_READY], at)
            warps[w + m.W_WAKE] = warps[w + m.W_READY]
            warps[w + m.W_FROM] = m.S_BARRIER
    return 0


@native
def all_but(w: int, counter: int, ring: int, pending: int, warps: Ints) -> int:
    """When at most `pending` are left of what a warp committed: groups of asynchronous copies, or batches of matrix instructions."""
    found = 0
    count = warps[w + counter]
    for k in range(max(0, count - m.RING), count - pending):
        found = max(found, warps[w + ring + k % m.RING])
    return found


@native
def after_groups(w: int, row: int, at: int, ins: Ints, warps: Ints, why: Ints) -> int:
    """When an instruction that waits for groups of copies or batches of matrix instructions has what it waits for."""
    kind = ins[row + m.KIND]
    if kind == m.WAIT_GROUPS:
        done = all_but(w, m.W_GROUPS, m.W_RING, ins[row + m.GROUPS], warps)
        if done > at:
            why[0] = m.S_GROUP
            return done
    elif kind == m.WAIT_MATRICES:
        done = all_but(w, m.W_BATCHES, m.W_BATCH_RING, ins[row + m.GROUPS], warps)
        if done > at:
            why[0] = m.S_MATRICES
            return done
    return at


@native
def earliest(w: int, b: int, ins: Ints, records: Halves, p: Reals, warps: Ints, subs: Ints, why: Ints) -> int:
    """When a warp could issue, as far as it is known now. `why`: what its own dependences wait for, until when, and what
    it contends for after that.
    """
    row = records[warps[w + m.W_POS] * m.RECORD + m.INDEX] * m.COLUMNS
    at = warps[w + m.W_READY]
    why[0] = warps[w + m.W_FROM]
    mask = ins[row + m.WAIT]
    if mask:
        for k in range(6):
            if mask >> k & 1 and warps[w + m.W_SB + k] > at:
                at = warps[w + m.W_SB + k]
                why[0] = m.S_SCOREBOARD
    at = after_groups(w, row, at, ins, warps, why)
    why[1] = at
    why[2] = 0
    unit = ins[row + m.UNIT]
    free = subs[b + m.B_UNITS + unit]
    if unit == m.U_FMA or unit == m.U_IMAD:
        free = max(subs[b + m.B_UNITS + m.U_FMA], subs[b + m.B_UNITS + m.U_IMAD])
    if ins[row + m.KIND] == m.WARPGROUP_MATRIX:
        free -= ins[row + m.INTERVAL]  # one waits in the tensor core's queue
    if free > at:
        at = free
        if ins[row + m.INTERVAL] > 1:
            why[2] = m.S_PIPE
    if unit == m.U_MEMORY or unit == m.U_XU:
        length = subs[b + m.B_TAIL] - subs[b + m.B_HEAD]
        limit = int(p[m.P_QUEUE])
        if length >= limit:
            place = subs[b + m.B_QUEUE + (subs[b + m.B_TAIL] - limit) % m.QUEUE]
            if place > at:
                at = place
                why[2] = m.S_QUEUE
    if ins[row + m.PORTS] and subs[b + m.B_PORT] > at:
        at = subs[b + m.B_PORT]
        why[2] = m.S_PORT
    return int(at)


@native
def register_ports(number: int, row: int, t: int, b: int, ins: Ints, subs: Ints) -> int:
    """Two banks with one port each; an operand that the same warp kept for reuse costs none."""
    even = 0
    odd = 0
    for k in range(3):
        register = ins[row + m.SOURCE_0 + k]
        if (
            register < 0
            or (k > 0 and register == ins[row + m.SOURCE_0])
            or (k > 1 and register == ins[row + m.SOURCE_0 + 1])
        ):
            continue  # an operand that is there twice is read once
        slot = b + m.B_CACHE + 2 * k
        if subs[slot] != number + 1 or subs[slot + 1] != register:
            if register & 1:
                odd += 1
            else:
                even += 1
        if ins[row + m.REUSE] >> k & 1:
            subs[slot] = number + 1
            subs[slot + 1] = register
        else:
            subs[slot] = 0
    need = max(even, odd)
    if need > 1:
        subs[b + m.B_PORT] = t + need
    return need


@native
def evict(p: Reals, lines: Ints, ring: Ints, state: Ints) -> int:
    """Take the lines that were not used for longest out of L1."""
    while state[2] > int(p[m.P_L1_LINES]) and state[0] < state[1]:
        line = ring[2 * state[0]]
        if lines[line * m.LINE + m.L_MASK] and lines[line * m.LINE + m.L_USE] <= ring[2 * state[0] + 1]:
            lines[line * m.LINE + m.L_MASK] = 0
            state[2] -= 1
        state[0] += 1
    return 0


@native
def access_memory(
    r: int, t: int, w: int, b: int, row: int, ins: Ints, records: Halves, touched: Ints, p: Reals, warps: Ints, subs: Ints,
    lines: Ints, ring: Ints, state: Ints, servers: Reals, out: Reals, times: Ints,
) -> int:  # fmt: skip
    """One memory instruction: when its registers are read (`times[3]`) and its results are there (`times[4]`)."""
    kind = records[r + m.ACCESS]
    v = warps[w + m.W_RANK] * m.SERVERS
    wavefronts = float(records[r + m.WAVEFRONTS])
    start = max(t + 2, subs[b + m.B_AGU])
    subs[b + m.B_AGU] = start + int(p[m.P_ADDRESS_INTERVAL])
    tags = max(records[r + m.LINES] * p[m.P_TAG_INTERVAL], p[m.P_LSU_INTERVAL])
    cost = max(tags, wavefronts)
    if kind == m.SHARED or kind == m.LOCAL:
        cost = max(wavefronts, p[m.P_MATRIX_INTERVAL] if ins[row + m.KIND] == m.LDMATRIX else p[m.P_LSU_INTERVAL])
        out[m.O_SHARED_CYCLES] += cost
    elif kind == m.ASYNC_COPY:
        cost = tags + wavefronts
    begin = max(float(start + 4), servers[v + m.V_PIPE])
    servers[v + m.V_PIPE] = begin + cost
    out[m.O_PIPE_CYCLES] += cost
    tail = subs[b + m.B_TAIL]
    subs[b + m.B_QUEUE + tail % m.QUEUE] = int(begin) + 1
    subs[b + m.B_TAIL] = tail + 1
    times[3] = int(begin + cost) + 6
    times[4] = int(servers[v + m.V_PIPE] + p[m.P_SHARED_LATENCY])
    if kind == m.SHARED or kind == m.LOCAL:
        return 0
    if kind == m.STORE or kind == m.REDUCTION:
        late = write_through(records[r + m.SECTORS], v, begin, kind, p, servers, out, times)
        subs[b + m.B_QUEUE + tail % m.QUEUE] = max(subs[b + m.B_QUEUE + tail % m.QUEUE], late)
        return 0
    from_dram = p[m.P_DRAM_READS] * ins[row + m.SHARE] / m.WHOLE
    times[4] = read_through(
        r, t, v, begin, kind, from_dram, warps[w + m.W_REPEAT], records, touched, p, lines, ring, state, servers, out
    )
    if kind == m.ASYNC_COPY:
        warps[w + m.W_INFLIGHT] = max(warps[w + m.W_INFLIGHT], times[4] + int(wavefronts))
        times[4] = warps[w + m.W_INFLIGHT]
    return 0


@native
def write_through(
    sectors: int, v: int, begin: float, kind: int, p: Reals, servers: Reals, out: Reals, times: Ints
) -> int:
    """Stores and atomics go to L2. Returns when the place in the queue is free."""
    bytes = sectors * 32.0
    out[m.O_STORE_BYTES] += bytes
    out[m.O_L2_BYTES] += bytes
    busy = sectors * p[m.P_STORE_SECTOR] / p[m.P_L2_BYTES]
    servers[v + m.V_L2] = max(servers[v + m.V_L2], begin) + busy
    out[m.O_L2_BUSY] += busy
    written = bytes * p[m.P_DRAM_WRITES]
    servers[v + m.V_DRAM] = max(servers[v + m.V_DRAM], begin) + written / p[m.P_DRAM_BYTES]
    out[m.O_DRAM_BYTES] += written
    out[m.O_DRAM_BUSY] += written / p[m.P_DRAM_BYTES]
    times[4] = int(servers[v + m.V_L2] + p[m.P_SHARED_LATENCY])
    if kind == m.REDUCTION:
        times[4] = int(servers[v + m.V_L2] + p[m.P_L2_LATENCY])
    return int(max(servers[v + m.V_L2], servers[v + m.V_DRAM] - p[m.P_DRAM_LATENCY]))


@native
def line_of(k: int, repeat: int, touched: Ints, p: Reals) -> int:
    """The number of a touched line: a CTA that repeats the trace of another has lines of its own in place of those that only it touched."""
    line = touched[2 * k]
    return int(line + repeat if line >= int(p[m.P_PRIVATE]) else line)


@native
def look_up(r: int, t: int, repeat: int, records: Halves, touched: Ints, p: Reals, lines: Ints, ring: Ints, state: Ints, out: Reals
) -> int:  # fmt: skip
    """The sectors of a load that are not in L1, which are noted as on their way."""
    missed = 0
    first = records[r + m.FIRST_LINE]
    for k in range(records[r + m.LINES]):
        line = line_of(first + k, repeat, touched, p)
        mask = int(touched[2 * (first + k) + 1])
        have = int(lines[line * m.LINE + m.L_MASK])
        out[m.O_L1_ACCESSES] += popcount(mask)
        out[m.O_L1_HITS] += popcount(mask & have)
        if mask & ~have:
            missed += popcount(mask & ~have)
            if have == 0:
                state[2] += 1
            lines[line * m.LINE + m.L_MASK] = have | mask
            lines[line * m.LINE + m.L_NEXT] = 1
        lines[line * m.LINE + m.L_USE] = t
        ring[2 * state[1]] = line
        ring[2 * state[1] + 1] = t
        state[1] += 1
    return missed


@native
def read_through(
    r: int, t: int, v: int, begin: float, kind: int, share: float, repeat: int, records: Halves, touched: Ints, p: Reals, lines: Ints, ring: Ints, state: Ints,
    servers: Reals, out: Reals,
) -> int:  # fmt: skip
    """When a load has its sectors from L1, L2 or DRAM; asynchronous copies pass L1 by."""
    done = int(servers[v + m.V_PIPE] + p[m.P_L1_LATENCY])
    first = records[r + m.FIRST_LINE]
    missed = records[r + m.SECTORS] + 0
    if kind != m.ASYNC_COPY:
        missed = look_up(r, t, repeat, records, touched, p, lines, ring, state, out)
        for k in range(records[r + m.LINES]):
            done = max(done, lines[line_of(first + k, repeat, touched, p) * m.LINE + m.L_READY])
    if missed == 0:
        return int(done)
    bytes = missed * 32.0
    out[m.O_L2_BYTES] += bytes
    servers[v + m.V_L2] = max(servers[v + m.V_L2], begin) + bytes / p[m.P_L2_BYTES]
    out[m.O_L2_BUSY] += bytes / p[m.P_L2_BYTES]
    back = servers[v + m.V_L2] + p[m.P_L2_LATENCY]
    fetched = bytes * share
    if fetched > 0:
        servers[v + m.V_DRAM] = max(servers[v + m.V_DRAM], begin) + fetched / p[m.P_DRAM_BYTES]
        out[m.O_DRAM_BYTES] += fetched
        out[m.O_DRAM_BUSY] += fetched / p[m.P_DRAM_BYTES]
        back = max(back, servers[v + m.V_DRAM] + p[m.P_L2_LATENCY] + p[m.P_DRAM_LATENCY] * share)
    done = max(done, int(back))
    if kind == m.LOAD:
        for k in range(records[r + m.LINES]):
            line = line_of(first + k, repeat, touched, p)
            if lines[line * m.LINE + m.L_NEXT]:
                lines[line * m.LINE + m.L_READY] = done
                lines[line * m.LINE + m.L_NEXT] = 0
        evict(p, lines, ring, state)
    return int(done)


@native
def choose(
    s: int, t: int, ins: Ints, records: Halves, p: Reals, warps: Ints, subs: Ints, state: Ints, scratch: Ints
) -> int:  # fmt: skip
    """The warp that a sub-core issues from: the last one, else the youngest that is ready; -1 for none. `state[3]`: the next cycle
    at which one may be ready.
    """
    b = s * m.SUB
    last = subs[b + m.B_LAST] - 1
    if last >= 0:
        w = last * m.WARP
        if not warps[w + m.W_DONE] and not warps[w + m.W_WAITING] and warps[w + m.W_WAKE] <= t:
            at = earliest(w, b, ins, records, p, warps, subs, scratch)
            if at <= t:
                return last
            warps[w + m.W_WAKE] = at
            if scratch[2]:
                warps[w + m.W_WHY] = scratch[2]
    best = -1
    age = -1
    for k in range(subs[b + m.B_COUNT]):
        number = subs[b + m.B_WARPS + k]
        w = number * m.WARP
        if warps[w + m.W_WAITING]:
            continue
        if warps[w + m.W_WAKE] <= t:
            at = earliest(w, b, ins, records, p, warps, subs, scratch)
            warps[w + m.W_WAKE] = at
            if at > t and scratch[2]:
                warps[w + m.W_WHY] = scratch[2]
        if warps[w + m.W_WAKE] > t:
            state[3] = min(state[3], warps[w + m.W_WAKE])
        elif warps[w + m.W_AGE] > age:
            age = warps[w + m.W_AGE]
            best = number
    return best


@native
def attribute(w: int, index: int, t: int, warps: Ints, scratch: Ints, stalls: Reals) -> int:
    """What the warp waited for before this instruction, as `earliest` left it in `scratch`."""
    own = max(scratch[1], warps[w + m.W_LAST])
    contended = scratch[2]
    if contended == 0:
        contended = warps[w + m.W_WHY]
    row = m.LOG_HEAD + index * m.REASONS
    stalls[row + scratch[0]] += own - warps[w + m.W_LAST]
    stalls[row + contended] += t - own
    entry = int(stalls[m.LOG_COUNT])
    if entry < int(stalls[m.LOG_ROOM]):
        at = int(stalls[m.LOG_AT]) + entry * m.LOG_FIELDS
        stalls[at] = float(w // m.WARP)
        stalls[at + 1] = float(index)
        stalls[at + 2] = float(t)
        stalls[at + 3] = float(scratch[0])
        stalls[at + 4] = float(own - warps[w + m.W_LAST])
        stalls[at + 5] = float(contended)
        stalls[at + 6] = float(t - own)
        stalls[m.LOG_COUNT] = float(entry + 1)
    warps[w + m.W_LAST] = t + 1
    warps[w + m.W_WHY] = 0
    warps[w + m.W_FROM] = m.S_FIXED
    return 0


@native
def issue(
    number: int, t: int, b: int, per_cta: int, ins: Ints, records: Halves, touched: Ints, p: Reals, warps: Ints, subs: Ints,
    lines: Ints, ring: Ints, state: Ints, servers: Reals, mbarriers: Ints, events: Ints, scratch: Ints, stalls: Reals, out: Reals,
) -> int:  # fmt: skip
    """One instruction of a warp; what it takes, and what waits for it."""
    w = number * m.WARP
    subs[b + m.B_LAST] = number + 1
    earliest(w, b, ins, records, p, warps, subs, scratch)
    r = warps[w + m.W_POS] * m.RECORD
    index = records[r + m.INDEX] + 0
    row = index * m.COLUMNS
    unit = ins[row + m.UNIT]
    attribute(w, index, t, warps, scratch, stalls)
    if ins[row + m.PORTS]:
        register_ports(number, row, t, b, ins, subs)
    matrix = ins[row + m.KIND] == m.WARPGROUP_MATRIX
    free = max(subs[b + m.B_UNITS + unit], t + 8) if matrix else t
    subs[b + m.B_UNITS + unit] = free + ins[row + m.INTERVAL]
    out[m.O_BUSY + unit] += ins[row + m.INTERVAL]
    warps[w + m.W_READY] = t + max(ins[row + m.STALL], 1)
    scratch[3] = t + int(p[m.P_OPERAND_READ])
    scratch[4] = t + ins[row + m.LATENCY]
    v = warps[w + m.W_RANK] * m.SERVERS
    if records[r + m.ACCESS] >= m.MBARRIER_INIT:
        act(r, t, w, row, per_cta, ins, records, p, warps, servers, mbarriers, events, out)
    elif records[r + m.ACCESS]:
        access_memory(r, t, w, b, row, ins, records, touched, p, warps, subs, lines, ring, state, servers, out, scratch)
    elif unit == m.U_MEMORY or unit == m.U_XU:
        begin = max(t + 2, subs[b + m.B_AGU])
        if unit == m.U_MEMORY:
            subs[b + m.B_AGU] = begin + 1
        scratch[3] = begin + 4
        if ins[row + m.KIND] == m.SHUFFLE:  # through the pipe that loads go through
            servers[v + m.V_PIPE] = max(float(begin + 4), servers[v + m.V_PIPE]) + p[m.P_LSU_INTERVAL]
            out[m.O_PIPE_CYCLES] += p[m.P_LSU_INTERVAL]
            scratch[3] = max(scratch[3], int(servers[v + m.V_PIPE]))
            scratch[4] = int(servers[v + m.V_PIPE] + p[m.P_SHARED_LATENCY]) - 4
    if ins[row + m.KIND] == m.COMMIT:
        warps[w + m.W_RING + warps[w + m.W_GROUPS] % m.RING] = warps[w + m.W_INFLIGHT]
        warps[w + m.W_GROUPS] += 1
        scratch[4] = t + 4
    if matrix:
        warps[w + m.W_MATRIX] = free + ins[row + m.INTERVAL] + ins[row + m.LATENCY]
        if ins[row + m.GROUPS]:
            warps[w + m.W_BATCH_RING + warps[w + m.W_BATCHES] % m.RING] = warps[w + m.W_MATRIX]
            warps[w + m.W_BATCHES] += 1
    if ins[row + m.WRITE_BARRIER] < 6:
        slot = w + m.W_SB + ins[row + m.WRITE_BARRIER]
        warps[slot] = max(warps[slot], scratch[4])
    if ins[row + m.READ_BARRIER] < 6:
        slot = w + m.W_SB + ins[row + m.READ_BARRIER]
        warps[slot] = max(warps[slot], scratch[3], t + 2)
    warps[w + m.W_WAKE] = warps[w + m.W_READY]
    warps[w + m.W_POS] += 1
    return r


@native
def meet(
    w: int, r: int, t: int, per_cta: int, ins: Ints, records: Halves, p: Reals, warps: Ints, left: Ints, arrived: Ints
) -> int:
    """A warp comes to a barrier of its CTA."""
    kind = ins[records[r + m.INDEX] * m.COLUMNS + m.KIND]
    if kind != m.BARRIER and kind != m.ARRIVE:
        return 0
    cta = warps[w + m.W_CTA]
    bar = records[r + m.SECTORS] + 0
    ranks = int(p[m.P_RANKS])
    expected = records[r + m.LINES] if records[r + m.LINES] > 0 else left[cta * ranks + warps[w + m.W_RANK]]
    at = cta * m.BARRIERS * ranks + bar
    if kind == m.BARRIER:
        warps[w + m.W_WAITING] = bar + 1
    arrived[at] += 1
    if arrived[at] >= expected:
        arrived[at] = 0
        release(bar, cta, per_cta, t + int(p[m.P_BARRIER_LATENCY]), warps)
    return 0


@native
def leave(
    number: int, t: int, per_cta: int, p: Reals, warps: Ints, subs: Ints, left: Ints, arrived: Ints, ends: Ints
) -> int:
    """A warp ends. Returns whether its CTA does."""
    w = number * m.WARP
    cta = warps[w + m.W_CTA]
    warps[w + m.W_DONE] = 1
    warps[w + m.W_WAITING] = 0
    remove_warp(number, warps, subs)
    ranks = int(p[m.P_RANKS])
    mine = cta * ranks + warps[w + m.W_RANK]
    left[mine] -= 1
    if left[mine] == 0:
        ends[cta] = t + 1
        others = 0
        for rank in range(ranks):
            others += left[cta * ranks + rank]
        return int(others == 0)
    if arrived[mine * m.BARRIERS] >= left[mine]:
        arrived[mine * m.BARRIERS] = 0
        release(m.BARRIERS * warps[w + m.W_RANK], cta, per_cta, t + int(p[m.P_BARRIER_LATENCY]), warps)
    return 0


@native
def served(p: Reals, servers: Reals) -> int:
    """When L2 and DRAM are done."""
    end = 0
    for rank in range(int(p[m.P_RANKS])):
        v = rank * m.SERVERS
        end = max(end, int(servers[v + m.V_L2]), int(servers[v + m.V_DRAM]))
    return end


@native
def replay(
    ins: Ints, records: Halves, touched: Ints, offsets: Ints, of_cta: Halves, ctas: int, per_cta: int, resident: int, p: Reals,
    warps: Ints, subs: Ints, left: Ints, arrived: Ints, lines: Ints, ring: Ints, state: Ints, servers: Reals,
    mbarriers: Ints, events: Ints, scratch: Ints, stalls: Reals, out: Reals, ends: Ints,
) -> int:  # fmt: skip
    """Run `ctas` CTAs, `resident` at a time. Returns the cycles, -1 where it does not end."""
    subcores = int(p[m.P_SUBCORES])
    next_cta = 0
    t = 0
    while next_cta < ctas and next_cta < resident:
        start_cta(next_cta, 0, per_cta, subcores, of_cta, offsets, p, warps, subs, left)
        next_cta += 1
    live = next_cta
    end = 0
    while live > 0:
        issued = 0
        state[3] = happen(t, per_cta, p, warps, mbarriers, events)
        for s in range(subcores):
            b = s * m.SUB
            while subs[b + m.B_HEAD] < subs[b + m.B_TAIL] and subs[b + m.B_QUEUE + subs[b + m.B_HEAD] % m.QUEUE] <= t:
                subs[b + m.B_HEAD] += 1
            best = choose(s, t, ins, records, p, warps, subs, state, scratch)
            if best < 0:
                if subs[b + m.B_COUNT]:
                    out[m.O_IDLE] += 1
                continue
            issued += 1
            w = best * m.WARP
            r = issue(
                best,
                t,
                b,
                per_cta,
                ins,
                records,
                touched,
                p,
                warps,
                subs,
                lines,
                ring,
                state,
                servers,
                mbarriers,
                events,
                scratch,
                stalls,
                out,
            )
            meet(w, r, t, per_cta, ins, records, p, warps, left, arrived)
            if warps[w + m.W_POS] >= warps[w + m.W_END] and leave(
                best, t, per_cta, p, warps, subs, left, arrived, ends
            ):
                end = t + 1
                live -= 1
                if next_cta < ctas:
                    start_cta(
                        next_cta, t + int(p[m.P_LAUNCH]), per_cta, subcores, of_cta, offsets, p, warps, subs, left
                    )
                    next_cta += 1
                    live += 1
        out[m.O_ISSUED] += issued
        if issued:
            t += 1
        elif state[3] >= m.NEVER:
            return -1
        else:
            out[m.O_IDLE] += (max(state[3], t + 1) - t - 1) * subcores
            t = max(state[3], t + 1)
        if t > m.LIMIT:
            return -1
    end = max(end, served(p, servers))
    out[m.O_CYCLES] = end
    return end
