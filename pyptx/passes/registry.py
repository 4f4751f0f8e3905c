"""Every pass by its name, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass


def _load(module: str, name: str) -> Callable[[], type[ModulePass]]:
    return lambda: getattr(import_module(f".{module}", __package__), name)


PASSES: dict[str, Callable[[], type[ModulePass]]] = {}
