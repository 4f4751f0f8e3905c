"""Predictions that were made before, from the disk cache: by the machine code, the launch, the contents of its arguments and the card."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..disk_cache import Entry, usable_cache
from .emulation import Geometry
from .result import LineStalls, LoopStalls, Prediction

__all__ = ["kept_or_made"]

MOST_BYTES = 1 << 28
"""Arguments of more than this are not hashed: that takes as long as the prediction."""


def kept_or_made(parts: Iterable[object], geometry: Geometry, make: Callable[[], Prediction]) -> Prediction:
    """What the cache has for these parts and the launch, else what `make` makes, which is kept."""
    disk = usable_cache("predictions")
    if disk is None or sum(b.size for b in geometry.buffers) > MOST_BYTES:
        return make()
    digest = hashlib.blake2b(_sources(), digest_size=32)
    for part in (*parts, geometry.grid, geometry.block, geometry.cluster, geometry.shared, geometry.parameters):
        digest.update(part if isinstance(part, bytes) else repr(part).encode("utf-8", "surrogateescape"))
        digest.update(b"\0")
    for buffer in geometry.buffers:
        digest.update(f"{buffer.address} {buffer.size} ".encode())
        digest.update(b"" if buffer.array is None else buffer.array.data)
    key = digest.hexdigest()
    if (found := disk.get(key)) is not None:
        return _read(dict(found.facts["prediction"]))
    made = make()
    disk.put(key, Entry(b"", {"prediction": _plain(made)}))
    return made


@cache
def _sources() -> bytes:
    """A digest of what predicts."""
    digest = hashlib.sha256()
    for folder in (Path(__file__).parent, Path(__file__).parent.parent / "sass"):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.digest()


def _plain(made: Prediction) -> dict[str, Any]:
    data = replace(made, question=None).as_json()
    for computed in ("predicted", "time_us", "range_us"):
        del data[computed]
    return data


def _read(data: dict[str, Any]) -> Prediction:
    for name in ("lines", "sources"):
        data[name] = [LineStalls(**line) for line in data[name]]
    data["loops"] = [LoopStalls(**loop) for loop in data["loops"]]
    return Prediction(**data)
