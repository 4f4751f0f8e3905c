"""What a launch is of: the module and entry of a kernel object, its arguments, its options."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from ...diagnostics import SimulationError, counted
from ...dialects.ptx.structure import EntryOp
from ...dialects.ptx.types import SCALAR_TYPES
from ..tensor.strided import strides_of
from ..tensor.tile_maps import with_tensor_maps
from .launch import LoadedModule, load_module
from .loaded import LoadedKernel
from .options import Options, checked_options

__all__ = ["Prepared", "dimensions_of", "prepare"]


@dataclass(frozen=True, slots=True)
class Prepared:
    loaded: LoadedModule
    name: str
    args: Sequence[object]
    options: Options
    named: Sequence[tuple[str, str, int, int, int]] = ()
    """Pieces of shared memory by the author's names (`Traced.shared`)."""


def prepare(kernel: Any, args: tuple[object, ...], given: Mapping[str, Any], what: str) -> Prepared:
    """A launch of a kernel, an entry or a module with one entry. `given`: options by name, those of a traced kernel itself come
    after them; `what`: the function that asks, for messages. SimulationError for wrong arguments or options.
    """
    options = checked_options(given)
    if not hasattr(kernel, "resolve_launch"):
        loaded, name = (kernel.loaded, kernel.name) if isinstance(kernel, LoadedKernel) else _find(kernel, what)
        return Prepared(loaded, name, args, options)
    # a traced kernel knows its launch and its tensor maps; what is given here goes before it
    dims = dimensions_of(kernel, args)
    _check_given(kernel, args, dims)
    traced = kernel.trace(**dims)
    loaded, name = _find(traced.module, what)
    own = {**given, **_own_launch(kernel, dims, options), "smem": options.smem or traced.dynamic_smem}
    return Prepared(
        loaded, name, with_tensor_maps(traced.parameters, args, dims), checked_options(own), traced.shared
    )  # fmt: skip


def _own_launch(kernel: Any, dims: dict[str, int], options: Options) -> dict[str, Any]:
    """The launch options that a traced kernel says itself, where they are not given."""
    given = {"grid": options.grid, "block": options.block, "cluster": options.cluster}
    if options.grid is None and kernel.grid is None and options.block is not None:
        given["grid"] = (1, 1, 1)
    resolve = given["grid"] is None or any(size is None and callable(getattr(kernel, n)) for n, size in given.items())
    known = kernel.resolve_launch(dims) if resolve else kernel
    sizes = {name: getattr(known, name) if size is None else size for name, size in given.items()}
    if sizes["cluster"] in (1, (1, 1, 1)):
        sizes["cluster"] = None
    return {**sizes, "cooperative": kernel.cooperative if options.cooperative is None else options.cooperative}


def dimensions_of(kernel: Any, args: Sequence[object]) -> dict[str, int]:
    """The named dimensions of a traced kernel's tensors, as the arrays have them."""
    sizes: dict[str, int] = {}
    for i, (tile, array) in enumerate(zip(kernel.specs, args, strict=False)):
        shape = getattr(array, "shape", None)
        if shape is None:
            if array is None or isinstance(array, (str, bytes, bool, list, tuple, Mapping)):
                raise SimulationError(
                    f"argument {i} of {kernel.name} must be an array for {tile!r}, not {type(array).__name__}"
                )
            continue
        _check_element(kernel, i, tile, array)
        try:
            bound = tile.extract_env(shape)
        except ValueError as error:
            raise SimulationError(f"argument {i} of {kernel.name}: {error}") from None
        if tile.strides is not None:
            problem = tile.bind_strides(shape, strides_of(array), sizes)
            if problem is not None:
                raise SimulationError(f"argument {i} of {kernel.name} is {tile!r}, {problem}")
        for name, size in bound.items():
            if sizes.setdefault(name, size) != size:
                raise SimulationError(f"argument {i} of {kernel.name}: {name} is {size}, and {sizes[name]} before")
    return sizes


def _check_given(kernel: Any, args: Sequence[object], dims: Mapping[str, int]) -> None:
    """SimulationError where tensors or raw parameters are missing or too many, or a size at run time has no array that says it."""
    if not kernel.specs:
        return
    names = [*kernel.tensor_names, *(name for _, name in kernel.raw_params)]
    if len(args) != len(names):
        lacking = [f"`{name}`" for name in names[len(args) :]]
        missing = f": {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing" if lacking else ""
        raise SimulationError(
            f"{kernel.name} takes {counted(len(names), 'argument')} ({', '.join(names)}), not {len(args)}{missing}"
        )
    if unknown := [name for name in kernel.runtime_dims if name not in dims]:
        raise SimulationError(
            f"{kernel.name} takes the sizes {', '.join(unknown)} from its arrays: pass arrays, not addresses"
        )


def _check_element(kernel: Any, i: int, tile: Any, array: Any) -> None:
    """SimulationError where an array has elements of another size than its tile, or whole numbers for floats."""
    wanted = SCALAR_TYPES.get(str(getattr(tile.dtype, "name", tile.dtype)).lstrip("."))
    if wanted is None or wanted.bits % 8:
        return
    given = str(array.dtype).removeprefix("torch.")
    size = array.element_size() if hasattr(array, "element_size") else array.dtype.itemsize
    whole = given.startswith(("int", "uint", "bool"))
    # raw bits of the small floats come as whole numbers
    if 8 * size != wanted.bits or (wanted.kind == "float" and whole and wanted.bits >= 32):
        raise SimulationError(
            f"argument {i} of {kernel.name} has elements of .{wanted.name}, and the array's are {given}: convert it"
        )


def _shown(source: str | os.PathLike[str]) -> str:
    """A path, or a word for a text."""
    return repr(source) if isinstance(source, os.PathLike) or (len(source) < 100 and "\n" not in source) else "text"


def _find(kernel: Any, what: str) -> tuple[LoadedModule, str]:
    if isinstance(kernel, EntryOp):
        parent = kernel.parent_op()
        assert parent is not None
        return load_module(parent), kernel.symbol
    module = kernel if isinstance(kernel, Operation) else getattr(kernel, "module", None)
    if callable(module):
        module = module()
    if isinstance(kernel, (str, os.PathLike)):
        raise SimulationError(
            f"{what} takes a kernel, not PTX or a path: pyptx.load({_shown(kernel)}) has the kernels by name"
        )
    if not isinstance(module, Operation):
        raise SimulationError(f"{what} takes a kernel, an entry or a module, not {type(kernel).__name__}")
    loaded = load_module(module)
    entries = list(loaded.entries)
    if len(entries) != 1:
        raise SimulationError(f"the module has {len(entries)} entries ({', '.join(entries)}): load() it and choose one")
    return loaded, entries[0]
