"""setmaxnreg: the registers that threads start with, as ptxas derives them, and what the warps of a warpgroup owe each other."""

from __future__ import annotations

import re

import pytest

from pyptx.diagnostics import Diagnostic
from pyptx.runtime.ptxas import ToolNotFound, assemble, find_tool
from pyptx.simulator import load
from pyptx.simulator.sanitizer import Finding
from pyptx.simulator.sanitizer.rules.setmaxnreg import registers_at_entry


def kernel(directives: str, body: str) -> str:
    return f""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
{directives}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<8>;
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.lt.u32 %p1, %r1, 128;
{body}
    ret;
}}
"""


def setmaxnreg(action: str, count: int) -> str:
    return f"    setmaxnreg.{action}.sync.aligned.u32 {count};\n" if count else ""


def roles(dec: int, inc: int) -> str:
    """The first warpgroup gives registers back, the others take some."""
    return f"@%p1 bra $producer;\n{setmaxnreg('inc', inc)}bra $end;\n$producer:\n{setmaxnreg('dec', dec)}$end:\n"


def findings(text: str, block: int) -> list[Diagnostic]:
    found = load(text)["k"].simulate(grid=2, block=block).findings
    assert all(isinstance(f, Finding) and f.rule == "setmaxnreg" and f.section == "9.7.21.5" for f in found)
    return found


BOUNDS = [
    ".maxnreg 64", ".maxnreg 100", ".reqntid 384 .maxnreg 168", ".maxnreg 128 .reqntid 640 .minnctapersm 1", ".reqntid 384",
    ".maxntid 256", ".maxntid 16,16,1 .minnctapersm 2", ".maxntid 384 .minnctapersm 1",
    *(f".reqntid {threads},1,1 .minnctapersm {ctas}" for threads in (64, 192, 256, 288, 416, 512) for ctas in (1, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("dec", "inc"), [(24, 240), (24, 160), (24, 0)])
def test_threads_start_with_what_ptxas_says(bounds: str, dec: int, inc: int) -> None:
    """ptxas is the authority: the registers it reports, which are allocated in units of eight; it says if it ignores
    setmaxnreg.
    """
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("needs ptxas")
    text = kernel(bounds, roles(dec, inc))
    result = assemble(text, "sm_90a").raise_on_error()
    used = re.search(r"Used (\d+) registers", result.log)
    assert used
    expected = None if "'setmaxnreg' ignored" in result.log else -(-int(used[1]) // 8) * 8
    assert registers_at_entry(load(text)["k"].loaded.program("k")) == expected


@pytest.mark.parametrize(
    ("bounds", "dec", "inc", "words"),
    [
        (".reqntid 384 .minnctapersm 1", 24, 240, ""),  # 168 registers at entry: 24 + 2 * 240 = 3 * 168
        (".reqntid 384 .minnctapersm 1", 40, 240, "registers together"),
        (".reqntid 384 .minnctapersm 1", 24, 248, "registers together"),
        (".reqntid 384 .minnctapersm 1", 24, 160, ""),  # ptxas starts the threads with 160
        (".reqntid 384 .minnctapersm 1", 176, 240, "setmaxnreg.dec 176 of a warp that has 168"),
        (".reqntid 384", 40, 240, ""),  # ptxas ignores it
        (".reqntid 384 .maxnreg 176", 40, 240, ""),
        (".reqntid 384 .minnctapersm 2", 40, 240, "registers together"),
        (".reqntid 256,1,1 .minnctapersm 1", 40, 232, ""),
    ],
)
def test_registers_that_warps_hand_to_each_other(bounds: str, dec: int, inc: int, words: str) -> None:
    found = findings(kernel(bounds, roles(dec, inc)), 256 if "256" in bounds else 384)
    assert bool(found) == bool(words)
    assert not words or any(words in f.message for f in found)


def test_a_warp_takes_less_than_it_has() -> None:
    meet = "    bar.sync 0;\n"
    text = kernel(".reqntid 128 .minnctapersm 1", setmaxnreg("inc", 240) + meet + setmaxnreg("inc", 200))
    assert ["setmaxnreg.inc 200 of a warp that has 240" in f.message for f in findings(text, 128)] == [True]


INC, DEC, MEET = setmaxnreg("inc", 160), setmaxnreg("dec", 40), "    bar.sync 0;\n"


@pytest.mark.parametrize(
    ("body", "words", "severity"),
    [
        ("    setp.ne.u32 %p2, %r2, 3; @!%p2 bra $skip;\n" + DEC + "$skip:\n", "3 of the 4 warps", "error"),
        ("    setp.eq.u32 %p2, %r2, 0; @!%p2 bra $skip;\n" + DEC + "$skip:\n", "1 of the 4 warps", "error"),
        ("    setp.eq.u32 %p2, %r2, 0; @%p2 bra $a;\n" + DEC + "bra $e;\n$a:\n" + setmaxnreg("dec", 48) + "$e:\n",
         "different setmaxnreg", "error"),
        (DEC + INC, "have not synchronised", "warning"),
        (DEC + "    bar.warp.sync 0xffffffff;\n" + INC, "have not synchronised", "warning"),
        (DEC + MEET + INC, "", ""),
        # warps of one warpgroup in different branches, with the same count
        ("    setp.eq.u32 %p2, %r2, 0; @%p2 bra $a;\n" + DEC + "bra $e;\n$a:\n" + DEC + "$e:\n", "", ""),
    ],
)  # fmt: skip
def test_a_warpgroup_executes_it_together(body: str, words: str, severity: str) -> None:
    """The manual: all warps of a warpgroup execute the same one and synchronise before the next, or it is undefined."""
    found = findings(kernel(".reqntid 128 .maxnreg 160", body), 128)
    assert [(words in f.message, f.severity) for f in found] == ([(True, severity)] if words else [])


def test_other_warpgroups_need_not_follow() -> None:
    assert not findings(kernel(".reqntid 256 .maxnreg 160", "    @!%p1 bra $e;\n" + DEC + "$e:\n"), 256)
