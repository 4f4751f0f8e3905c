"""Which thread holds which element of a matrix operand, and in which value of its fragment (PTX ISA 9.7.16.5, 9.7.17.5).

In all of them the elements of a thread lie at constant distances from its first one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .matrix import Mma
from .types import SCALAR_TYPES


@lru_cache(maxsize=256)
def fragment(operand: str, m: int, n: int, k: int, bits: int) -> np.ndarray:
    """`mma.sync`: where a thread's elements lie in the matrix: [lane, value] -> row * columns + column, for operand A, B
    or C (and D).

    Values fill registers from the least significant bits up; `bits` is an element's size.
    """
    lane = np.arange(32)
    group, thread = lane // 4, lane % 4
    if operand == "C":
        columns = n
        values = m * n // 32
        v = np.arange(values)
        row = group[:, None] + 8 * (v // 2)
        column = 2 * thread[:, None] + v % 2
    else:
        per = max(32 // bits, 1)  # elements that lie side by side in a register
        values = (m * k if operand == "A" else k * n) // 32
        register, i = np.divmod(np.arange(values), per)
        if operand == "A":
            columns = k
            tall = m // 8  # the upper and the lower half of A alternate
            row = group[:, None] + 8 * (register % tall)
            column = thread[:, None] * per + 4 * per * (register // tall) + i
        else:
            columns = n
            row = thread[:, None] * per + 4 * per * register + i
            column = np.broadcast_to(group[:, None], (32, values))
    return row * columns + column


@lru_cache(maxsize=64)
def wgmma_accumulator(n: int) -> np.ndarray:
    """`wgmma`: [thread of the warpgroup, value] -> row * n + column of D, 64 x n."""
    warp, lane = np.divmod(np.arange(128), 32)
    v = np.arange(n // 2)
    row = (16 * warp + lane // 4)[:, None] + 8 * (v // 2 % 2)
    column = 2 * (lane % 4)[:, None] + v % 2 + 8 * (v // 4)
    return row * n + column


_TYPES = {"A": "atype", "B": "btype", "C": "ctype", "D": "dtype"}
"""What the forms of `mma` call the type of an operand."""


@lru_cache(maxsize=64)
def mma_shapes(operand: str, bits: int, dtype: str = "") -> tuple[str, ...]:
    """The shapes of dense `mma.sync` whose operand A, B, C or D has elements of that many bits (or of the type `dtype`),
    but for the four small matrices of m8n8k4, whose fragments are others. Empty for none.
    """
    found: set[str] = set()
    for form in Mma.forms if operand in _TYPES else ():
        types = form.sets[_TYPES[operand]].split()
        fits = any(t == dtype or (t != "e2m1" and SCALAR_TYPES[t].bits == bits) for t in types)
        if fits and "sparsity" not in form.sets:
            found.update(s for s in form.sets["shape"].split() if s != "m8n8k4" or form.sets["atype"] == "f64")
    return tuple(sorted(found, key=lambda s: [int(n) for n in s[1:].replace("n", " ").replace("k", " ").split()]))
