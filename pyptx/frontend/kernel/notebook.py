"""How a notebook shows a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..core.tiles import Tile

__all__ = ["markdown"]


class Shown(Protocol):
    """What is shown of a kernel."""

    in_specs: tuple[Tile, ...] | None
    raw_params: tuple[tuple[str, str], ...]
    tensor_names: list[str]

    @property
    def name(self) -> str: ...
    @property
    def archs(self) -> Sequence[str]: ...
    @property
    def specs(self) -> tuple[Tile, ...]: ...
    @property
    def template_params(self) -> Mapping[str, Any]: ...


def markdown(kernel: Shown) -> str:
    """What it takes, gives and is for, without tracing it."""
    names = [
        f"{n}: {t.dims} {t.dtype}".replace("'", "") for n, t in zip(kernel.tensor_names, kernel.specs, strict=False)
    ]
    count = len(kernel.in_specs or ())
    rows = [
        ("inputs", names[:count]),
        ("outputs", names[count:]),
        ("template parameters", [f"{n}={v!r}" for n, v in kernel.template_params.items()]),
        ("raw parameters", [f"{n}: {words}" for words, n in kernel.raw_params]),
        ("arch", list(kernel.archs)),
    ]
    listed = "\n".join(f"- {what}: {', '.join(f'`{v}`' for v in values)}" for what, values in rows if values)
    return f"**kernel `{kernel.name}`**\n\n{listed}"
