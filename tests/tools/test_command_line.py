"""The command line: folders and patterns, colours, completion, and JSON that keeps to its schemas."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyptx.sources import files_of
from pyptx.tools.cli import COMMANDS, main, make_parser
from pyptx.tools.terminal import coloured

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMAS = {p.stem: json.loads(p.read_text()) for p in (ROOT / "docs" / "schemas").glob("*.json")}
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	.reg .pred %p<2>;
	.shared .align 4 .b32 s[32];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 0;
$loop:
	st.shared.u32 [s], %r1;
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p1, %r2, 10;
	@%p1 bra $loop;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def check(value: Any, schema: dict[str, Any], at: str = "$") -> None:
    """The part of JSON Schema that our schemas use; a keyword that is not known here fails."""
    known = {"$schema", "title", "type", "enum", "required", "properties", "additionalProperties", "items"}
    assert not schema.keys() - known, f"{at}: {schema.keys() - known}"
    if "enum" in schema:
        assert value in schema["enum"], f"{at}: {value!r}"
    kinds = schema.get("type", list(TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert any(isinstance(value, TYPES[k]) and (k == "boolean" or not isinstance(value, bool)) for k in kinds), (
        f"{at}: {value!r}"
    )
    if isinstance(value, list):
        for i, each in enumerate(value):
            check(each, schema.get("items", {}), f"{at}[{i}]")
    if isinstance(value, dict):
        assert value.keys() >= set(schema.get("required", ())), (
            f"{at}: {set(schema['required']) - value.keys()} missing"
        )
        for key, each in value.items():
            check(each, schema.get("properties", {}).get(key, schema.get("additionalProperties", {})), f"{at}.{key}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.ptx").write_text(TEXT)
    (tmp_path / "deep" / "b.ptx").write_text(TEXT.replace("10;", "11;"))
    (tmp_path / "deep" / "notes.txt").write_text("no PTX")
    (tmp_path / "other.text").write_text(TEXT.replace("[%rd1], %r1", "[%rd1], %r2"))
    (tmp_path / "bad.txt").write_text(TEXT.replace("add.u32 %r2, %r2", "add.u32 %r2, %rd1"))
    (tmp_path / "broken.txt").write_text(".version 8.0\n.target sm_90a\n.entry k( {\n")
    return tmp_path


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("check", "check --no-ptxas bad.txt"),
        ("check", "check --no-ptxas a.ptx"),
        ("diff", "diff a.ptx deep/b.ptx"),
        ("diff-run", "diff --run --inputs 1 a.ptx deep/b.ptx"),
        ("diff-run", "diff --run --inputs 1 a.ptx other.text"),
        ("analyse", "analyse --no-ptxas a.ptx"),
        ("analyse", 'analyse a.ptx --time --grid 4 --block 32 --arg zeros:u32:32 --card H200'),
        ("analyse", "analyse --no-ptxas a.ptx --time --card H100 --block 32 --arg zeros:u32:32 --what-if"),
        ("cache", "cache"),
        ("info", "info"),
        ("sass", "sass a.ptx"),
        ("errors", "analyse broken.txt"),
        ("errors", "diff broken.txt broken.txt"),
    ],
)  # fmt: skip
def test_json_keeps_to_its_schema(
    schema: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main([*words.split(), "--json"]) in (0, 1, 2)
    check(json.loads(capsys.readouterr().out), SCHEMAS[schema])


def test_the_check_of_schemas_finds_what_is_wrong() -> None:
    good = {"puzzle": 1, "solved": True, "problem": ""}
    check(good, SCHEMAS["puzzle"])
    for bad in ({**good, "puzzle": True}, {**good, "problem": None}, {"puzzle": 1}, []):
        with pytest.raises(AssertionError):
            check(bad, SCHEMAS["puzzle"])


def test_each_command_with_json_has_a_schema() -> None:
    parser = make_parser(COMMANDS, COMMANDS)
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    with_json = {name for name, sub in commands.choices.items() if "--json" in sub._option_string_actions}
    page = (ROOT / "docs" / "command-line.md").read_text()
    assert with_json | {"errors", "diff-run"} == SCHEMAS.keys()
    assert all(f"(schemas/{name}.json)" in page for name in SCHEMAS)
    assert all(f"| `{name}` | {text} |" in page for name, text in COMMANDS.items())


def test_folders_and_patterns(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    deep = os.path.join("deep", "b.ptx")
    assert list(files_of([".", "-"])) == [os.path.join(".", "a.ptx"), os.path.join(".", deep), "-"]
    assert list(files_of(["**/*.ptx"])) == ["a.ptx", deep] and list(files_of(["nosuch"])) == ["nosuch"]
    (folder / "odd[1].ptx").write_text(TEXT)
    assert list(files_of(["odd[1].ptx"])) == ["odd[1].ptx"]
    assert main(["check", "--no-ptxas", "deep"]) == 0 and f"{deep}: fine" in capsys.readouterr().out
    assert main(["fmt", "--check", "*.ptx"]) in (0, 1)
    for nothing in ("x*.ptx", "empty"):
        (folder / "empty").mkdir(exist_ok=True)
        assert main(["check", nothing]) == 2 and f"{nothing}: no PTX file is there" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    text = "a.ptx:1:2: error: no: error: x\n\tadd.s32 error: y\nhint: z"
    assert coloured(text, io.StringIO()) == text == coloured(text)
    assert coloured(text, Terminal()) == (
        "a.ptx:1:2: \x1b[1;31merror\x1b[0m: no: error: x\n\tadd.s32 error: y\n\x1b[1;32mhint\x1b[0m: z"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured(text, Terminal()) == text


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("check", "puzzle", "--no-ptxas", "--rename"))
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_completion_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2 and "pip install '.[completion]'" in capsys.readouterr().err


WITHOUT_POSIX = """
import os, sys
import numpy as np
for name in "fcntl resource termios pwd grp pty tty readline curses syslog crypt".split():
    sys.modules[name] = None
