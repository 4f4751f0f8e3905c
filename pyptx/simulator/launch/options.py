"""The options of a simulated launch: their names, legal values and checks, for all who take them (`simulate`, kernels of
`load`, the adapters, `pytest --pyptx`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from reprlib import repr as short
from typing import Any, TypeAlias, cast

import numpy as np

from ...diagnostics import PTXError, SimulationError, did_you_mean
from ...numerics.tensor_cores.rules import generation
from ..engine.engines import ENGINES
from ..machine.arithmetic import APPROX, SUMS
from ..machine.machine import Observer
from ..machine.schedule import read_schedule
from ..observers.trace import Step, Stored, ThreadName
from .device_memory import DeviceMemory

__all__ = ["Options", "Size", "Workers", "checked_options", "refuse_unknown", "sizes_of", "whole_number"]

Size = tuple[int, int, int]
Workers: TypeAlias = "int | str | Executor"
"""How many processes, `"joblib"` for the backend that is active there, or anyone's executor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Checked options; `simulate` documents them. None: the value of the kernel, or the default."""

    grid: Size | None = None
    block: Size | None = None
    cluster: Size | None = None
    smem: int = 0
    check: bool = True
    seed: int = 0
    max_steps: int | None = None
    trace: Callable[[str], object] | None = None
    on_instruction: Callable[[Step], object] | None = None
    on_store: Callable[[Stored], object] | None = None
    threads: tuple[ThreadName, ...] | None = None
    profile: bool = False
    numerics: bool = False
    observers: tuple[Observer, ...] = ()
    arithmetic: str = "hardware"
    arch: str | None = None
    approx: str = "rounded"
    engine: str | None = None
    schedules: int | None = None
    schedule: int | str | None = None
    cooperative: bool | None = None
    programmatic: bool = False
    memory: DeviceMemory | None = None
    workers: Workers | None = None
    sample: float | None = None


def checked_options(given: Mapping[str, Any]) -> Options:
    """The options by name. TypeError for an unknown name, as for any function; SimulationError, which names the option and what
    is legal, for a wrong value.
    """
    refuse_unknown(given, CHECKS, "a simulated launch")
    options = Options(**{name: CHECKS[name](name, value) for name, value in given.items()})
    if options.schedules is not None and options.schedule is not None:
        raise SimulationError("schedules= explores several schedules and schedule= runs one: give one of them")
    if options.threads is not None and options.trace is None and options.on_instruction is None:
        raise SimulationError("threads= chooses the threads of trace= and on_instruction=: pass one of them, too")
    return options


