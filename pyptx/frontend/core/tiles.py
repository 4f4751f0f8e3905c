"""`Tile` and `Layout`: what a kernel's tensors look like (the public module `pyptx.specs`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

import numpy as np

from ...diagnostics import counted
from ...types import _ALL, PtxType

__all__ = ["Dim", "Layout", "Tile", "dim", "unify_envs"]


class Dim(str):
    """A named dimension. `runtime`: its size is a parameter of the kernel, whose PTX does not depend on it."""

    runtime: bool

    def __new__(cls, name: str, runtime: bool = False) -> Self:
        made = super().__new__(cls, name)
        made.runtime = runtime
        return made

    def __repr__(self) -> str:
        return f"dim({str(self)!r}, runtime=True)" if self.runtime else super().__repr__()

    def __getnewargs__(self) -> tuple[str, bool]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return str(self), self.runtime


def dim(name: str, *, runtime: bool = False) -> Dim:
    """A named dimension of a `Tile`. `dim("N")` is `"N"`: a constant of the PTX, which is made anew for each size.

    runtime: the size is a parameter `.param .s32 N` instead, so that one PTX and one cubin serve all sizes. The kernel's function has it as an s32
    register, if it takes it (`*, N=None`); `grid` and `block` still get it as an int.

        @kernel(in_specs=[Tile(dim("N", runtime=True), f32)], out_specs=[Tile(dim("N", runtime=True), f32)], grid=lambda N: -(-N // 256), block=256)
        def doubled(x, out, *, N=None): ...

    TypeError where a kernel has the same name with and without `runtime` and for a `runtime` that is not a bool, ValueError for what is not a name.
    """
    if not isinstance(name, str) or not name.isidentifier() or not name.isascii():
        raise ValueError(f"a dimension is named like a variable, not {name!r}")
    if not isinstance(runtime, bool):
        raise TypeError(f"runtime is True or False, not {runtime!r}")
    return Dim(name, runtime)


class Layout(Enum):
    """How a tensor lies in memory, or for TMA_*: with which swizzle TMA writes its boxes to shared memory.

    COL and INTERLEAVED are notes to the reader: nothing acts on them.
    """

    ROW = "row"
    COL = "col"
    TMA_128B = "tma_128b"
    TMA_64B = "tma_64b"
    TMA_32B = "tma_32b"
    INTERLEAVED = "interleaved"


@dataclass(frozen=True, init=False, repr=False)
class Tile:
    """The shape, type and layout of a tensor: `Tile("M", "K", bf16)`, `Tile(128, 64, f32, Layout.TMA_128B)`.

    Dimensions are ints or names that launches bind (`dim("N", runtime=True)`: sizes that are parameters). `tma_box` is the box that one TMA copy moves (default: the whole
    tensor), `tma_rank=3` describes a 2-D tensor to TMA as (columns/64, rows, 64) and needs `tma_box`, `tma_padding`
    pads the innermost box dimension of stores. Tensors are row-major unless `strides` says otherwise, in elements: ints, and names
    as for dimensions (`strides=(dim("pitch", runtime=True), 1)`). ValueError without dimensions or type, TypeError for other arguments.
    """

    dims: tuple[int | str, ...]
    dtype: PtxType
    layout: Layout = Layout.ROW
    tma_box: tuple[int, ...] | None = None
    tma_rank: int = 2
    tma_padding: bool = field(default=False)
    strides: tuple[int | str, ...] | None = None

    def __init__(
        self, *args: int | str | PtxType | Layout, dtype: PtxType | None = None, layout: Layout | None = None,
        tma_box: tuple[int, ...] | None = None, tma_rank: int = 2, tma_padding: bool = False,
        strides: tuple[int | str, ...] | None = None,
    ):  # fmt: skip
        dims: list[int | str] = []
        for arg in args:
            if isinstance(arg, PtxType):
                if dtype is not None:
                    raise TypeError("a Tile has one dtype, and two were given")
                dtype = arg
            elif isinstance(arg, Layout):
                if layout is not None:
                    raise TypeError("a Tile has one layout, and two were given")
                layout = arg
            elif isinstance(arg, (int, str)) and not isinstance(arg, bool):
                if isinstance(arg, int) and arg < 0:
                    raise ValueError(f"a dimension of a Tile is 0 or more, or a name, not {arg}")
                dims.append(arg)
            else:
                raise TypeError(f"a Tile takes dimensions (int or str), a dtype and a Layout, not {arg!r}")
        if not dims:
            raise ValueError("a Tile needs at least one dimension")
        if dtype is None:
            named = next((f": {d}, not {d!r}" for d in dims if isinstance(d, str) and d in _ALL), "")
            raise ValueError(f"a Tile needs a dtype, one of pyptx.types{named}")
        if not isinstance(dtype, PtxType):
            raise TypeError(f"a Tile's type is one of pyptx.types, such as f32, not {dtype!r}")
        if tma_rank not in (2, 3):
            raise ValueError(f"tma_rank is 2 or 3, not {tma_rank!r}")
        if tma_rank == 3 and tma_box is None:
            raise ValueError("tma_rank=3 needs a tma_box")
        if tma_box is not None and not isinstance(tma_box, (tuple, list)):
            raise TypeError(f"tma_box is a tuple with one extent for each dimension, not {tma_box!r}")
        for name, value in (
            ("dims", tuple(dims)), ("dtype", dtype), ("layout", layout or Layout.ROW),
            ("tma_box", tuple(tma_box) if tma_box else None),
            ("tma_rank", tma_rank), ("tma_padding", tma_padding), ("strides", None if strides is None else _checked_strides(strides, len(dims))),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        words = [repr(d) for d in self.dims] + [repr(self.dtype)]
        if self.layout is not Layout.ROW:
            words.append(str(self.layout))
        if self.tma_box is not None:
            words.append(f"tma_box={self.tma_box}")
        if self.tma_rank != 2:
            words.append(f"tma_rank={self.tma_rank}")
        if self.tma_padding:
            words.append("tma_padding=True")
        if self.strides is not None:
            words.append(f"strides={self.strides!r}")
        return f"Tile({', '.join(words)})"

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def symbolic_dims(self) -> tuple[str, ...]:
        """The named dimensions, then the named strides, each once, in order."""
        return tuple(dict.fromkeys(d for d in self.named if isinstance(d, str)))

    @property
    def named(self) -> tuple[int | str, ...]:
        """Dimensions and strides."""
        return (*self.dims, *(self.strides or ()))

    @property
    def runtime_dims(self) -> tuple[str, ...]:
        """The named dimensions and strides whose sizes are parameters of the kernel, each once, in order."""
        return tuple(dict.fromkeys(d for d in self.named if isinstance(d, Dim) and d.runtime))

    def resolve_shape(self, env: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with the names bound. KeyError for a name that `env` lacks."""
        return tuple(env[d] if isinstance(d, str) else d for d in self.dims)

    def extract_env(self, shape: Iterable[int]) -> dict[str, int]:
        """What a tensor of that shape binds the names to. ValueError if the shape does not fit."""
        sizes = tuple(shape)
        if len(sizes) != len(self.dims):
            raise ValueError(
                f"{self!r} has {counted(len(self.dims), 'dimension')}, and the tensor {sizes} has {len(sizes)}"
            )
        env: dict[str, int] = {}
        for i, (dim, size) in enumerate(zip(self.dims, sizes, strict=True)):
            known = env.setdefault(dim, size) if isinstance(dim, str) else dim
            if known != size:
                raise ValueError(f"dimension {i} of {self!r} must be {known} (tensor: {sizes})")
        return env

    def bind_strides(self, shape: Sequence[Any], strides: Sequence[Any], known: dict[str, Any]) -> str | None:
        """Hold the strides of an array (in elements) to those of the tile, which must have some; names are bound in `known`. What is wrong, or None.
        A stride of a dimension with one element or none means nothing.
        """
        assert self.strides is not None
        for axis, (wanted, size, stride) in enumerate(zip(self.strides, shape, strides, strict=True)):
            if size <= 1:
                if isinstance(wanted, str):
                    known.setdefault(wanted, stride)
                continue
            expected = known.setdefault(wanted, stride) if isinstance(wanted, str) else wanted
            if stride != expected:
                name = f" ({wanted})" if isinstance(wanted, str) else ""
                return f"so of stride {expected}{name} along axis {axis}, and has strides {tuple(strides)}"
            if stride < 0:
                return f"whose strides are 0 or more, and has strides {tuple(strides)}"
        return None

    def resolve_strides(self, shape: Sequence[int], env: Mapping[str, int]) -> tuple[int, ...]:
        """Those of a new array: the bound ones, for others those of a row-major one. `env` may lack names."""
        dense = row_major_strides(shape)
        if self.strides is None:
            return dense
        return tuple(env.get(s, d) if isinstance(s, str) else s for s, d in zip(self.strides, dense, strict=True))

    def matches(self, shape: Iterable[int], dtype_name: str) -> bool:
        """Whether a tensor of that shape and NumPy or torch type name ("bfloat16", "float32", ...) fits."""
        try:
            self.extract_env(shape)
        except ValueError:
            return False
        return dtype_name.removeprefix("torch.") in _array_types(self.dtype)

    def random(self, rng: np.random.Generator, **dims: int) -> Any:
        """A NumPy array of this shape and type to try a kernel with: floats are standard normal, integers 0 to 63.

        dims: the named dimensions. KeyError for one that is missing, ValueError for a type that NumPy has no arrays of.
        """
        shape = self.resolve_shape(dims)
        if self.dtype.is_float:
            return rng.standard_normal(shape).astype(array_type(self.dtype))
        return rng.integers(0, 64, shape).astype(array_type(self.dtype))

    @classmethod
    def wgmma_a(
        cls, m: int | str, k: int | str, dtype: PtxType, *, tile_m: int | None = None, tile_k: int | None = None
    ) -> Tile:
        """The A operand of a GEMM, M x K row-major, loaded by TMA in boxes of tile_m x tile_k with the swizzle that
        the box's rows need.
        """
        return cls._wgmma(m, k, dtype, tile_m, tile_k)

    @classmethod
    def wgmma_b(
        cls, k: int | str, n: int | str, dtype: PtxType, *, tile_k: int | None = None, tile_n: int | None = None
    ) -> Tile:
        """The B operand of a GEMM, K x N row-major, loaded by TMA in boxes of tile_k x tile_n."""
        return cls._wgmma(k, n, dtype, tile_k, tile_n)

    @classmethod
    def _wgmma(
        cls, rows: int | str, columns: int | str, dtype: PtxType, tile_rows: int | None, tile_columns: int | None
    ) -> Tile:
        inner = tile_columns if tile_columns is not None else columns
        layout = Layout.ROW
        if isinstance(inner, int):
            row_bytes = inner * dtype.bits // 8
            found = {16: Layout.ROW, 32: Layout.TMA_32B, 64: Layout.TMA_64B}.get(row_bytes)
            if found is None and row_bytes < 128:
                raise ValueError(f"rows of {row_bytes} bytes have no wgmma layout: 16, 32, 64 or at least 128")
            layout = found or Layout.TMA_128B
        box: tuple[Any, ...] | None = None
        if tile_rows is not None or tile_columns is not None:
            box = (tile_rows if tile_rows is not None else rows, inner)
        return cls(rows, columns, dtype, layout, tma_box=box)


def array_type(dtype: PtxType) -> np.dtype[Any]:
    """The NumPy type of a tensor's elements. ValueError for those that NumPy has not, such as 4-bit floats."""
    kind, bits = dtype.name[0], dtype.bits
    if dtype.name in ("bf16", "e4m3", "e5m2"):
        import ml_dtypes

        names = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
        return np.dtype(getattr(ml_dtypes, names[dtype.name]))
    if dtype.name not in _ARRAY_TYPES or bits not in (8, 16, 32, 64) or kind == "e" or (kind == "u" and dtype.is_float):
        raise ValueError(f"NumPy has no arrays of {dtype}")
    return np.dtype(f"{'f' if dtype.is_float else 'i' if kind == 's' else 'u'}{bits // 8}")


def _array_types(dtype: PtxType) -> frozenset[str]:
    """Names of the array element types that hold such values."""
    return _ARRAY_TYPES.get(dtype.name, frozenset())


_ARRAY_TYPES = {
    name: frozenset(words.split())
    for name, words in {
        "f16": "float16 half", "bf16": "bfloat16", "f32": "float32 float", "tf32": "float32 float",
        "f64": "float64 double", "u8": "uint8", "s8": "int8", "b8": "uint8 int8 bool bool_", "u16": "uint16",
        "s16": "int16 short",
        "b16": "uint16 int16 float16 bfloat16", "u32": "uint32", "s32": "int32 int",
        "b32": "uint32 int32 float32", "u64": "uint64", "s64": "int64 long",
        "b64": "uint64 int64 float64", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
        "ue8m0": "float8_e8m0fnu uint8", "e2m1": "float4_e2m1fn uint8",
    }.items()
}  # fmt: skip


def _checked_strides(strides: Any, rank: int) -> tuple[int | str, ...]:
    given: tuple[Any, ...] = tuple(strides) if isinstance(strides, (tuple, list)) else (strides,)
    if len(given) != rank or any(not isinstance(s, (int, str)) or isinstance(s, bool) for s in given):
        raise ValueError(f"strides are an int or a name for each of {counted(rank, 'dimension')}, not {strides!r}")
    if any(isinstance(s, int) and s < 0 for s in given):
        raise ValueError(f"a stride of a Tile is 0 or more, or a name, not {strides!r}")
    return given


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """In elements."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def unify_envs(envs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The bindings of all tensors together. ValueError where two disagree."""
    merged: dict[str, int] = {}
    for env in envs:
        for name, size in env.items():
            if merged.setdefault(name, size) != size:
                raise ValueError(f"dimension {name} is {merged[name]} in one tensor and {size} in another")
    return merged
