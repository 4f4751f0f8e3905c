"""Findings name the program that PTX was made from: `.file` and `.loc` as nvcc -lineinfo and Triton write them."""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx.diagnostics import SimulationError
from pyptx.tools.cli import main

DATA = Path(__file__).parents[1] / "data/lineinfo"
SOURCE = (DATA / "rotate.cu").read_text().split("\n")
STORE = next(n for n, line in enumerate(SOURCE, 1) if "words[threadIdx.x] =" in line)
LOAD = next(n for n, line in enumerate(SOURCE, 1) if "return words" in line)
CALL = next(n for n, line in enumerate(SOURCE, 1) if "neighbour(words, threadIdx" in line)


def test_both_sides_of_a_race_with_the_calls_that_were_inlined() -> None:
    kernel = pyptx.load(DATA / "rotate.ptx")["rotate"]
    (found,) = kernel.simulate(np.zeros(128, np.uint32), grid=1, block=128).distinct
    assert [(Path(o.filename).name, o.line) for o in found.origin] == [("rotate.cu", LOAD), ("rotate.cu", CALL)]
    text = found.render()
    assert f"from /build/rotate.cu:{LOAD}:" in text
    assert SOURCE[LOAD - 1] in text
    assert f"inlined at /build/rotate.cu:{CALL}:" in text
    assert f"the other side is from /build/rotate.cu:{STORE}:" in text
    assert SOURCE[STORE - 1] in text
    assert "words+4" in text  # the variable, not its address alone


def test_a_fault_of_a_triton_kernel_names_its_python() -> None:
    kernel = pyptx.load(DATA / "scan_rows.ptx")["scan_rows"]
    arrays = [np.zeros(100, np.float32), np.zeros(128, np.float32)]
    with pytest.raises(SimulationError, match=r"out of bounds") as caught:
        kernel.simulate(*arrays, 100, np.zeros(8), np.zeros(8), grid=1, block=128)
    line = (DATA / "scan_rows.ptx").read_text().split("\n")[:47]
    file, place = re.findall(r"// (scan_rows\.py):(\d+)", "\n".join(line))[-1]  # Triton's own comment on its .loc
    assert f"from /build/{file}:{place}:" in str(caught.value)


def test_text_that_is_not_from_a_file_opens_none(tmp_path: Path) -> None:
    text = (DATA / "rotate.ptx").read_text().replace("/build/rotate.cu", str(DATA / "rotate.cu"))
    (found,) = pyptx.load(text)["rotate"].simulate(np.zeros(128, np.uint32), grid=1, block=128).distinct
    assert f"rotate.cu:{LOAD}:" in found.render()
    assert SOURCE[LOAD - 1] not in found.render()
    secret = tmp_path / "secret"
    secret.write_text("nobody sees this\n" * 20)
    (tmp_path / "k.ptx").write_text(text.replace(str(DATA / "rotate.cu"), str(secret)))
    (found,) = pyptx.load(tmp_path / "k.ptx")["rotate"].simulate(np.zeros(128, np.uint32), grid=1, block=128).distinct
    assert "nobody sees this" not in found.render()


def test_check_analyse_and_debug_show_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(DATA / "rotate.cu", tmp_path)
    text = (DATA / "rotate.ptx").read_text()
    file = tmp_path / "rotate.ptx"
    file.write_text(re.sub(r"(st\.shared\.u32[ \t]+\[%r\d+\]), %r\d+", r"\1, %q", text))
    assert main(["check", "--no-ptxas", str(file)]) == 1
    told = capsys.readouterr().out
    assert f"from /build/rotate.cu:{STORE}:" in told
    assert SOURCE[STORE - 1] in told
    file.write_text(re.sub(r"(st\.shared\.u32[ \t]+\[%r\d+\]), %r\d+", r"\1, %r9", text).replace("%r<9>", "%r<10>"))
    page = tmp_path / "page.html"
    assert main(["analyse", "--no-ptxas", str(file)]) == 0
    told = capsys.readouterr().out
    assert "%r9 is read and never written" in told
    assert SOURCE[STORE - 1] in told
    assert main(["analyse", "--no-ptxas", "--html", str(page), str(file)]) == 0
    assert f"from /build/rotate.cu:{STORE}:" in page.read_text()
    file.write_text(text)
    capsys.readouterr()
    at = next(n for n, line in enumerate(text.split("\n"), 1) if "ld.shared" in line)
    monkeypatch.setattr(sys, "stdin", io.StringIO("c\n"))
    main(["debug", str(file), "--grid", "1", "--block", "128", "--arg", "zeros:u32:128", "--break", str(at)])
    told = capsys.readouterr().out
    before = told[: told.index("data race")]
    assert SOURCE[LOAD - 1] in before  # at the breakpoint
    assert f"the other side is from /build/rotate.cu:{STORE}:" in told


@pytest.mark.parametrize(
    ("directive", "known"),
    [
        (".loc 1 3 5", True),
        (".loc 1 0x3 5", True),
        (".loc 1 0 0", False),  # code of the compiler's own
        (".loc 9 3 5", True),  # a number without a .file
    ],
)
def test_directives(directive: str, known: bool) -> None:
    text = (
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n"
        f"{directive}\nadd.s32 %r1, %q, 1;\nret;\n}}\n.visible .entry m()\n{{\n.reg .b32 %r<3>;\nadd.s32 %r1, %q, 1;\nret;\n}}\n"
        '.file 1 "a.cu"\n'
    )
    first, second = pyptx.diagnose(text)[:2]
    assert bool(first.origin) == known
    assert not second.origin  # of another function
