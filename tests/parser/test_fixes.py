"""Fixes: what a message proposes is accepted by ptxas when it is applied, and it is what an author wants to hear."""

from __future__ import annotations

import re

import pytest

import pyptx
from benchmarks import hints
from pyptx.diagnostics import Diagnostic, Edit, Fix
from pyptx.parser import fixes
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool

BODY = """.version {version}
.target {target}
.address_size 64
.global .b32 foo_bar;
.shared .b32 sb;
.func fn() {{ ret; }}
.visible .entry k(.param .u64 prm)
{{
	.reg .pred %p<9>;
	.reg .b16 %h<9>;
	.reg .b32 %r<9>;
	.reg .f32 %f<9>;
	.reg .b64 %rd<9>;
	{line}
L1:
	ret;
}}
"""


@pytest.fixture(scope="module", autouse=True)
def _ptxas() -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")


def text_of(line: str, version: str = "8.7", target: str = "sm_90a") -> str:
    return BODY.format(version=version, target=target, line=line)


def accepted(text: str) -> bool:
    target = re.search(r"\.target (\w+)", text)
    assert target is not None
    return assemble(text, target[1], check_only=True).ok


def one(text: str) -> Diagnostic:
    (found,) = pyptx.diagnose(text)
    return found


CASES = [
    ("mov.u32 r1, 1;", "mov.u32 %r1, 1;"),
    ("mov.u32 %r1, %threadid.x;", "mov.u32 %r1, %tid.x;"),
    ("mov.u32 %r1, tid.x;", "mov.u32 %r1, %tid.x;"),
    ("mov.u32 %r1, threadIdx.x;", "mov.u32 %r1, %tid.x;"),
    ("mov.u32 %r1, %tid;", "mov.u32 %r1, %tid.x;"),
    ("%p1 bra L1;", "@%p1 bra L1;"),
    ("@p1 bra L1;", "@%p1 bra L1;"),
    ("@%r1 bra L1;", "@%p1 bra L1;"),
    ("ld.global.u32 %r1, [foo.bar];", "ld.global.u32 %r1, [foo_bar];"),
    ("ld.global.u32 %r1, [foobar];", "ld.global.u32 %r1, [foo_bar];"),
    ("add.s8 %r1, %r2, %r3;", "add.s32 %r1, %r2, %r3;"),
    ("add.s23 %r1, %r2, %r3;", "add.s32 %r1, %r2, %r3;"),
    ("add.s32 %r1, %rd2, %r3;", "add.s32 %r1, %r2, %r3;"),
    ("add.s32 %rd1, %rd2, %rd3;", "add.s64 %rd1, %rd2, %rd3;"),
    ("add.s32 %r1, %r2;", "add.s32 %r1, %r1, %r2;"),
    ("add.s32 %r1, %r2 %r3;", "add.s32 %r1, %r2, %r3;"),
    ("add.s32 %r1, %r2, %r3", "add.s32 %r1, %r2, %r3;"),
    ("add.s32 %r1, %r2, %r3, %r4;", "add.s32 %r1, %r2, %r3;"),
    ("add.f32 %f1, %f2, 1;", "add.f32 %f1, %f2, 1.0;"),
    ("mul.s32 %r1, %r2, %r3;", "mul.lo.s32 %r1, %r2, %r3;"),
    ("mul.s32.lo %r1, %r2, %r3;", "mul.lo.s32 %r1, %r2, %r3;"),
    ("fma.f32 %f1, %f2, %f3, %f4;", "fma.rn.f32 %f1, %f2, %f3, %f4;"),
    ("add.rn.s32 %r1, %r2, %r3;", "add.s32 %r1, %r2, %r3;"),
    ("st.weak.gpu.global.u32 [%rd1], %r1;", "st.weak.global.u32 [%rd1], %r1;"),
    ("ld.global.u32 %r1, %rd1;", "ld.global.u32 %r1, [%rd1];"),
    ("ld.global.u32 %r1, [%rd1;", "ld.global.u32 %r1, [%rd1];"),
    ("ld.global.u32 %r1, [%rd1-4];", "ld.global.u32 %r1, [%rd1+-4];"),
    ("ld.global.u32 %r1, [sb];", "ld.shared.u32 %r1, [sb];"),
    ("ld.u64 %rd1, [prm];", "ld.param.u64 %rd1, [prm];"),
    ("movs.u32 %r1, 3;", "mov.u32 %r1, 3;"),
    ("set.gt.u32 %p1, %r1, 10;", "setp.gt.u32 %p1, %r1, 10;"),
    ("bra L2;", "bra L1;"),
    ("call fm, ();", "call fn, ();"),
    ("bar.sync;", "bar.sync 0;"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "right"), CASES)
