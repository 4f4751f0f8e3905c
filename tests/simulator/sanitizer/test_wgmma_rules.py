"""Accumulators of wgmma and of the matrix instructions of a warp."""

from __future__ import annotations

import pytest

from pyptx.simulator.sanitizer import Finding

from .kernels import breaks, run, silent
from .wgmma_pieces import BEGIN, DESCRIPTORS, END, FILL, PROXY

# ------------------------------------------------------------------------------------------------ accumulators
KINDS = [
    # (modifiers, registers of D, metadata of sparse A, what follows scale-d)
    ("m64n8k16.f32.bf16.bf16", 4, "", ", 1, 1, 0, 0"),
    ("m64n16k16.f32.f16.f16", 8, "", ", 1, 1, 0, 0"),
    ("m64n8k16.f16.f16.f16", 2, "", ", 1, 1, 0, 0"),
    ("m64n8k8.f32.tf32.tf32", 4, "", ", 1, 1"),
    ("m64n8k32.f32.e4m3.e5m2", 4, "", ", 1, 1"),
    ("m64n8k32.s32.s8.u8", 4, "", ""),
    ("m64n8k256.s32.b1.b1.and.popc", 4, "", ""),
    ("sp.m64n8k32.f32.bf16.bf16", 4, "%r36, 0, ", ", 1, 1, 0, 0"),
    ("sp.m64n8k64.s32.s8.s8", 4, "%r36, 0, ", ""),
]


def product(kind: tuple[str, int, str, str], scale: str, mark: str = "") -> str:
    name, count, metadata, rest = kind
    sparse = ".sp" if name.startswith("sp.") else ""
    name = name.removeprefix("sp.")
    registers = ", ".join(f"%acc{i}" for i in range(count))
    return f"    wgmma.mma_async{sparse}.sync.aligned.{name} {{{registers}}}, %rd10, %rd12, {metadata}{scale}{rest};{mark}\n"


def accumulating(kind: tuple[str, int, str, str], setup: str, scale: str, mark: str = "") -> str:
    declared = "    .reg .b32 %acc<8>; mov.u32 %r36, 0x44444444;\n"
    return declared + FILL + PROXY + DESCRIPTORS + setup + BEGIN + product(kind, scale, mark) + END


def zeros(numbers: range) -> str:
    return "".join(f"    mov.b32 %acc{i}, 0;\n" for i in numbers)


TRUE, FALSE = "    setp.eq.u32 %p7, 1, 1;\n", "    setp.eq.u32 %p7, 1, 0;\n"


@pytest.mark.parametrize("kind", KINDS, ids=[k[0] for k in KINDS])
def test_an_accumulator_that_nobody_wrote(kind: tuple[str, int, str, str]) -> None:
    """D is read if scale-d is true (PTX ISA 9.7.17.5.2: D = A * B + D), as a constant or in a predicate."""
    count = kind[1]
    for setup, scale in (("", "1"), (TRUE, "%p7"), (FALSE, "!%p7"), (zeros(range(1, count)), "1")):
        breaks(accumulating(kind, setup, scale, " //!"), "uninitialised-register", block=128)
    for setup, scale in (
        ("", "0"),
        (FALSE, "%p7"),
        (TRUE, "!%p7"),
        (zeros(range(count)), "1"),
        (zeros(range(count)) + TRUE, "%p7"),
    ):
        found = run(accumulating(kind, setup, scale), block=128).findings
        assert not found, "\n".join(map(str, found))


def test_the_first_round_of_a_loop_starts_from_nothing() -> None:
    """As CUTLASS writes it: scale-d is false in the first round. If it is true there, that is found."""
    loop = (
        "    .reg .b32 %acc<8>;\n"
        + FILL
        + PROXY
        + DESCRIPTORS
        + "    mov.u32 %r14, {};\n$loop:\n    setp.ne.u32 %p7, %r14, 0;\n"
        + BEGIN
        + product(KINDS[0], "%p7", "{}")
        + END
        + "    add.u32 %r14, %r14, 1; setp.lt.u32 %p6, %r14, 3; @%p6 bra $loop;\n    st.global.b32 [%rd5], %acc0;"
    ).replace("{%acc0, %acc1, %acc2, %acc3}", "{{%acc0, %acc1, %acc2, %acc3}}")
    silent(loop.format(0, ""), block=128)
    breaks(loop.format(1, " //!"), "uninitialised-register", block=128)


MMA_SYNC = [
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%acc0, %acc1, %acc2, %acc3}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, "
    "{%acc0, %acc1, %acc2, %acc3};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%acc0, %acc1, %acc2, %acc3}, {%r10, %r10, %r10, %r10}, {%r10, %r10}, "
    "{%acc0, %acc1, %acc2, %acc3};",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%acc0, %acc1, %acc2, %acc3}, "
    "{%r10, %r10, %r10, %r10}, {%r10, %r10, %r10, %r10}, {%acc0, %acc1, %acc2, %acc3}, %r36, 0x0;",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32 {%acc0, %acc1, %acc2, %acc3, %acc4, %acc5, %acc6, %acc7}, "
    "{%r10, %r10, %r10, %r10}, {%r10, %r10, %r10, %r10}, {%acc0, %acc1, %acc2, %acc3, %acc4, %acc5, %acc6, %acc7};",
]  # fmt: skip


@pytest.mark.parametrize("product", MMA_SYNC, ids=[p.split(" ")[0] for p in MMA_SYNC])
def test_accumulators_of_the_matrix_instructions_of_a_warp(product: str) -> None:
    head = "    .reg .b32 %acc<8>; mov.u32 %r36, 0x44444444; mov.u32 %r10, 0;\n"
    silent(head + zeros(range(8)) + "    " + product, block=32)
    found = run(head + "    " + product, block=32).errors
    assert {f.rule for f in found if isinstance(f, Finding)} == {"uninitialised-register"}
