"""Textures, samplers and surfaces: what a launch passes where a kernel takes a handle (PTX ISA 5.3).

All views of memory are canonical inside: shape (layers, depth, height, width, channels), one layer per face of a
cube and per sample of a multi-sample texture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...diagnostics import SimulationError

__all__ = ["GEOMETRIES", "Sampler", "Surface", "Texture", "sampler_of_words"]

Array = Any

GEOMETRIES: dict[str, tuple[int, int]] = {
    "1d": (0, 1), "2d": (0, 2), "3d": (0, 3), "a1d": (1, 1), "a2d": (1, 2), "cube": (1, 2), "acube": (2, 2),
    "2dms": (1, 2), "a2dms": (2, 2),
}  # fmt: skip
"""Geometry -> axes of the array that choose a layer (index, face, sample), and axes in space."""
FILTERS = ("nearest", "linear")
ADDRESSES = ("wrap", "mirror", "clamp_ogl", "clamp", "border")
"""In the order of the values of `txq.addr_mode_*` (PTX ISA 5.3); `clamp_ogl` is executed as `clamp`."""
READS = ("element", "normalized")
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "never": lambda f, texel: np.zeros(np.broadcast(f, texel).shape, np.bool_),
    "less": np.less,
    "equal": np.equal,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "always": lambda f, texel: np.ones(np.broadcast(f, texel).shape, np.bool_),
}
"""How a depth comparison compares its operand with a texel."""
_KINDS = {
    "float16": 0x10DD, "float32": 0x10DE, "int8": 0x10D7, "int16": 0x10D8, "int32": 0x10D9, "uint8": 0x10DA,
    "uint16": 0x10DB, "uint32": 0x10DC,
}  # fmt: skip
"""Element types with their numbers in `txq.channel_data_type`: OpenCL's, as CUDA names none."""
_NORMALIZED = {"int8": 0x10D0, "int16": 0x10D1, "uint8": 0x10D2, "uint16": 0x10D3}
_ORDERS = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}


@dataclass(frozen=True, slots=True)
class Sampler:
    """How a texture is read (CUDA C++ Programming Guide, texture fetching; PTX ISA 5.3).

    `filter`: `nearest` or `linear`; `address`: what coordinates outside do, `clamp`, `border` (zeros), `wrap` or
    `mirror`, one for all dimensions or one for each, x first. `wrap` and `mirror` need normalized coordinates and act
    as `clamp` without, as in CUDA. `normalized`: False forces coordinates in texels, whatever the texture says
    (`force_unnormalized_coords`). `mip_filter`: how levels are chosen; `lod_bias`: added to the level. `compare`: how
    instructions with a depth operand f compare it, `less_equal` for "1 where f <= texel" and so on, which PTX leaves to
    the graphics API that made the sampler.
    """

    filter: str = "nearest"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = True
    mip_filter: str = "nearest"
    lod_bias: float = 0.0
    compare: str | None = None

    def __post_init__(self) -> None:
        if self.compare is not None and self.compare not in COMPARISONS:
            raise SimulationError(f"a sampler's compare is one of {', '.join(COMPARISONS)}, not {self.compare!r}")
        for name in (self.filter, self.mip_filter):
            if name not in FILTERS:
                raise SimulationError(f"a sampler's filter is {' or '.join(FILTERS)}, not {name!r}")
        for name in self.addresses:
            if name not in ADDRESSES:
                raise SimulationError(f"a sampler's address mode is one of {', '.join(ADDRESSES)}, not {name!r}")

    @property
    def addresses(self) -> tuple[str, ...]:
        """The address modes of x, y and z."""
        given = (self.address,) * 3 if isinstance(self.address, str) else tuple(self.address)
        return (*given, *given[-1:] * (3 - len(given)))


