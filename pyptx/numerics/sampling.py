"""How texture coordinates become texels and weights (CUDA C++ Programming Guide, appendix on texture fetching).

Coordinates are computed in float64, so only the documented rounding is there: filter weights, and the weight of a
mipmap level, have 8 bits after the point, so that 1 is one of their 257 values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
WEIGHT_ONE = 256


def weight(fraction: Array) -> Array:
    """A fraction in [0, 1) rounded to 1/256."""
    return np.rint(fraction * WEIGHT_ONE) / WEIGHT_ONE


def texel_index(i: Array, size: int, mode: str) -> tuple[Array, Array]:
    """(index within the texture, whether the texel is the border) of integer positions along one axis."""
    if mode == "wrap":
        return i % size, np.zeros(i.shape, np.bool_)
    if mode == "mirror":
        j = i % (2 * size)
        return np.where(j < size, j, 2 * size - 1 - j), np.zeros(i.shape, np.bool_)
    outside = (i < 0) | (i >= size) if mode == "border" else np.zeros(i.shape, np.bool_)
    return np.clip(i, 0, size - 1), outside


def positions(x: Array, *, linear: bool) -> list[tuple[Array, Array]]:
    """(texel position, weight) of the texels along one axis that a coordinate in texels reads."""
    x = np.clip(np.nan_to_num(x, nan=0.0), -(2.0**40), 2.0**40)
    if not linear:
        return [(np.floor(x).astype(np.int64), np.ones(x.shape))]
    below = np.floor(x - 0.5)
    alpha = weight(x - 0.5 - below)
    i = below.astype(np.int64)
    return [(i, 1 - alpha), (i + 1, alpha)]


def cube_face(x: Array, y: Array, z: Array) -> tuple[Array, Array, Array]:
    """(face 0 to 5: +x -x +y -y +z -z, s, t) of a direction; s and t run from 0 to 1. Ties prefer x, then y."""
    ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
    along_x = (ax >= ay) & (ax >= az)
    along_y = ~along_x & (ay >= az)
    major = np.where(along_x, x, np.where(along_y, y, z))
    negative = major < 0
    face = np.where(along_x, 0, np.where(along_y, 2, 4)) + negative
    sign = np.where(negative, -1.0, 1.0)
    s = _s_numerator([x, y, z], sign, along_x, along_y)
    t = _t_numerator([x, y, z], sign, along_x, along_y)
    m = np.where(major == 0, 1.0, np.abs(major))
    return face, (s / m + 1) / 2, (t / m + 1) / 2


def cube_slope(direction: list[Array], slope: list[Array]) -> list[Array]:
    """The derivatives of (s, t) on the direction's face where those of the direction are `slope`: what the quotient rule
    makes of s = (sc / |m| + 1) / 2, as OpenGL 4.6 (8.14.1) and Direct3D derive the level of a cube.
    """
    x, y, z = (np.abs(a) for a in direction)
    along_x = (x >= y) & (x >= z)
    along_y = ~along_x & (y >= z)
    pick = lambda v: np.where(along_x, v[0], np.where(along_y, v[1], v[2]))  # noqa: E731
    major = pick(direction)
    sign = np.where(major < 0, -1.0, 1.0)
    m = np.where(major == 0, 1.0, np.abs(major))
    dm = sign * pick(slope)
    found: list[Array] = []
    for of in (_s_numerator, _t_numerator):
        numerator, derivative = of(direction, sign, along_x, along_y), of(slope, sign, along_x, along_y)
        found.append((derivative * m - numerator * dm) / (2 * m * m))
    return found


def _s_numerator(v: list[Array], sign: Array, along_x: Array, along_y: Array) -> Array:
    return np.where(along_x, -sign * v[2], np.where(along_y, v[0], sign * v[0]))


def _t_numerator(v: list[Array], sign: Array, along_x: Array, along_y: Array) -> Array:
    return np.where(along_y, sign * v[2], -v[1])


def level_of_gradient(gradients: list[list[Array]], sizes: list[int]) -> Array:
    """The level of detail for derivatives (dPdx and dPdy, a list of axes each) scaled to texels: the logarithm of the
    longer one.
    """
    lengths = [np.sqrt(sum((g * n) ** 2 for g, n in zip(axes, sizes, strict=True))) for axes in gradients]
    with np.errstate(divide="ignore"):
        return np.log2(np.maximum(*lengths))
