"""The pages that add an instruction, a pass, a finding, a rule and a command are true: what they show is all it takes."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest
from xdsl.context import Context

import pyptx
from pyptx.analysis.finders import FINDERS
from pyptx.analysis.finding import Finding
from pyptx.analysis.operands import line_of
from pyptx.analysis.report import analyse, instructions
from pyptx.dialects.ptx.move import Mov
from pyptx.dialects.ptx.structure import FunctionOp
from pyptx.parser.module import parse_text
from pyptx.passes.ptx_pass import FunctionPass
from pyptx.passes.trivia import erase
from pyptx.passes.verify import ptx_modules
from pyptx.simulator.machine.program import Inst
from pyptx.simulator.sanitizer.parts import PARTS
from pyptx.simulator.sanitizer.rule import NAMED, Rule
from pyptx.simulator.sanitizer.state.context import Part
from pyptx.sources import read_argument
from pyptx.tools.cli import COMMANDS, main

from .simulator.sanitizer.kernels import breaks, silent
from .simulator.sanitizer.pieces import Pair

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
from pyptx.dialects.ptx.forms import form
from pyptx.dialects.ptx.instruction import Instruction, instruction
from pyptx.dialects.ptx.target import need
{source}
import pyptx

def source(line, version="9.5", target="sm_120"):
    head = ".version " + version + "\\n.target " + target + "\\n.entry k()\\n{\\n\\t.reg .b32 %r<9>;\\n\\t"
    return head + line + "\\n\\tret;\\n}\\n"

def findings(line, **where):
    return [d.message for d in pyptx.diagnose(source(line, **where))]

text = source("addmax.u32 %r1, %r2, %r3, 7;")
assert findings("addmax.u32 %r1, %r2, %r3, 7;") == []
assert pyptx.to_ptx(pyptx.parse(text, verify=True)) == text
assert "needs target sm_120 or newer" in findings("addmax.u32 %r1, %r2, %r3, 7;", target="sm_90")[0]
assert "needs PTX 9.4 or newer" in findings("addmax.u32 %r1, %r2, %r3, 7;", version="9.3")[0]
assert "needs PTX 9.5 or newer" in findings("addmax.sat.s32 %r1, %r2, %r3, 7;", version="9.4")[0]
assert "takes 4 operands, not 3" in findings("addmax.u32 %r1, %r2, %r3;")[0]
assert "no modifier .f32" in findings("addmax.f32 %r1, %r2, %r3, 7;")[0]

from pyptx import kernel, ptx, reg
from pyptx.types import s32

@kernel(arch="sm_120a", version="9.5")
def k():
    a = reg.scalar(s32, init=3)
    ptx.inst.addmax.sat.s32(a, a, 4, 5)

assert "addmax.sat.s32 %r0, %r0, 4, 5;" in k.ptx()
print("fine")
"""


def shown(what: str) -> str:
    """The program of the page that has this in it."""
    (found,) = [
        b for b in re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S) if what in b
    ]
    return found


def test_the_class_on_the_page_is_all_it_takes() -> None:
    source = shown("class Addmax")
    program = PROGRAM.replace("{source}", source)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\t.reg .b32 %r<4>;\n"


def test_the_pass_on_the_page_is_all_it_takes() -> None:
    names: dict[str, Any] = {
        "ClassVar": ClassVar, "FunctionOp": FunctionOp, "FunctionPass": FunctionPass, "Mov": Mov, "erase": erase,
    }  # fmt: skip
    exec(shown("class DropNops"), names)
    module = pyptx.parse(f"{HEAD}\t// kept\n\tmov.u32 %r1, %r1;\n\tmov.u32 %r2, %r1;\n\tret;\n}}\n")
    for _ in range(2):
        names["DropNops"]().apply(Context(), module)
        assert pyptx.to_ptx(module) == f"{HEAD}\t// kept\n\tmov.u32 %r2, %r1;\n\tret;\n}}\n"


def test_the_finding_on_the_page_is_all_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"Finding": Finding, "instructions": instructions, "line_of": line_of}
    exec(f"from __future__ import annotations\n{shown('def many_branches')}", names)
    monkeypatch.setattr("pyptx.analysis.finders.FINDERS", [*FINDERS, names["many_branches"]])
    monkeypatch.setattr("pyptx.analysis.report.FINDERS", [*FINDERS, names["many_branches"]])

    def found(body: str) -> list[str]:
        module = next(iter(ptx_modules(pyptx.parse(f"{HEAD}{body}}}\n"))))
        return [f.message for f in analyse(module)[0].findings if f.analysis == "branches"]

    assert found("L:\n\tbra L;\n\tret;\n") == ["2 of 2 instructions branch"]
    assert found("\tmov.u32 %r1, 1;\n\tadd.u32 %r1, %r1, 1;\n\tret;\n") == []


def test_the_rule_on_the_page_is_all_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"Inst": Inst, "Pair": Pair, "Part": Part, "Rule": Rule, "np": np}
    try:
        exec(f"from __future__ import annotations\n{shown('class BarriersOfAWarp')}", names)
        exec(shown("PAIRS = "), names)
        monkeypatch.setattr("pyptx.simulator.sanitizer.sanitizer.PARTS", [*PARTS, names["BarriersOfAWarp"]])
        (pair,) = names["PAIRS"]
        found = breaks(pair.broken, pair.rule, **pair.launch)
        assert found.severity == "warning"
        assert found.section == "9.7.15.1"
        silent(pair.right, **pair.launch)
        silent(pair.broken.replace("//!", ""), block=64)
    finally:
        NAMED.pop("barrier-of-a-warp", None)


def test_the_command_on_the_page_is_all_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = ModuleType("pyptx.tools.commands.entries")
    made.__dict__.update(
        argparse=argparse, json=json, read_argument=read_argument, ptx_modules=ptx_modules, parse_text=parse_text
    )
    exec(shown("def add_arguments"), made.__dict__)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setitem(COMMANDS, "entries", "the kernels of a file")
    file = tmp_path / "k.ptx"
    file.write_text(f"{HEAD}\tret;\n}}\n")
    assert main(["entries", str(file)]) == 0
    assert main(["entries", "--json", str(file)]) == 0
    assert capsys.readouterr().out == 'k\n{"entries": ["k"]}\n'
    file.write_text("not PTX\n")
    assert main(["entries", str(file)]) == 1
    assert main(["entries", str(tmp_path / "missing")]) == 2
