"""Shared addresses in clusters (their rank bits, the leader of a pair), and call stacks that do not end."""

from __future__ import annotations

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load
from tests.simulator.test_texture import assembled

HEAD = """.version 8.7
.target sm_100a
.address_size 64
"""
LEADER = 0xFEFFFFFF
"""CUTLASS's mask: the address in the even CTA of a pair."""


def test_rank_bits() -> None:
    """A CTA's own addresses have its rank in bits 24 and up, as mapa makes them; masking bit 24 reaches the leader."""
    k = assembled(f"""{HEAD}
.visible .entry k(.param .u64 out) .reqnctapercluster 4
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .shared .align 8 .b32 word[32];
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, word;
    mapa.shared::cluster.u32 %r3, %r2, %r1;
    sub.u32 %r4, %r3, %r2;
    add.u32 %r5, %r1, 100;
    st.shared::cta.u32 [%r2+4], %r5;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    and.b32 %r6, %r2, {LEADER};
    ld.shared::cluster.u32 %r7, [%r6+4];
    cvta.shared.u64 %rd2, word;
    isspacep.shared::cta %p1, %rd2;
    selp.u32 %r8, 1, 0, %p1;
    xor.b32 %r9, %r1, 1;
    cvt.u64.u32 %rd3, %r9;
    mapa.u64 %rd4, %rd2, %r9;
    isspacep.shared::cta %p2, %rd4;
    isspacep.shared::cluster %p3, %rd4;
    selp.u32 %r10, 2, 0, %p2;
    selp.u32 %r11, 4, 0, %p3;
    or.b32 %r8, %r8, %r10;
    or.b32 %r8, %r8, %r11;
    ld.u32 %r12, [%rd4+4];
    getctarank.u64 %r13, %rd4;
    getctarank.shared::cluster.u32 %r14, %r2;
    mul.wide.u32 %rd5, %r1, 32;
    add.s64 %rd6, %rd1, %rd5;
    st.global.v4.u32 [%rd6], {{%r4, %r7, %r8, %r12}};
    st.global.v2.u32 [%rd6+16], {{%r13, %r14}};
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
""")
    out = np.full((4, 8), 0xA5A5A5A5, np.uint32)
    assert not k.simulate(out, grid=4, block=1).findings
    rank = np.arange(4)
    want = np.stack([0 * rank, 100 + rank // 2 * 2, 5 + 0 * rank, 100 + (rank ^ 1), rank ^ 1, rank], axis=1)
    np.testing.assert_array_equal(out[:, :6], want)


def test_peer_arrives_at_the_leaders_barrier() -> None:
    """Both CTAs of a pair arrive at the barrier of the even one through the masked address of their own."""
    k = assembled(f"""{HEAD}
.visible .entry k(.param .u64 out) .reqnctapercluster 2
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<16>;
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, bar;
    and.b32 %r3, %r2, {LEADER};
    mbarrier.init.shared::cta.b64 [%r2], 2;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra $done;
$wait:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    @!%p2 bra $wait;
    st.global.u32 [%rd1], 7;
$done:
    barrier.cluster.arrive;
    barrier.cluster.wait;
    ret;
}}
""")
    out = np.zeros(1, np.uint32)
    k.simulate(out, grid=2, block=1)
    assert out[0] == 7


CALLS = {
    "no frame": ".visible .func f ()\n{\n call.uni f;\n ret;\n}\n",
    "a cycle of two": ".func g ();\n.visible .func f ()\n{\n call.uni g;\n ret;\n}\n.func g ()\n{\n call.uni f;\n ret;\n}\n",
    "a large frame": ".visible .func f ()\n{\n .local .b8 x[1000];\n call.uni f;\n ret;\n}\n",
}


@pytest.mark.parametrize("functions", CALLS.values(), ids=list(CALLS))
def test_endless_recursion(functions: str) -> None:
    k = assembled(f"{HEAD}{functions}.visible .entry k(.param .u64 out)\n{{\n call.uni f;\n ret;\n}}\n")
    with pytest.raises(
        SimulationError, match=r"<ptx>:\d+:2: error: stack overflow: \d+ calls deep .*thread \(0, 0, 0\)"
    ):
        k.simulate(np.zeros(1), grid=1, block=32)


def test_long_chains_of_calls() -> None:
    """A chain of functions deeper than Python's stack is not a recursion."""
    chain = "".join(f".func f{i} ()\n{{\n call.uni f{i - 1};\n ret;\n}}\n" for i in range(1, 1500))
    text = f"{HEAD}.func f0 ()\n{{\n ret;\n}}\n{chain}.visible .entry k(.param .u64 out)\n{{\n call.uni f1499;\n ret;\n}}\n"
    assert load(text)["k"].simulate(np.zeros(1), grid=1, block=1).opcodes["call"] == 1500


def test_a_name_means_the_module_variable_again_after_its_scope() -> None:
    """A `.shared` variable hides a `.global` one of the same name up to the end of its scope, and no longer."""
    value, other = np.random.default_rng().integers(1, 1 << 31, 2).tolist()
    k = assembled(f"""{HEAD}
.global .align 4 .u32 v[2] = {{ {value}, {other} }};
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [v];
    {{
        .shared .align 4 .u32 v[2];
        st.shared.u32 [v], 5;
        ld.shared.u32 %r2, [v];
    }}
    {{
        .shared .align 4 .u32 v;
        st.shared.u32 [v], 6;
        ld.shared.u32 %r3, [v];
    }}
    ld.global.u32 %r4, [v+4];
    st.global.v4.u32 [%rd1], {{%r1, %r2, %r3, %r4}};
    ret;
}}
""")
    out = np.zeros(4, np.uint32)
    assert not k.simulate(out, grid=1, block=1).findings
    assert out.tolist() == [value, 5, 6, other]


def test_negative_offsets() -> None:
    """ptxas refuses `-4` and wants `+-4`; so does the simulator."""
    text = f"""{HEAD}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    add.s64 %rd1, %rd1, 8;
    st.global.u32 [%rd1+-4], 7;
    ret;
}}
"""
    out = np.zeros(5, np.uint32)
    load(text)["k"].simulate(out, grid=1, block=1)
    assert out.tolist() == [0, 7, 0, 0, 0]
    with pytest.raises(SimulationError, match=r"write \+-4"):
        load(text.replace("+-4", "-4"))["k"].simulate(out, grid=1, block=1)


def test_addresses_of_parameters_in_32_bits() -> None:
    """As Triton passes tensor maps: `mov.b32` of a parameter, then cvta.param of the widened number."""
    k = assembled(f"""{HEAD}
.visible .entry k(.param .u64 out, .param .align 16 .b8 pair[16])
{{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [out];
    mov.b32 %r1, pair;
    cvt.u64.u32 %rd2, %r1;
    cvta.param.u64 %rd3, %rd2;
    ld.u32 %r2, [%rd3+4];
    ld.param.u32 %r3, [%r1+8];
    add.u32 %r4, %r1, 12;
    ld.param.u32 %r5, [%r4];
    st.global.v2.u32 [%rd1], {{%r2, %r3}};
    st.global.u32 [%rd1+8], %r5;
    ret;
}}
""")
    out = np.full(3, 0xA5A5A5A5, np.uint32)
    assert not k.simulate(out, np.arange(10, 14, dtype=np.uint32), grid=1, block=1).findings
    assert out.tolist() == [11, 12, 13]
