"""What a type checker says about programs that use pyptx: the README's kernel, every example, names that do not exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROBE = """
from pyptx import ptx, reg
from pyptx.types import f32


def author(p: reg.Reg) -> None:
    ptx.inst.ld.global_.v4.f32(reg.array(f32, 4), ptx.addr(p))
    ptx.inst.cp.async_.bulk.tensor._2d.shared__cluster.global_.tile.mbarrier__complete_tx__bytes("d", "m", "b")
    ptx.inst.mbarrier.try_wait.parity.shared__cta.b64(p, p, 0, pred=p < 1)
    y = ptx.op.ex2.approx.f32(ptx.op.mov.f32(1.0))
    y = y + ptx.op.setp.lt.u32(ptx.special.tid.x(), ptx.special.ntid_x(), into="pred")
    ptx.inst.nosuch.f32(y)  # error
    ptx.inst.ld.nosuch(y)  # error
    ptx.op.nosuch.f32(y)  # error
    ptx.special.nosuch()  # error
    ptx.special.laneid.x()  # error
    ptx.inst.add.u32(y, y, y, pred=1)  # error
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[int, str]]]:
    """File name -> its errors, each with its line: one run of the checker over all programs."""
    folder = tmp_path_factory.mktemp("types")
    readme = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert readme is not None
    (folder / "readme.py").write_text(readme[1])
    (folder / "probe.py").write_text(PROBE)
    programs = ["readme.py", "probe.py", str(ROOT / "examples")]
    settings = {
        "include": programs, "extraPaths": [str(ROOT)], "pythonVersion": "3.11", "typeCheckingMode": "standard",
        "reportMissingImports": "none",
    }  # fmt: skip
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] >= 2 + len(list((ROOT / "examples").rglob("*.py"))), done.stderr
    found: dict[str, list[tuple[int, str]]] = {}
    for each in report["generalDiagnostics"]:
        if each["severity"] == "error":
            where = (each["range"]["start"]["line"] + 1, each["message"])
            found.setdefault(Path(each["file"]).resolve().name, []).append(where)
    return found


def test_the_readmes_kernel_and_the_examples_have_no_type_error(errors: dict[str, list[tuple[int, str]]]) -> None:
    assert {name: found for name, found in errors.items() if name != "probe.py"} == {}


def test_names_that_do_not_exist_are_type_errors(errors: dict[str, list[tuple[int, str]]]) -> None:
    wanted = [number for number, line in enumerate(PROBE.split("\n"), 1) if line.endswith("# error")]
    assert sorted({line for line, _ in errors["probe.py"]}) == wanted, errors["probe.py"]
