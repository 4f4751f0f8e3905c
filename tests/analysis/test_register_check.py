"""The check of registers against a plain search over paths, on random graphs whose values were moved to other registers."""

from __future__ import annotations

import random

import pytest

import pyptx
from pyptx.analysis.cfg import CFG, cfg_of
from pyptx.analysis.checks import check_registers
from pyptx.dialects.ptx.structure import FunctionOp, ModuleOp
from pyptx.ssa.fastir import set_type


def random_function(rng: random.Random) -> FunctionOp:
    """A kernel of a few blocks with forward and backward branches over six registers."""
    count = rng.randint(2, 9)
    lines: list[str] = [f"mov.u32 %r{i}, {i};" for i in range(6)]
    for b in range(count):
        lines.append(f"L{b}:")
        for _ in range(rng.randint(0, 4)):
            a, c, d = (rng.randrange(6) for _ in range(3))
            lines.append(f"add.s32 %r{a}, %r{c}, %r{d};")
        if rng.random() < 0.8:
            guard = f"@%p{rng.randrange(2)} " if rng.random() < 0.8 else ""
            lines.append(f"{guard}bra L{rng.randrange(count)};")
    lines += ["st.global.u32 [%rd0], %r0;", "ret;"]
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<2>;\n.reg .b32 %r<6>;\n"
        ".reg .b64 %rd<1>;\nsetp.eq.s32 %p0, 1, 1;\nsetp.eq.s32 %p1, 1, 0;\nmov.u64 %rd0, 0;\n"
        + "\n".join(lines)
        + "\n}\n"
    )
    module = pyptx.parse(text).body.block.first_op
    assert isinstance(module, ModuleOp)
    return next(iter(module.functions))


def lost(cfg: CFG) -> set[tuple[int, int, int]]:
    """(block, op, operand) of each operand whose register may hold something else: by the sets of values that reach."""
    reached: list[dict[object, set[object]] | None] = [None] * len(cfg.blocks)
    reached[0] = {}
    bad: set[tuple[int, int, int]] = set()

    def through(b: int, entry: dict[object, set[object]]) -> dict[object, set[object]]:
        held = {register: set(values) for register, values in entry.items()}
        for argument in cfg.blocks[b].args:
            held[argument.type.data] = {argument}
        for i, op in enumerate(cfg.ops[b]):
            for j, value in enumerate(op.operands):
                if held.get(value.type.data, {None}) != {value}:
                    bad.add((b, i, j))
            for value in op.results:
                held[value.type.data] = {value}
        return held

    work = [0]
    while work:
        b = work.pop()
        entry = reached[b]
        assert entry is not None
        leaving = through(b, entry)
        for s in cfg.successors[b]:
            known = reached[s]
            if known is None:
                reached[s] = {r: set(v) for r, v in leaving.items()}
                work.append(s)
                continue
            merged = {r: known.get(r, {None}) | leaving.get(r, {None}) for r in known.keys() | leaving.keys()}
            if merged != known:
                reached[s] = merged
                work.append(s)
    bad.clear()
    for b, entry in enumerate(reached):
        if entry is not None:
            through(b, entry)
    return bad


@pytest.mark.parametrize("seed", range(150))
def test_registers_against_reaching_values(seed: int) -> None:
    rng = random.Random(seed)
    function = random_function(rng)
    cfg = cfg_of(function)
    assert not lost(cfg)
    assert not list(check_registers(function, cfg))
    values = [v for ops in cfg.ops for op in ops for v in op.results if v.type.data[0] == "b32"]
    for value in rng.sample(values, min(len(values), rng.randint(1, 3))):
        set_type(value, rng.choice(values).type)
    reachable = {b for b in range(len(cfg.blocks)) if cfg.dominators().reachable(b)}
    operands = {(b, i): op for b, ops in enumerate(cfg.ops) for i, op in enumerate(ops)}
    wanted = {(b, i) for b, i, _ in lost(cfg)}
    found = {place for v in check_registers(function, cfg) for place, op in operands.items() if op is v.op}
    assert {p for p in found if p[0] in reachable} == wanted
