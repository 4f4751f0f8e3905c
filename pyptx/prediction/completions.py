"""What works by itself in the replay: tensor copies, matrix instructions, and the mbarriers that say when they are done.

A copy or a batch of matrix instructions gets the time of its completion when it is issued, from the servers that it goes through; the
completion is an event, which arrives at mbarriers and wakes the warps that wait for their phase.
"""

from __future__ import annotations

from . import layout as m
from .native import Halves, Ints, Reals, native


@native
def schedule(at: int, slot: int, arrivals: int, bytes: int, events: Ints) -> int:
    """An event that is still to come. Past the most that there may be, it is late."""
    k = min(events[m.EV_COUNT], m.EVENTS - 1)
    e = m.EV_FIRST + k * m.EVENT
    events[e] = at
    events[e + 1] = slot
    events[e + 2] = arrivals
    events[e + 3] = bytes
    events[m.EV_COUNT] = k + 1
    if at < events[m.EV_NEXT] or k == 0:
        events[m.EV_NEXT] = at
    return 0


@native
def wake(slot: int, done: int, t: int, per_cta: int, p: Reals, warps: Ints) -> int:
    """The warps that wait for a phase that is complete go on."""
    cta = slot // (m.MBARRIERS * int(p[m.P_RANKS]))
    for i in range(per_cta):
        w = (cta * per_cta + i) * m.WARP
        if warps[w + m.W_WAITING] == m.AT_MBARRIER + slot and warps[w + m.W_NEED] <= done:
            warps[w + m.W_WAITING] = 0
            warps[w + m.W_READY] = max(warps[w + m.W_READY], t + int(p[m.P_WAKE]))
            warps[w + m.W_WAKE] = warps[w + m.W_READY]
            warps[w + m.W_FROM] = m.S_MBARRIER
    return 0


@native
def arrive(slot: int, arrivals: int, bytes: int, t: int, per_cta: int, p: Reals, warps: Ints, mbarriers: Ints) -> int:
    """Arrivals, and bytes that are expected (positive) or came (negative)."""
    s = slot * m.MBARRIER
    mbarriers[s + m.MB_PENDING] -= arrivals
    mbarriers[s + m.MB_BYTES] += bytes
    if mbarriers[s + m.MB_PENDING] <= 0 and mbarriers[s + m.MB_BYTES] == 0:
        mbarriers[s + m.MB_DONE] += 1
        mbarriers[s + m.MB_PENDING] = mbarriers[s + m.MB_EXPECTED]
        wake(slot, mbarriers[s + m.MB_DONE], t, per_cta, p, warps)
    return 0


@native
def happen(t: int, per_cta: int, p: Reals, warps: Ints, mbarriers: Ints, events: Ints) -> int:
    """The events up to now. Returns when the next one is."""
    count = events[m.EV_COUNT]
    if count == 0:
        return m.NEVER
    if events[m.EV_NEXT] > t:
        return events[m.EV_NEXT]
    kept = 0
    next = m.NEVER
    for k in range(count):
        e = m.EV_FIRST + k * m.EVENT
        if events[e] <= t:
            arrive(events[e + 1], events[e + 2], events[e + 3], t, per_cta, p, warps, mbarriers)
        else:
            next = min(next, events[e])
            o = m.EV_FIRST + kept * m.EVENT
            events[o] = events[e]
            events[o + 1] = events[e + 1]
            events[o + 2] = events[e + 2]
            events[o + 3] = events[e + 3]
            kept += 1
    events[m.EV_COUNT] = kept
    events[m.EV_NEXT] = next
    return next


@native
def begin_copy(t: int, v: int, bytes: int, p: Reals, servers: Reals, out: Reals) -> int:
    """The copy engine of an SM takes a tensor copy, which passes L2."""
    servers[v + m.V_COPY] = max(float(t), servers[v + m.V_COPY]) + p[m.P_COPY_INTERVAL]
    servers[v + m.V_L2] = max(servers[v + m.V_L2], servers[v + m.V_COPY]) + bytes / p[m.P_L2_BYTES]
    out[m.O_L2_BYTES] += bytes
    out[m.O_L2_BUSY] += bytes / p[m.P_L2_BYTES]
    return 0


@native
def copy_in(r: int, t: int, row: int, cta: int, rank: int, ins: Ints, records: Halves, p: Reals, servers: Reals, events: Ints, out: Reals
) -> int:  # fmt: skip
    """A tensor copy to the shared memory of one CTA or of several: it is read from L2 once, and comes in at each."""
    ranks = int(p[m.P_RANKS])
    number = records[r + m.WAVEFRONTS] & 255
    named = (records[r + m.WAVEFRONTS] >> 8) - 1
    bytes = records[r + m.SECTORS] * 32
    v = rank * m.SERVERS
    begin_copy(t, v, bytes, p, servers, out)
    start = servers[v + m.V_COPY]
    share = p[m.P_DRAM_READS] * ins[row + m.SHARE] / m.WHOLE
    fetched = bytes * share
    back = servers[v + m.V_L2]
    if fetched > 0:
        servers[v + m.V_DRAM] = max(servers[v + m.V_DRAM], start) + fetched / p[m.P_DRAM_BYTES]
        out[m.O_DRAM_BYTES] += fetched
        out[m.O_DRAM_BUSY] += fetched / p[m.P_DRAM_BYTES]
        back = max(back, servers[v + m.V_DRAM] + p[m.P_DRAM_LATENCY] * share)
    for to in range(ranks):
        if records[r + m.LINES] >> to & 1:
            port = to * m.SERVERS + m.V_PORT
            servers[port] = max(servers[port], start) + bytes / p[m.P_PORT_BYTES]
            at = max(back, servers[port]) + p[m.P_L2_LATENCY] + p[m.P_COPY_LATENCY]
            owner = named if named >= 0 and named < ranks else to
            slot = (cta * ranks + owner) * m.MBARRIERS + number
            schedule(int(at), slot, 0, -bytes, events)
    return 0


