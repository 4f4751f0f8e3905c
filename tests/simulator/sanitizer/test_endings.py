"""Spin loops that can end do end, although all threads poll; those that cannot are told."""

from __future__ import annotations

from random import Random

import pytest

from pyptx.diagnostics import SimulationError

from .kernels import run


def program(random: Random, stuck: bool) -> str:
    """Two threads that take turns with a word by atomics. Each takes it when it holds the thread's number, and gives it on;
    `stuck`: the second gives it to nobody.
    """
    rounds = random.randint(160, 330)
    take = random.choice(["atom.global.cas.b32 %r10, [%rd2], {me}, {to};", "ld.relaxed.gpu.global.u32 %r10, [%rd2];"])
    lines = ["setp.gt.u32 %p2, %r1, 1; @%p2 bra $end; mov.u32 %r20, 0; @%p1 bra $a;"]
    for name, me, to in (("b", 1, 5 if stuck else 0), ("a", 0, 1)):
        give = "" if "cas" in take else f"atom.global.exch.b32 %r11, [%rd2], {to};"
        lines.append(f"${name}: {take.format(me=me, to=to)}")
        lines.append(f"setp.ne.u32 %p3, %r10, {me}; @%p3 bra ${name}; {give}")
        lines.append(f"add.u32 %r20, %r20, 1; setp.lt.u32 %p3, %r20, {rounds}; @%p3 bra ${name}; bra $end;")
    return "\n".join([*lines, "$end:"])


@pytest.mark.parametrize("number", range(4))
def test_turns_that_end(number: int) -> None:
    run(program(Random(number), stuck=False))


@pytest.mark.parametrize("number", range(4))
def test_turns_that_do_not_end(number: int) -> None:
    with pytest.raises(SimulationError, match="deadlock"):
        run(program(Random(number), stuck=True))


def test_a_poller_that_gives_up() -> None:
    """Nobody writes the flag, and the thread counts its looks."""
    run("$look: ld.volatile.global.u32 %r10, [%rd2]; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 2000; @%p2 bra $look;".replace(
        "$look:", "mov.u32 %r11, 0;\n$look:"))  # fmt: skip
