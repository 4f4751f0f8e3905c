"""Registers of ranges in scopes: each name means what a table of all names, kept for each scope, says."""

from __future__ import annotations

import random
import resource

import pytest

import pyptx
from pyptx.ssa.statement import Environment

STEMS = ("%t", "a", "b_")


def test_a_name_means_the_innermost_register() -> None:
    for seed in range(400):
        r = random.Random(seed)
        environment, scopes, written = Environment(), [dict[str, tuple[str, int]]()], [str(seed)]
        for _ in range(r.randrange(3, 25)):
            stem, top = r.choice(STEMS), scopes[-1]
            match r.randrange(6):
                case 0:
                    environment.open()
                    scopes.append({})
                    written.append("{")
                case 1 if len(scopes) > 1:
                    environment.close()
                    scopes.pop()
                    written.append("}")
                case 2 | 3:
                    count = r.choice((1, 3, 5))
                    names = [f"{stem}{i}" for i in range(count)]
                    if not any(n.startswith(stem) for n in top):
                        assert environment.declare(stem, "b32", count) is None
                        top.update({n: ("b32", environment.scope) for n in names})
                        written.append(f"{stem}<{count}>")
                case _:
                    name = f"{stem}{r.randrange(6)}"
                    if name not in top:
                        assert environment.declare(name, "u16") is None
                        top[name] = "u16", environment.scope
                        written.append(name)
            for name in [f"{s}{i}" for s in STEMS for i in range(7) if r.random() < 0.5]:
                expected = next((scope[name] for scope in reversed(scopes) if name in scope), None)
                assert environment.known(name) == (expected is not None), (written, name)
                if expected is not None:
                    reg = environment[name]
                    assert (reg.register_class, reg.scope) == expected, (written, name)


@pytest.mark.parametrize(("opening", "closing"), [("", ""), ("{", "}")])
@pytest.mark.parametrize("stem", ["a", "%a"])
def test_ranges_cost_nothing_until_they_are_used(stem: str, opening: str, closing: str) -> None:
    ranges = "".join([f".reg .b32 {stem}{i}x<65536>;\n" for i in range(60)])
    uses = "".join([f"mov.b32 {stem}{i}x65535, {i};\n" for i in range(60)])
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {{ {opening}\n{ranges}{uses}{closing} ret;\n}}\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert pyptx.diagnose(text) == []
    assert pyptx.to_ptx(pyptx.parse(text)) == text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB
