"""Every callable that pyptx 0.1.1 documents takes its arguments as they were: by name, by position, and as few.

`tests/data/api_0_1.tsv` has the signatures of 0.1.1 as `inspect.signature` told them, `compat_0_1.tsv` what was once found refused.
"""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from pyptx.compat.keywords import positional, with_former_names
from pyptx.compat.names import FORMER

DATA = Path(__file__).resolve().parent.parent / "data"


def rows(name: str) -> list[list[str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


API = dict(rows("api_0_1.tsv"))
REFUSED = [row for row in rows("compat_0_1.tsv")]

GONE = {
    "pyptx.jax_support.add_scalar_param_to_shim", "pyptx.jax_support.add_tma_spec_to_shim",
    "pyptx.jax_support.register_launch_config", "pyptx.jax_support.set_mock_ffi_callback",
    "pyptx.torch_support.get_or_register_torch_op", "pyptx.torch_support.call_kernel_via_torch_compile",
    "pyptx.jax_support.call_kernel_via_ffi", "pyptx.torch_support.call_kernel_via_torch",
}  # fmt: skip
"""What served the C shim of 0.1 only: its launches by handle (docs/migrating.md)."""

VALUES = sorted(path for path, text in API.items() if text.startswith("= "))
MEMBERS = sorted(path for path, text in API.items() if text == "property")
ERRORS = sorted(path for path, text in API.items() if text == "exception")
CALLABLES = sorted(path for path, text in API.items() if text.startswith("(") and path not in GONE)


def found(path: str) -> Any:
    """The object under a public name: the longest module in it, then attributes."""
    parts = path.split(".")
    for cut in range(max(len(parts) - 1, 1), 0, -1):
        try:
            at = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            at = getattr(at, part)
        return at
    raise AssertionError(path)


def parameters(text: str) -> inspect.Signature:
    """The signature in a row of the table; defaults are only there or not."""
    arguments = ast.parse(f"def f{text}: ...").body[0].args  # type: ignore[attr-defined]
    kind = inspect.Parameter
    made: list[inspect.Parameter] = []
    plain = [*arguments.posonlyargs, *arguments.args]
    first = len(plain) - len(arguments.defaults)
    for i, a in enumerate(plain):
        made.append(kind(a.arg, kind.POSITIONAL_OR_KEYWORD, default=kind.empty if i < first else None))
    if arguments.vararg:
        made.append(kind(arguments.vararg.arg, kind.VAR_POSITIONAL))
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        made.append(kind(a.arg, kind.KEYWORD_ONLY, default=kind.empty if default is None else None))
    if arguments.kwarg:
        made.append(kind(arguments.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(made)


def bind(target: Any, *args: Any, **kwargs: Any) -> None:
    """Bind as a call would; TypeError where it is refused."""
    former = getattr(target, "__former_names__", None)
    if former is None and inspect.isclass(target):
        former = getattr(target.__init__, "__former_names__", ("self",))[1:] or None
    elif former and former[0] == "self":
        former = former[1:]
    if former is not None:
        args, kwargs = positional("f", former, args, kwargs)
    inspect.signature(target).bind(*args, **kwargs)


@pytest.mark.parametrize("path", CALLABLES)
def test_every_way_to_pass_arguments(path: str) -> None:
    old = parameters(API[path])
    target = found(path)
    if _is_method(path):
        target = target.__get__(object())
    names = [p for p in old.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if path == "pyptx.ptx.mad":
        names = [p for p in names if p.kind is p.KEYWORD_ONLY]
    many = [object()] if any(p.kind is p.VAR_POSITIONAL for p in old.parameters.values()) else []
    required = [p for p in names if p.default is p.empty]
    for chosen in (names, required):
        bind(target, *many, **{p.name: object() for p in chosen})
        by_place = [p for p in chosen if p.kind is p.POSITIONAL_OR_KEYWORD]
        if not many:
            bind(target, *[object() for _ in by_place], **{p.name: object() for p in chosen if p not in by_place})
            for keep in range(1, len(by_place)):
                given = by_place[:keep]
                bind(target, *[object() for _ in given], **{p.name: object() for p in chosen if p not in given})


def _is_method(path: str) -> bool:
    """Whether it is a method of a class, to be called on an object."""
    owner, _, name = path.rpartition(".")
    return inspect.isclass(found(owner)) and inspect.isfunction(inspect.getattr_static(found(owner), name))


@pytest.mark.parametrize("path", VALUES)
def test_values(path: str) -> None:
    assert repr(found(path)) == API[path].removeprefix("= ") or found(path) == ast.literal_eval(API[path][2:])


@pytest.mark.parametrize("path", MEMBERS)
def test_members_exist(path: str) -> None:
    owner, _, name = path.rpartition(".")
    cls = found(owner)
    assert name in dir(cls) or name in getattr(cls, "__annotations__", {}) or name in inspect.getsource(cls.__init__)


@pytest.mark.parametrize("path", ERRORS)
def test_errors_exist(path: str) -> None:
    assert issubclass(found(path), Exception)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0])
def test_what_was_refused(row: list[str]) -> None:
    """Each row of the list of faults is about a callable that the test above goes through, with these names."""
    path, names, at, optional, other = row
    path = path.replace("cp.async_bulk.", "cp.async_.bulk.")  # two names of one object
    if API[path] == "exception":
        assert names == "user_frame"
        return
    old = parameters(API[path])
    for name in names.split():
        assert name in old.parameters, name
    for place in at.split():
        i, _, name = place.partition(":")
        assert list(old.parameters)[int(i)] == name, place
    for name in optional.split():
        assert old.parameters[name].default is not inspect.Parameter.empty
    assert other in ("", "**kwargs")


def test_the_table_names_no_parameter_at_another_place_than_today() -> None:
    for path in FORMER:
        target = found("pyptx." + path)
        names = target.__former_names__
        today = [
            p.name
            for p in inspect.signature(target.__wrapped__).parameters.values()
            if p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        for i, name in enumerate(names):
            assert name not in today or today.index(name) == i, (path, name)


def test_refused_calls_say_what_is_wrong() -> None:
    def f(one: int, two: int = 2) -> tuple[int, int]:
        return one, two

    g = with_former_names(f, ("first", "second"))
    assert g(first=1, second=3) == g(1, second=3) == g(1, two=3) == (1, 3)
    with pytest.raises(TypeError, match="two values for first"):
        g(1, first=1)
    with pytest.raises(TypeError, match="needs first with second"):
        g(second=1)
    with pytest.raises(TypeError, match="third"):
        g(first=1, third=1)
