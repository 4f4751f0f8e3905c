"""What the process remembers is bounded: every memo is emptied, and nothing else grows with the number of files and traces."""

from __future__ import annotations

import functools
import gc
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pyptx
from benchmarks.memory import files, read, scaled
from pyptx.dialects.ptx import memo
from pyptx.dialects.ptx.instruction import OPCODES
from pyptx.dialects.ptx.memo import Memo, forget

CACHED = type(functools.lru_cache(len))


def holders() -> Iterator[tuple[str, Any]]:
    """The globals of our modules and the attributes of our classes, by name."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != "pyptx":
            continue
        for attribute, value in list(vars(module).items()):
            yield f"{name}.{attribute}", value
            if isinstance(value, type) and value.__module__ == name:
                yield from ((f"{name}.{attribute}.{n}", v) for n, v in list(vars(value).items()))


def clear() -> None:
    """Forget what may be forgotten, the bounded caches of functions too."""
    forget()
    for _, value in holders():
        value = getattr(value, "__func__", value)
        if isinstance(value, CACHED) and value.cache_info().maxsize is not None:
            value.cache_clear()
    gc.collect()


def sizes() -> dict[str, int]:
    """The number of entries in each container and in each cache without a bound."""
    found: dict[str, int] = {}
    for name, value in holders():
        value = getattr(value, "__func__", value)
        if isinstance(value, CACHED):
            if value.cache_info().maxsize is None:
                found[name] = value.cache_info().currsize
        elif isinstance(value, (dict, list, set)) and name != "pyptx.ssa.fastir._ints":  # as long as the longest file
            found[name] = len(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def grown(work: Callable[[int], object], count: int) -> tuple[dict[str, int], int]:
    """What containers, and how many objects, are more after the second half of the work than after the first."""
    for cls in OPCODES.values():  # the notation of the forms is read when it is needed, once
        for form in cls.knowing(()):
            assert form.alternatives
    for i in range(count):
        work(i)
    clear()
    before, objects = sizes(), len(gc.get_objects())
    for i in range(count, 2 * count):
        work(i)
    clear()
    after = sizes()
    more = {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)}
    return more, len(gc.get_objects()) - objects


def test_files_leave_nothing() -> None:
    ways, r = files(), random.Random(5)
    more, objects = grown(lambda i: read(ways[i % len(ways)](r)), 3 * len(ways))
    assert more == {}
    assert objects < 400


def test_traces_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyptx.frontend.kernel.keys._KEPT", 8)
    scale = scaled()
    more, objects = grown(lambda i: scale.ptx(N=1000 + i), 40)
    assert more == {}
    assert objects < 400


def test_memos_are_emptied_when_they_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "MOST", 1000)
    forget()
    ways, r = files(), random.Random(6)
    highest = 0
    for i in range(4 * len(ways)):
        read(ways[i % len(ways)](r))
        highest = max(highest, Memo.entries)
        held = sum(len(m) for reference in Memo.all if (m := reference()) is not None)
        assert held <= Memo.entries
    assert 1000 < highest < 4000


def test_a_verdict_is_of_its_target_whatever_was_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shape that somebody still holds keeps its verdicts: no target may get the number of another."""
    text = ".version {}\n.target {}\n.address_size 64\n.entry k() {{\n\t.reg .b32 %r<4>;\n\tmax.u16x2 %r1, %r2, %r3;\n\tret;\n}}\n"
    monkeypatch.setattr(memo, "MOST", 0)
    for version, target, legal in (("8.0", "sm_90", True), ("8.0", "sm_80", False), ("7.8", "sm_90", False)) * 3:
        assert (pyptx.diagnose(text.format(version, target)) == []) == legal


def test_a_kernel_keeps_the_latest_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyptx.frontend.kernel.keys._KEPT", 4)
    scale = scaled()
    first = scale.ptx(N=100)
    for n in range(101, 110):
        scale.ptx(N=n)
    assert len(scale._cache) <= 4 and len(scale._texts) <= 4
    assert scale.module(N=109) is scale.module(N=109)
    assert scale.ptx(N=100) == first
