"""docs/transpile.md runs, and shows what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyptx
from pyptx import ptx, reg
from pyptx.codegen import ptx_to_python
from pyptx.modules import Module, load, op
from pyptx.passes.equivalent import differences
from pyptx.types import f32, pred, u64
from tests.conftest import ROOT
from tests.frontend.tracing import assembled

from .programs import printed

PAGE = (ROOT / "docs" / "transpile.md").read_text()


def test_the_tour_runs(tmp_path: Path) -> None:
    """All of its programs, in order, without a warning of the simulator; ptxas takes what the edits make."""
    before = [
        "import warnings",
        "from pyptx.diagnostics import SimulationWarning",
        "warnings.simplefilter('error', SimulationWarning)",
    ]
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    edited: list[Path] = []
    for i, block in enumerate(blocks):
        if "exec(" in block:
            edited.append(tmp_path / f"{i}.ptx")
            blocks[i] += f"Path({str(edited[-1])!r}).write_text(namespace['m'].ptx())\n"
    program = tmp_path / "tour.py"
    program.write_text("\n".join([*before, *blocks]))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "relu(saxpy): True" in done.stdout
    assert "the same as a kernel: True" in done.stdout
    assert "softmax, temperature 2: True" in done.stdout
    assert "silu(a @ b.T + bias): True" in done.stdout
    assert re.search(r"^\+ max\.f32 ", done.stdout, re.M)
    assert len(edited) == 3
    for file in edited:
        assembled(text := file.read_text(), target(text))


def target(text: str) -> str:
    return re.findall(r"^\.target (\w+)", text, re.M)[0]


def test_the_programs_shown_are_the_ones_made() -> None:
    shown = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    names = ["kernels", "softmax", "hopper_gemm", "hopper_gemm", "hopper_gemm"]
    functions = {"kernels": "saxpy"}
    for text, name in zip(shown, names, strict=False):
        file = ROOT / "examples" / "transpile" / f"{name}.ptx"
        assert text in ptx_to_python(file, sugar=True, kernel_name=functions.get(name, name))


def test_the_gemm_gives_its_ptx_back() -> None:
    text = (ROOT / "examples" / "transpile" / "hopper_gemm.ptx").read_text()
    assert printed(text) == text
    again = printed(text, sugar=True)
    assert not differences(pyptx.parse(text), pyptx.parse(again))
    assembled(again)


def test_which_vocabulary_works_where() -> None:
    """`ptx` and `reg` in functions of a Module, and `op` in both. The lines of the table agree."""
    m = Module("sm_90a", "8.0")

    @m.entry(params=["u64"])
    def k(p):
        q = load(p)
        a = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(q))
        p1 = op.setp.lt.f32(a, 1.0)
        with ptx.if_(p1):
            ptx.inst.st.global_.f32(ptx.addr(q, 4), op.max_.f32(a, 0.0))

    @pyptx.kernel(arch="sm_90a", raw_params=[("u64", "p")])
    def moved():
        q = ptx.param(u64, "p")
        a = ptx.inst.ld.global_.f32(reg.scalar(f32), ptx.addr(q))
        p1 = ptx.inst.setp.lt.f32(reg.scalar(pred), a, 1.0)
        with ptx.if_(p1):
            ptx.inst.st.global_.f32(ptx.addr(q, 4), ptx.inst.max_.f32(reg.scalar(f32), a, 0.0))

    def opcodes(text: str) -> list[str]:
        return re.findall(r"^\t(?:@!?%p\d+ )?((?:ld|setp|bra|max|st)[.\w]*)", text, re.M)

    assert opcodes(m.ptx()) == opcodes(assembled(moved))
    assert len(opcodes(m.ptx())) == 6

    @pyptx.kernel(arch="sm_90a", raw_params=[("u64", "p")])
    def shared():
        q = op.ld.param.u64(ptx.addr("p"))
        a = op.ld.global_.f32(ptx.addr(q))
        with ptx.if_(op.setp.lt.f32(a, 1.0)):
            ptx.inst.st.global_.f32(ptx.addr(q, 4), op.max_.f32(a, 0.0))

    assert opcodes(assembled(shared)) == opcodes(m.ptx())
