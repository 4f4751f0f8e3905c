"""Work counted instead of timed: how many lines of Python run. The same in any process and on a busy machine.

A loop runs its lines once for each round, and so do comprehensions and generators. What C code does inside of one line (a
search in a list, a copy of a set) is not counted: `benchmarks.growth` without `--count` times that.
"""

from __future__ import annotations

import gc
import math
import sys
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any


def lines_run(run: Callable[[], object]) -> Counter[CodeType]:
    """How many lines of each function ran."""
    counts: Counter[CodeType] = Counter()

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        counts[frame.f_code] += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # finalizers of what others left would be counted here
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
        gc.enable()
    return counts


def exponent(first: float, second: float, third: float) -> float:
    """The exponent e of work ~ n^e from the work at n, 2n and 4n, whatever is done once for any n."""
    if third <= second or second <= first:
        return 0.0
    return math.log2((third - second) / (second - first))


def name_of(code: CodeType) -> str:
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno} {code.co_name}"


def growing(first: Counter[CodeType], second: Counter[CodeType], third: Counter[CodeType], limit: float) -> list[str]:
    """The functions whose own work grows with a larger exponent than the limit, those that do most of it first."""
    found: list[tuple[int, str]] = []
    for code, count in third.items():
        e = exponent(first[code], second[code], count)
        if e > limit and count > 100:
            found.append((count, f"{name_of(code)} {e:.2f} ({count} lines)"))
    return [text for _, text in sorted(found, reverse=True)]
