"""Options of a simulated launch: each with each kind of value, wherever they are taken."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import PTXError, SimulationError, kernel, ptx, reg
from pyptx.simulator import LoadedKernel
from pyptx.simulator.launch.options import CHECKS, SHAPE, checked_options
from pyptx.types import u32

TEXT = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 dst)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [dst]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1;
    ret;
}
"""


@kernel(arch="sm_90a", in_specs=(), out_specs=(pyptx.Tile(64, u32),), grid=1, block=32)
def traced(x: Any) -> None:
    (pointer,) = ptx.global_ptrs(x)
    ptx.inst.st.global_.u32(ptx.addr(pointer), reg.scalar(u32, init=1))


@pytest.fixture(scope="module")
def loaded() -> LoadedKernel:
    return pyptx.load(TEXT)["k"]


VALUES = [None, 5, -1, 0, True, 1.5, "x", "", [], {}, object(), (1, "a"), [(0, 99)], np.zeros(3), b"x", np.array(None)]


def judged(option: str, function: Callable[..., object], *args: Any, **options: Any) -> None:
    """The call works, or an error of this package names the option and says what is legal."""
    try:
        function(*args, **options)
    except PTXError as error:
        text = str(error)
        assert re.search(rf"\b({option}|block)\b", text), text
        assert re.search(
            r"must be|needs|is not|cannot|it is|is larger|outside|chooses|known|give one|divide|exceed|takes|stopped after",
            text,
        ), text
        assert len(text) < 400, text


@pytest.mark.parametrize("option", CHECKS)
def test_each_kind_of_value(loaded: LoadedKernel, option: str) -> None:
    out = np.zeros(64, np.uint32)
    for value in VALUES:
        shape: dict[str, Any] = {"grid": 1, "block": 32, "check": False}
        judged(option, loaded.simulate, out, **{**shape, option: value})
        judged(option, pyptx.simulate, loaded, out, **{**shape, option: value})
        judged(option, pyptx.simulate, traced, out, **{"check": False, option: value})


@pytest.mark.parametrize("option", ["grid", "block", "cluster", "smem", "cooperative"])
def test_launches_on_arrays_take_the_same_values(loaded: LoadedKernel, option: str) -> None:
    out = np.zeros(64, np.uint32)
    for value in VALUES:
        given: dict[str, Any] = {"grid": 1, "block": 32, option: value}
        judged(option, loaded.launch, given.pop("grid"), given.pop("block"), (out,), **given)


FLAG, NUMBER, POSITIVE, NATURAL, SIZE = (0, True), (5, -1, 0, True), (5, True), (None, 5, 0, True), (None, 5, True)
LEGAL: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("check", "profile", "numerics", "programmatic"), FLAG),
    **dict.fromkeys(("grid", "block", "cluster"), SIZE),
    **dict.fromkeys(("trace", "on_instruction", "on_store", "arch", "engine", "memory"), (None,)),
    **dict.fromkeys(("max_steps", "schedules"), (None, *POSITIVE)),
    "workers": (None, 5), "sample": (None,),
    **dict.fromkeys(("arithmetic", "approx"), ()),
    "cooperative": (None, *FLAG), "smem": NATURAL, "seed": NUMBER, "schedule": (None, 5, 0),
}  # fmt: skip
"""Which of `VALUES` an option takes, by its kind in docs/simulator.md."""
EMPTY = ("observers", "threads")
"""Options that take an empty collection."""


@pytest.mark.parametrize("option", [n for n in CHECKS if n not in EMPTY])
def test_only_legal_values_are_accepted(option: str) -> None:
    accepted: list[object] = []
    for value in VALUES:
        try:
            checked_options({option: value})
        except PTXError:
            continue
        accepted.append(value)
    assert [(type(v), v) for v in accepted] == [
        (type(v), v) for v in VALUES if any(v is legal for legal in LEGAL[option])
    ]


def test_marks_of_pytest_take_the_same_values() -> None:
    from pyptx.adapters.pytest_plugin import _wrong  # pyright: ignore[reportPrivateUsage]

    for option in (n for n in CHECKS if n not in (*SHAPE, *EMPTY, "arch")):
        for value in VALUES:
            problem = _wrong({option: value})
            legal = any(value is v for v in LEGAL[option])
            assert (problem is None) == legal, (option, value, problem)
            assert legal or option in str(problem)
    for value in VALUES:
        assert "is not one of error, warning, none" in str(_wrong({"findings": value}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arch": 90}, 'arch must be the name of a target, not 90'),
        ({"memory": 5}, "memory must be a pyptx.DeviceMemory, not 5"),
        ({"observers": 5}, "observers must be a list of pyptx.simulator.Observer objects, not 5"),
        ({"observers": [5]}, "observers must be a list of"),
        ({"trace": 5}, "trace must be a function, not 5"),
        ({"numerics": "no"}, "numerics must be True or False, not 'no'"),
        ({"check": "false"}, "check must be True or False, not 'false'"),
        ({"threads": [(0, 99)], "trace": str}, r"thread 99 of CTA 0 is outside of the launch; the grid is \(1, 1, 1\), and the threads of a CTA are 0 to 31"),
        ({"threads": [((0, 1, 0), 3)], "trace": str}, r"thread 3 of CTA \(0, 1, 0\) is outside"),
        ({"threads": [(0, 3)]}, "threads= chooses the threads of trace= and on_instruction="),
        ({"threads": [7], "trace": str}, r"threads must be a list of \(CTA, thread\)"),
    ],
)  # fmt: skip
def test_words(loaded: LoadedKernel, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        loaded.simulate(np.zeros(64, np.uint32), **{"grid": 1, "block": 32, **options})


def test_the_signatures_have_the_options() -> None:
    for function, others in ((pyptx.simulate, {"kernel", "args"}), (LoadedKernel.simulate, {"self", "args"})):
        parameters = inspect.signature(function).parameters
        assert [n for n in parameters if n not in others] == list(CHECKS)
        assert checked_options({n: p.default for n, p in parameters.items() if n not in others}) == checked_options({})


def test_numbers_and_flags_of_numpy(loaded: LoadedKernel) -> None:
    lines: list[str] = []
    options: dict[str, Any] = {"check": np.bool_(True), "profile": 1, "threads": ([[0, 0, 0], np.int32(3)],)}
    report = loaded.simulate(
        np.zeros(64, np.uint32), grid=np.array([1, 1]), block=np.int64(32), trace=lines.append, **options
    )
    assert report.profile is not None
    assert ":3 " in lines[0]