@native
def copy_out(
    r: int, t: int, w: int, rank: int, records: Halves, p: Reals, warps: Ints, servers: Reals, out: Reals
) -> int:
    """A tensor copy from shared memory; the group that it is committed to is done when shared memory was read."""
    bytes = records[r + m.SECTORS] * 32
    v = rank * m.SERVERS
    begin_copy(t, v, bytes, p, servers, out)
    start = servers[v + m.V_COPY]
    out[m.O_STORE_BYTES] += bytes
    written = bytes * p[m.P_DRAM_WRITES]
    servers[v + m.V_DRAM] = max(servers[v + m.V_DRAM], start) + written / p[m.P_DRAM_BYTES]
    out[m.O_DRAM_BYTES] += written
    out[m.O_DRAM_BUSY] += written / p[m.P_DRAM_BYTES]
    warps[w + m.W_INFLIGHT] = max(warps[w + m.W_INFLIGHT], int(servers[v + m.V_L2] + p[m.P_COPY_LATENCY]))
    return 0


@native
def matrix_cycles(n: int, flags: int, p: Reals) -> float:
    """Of a tcgen05.mma with 32 bytes of K: half a cycle for each column, or the time that shared memory needs for the operands. `flags`: 1 for
    an operand in tensor memory, 2 for two CTAs, each of which reads its half of B and a half of that again (fitted, docs/prediction.md).
    """
    rows = 0 if flags & 1 else 128
    columns = n * 0.75 if flags & 2 else float(n)
    if flags & 1:
        columns = n * 0.5
    return max(n * 0.5, (rows + columns) * 32 / p[m.P_MATRIX_SHARED]) + 0.4


@native
def multiply(r: int, t: int, rank: int, records: Halves, p: Reals, servers: Reals, out: Reals) -> int:
    """A matrix instruction of one thread, on the tensor cores of its SM or of two."""
    flags = records[r + m.LINES] + 0
    cycles = matrix_cycles(records[r + m.WAVEFRONTS], flags, p)
    v = rank * m.SERVERS
    start = max(float(t + 4), servers[v + m.V_MATRIX])
    other = (rank ^ 1) * m.SERVERS
    pair = flags & 2 and (rank ^ 1) < int(p[m.P_RANKS])
    if pair:
        start = max(start, servers[other + m.V_MATRIX])
        servers[other + m.V_MATRIX] = start + cycles
        out[m.O_BUSY + m.U_TENSOR] += 4 * cycles
    servers[v + m.V_MATRIX] = start + cycles
    servers[v + m.V_MATRIX_DONE] = start + cycles + p[m.P_MATRIX_LATENCY]
    out[m.O_BUSY + m.U_TENSOR] += 4 * cycles
    return 0


@native
def act(
    r: int, t: int, w: int, row: int, per_cta: int, ins: Ints, records: Halves, p: Reals, warps: Ints, servers: Reals, mbarriers: Ints,
    events: Ints, out: Reals,
) -> int:  # fmt: skip
    """An instruction that starts, signals or waits for work of this kind."""
    kind = records[r + m.ACCESS]
    cta = warps[w + m.W_CTA]
    rank = warps[w + m.W_RANK]
    ranks = int(p[m.P_RANKS])
    slot = cta * ranks * m.MBARRIERS + records[r + m.WAVEFRONTS]
    s = slot * m.MBARRIER
    if kind == m.MBARRIER_WAIT:
        if mbarriers[s + m.MB_DONE] < records[r + m.SECTORS]:
            warps[w + m.W_WAITING] = m.AT_MBARRIER + slot
            warps[w + m.W_NEED] = records[r + m.SECTORS]
    elif kind == m.MBARRIER_INIT:
        mbarriers[s + m.MB_EXPECTED] = records[r + m.SECTORS]
        mbarriers[s + m.MB_PENDING] = records[r + m.SECTORS]
        mbarriers[s + m.MB_BYTES] = 0
    elif kind == m.MBARRIER_ARRIVE:
        late = int(p[m.P_REMOTE]) if records[r + m.FIRST_LINE] else 10
        schedule(t + late, slot, records[r + m.SECTORS], records[r + m.LINES], events)
    elif kind == m.CLUSTER_ARRIVE:
        if mbarriers[s + m.MB_EXPECTED] == 0:
            mbarriers[s + m.MB_EXPECTED] = records[r + m.SECTORS]
            mbarriers[s + m.MB_PENDING] = records[r + m.SECTORS]
        schedule(t + int(p[m.P_REMOTE]), slot, 1, 0, events)
    elif kind == m.TENSOR_LOAD:
        copy_in(r, t, row, cta, rank, ins, records, p, servers, events, out)
    elif kind == m.TENSOR_STORE:
        copy_out(r, t, w, rank, records, p, warps, servers, out)
    elif kind == m.MATRIX:
        multiply(r, t, rank, records, p, servers, out)
    else:
        at = max(int(servers[rank * m.SERVERS + m.V_MATRIX_DONE]), t) + 12
        for to in range(ranks):
            if records[r + m.SECTORS] >> to & 1:
                late = 0 if to == rank else int(p[m.P_REMOTE])
                schedule(at + late, (cta * ranks + to) * m.MBARRIERS + records[r + m.WAVEFRONTS], 1, 0, events)
    return 0
