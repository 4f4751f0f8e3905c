"""A call on the simulator: CPU tensors and NumPy arrays in, new ones out."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..diagnostics import SimulationError, SimulationWarning
from ..simulator.launch.launch import load_module, simulate_entry
from ..simulator.launch.options import checked_options
from ..simulator.tensor.tile_maps import with_tensor_maps
from .arguments import cpu_arguments, kernel_name, parameter_names
from .driver import LaunchShape
from .scalars import FORMATS, pack_scalar, plain_number
from .shape import launch_shape, without_ctas

if TYPE_CHECKING:
    from ..frontend.kernel.kernel import Kernel


def run_on_cpu(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any], *, into: bool = False) -> Any:
    """Run a kernel on the simulator; with `into`, the outputs are at the end of `args` and None is returned."""
    outputs, sizes = cpu_arguments(kernel, args, kwargs, into=into)
    arrays, inputs = [*args, *outputs], len(kernel.in_specs or ())
    names = parameter_names(kernel, len(arrays))
    shape = launch_shape(kernel, sizes, kwargs)
    named = [(n, a.shape) for n, a in zip(names[inputs:], arrays[inputs:], strict=False)]
    if not without_ctas(kernel_name(kernel), shape, named):
        fresh = range(inputs, len(arrays)) if outputs else ()
        _simulate(kernel, arrays, shape, {**sizes, **kwargs}, fresh)
    if into:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _simulate(
    kernel: Kernel, arrays: Sequence[Any], shape: LaunchShape, accepted: Mapping[str, Any], fresh: Collection[int]
) -> None:
    loaded = load_module(kernel.module(**accepted))
    entry = next(iter(loaded.entries))
    parameters = loaded.program(entry).parameters
    values = [*arrays, *_scalars(kernel, parameters[len(arrays) :], accepted)]
    if len(values) < len(parameters) or any(tile.strides is not None for tile in kernel.specs):
        values = with_tensor_maps(kernel.trace(**accepted).parameters, values)
    try:
        report = simulate_entry(
            loaded,
            entry,
            values,
            checked_options(shape_options(shape)),
            uninitialised=fresh,
            named=kernel.trace(**accepted).shared,
        )
    except SimulationError as error:
        if error.report is not None:
            sys.stdout.write(error.report.output)
        raise
    tell(report)


def _scalars(kernel: Kernel, parameters: Sequence[Any], accepted: Mapping[str, Any]) -> list[Any]:
    """Values of the entry's parameters after the arrays: raw parameters by name."""
    values: list[Any] = []
    defaults = dict(getattr(kernel, "template_params", None) or {})
    for p in parameters:
        if p.name.endswith("_tma_desc"):
            continue  # made from the tiles
        value = accepted.get(p.name, defaults.get(p.name))
        if value is None:
            raise TypeError(f"{kernel_name(kernel)} needs its parameter {p.name}: pass {p.name}=...")
        if p.type in FORMATS and not p.array:
            value = plain_number(value)
            pack_scalar(kernel_name(kernel), p.name, p.type, value)  # what the GPU would be refused is refused here
        values.append(value)
    return values


def shape_options(shape: Any) -> dict[str, Any]:
    """The options of `simulate` for the shape of a launch. A cluster of one CTA is as good as none."""
    cluster = None if shape.cluster == (1, 1, 1) else shape.cluster
    return {
        "grid": shape.grid, "block": shape.block, "cluster": cluster, "smem": shape.smem, "cooperative": shape.cooperative,
    }  # fmt: skip


def tell(report: Any) -> None:
    """Print what a simulated kernel printed, and warn of the rules that it broke at the line that called it."""
    if report.output:
        sys.stdout.write(report.output)
    for finding in report.distinct:
        warnings.warn(finding.render(), SimulationWarning, stacklevel=_callers_level())


def _callers_level() -> int:
    """The `stacklevel` of the line that called the kernel: past this package, and past torch and Triton where they are in
    between.
    """
    level, frame = 0, sys._getframe(1)
    others = (getattr(sys.modules.get(name), "__file__", None) for name in ("torch", "triton"))
    folders = [_PACKAGE, *(os.path.dirname(file) + os.sep for file in others if file)]
    while frame.f_back is not None and frame.f_code.co_filename.startswith(tuple(folders)):
        level, frame = level + 1, frame.f_back
    return level + 1


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
