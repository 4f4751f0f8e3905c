"""What is printed of many findings of one mistake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyptx.diagnostics import Diagnostic, Origin
from pyptx.simulator.sanitizer import Finding
from pyptx.simulator.sanitizer.finding import MOST_FINDINGS
from pyptx.simulator.sanitizer.grouping import grouped

from .kernels import run

UNROLLED = "    st.shared.u32 [%r5], %r1;\n    " + " ".join(
    f"ld.shared.u32 %r{10 + i}, [buf+{4 * i}];" for i in range(6)
)


def finding(text: str, **fields: object) -> Finding:
    made = Finding("error", text, "kernel.py", 7, rule="race", instruction="ld.shared.u32 %r1, [%r0];")
    return replace(made, **fields)  # pyright: ignore[reportArgumentType]


def test_an_unrolled_mistake_is_told_once() -> None:
    report = run(UNROLLED)
    assert len(report.findings) == 6
    (told,) = report.distinct
    assert told.message.startswith(report.findings[0].message)
    assert "5 more" in told.message
    assert str(report).count("error:") == 1


def test_other_rules_lines_opcodes_and_sides_are_told_apart() -> None:
    there = Diagnostic("note", "there", "kernel.py", 3)
    kinds = [
        finding("a"),
        finding("b", rule="proxy"),
        finding("c", line=8),
        finding("d", instruction="@%p1 st.shared.u32 [%r0], %r1;"),
        finding("e", other=there),
        finding("f", line=None),
        finding("g", line=None),
    ]
    assert grouped(kinds) == kinds
    again = finding("h", instruction="@%p2 ld.shared.u32 %r9, [%r8];")
    assert [f.message[:1] for f in grouped([*kinds, again])] == list("abcdefg")


RACE = "    st.shared.u32 [%r5], %r1;\n    ld.shared.u32 %r38, [buf+28];\n    st.global.u32 [%rd5], %r38;\n"


def uses(count: int) -> str:
    """Uses of a register that was never written: as many findings."""
    return "    .reg .b32 %u;\n" + "    st.global.u32 [%rd5], %u;\n" * count


def test_a_rule_with_many_findings_hides_no_other() -> None:
    for count in (MOST_FINDINGS - 1, MOST_FINDINGS, MOST_FINDINGS + 1, 3 * MOST_FINDINGS):
        report = run(uses(count) + RACE)
        rules = [f.rule for f in report.findings if isinstance(f, Finding)]
        assert rules.count("uninitialised-register") == min(count, MOST_FINDINGS)
        assert rules.count("race") == 1
        notes = [f.message for f in report.findings if f.severity == "note"]
        assert ["uninitialised-register" in n and str(MOST_FINDINGS) in n for n in notes] == [True] * (
            count > MOST_FINDINGS
        )
        assert len(report.errors) == len(rules)


def test_threads_that_collide_are_counted_at_one_place() -> None:
    """8 places of 32 threads each."""
    found = run("    shr.u32 %r6, %r1, 5; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3;\n    st.shared.u32 [%r6], %r1;",
                block=256).findings  # fmt: skip
    assert [f.message.partition(" at buf")[0] for f in found] == [
        "32 threads write different values to the same place with one instruction, at 8 places, first"
    ]


@pytest.mark.parametrize(
    ("store", "grid", "block", "words"),
    [
        ("st.shared.u32 [buf], %r1", 1, 64, "64 threads write different values to the same place with one instruction"),
        ("@%p1 st.shared.u32 [buf], %r1", 1, 64, ""),
        # of each of two CTAs, and each warp has a value of its own
        ("st.shared.u32 [buf], %r1", 2, 64, "64 threads write different values to the same place with one instruction, at 2"),
        # 16 bytes are one place
        ("st.shared.v4.u32 [buf], {%r1, %r1, %r1, %r1}", 1, 32, "32 threads write different values to the same place with"),
        ("st.shared.v2.u32 [buf], {%r1, %r2}; st.shared.u32 [buf+64], %r3", 1, 64, "64 threads write"),
        # pairs of threads
        ("shr.u32 %r6, %r1, 1; shl.b32 %r6, %r6, 2; add.u32 %r6, %r6, %r3; st.shared.u32 [%r6], %r1", 1, 64,
         "2 threads write different values to the same place with one instruction, at 32 places"),
        # the last thread writes elsewhere
        ("st.global.u32 [%rd2], %r1", 1, 96, "96 threads"),
    ],
)  # fmt: skip
def test_counts_of_collisions(store: str, grid: int, block: int, words: str) -> None:
    found = run(f"    {store};", grid=grid, block=block).findings
    assert bool(found) == bool(words)
    assert all(f.message.startswith(words) for f in found), found


def test_unrolled_ptx_is_told_once_with_its_lines() -> None:
    """The lines of PTX differ, and so do registers and offsets."""
    lines = [f"    ld.shared.u32 %r{10 + i}, [buf+{4 * i}];" for i in range(6)]
    report = run("    st.shared.u32 [%r5], %r1;\n" + "\n".join(lines))
    (told,) = report.distinct
    assert told.line is not None
    assert told.message.endswith(f"; 5 more like this at lines {', '.join(str(told.line + i) for i in range(1, 6))}")
    texts = [f"ld.shared.u32 %r1, [{name}];" for name in ("buf+4", "buf+8", "other+4")]
    assert len(grouped([finding("a", filename="k.ptx", line=n, instruction=t) for n, t in enumerate(texts)])) == 2


def test_lines_of_the_source_decide_where_they_are_known() -> None:
    def at(line: int, ptx: int) -> Finding:
        return finding("a", filename="k.ptx", line=ptx, origin=(Origin("k.cu", line),))

    assert len(grouped([at(7, 10), at(7, 20), at(7, 30)])) == 1
    assert len(grouped([at(7, 10), at(8, 20)])) == 2
    # the other side is at another line
    there = [Diagnostic("note", "`st`", "k.ptx", n, origin=(Origin("k.cu", n),)) for n in (3, 4)]
    assert len(grouped([replace(at(7, 10), other=t) for t in there])) == 2


def test_causes_come_before_symptoms() -> None:
    symptom, cause = finding("a", rule="uninitialised-shared"), finding("b", rule="race")
    warning, note = finding("c", rule="tcgen05-fence", severity="warning"), Diagnostic("note", "d")
    depends = finding("e", rule="schedule-dependent")
    assert [f.message for f in grouped([note, warning, symptom, depends, cause])] == list("baecd")
    # a race of a run is told before the read of a place that its store has not reached yet
    report = run("    ld.shared.u32 %r10, [buf+4]; st.global.u32 [%rd5], %r10;\n    st.shared.u32 [%r5], %r1;")
    assert [f.rule for f in report.findings if isinstance(f, Finding)] == ["uninitialised-shared", "race"]
    assert [f.rule for f in report.distinct if isinstance(f, Finding)] == ["race", "uninitialised-shared"]


def test_long_lists_of_registers_show_their_ends() -> None:
    registers = ", ".join(f"%f{i}" for i in range(32))
    (told,) = grouped([finding(f"`wgmma {{{registers}}}, %rd1;`, `mov.b64 {{%r1, %r2}}, %rd1;`")])
    assert told.message == "`wgmma {%f0 to %f31}, %rd1;`, `mov.b64 {%r1, %r2}, %rd1;`"
