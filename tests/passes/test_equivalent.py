"""`differences`: statements that were taken out, put in or changed are what it finds, with what is around them."""

from __future__ import annotations

import random

import pytest

import pyptx
from pyptx.passes.equivalent import differences


def kernel(lines: list[str], register: str = "%r") -> str:
    body = "\n".join(lines).replace("%r", register)
    return f".version 8.0\n.target sm_80\n.entry k()\n{{\n.reg .b32 {register}<9>;\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("seed", range(24))
def test_a_change_is_found_with_its_surroundings(seed: int) -> None:
    """No two statements are alike, so there is one answer. The other kernel has other registers."""
    rng = random.Random(seed)
    lines = [f"add.s32 %r1, %r1, {i};" for i in range(12)]
    at, size, new = rng.randrange(12), rng.randrange(3), [f"xor.b32 %r1, %r1, {i};" for i in range(rng.randrange(3))]
    other = [*lines[:at], *new, *lines[at + size :]]
    found = differences(pyptx.parse(kernel(lines)), pyptx.parse(kernel(other, "%s")), context=2)
    removed = lines[at : at + size]
    if not removed and not new:
        assert found == []
        return
    assert [(d.removed, d.added) for d in found] == [(tuple(removed), tuple(new))]
    whole = [".entry k() {", *lines, "ret;"]
    assert found[0].before == tuple(whole[max(at - 1, 0) : at + 1])
    assert found[0].after == tuple(whole[at + len(removed) + 1 : at + len(removed) + 3])
    assert (found[0].a_line, found[0].b_line) == (6 + at, 6 + at)


def test_two_changes_and_a_register_that_is_another() -> None:
    lines = [f"add.s32 %r1, %r{2 + i % 2}, {i};" for i in range(6)]
    other = [lines[0], lines[2], lines[3], lines[4].replace("%r2", "%r3"), lines[5]]
    found = differences(pyptx.parse(kernel(lines)), pyptx.parse(kernel(other)))
    assert [(d.removed, d.added) for d in found] == [
        ((lines[1],), ()),
        ((lines[4],), (other[3],)),
    ]


@pytest.mark.parametrize("context", range(4))
@pytest.mark.parametrize("at", [0, 1, 5])
def test_the_surroundings_end_with_the_function(at: int, context: int) -> None:
    lines = [f"add.s32 %r1, %r1, {i};" for i in range(6)]
    other = [*lines[:at], "xor.b32 %r1, %r1, 1;", *lines[at + 1 :]]
    (found,) = differences(pyptx.parse(kernel(lines)), pyptx.parse(kernel(other)), context=context)
    whole = [".entry k() {", *lines, "ret;"]
    assert found.before == tuple(whole[max(at + 1 - context, 0) : at + 1])
    assert found.after == tuple(whole[at + 2 : at + 2 + context])


def test_lines_where_one_side_has_nothing() -> None:
    """A function that only one module has: the other has no line of it. Modules that were built have no lines at all."""
    text = kernel(["add.s32 %r1, %r1, 1;"])
    more = text + ".func f()\n{\nret;\n}\n"
    (found,) = differences(pyptx.parse(text), pyptx.parse(more))
    assert (found.function, found.a_line, found.removed, found.added) == ("f", None, (), (".func f() {", "ret;"))
    assert found.b_line == more.splitlines().index(".func f()") + 1
    assert found.text.splitlines()[0] == f"@@ line ? / line {found.b_line} @@ f"
    assert differences(pyptx.parse(text), pyptx.parse(text)) == []
