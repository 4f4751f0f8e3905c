"""Judges mutants in a process that has pyptx and all tests imported: the code of the changed function is replaced in a fork of it,
which takes a tenth of a second and the time of the tests (benchmarks/mutants.py).

Only for changes inside functions. A test that fails has noticed the change; where none does, what ran at import may hide it, and
the caller asks a process that imports the changed file.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from .mutant_tests import Limited

CPU_LIMIT, WALL_LIMIT = 120, 400
"""Seconds for the tests of one mutant; what hangs is killed, too."""
FUNCTION = 1
"""CO_OPTIMIZED: the code of a function, not of a module or class."""
Place = tuple[str, str, int]
"""File, name and first line of a function."""


def forked(work: Callable[[], int], log: Path) -> str:
    """ "survived" for work that returns 0, "killed" or "timeout"; what it prints goes to a file."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
            with log.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + WALL_LIMIT
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)
            return "timeout" if stopped else "killed" if status else "survived"
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout"


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def own(code: CodeType) -> tuple[object, ...]:
    """A code object without those inside it."""
    constants = tuple(repr(c) for c in code.co_consts if not isinstance(c, CodeType))
    return code.co_code, constants, code.co_names, code.co_freevars


def swaps(path: Path, before: str, after: str, live: dict[Place, list[FunctionType]]) -> list[tuple[FunctionType, CodeType]]:  # fmt: skip
    """Functions and their changed code; none where the change is not inside functions."""
    old, new = (list(codes(compile(text, str(path), "exec"))) for text in (before, after))
    if [(c.co_name, c.co_firstlineno) for c in old] != [(c.co_name, c.co_firstlineno) for c in new]:
        return []
    if any(own(a) != own(b) and (not a.co_flags & FUNCTION or a.co_freevars != b.co_freevars) for a, b in zip(old, new, strict=True)):  # fmt: skip
        return []
    changed = [b for a, b in zip(old, new, strict=True) if a.co_flags & FUNCTION and a != b]
    return [(f, code) for code in changed for f in live.get((str(path), code.co_name, code.co_firstlineno), ())]


class Server(Limited):
    """Collects the tests, then answers requests (file, its text, changed text, cases) with outcomes."""

    def __init__(self, connection: Connection, seconds: dict[str, float], log: Path) -> None:
        self.connection, self.seconds, self.log = connection, seconds, log

    def limit(self, item: pytest.Item) -> float:
        return 5 + 3 * self.seconds.get(item.nodeid, 5)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        live: dict[Place, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                code = found.__code__
                live[code.co_filename, code.co_name, code.co_firstlineno].append(found)
        gc.freeze()  # so that forks share the memory
        self.connection.send(len(items))
        while True:
            try:
                path, before, after, cases = self.connection.recv()
            except EOFError:
                return True
            changes = swaps(path, before, after, live)
            chosen = [items[case] for case in cases if case in items]
            self.connection.send(self.judge(session, changes, chosen) if changes and chosen else "unknown")
        return True

    def judge(self, session: pytest.Session, changes: Sequence[tuple[FunctionType, CodeType]], items: Sequence[pytest.Item]) -> str:  # fmt: skip
        def work() -> int:
            for function, code in changes:
                function.__code__ = code
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    return 1
            return 0

        return forked(work, self.log)


def serve(connection: Connection, caller: Connection, clone: Path, seconds: dict[str, float], log: Path) -> None:
    """In a process of its own, which ends with the caller."""
    caller.close()
    os.chdir(clone)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, str(clone))
    files = sorted({case.partition("::")[0] for case in seconds})
    with log.with_suffix(".server").open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    server = Server(connection, seconds, log)
    pytest.main(["-q", "-s", "-p", "no:cacheprovider", "--continue-on-collection-errors", *files], plugins=[server])
    connection.close()
