"""What takes long is done by a process of its own: hints, ptxas, predictions, simulations.

The server goes on answering meanwhile, and a job that hangs or dies takes no server with it. `python -m pyptx.tools.lsp.worker` reads a
job as a line of JSON, `{"job": name, ...}`, and answers with one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from typing import Any

__all__ = ["JobFailed", "Worker", "main", "perform"]

LIMIT = 60.0
"""Seconds that a job may take."""


class JobFailed(Exception):
    """The message says why, in words for the user."""


class Worker:
    """One process, started when the first job comes. A job that waits is dropped when a newer one of its kind comes."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._newest: dict[tuple[str, str], int] = {}

    async def ask(self, job: str, limit: float = LIMIT, about: str = "", **given: Any) -> Any:
        """The answer; JobFailed where there is none. `about`: of two jobs of a kind about the same thing, the newer one counts."""
        number = self._newest[job, about] = self._newest.get((job, about), 0) + 1
        # a client that cancels its request leaves the job running: its answer must be read
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(job, about, number, limit, given)))

    async def _in_turn(self, job: str, about: str, number: int, limit: float, given: dict[str, Any]) -> Any:
        async with self._lock:
            if self._newest[job, about] != number:
                raise JobFailed("a newer request replaced this one")
            try:
                return await asyncio.wait_for(self._one({"job": job, **given}), limit)
            except TimeoutError:
                self.stop()
                raise JobFailed(f"it took longer than {limit:.0f} s") from None
            except (OSError, ValueError):
                self.stop()
                raise JobFailed("the process that does this ended") from None

    async def _one(self, request: dict[str, Any]) -> Any:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, limit=1 << 28,
            )  # fmt: skip
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        await process.stdin.drain()
        answer = json.loads(await process.stdout.readline())
        if "failed" in answer:
            raise JobFailed(answer["failed"])
        return answer["value"]

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()


# ------------------------------------------------------------------------------------------------------------ the process


def _inlay(text: str) -> Any:
    from .inlay import inlay_hints

    return [asdict(hint) for hint in inlay_hints(text)]


def _resources(text: str, entry: str) -> str:
    """Registers and occupancy, in a line."""
    from ...analysis.report import analyse
    from ...dialects.ptx.structure import ModuleOp
    from ...parser.module import parse_text
    from ..commands.analyse import with_line_info

    module = next(op for op in parse_text(text).body.block.ops if isinstance(op, ModuleOp))
    assembled = with_line_info(text, module.target.target)
    if assembled is not None and not assembled.ok:
        raise JobFailed("ptxas refuses this text")
    usage = {} if assembled is None else {name: used.registers for name, used in assembled.usage.items()}
    [report] = analyse(module, kernel=entry, registers=usage)
    source = "ptxas" if report.registers_measured else "estimated"
    words = [f"{source}: {report.registers} registers", f"{report.shared.size} bytes shared"]
    if report.occupancy is not None:
        o, (x, y, z) = report.occupancy, report.threads.shape
        assumed = "" if report.threads.stated else " (assumed)"
        words.append(
            f"occupancy {o.fraction:.0%} with {x * y * z} threads{assumed}, limited by {', '.join(o.limited_by)}"
        )
    return ", ".join(words)


def _predicted(text: str, entry: str, start: int) -> str:
    from ...prediction import predict
    from ...simulator import load
    from .launches import arguments_of, launch_of

    launch = launch_of(text, start)
    if launch is None or not launch.card:
        raise JobFailed("no card is named")
    found: list[str] = []
    for card in launch.card:
        arguments, shape = arguments_of(launch)
        one = predict(load(text)[entry], *arguments, card=card, **shape)
        low, high = one.range_us
        found.append(f"{one.time_us:.1f} us ({low:.1f} to {high:.1f}) on {one.card}, bound by {one.binds}")
    return "predicted: " + "; ".join(found)


def _simulate(text: str, entry: str, start: int) -> Any:
    """{"summary": a line, "findings": what was found}"""
    import numpy as np

    from ...diagnostics import counted
    from ...simulator import load
    from .launches import arguments_of, launch_of, launch_without_arguments

    launch = launch_of(text, start)
    arguments, shape = arguments_of(launch or launch_without_arguments())
    report = load(text)[entry].simulate(*arguments, **shape)
    shown = [
        f"{word} = {value.reshape(-1)[:4].tolist()}{' ...' if value.size > 4 else ''}"
        for word, value in zip(launch.arg if launch is not None else (), arguments, strict=True)
        if isinstance(value, np.ndarray)
    ]
    summary = (
        f"{entry}: {counted(report.instructions, 'thread instruction')}, {counted(len(report.distinct), 'finding')}"
    )
    return {"summary": "; ".join([summary, *shown]), "findings": [_plain(f) for f in report.distinct]}


def _plain(diagnostic: Any) -> dict[str, Any]:
    return {name: getattr(diagnostic, name) for name in ("severity", "message", "line", "column", "hint")}


def _sass(text: str, entry: str) -> str:
    """The listing of one entry, as `pyptx sass` prints it."""
    from ...sass import assemble
    from ..commands.sass import as_text

    return as_text(assemble(text)[entry], text.split("\n"))


JOBS = {"inlay": _inlay, "resources": _resources, "predicted": _predicted, "simulate": _simulate, "sass": _sass}


def perform(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a job: `{"value": ...}`, or `{"failed": why}`."""
    from ...diagnostics import PTXError, SimulationError
    from ...runtime.compile import NoCompiler
    from ...sass import SassError
    from ..ptxas import ToolNotFound
    from .launches import WrongLaunch

    try:
        return {"value": JOBS[request.pop("job")](**request)}
    except SimulationError as error:
        before = () if error.report is None else error.report.distinct
        findings = [_plain(d) for d in (*before, *error.diagnostics)]
        return {"value": {"summary": "the simulation stopped", "findings": findings}}
    except PTXError as error:
        return {"failed": error.diagnostics[0].message if error.diagnostics else str(error)}
    except (JobFailed, WrongLaunch, NoCompiler, SassError, ToolNotFound) as error:
        return {"failed": str(error)}
    except Exception as error:  # a fault of ours: the server logs it and goes on
        return {"failed": f"{type(error).__name__}: {error}"}


def main() -> int:
    """Answer each line. What a job prints goes to standard error, as standard output has the answers."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        answers.write(json.dumps(perform(json.loads(line))) + "\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
