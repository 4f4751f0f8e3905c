"""Per-thread values against plain Python arithmetic, and what a join or a loop makes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyptx
from pyptx.analysis.report import analyse
from pyptx.analysis.threads import CTA, PER_WARP, VARYING, branch_level
from pyptx.dialects.ptx.control import BranchIndexed
from pyptx.dialects.ptx.instruction import Instruction
from pyptx.dialects.ptx.structure import ModuleOp

from .kernels import report_of

M32 = 0xFFFF_FFFF
STEPS: dict[str, Callable[[int, int], int]] = {
    "add.u32 {d}, {a}, {c};": lambda a, c: a + c,
    "sub.u32 {d}, {a}, {c};": lambda a, c: a - c,
    "mul.lo.u32 {d}, {a}, {c};": lambda a, c: a * c,
    "and.b32 {d}, {a}, {c};": lambda a, c: a & c,
    "or.b32 {d}, {a}, {c};": lambda a, c: a | c,
    "xor.b32 {d}, {a}, {c};": lambda a, c: a ^ c,
    "shl.b32 {d}, {a}, {s};": lambda a, c: a << (c % 32),
    "shr.u32 {d}, {a}, {s};": lambda a, c: a >> (c % 32),
    "shr.s32 {d}, {a}, {s};": lambda a, c: signed(a) >> (c % 32),
    "mad.lo.s32 {d}, {a}, {c}, %r1;": lambda a, c: a * c,
    "not.b32 {d}, {a};": lambda a, c: ~a,
    "min.s32 {d}, {a}, {c};": lambda a, c: min(signed(a), signed(c)),
    "max.u32 {d}, {a}, {c};": lambda a, c: max(a, c),
    "div.u32 {d}, {a}, {n};": lambda a, c: a // (c % 7 + 1),
    "rem.u32 {d}, {a}, {n};": lambda a, c: a % (c % 7 + 1),
    "bfe.u32 {d}, {a}, 3, 5;": lambda a, c: a >> 3 & 31,
    "lop3.b32 {d}, {a}, {c}, %r1, 0x96;": lambda a, c: a ^ c,
}


def signed(value: int) -> int:
    value &= M32
    return value - (1 << 32) if value >> 31 else value


def last_value(report, name: str):
    found = [
        r
        for block in report.cfg.blocks
        for op in block.ops
        if isinstance(op, Instruction)
        for r in op.results
        if r.type.data[1] == name
    ]
    return found[-1]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, M32) | st.integers(0, 64)),
        min_size=1,
        max_size=8,
    )
)
def test_integer_chains_are_exact_per_thread(chain: list[tuple[str, int]]) -> None:
    text = ["\tmov.u32 %r1, %tid.x;"]
    wanted = list(range(128))
    for i, (template, constant) in enumerate(chain):
        fill = {
            "d": f"%r{i + 2}",
            "a": f"%r{i + 1}",
            "c": str(constant),
            "s": str(constant % 32),
            "n": str(constant % 7 + 1),
        }
        text.append("\t" + template.format(**fill))
        tid = range(128)
        extra = [t if "%r1;" in template or "%r1, 0x96" in template else 0 for t in tid]
        compute = STEPS[template]
        if "lop3" in template:
            wanted = [compute(w, constant) ^ e for w, e in zip(wanted, extra, strict=True)]
        else:
            wanted = [compute(w, constant) + e for w, e in zip(wanted, extra, strict=True)]
        wanted = [w & M32 for w in wanted]
    name = f"%r{len(chain) + 1}"
    report = report_of("\n".join([*text, f"\tst.global.u32 [%rd1], {name};", "\tret;"]), directives=".reqntid 128")
    lanes = report.threads.lanes(last_value(report, name))
    assert lanes is not None
    assert lanes.known
    assert [int(n) & M32 for n in report.threads.per_thread(lanes)] == wanted


def test_address_of_a_two_dimensional_tile() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mov.u32 %r3, tile;
	mad.lo.u32 %r4, %r2, 132, %r3;
	shl.b32 %r5, %r1, 2;
	add.u32 %r6, %r4, %r5;
	st.shared.u32 [%r6+8], %r1;
	ret;""",
        declarations=".shared .align 16 .b8 tile[4224];",
        directives=".reqntid 32, 8",
    )
    (use,) = report.banks
    assert use.address == "4*tid.x + 132*tid.y + tile + 8"


