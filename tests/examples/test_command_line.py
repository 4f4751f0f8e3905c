"""The command line of the examples: the same options everywhere, and an exit status that says whether all is well."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from runpy import run_module

import pytest

import examples
import pyptx
from examples.ampere import gemm_pipelined
from examples.common import examine
from pyptx import ptx

FOLDER = Path(examples.__file__ or "").parent
EXAMPLES = sorted(
    ".".join(("examples", part.parent.name, part.stem))
    for generation in ("ampere", "hopper", "blackwell", "geforce")
    for part in (FOLDER / generation).glob("*.py")
    if "def main(" in part.read_text() or "shared.main" in part.read_text()
)


def run(module: str, *words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit status of `python -m module words`."""
    found = import_module(module)
    monkeypatch.setattr(sys, "argv", [module, *words])
    if hasattr(found, "main"):
        return found.main()
    return found.shared.main(arch={"ampere": "sm_80", "blackwell": "sm_100a"}[module.split(".")[1]])


@pytest.mark.parametrize("module", EXAMPLES)
def test_ptx(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(module, "--ptx", monkeypatch=monkeypatch) == 0
    text = capsys.readouterr().out
    kernels = [".version" + part for part in text.split(".version")[1:]]
    assert len(kernels) == (4 if module.endswith("primitives") else 1)
    assert all(pyptx.diagnose(k) == [] for k in kernels)
    with pytest.raises(SystemExit) as caught:
        run(module, "--help", monkeypatch=monkeypatch)
    assert caught.value.code == 0
    help_ = capsys.readouterr().out
    options = ("--check", "--ptx") if module.endswith("primitives") else ("--size", "--arch", "--check", "--ptx")
    assert all(option in help_ for option in options)


def test_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("examples.ampere.rms_norm", "--size", "3", "1672", "--check", monkeypatch=monkeypatch) == 0
    assert "rms_norm sm_80  checked by pyptx, ptxas and the sanitizer: no findings" in capsys.readouterr().out


def test_check_finds_a_missing_wait(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ptx.cp.async_, "wait_group", lambda *_, **__: None)
    assert not examine(gemm_pipelined.build(130, 70, 104))
    assert "error:" in capsys.readouterr().out


AGAIN = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")


@AGAIN
@pytest.mark.parametrize(
    ("module", "words", "message"),
    [
        ("examples.hopper.gemm", ["--size", "7"], "N must be even and K a multiple of 8"),
        ("examples.hopper.softmax", ["--size", "3", "7"], "16-byte vectors"),
        ("examples.hopper.grouped_gemm", ["--size", "0"], "invalid positive value: '0'"),
        ("examples.distributed.sharded_gemm", ["--ranked"], "RANK and WORLD_SIZE"),
        ("examples.distributed.sharded_gemm", ["--ranks", "0"], "invalid positive value: '0'"),
        ("benchmarks.gpu.run", ["--fake", "77"], "77 is not a compute capability of the checks"),
    ],
)
def test_wrong_words(
    module: str, words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", [module, *words])
    with pytest.raises(SystemExit) as caught:
        run_module(module, run_name="__main__")
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@AGAIN
@pytest.mark.parametrize("module", ["examples.ampere.tiles", "examples.common", "examples.gemms"])
def test_a_part_is_not_a_program(module: str) -> None:
    with pytest.raises(SystemExit, match="run one of them"):
        run_module(module, run_name="__main__")


def test_the_demo_has_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("examples.demo", "--help", monkeypatch=monkeypatch)
    assert caught.value.code == 0
    assert "examples.demo" in capsys.readouterr().out


_AS_FILES = """
import runpy, sys
from pathlib import Path
root = sys.argv[1]
start = [p for p in sys.path if Path(p or ".").resolve() != Path(root)]
for name in sys.argv[2:]:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == "examples"]:
        del sys.modules[loaded]
    sys.path[:] = [str(Path(root, name).parent), *start]
    try:
        runpy.run_path(str(Path(root, name)), run_name="example")
    except ImportError as error:
        if error.name in ("torch", "jax"):
            continue
        raise
    print(name)
"""


def test_every_example_runs_as_a_file(tmp_path: Path) -> None:
    """`python examples/hopper/gemm.py`: its imports are found from anywhere."""
    root = Path(__file__).parents[2]
    files = sorted(p for p in root.glob("examples/**/*.py") if p.stem not in ("__init__", "examples"))
    names = [str(p.relative_to(root)) for p in files]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", _AS_FILES, str(root), *names]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "examples/hopper/gemm.py" in done.stdout
