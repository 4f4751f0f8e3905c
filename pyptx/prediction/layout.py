"""The layout of the replay's tables and states: columns, kinds, units, reasons of stalls, parameters, results."""

from __future__ import annotations

from enum import IntEnum

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
PLAIN, BARRIER, COMMIT, WAIT_GROUPS, LDMATRIX, SHUFFLE, ARRIVE, WARPGROUP_MATRIX, WAIT_MATRICES = range(9)
# Kinds of access of a record.
(
    NONE, SHARED, LOAD, STORE, REDUCTION, ASYNC_COPY, LOCAL, MBARRIER_INIT, MBARRIER_ARRIVE, MBARRIER_WAIT, CLUSTER_ARRIVE,
    TENSOR_LOAD, TENSOR_STORE, MATRIX, MATRIX_COMMIT,
) = range(15)  # fmt: skip


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
U_FMA, U_IMAD, U_XU, U_MEMORY, U_TENSOR = map(int, (Unit.FMA, Unit.IMAD, Unit.XU, Unit.MEMORY, Unit.TENSOR))


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
    MBARRIER = 8
    MATRICES = 9


REASONS = 10
S_BARRIER, S_FIXED, S_SCOREBOARD, S_QUEUE, S_PIPE, S_PORT, S_GROUP, S_MBARRIER, S_MATRICES = 1, 2, 3, 4, 5, 6, 7, 8, 9

# `stalls` begins with the log of a timeline: how many entries it has, how many there is room for, where it begins.
LOG_COUNT, LOG_ROOM, LOG_AT, LOG_HEAD = 0, 1, 2, 8
LOG_FIELDS = 7
"""Of an entry: warp, instruction, cycle of issue; what the warp waited for, how long; and for the second wait."""

# Parameters.
(
    P_SUBCORES, P_QUEUE, P_ADDRESS_INTERVAL, P_LSU_INTERVAL, P_SHARED_LATENCY, P_L1_LATENCY, P_L2_LATENCY, P_L2_BYTES, P_DRAM_LATENCY,
    P_DRAM_BYTES, P_DRAM_READS, P_DRAM_WRITES, P_L1_LINES, P_LAUNCH, P_BARRIER_LATENCY, P_MATRIX_INTERVAL, P_TAG_INTERVAL, P_MISS_RETURN,
    P_STORE_SECTOR, P_OPERAND_READ, P_PRIVATE, P_TRACED, P_COPIES, P_LINES,
    P_RANKS, P_CTA_WARPS, P_COPY_LATENCY, P_WAKE, P_REMOTE, P_PORT_BYTES, P_MATRIX_LATENCY, P_MATRIX_SHARED, P_COPY_INTERVAL,
) = range(33)  # fmt: skip
PARAMETERS = 40

# Results, from `out`.
(
    O_CYCLES, O_ISSUED, O_L2_BYTES, O_DRAM_BYTES, O_L1_HITS, O_L1_ACCESSES, O_PIPE_CYCLES, O_CTAS, O_STORE_BYTES, O_IDLE, O_L2_BUSY,
    O_DRAM_BUSY, O_SHARED_CYCLES,
) = range(13)  # fmt: skip
O_BUSY = 16
RESULTS = O_BUSY + UNITS

# State of a warp.
(
    W_POS, W_END, W_CTA, W_READY, W_SB, W_DONE, W_WAITING, W_LAST, W_SUB, W_GROUPS, W_INFLIGHT, W_AGE, W_WAKE, W_WHY, W_REPEAT, W_FROM, W_RANK, W_NEED,
    W_MATRIX, W_BATCHES, W_RING,
) = (0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25)  # fmt: skip
RING = 16
W_BATCH_RING = W_RING + RING
WARP = W_BATCH_RING + RING
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
# Servers of an SM: the pipe of memory instructions, L2, DRAM, what comes in, matrix instructions of tcgen05 (when free, when done), copies.
V_PIPE, V_L2, V_DRAM, V_PORT, V_MATRIX, V_MATRIX_DONE, V_COPY, SERVERS = 0, 1, 2, 3, 4, 5, 6, 8
# Mbarriers: 128 of a CTA; a warp that waits for one is marked with its number after those of CTAs' barriers.
MBARRIERS, MB_DONE, MB_PENDING, MB_EXPECTED, MB_BYTES, MBARRIER = 128, 0, 1, 2, 3, 4
AT_MBARRIER = 10_000
# Events that are still to come: how many, when the next is, then time, mbarrier, arrivals, bytes of each.
EV_COUNT, EV_NEXT, EV_FIRST, EVENT, EVENTS = 0, 1, 2, 4, 4096
LIMIT = 400_000_000
