"""`pyptx info`: what is installed and found on this machine."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError, version

from ... import __version__
from ...diagnostics import install
from ..ptxas import ToolNotFound, find_tool, tool_version


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(options: argparse.Namespace) -> int:
    facts: dict[str, str] = {"pyptx": __version__, "python": platform.python_version()}
    for package in ("xdsl", "numpy", "ml_dtypes", "torch", "jax", "cuda-bindings", "nvidia-nvjitlink"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    for tool in ("ptxas", "nvdisasm", "cuobjdump"):
        try:
            facts[tool] = f"{tool_version(tool)} ({find_tool(tool)})"
        except ToolNotFound:
            facts[tool] = f"not found; {install('ptxas')} brings it"
    facts["gpu"] = _gpu()
    if options.json:
        print(json.dumps(facts, indent=1))
    else:
        width = max(map(len, facts))
        print("\n".join(f"{name:{width}}  {value}" for name, value in facts.items()))
    return 0


def _gpu() -> str:
    """The first GPU the driver sees, asked of the driver library itself (no package needed)."""
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver; kernels run on the simulator"
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or not count.value:
        return "the driver sees no GPU"
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGetName(name, 100, 0)
    return f"{name.value.decode()} ({count.value})"