def refuse_unknown(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """TypeError for an option that is not known, with the nearest name."""
    names = list(known)
    for name in given:
        if name not in names:
            raise TypeError(
                f"{what} has no option {name!r}: {did_you_mean(name, names) or 'it has ' + ', '.join(names)}"
            )


def wrong(name: str, value: object, legal: str) -> SimulationError:
    return SimulationError(f"{name} must be {legal}, not {short(value)}")


def whole_number(value: Any, what: str) -> int:
    """An option as an integer, NumPy's too. SimulationError for anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong(what, value, "an integer") from None


def _iterates(value: Any) -> bool:
    """Whether it has items; an array without dimensions is a number."""
    return isinstance(value, Iterable) and not (isinstance(value, np.ndarray) and value.ndim == 0)


def sizes_of(value: Any, what: str, least: int = 1, most: int = 3) -> tuple[int, ...]:
    """A size as a tuple of positive integers. SimulationError for anything else."""
    parts: tuple[Any, ...] = (
        tuple(value) if isinstance(value, (tuple, list, np.ndarray)) and _iterates(value) else (value,)
    )
    legal = "an integer or up to three of them" if most == 3 else f"an integer or up to {most} of them"
    try:
        sizes = tuple(map(operator.index, parts))  # NumPy's integers too; neither strings nor floats
    except TypeError:
        raise wrong(what, value, legal) from None
    if not 1 <= len(sizes) <= most or any(s < least for s in sizes):
        raise wrong(what, value, legal.replace("integer", "positive integer", 1).replace("an p", "a p"))
    return sizes


# ------------------------------------------------------------------------------------------ kinds of values

Check = Callable[[str, Any], Any]


def _optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def _size(name: str, value: Any) -> Size:
    return cast("Size", (*sizes_of(value, name), 1, 1)[:3])


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_, int, np.integer)) or value not in (0, 1):
        raise wrong(name, value, "True or False")
    return bool(value)


def _integer(name: str, value: Any) -> int:
    return whole_number(value, name)


def _bytes(name: str, value: Any) -> int:
    size = whole_number(0 if value is None else value, name)
    if size < 0:
        raise SimulationError(f"{name} = {size}: dynamic shared memory cannot be negative")
    return size


def _count(name: str, value: Any) -> int:
    count = whole_number(value, name)
    if count < 1:
        raise SimulationError(f"{name} = {count}: a launch needs a {name.removeprefix('max_').rstrip('s')} at least")
    return count


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise wrong(name, value, "a function")
    return value


def _word(*known: str) -> Check:
    def check(name: str, value: Any) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise wrong(name, value, f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}")

    return check


def _arch(name: str, value: Any) -> str:
    try:
        generation(value)
    except PTXError as error:
        raise SimulationError([replace(d, message=f"{name}: {d.message}") for d in error.diagnostics]) from None
    return value


def _schedule(name: str, value: Any) -> int | str:
    read_schedule(value, 0)
    return value


def _observers(name: str, value: Any) -> tuple[Observer, ...]:
    found: tuple[Any, ...] = tuple(value) if _iterates(value) else (value,)
    if not _iterates(value) or not all(isinstance(o, Observer) for o in found):
        raise wrong(name, value, "a list of pyptx.simulator.Observer objects")
    return found


def _threads(name: str, value: Any) -> tuple[ThreadName, ...]:
    legal = "a list of (CTA, thread), such as [((0, 0, 0), 37)] or [(0, 37)]"
    if not _iterates(value):
        raise wrong(name, value, legal)
    found: list[ThreadName] = []
    for item in cast("Iterable[Any]", value):
        try:
            cta, thread = item
            three = isinstance(cta, (tuple, list))
            place = tuple(map(operator.index, cast("tuple[Any, ...]", cta))) if three else operator.index(cta)
            number = operator.index(thread)
        except (TypeError, ValueError):
            raise wrong(name, value, legal) from None
        if isinstance(place, tuple) and len(place) != 3:
            raise wrong(name, value, legal)
        found.append((cast("Any", place), number))
    return tuple(found)


def _memory(name: str, value: Any) -> DeviceMemory:
    if not isinstance(value, DeviceMemory):
        raise wrong(name, value, "a pyptx.DeviceMemory")
    return value


def _share(name: str, value: Any) -> float:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not 0 < value <= 1:
        raise wrong(name, value, "a share of the CTAs, above 0 and up to 1")
    return float(value)


def _workers(name: str, value: Any) -> Workers:
    if isinstance(value, Executor):
        return value
    if isinstance(value, str) and value == "joblib":
        if find_spec("joblib") is None:
            raise SimulationError(f'{name}="joblib" needs joblib: pip install joblib')
        return value
    if isinstance(value, str) or not isinstance(value, (int, np.integer)) or isinstance(value, (bool, np.bool_)):
        raise wrong(name, value, 'a number of processes, a concurrent.futures.Executor or "joblib"')
    return _count(name, value)


CHECKS: dict[str, Check] = {
    "grid": _optional(_size),
    "block": _optional(_size),
    "cluster": _optional(_size),
    "smem": _bytes,
    "check": _flag,
    "seed": _integer,
    "max_steps": _optional(_count),
    "trace": _optional(_function),
    "on_instruction": _optional(_function),
    "on_store": _optional(_function),
    "threads": _optional(_threads),
    "profile": _flag,
    "numerics": _flag,
    "observers": _observers,
    "arithmetic": _word(*SUMS),
    "arch": _optional(_arch),
    "approx": _word(*APPROX),
    "engine": _optional(_word(*ENGINES)),
    "schedules": _optional(_count),
    "schedule": _optional(_schedule),
    "cooperative": _optional(_flag),
    "programmatic": _flag,
    "memory": _optional(_memory),
    "workers": _optional(_workers),
    "sample": _optional(_share),
}
"""Option -> what checks and normalises its value."""
SHAPE = ("grid", "block", "cluster", "smem", "cooperative", "programmatic", "memory")
"""Options that say what is launched; the others say how it is run and watched."""
