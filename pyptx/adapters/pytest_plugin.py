"""`pytest --pyptx`: the Triton kernels of a test suite run on the simulator, and what it finds fails their tests.

    pytest --pyptx                                   checked, as sm_90
    pytest --pyptx=check=0,arch=sm_100,schedules=4   options of pyptx.simulate; max_steps=N ends a runaway kernel

`@pytest.mark.pyptx(check=False, ...)` changes options for a test.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

from ..diagnostics import PTXError, SimulationError, did_you_mean
from ..simulator.launch.options import CHECKS, SHAPE, checked_options
from .targets import checked_target, number_of

if TYPE_CHECKING:
    from .triton.driver import Launch, Session

__all__: list[str] = []

FLAGS = {
    "check": True,
    "schedules": None,
    "seed": 0,
    "arch": "sm_90",
    "max_steps": 20_000_000,
    "engine": None,
    "findings": "error",
}
"""Options and their defaults; `findings`: the severity from which on a finding fails a test (error, warning, none)."""
WORDS = ("arch", "engine", "findings")
"""Options whose values are words."""
SEVERITIES = {"error": ("error",), "warning": ("error", "warning"), "none": ()}
"""Value of `findings` -> severities that fail a test."""
SLOWEST = 5
NAME = "pyptx-simulator"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("pyptx")
    group.addoption(
        "--pyptx", nargs="?", const="", default=None, metavar="OPTION,...",
        help=f"run Triton kernels on the simulator; options: {', '.join(FLAGS)}",
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> None:
    """Start before a suite's conftest asks which devices there are."""
    _start(early_config, early_config.known_args_namespace.pyptx)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers", "pyptx(**options): options of pyptx.simulate for the kernels of this test (with --pyptx)"
    )
    given = config.getoption("--pyptx")
    if given and _is_path(given):  # `pytest --pyptx tests`: argparse took the path for the option's value
        chosen = config.args_source.name == "ARGS"
        config.args = [given, *(config.args if chosen else [])]
    _start(config, given)


def _start(config: Any, given: str | None) -> None:
    """Run kernels on the simulator from now on, if that is asked for and not so already."""
    if given is None or config.pluginmanager.has_plugin(NAME):
        return
    plugin = SimulatorPlugin(options_of("" if _is_path(given) else given))
    config.pluginmanager.register(plugin, NAME)
    config.add_cleanup(plugin.close)


def _is_path(given: str) -> bool:
    return bool(given) and Path(given.partition("::")[0]).exists()


def options_of(text: str) -> dict[str, Any]:
    """The options in `check=0,arch=sm_100`. `check` alone is `check=1`. UsageError for others."""
    options = dict(FLAGS)
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in FLAGS:
            raise pytest.UsageError(f"--pyptx has no option {name!r}; it has: {', '.join(FLAGS)}")
        options[name] = int(value or 1) if re.fullmatch(r"\d*", value) and name not in WORDS else value
    if (wrong := _wrong(options)) is not None:
        raise pytest.UsageError(f"--pyptx: {wrong}")
    return {**options, "check": bool(options["check"])}


def _wrong(options: dict[str, Any]) -> str | None:
    """What is wrong with the values of options."""
    judged = dict(options)
    findings, arch = judged.pop("findings", "none"), judged.pop("arch", "sm_90")
    if not isinstance(findings, str) or findings not in SEVERITIES:
        return f"findings={findings!r} is not one of {', '.join(SEVERITIES)}"
    try:
        checked_target(arch)
        checked_options(judged)
    except PTXError as error:
        return error.diagnostics[0].message
    return None


class SimulatorPlugin:
    """The simulator for one test session."""

    def __init__(self, options: dict[str, Any]):
        from . import triton
        from .torch_cuda import cuda_on_cpu

        self.options = {k: v for k, v in options.items() if k not in ("arch", "findings") and v is not None}
        self.severity = options["findings"]
        self.slowest: list[tuple[float, str, str]] = []
        self.count, self.found, self.seconds = 0, 0, 0.0
        self.unsupported: dict[str, str] = {}
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(cuda_on_cpu(number_of(options["arch"])))
        self.session: Session = self._stack.enter_context(
            triton.simulate(arch=options["arch"], on_finding="ignore", **self.options)
        )

    def close(self) -> None:
        self._stack.close()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> Generator[None, Any, Any]:
        return (yield from self._watched(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, Any]:
        return (yield from self._watched(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> Generator[None, Any, Any]:
        return (yield from self._watched(item))

    def _watched(self, item: Any) -> Generator[None, Any, Any]:
        """A test, or the fixtures before or after it: fails where its launches have findings."""
        from .triton import Unsupported

        options = {**self.options, "findings": self.severity, **_marked(item)}
        severity = options.pop("findings")
        self.session.options = options
        self.session.launches.clear()
        try:
            result = yield
        except Unsupported as error:
            self.unsupported[item.nodeid] = str(error)
            pytest.skip(f"pyptx: {error}")
        except SimulationError as error:
            raise error.with_traceback(_of_the_test(error.__traceback__)) from None
        finally:
            self._account(item.nodeid, self.session.launches)
        found = [f for launch in self.session.launches for f in _counted(launch, severity)]
        if found:
            self.found += len(found)
            text = "\n".join(f.render() for f in found)
            pytest.fail(
                f"pyptx found {len(found)} problem{'s' * (len(found) > 1)} in kernels of this test:\n{text}",
                pytrace=False,
            )
        return result

    def _account(self, test: str, launches: list[Launch]) -> None:
        self.count += len(launches)
        self.seconds += sum(launch.seconds for launch in launches)
        self.slowest = sorted([*self.slowest, *((n.seconds, n.kernel, test) for n in launches)], reverse=True)[:SLOWEST]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.count and not self.unsupported:
            return
        terminalreporter.section("pyptx simulator")
        terminalreporter.line(
            f"launches: {self.count} in {self.seconds:.1f} s; findings that failed a test: {self.found}"
        )
        for seconds, kernel, test in self.slowest:
            terminalreporter.line(f"  {seconds:7.2f} s  {kernel}  {test}")
        for test, why in self.unsupported.items():
            terminalreporter.line(f"  not supported: {why} ({test})")


def _marked(item: Any) -> dict[str, Any]:
    """The options in a test's marks, the nearest last. The test fails where one does not exist."""
    known = {*FLAGS, *CHECKS} - {"arch", *SHAPE}
    options: dict[str, Any] = {}
    for mark in reversed([*item.iter_markers("pyptx")]):
        wrong = next((k for k in mark.kwargs if k not in known), None)
        if mark.args:
            pytest.fail("pytest.mark.pyptx takes options by name, such as check=False", pytrace=False)
        if wrong == "arch":
            pytest.fail("arch is chosen for the whole run: pytest --pyptx=arch=...", pytrace=False)
        if wrong is not None:
            near = did_you_mean(wrong, known) or f"it has {', '.join(sorted(known))}"
            pytest.fail(f"pytest.mark.pyptx has no option {wrong!r}: {near}", pytrace=False)
        options |= mark.kwargs
    if (problem := _wrong(options)) is not None:
        pytest.fail(f"pytest.mark.pyptx: {problem}", pytrace=False)
    return options


def _of_the_test(traceback: TracebackType | None) -> TracebackType | None:
    """The frames before the first of Triton or this package: where the test launched the kernel."""
    frames: list[TracebackType] = []
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "triton" or (module.startswith("pyptx.") and module != __name__):
            break
        frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def _counted(launch: Launch, severity: str) -> list[Any]:
    """The findings of a launch that fail a test."""
    return [f for f in launch.report.distinct if f.severity in SEVERITIES[severity]]
