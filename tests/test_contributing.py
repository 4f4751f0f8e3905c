"""The page that adds an instruction is true: its class is all it takes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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


def test_the_class_on_the_page_is_all_it_takes() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    source = re.findall(r"```python\n(.*?)```", page, re.S)[0]
    assert "class Addmax" in source
    program = PROGRAM.replace("{source}", source)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr
