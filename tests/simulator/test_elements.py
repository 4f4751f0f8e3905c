"""Elements of arrays as addresses, `a[3]` and `a[%r1+3]` (PTX ISA 6.4.2), in every state space."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.simulator import load
from tests.simulator.test_texture import assembled

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.global .align 8 .u16 halves[16] = {{{halves}}};
.const .u64 longs[8] = {{{longs}}};
.global .v2 .u32 pairs[8] = {{{pairs}}};
.global .u32 square[4][4] = {{{square}}};
.visible .entry k(.param .u64 out, .param .u64 index, .param .u32 given[8])
{{
    .reg .pred %p<3>; .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
    .shared .align 8 .u32 s[16]; .local .align 8 .b8 l[16]; .shared .align 8 .b64 t[2];
    ld.param.u64 %d1, [out]; ld.param.u64 %d2, [index];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d2, %d2, %d3; ld.global.u32 %r2, [%d2];
    cvt.u64.u32 %d4, %r2; add.u64 %d5, %d4, 0x700000000; cvt.u16.u32 %h1, %r2; mov.u64 %d6, 0;
    shl.b32 %r3, %r1, 3; cvt.u64.u32 %d3, %r3; add.u64 %d1, %d1, %d3;
    {body}
    st.global.u64 [%d1], %d6;
    ret;
}}
"""
CASES = {
    "ld.global.u16 %d6, halves[%r2];": lambda a, i: a["halves"][i],
    "ld.global.nc.u16 %d6, halves[%h1];": lambda a, i: a["halves"][i],
    "ld.global.u16 %d6, halves[%d5];": lambda a, i: a["halves"][i],  # the low 32 bits of an index count
    "ld.global.u16 %d6, halves[%r2+3];": lambda a, i: a["halves"][i + 3],
    "ld.global.u16 %d6, halves[%laneid];": lambda a, i: a["halves"][np.arange(8)],
    "ld.global.u16 %d6, halves[11];": lambda a, i: np.full(8, a["halves"][11]),
    "ld.global.u16 %d6, halves[3*4+1];": lambda a, i: np.full(8, a["halves"][13]),
    "ld.const.u64 %d6, longs[%r2];": lambda a, i: a["longs"][i],
    "ld.u64 %d6, longs[1];".replace("ld", "ld.const"): lambda a, i: np.full(8, a["longs"][1]),
    "ld.global.u32 %d6, pairs[%r2+8];": lambda a, i: a["pairs"].reshape(-1)[i + 8],  # scalars count, not vectors
    "ld.global.u32 %d6, square[%r2+4];": lambda a, i: a["square"].reshape(-1)[i + 4],
    "ld.param.u32 %d6, given[3];": lambda a, i: np.full(8, a["given"][3]),
    "ld.param.u32 %d6, given[%r2];": lambda a, i: a["given"][i],
    "mov.u64 %d3, halves[%r2+1]; ld.u16 %d6, [%d3];": lambda a, i: a["halves"][i + 1],
    "cvta.const.u64 %d3, longs[2]; ld.u64 %d6, [%d3];": lambda a, i: np.full(8, a["longs"][2]),
    "mov.b64 {%r4, %r5}, longs[%r2]; mov.b64 %d3, {%r4, %r5}; ld.const.u64 %d6, [%d3];": lambda a, i: a["longs"][i],
    "mov.u32 %r4, s[%r1]; st.shared.u32 [%r4], %r2; ld.shared.u32 %d6, s[%r1];": lambda a, i: i,
    "st.shared.u32 s[%r1+8], %r2; ld.shared.u32 %d6, s[%r1+8];": lambda a, i: i,
    "st.local.u8 l[%r1+2], %r2; ld.local.u8 %d6, l[%r1+2];": lambda a, i: i,
    "st.local.u8 l[5], %r1; ld.local.u8 %d6, l[6+-1];": lambda a, i: np.arange(8),
    "setp.lt.u32 %p1, %r1, 4; @%p1 ld.global.u16 %d6, halves[%r2];": lambda a, i: np.where(
        np.arange(8) < 4, a["halves"][i], 0
    ),
    "setp.lt.u32 %p1, %r1, 4; selp.u32 %r2, %r2, 0x10000000, %p1; @%p1 ld.global.u16 %d6, halves[%r2];": (
        lambda a, i: np.where(np.arange(8) < 4, a["halves"][i], 0)
    ),
}


