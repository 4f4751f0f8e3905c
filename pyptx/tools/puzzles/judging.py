"""Is a kernel the answer to a puzzle? The simulator and its sanitizer say so, on fresh random inputs."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...diagnostics import PTXError, SimulationError, SimulationWarning
from ...frontend.core.tiles import unify_envs
from ...frontend.kernel.kernel import Kernel
from ...simulator import simulate
from .puzzle import GAP, Arrays, Puzzle

__all__ = ["Verdict", "judge"]

TRIALS = 3


@dataclass(frozen=True)
class Verdict:
    """What is wrong with an answer; it is right where nothing is."""

    problem: str = ""

    @property
    def solved(self) -> bool:
        return not self.problem


def judge(puzzle: Puzzle, text: str, filename: str, seed: int | None = None) -> Verdict:
    """Run an answer: the text of its file, which messages call `filename`. `seed` makes the inputs the same each time."""
    if GAP.strip() in text:
        return Verdict(f"{filename}: the line `{GAP.strip()}` is still to be replaced")
    try:
        answer = _kernel_of(text, filename)
        rng = np.random.default_rng(seed)
        for _ in range(TRIALS):
            problem = next(_problems(puzzle, answer, puzzle.inputs(rng)), "")
            if problem:
                return Verdict(problem)
    except (PTXError, SimulationError) as error:
        return Verdict(str(error))
    except Exception as error:  # of the answer's own Python, whatever it is
        return Verdict(_at_line(error, filename))
    return Verdict()


def _kernel_of(text: str, filename: str) -> Kernel:
    names: dict[str, object] = {"__name__": "answer", "__file__": filename}
    exec(compile(text, filename, "exec"), names)
    answer = names.get("answer")
    if not isinstance(answer, Kernel):
        raise PTXError(f"{filename}: the answer must be a @kernel with the name `answer`")
    return answer


def _problems(puzzle: Puzzle, answer: Kernel, inputs: Arrays) -> Iterator[str]:
    want = puzzle.want(*inputs)
    given = [x.copy() for x in inputs]
    got = np.frombuffer(np.random.default_rng().bytes(want.nbytes), want.dtype).reshape(want.shape).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulationWarning)  # the report has them
        report = simulate(answer, *given, got)
    if report.distinct:
        yield str(report.distinct[0])
    if not all(np.array_equal(a, b) for a, b in zip(given, inputs, strict=True)):
        yield "the answer changes its inputs"
    yield from _differences(puzzle, inputs, got, want)
    yield from _missing(puzzle, answer.ptx(**_dimensions(answer, (*inputs, want))))


def _differences(puzzle: Puzzle, inputs: Arrays, got: np.ndarray, want: np.ndarray) -> Iterator[str]:
    limit = puzzle.tolerance * max(float(np.abs(want.astype(np.float64)).max(initial=0.0)), 1.0)
    with np.errstate(invalid="ignore"):
        wrong = np.argwhere(~(np.abs(got.astype(np.float64) - want.astype(np.float64)) <= limit))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        place = ", ".join(map(str, at))
        sizes = ", ".join(str(x.shape) for x in inputs)
        yield (
            f"{len(wrong)} of {want.size} elements are wrong: out[{place}] is {got[at]} and must be {want[at]} "
            f"(inputs of shape {sizes})"
        )


def _missing(puzzle: Puzzle, ptx: str) -> Iterator[str]:
    opcodes = re.findall(r"^\s*(?:@!?\S+\s+)?([a-z][\w.:]*)", ptx, re.MULTILINE)
    for wanted in puzzle.uses:
        choices = tuple(wanted.split("|"))
        if not any(opcode.startswith(choices) for opcode in opcodes):
            yield f"the results are right, but the answer must use {' or '.join(choices)}"


def _dimensions(answer: Kernel, arrays: Arrays) -> dict[str, int]:
    """The named dimensions of the specs, as these arrays have them."""
    return unify_envs(spec.extract_env(x.shape) for spec, x in zip(answer.specs, arrays, strict=True))


def _at_line(error: Exception, filename: str) -> str:
    """An exception of the answer's own Python, with its line."""
    if isinstance(error, SyntaxError):
        return f"{filename}:{error.lineno}: {error.msg}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    return f"{filename}{f':{lines[-1]}' if lines else ''}: {type(error).__name__}: {error}"
