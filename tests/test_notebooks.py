"""The notebooks run from top to bottom, and what their cells end with has a representation; values have the representations they should."""

from __future__ import annotations

import ast
import json
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import pyptx
from pyptx import Tile, kernel, notebook, ptx, smem
from pyptx.tools.notebook import load_ipython_extension
from pyptx.types import u32

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
METHODS = ("_repr_html_", "_repr_svg_", "_repr_markdown_")


class HTML:
    """What IPython's class of this name is: IPython itself is not needed to run the cells."""

    def __init__(self, data: str):
        self.data = data

    def _repr_html_(self) -> str:
        return self.data


def shown(value: object) -> str:
    """What a notebook shows: the richest representation, or the plain one."""
    method = next((m for m in METHODS if hasattr(value, m)), "__repr__")
    return str(getattr(value, method)())


def run_cells(path: Path, names: dict[str, Any]) -> list[str]:
    """Run the code cells; what each ends with, as it is shown."""
    found: list[str] = []
    for i, cell in enumerate(json.loads(path.read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"] and cell["execution_count"] is None, "commit notebooks without outputs"
        source = "".join(cell["source"])
        file = names["folder"] / f"cell_{i}.py"  # a file, so that the kernel's lines can be shown
        file.write_text(source)
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(file), "exec"), names)
        if isinstance(last, ast.Expr):
            found.append(shown(eval(compile(ast.Expression(last.value), str(file), "eval"), names)))
    return found


def test_there_are_five() -> None:
    assert [int(p.name[0]) for p in NOTEBOOKS] == [1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore::pyptx.diagnostics.SimulationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "triton" in path.stem:
        pytest.importorskip("triton")
    display = types.ModuleType("IPython.display")
    display.__dict__["HTML"] = HTML
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    results = run_cells(path, {"__name__": "__main__", "folder": tmp_path})
    assert len(results) >= 1 and all(results)
    if "race" in path.stem:
        assert "data race" in results[0] and "border-left" in results[0]


@kernel(arch="sm_80", in_specs=[], out_specs=[Tile(64, u32)], grid=1, block=64)
def rotate(out):
    """A race, for its report."""
    words = smem.alloc(u32, 64)
    tid = ptx.special.tid.x()
    words[tid,] = tid
    (ptx.pointer(out) + tid).store(words[(tid + 1) & 63,])


def test_representations() -> None:
    timeline = pyptx.simulator.Timeline()
    report = pyptx.simulate(rotate, np.zeros(64, np.uint32), profile=True, observers=[timeline])
    html = shown(report)
    assert "data race" in html and "<th>executed</th>" in html and "ld.shared" in html and "<details>" in html
    assert "ld.shared.u32" in shown(report.profile) and shown(timeline).startswith("<svg")
    assert "border-left: 4px solid #c62828" in shown(report.findings[0])
    loaded = shown(pyptx.load(rotate.ptx())["rotate"])
    assert "<summary><code>rotate (" in loaded and "<span" in loaded and "visible" in loaded
    page = shown(rotate.report())
    assert page.startswith('<iframe srcdoc="') and "<html" not in page and "&lt;html" in page
    assert "st.global" in shown(rotate.explain())


def test_what_is_shown_is_escaped() -> None:
    bad = pyptx.Diagnostic("error", "<script>alert(1)</script>", "a.ptx", 1)
    assert "<script" not in shown(bad) and "&lt;script" in shown(bad)
    assert "<b>" not in notebook.ptx("// <b>\n", "<b>") and "<b>" not in notebook.table(("<b>",), [("<b>",)])


def test_modules_of_xdsl() -> None:
    """`%load_ext pyptx.tools.notebook` registers them with IPython's formatter."""
    known: dict[tuple[str, str], Any] = {}
    formatter = types.SimpleNamespace(
        for_type_by_name=lambda module, name, shows: known.update({(module, name): shows})
    )
    load_ipython_extension(
        types.SimpleNamespace(display_formatter=types.SimpleNamespace(formatters={"text/html": formatter}))
    )
    show = known[ModuleOp.__module__, ModuleOp.__qualname__]
    assert "ret" in show(pyptx.parse(rotate.ptx()))
