"""`pytest --pyptx` on a suite that knows nothing of pyptx."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pyptx.adapters.pytest_plugin import options_of

SUITE = """
import pytest, torch, triton, triton.language as tl

@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)

@triton.jit
def collide(o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i // 2, i)

@triton.jit
def forever(o):
    while tl.load(o, volatile=True) == 0:
        pass

def test_add():
    x = torch.randn(300, device="cuda"); o = torch.empty_like(x)
    assert x.is_cuda and torch.cuda.get_device_capability() == (9, 0)
    add[(3,)](x, x.cuda(), o, 300, B=128)
    torch.cuda.synchronize()
    torch.testing.assert_close(o, x + x)

def test_collide(): collide[(1,)](torch.zeros(64, dtype=torch.int32, device="cuda"), B=64)

@pytest.mark.pyptx(check=False)
def test_unchecked(): collide[(1,)](torch.zeros(64, dtype=torch.int32, device="cuda"), B=64)

def test_bounds():
    x = torch.randn(100, device="cuda")
    add[(1,)](x, x, x, 1000, B=128)

@pytest.fixture
def collided():
    collide[(1,)](torch.zeros(64, dtype=torch.int32, device="cuda"), B=64)

@pytest.fixture
def collides_later():
    yield
    collide[(1,)](torch.zeros(64, dtype=torch.int32, device="cuda"), B=64)

def test_setup(collided): pass

def test_teardown(collides_later): pass

@pytest.mark.pyptx(findings="none")
def test_unjudged(): test_collide()

@pytest.mark.pyptx(nonsense=1)
def test_mark_unknown(): pass

@pytest.mark.pyptx(arch="sm_80")
def test_mark_arch(): pass

def test_forever(): forever[(1,)](torch.zeros(1, dtype=torch.int32, device="cuda"))
"""


CONFTEST = """
import torch
import torch._dynamo  # which keys functions by their identity

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
assert DEVICE == "cuda", "the suite asks before the first test"
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("suite")
    (folder / "test_suite.py").write_text(SUITE)
    (folder / "conftest.py").write_text(CONFTEST)
    root = Path(__file__).resolve().parents[2]
    plugin = [] if _installed() else ["-p", "pyptx.adapters.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, "-v", "-p", "no:cacheprovider", "--pyptx", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    return done.stdout + done.stderr


def _installed() -> bool:
    from importlib.metadata import entry_points

    return any(e.name == "pyptx" for e in entry_points(group="pytest11"))


def test_verdicts(output: str) -> None:
    verdicts: dict[str, set[str]] = {}
    for name, verdict in re.findall(r"test_suite\.py::(\w+) (PASSED|FAILED|ERROR|SKIPPED)", output):
        verdicts.setdefault(name, set()).add(verdict)
    assert verdicts == {
        "test_add": {"PASSED"}, "test_collide": {"FAILED"}, "test_unchecked": {"PASSED"}, "test_bounds": {"FAILED"},
        "test_forever": {"FAILED"}, "test_setup": {"ERROR"}, "test_teardown": {"PASSED", "ERROR"}, "test_unjudged": {"PASSED"},
        "test_mark_unknown": {"ERROR"}, "test_mark_arch": {"ERROR"},
    }, output  # fmt: skip


def test_failures_name_lines_of_the_suite(output: str) -> None:
    names = (
        "tl.store(o + i // 2",
        "tl.load(x + i",
        "pass",
    )  # Triton 3.9 gives the condition of `while` the line of its body
    for name in names:
        assert f"test_suite.py:{SUITE[: SUITE.index(name)].count(chr(10)) + 1}:" in output, output
    assert "pyptx found 1 problem in kernels of this test" in output
    assert "deadlock: 128 threads poll memory here" in output
    assert "simulator/machine" not in output  # frames of the simulator


def test_the_summary(output: str) -> None:
    assert "pyptx simulator" in output
    assert re.search(r"launches: \d+ in \d+\.\d s; findings that failed a test: 3\b", output)


def test_options() -> None:
    assert options_of("check=0,arch=sm_100,schedules=4")["schedules"] == 4
    assert options_of("check")["check"] is True
    for text in (
        "nonsense",
        "seed=x",
        "findings=all",
        "arch=hopper",
        "arch=sm_91",
        "arch=",
        "schedules=0",
        "max_steps=0",
    ):
        with pytest.raises(pytest.UsageError):
            options_of(text)
