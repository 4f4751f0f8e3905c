"""The report of a traced kernel, which knows its launch: threads, dynamic shared memory, the boxes of its tensor maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.report import FunctionReport, analyse
from ...diagnostics import PTXError
from ...dialects.ptx.structure import ModuleOp
from ...frontend.kernel.kernel import Launch
from ...notebook import framed
from ...parser.module import parse_text
from ...prediction import Prediction, card_of, predict
from ...prediction.given import several
from ...simulator.launch.prepared import dimensions_of
from ..commands.analyse import as_text, with_line_info
from ..ptxas import PtxasResult
from .page import page

if TYPE_CHECKING:
    from ...frontend.core.tiles import Tile
    from ...frontend.kernel.kernel import Kernel, Traced


@dataclass(frozen=True, slots=True)
class KernelReport:
    """What the analyses say about a kernel at its own launch. `print` it, or `save` it as an HTML page."""

    analysis: FunctionReport
    launch: Launch
    name: str
    text: str
    module: ModuleOp
    assembled: PtxasResult | None
    predictions: tuple[Prediction, ...] = ()

    def __str__(self) -> str:
        return "\n\n".join([as_text(self.analysis, self.name), *map(str, self.predictions)])

    @property
    def html(self) -> str:
        """A self-contained page."""
        return page(self.text, self.name, self.module, [self.analysis], self.assembled, self.predictions)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return framed(self.html)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8", errors="replace")


def kernel_report(
    kernel: Kernel, args: Sequence[Any], card: str | Sequence[str], kw: Mapping[str, Any]
) -> KernelReport:
    """See `Kernel.report`."""
    cards = several("card", card, str, 'the name of a card, such as "H100 SXM"')
    for name in cards:
        card_of(name)
    kw = {**kw, **_bound(kernel, args, kw)}
    traced, launch, text = kernel.trace(**kw), kernel.resolve_launch(**kw), kernel.ptx(**kw)
    name = f"{kernel.name}.ptx"
    module = next(op for op in parse_text(text, name).body.block.ops if isinstance(op, ModuleOp))
    assembled = with_line_info(text, kernel.arch)
    if assembled is not None and not assembled.ok:
        assembled = None
    registers = {} if assembled is None else {n: usage.registers for n, usage in assembled.usage.items()}
    dims = {n: v for n, v in kw.items() if n in kernel.symbolic_dims}
    (analysis,) = analyse(
        module, kernel=kernel.name, shape=launch.block, dynamic_shared=launch.smem, registers=registers,
        boxes=box_sizes(traced, dims),
    )  # fmt: skip
    predictions = tuple(_predicted(kernel, args, c, kw, dims) for c in cards)
    return KernelReport(analysis, launch, name, text, module, assembled, predictions)


def _bound(kernel: Kernel, args: Sequence[Any], kw: Mapping[str, Any]) -> dict[str, int]:
    """The dimensions as the arrays have them. PTXError where a keyword says otherwise."""
    bound = dimensions_of(kernel, args)
    for name, size in bound.items():
        if kw.get(name) is not None and kw[name] != size:
            raise PTXError(f"{kernel.name}: {name}={kw[name]!r}, and the arrays have {name}={size}: leave it out")
    return bound


def _predicted(
    kernel: Kernel, args: Sequence[Any], card: str, kw: Mapping[str, Any], dims: Mapping[str, int]
) -> Prediction:
    """Without arrays: of zeros of the sizes that the tiles have."""
    template = {n: v for n, v in kw.items() if n not in dims}
    missing = [n for n in kernel.symbolic_dims if n not in dims]
    if missing and not args:
        raise PTXError(f"{kernel.name}: a prediction needs arrays, or the sizes {', '.join(missing)} by name")
    arrays = args or [_zeros(tile, dims) for tile in kernel.specs]
    return predict(kernel.specialize(**template) if template else kernel, *arrays, card=card)


def _zeros(tile: Tile, dims: Mapping[str, int]) -> Any:
    """An array of the tile's shape and strides. Elements of the same size; small floats as their bits."""
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(str(tile.dtype).lstrip("."))
    shape = tile.resolve_shape(dims)
    strides = tile.resolve_strides(shape, dims)
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else -1
    flat = np.zeros(last + 1, kind or f"u{max(1, tile.dtype.bits // 8)}")
    return np.lib.stride_tricks.as_strided(flat, shape, [s * flat.itemsize for s in strides])


def box_sizes(traced: Traced, dims: Mapping[str, int]) -> dict[str, int]:
    """Bytes of the box of each tensor map: that of its tile, or the whole tensor."""
    found: dict[str, int] = {}
    for parameter in traced.parameters:
        if parameter.kind == "tma" and (tile := parameter.tile) is not None:
            box = tile.tma_box or tile.resolve_shape(dims)
            found[parameter.name] = prod(box) * tile.dtype.bits // 8
    return found