def _canonical(array: Array, geometry: str | None, what: str) -> tuple[Array, str]:
    """The array as (layers, depth, height, width, channels), without a copy, and its geometry."""
    if not isinstance(array, np.ndarray) or str(array.dtype) not in _KINDS:
        raise SimulationError(f"a {what} is a NumPy array of {', '.join(_KINDS)}, not {_describe(array)}")
    if not array.flags.c_contiguous or not array.size:
        raise SimulationError(f"a {what} needs a contiguous array with elements; this one is {_describe(array)}")
    if geometry is None:
        geometry = {1: "1d", 2: "2d", 3: "3d"}.get(array.ndim, "")
    if geometry not in GEOMETRIES:
        raise SimulationError(f"a {what} has one of the geometries {', '.join(GEOMETRIES)}; say which with geometry=")
    layers, spatial = GEOMETRIES[geometry]
    shape = tuple(int(n) for n in array.shape)
    if len(shape) == layers + spatial:
        shape = (*shape, 1)
    if len(shape) != layers + spatial + 1 or shape[-1] not in _ORDERS:
        raise SimulationError(
            f"an array for geometry {geometry} has {layers + spatial} dimensions and perhaps a last one of 1, 2 or 4 "
            f"channels, not the shape {array.shape}"
        )
    if "cube" in geometry and (shape[layers - 1] != 6 or shape[layers] != shape[layers + 1]):
        raise SimulationError(f"a cube has six square faces: shape (..., 6, n, n), not {array.shape}")
    count = int(np.prod(shape[:layers], dtype=np.int64))
    space = shape[layers : layers + spatial]
    return array.reshape(count, *(1,) * (3 - spatial), *space, shape[-1]), geometry


def _describe(array: object) -> str:
    if isinstance(array, np.ndarray):
        return f"an array {array.shape} of {array.dtype}"
    return type(array).__name__


class _Image:
    """What textures and surfaces share: elements and the answers to queries about them."""

    levels: list[Array]
    geometry: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        return self.levels[0].shape[-1]

    @property
    def samples(self) -> int:
        return self.shape[GEOMETRIES[self.geometry][0] - 1] if "ms" in self.geometry else 1

    def query(self, name: str, level: int = 0) -> int | None:
        """The answer to `txq` or `suq`, or None if this is not a property of it."""
        _, depth, height, width, channels = self.levels[min(level, len(self.levels) - 1)].shape
        spatial = GEOMETRIES[self.geometry][1]
        layers = self.levels[0].shape[0] // (6 if "cube" in self.geometry else self.samples)
        answers = {
            "width": width,
            "height": height if spatial > 1 else 0,
            "depth": depth if spatial > 2 else 0,
            "array_size": layers if self.geometry[0] == "a" else 0,
            "num_samples": self.samples,
            "num_mipmap_levels": len(self.levels),
            "channel_data_type": self.data_type,
            "channel_order": _ORDERS[channels],
            "memory_layout": 0,
        }
        return answers.get(name)

    @property
    def data_type(self) -> int:
        return _KINDS[str(self.levels[0].dtype)]


