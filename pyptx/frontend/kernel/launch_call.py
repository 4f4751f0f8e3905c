"""What `kernel.launch` is called with: told in its terms, and not in those of Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["explained"]

P = ParamSpec("P")
T = TypeVar("T")
_TAKEN = ("grid", "block", "args")
_USE = "launch takes the grid, the block and a list of arguments: kernel.launch(8, 128, [x, n])"


def explained(launch: Callable[P, T]) -> Callable[P, T]:
    """Refuse calls without the grid, the block and a list of arguments. In words that TorchDynamo can follow."""

    @wraps(launch)
    def checked(*given: P.args, **options: P.kwargs) -> T:
        count = len(given) - 1  # after `self`
        for name in _TAKEN[:count]:
            if name in options:
                raise TypeError(f"launch is given {name} twice, in its place and by name. {_USE}")
        for name in _TAKEN[count:]:
            if name not in options:
                raise TypeError(f"launch is not given {name}. {_USE}")
        if count > len(_TAKEN):
            raise TypeError(f"launch is given {count} values, and other options go by name. {_USE}")
        arguments: Any = options["args"] if "args" in options else given[len(_TAKEN)]
        if not isinstance(arguments, (list, tuple)):
            raise TypeError(f"the arguments of a launch are a list or a tuple, not {type(arguments).__name__}. {_USE}")
        return launch(*given, **options)

    return checked
