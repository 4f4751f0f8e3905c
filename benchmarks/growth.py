"""How the CPU time of each step grows with its input: for every step and every shape of input, the exponent e of time ~ size^e.

python -m benchmarks.growth [--count] [--shape WORD] [--step WORD] [--scale K]

Two sizes, n and 4n, are compared, each as the best of a few runs. A step that is over before its time can be told from noise
is left out (`.`); one that takes longer than the cap is stopped (`>`), and the others go on.

With `--count` lines of Python are counted at n, 2n and 4n (`benchmarks.work`): numbers that are the same in each run, however
busy the machine is. Below a step that grows too fast are the functions that do.
"""

from __future__ import annotations

import argparse
import gc
import math
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp as BuiltinModule

import pyptx
from benchmarks.growth_shapes import SHAPES, many_functions
from benchmarks.work import exponent, growing, lines_run
from pyptx.analysis.report import analyse
from pyptx.codegen import ptx_to_python
from pyptx.dialects.ptx.memo import forget
from pyptx.dialects.ptx.structure import EntryOp, ModuleOp
from pyptx.passes.registry import PASSES
from pyptx.passes.verify import module_diagnostics
from pyptx.simulator import simulate
from pyptx.simulator.launch.launch import LoadedModule

FACTOR = 4
LIMIT = 1.2
NOISE = 0.03
"""Seconds below which the larger input's time says nothing."""
CAP = 20.0
"""Seconds of CPU time that one run may take."""
RUNS = 2
ARGUMENTS: dict[str, dict[str, Any]] = {"ptx-retarget": {"target": "sm_100"}}
LEFT_OUT = ("convert-to-ptx", "ptx-outline")
"""Passes of other input, and of one named block."""


class TimeUp(BaseException):
    """A step took longer than the cap."""


def inner(module: BuiltinModule) -> ModuleOp:
    found = module.body.block.first_op
    assert isinstance(found, ModuleOp)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A step and what it is applied to, which is not timed."""

    name: str
    run: Callable[[Any], object]
    prepare: Callable[[str], Any]


def entry_name(module: ModuleOp) -> str:
    return next(f.symbol for f in module.functions if isinstance(f, EntryOp))


def set_up(module: ModuleOp) -> None:
    LoadedModule(module).program(entry_name(module))


def checked_run(module: ModuleOp) -> None:
    loaded = LoadedModule(module)
    entry = loaded.entries[entry_name(module)]
    arguments = [0] * sum(len(p.items) for p in entry.parameters)
    simulate(entry, *arguments, grid=1, block=32, check=True, schedules=1)


def of_text(text: str) -> str:
    return text


def of_module(text: str) -> BuiltinModule:
    return pyptx.parse(text)


def of_inner(text: str) -> ModuleOp:
    return inner(pyptx.parse(text))


def pass_step(name: str) -> Step:
    pass_ = PASSES[name]()(**ARGUMENTS.get(name, {}))
    return Step(name, lambda module: pass_.apply(Context(), module), of_module)


def assign_after_inline(text: str) -> BuiltinModule:
    """Names that are missing or stale: a pass that leaves much to do."""
    module = pyptx.parse(text)
    for name in ("ptx-copy-propagation", "ptx-fold"):
        PASSES[name]()().apply(Context(), module)
    return module


STEPS = (
    Step("parse", pyptx.parse, of_text),
    Step("diagnose", pyptx.diagnose, of_text),
    Step("print", pyptx.to_ptx, of_module),
    Step("verify", module_diagnostics, of_inner),
    Step("analyse", analyse, of_inner),
    *(pass_step(name) for name in PASSES if name not in LEFT_OUT),
    Step("transpile", ptx_to_python, of_text),
    Step("sugar", lambda text: ptx_to_python(text, sugar=True), of_text),
    Step("simulate set-up", set_up, of_inner),
    Step("check", checked_run, of_inner),
)


def _stop(*_: object) -> None:
    raise TimeUp


def seconds(step: Step, text: str) -> float:
    """CPU time of the step, as the best of the runs. What was remembered of earlier texts is forgotten before each."""
    best = math.inf
    for _ in range(RUNS):
        forget()
        given = step.prepare(text)
        forget()
        gc.collect()
        signal.signal(signal.SIGPROF, _stop)
        signal.setitimer(signal.ITIMER_PROF, CAP)
        try:
            start = time.process_time()
            step.run(given)
            best = min(best, time.process_time() - start)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if best > 0.5:
            break
    return best


def measured(step: Step, small: str, large: str) -> tuple[str, float | None]:
    """What the table says of a step, and its exponent where it has one."""
    try:
        after = seconds(step, large)
        if after < NOISE:
            return ".", None
        before = seconds(step, small)
    except TimeUp:
        return f">{CAP:.0f}s", math.inf
    e = math.log(after / before) / math.log(FACTOR)
    return f"{e:.2f} ({after * 1e3:.0f} ms)", e


def counted(step: Step, texts: Sequence[str]) -> tuple[str, float | None]:
    """What the table says of a step by the lines that it runs."""
    counts: list[Counter[CodeType]] = []
    for text in texts:
        counts.append(lines_of(step, text))
    e = exponent(*[c.total() for c in counts])
    said = f"{e:.2f} ({counts[-1].total()} lines)"
    if e > LIMIT:
        said += "".join(f"\n        {name}" for name in growing(*counts, limit=LIMIT)[:8])
    return said, e


def lines_of(step: Step, text: str) -> Counter[CodeType]:
    """How many lines of each function a step runs for a text."""
    forget()
    given = step.prepare(text)
    forget()
    return lines_run(lambda: step.run(given))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--shape", default="", help="only shapes with this in their name")
    arguments.add_argument("--step", default="", help="only steps with this in their name")
    arguments.add_argument("--scale", type=float, default=1.0, help="sizes times this")
    arguments.add_argument("--count", action="store_true", help="count lines that run, not seconds")
    options = arguments.parse_args()
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000))
    above: list[str] = []
    if options.count:
        for step in STEPS:
            lines_of(step, many_functions(2))  # what is imported late is loaded now
    for shape in SHAPES:
        if options.shape not in shape.name:
            continue
        n = int(shape.size * options.scale)
        texts = [shape.text(n), shape.text(2 * n), shape.text(FACTOR * n)]
        print(f"{shape.name}: {n} to {FACTOR * n}, {texts[-1].count(chr(10))} lines", flush=True)
        for step in STEPS:
            if options.step not in step.name:
                continue
            try:
                said, e = counted(step, texts) if options.count else measured(step, texts[0], texts[-1])
            except Exception as error:
                said, e = f"{type(error).__name__}: {str(error)[:150]}", math.nan
            missed = e is not None and not e <= LIMIT
            if missed:
                above.append(f"{shape.name}: {step.name} {said}")
            if said != ".":
                print(f"    {'MISSED ' * missed}{step.name:<22}{said}", flush=True)
    print(f"\n{len(above)} above {LIMIT}:" if above else f"\nall exponents are at most {LIMIT}")
    for line in above:
        print(f"    {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
