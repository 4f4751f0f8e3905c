"""Modules that say `ENGINES = (None, "jit")` run a second time with every launch on the second engine, unchecked (checks
run in NumPy). None: as the test asks for.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

import pyptx.simulator
from pyptx.numerics import llvm as compiler
from pyptx.simulator.launch import loaded
from pyptx.simulator.launch.launch import simulate_entry
from pyptx.simulator.launch.options import Options


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    engines = getattr(metafunc.module, "ENGINES", None)
    if engines is not None:
        metafunc.parametrize("engine", engines, indirect=True, ids=lambda name: name or "asked")


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    name: str | None = getattr(request, "param", None)
    if name is None:
        return None
    if not compiler.available():
        pytest.skip("needs llvmlite (the extra jit)")

    @functools.wraps(simulate_entry)
    def entry(loaded: Any, entry: str, args: Any, options: Options, **others: Any) -> object:
        return simulate_entry(loaded, entry, args, replace(options, check=False, engine=name), **others)

    monkeypatch.setattr(loaded, "simulate_entry", entry)
    monkeypatch.setattr(pyptx.simulator, "simulate_entry", entry)
    return name
