"""Source positions, pragmas, pipes and intrinsics: what groups or annotates instructions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ...dialects.ptx.structure import LocOp
from ..core.instructions import _path, spelled
from ..core.lines import file_directive
from ..core.registers import Guard
from ..core.trace import current, tracing

__all__ = ["Pipe", "file_", "intrinsic", "loc", "pipe", "pragma"]

P = ParamSpec("P")
R = TypeVar("R")


def loc(file: int, line: int, col: int = 0) -> None:
    """`.loc file line column`: where the following instructions come from; `file` is a number given to `ptx.file_`."""
    current().directive((".loc", str(file), str(line), str(col)), LocOp)


def file_(idx: int, name: str) -> None:
    """`.file idx "name"`: name a source file for `loc`. It stands at module level."""
    trace = current()
    try:
        shape = file_directive(idx, name)
    except ValueError as error:
        raise trace.error(str(error)) from None
    trace.module_statements.append((shape, (), "", trace.place(), ""))


def pragma(text: str) -> None:
    """`.pragma "text";` (for example `nounroll`)."""
    current().directive((".pragma", f'"{text}"', ";"))


def intrinsic(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: in a trace, the instructions that `function` emits stand between `// BEGIN name(args)` and `// END
    name`.

    Outside of a trace the function is just called.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        trace = tracing()
        if trace is None:
            return function(*args, **kwargs)
        words = [_argument(a) for a in args] + [f"{k}={_argument(v)}" for k, v in kwargs.items()]
        trace.lead += f"\t// BEGIN {function.__name__}({', '.join(words)})\n"
        result = function(*args, **kwargs)
        trace.lead += f"\t// END {function.__name__}\n"
        return result

    wrapper.__is_ptx_intrinsic__ = True  # pyright: ignore[reportAttributeAccessIssue]
    return wrapper


def _argument(value: Any) -> str:
    name = getattr(value, "name", None)
    text = name if isinstance(name, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:40]


class Pipe:
    """`ptx.pipe(r).add.s32(d, x).shr.u32(d2, 4)`: each instruction takes the previous destination as its first
    source.
    """

    def __init__(self, value: Any, path: tuple[str, ...] = ()):
        self.value = value
        """The latest destination."""
        self._words = path

    def __getattr__(self, name: str) -> Pipe:
        if name[:2] == "__":
            raise AttributeError(name)
        return Pipe(self.value, (*self._words, spelled(name)))

    def __call__(self, destination: Any, *operands: Any, pred: Guard = None) -> Pipe:
        path = _path(self._words)
        path(destination, self.value, *operands, pred=pred)
        return Pipe(destination)


def pipe(reg: Any) -> Pipe:
    """Start a chain of instructions from a register."""
    return Pipe(reg)