@pytest.mark.parametrize("body", CASES)
def test_elements(body: str) -> None:
    random = np.random.default_rng()
    arrays = {
        "halves": random.integers(0, 1 << 16, 16), "longs": random.integers(0, 1 << 62, 8),
        "pairs": random.integers(0, 1 << 31, (8, 2)), "square": random.integers(0, 1 << 31, (4, 4)),
        "given": random.integers(0, 1 << 31, 8),
    }  # fmt: skip

    def initial(values: np.ndarray) -> str:
        return ", ".join(f"{{{initial(v)}}}" if v.ndim else str(v) for v in values)

    text = KERNEL.format(body=body, **{name: initial(a) for name, a in arrays.items() if name != "given"})
    index = random.integers(0, 8, 8).astype(np.uint32)
    out = np.full(8, 1 << 63, np.uint64)
    assembled(text).simulate(out, index, arrays["given"].astype(np.uint32), grid=1, block=8)
    assert np.array_equal(out, np.asarray(CASES[body](arrays, index)).astype(np.uint64))


def test_distances_wrap_as_ptxas_makes_them() -> None:
    """The distance of a constant index is 32 bits with a sign, of one in a register 32 bits without (read off SASS)."""
    kernel = """.version 8.0
.target sm_80
.address_size 64
.global .u32 a[4];
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<3>; .reg .b64 %d<9>;
    ld.param.u64 %d1, [out]; mov.u32 %r1, -1;
    mov.u64 %d2, a; mov.u64 %d3, a[-2]; mov.u64 %d4, a[1073741825]; mov.u64 %d5, a[%r1]; mov.u64 %d6, a[%r1+2];
    sub.u64 %d3, %d3, %d2; sub.u64 %d4, %d4, %d2; sub.u64 %d5, %d5, %d2; sub.u64 %d6, %d6, %d2;
    st.global.v2.u64 [%d1], {%d3, %d4}; st.global.v2.u64 [%d1+16], {%d5, %d6};
    ret;
}
"""
    out = np.zeros(4, np.int64)
    load(kernel)["k"].simulate(out, grid=1, block=1)
    assert out.tolist() == [-8, 4, 0xFFFF_FFFC, 4]


def test_calls_through_a_table() -> None:
    """An array that functions initialise lists what an indirect call may reach (PTX ISA 9.7.14.5)."""
    kernel = """.version 7.0
.target sm_80
.address_size 64
.func (.reg .u32 r) more (.reg .u32 a) { add.u32 r, a, 5; ret; }
.func (.reg .u32 r) times (.reg .u32 a) { mul.lo.u32 r, a, 3; ret; }
.const .u64 table[2] = { more, times };
.visible .entry k(.param .u64 out)
{
    .reg .u64 %d<6>; .reg .u32 %r<4>;
    ld.param.u64 %d1, [out]; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 1;
    ld.const.u64 %d2, table[%r3];
    call (%r1), %d2, (%r2), table;
    mul.wide.u32 %d3, %r2, 4; add.u64 %d1, %d1, %d3; st.global.u32 [%d1], %r1;
    ret;
}
"""
    out = np.zeros(32, np.uint32)
    assembled(kernel).simulate(out, grid=1, block=32)
    lanes = np.arange(32)
    assert np.array_equal(out, np.where(lanes % 2, 3 * lanes, lanes + 5))
