"""Optional packages: imported at first use, and one line where they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

__all__ = ["MissingFrontEnd", "required"]


class MissingFrontEnd(ImportError):
    """A front end is not installed, or not in a version that works."""


def required(module: str, package: str, tested: str, lowest: str | None = None) -> Any:
    """A module of an optional package. MissingFrontEnd with the version that is known to work, where it is missing or older than `lowest`."""
    try:
        found = import_module(module)
    except ImportError as error:
        if error.name and not module.startswith(error.name):
            raise MissingFrontEnd(f"{package} needs {error.name}, which is not installed") from error
        raise MissingFrontEnd(f"{package} is not installed: pip install '{package}=={tested}'") from error
    if lowest is not None and _numbers(_version(package)) < _numbers(lowest):
        raise MissingFrontEnd(
            f"{package} {_version(package)} is too old: pip install '{package}>={lowest}' (tested: {tested})"
        )
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "0"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(p) for p in text.split(".")[:3] if p.isdigit())