@pytest.mark.parametrize(
    ("body", "name", "level"),
    [
        ("\tmov.u32 %r1, %ctaid.x;\n\tadd.u32 %r2, %r1, 1;", "%r2", CTA),
        ("\tmov.u32 %r1, %tid.x;\n\tshr.u32 %r2, %r1, 5;", "%r2", PER_WARP),
        ("\tmov.u32 %r1, %tid.x;\n\tshr.u32 %r2, %r1, 4;", "%r2", VARYING),
        (
            "\tmov.u32 %r1, %tid.x;\n\tshr.u32 %r3, %r1, 5;\n\tshfl.sync.idx.b32 %r2, %r3, 0, 31, -1;",
            "%r2",
            PER_WARP,
        ),
        (
            "\tmov.u32 %r1, %tid.x;\n\tsetp.eq.u32 %p1, %r1, 0;\n\tvote.sync.ballot.b32 %r2, %p1, -1;",
            "%r2",
            PER_WARP,
        ),
        ("\tld.param.u64 %rd1, [p];\n\tld.global.u32 %r2, [%rd1];", "%r2", CTA),
        ("\tmov.u32 %r1, %tid.x;\n\tcvt.u64.u32 %rd1, %r1;\n\tld.global.u32 %r2, [%rd1];", "%r2", VARYING),
        ("\tld.param.u64 %rd1, [p];\n\tatom.global.add.u32 %r2, [%rd1], 1;", "%r2", VARYING),
    ],
)
def test_levels(body: str, name: str, level: int) -> None:
    report = report_of(body + f"\n\tst.global.u32 [%rd9], {name};\n\tret;", directives=".reqntid 128")
    assert report.threads.level(last_value(report, name)) == level


def test_a_loop_counter_is_an_unknown_of_all_threads() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	mov.u32 %r3, 0;
L:
	mov.u32 %r4, buffer;
	add.u32 %r5, %r4, %r2;
	ld.shared.u32 %r6, [%r5];
	add.u32 %r2, %r2, 512;
	add.u32 %r3, %r3, 1;
	setp.lt.u32 %p1, %r3, 8;
	@%p1 bra L;
	ret;""",
        declarations=".shared .align 16 .b8 buffer[4096];",
        directives=".reqntid 128",
    )
    (use,) = report.banks
    assert use.ways == 1
    assert use.address is not None
    assert use.address.startswith("4*tid.x + 512*%r2")
    assert report.trips == [8]


def test_a_join_of_a_divergent_branch_varies() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 1;
	setp.lt.u32 %p1, %r1, 3;
	@%p1 bra L;
	mov.u32 %r2, 2;
L:
	add.u32 %r3, %r2, 0;
	st.global.u32 [%rd1], %r3;
	ret;""",
        directives=".reqntid 128",
    )
    assert report.threads.level(last_value(report, "%r3")) == VARYING


def test_guarded_moves_choose_per_thread() -> None:
    report = report_of(
        """
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 3;
	mov.u32 %r2, 7;
	@%p1 mov.u32 %r2, 5;
	st.global.u32 [%rd1], %r2;
	ret;""",
        directives=".reqntid 64",
    )
    lanes = report.threads.lanes(last_value(report, "%r2"))
    assert lanes is not None
    assert np.array_equal(report.threads.per_thread(lanes), np.where(np.arange(64) < 3, 5, 7))


def test_the_largest_shift_does_not_overflow() -> None:
    report = report_of("\tmov.u64 %rd1, %clock64;\n\tshl.b64 %rd2, %rd1, 63;\n\tst.global.u64 [%rd2], %rd1;\n\tret;")
    assert report.threads.level(last_value(report, "%rd2")) == VARYING


@pytest.mark.parametrize("directive", [".maxntid 4294967296", ".reqntid 2048, 2048, 64", ".maxntid 1025"])
def test_shapes_that_no_launch_has(directive: str) -> None:
    """Values of 2**32 threads would need 32 GiB; the shape is then the one that is assumed without a directive."""
    module = pyptx.parse(
        f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {directive}\n{{\nret;\n}}\n"
    )
    (report,) = analyse(next(op for op in module.body.block.ops if isinstance(op, ModuleOp)))
    assert (report.threads.shape, report.threads.count) == ((128, 1, 1), 128)


@pytest.mark.parametrize(("index", "level"), [("1", CTA), ("%r1", CTA), ("%r0", VARYING)])
def test_the_index_of_a_branch_table_may_be_a_constant(index: str, level: int) -> None:
    body = f"mov.u32 %r1, %ctaid.x;\nmov.u32 %r0, %tid.x;\nT: .branchtargets A, B;\nbrx.idx {index}, T;\nA:\nB:\nret;"
    report = report_of(body)
    branch = next(op for block in report.cfg.blocks for op in block.ops if isinstance(op, BranchIndexed))
    assert branch_level(branch, report.threads) == level