def test_what_is_proposed_is_right_and_assembles(wrong: str, right: str) -> None:
    text = text_of(wrong)
    assert not accepted(text)
    found = one(text)
    proposed = [fix.apply(text) for fix in found.fixes]
    assert text_of(right) in proposed
    assert [p for p in proposed if not accepted(p)] == []


def test_the_hint_names_the_words_of_the_fixes() -> None:
    found = one(text_of("fma.rn.rz.f32 %f1, %f2, %f3, %f4;"))
    assert found.hint is not None
    assert found.hint.split("\n")[0] == "remove .rz or .rn"
    assert [fix.title for fix in found.fixes] == ["remove .rz", "remove .rn"]


def test_nothing_is_proposed_that_the_operands_do_not_allow() -> None:
    found = one(text_of("mul.u32 %r1, %r2, %r3;"))
    assert ".wide" not in found.message  # its result has 64 bits: ptxas refuses it here
    assert not accepted(text_of("mul.wide.u32 %r1, %r2, %r3;"))


NEEDS = [
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "8.0", "sm_80"),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "8.0", "sm_89"),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "9.5", "sm_80"),
    ("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "7.0", "sm_80"),
    ("add.u16x2 %r1, %r2, %r3;", "7.8", "sm_80"),
    ("add.sat.u32 %r1, %r2, %r3;", "8.7", "sm_90a"),
    ("wgmma.fence.sync.aligned;", "7.8", "sm_80"),
    ("tcgen05.fence::before_thread_sync;", "8.0", "sm_90"),
    ("red.async.mmio.release.sys.global.add.u32 [%rd1], %r1;", "8.0", "sm_90"),
    ("ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];", "8.0", "sm_80"),
    ("redux.sync.max.abs.f32 %f1, %f2, 1;", "7.0", "sm_80"),
    ("fence.acq_rel.cluster;", "7.0", "sm_80"),
    ("mov.u32 %r1, %cluster_ctarank;", "7.0", "sm_75"),
    ("max.f32 %f1, %f2, %f3, %f4;", "7.0", "sm_80"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "version", "target"), NEEDS)
def test_a_requirement_names_all_that_is_needed(line: str, version: str, target: str) -> None:
    """What the message names, and nothing else, makes ptxas accept the instruction."""
    text = text_of(line, version, target)
    assert not accepted(text)
    found = one(text)
    (fix,) = [f for f in found.fixes if f.title.startswith("use ")]
    assert accepted(fix.apply(text))
    named = re.search(r"PTX (\d+\.\d+)", found.message), re.search(r"target (sm_\w+)", found.message)
    assert any(named)
    if named[0] is not None and named[1] is None:
        assert accepted(text_of(line, named[0][1], target))
    for target_named, version_named in re.findall(
        r"target (sm_\w+)[^,]*?(?: and PTX (\d+\.\d+) or newer)?(?=,)", found.message
    ):
        first = hints.parse_version(version_named or version)
        newest = max(first, hints.FIRST_PTX[target_named])  # the target itself may be newer than the form
        assert accepted(text_of(line, f"{newest[0]}.{newest[1]}", target_named))


