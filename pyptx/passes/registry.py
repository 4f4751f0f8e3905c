"""Every pass by its name, imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.passes import ModulePass


def _load(module: str, name: str) -> Callable[[], type[ModulePass]]:
    return lambda: getattr(import_module(f".{module}", __package__), name)


PASSES: dict[str, Callable[[], type[ModulePass]]] = {
    "convert-to-ptx": _load("convert_to_ptx", "ConvertToPTX"),
    "ptx-assign-registers": _load("assign_registers", "AssignRegisters"),
    "ptx-copy-propagation": _load("copy_propagation", "CopyPropagation"),
    "ptx-cse": _load("cse", "CommonSubexpressions"),
    "ptx-dce": _load("dce", "DeadCode"),
    "ptx-flatten-scopes": _load("flatten_scopes", "FlattenScopes"),
    "ptx-fold": _load("fold", "Fold"),
    "ptx-infer-version": _load("infer_version", "InferVersion"),
    "ptx-inline": _load("inline", "Inline"),
    "ptx-outline": _load("outline", "Outline"),
    "ptx-retarget": _load("retarget", "Retarget"),
    "ptx-strip-comments": _load("strip_comments", "StripComments"),
    "ptx-strip-debug": _load("strip_debug", "StripDebug"),
}
