"""`debug=True` and `Kernel.explain()`: the lines are those of the author.

Every line of the kernel under test stores at an offset of its own, so that text, line table and machine code can be
matched with the source by looking for that number.
"""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pyptx import Kernel, PTXError, intrinsic, kernel, ptx, reg, simulate
from pyptx.runtime import ptxas
from pyptx.types import b64, u32
from tests.frontend.tracing import assembled


@intrinsic
def helper(pointer):
    ptx.inst.st.global_.u32(ptx.addr(pointer, 70500), 5)


def stores():
    p = ptx.param(b64, "p")
    ptx.inst.st.global_.u32(ptx.addr(p, 70100), 1)
    ptx.inst.st.global_.u32(ptx.addr(p, 70200), 2)
    helper(p)
    with ptx.if_(reg.from_(ptx.special.tid.x(), u32) == 3):
        ptx.inst.st.global_.u32(ptx.addr(p, 70400), 4)
    ptx.inst.st.global_.u32(ptx.addr(p, 70700), 7)


MARKS = (70100, 70200, 70400, 70500, 70700)
LINES = Path(__file__).read_text().split("\n")


def line_of(mark: int) -> int:
    """The line of this file that stores at an offset."""
    return next(i for i, text in enumerate(LINES, 1) if "st.global_" in text and str(mark) in text)


def traced(debug: bool, arch: str = "sm_90a") -> Kernel:
    return kernel(arch=arch, raw_params=[("u64", "p")], debug=debug)(stores)


def disassembly(cubin: bytes, tmp_path: Path) -> dict[str, tuple[str, int]]:
    """Offset in hexadecimal -> (file, line) of the line table, by nvdisasm itself."""
    path = tmp_path / "kernel.cubin"
    path.write_bytes(cubin)
    command = [ptxas.find_tool("nvdisasm"), "-g", "-c", str(path)]
    found: dict[str, tuple[str, int]] = {}
    place = ("", 0)
    for text in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n"):
        if head := re.match(r'\s*//## File "(.*)", line (\d+)', text):
            place = (head[1], int(head[2]))
        for offset in re.findall(r"0x11[0-9a-f]{3}\b", text):
            found.setdefault(offset, place)
    return found


def tools() -> None:
    for tool in ("ptxas", "nvdisasm"):
        try:
            ptxas.find_tool(tool)
        except ptxas.ToolNotFound:
            pytest.skip(f"no {tool}")


def test_loc_before_each_store_is_its_python_line():
    text = assembled(traced(debug=True)).split("\n")
    files = {int(n): name for n, name in re.findall(r'^\.file (\d+) "(.*)"$', "\n".join(text), re.MULTILINE)}
    for mark in MARKS:
        at = next(i for i, line in enumerate(text) if f"+{mark}]" in line)
        loc = next(line for line in reversed(text[:at]) if ".loc" in line)
        index, line, column = map(int, loc.split()[1:])
        assert files[index] == __file__
        assert line == line_of(mark)
        assert LINES[line - 1][column - 1 :].startswith("ptx.inst.st")


@pytest.mark.parametrize("options", [(), ("-lineinfo",), ("-g",)])
def test_line_table_of_the_cubin(options: tuple[str, ...], tmp_path: Path):
    tools()
    result = ptxas.assemble(traced(debug=True).ptx(), "sm_90a", options=options)
    assert result.ok and result.cubin is not None, result.log
    places = disassembly(result.cubin, tmp_path)
    for mark in MARKS:
        assert places[hex(mark)] == (__file__, line_of(mark)), hex(mark)


def test_without_debug_there_are_no_directives_and_the_same_instructions():
    plain, located = traced(debug=False).ptx(), traced(debug=True).ptx()
    assert ".loc" not in plain and ".file" not in plain
    kept = [line for line in located.split("\n") if not line.strip().startswith((".loc", ".file"))]
    assert "\n".join(kept).replace("\n\n\n", "\n\n") == plain


def test_a_kernel_with_lines_runs_the_same():
    out = np.full(20_000, 9, np.uint32)
    simulate(traced(debug=True), out, grid=1, block=1)
    assert {int(i) * 4: int(out[i]) for i in np.flatnonzero(out != 9)} == {70100: 1, 70200: 2, 70500: 5, 70700: 7}