class Texture(_Image):
    """A texture over an array, to pass for a `.u64` or `.texref` parameter or to `LoadedKernel.bind`.

    `array`: shape (width,), (height, width) or (depth, height, width) of 8, 16 or 32 bit integers, float16 or
    float32, with a last axis of 2 or 4 channels if `geometry` says what the others are. Geometries are those of
    `tex`: `1d 2d 3d`, layered `a1d a2d`, `cube` (6, n, n) in the order +x -x +y -y +z -z, `acube` (cubes, 6, n, n),
    multi-sample `2dms` (samples, height, width) and `a2dms` (layers, samples, height, width). Missing channels read
    as zero.

    `normalized`: coordinates run from 0 to 1 (cubes: always directions). `filter`, `address`, `mip_filter`,
    `lod_bias`, `compare`: its `Sampler`, where an instruction has none of its own. `read`: `element`, or `normalized` for
    8 and 16 bit integers read as floats in 0 to 1 or -1 to 1. `mipmaps`: the arrays of the levels after the first.
    The memory is shared with the array.
    """

    def __init__(
        self,
        array: Any,
        *,
        geometry: str | None = None,
        filter: str = "nearest",
        address: str | tuple[str, ...] = "clamp",
        normalized: bool = False,
        read: str = "element",
        mipmaps: Sequence[Any] = (),
        mip_filter: str = "nearest",
        lod_bias: float = 0.0,
        compare: str | None = None,
    ):
        first, self.geometry = _canonical(array, geometry, "texture")
        self.shape = tuple(array.shape)
        self.levels = [first, *(_canonical(a, self.geometry, "mipmap level")[0] for a in mipmaps)]
        self.sampler = Sampler(filter, address, normalized or "cube" in self.geometry, mip_filter, lod_bias, compare)
        self.read = read
        for i, (finer, coarser) in enumerate(zip(self.levels, self.levels[1:], strict=False)):
            half = tuple(max(1, n // 2) for n in finer.shape[1:4])
            if coarser.shape != (finer.shape[0], *half, finer.shape[4]) or coarser.dtype != finer.dtype:
                raise SimulationError(
                    f"mipmap level {i + 1} has half the size of level {i} in every dimension and its type: "
                    f"{half} (depth, height, width), not {coarser.shape[1:4]} of {coarser.dtype}"
                )
        if read not in READS or (read == "normalized" and str(first.dtype) not in _NORMALIZED):
            raise SimulationError(
                f"read is element, or normalized for 8 and 16 bit integers; not {read!r} for {first.dtype}"
            )
        self.check(self.sampler)

    @property
    def returns_floats(self) -> bool:
        return self.read == "normalized" or self.levels[0].dtype.kind == "f"

    @property
    def data_type(self) -> int:
        return _NORMALIZED[str(self.levels[0].dtype)] if self.read == "normalized" else super().data_type

    def check(self, sampler: Sampler) -> None:
        """SimulationError if the texture cannot be read with a sampler."""
        if "linear" in (sampler.filter, sampler.mip_filter) and not self.returns_floats:
            raise SimulationError(
                f"a texture of {self.levels[0].dtype} returns integers, which cannot be filtered: use read='normalized'"
            )

    def values(self, level: int, where: tuple[Array, ...]) -> Array:
        """Elements at (layer, z, y, x): floats as float64, integers as they are. Shape (n, channels)."""
        texels = self.levels[level][where]
        if self.read == "normalized":
            # the lowest signed value and the one above it both stand for -1
            return np.maximum(texels.astype(np.float64) / np.iinfo(texels.dtype).max, -1.0)
        return texels.astype(np.float64) if texels.dtype.kind == "f" else texels


class Surface(_Image):
    """A surface over a writable array, to pass for a `.u64` or `.surfref` parameter or to `LoadedKernel.bind`.

    `array` and `geometry` (`1d 2d 3d a1d a2d`) as for `Texture`; stores change the array in place.
    """

    def __init__(self, array: Any, *, geometry: str | None = None):
        canonical, self.geometry = _canonical(array, geometry, "surface")
        if not canonical.flags.writeable:
            raise SimulationError("a surface needs a writable array")
        self.shape = tuple(array.shape)
        self.levels = [canonical]

    @property
    def bytes(self) -> Array:
        """Rows of bytes: shape (layers, depth, height, bytes of a row)."""
        a = self.levels[0]
        return a.reshape(*a.shape[:3], -1).view(np.uint8)


@dataclass(slots=True)
class Handles:
    """The textures, samplers and surfaces of a launch by handle: a number for an argument, the address of a module
    variable.
    """

    base: int
    objects: dict[int, Texture | Surface | Sampler] = field(
        default_factory=dict[int, "Texture | Surface | Sampler"], init=False
    )

    def add(self, item: Texture | Surface | Sampler) -> int:
        """The handle of an object given as an argument."""
        handle = self.base + 64 * len(self.objects)
        self.objects[handle] = item
        return handle


OPAQUE: dict[str, type[Texture | Surface | Sampler]] = {
    "texref": Texture,
    "samplerref": Sampler,
    "surfref": Surface,
}
"""Opaque types of PTX -> what stands for their values."""

_MODES = {"clamp_to_edge": "clamp", "clamp_to_border": "border"}


def sampler_of_words(words: Sequence[str]) -> Sampler:
    """The sampler that an initialiser `= { filter_mode = linear, addr_mode_0 = wrap, ... }` makes (PTX ISA 5.3.2)."""
    said = {words[i - 1]: words[i + 1] for i, w in enumerate(words[:-1]) if w == "=" and i}
    modes = tuple(_MODES.get(m, m) for m in (said.get(f"addr_mode_{i}", "clamp_to_edge") for i in range(3)))
    return Sampler(
        said.get("filter_mode", "nearest"), modes, said.get("force_unnormalized_coords", "0") in ("0", "false")
    )