for name in "fork forkpty getuid geteuid getgid setsid killpg sched_getaffinity register_at_fork uname".split():
    vars(os).pop(name, None)
import pyptx
from pyptx import Tile, kernel, ptx
from pyptx.types import f32
from pyptx.tools.cli import main

@kernel(in_specs=[Tile(32, f32)], out_specs=[Tile(32, f32)], grid=1, block=32)
def twice(x, out):
    t = ptx.special.tid.x()
    (ptx.pointer(out) + t).store((ptx.pointer(x) + t).load() * 2.0)

x = np.arange(32, dtype=np.float32)
assert (twice(x) == 2 * x).all()
text = twice.ptx()
assert pyptx.to_ptx(pyptx.parse(text)) == text and not pyptx.diagnose(text)
open("k.ptx", "w").write(text)
sys.exit(main(["check", "--no-ptxas", "k.ptx"]) | main(["analyse", "--no-ptxas", "k.ptx"]) | main(["fmt", "--rename", "k.ptx"]))
"""


def test_what_is_not_a_launch_needs_nothing_of_posix(tmp_path: Path) -> None:
    """With what Windows lacks taken away: it imports, traces, simulates, parses, checks, analyses and formats."""
    (tmp_path / "program.py").write_text(WITHOUT_POSIX)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYPTX_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        *(f"{c} empty.txt" for c in ("check --no-ptxas", "fmt", "diff a.ptx", "diff --run a.ptx", "analyse", "transpile", "sass")),
        *(f"{c} u16.txt" for c in ("check --no-ptxas", "fmt", "diff a.ptx", "diff --run a.ptx", "analyse", "transpile", "sass")),
    ],
)  # fmt: skip
def test_ptx_that_cannot_be_read_is_status_1(
    words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "empty.txt").write_text("")
    (folder / "u16.txt").write_text(TEXT, encoding="utf-16")
    assert main(words.split()) == 1
    said = capsys.readouterr()
    assert ("this is UTF-16" if "u16" in words else "the module has no .version") in said.out + said.err


@pytest.mark.parametrize(
    "words",
    [
        "analyse a.ptx --no-ptxas --kernel nope",
        "analyse a.ptx --no-ptxas --block 0",
        "analyse a.ptx --no-ptxas --clock 0",
        "analyse a.ptx --no-ptxas --grid 4",
        *(f"analyse a.ptx --no-ptxas --time --card {rest}" for rest in (
            "A1000", "H100 --grid x", "H100 --grid 0", "H100 --grid 1,1,1,1", "H100 --arg foo",
            "H100 --arg zeros:u32:32 --sample 0", "H100 --arg zeros:u32:32 --clock 0",
        )),
        "sass a.ptx --arch foo",
        "sass a.ptx --arch sm_1",
        "sass a.ptx --arch sm_75",
        "sass a.ptx --kernel nope",
        "diff --run a.ptx a.ptx --entry nope",
        "diff --run a.ptx a.ptx --arg nope=u32:1",
        "diff --run a.ptx a.ptx --elements 9000000000000",
        "diff a.ptx nofile.ptx",
        "debug a.ptx --entry nope",
        "debug a.ptx --grid 0",
        "debug a.ptx --arg foo",
        "puzzle 99",
        "check --no-ptxas nofile.ptx a.ptx",
        "fmt nofile.ptx a.ptx",
        "transpile nofile.ptx",
    ],
)  # fmt: skip
def test_wrong_use_is_status_2(
    words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    try:
        status = main(words.split())
    except SystemExit as stop:  # argparse
        status = stop.code
    assert status == 2 and capsys.readouterr().err


def test_the_files_after_one_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "u16.txt").write_text(TEXT, encoding="utf-16")
    assert main(["check", "--no-ptxas", "u16.txt", "a.ptx"]) == 1
    out = capsys.readouterr().out
    assert "u16.txt: 1 error\n" in out and "a.ptx: fine (pyptx)" in out
    for bad, status in (("u16.txt", 1), ("broken.txt", 1), ("nofile.ptx", 2)):
        assert main(["fmt", bad, "a.ptx"]) == status
        said = capsys.readouterr()
        assert bad in said.err and ".visible .entry k" in said.out


def test_sass_says_what_ptxas_makes_code_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(folder / "a.ptx")
    main(["sass", file, "--arch", "sm_1"])
    assert "ptxas makes no code for arch 'sm_1'; it takes sm_75, " in capsys.readouterr().err
    main(["sass", file, "--arch", "sm_80"])
    assert "the text is for sm_90a, of which no code for sm_80 can be made" in capsys.readouterr().err