def test_own_loc_holds_for_the_line_behind_it():
    def own():
        p = ptx.param(b64, "p")
        ptx.file_(1, "model.py")
        ptx.loc(1, 77, 3)
        ptx.inst.st.global_.u32(ptx.addr(p), 70001)
        ptx.inst.st.global_.u32(ptx.addr(p), 70002)

    text = assembled(kernel(raw_params=[("u64", "p")], debug=True)(own))
    before, after = text.index(", 70001;"), text.index(", 70002;")
    assert text[:before].rindex(".loc 1 77 3\n") == text[:before].rindex(".loc")
    assert re.search(r"\.loc 2 \d+ 9\n", text[before:after])
    assert '.file 2 "' + __file__ in text


def test_file_names_that_ptxas_refuses():
    namespace = {"ptx": ptx}
    exec(compile("def odd():\n    ptx.bar.sync(0)\n", 'a "näme"\n.py', "exec"), namespace)
    assert '.file 1 "a ?n?me??.py"' in assembled(kernel(debug=True)(namespace["odd"]))
    with pytest.raises(PTXError, match="printable ASCII without quotes"):
        kernel(lambda: ptx.file_(1, 'a"b.py')).ptx()


@pytest.mark.parametrize("debug", [False, True])
def test_explain_ties_python_to_ptx_and_sass(debug: bool):
    tools()
    found = traced(debug).explain()
    assert found.missing is None
    for mark in MARKS:
        row = found[line_of(mark)]
        assert row.filename == __file__
        assert row.source == LINES[row.line - 1].strip()
        assert any(f"+{mark}]" in text for _, text in row.ptx)
        assert [f"+{mark:#x}]" in line.text for line in row.sass].count(True) == 1
    text = traced(debug).ptx().split("\n")
    for row in found.rows:
        for number, instruction in row.ptx:
            assert text[number - 1].strip() == instruction
    assert sum(len(row.ptx) for row in found.rows) == len([s for s in text if s.startswith("\t") and s[1] not in "./"])
    table = str(found)
    assert f"{line_of(70100):4}  ptx.inst.st" in table and "SASS" in table.split("\n")[2]


def test_explain_limits_long_rows():
    def unrolled():
        p = ptx.param(b64, "p")
        for i in range(40):
            ptx.inst.st.global_.u32(ptx.addr(p, 4 * i), i)

    found = kernel(raw_params=[("u64", "p")])(unrolled).explain()
    assert "... and 37 more" in found.table(limit=3)
    assert "[%rd0+156], 39;" in found.table(limit=None)
    assert "<pre" in found._repr_html_()


def test_explain_without_tools(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PTXAS", "/nowhere/ptxas")
    found = traced(False).explain()
    assert found.missing is not None and "/nowhere/ptxas" in found.missing
    assert "no SASS: " in str(found)
    assert any("+70200]" in text for _, text in found[line_of(70200)].ptx)
    assert not any(row.sass for row in found.rows)


def test_explain_says_what_ptxas_refuses():
    def too_much():
        ptx.var("shared", u32, "big", size=100_000)
        ptx.inst.st.shared.u32(ptx.addr("big"), 1)

    found = kernel(too_much).explain()
    assert found.missing is not None and "ptxas refuses" in found.missing


def test_lines_behind_comments_and_multi_line_text():
    """A statement that keeps its own layout moves what follows by its lines."""

    def commented():
        r = reg.scalar(u32, init=1, name="%q")
        ptx.raw("add.u32 %q, %q,\n   2; // two lines\n")
        helper_lines(r)
        ptx.inst.st.global_.u32(ptx.addr(ptx.param(b64, "p")), 70001)

    @intrinsic
    def helper_lines(r):
        ptx.inst.add.u32(r, r, 3)

    found = kernel(raw_params=[("u64", "p")])(commented)
    text = found.ptx().split("\n")
    numbers = [n for n, line in enumerate(text, 1) if "st.global.u32" in line]
    first = inspect.getsourcelines(commented)[1]
    row = found.explain()[first + 4]
    assert numbers[0] in [n for n, _ in row.ptx]


def test_explain_of_imported_ptx():
    tools()
    text = traced(False).ptx()
    found = Kernel.from_ptx(text).explain()
    number = next(i for i, line in enumerate(text.split("\n"), 1) if "70200" in line)
    assert found[number].ptx == ((number, text.split("\n")[number - 1].strip()),)
    assert any(hex(70200) in line.text for line in found[number].sass)
