"""Structured sparsity of A: which elements of each group are kept (PTX ISA 9.7.16.6, 9.7.17.6, 9.7.18.10)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def nibbles(words: Array) -> Array:
    """The eight 4-bit codes of 32-bit words, lowest first: shape (..., 8)."""
    return (words[..., None] >> (4 * np.arange(8, dtype=np.uint32))) & np.uint32(15)


def quad_codes(metadata: Array, selector: int, groups: int) -> Array:
    """The code of each group of A's rows, from metadata registers.

    metadata: (..., 8, 4), rows of a fragment (lane / 4) by thread of the quad; groups: how many a row of A has, 4, 8 or
    16. Result: (..., 16, groups), rows i and i + 8 as in fragments of A.

    4 groups: thread `selector` of each quad has those of rows i (low half) and i + 8. 8 groups: of threads
    2 * (selector % 2) and the next, the second has the upper groups. 16 groups: all four threads; 1 and 3 have row
    i + 8, 2 and 3 the upper groups.
    """
    codes = nibbles(metadata)  # (..., 8, 4, 8)
    lead = codes.shape[:-3]
    if groups == 4:
        chosen = codes[..., selector, :].reshape(*lead, 8, 1, 2, 4)  # row, part, row / 8, group
    elif groups == 8:
        first = 2 * (selector % 2)
        chosen = codes[..., first : first + 2, :].reshape(*lead, 8, 2, 2, 4)
    else:
        chosen = codes.reshape(*lead, 8, 2, 2, 8)  # row, part, row / 8, group
    turned = np.moveaxis(chosen, -2, -4)  # row / 8, row, part, group
    return turned.reshape(*lead, 16, groups)


def place_nonzeros(x: Array, codes: Array, bits: int) -> Array:
    """The dense rows: x (..., rows, k / 2) are the kept elements, codes (..., rows, groups) where they go.

    8 and 16 bit elements: two of a group of four, two bits each. 4 bits: likewise pairs of a group of eight. 32 bits:
    one of two, the code 0b1110 is the second and 0b0100 the first.
    """
    *lead, half = x.shape
    if bits == 32:
        dense = np.zeros((*lead, half, 2), x.dtype)
        second = codes == 0b1110
        dense[..., 0] = np.where(second, 0, x)
        dense[..., 1] = np.where(second, x, 0)
        return dense.reshape(*lead, 2 * half)
    unit = 2 if bits == 4 else 1
    count = half // (2 * unit)
    kept = x.reshape(-1, 2, unit)
    flat = codes.reshape(-1)
    dense = np.zeros((flat.size, 4, unit), x.dtype)
    every = np.arange(flat.size)
    dense[every, flat & 3] = kept[:, 0]
    dense[every, flat >> 2 & 3] = kept[:, 1]
    return dense.reshape(*lead, count * 4 * unit)
