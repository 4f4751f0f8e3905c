"""The target that a front end compiles for, checked before the front end sees it."""

from __future__ import annotations

from ..diagnostics import PTXError
from ..dialects.ptx.target import unknown_target

__all__ = ["checked_target", "number_of"]


def checked_target(arch: str) -> str:
    """The name of a target itself. PTXError for what is not one."""
    if (wrong := unknown_target(arch)) is not None:
        raise PTXError(wrong)
    return arch


def number_of(arch: str) -> int:
    """90 for `"sm_90a"`. PTXError for what is not a target."""
    return int(checked_target(arch).removeprefix("sm_").rstrip("af"))
