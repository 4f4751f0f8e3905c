"""Sums of matrix instructions on numbers that are decoded already, as the simulator has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...diagnostics import PTXError
from .accumulate import Bits, Numbers, Scales, accumulate, accumulate_in_place, fits_native_code, of_values
from .exact import exact
from .native import ORDER, WIDTH, Places
from .rules import FORMS, Kind, Rule, read_kind, rule_for

Values = NDArray[np.floating[Any]]
Factors = tuple[Values, Values] | None
"""The values of the scale factors of A, (..., M, blocks along K), and of B, (..., blocks along K, N)."""


class Operands(NamedTuple):
    """Those of one instruction of a chain."""

    a: Numbers
    b: Numbers
    scales: Scales


@dataclass(frozen=True)
class Sum:
    """C + A B of one kind of instruction on one architecture.

    `kind.k` is the depth of one fused instruction, that of a sparse one with its zeros; a deeper product is a chain of them, ascending.
    """

    kind: Kind
    rule: Rule
    arch: str
    asked: Callable[[str], Sum] = field(compare=False, repr=False)

    def on(self, arch: str) -> Sum:
        """How the same instruction sums on another architecture. PTXError if that does not have it."""
        return self.asked(arch)

    def __call__(self, a: Values, b: Values, c: Bits, factors: Factors = None) -> Bits:
        """As the hardware sums. (..., M, K), (..., K, N) and (..., M, N); C and the result are bits of D's type."""
        for operands in self.instructions(a, b, factors):
            c = accumulate(self.kind, self.rule, operands.a, operands.b, c, operands.scales)
        return c

    def in_place(self, a: Values, b: Values, words: Bits, places: Places, factors: Factors = None) -> bool:
        """The same for (M, K) and (K, N), with C and D at `places` of an array, if native code can do that; whether it did."""
        if places.order != ORDER:
            b = b.reshape(len(b), -1, WIDTH)[:, :, places.order].reshape(b.shape)
        parts = list(self.instructions(a, b, factors))
        if not all(fits_native_code(self.rule, p.a, p.b, p.scales) for p in parts):
            return False
        for p in parts:
            accumulate_in_place(self.kind, self.rule, p.a, p.b, words, places, p.scales)
        return True

    def instructions(self, a: Values, b: Values, factors: Factors) -> Iterator[Operands]:
        """The operands of each instruction of the chain."""
        kind = self.kind
        x, y = of_values(a, kind.a), of_values(b, kind.b)
        scales = None
        if factors is not None:
            each = (
                a.shape[-1] // kind.block // factors[0].shape[-1]
            )  # a factor of a deep instruction serves some of the chain
            along_k = np.repeat(factors[0], each, axis=-1), np.repeat(factors[1], each, axis=-2)
            scales = of_values(along_k[0], kind.scale), of_values(along_k[1], kind.scale)
        for first in range(0, a.shape[-1], kind.k):
            part = slice(first, first + kind.k)
            pair = scales
            if scales is not None:
                blocks = slice(first // kind.block, (first + kind.k) // kind.block)
                pair = scales[0][..., blocks], scales[1][..., blocks, :]
            whole = a.shape[-1] == kind.k
            yield Operands(x, y, pair) if whole else Operands(x[..., part], y[..., part, :], pair)

    def exact(self, a: Values, b: Values, c: Bits, factors: Factors = None) -> Bits:
        """The true sum, rounded once to the nearest number of D's type. f64 is a chain of fma here, too."""
        return self(a, b, c) if self.kind.d == "f64" else exact(*scaled(a, b, factors), c, self.kind.d)


def scaled(a: Values, b: Values, factors: Factors) -> tuple[Values, Values]:
    """A and B times their scale factors, exact in float64."""
    if factors is None:
        return a, b
    of_a, of_b = factors
    block = a.shape[-1] // of_a.shape[-1]
    x, y = np.repeat(of_a, block, axis=-1), np.repeat(of_b, block, axis=-2)
    return a.astype(np.float64) * x, b.astype(np.float64) * y


@lru_cache(maxsize=1024)
def sum_for(
    instruction: str, types: tuple[str, str, str], shape: tuple[int, int], arch: str, *,
    sparse: bool = False, block: int = 0, scale: str = "", packed: bool = False,
) -> Sum:  # fmt: skip
    """How an instruction sums on an architecture.

    `types` of D, A and B; `shape`: (M, K), K of a sparse instruction with its zeros; `block` elements of a dense A share a scale factor
    of type `scale`; `packed`: the kinds mxf4 and mxf4nvf4. PTXError if the architecture does not have it.
    """

    def asked(other: str) -> Sum:
        return sum_for(instruction, types, shape, other, sparse=sparse, block=block, scale=scale, packed=packed)

    d, a, b = types
    rows, depth = shape[0], shape[1] // 2 if sparse else shape[1]
    first = "mma" if instruction == "wmma" else instruction
    # the scale factors of ue5m3 are aligned as those of ue4m3 are; deeper packed instructions are longer sums of the same kind
    written = [d, a, b, ("ue4m3" if scale == "ue5m3" else scale) if block else d]
    refused: PTXError | None = None
    for k in [64] if packed else _depths(first, depth, chained=instruction in ("wmma", "tcgen05")):
        try:
            own = [f"m{rows}k{k}" if d == "f64" else f"k{k}"] + [f"block{min(block, k)}"] * bool(block)
            kind = read_kind(".".join([first, *own, *written]))
            rule = rule_for(kind, arch)
        except PTXError as error:
            refused = refused or error
            continue
        kind = replace(kind, k=depth if packed else k, scale=scale)
        if sparse:
            kind = replace(kind, k=2 * kind.k, block=2 * kind.block)
            rule = replace(
                rule, unit=rule.unit and 2 * rule.unit, group=rule.group if rule.group == 1 else 2 * rule.group
            )
        return Sum(kind, rule, arch, asked)
    raise refused or PTXError(f"{instruction} does not multiply {a} and {b} with K = {depth}")


def _depths(instruction: str, depth: int, chained: bool) -> list[int]:
    """Depths of the instructions to try: of the machine instructions that a deeper one is made of, or of the one that is written."""
    if not chained:
        return [depth]
    known = {k for (name, _), forms in FORMS.items() if name.startswith(instruction) for f in forms for k in f.depths}
    return sorted((k for k in known if depth % k == 0), reverse=True)
