"""What functions of this package raise about their arguments (ValueError and the like), at the kernel's line."""

from __future__ import annotations

import os
import re
import sys
from inspect import signature
from types import ModuleType, TracebackType
from typing import Any

from ...diagnostics import PTXError, did_you_mean
from ..core.registers import Reg, functions_of
from ..core.trace import InvalidTypeError, OutOfRange, Trace

__all__ = ["at_the_kernels_line"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class InvalidValueError(PTXError, ValueError):
    """An argument has a value that it cannot have."""


class UnknownNameError(PTXError, AttributeError):
    """A name that pyptx does not have."""


_KINDS: tuple[tuple[type[Exception], type[PTXError]], ...] = (
    (ValueError, InvalidValueError), (TypeError, InvalidTypeError), (IndexError, OutOfRange), (AttributeError, UnknownNameError),
)  # fmt: skip


def at_the_kernels_line(trace: Trace, error: Exception) -> PTXError | None:
    """An error that this package has raised, of the same kind and with a place: the author's line that called it; also of
    a name or argument that something of this package does not have. None for errors of the author's own code and of
    other packages.
    """
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), None)
    author: TracebackType | None = None
    inside = False
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        inside = code.co_filename.startswith(_PACKAGE)
        made = code.co_filename == "<string>" and code.co_name == "__init__"  # by dataclass
        if not inside and not made:
            author = at
        at = at.tb_next
    if kind is None or author is None or not (inside or _is_about_us(error)):
        return None
    code = author.tb_frame.f_code
    line, _, column, _ = list(code.co_positions())[author.tb_lasti // 2]
    place = trace.add_place(code.co_filename, line or author.tb_lineno, (column or 0) + 1)
    return kind(trace.diagnostic(str(error), _advice(error), at=place))


_CALL = re.compile(r"(\w+)[\w.<>]*\(\) (?:got|missing|takes)")


def _is_about_us(error: Exception) -> bool:
    """Whether the author's line asked an object or function of this package for what it does not have."""
    if isinstance(error, AttributeError):
        return _is_ours(type(error.obj).__module__)
    called = _CALL.match(str(error)) if isinstance(error, TypeError) else None
    return called is not None and any(
        _is_ours(getattr(getattr(module, called[1], None), "__module__", ""))
        for name, module in list(sys.modules.items())
        if name.startswith("pyptx.frontend.")
    )


def _is_ours(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "pyptx"


def _advice(error: Exception) -> str | None:
    """What to write instead of a name or keyword that an object or function does not have."""
    if isinstance(error, TypeError):
        return _advice_of_call(str(error))
    if not isinstance(error, AttributeError) or error.obj is None:
        return None
    name = str(error.name)
    if isinstance(error.obj, Reg) and name in _MATHEMATICS:
        return functions_of(error.obj.dtype)
    if "did you mean" in str(error):  # the object itself says what comes close
        return None
    return did_you_mean(name, [n for n in dir(error.obj) if n[0] != "_"]) or None


_KEYWORD = re.compile(r"([\w.]+)\(\) got an unexpected keyword argument '(\w+)'")
_ELSEWHERE = {
    (
        "wait",
        "scope",
    ): "the scope of a wait is a modifier: write the loop yourself, around ptx.inst.mbarrier.try_wait.parity.acquire.cluster.shared__cta.b64(done, address, phase)",
    (
        "arrive",
        "scope",
    ): "the scope of an arrive is a modifier: write ptx.inst.mbarrier.arrive.release.cluster.shared__cta.b64(state, address)",
}
"""Keywords that other libraries have, and where that is said here."""


def _modules_of_kernels() -> list[ModuleType]:
    """The modules that a traced kernel calls. `pyptx.Module` has classes of the same names, whose arguments are others."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("pyptx.frontend.") and not name.startswith("pyptx.frontend.module.")
    ]


def _advice_of_call(message: str) -> str | None:
    """Which arguments a function takes."""
    found = _KEYWORD.search(message)
    if found is None:
        return None
    path, keyword = found[1].split("."), found[2]
    for module in _modules_of_kernels():
        function: Any = module
        for part in path:
            function = getattr(function, part, None)
        if not callable(function):
            continue
        known = [n for n in signature(function).parameters if n not in ("self", "cls")]
        takes = f"{path[-1]} takes {', '.join(known)}" if known else f"{path[-1]} takes no arguments"
        return "; ".join(t for t in (did_you_mean(keyword, known), takes, _ELSEWHERE.get((path[-1], keyword))) if t)
    return None


_MATHEMATICS = frozenset("sqrt exp exp2 log log2 sin cos tanh rsqrt pow floor ceil round abs".split())
