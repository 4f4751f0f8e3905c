"""The shape of a launch: grid, block and cluster, which may be functions of the dimensions."""

from __future__ import annotations

import inspect
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from ...diagnostics import Diagnostic, TraceWarning, suggest

__all__ = ["Launch", "call_with_dimensions", "extents", "unsaid_shape", "warn_once"]

_INDEX = re.compile(r"%(?:tid|ctaid|laneid)\b(?:\.[xyz])?").search


class Launch(NamedTuple):
    """The shape of a launch: CTAs per grid, threads per CTA, CTAs per cluster, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    smem: int


def extents(what: str, value: Any, whose: str) -> tuple[int, int, int]:
    """One to three extents as three. ValueError for what is none; a grid may have none of a kind (0)."""
    parts: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    least = 0 if what == "grid" else 1
    try:
        parts = tuple(map(operator.index, parts))  # NumPy's integers too
    except TypeError:
        parts = ()
    if not 1 <= len(parts) <= 3 or min(parts) < least:
        raise ValueError(f"the {what}{whose} is one to three positive ints, not {value!r}")
    return (*parts, *(1,) * (3 - len(parts)))  # pyright: ignore[reportReturnType]


def call_with_dimensions(
    function: Callable[..., Any], names: Mapping[str, int], env: Mapping[str, int], what: str
) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(*env.values())
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return function(**names)
    wanted = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if all(p.name in names or p.default is not p.empty for p in wanted) and len(wanted) == len(parameters):
        return function(**{p.name: names[p.name] for p in wanted if p.name in names})
    unknown = [p.name for p in wanted if p.name not in names]
    needed = [p for p in parameters if p.default is p.empty]
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return function(*env.values())
    if all(p.kind != p.KEYWORD_ONLY for p in needed) and _in_order([p.name for p in needed], list(env)):
        if len(env) > 1 and any(p.name.lower() != d.lower() for p, d in zip(needed, env, strict=True)):
            _warn_of_order(function, [p.name for p in needed], list(env), what)
        return function(*env.values())
    near = suggest(unknown[0], names) if unknown else []
    raise TypeError(
        f"the {what} is a function of {', '.join(unknown)}, and the dimensions are {', '.join(names) or 'none'}"
        + (f"; did you mean {' or '.join(near)}?" if near else "")
    )


def _warn_of_order(function: Callable[..., Any], parameters: Sequence[str], dims: Sequence[str], what: str) -> None:
    """Warn of a launch function whose names say nothing about which dimension each parameter is."""
    code: Any = getattr(function, "__code__", None)
    taken = ", ".join(f"{p} = {d}" for p, d in zip(parameters, dims, strict=True))
    message = f"the {what} is a function of {', '.join(parameters)}, none of them a dimension: taken in order, {taken}"
    hint = f"call them as the specs do: lambda {', '.join(dims)}: ..."
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (None, None)
    warn_once(Diagnostic("warning", message, file, line, 1, hint), function)


def _in_order(parameters: Sequence[str], dims: Sequence[str]) -> bool:
    """Whether parameters of other names than the dimensions' may stand for them, in order: as many, all of other names,
    and none that is called like another dimension.
    """
    lowered = [d.lower() for d in dims]
    return (
        len(parameters) == len(dims)
        and not set(parameters) & set(dims)
        and all(p.lower() == d or p.lower() not in lowered for p, d in zip(parameters, lowered, strict=True))
    )


def unsaid_shape(kernel: Any, module: ModuleOp) -> Iterator[Diagnostic]:
    """What is odd about a launch of one thread that nobody asked for: the kernel reads the index of its thread."""
    if kernel.grid is not None or kernel.block not in (1, (1, 1, 1)):
        return
    from ...printer.ptx import print_module

    found = _INDEX(print_module(module))
    if found is None:
        return
    code = kernel.__wrapped__.__code__
    message = (
        f"kernel {kernel.name} reads {found[0]}, and one CTA of one thread is launched: nothing says grid= and block="
    )
    hint = "give them to @kernel, or to pyptx.simulate"
    yield Diagnostic("warning", message, code.co_filename, code.co_firstlineno, hint=hint)


def warn_once(found: Diagnostic, fn: Callable[..., Any]) -> None:
    """Python's warning for a finding, at its place; shown once for each, as those of the kernel's module are."""
    text = f"{found.message}\nhint: {found.hint}" if found.hint else found.message
    registry = getattr(fn, "__globals__", {}).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, TraceWarning, found.filename or "<kernel>", found.line or 1, registry=registry)
