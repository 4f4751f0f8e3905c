"""How the emulator's machine is laid out: slots of registers, columns of encoded instructions, states.

A warp's registers are slots of 32 words: R0 to R255, uniform registers from `UNIFORM`, special registers from `SPECIAL`; slots from
`CONSTANTS` on hold constants and immediates of the kernel and serve for all warps. `encode` makes the rows of instructions.
"""

from __future__ import annotations

ZERO, UNIFORM, SPECIAL, CONSTANTS = 255, 256, 512, 544
TRUE, UNIFORM_PREDICATES, UNIFORM_TRUE, PREDICATES = 7, 8, 15, 16
M32 = 0xFFFFFFFF
ALL = M32

# Columns of an encoded instruction.
(
    E_DO, E_OP, E_GUARD, E_D, E_WORDS, E_P, E_Q, E_A, E_B, E_C, E_FA, E_FB, E_FC, E_I, E_J, E_X, E_Y, E_WIDTH, E_TARGET, E_SPACE,
    E_MARKS, E_MARKED, E_UNIFORM, E_ADDRESS,
) = range(24)  # fmt: skip
ENCODED = 24

# What to do: results from registers, memory, barriers, flow of control.
(
    DO_NOTHING, DO_CONVERGED, DO_VALUE, DO_COMPARE, DO_LOGIC, DO_SHUFFLE, DO_VOTE, DO_TO_PREDICATES, DO_FROM_PREDICATES, DO_CONSTANT,
    DO_ELECT, DO_LOAD, DO_STORE, DO_ATOMIC, DO_COPY, DO_MATRIX_LOAD, DO_BARRIER, DO_ARRIVE, DO_BRANCH, DO_CALL, DO_RETURN,
    DO_INDIRECT, DO_EXIT, DO_BEGIN, DO_JOIN, DO_BREAK, DO_GRANT, DO_MBARRIER_INIT, DO_MBARRIER_ARRIVE, DO_MBARRIER_WAIT,
    DO_CLUSTER_ARRIVE, DO_CLUSTER_WAIT, DO_TENSOR_LOAD, DO_TENSOR_STORE, DO_MATRIX, DO_MATRIX_COMMIT,
    DO_REMOTE_STORE,
) = range(37)  # fmt: skip
FIRST_ASYNC = DO_GRANT
FIRST_MEMORY, LAST_MEMORY, LAST_BARRIER, LAST_JUMP = DO_LOAD, DO_MATRIX_LOAD, DO_ARRIVE, DO_EXIT

# Operations that give a value.
(
    V_MOVE, V_ADD, V_MAD, V_HIGH, V_LEA, V_LEA_HIGH, V_LOGIC, V_LEFT, V_LEFT_HIGH, V_RIGHT, V_RIGHT_HIGH, V_SELECT, V_MIN, V_MAX,
    V_PERMUTE, V_REVERSE, V_COUNT, V_LEADING, V_MASK, V_EXTEND, F_ADD, F_MUL, F_FMA, F_MIN, F_MAX, F_FROM_INT, F_TO_INT, F_RCP, F_RSQ,
    F_SQRT, F_EX2, F_LG2, V_BYTE, V_ADD3, F_FROM_UINT,
) = range(35)  # fmt: skip
# Comparisons; those of floats from C_FLOAT on.
C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_TRUE, C_FALSE, C_FLOAT = 0, 1, 2, 3, 4, 5, 6, 7, 16

# Flags of operands.
NEGATE, INVERT, ABSOLUTE, WIDE, SIGNED, REAL = 1, 2, 4, 8, 16, 32
# Spaces.
S_GLOBAL, S_SHARED, S_LOCAL, S_GENERIC = 0, 1, 2, 3

# State of a warp.
T_LIVE, T_BLOCKED, T_STATUS, T_BARRIER, T_ITERATION, T_SILENT, T_ACTIVE, T_PHASE, T_JOIN, STATE = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    48,
)
T_CLUSTER = 40
"""How often the warp has arrived at the barrier of its cluster."""
READY, WAITING, FINISHED, AT_MBARRIER = 0, 1, 2, 3
# State of the run.
(
    M_RECORDS, M_LINES, M_EXECUTED, M_LIMIT, M_RECORD, M_LINE_LIMIT, M_RECORD_LIMIT, M_LOOP_FIRST, M_LOOP_LAST, M_LOOP_KEPT, M_FAULTS,
    M_WARPS, M_SHARED, M_SHARED_SIZE, M_WINDOW, M_RANGES, M_UNKNOWN_BRANCHES, M_UNKNOWN_ADDRESSES, M_RUN, M_BANK, M_LANES, M_CTA_WARPS,
    M_RANKS, M_PARAMETERS,
) = range(24)  # fmt: skip
META = 32
# Counts of an instruction: executions by warps and by lanes, by warps that branch back, accesses of lanes outside of the arguments.
N_WARPS, N_LANES, N_BACK, N_OUTSIDE, COUNTS = range(5)
# Results of a run.
ENDED, FULL, STUCK, LOST = 0, 1, 2, 3
LOCAL_WORDS = 1024
"""Of each lane."""

SHARED_BYTES = 1 << 18
"""Of a CTA: an address of shared memory is an offset, with the CTA's rank in its cluster from bit 24 on."""
# Mbarriers: how many were seen, the number of each by its offset, and their states.
B_COUNT, B_NUMBERS, B_STATES = 0, 16, 16 + SHARED_BYTES // 8
B_DONE, B_PENDING, B_EXPECTED, B_BYTES, MBARRIER = 0, 1, 2, 3, 4
MBARRIERS = 128
"""Of a CTA; the last one of the first CTA is the barrier of the cluster."""
