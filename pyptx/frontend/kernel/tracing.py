"""One trace of a kernel's function: its parameters set up, the function run, the module built, what is wrong noted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from xdsl.dialects.builtin import ModuleOp as BuiltinModule

from ...diagnostics import Diagnostic, PTXError
from ...dialects.ptx.target import Version
from ...types import s32
from ..core.instructions import AddressOperand, emit
from ..core.registers import Reg, temporary
from ..core.tiles import Tile
from ..core.trace import Trace, trace_scope
from ..lint.argument_errors import at_the_kernels_line
from ..lint.barriers import uninitialised_barriers
from ..lint.rebinding import check_branches
from ..lint.tensor_copies import tensor_copy_problems, tensor_map_problems
from ..lint.uncalled import note_uncalled
from ..memory.parameters import EntryParameter, TensorSpec, entry_parameters
from ..memory.shared import STATIC_LIMIT, author_names
from .build import build_module
from .launch_shape import extents, warn_once
from .limits import launch_problem

__all__ = ["Traceable", "Traced", "run"]


@dataclass(frozen=True, slots=True)
class Traced:
    """One specialisation of a kernel: its module and what a launch needs to know."""

    module: BuiltinModule
    parameters: tuple[EntryParameter, ...]
    dynamic_smem: int
    """Bytes of dynamic shared memory for a launch."""
    target: str
    version: Version
    places: tuple[int, ...] = ()
    shared: tuple[tuple[str, str, int, int, int], ...] = ()
    """Allocations by the author's names: with the variable, the offset in it, the size, the bytes of an element."""
    findings: tuple[Diagnostic, ...] = ()
    """What is wrong with it though it can be printed; `Kernel.check` says so."""
    on_launch: tuple[Diagnostic, ...] = ()
    """Those of them that the first launch warns of: tracing has not, and no launch refuses them."""
    text: list[str] = None  # pyright: ignore[reportAssignmentType]  # the PTX, once printed
    launched: list[bool] = None  # pyright: ignore[reportAssignmentType]  # not empty once a launch was asked for


class Traceable(Protocol):
    """What tracing needs to know of a kernel."""

    smem: int
    extern_smem: str | None
    raw_params: tuple[tuple[str, str], ...]
    reqntid: tuple[int, ...] | None
    raw_directives: tuple[tuple[str, tuple[int, ...]], ...] | None
    grid: Any
    block: Any
    cluster: Any
    debug: bool
    tensor_names: list[str]
    __wrapped__: Callable[..., Any]

    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @property
    def version(self) -> Version | None: ...
    @property
    def specs(self) -> tuple[Tile, ...]: ...
    @property
    def symbolic_dims(self) -> tuple[str, ...]: ...
    @property
    def runtime_dims(self) -> tuple[str, ...]: ...


def run(kernel: Traceable, template: dict[str, Any], env: dict[str, int], not_given: Sequence[str]) -> Traced:
    """The kernel traced with these template parameters and dimensions. PTXError at the author's line."""
    code = getattr(kernel.__wrapped__, "__code__", None)
    place = (code.co_filename, code.co_firstlineno) if code is not None else ("<kernel>", 1)
    trace = Trace(kernel.name, kernel.arch, kernel.version, place)
    problem = _launch_problem(kernel)
    if problem is not None:
        raise trace.error(problem, at=0)
    tensors = _tensors(kernel, env)
    trace.template = dict(template)
    if not_given:
        needed = ", ".join(f"{n}=" for n in not_given)
        trace.warn(f"{kernel.name} needs {needed}: without a default it is None here", "give it, or a default", 0)
    trace.tiles = {t.name: tile for t, tile in zip(tensors, kernel.specs, strict=False)}
    trace.parameters = {name: words for words, name in kernel.raw_params}
    for parameter in entry_parameters(tensors, kernel.specs, kernel.raw_params, kernel.runtime_dims, None):
        trace.symbols.add(parameter.name)
        trace.spaces[parameter.name] = "entry"  # as symbol_uses calls a parameter of the kernel
    trace.block = _said_block(kernel.block)
    trace.shared_is_dynamic = kernel.smem > STATIC_LIMIT and not kernel.extern_smem
    if kernel.extern_smem:
        trace.symbols.add(kernel.extern_smem)
        trace.externs.append(kernel.extern_smem)
        trace.spaces[kernel.extern_smem] = "shared"
    with trace_scope(trace):
        try:
            kernel.__wrapped__(*tensors, **{**template, **_runtime_sizes(trace, kernel, template)})
        except (PTXError, TypeError, AttributeError, ValueError, IndexError) as error:
            missing = [d for d in kernel.symbolic_dims if d not in env and d not in kernel.runtime_dims]
            if missing and isinstance(error, (PTXError, TypeError, AttributeError)):
                raise _without_dimensions(trace, kernel.name, missing, error) from error
            if not_given:
                error.add_note(f"note: {', '.join(not_given)} of {kernel.name} was not given, and is None")
            located = None if isinstance(error, PTXError) else at_the_kernels_line(trace, error)
            if located is None:
                raise
            raise located from error
    check_branches(trace)
    note_uncalled(trace, kernel.__wrapped__)
    for found in trace.warnings.values():
        warn_once(found, kernel.__wrapped__)
    copies = tensor_copy_problems(trace, env)
    maps = tensor_map_problems(trace, tensors, copies)
    on_launch = (*uninitialised_barriers(trace), *copies)
    parameters = entry_parameters(tensors, kernel.specs, kernel.raw_params, kernel.runtime_dims, trace)
    built = build_module(
        trace,
        kernel.name,
        parameters,
        extern=kernel.extern_smem,
        directives=_directives(kernel),
        force_dynamic=trace.shared_is_dynamic,
        debug=kernel.debug,
    )
    smem = kernel.smem if built.has_extern else 0
    return Traced(
        built.module, tuple(parameters), max(smem, built.dynamic_bytes), kernel.arch, built.version,
        findings=(*trace.warnings.values(), *on_launch, *maps, *built.findings), on_launch=on_launch, text=[], launched=[],
        shared=author_names(trace.allocations.values(), bool(built.dynamic_bytes)),
    )  # fmt: skip


