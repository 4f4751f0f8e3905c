"""`pyptx-opt`: what it says about PTX that is illegal."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyptx.tools import opt
from pyptx.tools.cli import main as pyptx_main

BAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<6>;
	ld.param.u64 %rd1, [p];
	add.u32 %r2, %r1, %rd1;
	mul.f32 %r2, %r1;
	wgmma.fence.sync.aligned;
	ret;
}
"""


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["pyptx-opt", *words])
    try:
        opt.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_illegal_ptx_is_reported_as_check_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(BAD)
    assert run(monkeypatch, str(file), "-p", "ptx-dce", "-t", "ptx") == 1
    said = capsys.readouterr().err
    assert [line for line in (9, 10, 11) if f"{file}:{line}:" not in said] == []
    assert pyptx_main(["check", "--no-ptxas", str(file)]) == 1
    assert capsys.readouterr().out.startswith(said.rstrip("\n"))


def test_lines_of_a_split_file_count_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.ptx"
    good = ".version 8.0\n.target sm_80\n.entry k()\n{\n\tret;\n}\n"
    file.write_text(f"{good}// -----\n{BAD}")
    assert run(monkeypatch, str(file), "--split-input-file", "-t", "ptx") == 1
    lines = file.read_text().splitlines()
    assert f"{file}:{lines.index('	mul.f32 %r2, %r1;') + 1}:" in capsys.readouterr().err


@pytest.mark.parametrize("option", [(), ("--parsing-diagnostics",)])
def test_text_that_is_no_ptx_is_told_once_with_its_caret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    file = tmp_path / "k.ptx"
    good = ".version 8.0\n.target sm_80\n.entry k()\n{\n\tret;\n}\n"
    file.write_text(f"{good}// -----\n{good.replace('ret;', 'add.s32 %r1 %r2, %r3;')}")
    status = run(monkeypatch, str(file), "--split-input-file", "-t", "ptx", *option)
    captured = capsys.readouterr()
    said = (captured.out if option else captured.err).splitlines()
    assert status == (0 if option else 1)
    (at,) = (i for i, line in enumerate(said) if "unexpected" in line)
    assert said[at].startswith(f"{file}:12:14: error: ")
    assert said[at + 1 : at + 3] == ["\tadd.s32 %r1 %r2, %r3;", "\t            ^"]
    assert sum("%r1 %r2" in line for line in said) == 1


@pytest.mark.parametrize("option", [("-t", "ptx-no-trivia"), ("-t", "ptx", "-p", "ptx-strip-comments")])
def test_printing_for_tests_has_no_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    """What FileCheck reads must not hold the test's own `// CHECK` lines: a false one would match itself."""
    file = tmp_path / "k.ptx"
    comment = "// CHECK: exit;"
    file.write_text(
        f"{comment}\n.version 8.0 /* CHECK: a */\n.target sm_80 {comment}\n.global .b8 t[2] = {{ 1, {comment}\n2 }};\n"
        f".entry k ( {comment}\n)\n{{{comment}\n{comment}\nret{comment}\n;{comment}\n}}\n{comment}\n"
    )
    assert run(monkeypatch, str(file), *option) == 0
    printed = capsys.readouterr().out
    assert "CHECK" not in printed
    assert "\tret;\n" in printed


def test_an_unknown_pass_has_a_proposal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["pyptx-opt", "-p", "ptx-dcee,canonicalise"])
    with pytest.raises(SystemExit):
        opt.main()
    said = capsys.readouterr().err
    assert "ptx-dcee: did you mean `ptx-dce`" in said and "canonicalise: did you mean `canonicalize`" in said
