"""The pytest plugin of `benchmarks.suites`: takes a sample, ends tests that are too long, and writes down what became of each."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import time
from collections import defaultdict
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from pyptx.adapters.pytest_plugin import NAME


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--suite-log")
    parser.addoption("--suite-one-in", type=int, default=1)
    parser.addoption("--suite-seed", type=int, default=0)
    parser.addoption("--suite-minutes", type=float, default=600)
    parser.addoption("--suite-limit", type=int, default=120)
    parser.addoption(
        "--suite-findings", action="store_true", help="errors of the sanitizer stand for failures of the device"
    )


class TooLong(BaseException):
    """A test took longer than its limit."""


def pytest_configure(config: Any) -> None:
    plugin = Recorder(config)
    config.pluginmanager.register(plugin)
    if config.getoption("--suite-findings"):
        without_consan(plugin)


class Said(str):
    """What the device is supposed to have said: it contains whatever a test looks for, and remembers that."""

    asked: list[str]

    def __contains__(self, text: object) -> bool:
        self.asked.append(str(text))
        return True


class Recorder:
    """One session."""

    def __init__(self, config: Any):
        self.config = config
        self.log = open(config.getoption("--suite-log"), "a", encoding="utf-8")
        self.begin = time.monotonic()
        self.wanted: list[str] = []
        self.failure = ""

    @property
    def launches(self) -> list[Any]:
        return self.config.pluginmanager.get_plugin(NAME).session.launches

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """A random part of each test's cases, at least one, in a random order."""
        choice = random.Random(self.config.getoption("--suite-seed"))
        groups: dict[Any, list[Any]] = defaultdict(list)
        for item in items:
            groups[item.path, getattr(item, "originalname", item.name)].append(item)
        one_in = self.config.getoption("--suite-one-in")
        items[:] = [case for group in groups.values() for case in choice.sample(group, -(-len(group) // one_in))]
        choice.shuffle(items)

    def pytest_runtest_setup(self, item: Any) -> None:
        self.wanted, self.failure = [], ""
        if time.monotonic() - self.begin > 60 * self.config.getoption("--suite-minutes"):
            pytest.exit("the time is over", returncode=0)

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Generator[None, Any, Any]:
        limit = self.config.getoption("--suite-limit")

        def ended(*signal_and_frame: Any) -> None:
            raise TooLong(f"longer than {limit} s")

        before = signal.signal(signal.SIGALRM, ended)
        signal.alarm(limit)
        try:
            return (yield)
        except TooLong as error:
            raise RuntimeError(str(error)) from None
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if report.when == "call" or report.outcome != "passed":
            found = [
                (f.severity, f.rule, f.render())
                for launch in self.launches
                for f in launch.report.distinct
                if hasattr(f, "rule")
            ]
            why = "" if call.excinfo is None else f"{call.excinfo.typename}: {call.excinfo.value}"
            case = {
                "test": item.nodeid, "when": report.when, "outcome": report.outcome, "seconds": round(call.duration, 2), "why": why[:3000],
                "launches": len(self.launches), "kernels": sorted({n.kernel for n in self.launches}), "wanted": self.wanted, "failure": self.failure[:2000],
                "errors": [(rule, text) for severity, rule, text in found if severity == "error"],
                "warnings": [(rule, text) for severity, rule, text in found if severity == "warning"],
            }  # fmt: skip
            self.log.write(json.dumps(case) + "\n")
            self.log.flush()
        return report


def without_consan(recorder: Recorder) -> None:
    """Triton compiles without ConSan's instrumentation, and `run_in_process` runs here: an error of the sanitizer, or of the
    simulator, is the failure of the device that a test looks for.
    """
    import triton._internal_testing as testing
    from triton.backends.nvidia.compiler import CUDABackend

    from pyptx import SimulationError

    parse = CUDABackend.parse_options

    def plain(self: Any, options: Any) -> Any:
        return parse(self, {**options, "instrumentation_mode": ""})

    def run_in_process(function: Any, args: Any = (), kwargs: Any = None, env: Any = None) -> Any:
        recorder.failure = ""
        try:
            function(*args, **(kwargs or {}))
        except SimulationError as error:
            recorder.failure = str(error)
        errors = [f for launch in recorder.launches for f in launch.report.errors]
        text = recorder.failure or (str(errors[0]) if errors else "")
        said = Said(text)
        said.asked = recorder.wanted
        return SimpleNamespace(exc=DeviceFailure(said) if text else None, driver_stderr_output=said)

    CUDABackend.parse_options = plain
    testing.run_in_process = run_in_process
    testing.use_process_pool = lambda name: contextlib.nullcontext()


class DeviceFailure(RuntimeError):
    """What a launch that fails on the device raises."""

    def __str__(self) -> str:
        return self.args[0]
