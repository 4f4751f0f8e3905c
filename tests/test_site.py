"""The site as `make docs` builds it, in headless Chromium: links, pictures, widths, search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.site_check import browser, check

ROOT = Path(__file__).resolve().parent.parent


def test_site(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install '.[docs]'")
    if browser() is None:
        pytest.skip("Chromium is not installed")
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", site], check=True, cwd=ROOT)
    assert check(site) == []
    page = site / "testing" / "index.html"  # what the check is there for
    page.write_text(
        page.read_text()
        .replace('href="../report/"', 'href="../nosuch/"')
        .replace("<h1", '<div style="width:600px">x</div><h1')
    )
    found = check(site, pattern="testing/index.html")
    assert [f.partition(": ")[2] for f in found] == ["616 pixels wide", "no ../nosuch/"]
