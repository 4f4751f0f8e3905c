"""Nothing does more than its share of work for an input that is four times as long: lines of Python that run are counted, not
seconds. `python -m benchmarks.growth --count` does it for every step and shape.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

import pyptx
from benchmarks import growth_shapes as shapes
from benchmarks.growth import inner
from benchmarks.work import exponent, growing, lines_run
from pyptx.analysis.report import analyse
from pyptx.dialects.ptx.structure import FunctionOp, ModuleOp
from pyptx.dialects.ptx.types import RegType
from pyptx.passes.assign_registers import Edges
from pyptx.passes.coalesce import name_blank_values
from pyptx.passes.flatten_scopes import flatten_scopes
from pyptx.passes.fresh import FreshNames, FreshRegisters
from pyptx.passes.inline import inline_calls
from pyptx.passes.registry import PASSES
from pyptx.passes.verify import module_diagnostics
from pyptx.simulator.launch.loaded import LoadedModule
from pyptx.simulator.machine.global_memory import Allocation, GlobalMemory
from pyptx.simulator.sanitizer.state.observation import deciding
from pyptx.ssa.fastir import set_type

LIMIT = 1.2
LIMIT_OF_ONE = 1.35
"""For the work of a single function, which is nothing yet beside the rest of a small input."""


def first(module: ModuleOp) -> FunctionOp:
    return next(f for f in module.functions if not f.is_declaration)


def module_of(text: str) -> ModuleOp:
    return inner(pyptx.parse(text))


def in_proportion(shape: Callable[[int], str], step: Callable[[ModuleOp], object], n: int) -> None:
    """The work of a step grows as its input does, at n, 2n and 4n."""
    step(module_of(shape(4 * n)))  # what is remembered of layouts and types is there from now on
    counts = [lines_run(partial(step, module_of(shape(k * n)))) for k in (1, 2, 4)]
    e = exponent(*[c.total() for c in counts])
    assert e <= LIMIT, f"{e:.2f}: {growing(*counts, limit=LIMIT)[:5]}"
    assert not growing(*counts, limit=LIMIT_OF_ONE)


def blank(module: ModuleOp) -> None:
    """Forget which register each value is in; those of `%r2` stay."""
    for function in module.functions:
        for block in function.blocks:
            for value in (*block.args, *(r for op in block.ops for r in op.results)):
                assert isinstance(value.type, RegType)
                if value.type.register_name not in ("%r2", "%x0"):
                    set_type(value, RegType((value.type.register_class, "", 0)))


def scoped_functions(n: int) -> str:
    """Functions with a scope each, which declares a name of the module again."""
    functions: list[str] = []
    for i in range(n):
        functions += [
            f".func f{i} ()",
            "{",
            "\t.reg .b32 %r<3>;",
            "\t{",
            "\t.reg .b32 %r<3>;",
            "\tmov.u32 %r1, 1;",
            "\tbra L;",
            "L:",
            "\t}",
            "\tret;",
            "}",
        ]
    return shapes.kernel([], before=functions)


def ranges_of_registers(n: int) -> str:
    """Ranges of registers declared again in scopes, each of which needs a new name."""
    body: list[str] = []
    for i in range(n):
        body += ["\t{", f"\t.reg .b32 %t<{3 + i % 3}>, %u;", "\tmov.u32 %t1, %r1;", "\tmov.u32 %u, %t1;", "\t}"]
    return shapes.kernel(body)


def split_all(module: ModuleOp) -> None:
    function = first(module)
    edges = Edges(function, FreshNames(function))
    for block in list(function.blocks):
        last = block.last_op
        if last is not None and len(last.successors) > 1:
            edges.split(last, range(len(last.successors)))


def assign_blank(module: ModuleOp) -> None:
    blank(module)
    for function in module.functions:
        name_blank_values(function, FreshRegisters(function), [])


PASS_CASES: dict[str, tuple[Callable[[int], str], Callable[[ModuleOp], object], int]] = {
    "inline: many functions": (shapes.many_functions, inline_calls, 6),
    "inline: scoped variables": (shapes.declared_functions, inline_calls, 6),
    "inline: one function": (shapes.calls_of_one, inline_calls, 6),
    "inline: a chain over the limit": (shapes.call_chain, lambda m: inline_calls(m, 4), 12),
    "names of the module": (shapes.many_kernels, lambda m: PASSES["ptx-assign-registers"]()().run(m), 16),
    "flatten: names again": (scoped_functions, lambda m: PASSES["ptx-flatten-scopes"]()().run(m), 16),
    "flatten: ranges": (ranges_of_registers, lambda m: flatten_scopes(first(m)), 16),
    "flatten: deep": (shapes.deep_scopes, lambda m: flatten_scopes(first(m)), 16),
    "edges: a switch": (shapes.wide_switch, split_all, 24),
    "edges: many branches": (shapes.compare_switch, split_all, 24),
    "assign: blanks": (shapes.branches, assign_blank, 16),
    "analyse: a chain of calls": (shapes.call_chain, analyse, 4),
    "analyse: switch": (shapes.compare_switch, analyse, 6),
    "fold: switch": (shapes.compare_switch, lambda m: PASSES["ptx-fold"]()().run(m), 8),
    "fold: table": (shapes.wide_switch, lambda m: PASSES["ptx-fold"]()().run(m), 8),
    "cse: parameters": (shapes.many_parameters, lambda m: PASSES["ptx-cse"]()().run(m), 24),
    "verify: scopes": (shapes.deep_scopes, module_diagnostics, 16),
    "print: scopes": (shapes.deep_scopes, lambda m: pyptx.to_ptx(m), 16),
    "assign: one register": (shapes.long_block, assign_blank, 64),
}


@pytest.mark.parametrize("case", PASS_CASES)
def test_work_of_passes(case: str) -> None:
    shape, step, n = PASS_CASES[case]
    in_proportion(shape, step, n)


def test_work_of_the_sanitizer_on_a_chain_of_copies() -> None:
    programs = [LoadedModule(module_of(shapes.copies(n))).program("k") for n in (64, 128, 256)]
    counts = [lines_run(lambda p=p: deciding(p)) for p in programs]
    assert exponent(*[c.total() for c in counts]) <= LIMIT


def test_work_of_lanes_that_go_to_many_variables() -> None:
    """As many addresses as variables: each lane's own."""

    def spread(n: int) -> tuple[GlobalMemory, np.ndarray]:
        memory = GlobalMemory()
        for i in range(n):
            memory.add(Allocation(f"g{i}", 0x1000 + 256 * i, np.zeros(8, np.uint8)))
        return memory, np.array([0x1000 + 256 * i + 4 for i in reversed(range(n))], np.uint64)

    counts = []
    for n in (64, 128, 256):
        memory, addresses = spread(n)
        found: list[tuple[Allocation | None, np.ndarray]] = []
        counts.append(lines_run(lambda m=memory, a=addresses, f=found: f.extend(m.parted(a, 4))))
        assert [(a.name, list(lanes)) for a, lanes in found if a] == [(f"g{n - 1 - i}", [i]) for i in range(n)]
    assert exponent(*[c.total() for c in counts]) <= LIMIT


def test_which_allocation_holds_each_address() -> None:
    """Against `find`, which looks for one address."""
    memory = GlobalMemory()
    for base, size in ((0x1000, 8), (0x1100, 5), (0x1200, 0)):
        memory.add(Allocation(f"g{base:x}", base, np.zeros(size, np.uint8)))
    addresses = [0, 0xFFF, 0x1000, 0x1004, 0x1005, 0x1008, 0x1100, 0x1101, 0x1102, 0x1200, 2**64 - 1]
    found: dict[int, Allocation | None] = {}
    for allocation, lanes in memory.parted(np.array(addresses, np.uint64), 4):
        found.update((int(lane), allocation) for lane in lanes)
    assert [found[i] for i in range(len(addresses))] == [memory.find(a, 4) for a in addresses]
