"""The fast builder writes xDSL's private fields: it must give the graph that the public API gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from pyptx.dialects.ptx.structure import FallOp, ModuleOp
from pyptx.dialects.ptx.types import RegType
from pyptx.parser import module as parser_module
from pyptx.ssa import builder, fastir

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"


def public_create(cls, operands, types, properties, attributes, successors=(), location=None, regions=()):
    return cls.create(
        operands=operands, result_types=types, properties=dict(properties), attributes=dict(attributes),
        successors=successors, regions=regions, location=location,
    )  # fmt: skip


def dump(op: Operation, numbers: dict[object, int]) -> list[object]:
    """Everything reachable from an op, with values and blocks as numbers in order of appearance."""

    def number(thing: object) -> int:
        return numbers.setdefault(thing, len(numbers))

    def uses(value: SSAValue | Block) -> list[tuple[int, int]]:
        return [(number(u.operation), u.index) for u in value.uses]

    rows: list[object] = [
        op.name, number(op), [number(v) for v in op.operands], [(number(r), r.type, r.index, number(r.op)) for r in op.results],
        dict(op.properties), dict(op.attributes), [number(s) for s in op.successors], op.location,
        [uses(r) for r in op.results], number(op.parent) if op.parent else None,
        number(op.next_op) if op.next_op else None, number(op.prev_op) if op.prev_op else None,
    ]  # fmt: skip
    for region in op.regions:
        for block in region.blocks:
            rows.append([number(block), [(number(a), a.type, uses(a)) for a in block.args], uses(block)])
            for inner in block.ops:
                rows.append(dump(inner, numbers))
    return rows


@pytest.mark.parametrize("name", ["nvcc_shmem", "nvcc_switch", "nested_scopes", "brx_idx", "nvcc_atomics"])
def test_same_graph_as_the_public_api(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DATA / f"{name}.ptx").read_text()
    fast = parser_module.parse_text(text, name)
    monkeypatch.setattr(builder, "create", public_create)
    monkeypatch.setattr(parser_module, "create", public_create)
    monkeypatch.setattr(builder, "add_ops", lambda block, ops: block.add_ops(ops))
    slow = parser_module.parse_text(text, name)
    assert dump(fast, {}) == dump(slow, {})


def test_create_with_regions_and_successors() -> None:
    block, target = Block(), Block(arg_types=[RegType.of("b32", "%r1")])
    value = target.args[0]
    op = fastir.create(FallOp, [value], [], {}, {"lead": StringAttr("x")}, [target])
    fastir.add_ops(block, [op])
    assert [u.operation for u in value.uses] == [op]
    assert list(op.successors) == [target]
    module = fastir.create(ModuleOp, (), (), {}, {}, regions=[Region([block, target])])
    assert module.regions[0].blocks[0] is block


def test_line_location_equals_the_public_one() -> None:
    made = fastir.line_location(StringAttr("k.ptx"), 700, 3)
    assert made == FileLineColLoc(StringAttr("k.ptx"), IntAttr(700), IntAttr(3))
    assert hash(made) == hash(FileLineColLoc(StringAttr("k.ptx"), IntAttr(700), IntAttr(3)))


def test_gc_is_restored() -> None:
    import gc

    with fastir.gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