def _runtime_sizes(trace: Trace, kernel: Traceable, template: Mapping[str, Any]) -> dict[str, Reg]:
    """A register with each size that is a parameter, of those that the function takes."""
    found: dict[str, Reg] = {}
    for name in kernel.runtime_dims:
        if name in template:
            found[name] = temporary(trace, s32)
            emit("ld.param.s32", found[name], AddressOperand(name))
    return found


def _said_block(block: Any) -> tuple[int, int, int] | None:
    """The block that @kernel says in numbers; the default, one thread, may be another in `simulate(block=)`."""
    if callable(block) or block in (1, (1, 1, 1)):
        return None
    return extents("block", block, "")


def _launch_problem(kernel: Traceable) -> str | None:
    """What is wrong with the launch shape, as far as it is not a function of dimensions."""
    for what, value in (("grid", kernel.grid), ("block", kernel.block), ("cluster", kernel.cluster)):
        if value is not None and not callable(value):
            try:
                extents(what, value, f" of kernel {kernel.name}")
            except ValueError as error:
                return str(error)
    return launch_problem(kernel.arch, kernel.block, kernel.cluster, kernel.smem)


def _tensors(kernel: Traceable, env: Mapping[str, int]) -> list[TensorSpec]:
    tensors: list[TensorSpec] = []
    for i, name in enumerate(kernel.tensor_names):
        tile = kernel.specs[i] if i < len(kernel.specs) else None
        if tile is None:
            tensors.append(TensorSpec(name))
            continue
        shape = tile.resolve_shape(env) if all(d in env for d in tile.symbolic_dims) else None
        tensors.append(TensorSpec(name, shape, tile.dtype, tile.layout))
    return tensors


def _directives(kernel: Traceable) -> list[tuple[str, tuple[Any, ...]]]:
    if kernel.raw_directives is not None:
        return [(name.lstrip("."), values) for name, values in kernel.raw_directives]
    return [("reqntid", kernel.reqntid)] if kernel.reqntid is not None else []


def _without_dimensions(trace: Trace, name: str, missing: Sequence[str], error: BaseException) -> PTXError:
    """What went wrong in a trace where dimensions have no value: say so, at the line where it showed."""
    given = ", ".join(f"{d}=..." for d in missing)
    what = f"dimension{'s' if len(missing) > 1 else ''} {', '.join(missing)} of {name} {'have' if len(missing) > 1 else 'has'} no value"
    hint = f"give {given} to .ptx(), .explain() and the like; calls take them from the arrays"
    if isinstance(error, PTXError):
        first, *rest = error.diagnostics
        return PTXError([replace(first, message=f"{first.message} ({what})", hint=hint), *rest])
    at = error.__traceback__
    place = 0
    while at is not None:
        code = at.tb_frame.f_code
        if code.co_filename == trace.filename:
            place = trace.add_place(code.co_filename, at.tb_lineno, 1)
        at = at.tb_next
    return trace.error(f"{error} ({what})", hint, at=place)
