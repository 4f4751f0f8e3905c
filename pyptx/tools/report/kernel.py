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
from ...dialects.ptx.structure import ModuleOp
from ...frontend.kernel.kernel import Launch
from ...notebook import framed
from ...parser.module import parse_text
from ...prediction import Prediction, predict
from ..commands.analyse import as_text, with_line_info
from ..ptxas import PtxasResult
from .page import page

if TYPE_CHECKING:
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
    cards = (card,) if isinstance(card, str) else tuple(card)
    predictions = tuple(_predicted(kernel, args, c, kw, dims) for c in cards if c)
    return KernelReport(analysis, launch, name, text, module, assembled, predictions)


def _predicted(
    kernel: Kernel, args: Sequence[Any], card: str, kw: Mapping[str, Any], dims: Mapping[str, int]
) -> Prediction:
    """Without arrays: of zeros of the sizes that the tiles have."""
    template = {n: v for n, v in kw.items() if n not in dims}
    arrays = args or [_zeros(tile.resolve_shape(dims), tile.dtype) for tile in kernel.specs]
    return predict(kernel.specialize(**template) if template else kernel, *arrays, card=card)


def _zeros(shape: Sequence[int], dtype: Any) -> Any:
    """Elements of the same size; small floats as their bits."""
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(str(dtype).lstrip("."))
    return np.zeros(tuple(shape), kind or f"u{max(1, dtype.bits // 8)}")


def box_sizes(traced: Traced, dims: Mapping[str, int]) -> dict[str, int]:
    """Bytes of the box of each tensor map: that of its tile, or the whole tensor."""
    found: dict[str, int] = {}
    for parameter in traced.parameters:
        if parameter.kind == "tma" and (tile := parameter.tile) is not None:
            box = tile.tma_box or tile.resolve_shape(dims)
            found[parameter.name] = prod(box) * tile.dtype.bits // 8
    return found
