"""Sums of tensor cores on numbers that are decoded already, as the simulator has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...diagnostics import PTXError
from .. import formats
from ..formats import FORMATS
from .accumulate import ZERO_EXPONENT, Bits, Float64, Numbers, accumulate
from .rules import FORMS, Kind, Rule, read_kind, rule_for


@dataclass(frozen=True)
class Sum:
    """The sum of one kind of instruction on one architecture; `k` of the dense instruction, twice that of a sparse one."""

    kind: Kind
    rule: Rule

    def __call__(self, a: Float64, b: Float64, c: Float64) -> Bits:
        """C + A B as bits of D's type, for (..., M, K), (..., K, N), (..., M, N); C holds numbers of D's type."""
        kind = self.kind
        x, y = of_values(a, kind.a), of_values(b, kind.b)
        total = formats.encode(np.asarray(c, np.float64), kind.d)
        for first in range(0, a.shape[-1], kind.k):
            part = slice(first, first + kind.k)
            total = accumulate(kind, self.rule, x[..., part], y[..., part, :], total, None)
        return total

    def values(self, a: Float64, b: Float64, c: Float64) -> Float64:
        """The same as numbers."""
        return np.asarray(formats.decode(self(a, b, c), self.kind.d), np.float64)


def of_values(values: NDArray[Any], name: str) -> Numbers:
    """Numbers of a format, of which only the values are left."""
    wide = np.asarray(values, np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, FORMATS[name].min_exponent)
    return Numbers(wide, np.where(wide == 0, ZERO_EXPONENT, exponent).astype(np.int32))


@lru_cache(maxsize=256)
def sum_for(instruction: str, d: str, a: str, b: str, k: int, arch: str, sparse: bool = False) -> Sum | None:
    """How an instruction with this depth sums: the deepest form that divides it and that the architecture has.

    None for integers, f64 and what FORMS does not have. Of a sparse instruction K counts the zeros that A stands for; it sums like
    the dense one of half its depth. PTXError if the architecture has none of the forms.
    """
    if "s32" in (d, a, b) or d == "f64":
        return None
    deep = k // 2 if sparse else k
    depths = sorted({x for (name, _), known in FORMS.items() if name == instruction for f in known for x in f.depths})
    refused: PTXError | None = None
    for depth in reversed([x for x in depths if deep % x == 0]):
        try:
            kind = read_kind(f"{instruction}.k{depth}.{d}.{a}.{b}.{d}")
        except PTXError:
            continue
        try:
            rule = rule_for(kind, arch)
        except PTXError as error:
            refused = refused or error
            continue
        if sparse:
            kind, rule = replace(kind, k=2 * depth), replace(rule, unit=rule.unit and 2 * rule.unit)
        return Sum(kind, rule)
    if refused is not None:
        raise refused
    return None
