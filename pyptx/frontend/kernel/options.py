"""The options of `@kernel`, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dialects.ptx.target import FIRST_PTX, Version, parse_version, unknown_target
from ..core.tiles import Dim, Tile

__all__ = ["check_runtime_dims", "pair_option", "target_option", "tile_option", "tuple_option", "version_option"]


def version_option(version: Any) -> Version | None:
    if version is None or (isinstance(version, tuple) and len(version) == 2):
        return version
    if isinstance(version, str):
        return parse_version(version)
    raise TypeError(f'version is a PTX version such as "8.7" or (8, 7), not {version!r}')


def tile_option(what: str, specs: Any) -> tuple[Tile, ...]:
    if not isinstance(specs, (Tile, list, tuple)) and not hasattr(specs, "__iter__"):
        raise TypeError(f"{what} is a list of Tiles, such as [Tile(32, f32)], not {specs!r}")
    found: tuple[Any, ...] = (specs,) if isinstance(specs, Tile) else tuple(specs)
    for tile in found:
        if not isinstance(tile, Tile):
            raise TypeError(f'{what} are Tiles, such as Tile("M", "N", f32), not {tile!r}')
    return found


def pair_option(what: str, given: Any, example: str) -> list[tuple[Any, Any]]:
    """A sequence of pairs. TypeError for anything else in it."""
    found: list[Any] = list(given or ())
    for pair in found:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{what} is a list of pairs such as {example}, and has {pair!r}")
    return found


def tuple_option(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else () if values is None else (values,)


def target_option(arch: str | Sequence[str]) -> tuple[str, ...]:
    """The targets that `arch=` names. ValueError for none, an unknown one, one named twice, or "auto" among others."""
    archs: tuple[Any, ...] = (arch,) if not isinstance(arch, (list, tuple)) else tuple(arch)
    for name in archs:
        if not isinstance(name, str):
            near = next((f'"{a}"' for a in reversed(FIRST_PTX) if a.rstrip("af") == f"sm_{name}"), '"sm_90a"')
            raise TypeError(f"arch is the name of a target such as {near}, not {name!r}")
    if not archs or len(set(archs)) != len(archs):
        raise ValueError(f"arch={arch!r}: name a target, or several different ones")
    for name in archs:
        if name == "auto" and len(archs) == 1:
            continue
        if (wrong := unknown_target(name)) is not None:
            raise ValueError(wrong)
    return archs


def check_runtime_dims(kernel: str, tensors: Sequence[str], specs: Sequence[Tile], parameters: Sequence[str]) -> None:
    """TypeError for a dimension that is a constant in one tile and a parameter in another, or has the name of another parameter."""
    for name in dict.fromkeys(d for tile in specs for d in tile.runtime_dims):
        for tensor, tile in zip(tensors, specs, strict=False):
            if any(d == name and not (isinstance(d, Dim) and d.runtime) for d in tile.named):
                other, first = next((t, u) for t, u in zip(tensors, specs, strict=False) if name in u.runtime_dims)
                raise TypeError(
                    f"kernel {kernel}: {name} is a parameter in one tile ({other}: {first!r}) and a constant in another ({tensor}: {tile!r}): "
                    f'write dim("{name}", runtime=True) in each'
                )
        if name in (*tensors, *parameters):
            raise TypeError(f"kernel {kernel} has a parameter {name} already: name the dimension otherwise")
