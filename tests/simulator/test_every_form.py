"""Every instruction that ptxas takes has a meaning: the instances of the probed table are bound to a machine."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import pyptx
from benchmarks.draws import declarations
from benchmarks.fuzz_verdicts import ours
from pyptx.diagnostics import SimulationError
from pyptx.dialects.ptx.target import parse_version
from pyptx.simulator.launch.launch import LoadedModule
from pyptx.simulator.machine.binding import meaning_of
from pyptx.simulator.machine.global_memory import Allocation, GlobalMemory
from pyptx.simulator.machine.machine import Machine
from pyptx.simulator.machine.program import PARAMETER_BASE, Inst
from pyptx.simulator.machine.registry import MEANINGS, Collective, Step
from pyptx.simulator.machine.threads import Launch
from pyptx.tools.oracle import header
from tests.dialects.test_arithmetic_verdicts import LINES

ISA = Path(__file__).parents[1] / "data" / "isa"
NO_MEANING = {"ld.const[1].b32 %r0,[%d9];"}
"""Explicit constant banks went with PTX 2.2."""
BY_THE_ENGINE = {"bra", "brx", "brx.idx", "call", "ret", "exit", "trap"}


def accepted() -> dict[tuple[str, str], list[str]]:
    """(version, target) -> instances that the newest version takes there."""
    requirements = json.loads((ISA / "requirements.json").read_text())["requirements"]
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in gzip.open(ISA / "verdicts.tsv.gz", "rt"):
        _, requirement, text = line.rstrip("\n").split("\t")
        spans = requirements[int(requirement)]
        if spans and text not in NO_MEANING:
            version = max((s["to"] for s in spans), key=parse_version)
            targets = [t for s in spans if s["to"] == version for t in s["targets"]]
            groups[version, max(targets)].append(text)
    return groups


def unbound(version: str, target: str, lines: list[str], declarations: str = "") -> list[str]:
    text = header(version, target) + declarations + "\n".join(lines) + "\nLx: ret;\nLy: ret;\n}\n"
    loaded = LoadedModule(pyptx.parse(text))
    program = loaded.program("kk")
    memory, parameters = GlobalMemory(), np.zeros(program.parameter_size, np.uint8)
    for v in loaded.image.variables.values():
        if v.space in ("global", "const"):
            memory.add(Allocation(v.name, v.address, loaded.contents[v.name], v.space == "const"))
    memory.add(Allocation("the parameters", PARAMETER_BASE, parameters, True))
    machine = Machine(program, Launch((2, 1, 1), (128, 1, 1), (1, 1, 1), 0), memory, parameters, 1)
    return [problem for s in program.segments for i in (*s.body, s.last) if i and (problem := _problem(machine, i))]


def _problem(machine: Machine, inst: Inst) -> str:
    if inst.opcode in BY_THE_ENGINE:
        return ""
    if inst.opcode not in MEANINGS:
        return f"{inst.text}: no meaning"
    what = meaning_of(machine, inst)
    try:
        if isinstance(what, (Step, Collective)):
            what.bind(machine, inst)
    except SimulationError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
def test_every_accepted_instance_is_executed() -> None:
    found: list[str] = []
    count = 0
    for (version, target), lines in accepted().items():
        count += len(lines)
        for first in range(0, len(lines), 400):
            found += unbound(version, target, lines[first : first + 400])
    assert count > 11_000
    assert not found, "\n".join(found[:20])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", ["sm_100a", "sm_107a"])
def test_what_the_table_lacks_is_executed(target: str) -> None:
    lines = [line.strip() for block in LINES.values() for line in block.strip().splitlines()]
    legal = [line for line, problems in zip(lines, ours(lines, "9.5", target), strict=True) if not problems]
    assert len(legal) > 10
    assert not unbound("9.5", target, legal, declarations("9.5", target))
