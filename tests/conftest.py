"""What all tests share: the corpus next to the project, the GPU, and how Hypothesis runs."""

from __future__ import annotations

import ctypes
import os
import random
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
CI = os.environ.get("CI", "").lower() in ("true", "1", "yes")

# Machines are shared, so no example is timed; in CI a run is repeatable.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if CI else "local")


def corpus_files(pattern: str = "**/*.ptx") -> list[Path]:
    """The corpus files that match, sorted; for `parametrize` in a test marked `corpus`.

    Without the corpus it is one placeholder, so that the test exists, to be skipped, or to fail in CI.
    """
    return sorted(CORPUS.glob(pattern)) or [CORPUS / "missing.ptx"]


def some_corpus_files(folder: Path, size: int = 150_000) -> list[Path]:
    """Files of a folder of the corpus, other ones in each run, of about `size` bytes together: a whole folder takes minutes
    where a program is made, run and compared for each. A failure names its file.
    """
    chosen: list[Path] = []
    for path in random.sample(found := sorted(folder.glob("*.ptx")), len(found)):
        size -= path.stat().st_size
        if chosen and size < 0:
            break
        chosen.append(path)
    return chosen


def corpus_id(path: Path) -> str:
    """A test id for a corpus file: its path in the corpus."""
    return path.relative_to(CORPUS).as_posix()


@pytest.fixture(scope="session")
def corpus_dir() -> Path:
    """The folder of the corpus. For tests marked `corpus`."""
    _need_corpus()
    return CORPUS


def _need_corpus() -> None:
    if CORPUS.is_dir():
        return
    if CI:
        pytest.fail(f"no corpus at {CORPUS}, which CI must have", pytrace=False)
    pytest.skip(f"no corpus at {CORPUS}")


@lru_cache(maxsize=1)
def has_gpu() -> bool:
    """Whether the driver is there and sees a GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("corpus"):
        _need_corpus()
    if item.get_closest_marker("gpu") and not has_gpu():
        pytest.skip("no GPU")
