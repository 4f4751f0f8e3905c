"""Accesses need aligned addresses, also where the memory of an argument begins at an odd place; .shared::cta ones stay in their CTA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load

from .assembling import assembled

ENGINES = (None, "jit")

HEAD = """.version 9.5
.target {target}
.address_size 64
.global .align 1024 .b8 gg[4096]; .const .align 128 .b8 cc[4096];
.visible .entry k(.param .align 64 .b8 big[512], .param .u64 out) {{
    .reg .b16 %h<20>; .reg .b32 %r<20>; .reg .b64 %d<12>; .reg .b128 %q<4>; .reg .f32 %f<9>; .reg .f64 %g<9>; .reg .pred %p<4>;
    .shared .align 1024 .b8 s[8192]; .shared .align 8 .b64 bar; .local .align 64 .b8 l[256];
    ld.param.u64 %d0, [out]; mov.u32 %r1, s; mov.u32 %r3, bar; mov.u32 %r2, l;
    add.u32 %r1, %r1, {offset}; add.u64 %d0, %d0, {offset}; add.u32 %r2, %r2, {offset};
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0; mov.u64 %d6, 0;
    mbarrier.init.shared.b64 [%r3], 32;
"""

BULK = "mbarrier::complete_tx::bytes"
# an instruction and what its address must be divisible by: PTX ISA 6.4.1 (scalars, vectors), the instruction's own section
ACCESSES = [
    ("ld.global.v2.u32 {%r5, %r6}, [%d0];", 8), ("ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%d0];", 8),
    ("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d0];", 16), ("ld.global.v2.f64 {%g1, %g2}, [%d0];", 16),
    ("ld.global.b128 %q1, [%d0];", 16), ("ld.global.nc.v4.u32 {%r5, %r6, %r7, %r8}, [%d0];", 16),
    ("st.global.v4.u32 [%d0], {%r5, %r6, %r7, %r8};", 16), ("st.shared.v4.u32 [%r1], {%r5, %r6, %r7, %r8};", 16),
    ("ld.shared.v2.b64 {%d5, %d6}, [%r1];", 16), ("st.local.v4.u32 [%r2], {%r5, %r6, %r7, %r8};", 16),
    ("ld.v4.u32 {%r5, %r6, %r7, %r8}, [%d0];", 16), ("atom.global.add.u64 %d5, [%d0], 1;", 8),
    ("atom.global.v4.f32.add {%f1, %f2, %f3, %f4}, [%d0], {%f1, %f2, %f3, %f4};", 16),
    ("red.global.v2.f32.add [%d0], {%f1, %f2};", 8), ("atom.global.cas.b128 %q1, [%d0], %q2, %q3;", 16),
    ("ld.const.v4.u32 {%r5, %r6, %r7, %r8}, [cc+OFFSET];", 16), ("ld.param.v2.u32 {%r5, %r6}, [big+OFFSET];", 8),
    ("cp.async.ca.shared.global [s], [%d0], 8;", 8), ("cp.async.cg.shared.global [%r1], [gg], 16;", 16),
    (f"cp.async.bulk.shared::cluster.global.{BULK} [s], [%d0], 32, [%r3];", 16),
    ("cp.async.bulk.global.shared::cta.bulk_group [gg], [%r1], 32;", 16),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], [s], 32;", 16),
    ("cp.async.bulk.prefetch.L2.global [%d0], 32;", 16), ("applypriority.global.L2::evict_normal [%d0], 128;", 128),
    ("discard.global.L2 [%d0], 128;", 128), ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r1];", 16),
    ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r6};", 16), ("mbarrier.init.shared.b64 [%r1], 1;", 8),
    ("wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%r5, %r6, %r7, %r8}, [%d0];", 16),
    ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d0], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};", 32),
    ("multimem.red.global.add.v4.f32 [%d0], {%f1, %f2, %f3, %f4};", 16),
    (f"st.async.shared::cluster.{BULK}.v4.u32 [%r1], {{%r5, %r6, %r7, %r8}}, [%r3];", 16),
]  # fmt: skip
WIDE = [
    ("ld.global.v4.u64 {%d4, %d5, %d6, %d7}, [%d0];", 32),
    ("st.global.v8.b32 [%d0], {%r5, %r5, %r5, %r5, %r5, %r5, %r5, %r5};", 32),
    ("st.bulk.weak.shared::cta [%r1], 64, 0;", 8),
]


@pytest.mark.parametrize(
    ("instruction", "alignment", "target"), [*((*a, "sm_90a") for a in ACCESSES), *((*a, "sm_100a") for a in WIDE)]
)
def test_an_access_needs_its_alignment(instruction: str, alignment: int, target: str) -> None:
    for offset in (alignment, alignment // 2):
        source = HEAD.format(target=target, offset=offset) + instruction.replace("OFFSET", str(offset)) + "\nret; }"
        kernel = load(source)["k"]
        arguments = (bytes(512), np.zeros(8192, np.uint8))
        if offset % alignment == 0:
            kernel.simulate(*arguments, grid=1, block=32, check=False)
            continue
        with pytest.raises(SimulationError, match="misaligned") as caught:
            kernel.simulate(*arguments, grid=1, block=32, check=False)
        assert caught.value.diagnostics[0].line == 12


VIEWS = """.version 9.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out) {{
    .reg .b32 %r<8>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [x]; ld.param.u64 %d0, [out];
    {body}
    st.global.v4.u32 [%d0], {{%r0, %r1, %r2, %r3}};
    ret;
}}"""
WHOLE = "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d1+OFFSET];"
SINGLY = "".join(f"ld.global.u32 %r{i}, [%d1+{4 * i}];" for i in range(4))


def a_view(skipped: int, library: str) -> Any:
    if library == "torch":
        torch = pytest.importorskip("torch")
        return torch.arange(16, dtype=torch.int32)[skipped:]
    return np.arange(16, dtype=np.int32)[skipped:]


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("skipped", range(5))
def test_views_are_aligned_as_in_their_owner(skipped: int, library: str) -> None:
    """CUDA aligns an allocation to 256 bytes: `x[1:]` of floats is aligned to 4, and `ld.v4` of it faults."""

    def run(body: str) -> list[int]:
        out = np.zeros(4, np.uint32)
        assembled(VIEWS.format(body=body)).simulate(a_view(skipped, library), out, grid=1, block=1)
        return out.tolist()

    assert run(SINGLY) == [skipped + i for i in range(4)]
    for at in range(4):
        if (skipped + at) % 4:
            with pytest.raises(SimulationError, match="misaligned"):
                run(WHOLE.replace("OFFSET", str(4 * at)))
        else:
            assert run(WHOLE.replace("OFFSET", str(4 * at))) == [skipped + at + i for i in range(4)]


def test_views_of_bytes() -> None:
    data = np.random.default_rng(1).integers(0, 256, 64, np.uint8)
    for skipped in range(9):
        first = -skipped % 4
        out = np.zeros(4, np.uint32)
        body = f"ld.global.u32 %r0, [%d1+{first}]; ld.global.u8 %r1, [%d1]; ld.global.u16 %r2, [%d1+{first + 2}]; mov.u32 %r3, 0;"
        assembled(VIEWS.format(body=body)).simulate(data[skipped:], out, grid=1, block=1)
        place = skipped + first
        wanted = [int(data[place : place + 4].view(np.uint32)[0]), int(data[skipped])]
        assert out.tolist() == [*wanted, int(data[place + 2 : place + 4].view(np.uint16)[0]), 0]


def test_stores_through_views_land_in_the_owner() -> None:
    owner = np.zeros(12, np.int32)
    body = (
        "mov.u32 %r0, 1; mov.u32 %r1, 2; mov.u32 %r2, 3; mov.u32 %r3, 4; st.global.u32 [%d1], 9; add.s64 %d0, %d0, 8;"
    )
    assembled(VIEWS.format(body=body)).simulate(owner[:1], owner[2:8], grid=1, block=1)
    assert owner.tolist() == [9, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]


CLUSTER = """.version 9.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {{
    .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p<3>;
    .shared .align 128 .b8 s[4096]; .shared .align 8 .b64 bar;
    ld.param.u64 %d0, [out]; mov.u32 %r1, s; mov.u32 %r3, bar; mov.u32 %r9, %cluster_ctarank; mov.u32 %r10, {to}; mov.u32 %r5, 7;
    mapa.shared::cluster.u32 %r2, %r1, %r10; mapa.shared::cluster.u32 %r4, %r3, %r10;
    cvt.u64.u32 %d4, %r4; cvta.shared.u64 %d4, %d4; cvt.u64.u32 %d2, %r2; cvta.shared.u64 %d2, %d2;
    mbarrier.init.shared.b64 [%r3], 64;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.eq.u32 %p0, %r9, {source};
    @%p0 {instruction}
    barrier.cluster.arrive; barrier.cluster.wait;
    ret;
}}"""
OWN = [
    "st.shared.u32 [%r2], %r5;", "ld.shared::cta.v4.u32 {%r6, %r7, %r8, %r11}, [%r2];", "atom.shared.add.u32 %r6, [%r2], 1;",
    "red.shared::cta.add.u32 [%r2], 1;", "atom.shared.cas.b32 %r6, [%r2], 1, 2;", "ld.volatile.shared.u32 %r6, [%r2];",
    "mbarrier.arrive.shared.b64 _, [%r4];", "mbarrier.init.shared.b64 [%r4], 1;", "mbarrier.inval.shared.b64 [%r4];",
    "mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 1;", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 16;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 %d6, [%r4], 16;", "cp.async.mbarrier.arrive.shared.b64 [%r4];",
    "mbarrier.init.b64 [%d4], 1;", "mbarrier.test_wait.parity.b64 %p1, [%d4], 1;", "mbarrier.arrive.b64 %d6, [%d4];",
    "cp.async.ca.shared.global [%r2], [%d0], 16;", "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 16;",
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r2];", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r6};",
    f"cp.async.bulk.shared::cluster.shared::cta.{BULK} [%r1], [%r2], 16, [%r3];",
]  # fmt: skip
REMOTE = [
    "st.shared::cluster.u32 [%r2], %r5;", "st.u32 [%d2], %r5;", "atom.shared::cluster.add.u32 %r6, [%r2], 1;",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];",
    f"st.async.shared::cluster.{BULK}.u32 [%r2], %r5, [%r4];",
]  # fmt: skip


@pytest.mark.parametrize("instruction", [*OWN, *REMOTE])
def test_shared_cta_addresses_are_those_of_the_own_cta(instruction: str) -> None:
    """A `mapa` address of another CTA is outside the .shared::cta window, in both directions (PTX ISA 5.1.6)."""
    for source in range(2):
        for to in range(2):
            kernel = assembled(CLUSTER.format(source=source, to=to, instruction=instruction))
            launch: dict[str, Any] = {"grid": 2, "block": 32, "cluster": 2, "check": False}
            if source != to and instruction in OWN:
                with pytest.raises(SimulationError, match=f"of CTA {to} of the cluster.* in CTA {source}"):
                    kernel.simulate(np.zeros(64, np.uint8), **launch)
            else:
                kernel.simulate(np.zeros(64, np.uint8), **launch)


def test_the_barrier_of_a_cooperative_grid() -> None:
    """nvcc 13.5's code for `cg::this_grid().sync()`: each round, everybody takes the neighbour's number plus one."""
    kernel = load(Path(__file__).parent.parent / "data" / "ptx" / "nvcc_grid_sync.ptx")["coop"]
    data = np.arange(3 * 64, dtype=np.int32) ** 2
    wanted = data.copy()
    for _ in range(2):
        wanted = np.roll(wanted, -1) + 1
    out = np.zeros_like(data)
    assert not kernel.simulate(data, out, 2, grid=3, block=64, cooperative=True).findings
    assert np.array_equal(out, wanted + 1000)  # is_valid()
    with pytest.raises(SimulationError, match="trapped") as caught:
        kernel.simulate(data, out, 2, grid=3, block=64)
    assert "cooperative=True" in str(caught.value)
