"""PTX as text, as a file and on standard input: what is taken for which, and bytes that are not UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pyptx
from pyptx.diagnostics import PTXError
from tests.conftest import ROOT

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n"
LATIN = TEXT.encode() + b"// caf\xe9 \xff\r\n"


def run(
    *words: str, data: bytes = b"", encoding: str = "", tool: str = "pyptx.tools.cli"
) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "0"}
    if encoding:
        environment |= {"PYTHONIOENCODING": encoding}
    return subprocess.run([sys.executable, "-m", tool, *words], input=data, capture_output=True, env=environment)


def test_a_string_is_text_unless_it_names_a_ptx_file(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_bytes(LATIN)
    other = tmp_path / "k.s"
    other.write_bytes(LATIN)
    for take in (pyptx.parse, pyptx.load, pyptx.diagnose, pyptx.codegen.ptx_to_python, pyptx.Kernel.from_ptx):
        take(TEXT)  # pyright: ignore
        take(str(file))  # pyright: ignore
        take(file)  # pyright: ignore
        take(other)  # pyright: ignore
    assert pyptx.to_ptx(pyptx.parse(other)).encode("utf-8", "surrogateescape") == LATIN
    with pytest.raises(PTXError):
        pyptx.load(str(other))  # a name that does not end in .ptx is text
    with pytest.raises(FileNotFoundError):
        pyptx.parse(str(tmp_path / "missing.ptx"))


def test_a_path_that_was_read_as_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text("words")
    for path, words in (
        (file, "looks like a path"),
        (tmp_path, "path of a folder"),
        (tmp_path / "no" / "a.cubin", "looks like a path"),
    ):
        with pytest.raises(PTXError, match=words):
            pyptx.load(str(path))
        with pytest.raises(PTXError, match=words):
            pyptx.predict(str(path), card="H100")
    for text in ("", "mov", "// a comment", "ret; // a/b", ".version 8.0"):  # text, and not legal
        with pytest.raises(PTXError, match=r"the module has no|expected") as caught:
            pyptx.load(text)
        assert "path" not in str(caught.value)


def test_simulate_says_how_ptx_is_loaded(tmp_path: Path) -> None:
    for given, shown in (
        ("f.ptx", "'f.ptx'"),
        (TEXT.decode() if isinstance(TEXT, bytes) else TEXT, "text"),
        (tmp_path / "f.ptx", "f.ptx"),
    ):
        with pytest.raises(PTXError, match="simulate takes a kernel, not PTX or a path") as caught:
            pyptx.simulate(given, 1)
        assert shown in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 5, b".version 8.0"])
def test_other_objects_are_refused_in_words(wrong: object) -> None:
    for take in (pyptx.parse, pyptx.load):
        with pytest.raises(TypeError, match=f"PTX is text or a path, not {type(wrong).__name__}"):
            take(wrong)  # pyright: ignore


@pytest.mark.parametrize("command", [["check", "--no-ptxas"], ["analyse", "--no-ptxas"], ["fmt"], ["transpile"]])
def test_standard_input_is_never_a_name(command: list[str], tmp_path: Path) -> None:
    secret = tmp_path / "secret.ptx"
    secret.write_text("the first line of a secret\n")
    done = run(*command, "-", data=str(secret).encode())
    assert done.returncode == 1
    assert b"the first line" not in done.stdout + done.stderr


@pytest.mark.parametrize("encoding", ["", "ascii", "utf-8"])
def test_bytes_come_out_as_they_went_in(encoding: str) -> None:
    assert run("fmt", "-", data=LATIN, encoding=encoding).stdout.endswith(b"// caf\xe9 \xff\n")
    for command in (["check", "--no-ptxas"], ["analyse", "--no-ptxas"]):
        done = run(*command, "-", data=LATIN, encoding=encoding)
        assert (done.returncode, done.stderr) == (0, b"")


def test_an_ascii_terminal_takes_other_paths(tmp_path: Path) -> None:
    file = tmp_path / "kärnel.ptx"
    file.write_text(TEXT)
    done = run("check", "--no-ptxas", str(file), encoding="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"fine" in done.stdout


def test_one_missing_file_does_not_hide_the_others(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(TEXT.replace("ret;", "rett;"))
    done = run("check", "--no-ptxas", "--json", str(file), str(tmp_path / "nosuch"))
    assert done.returncode == 2
    assert b"rett" in done.stdout
    assert b"nosuch: No such file" in done.stderr


def test_version() -> None:
    done = run("--version")
    assert done.stdout.decode().strip() == f"pyptx {pyptx.__version__}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["debug", "F", "--arg", "zeros:u32:999999999999"], "999999999999 elements are not an array of 0 to 4 GiB"),
        (["debug", "F", "--arg", "zeros:u32:-1"], "-1 elements are not an array"),
        (["debug", "F", "--arg", "u32:five"], "'five' is not a number"),
        (["debug", "F", "--arg", "nosuch.npy"], "nosuch.npy: No such file"),
        (["debug", "F", "--timeline", "x.txt"], "'x.txt' is not a timeline's file: its name ends in .svg or .json"),
        (["diff", "F", "F", "--context", "-3"], "'-3' is not a number of statements"),
    ],
)
def test_wrong_options_say_what_is_legal(words: list[str], message: str, tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(TEXT)
    done = run(*(str(file) if w == "F" else w for w in words))
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["s -1", "s abc", "s 0", "s 1 2"])
def test_step_takes_a_number(command: str, tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(TEXT)
    done = run("debug", str(file), data=f"{command}\nq\n".encode())
    assert f"step takes a number of instructions, 1 or more, not {command[2:]}".encode() in done.stdout


def test_opt_reads_ptx_from_standard_input() -> None:
    done = run("-t", "ptx", data=b"// a comment\n/* another */ " + TEXT.encode(), tool="pyptx.tools.opt")
    assert done.stdout.endswith(TEXT.encode())


def test_a_pass_that_changes_the_judge_runs_before_the_first_verdict() -> None:
    text = TEXT.replace("\tret;", "\t.reg .b32 %r<3>;\n\tredux.sync.add.u32 %r1, %r2, -1;\n\tret;").replace(
        "8.0", "6.0"
    )
    text = text.replace("sm_80", "sm_50")
    cured = run("-p", 'ptx-retarget{target="sm_90a"}', "-t", "ptx", data=text.encode(), tool="pyptx.tools.opt")
    assert (cured.returncode, b".target sm_90a" in cured.stdout) == (0, True)
    refused = run("-p", 'ptx-retarget{target="sm_70"}', "-t", "ptx", data=text.encode(), tool="pyptx.tools.opt")
    assert refused.returncode == 1
    assert b"redux" in refused.stderr


def test_unsized_parameters_need_6_0() -> None:
    text = ".version 7.0\n.target sm_50\n.address_size 64\n.func f(.param .b8 p[])\n{\n\tret;\n}\n"
    done = run("-p", "ptx-infer-version", "-t", "ptx", data=text.encode(), tool="pyptx.tools.opt")
    assert done.stdout.startswith(b".version 6.0\n")


@pytest.mark.parametrize(
    "line", ["// see kernel.ptx", ".version 9.5 // x.ptx", "ret; // my.ptx", "a\0b.ptx", "/* */.ptx"]
)
def test_a_line_that_cannot_be_a_name_is_text(line: str) -> None:
    assert pyptx.diagnose(line)
    for take in (pyptx.parse, pyptx.load):
        with pytest.raises(PTXError):
            take(line)


def test_a_dash_is_standard_input_for_the_optimiser() -> None:
    done = run("-", "-t", "ptx", data=LATIN, tool="pyptx.tools.opt")
    assert done.returncode == 0
    assert done.stdout == LATIN


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8-sig", "UTF-8 with a byte order mark (the bytes ef bb bf)"),
        ("utf-16", "UTF-16 with a byte order mark (the bytes ff fe)"),
        ("utf-32", "UTF-32 with a byte order mark (the bytes ff fe 00 00)"),
        ("utf-16-le", "UTF-16 (byte 2 is 00)"),
        ("utf-16-be", "UTF-16 (byte 1 is 00)"),
    ],
)
def test_other_encodings_are_named_once(encoding: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_bytes(TEXT.encode(encoding))
    with pytest.raises(PTXError) as caught:
        pyptx.load(file)
    (found,) = caught.value.diagnostics
    assert said in found.message and (found.line, found.column) == (1, 1)


def test_a_byte_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_bytes(TEXT.encode().replace(b"ret", b"r\xe9t"))
    with pytest.raises(PTXError, match="byte 0xe9, which is not UTF-8"):
        pyptx.parse(file)
    assert any("0xe9" in d.message for d in pyptx.diagnose(file))
