"""What is printed of many findings of one mistake."""

from __future__ import annotations

from dataclasses import replace

from pyptx.diagnostics import Diagnostic
from pyptx.simulator.sanitizer import Finding
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


def test_long_lists_of_registers_show_their_ends() -> None:
    registers = ", ".join(f"%f{i}" for i in range(32))
    (told,) = grouped([finding(f"`wgmma {{{registers}}}, %rd1;`, `mov.b64 {{%r1, %r2}}, %rd1;`")])
    assert told.message == "`wgmma {%f0 to %f31}, %rd1;`, `mov.b64 {%r1, %r2}, %rd1;`"
