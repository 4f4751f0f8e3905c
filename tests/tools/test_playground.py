"""The page that runs in the browser: its functions in CPython, and checking in the Pyodide that npm has."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import pyptx
from pyptx.tools.playground import check, run

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "playground.md").read_text()
TEXT = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", PAGE, re.S)[0]
WRONG = TEXT.replace("mul.wide", "mul.wid")


def test_the_text_of_the_page() -> None:
    """It reverses; without the barrier, which the page says to delete, it has a race."""
    assert check(TEXT) == "kernel.ptx: fine"
    said = run(TEXT)
    assert "0 findings" in said and "zeros:f32:32 = [31.0, 30.0, 29.0, 28.0] ..." in said
    assert "kernel.ptx:24:" in run(TEXT.replace("bar.sync 0;", ""))
    assert (
        run(WRONG).startswith("the simulation stopped\nkernel.ptx:15: error: mul has no modifier .wid")
        and run("") == "this text has no entry"
    )


def test_the_versions_of_the_page() -> None:
    package = json.loads((ROOT / "tests" / "playground" / "package.json").read_text())
    assert f"/v{package['dependencies']['pyodide']}/full/" in PAGE
    assert f"pyptx-{pyptx.__version__}-py3-none-any.whl" in PAGE


def test_in_pyodide(tmp_path: Path) -> None:
    """npm's Pyodide is without packages: pyptx, xDSL and what it needs are pure Python and come from this environment. NumPy is missing, so nothing runs."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    for path in (*(ROOT / "tests" / "playground").glob("*.*"), ROOT / "docs" / "playground.mjs"):
        shutil.copy(path, tmp_path)
    install = ["npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        reason = re.search(
            r"npm error code (ENOTCACHED|ENOTFOUND|ECONN\w+|EAI_AGAIN|ETIMEDOUT|E404|ENETUNREACH)", done.stderr
        )
        assert reason is not None, done.stderr
        pytest.skip(f"npm's packages are not to be had: {reason[1]}")
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        for name in ("pyptx", "xdsl", "immutabledict", "ordered_set", "typing_extensions"):
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None
            origin = Path(spec.origin)
            files = origin.parent.rglob("*.py") if origin.name == "__init__.py" else [origin]
            top = origin.parent.parent if origin.name == "__init__.py" else origin.parent
            for file in files:
                archive.write(file, file.relative_to(top))
    (tmp_path / "wrong.ptx").write_text(WRONG)
    (tmp_path / "right.ptx").write_text(TEXT)
    command = ["node", "check.mjs", "packages.zip", "wrong.ptx", "right.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    wrong, right, ran = map(json.loads, done.stdout.splitlines())
    assert (wrong, right) == (check(WRONG), check(TEXT)) and "No module named 'numpy'" in ran