def test_fp8_on_sm_89_needs_a_newer_version_only() -> None:
    found = one(text_of("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "8.0", "sm_89"))
    assert "needs PTX 8.1 or newer" in found.message
    assert "sm_90" not in found.message
    assert [fix.title for fix in found.fixes] == ["use PTX 8.1"]


def test_edits_of_one_fix_are_made_together() -> None:
    fix = Fix("", (Edit(1, 1, 1, 2, "xyz"), Edit(2, 2, 2, 2, "!"), Edit(1, 3, 2, 1, "")))
    assert fix.apply("abc\nde") == "xyzbd!e"


def test_many_errors_cost_a_bounded_number_of_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    read = fixes.read_instruction

    def counted(*arguments: object, **more: object) -> object:
        nonlocal tries
        tries += 1
        return read(*arguments, **more)  # pyright: ignore

    monkeypatch.setattr(fixes, "read_instruction", counted)
    lines = "\n".join(f"\tadd.s32 %r{i % 9}, nosuch{i}.y, {i};" for i in range(600))
    assert len(pyptx.diagnose(text_of(lines))) == 600
    assert tries < 2 * fixes._TRIES


def test_proposals_for_single_faults_assemble() -> None:
    """The benchmark on the project's own instructions: at least 95 % of the proposals are legal, and most edits have one."""
    many, proposed = hints.measure(hints.faults(120, 11, sources=("own",)), hints.fixes)
    legal = [p for p in proposed if p.legal]
    assert len(many) == 120
    assert len(proposed) > 100
    assert len(legal) >= 0.95 * len(proposed)
    assert len({id(p.fault) for p in legal}) >= 0.7 * len(many)


def test_a_fix_is_of_its_own_label() -> None:
    """Branches share one shape: the first one's label must not be in the fixes of the others."""
    for label in ("NOWHERE", "L2", "L3"):
        one(text_of(f"bra {label};"))
    assert text_of("bra L1;") in [fix.apply(text_of("bra L2;")) for fix in one(text_of("bra L2;")).fixes]
    guarded = text_of("@%r1 bra L1;")
    assert text_of("@%p1 bra L1;") in [fix.apply(guarded) for fix in one(guarded).fixes]


def test_a_register_beyond_its_range_is_declared_by_a_wider_one() -> None:
    text = text_of("add.u32 %r12, %r9, 1;")
    found = [d for d in pyptx.diagnose(text) if d.fixes]
    assert [f.title for f in found[0].fixes][:1] == ["declare `%r<13>`"]
    assert accepted(found[0].fixes[0].apply(text))
    inner = text_of("{ .reg .b32 %r<3>; add.u32 %r9, %r1, 1; }")
    assert accepted(one(inner).fixes[0].apply(inner))  # the range of the scope around it is too short as well


def test_what_follows_a_missing_semicolon_is_judged() -> None:
    found = pyptx.diagnose(text_of("add.u32 %r1, %r2, %r3\n\tmov.u32 %r1, %q7;\n\tmov.u32 %r2, 5"))
    assert [(d.line, d.message) for d in found] == [
        (14, "expected ';' after '%r3'"),
        (15, "%q7 is not declared"),
        (16, "expected ';' after '5'"),
    ]
    assert all("\n" not in f.title for d in found for f in d.fixes)


@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        ("vote.sync.any.pred %p1, %p2;", "vote takes 3 operands, not 2: operand membermask is missing", 26),
        ("atom.global.add.u32 %r1, 5;", "atom takes 3 or 4 operands, not 2: operand a is missing", 27),
        ("ld.global.u32 [%rd1];", "ld takes 2 or 3 operands, not 1: operand d is missing", 16),
        ("bfe.u32 %r1, %r2, %r3;", "bfe takes 4 operands, not 3", 20),
        ("shfl.sync.idx.b32 %r1, %r2, %r3, 31;", "shfl takes 5 operands, not 4", 35),
    ],
)
def test_a_missing_operand_is_named_where_the_others_tell_it(line: str, message: str, column: int) -> None:
    found = one(text_of(line))
    assert (found.message, found.column) == (message, column)
    assert not any("result once more" in f.title for f in found.fixes)


def test_nothing_is_proposed_around_a_character_of_no_token() -> None:
    """A comma tried after it would make an operand of it."""
    text = text_of("mov.f32\x03 f;")
    assert all("\x03" not in fix.apply(text).split("L1:")[0] for d in pyptx.diagnose(text) for fix in d.fixes)
