"""The fake driver and the native launcher, built by gcc from this checkout once per session."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pyptx.runtime import driver, launch

# eight CPU devices for JAX, if it has not been started yet
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def gcc(source: Path, target: Path, *options: str) -> Path:
    """A shared library of a C file. Skips without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine to build the fake driver and the launcher with")
    command = [
        compiler,
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        *options,
        str(source),
        "-o",
        str(target),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


class FakeDriver:
    """Control of the fake driver (fake_cuda.c)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fake_record.restype = ctypes.c_char_p
        self.library.fake_launches.restype = ctypes.c_long
        self.library.fake_set.argtypes = [ctypes.c_char_p, ctypes.c_long]
        self.library.fake_fail.argtypes = [ctypes.c_char_p, ctypes.c_int]

    def reset(self) -> None:
        self.library.fake_reset()

    def set(self, what: str, value: int) -> None:
        self.library.fake_set(what.encode(), value)

    def fail(self, function: str, code: int) -> None:
        """The next call of that function returns the code."""
        self.library.fake_fail(function.encode(), code)

    @property
    def lines(self) -> list[str]:
        return self.library.fake_record().decode().splitlines()

    @property
    def launches(self) -> list[dict[str, str]]:
        """The launches: `name`, `grid`, `block`, ..., and `parameters` as one string of hex words."""
        found: list[dict[str, str]] = []
        for line in self.lines:
            if not line.startswith("launch "):
                continue
            words, _, parameters = line.partition(" parameters")
            _, name, *rest = words.split()
            found.append({"name": name, "parameters": parameters.strip(), **dict(w.split("=", 1) for w in rest)})
        return found

    def parameters(self, launch: int = -1) -> list[bytes]:
        return [bytes.fromhex(word) for word in self.launches[launch]["parameters"].split()]


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    path = gcc(HERE / "fake_cuda.c", tmp_path_factory.mktemp("fake") / "fake_cuda.so", "-std=gnu11", "-lpthread")
    return FakeDriver(path)


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The native launcher of this checkout."""
    include = sysconfig.get_paths()["include"]
    if not Path(include, "Python.h").exists():
        pytest.skip(f"no Python.h in {include}")
    path = tmp_path_factory.mktemp("native") / "_launcher.abi3.so"
    gcc(ROOT / "pyptx" / "runtime" / "_launcher.c", path, "-std=c11", f"-I{include}")
    spec = importlib.util.spec_from_file_location("pyptx.runtime._launcher", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def fake(fake_library: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    """The fake driver in place of NVIDIA's, with two GPUs of sm_90; CPU tensors are tensors of GPU 0."""
    monkeypatch.setenv("PYPTX_CUDA_DRIVER_LIBRARY", str(fake_library.path))
    monkeypatch.setenv("PYPTX_CACHE_DIR", str(tmp_path / "cache"))
    fake_library.reset()
    driver._open.cache_clear()
    driver.descriptor_store.cache_clear()
    launch._functions.clear()
    yield fake_library
    fake_library.reset()
    driver._open.cache_clear()
    launch._functions.clear()


@pytest.fixture(params=["native", "dlpack", "python"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of the launchers in turn: native, that on a torch which only DLPack can read, and Python."""
    launch.native_launcher.cache_clear()
    if request.param == "dlpack":
        monkeypatch.setattr(launch, "torch_internals", lambda torch, native: None)
    if request.param != "python":
        module = request.getfixturevalue("native")
        monkeypatch.setitem(sys.modules, "pyptx.runtime._launcher", module)
        monkeypatch.setattr("pyptx.runtime._launcher", module, raising=False)
    else:
        monkeypatch.setenv("PYPTX_NATIVE", "0")
    yield request.param
    launch.native_launcher.cache_clear()
