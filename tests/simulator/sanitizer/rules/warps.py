"""What threads of a warp execute together."""

from __future__ import annotations

from ..pieces import FILL, Pair

PAIRS = [
    Pair(
        "membermask",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    vote.sync.ballot.b32 %r10, %p1, 0xff; //!\n$end:",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    vote.sync.ballot.b32 %r10, %p1, 0xffff;\n$end:",
    ),
    Pair(  # threads that execute a shuffle together do not agree on who they are
        "membermask",
        "    setp.lt.u32 %p2, %r1, 16;\n    selp.u32 %r9, 0x0000ffff, 0xffffffff, %p2;\n"
        "    shfl.sync.bfly.b32 %r10, %r1, 1, 31, %r9; //!",
        "    mov.u32 %r9, 0xffffffff;\n    shfl.sync.bfly.b32 %r10, %r1, 1, 31, %r9;",
    ),
    Pair(  # half of a warp shuffles, and its last lanes read from the other half
        "shuffle-source",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    shfl.sync.down.b32 %r10, %r1, 8, 31, 0xffff; //!\n$end:",
        "    setp.lt.u32 %p2, %r1, 16;\n    @!%p2 bra $end;\n    shfl.sync.down.b32 %r10, %r1, 8, 15, 0xffff;\n$end:",
    ),
    Pair(  # a lane that has exited has no register to read
        "shuffle-source",
        "    setp.eq.u32 %p2, %r1, 5;\n    @%p2 exit;\n    shfl.sync.idx.b32 %r10, %r1, 5, 31, 0xffffffff; //!",
        "    setp.eq.u32 %p2, %r1, 5;\n    shfl.sync.idx.b32 %r10, %r1, 5, 31, 0xffffffff;\n    @%p2 exit;",
    ),
    Pair(
        "warp-incomplete",
        "    setp.lt.u32 %p2, %r1, 16;\n    @%p2 exit;\n"
        + FILL.replace("    st", "    bar.warp.sync 0xffffffff;\n    st")
        + "    mov.f32 %f1, 0f00000000; mov.b32 %r10, 0;\n"
        "    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4,%f5,%f6,%f7}, {%r10,%r10,%r10,%r10}, "
        "{%r10,%r10}, {%f1,%f1,%f1,%f1}; //!",
        "    mov.f32 %f1, 0f00000000; mov.b32 %r10, 0;\n"
        "    mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4,%f5,%f6,%f7}, {%r10,%r10,%r10,%r10}, "
        "{%r10,%r10}, {%f1,%f1,%f1,%f1};",
    ),
]  # fmt: skip
