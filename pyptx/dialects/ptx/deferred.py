"""What an op class gives xDSL only when it is asked: its text, its traits, its operands by name. Those modules take ops of the
dialect, so this is the one way from the ops to them; each is imported when it is first used, `deferred.assembly.print_function`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import assembly, operands, traits

__all__ = ["assembly", "operands", "traits"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(f".{name}", __package__)
    return found
