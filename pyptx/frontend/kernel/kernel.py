"""`@kernel`: a Python function that is traced into a PTX module (the public module `pyptx.kernel`)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast, overload

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule

from ...diagnostics import Diagnostic, PTXError, TraceWarning, suggest
from ...dialects.ptx.memo import trim
from ...dialects.ptx.target import FIRST_PTX, Version, near_targets, parse_version
from ...ssa.fastir import gc_paused
from ..core.trace import Trace, trace_scope
from ..lint.argument_errors import at_the_kernels_line
from ..lint.barriers import uninitialised_barriers
from ..lint.rebinding import check_branches
from ..lint.tensor_copies import tensor_copy_problems, tensor_map_problems
from ..lint.uncalled import note_uncalled
from ..memory.parameters import EntryParameter, TensorSpec, TmaDescriptorHandle, entry_parameters
from ..memory.shared import STATIC_LIMIT
from ..memory.tiles import Tile, unify_envs
from .build import build_module
from .limits import launch_problem

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from ...analysis.pressure import Pressure
    from ...runtime.ptxas import PtxasResult, ResourceUsage
    from .explain import Explanation

__all__ = ["Kernel", "Launch", "TensorSpec", "TmaDescriptorHandle", "Traced", "fat_kernel", "kernel"]


class Launch(NamedTuple):
    """The shape of a launch: CTAs per grid, threads per CTA, CTAs per cluster, bytes of dynamic shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    smem: int


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
    findings: tuple[Diagnostic, ...] = ()
    """What is wrong with it though it can be printed; `Kernel.check` says so."""
    untold: tuple[Diagnostic, ...] = ()
    """Those of them that the first launch warns of: tracing has not, and no launch refuses them."""
    text: list[str] = None  # pyright: ignore[reportAssignmentType]  # the PTX, once printed
    launched: list[bool] = None  # pyright: ignore[reportAssignmentType]  # not empty once a launch was asked for


_KEPT = 256
"""Traces that a kernel keeps, of the latest dimensions and template parameters."""


class Kernel:
    """A traced kernel. `.ptx(**dims)` is its PTX, `.module(**dims)` its IR, `.check()` what is wrong with it; calling
    it launches it.

    Made by `@kernel`. Positional parameters of the function are tensors, inputs then outputs, as in `in_specs +
    out_specs`; keyword-only parameters are template parameters (one without a default is None, with a TraceWarning, where
    it is not given). The keyword arguments of `.ptx()` and the like are template parameters, symbolic dimensions (ints)
    and names of raw parameters (ignored there).
    """

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(
        self, fn: Callable[..., Any], arch: str | Sequence[str] = "sm_90a",
        version: str | tuple[int, int] | None = None,
        in_specs: Sequence[Tile] | None = None, out_specs: Sequence[Tile] | None = None,
        grid: Any = None, block: Any = (1, 1, 1), cluster: Any = (1, 1, 1), smem: int = 0,
        raw_params: Sequence[tuple[str, str]] | None = None, extern_smem: bool | str = False,
        reqntid: Sequence[int] | None = None, raw_directives: Sequence[tuple[str, Sequence[int]]] | None = None,
        *, cooperative: bool = False, programmatic: bool = False,
        debug: bool = False,
    ):  # fmt: skip
        if not (inspect.isfunction(fn) or inspect.ismethod(fn)):
            cure = "options are keyword arguments, @kernel(arch=...)"
            if callable(fn):
                cure = "write a function that traces the kernel"
            if isinstance(fn, functools.partial):
                cure = "write a function with template parameters, keyword-only ones with defaults, for what it binds"
            raise TypeError(f"@kernel decorates a function, not {fn!r}: {cure}")
        if inspect.isgeneratorfunction(fn) or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError(
                f"@kernel decorates a plain function, and {fn.__name__} has yield or async: nothing would run it"
            )
        self._fn = fn
        self._archs = _targets(arch)
        self._arch = self._archs[0]
        self._variants: dict[str, Kernel] = {}
        self._version = _version(version)
        self.in_specs = None if in_specs is None else _tiles("in_specs", in_specs)
        self.out_specs = None if out_specs is None else _tiles("out_specs", out_specs)
        self.grid, self.block, self.cluster, self.smem = grid, block, cluster, smem
        if not isinstance(smem, int) or smem < 0:
            raise TypeError(f"smem is a number of bytes, not {smem!r}")
        self.raw_params = tuple((str(t), str(n)) for t, n in _pairs("raw_params", raw_params, '("u32", "n")'))
        self.extern_smem = "global_smem" if extern_smem is True else (extern_smem or None)
        self.reqntid = None if reqntid is None else _values(reqntid)
        self.raw_directives = (
            None
            if raw_directives is None
            else tuple((n, _values(v)) for n, v in _pairs("raw_directives", raw_directives, '("maxnreg", (128,))'))
        )
        self.debug = debug
        self._cache: dict[Any, Traced] = {}
        self._texts: dict[Any, str] = {}
        self._call: Callable[..., Any] | None = None
        self._forget_launches()
        self.cooperative, self.programmatic = cooperative, programmatic
        parameters = list(inspect.signature(fn).parameters.values())
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(
                    f"kernel {fn.__name__} may not take {parameter}: tensors are positional, template "
                    "parameters keyword-only"
                )
        self._positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        keywords = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        self._template = {p.name: None if p.default is p.empty else p.default for p in keywords}
        self._without_default = [p.name for p in keywords if p.default is p.empty]
        if self.specs and len(self.specs) != len(self._positional):
            raise TypeError(
                f"kernel {fn.__name__} has {len(self._positional)} tensor parameters "
                f"({', '.join(self._positional)}) and {len(self.specs)} specs"
            )
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        arch = self._arch if len(self._archs) == 1 else self._archs
        return f"Kernel({self._fn.__name__}, arch={arch!r})"

    def _repr_markdown_(self) -> str:
        """How a notebook shows it: what it takes, gives and is for, without tracing it."""
        names = [
            f"{n}: {t.dims} {t.dtype}".replace("'", "") for n, t in zip(self._positional, self.specs, strict=False)
        ]
        count = len(self.in_specs or ())
        rows = [
            ("inputs", names[:count]),
            ("outputs", names[count:]),
            ("template parameters", [f"{n}={v!r}" for n, v in self._template.items()]),
            ("raw parameters", [f"{n}: {words}" for words, n in self.raw_params]),
            ("arch", list(self._archs)),
        ]
        listed = "\n".join(f"- {what}: {', '.join(f'`{v}`' for v in values)}" for what, values in rows if values)
        return f"**kernel `{self.name}`**\n\n{listed}"

    # Like a function, a kernel is its own copy, and is pickled by its name where it is found under it.

    def __copy__(self) -> Kernel:
        made = self.__class__.__new__(self.__class__)
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: Any) -> Kernel:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        found: Any = sys.modules.get(self.__module__)
        name: str = self.__dict__["__qualname__"]
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        made = copy.copy(self)
        made._call, made._cache, made._texts = None, {}, {}
        made.__dict__.update(dict.fromkeys(("_cubin_handles", "_compiling", "_attempt")))
        return made.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_launches()

    @classmethod
    def from_ptx(cls, source: str | os.PathLike[str], entry: str | None = None) -> Kernel:
        """A kernel from PTX text (or a file of it): `.python()` is a program for it, `.ptx()` the text, `.check()` what
        is wrong with it; `pyptx.simulate` runs it. `entry` names the one meant, if there are several.
        """
        from .imported import ImportedKernel

        return ImportedKernel(source, entry)

    # -------------------------------------------------------------------------------------------------- what it is

    @property
    def arch(self) -> str:
        """The target, e.g. `sm_90a`; the first of several. `"auto"` is resolved here at first use: the GPU's, or sm_90a
        without one.
        """
        if self._arch == "auto":
            self._arch = _detected_arch()
        return self._arch

    @property
    def archs(self) -> tuple[str, ...]:
        """All its targets, of which a launch takes the one for the GPU; `("auto",)` where the GPU decides."""
        return self._archs

    def variant(self, arch: str) -> Kernel:
        """The kernel for one of its targets (for any, if it is for `"auto"`), with no other. ValueError for a target
        that it is not for.
        """
        if self._archs == (arch,):
            return self
        if arch not in self._archs and self._archs != ("auto",):
            raise ValueError(f"kernel {self.name} is for {', '.join(self._archs)}, not {arch}")
        found = self._variants.get(arch)
        if found is None:
            made = copy.copy(self)
            made._archs, made._arch = _targets(arch), arch
            made._variants, made._cache, made._texts = {}, {}, {}
            made._forget_launches()
            found = self._variants.setdefault(arch, made)
        return found

    @property
    def name(self) -> str:
        """The entry's name: that of the Python function (`kernel` for a lambda)."""
        return self._fn.__name__ if re.fullmatch(r"[A-Za-z_]\w*", self._fn.__name__, re.ASCII) else "kernel"

    @property
    def filename(self) -> str:
        """The file of the Python function, as tracebacks call it."""
        code = getattr(self._fn, "__code__", None)
        return code.co_filename if code is not None else "<kernel>"

    @property
    def version(self) -> Version | None:
        """The PTX version asked for; None: the lowest that admits what the kernel uses."""
        return self._version

    @property
    def specs(self) -> tuple[Tile, ...]:
        """Inputs, then outputs."""
        return (self.in_specs or ()) + (self.out_specs or ())

    @property
    def template_params(self) -> dict[str, Any]:
        """The template parameters with their defaults."""
        return dict(self._template)

    @property
    def symbolic_dims(self) -> tuple[str, ...]:
        """The named dimensions of the specs, each once, in order."""
        return tuple(dict.fromkeys(d for t in self.specs for d in t.symbolic_dims))

    # ----------------------------------------------------------------------------------------------------- tracing

    def trace(self, **kw: Any) -> Traced:
        """The kernel traced for these template parameters and dimensions (cached)."""
        template, env = self._split(kw)
        key = (
            self.arch,
            self._version,
            *[(k, template_key(template[k])) for k in sorted(template)],
            "|",
            *sorted(env.items()),
        )
        found = self._cache.get(key)
        if found is None:
            trim()
            with gc_paused():  # a trace is one large graph that lives on
                found = self._run(template, env, self._not_given(kw))
            _keep(self._cache, key, found)
        return found

    _trace = trace

    def module(self, **kw: Any) -> BuiltinModule:
        """The IR: a `builtin.module` with one `ptx.module`. Do not change it in place, it is shared: clone it."""
        return self.trace(**kw).module

    def ptx(self, **kw: Any) -> str:
        """The PTX text."""
        key = (*kw.items(), *map(type, kw.values())) if all(map(_PLAIN.__contains__, map(type, kw.values()))) else None
        if key is not None and key in self._texts:
            return self._texts[key]
        traced = self.trace(**kw)
        if not traced.text:
            from ...printer.ptx import print_module

            traced.text.append(print_module(traced.module))
        if key is not None:
            _keep(self._texts, key, traced.text[0])
        return traced.text[0]

    def sass(self, **kw: Any) -> str:
        """The machine code that ptxas makes of it, disassembled. RuntimeError (ToolNotFound) without ptxas and
        nvdisasm; PTXError as `check`.
        """
        from ...runtime.ptxas import disassemble, find_tool

        for tool in ("ptxas", "nvdisasm", "cuobjdump"):
            find_tool(tool)
        cubin = self._assembled(kw).cubin
        assert cubin is not None
        return disassemble(cubin)

    def explain(self, **kw: Any) -> Explanation:
        """Python line -> PTX lines -> SASS instructions: print it for a table, or read its `rows`.

        The SASS is what ptxas makes (with `-lineinfo`, which changes no instruction); without ptxas and nvdisasm the
        table says so and stops at the PTX. Errors of tracing as `ptx`.
        """
        from .explain import explain

        return explain(self, kw)

    def pressure(self, **kw: Any) -> Pressure:
        """Register pressure by our own analysis, without ptxas: `written`, `estimated`, `relaxed` (32-bit registers at the
        peak) and where the peak is. `smem.total()` is the shared memory that a kernel has allocated so far, while it is
        traced.
        """
        from ...analysis.cfg import cfg_of
        from ...analysis.liveness import liveness
        from ...analysis.pressure import register_pressure
        from ...dialects.ptx.structure import ModuleOp

        module = next(op for op in self.module(**kw).body.block.ops if isinstance(op, ModuleOp))
        return register_pressure(entry := next(iter(module.functions)), liveness(cfg_of(entry)))

    def usage(self, **kw: Any) -> ResourceUsage:
        """What ptxas says the kernel needs: registers, shared memory, spills, stack, barriers (bytes and counts per
        thread or CTA). Errors as `sass`.
        """
        return self._assembled(kw).usage[self.name]

    def _assembled(self, kw: Mapping[str, Any]) -> PtxasResult:
        from ...runtime.ptxas import assemble

        result = assemble(self.ptx(**kw), self.arch)
        if not result.ok:
            raise PTXError(self._mapped(result.diagnostics, kw))
        return result

    def check(self, **kw: Any) -> list[Diagnostic]:
        """Everything our verifier and (if installed) ptxas have to say about the kernel, at its Python lines. Empty:
        fine.
        """
        return self.diagnose(**kw)

    def diagnose(self, **kw: Any) -> list[Diagnostic]:
        """As `check`; errors of tracing are among the diagnostics instead of raised."""
        from ...passes.verify import module_diagnostics
        from ...runtime.ptxas import ToolNotFound, assemble

        try:
            traced = self.trace(**kw)
        except PTXError as error:
            return list(error.diagnostics)
        found = [*traced.findings, *self._spec_problems(traced), *module_diagnostics(traced.module)]
        if any(d.severity == "error" for d in found):
            return found
        try:
            result = assemble(self.ptx(**kw), self.arch)
        except ToolNotFound:
            return found
        return found + self._mapped([_judged(d) for d in result.diagnostics], kw)

    def _spec_problems(self, traced: Traced) -> list[Diagnostic]:
        """Inputs that it writes and outputs that it does not."""
        from ..lint.specs import spec_problems

        if not self.specs:
            return []
        count = len(self.in_specs or ())
        line = getattr(getattr(self._fn, "__code__", None), "co_firstlineno", 1)
        return spec_problems(traced.module, self._positional[:count], self._positional[count:], (self.filename, line))

    def printed_lines(self, **kw: Any) -> Iterator[tuple[int, Operation]]:
        """The statements of the entry, each with the number (from 1) of the line of `ptx(**kw)` where it starts."""
        from .build import printed_lines

        return printed_lines(self.trace(**kw).module, self.ptx(**kw))

    def _mapped(self, diagnostics: Sequence[Diagnostic], kw: Mapping[str, Any]) -> list[Diagnostic]:
        """Diagnostics about the PTX text, moved to the Python lines that made it."""
        places = {number: op.location for number, op in self.printed_lines(**kw)}
        found: list[Diagnostic] = []
        for d in diagnostics:
            location = places.get(d.line or 0)
            if not isinstance(location, FileLineColLoc):
                found.append(d)
                continue
            hint = "\n".join(h for h in (f"PTX line {d.line}: {(d.source_line or '').strip()}", d.hint) if h)
            found.append(
                Diagnostic(
                    d.severity, d.message, location.filename.data, location.line.data, location.column.data, hint
                )
            )
        return found

    def _split(self, kw: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Keyword arguments as (template parameters, dimensions). TypeError for names that are neither."""
        template, env = dict(self._template), dict[str, int]()
        dims = self.symbolic_dims
        raw = {name for _, name in self.raw_params}
        for name, value in kw.items():
            if name in template:
                template[name] = value
                if name in dims and value is not None:
                    env[name] = self._size(name, value)
            elif name in dims:
                env[name] = self._size(name, value)
            elif name not in raw:
                known = list(dict.fromkeys([*template, *dims, *sorted(raw)]))
                raise TypeError(f"kernel {self.name} has no parameter {name!r}; it has: {', '.join(known) or 'none'}")
        for name, value in template.items():
            if name in dims and isinstance(value, int) and not isinstance(value, bool):
                env.setdefault(name, value)
        return template, env

    def _not_given(self, kw: Mapping[str, Any]) -> list[str]:
        """The template parameters that have no value: no default, none in `kw`, and no dimension or raw parameter."""
        known = (*kw, *self.symbolic_dims, *(name for _, name in self.raw_params))
        return [name for name in self._without_default if name not in known]

    def _size(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"dimension {name} of kernel {self.name} is an int, not {value!r}")
        return operator.index(value)

    def _run(self, template: dict[str, Any], env: dict[str, int], not_given: Sequence[str]) -> Traced:
        code = getattr(self._fn, "__code__", None)
        place = (code.co_filename, code.co_firstlineno) if code is not None else ("<kernel>", 1)
        trace = Trace(self.name, self.arch, self._version, place)
        problem = self._launch_problem()
        if problem is not None:
            raise trace.error(problem, at=0)
        tensors = self._tensors(env)
        trace.template = dict(template)
        if not_given:
            needed = ", ".join(f"{n}=" for n in not_given)
            trace.warn(f"{self.name} needs {needed}: without a default it is None here", "give it, or a default", 0)
        trace.tiles = {t.name: tile for t, tile in zip(tensors, self.specs, strict=False)}
        trace.parameters = {name: words for words, name in self.raw_params}
        for parameter in entry_parameters(tensors, self.specs, self.raw_params, None):
            trace.symbols.add(parameter.name)
            trace.spaces[parameter.name] = "entry"  # as symbol_uses calls a parameter of the kernel
        trace.shared_is_dynamic = self.smem > STATIC_LIMIT and not self.extern_smem
        if self.extern_smem:
            trace.symbols.add(self.extern_smem)
            trace.externs.append(self.extern_smem)
            trace.spaces[self.extern_smem] = "shared"
        with trace_scope(trace):
            try:
                self._fn(*tensors, **template)
            except (PTXError, TypeError, AttributeError, ValueError, IndexError) as error:
                missing = [d for d in self.symbolic_dims if d not in env]
                if missing and isinstance(error, (PTXError, TypeError, AttributeError)):
                    raise _without_dims(trace, self.name, missing, error) from error
                if not_given:
                    error.add_note(f"note: {', '.join(not_given)} of {self.name} was not given, and is None")
                located = None if isinstance(error, PTXError) else at_the_kernels_line(trace, error)
                if located is None:
                    raise
                raise located from error
        check_branches(trace)
        note_uncalled(trace, self._fn)
        for found in trace.warnings.values():
            _warn(found, self._fn)
        copies = tensor_copy_problems(trace, env)
        maps = tensor_map_problems(trace, tensors, copies)
        untold = (*uninitialised_barriers(trace), *copies)
        parameters = entry_parameters(tensors, self.specs, self.raw_params, trace)
        built = build_module(
            trace,
            self.name,
            parameters,
            extern=self.extern_smem,
            directives=self._directives(),
            force_dynamic=trace.shared_is_dynamic,
            debug=self.debug,
        )
        smem = self.smem if built.has_extern else 0
        return Traced(
            built.module, tuple(parameters), max(smem, built.dynamic_bytes), self.arch, built.version,
            findings=(*trace.warnings.values(), *untold, *maps, *built.findings), untold=untold, text=[], launched=[],
        )  # fmt: skip

    def _launch_problem(self) -> str | None:
        """What is wrong with the launch shape, as far as it is no function of dimensions."""
        for what, value in (("grid", self.grid), ("block", self.block), ("cluster", self.cluster)):
            if value is not None and not callable(value):
                try:
                    _shape(what, value, f" of kernel {self.name}")
                except ValueError as error:
                    return str(error)
        return launch_problem(self.arch, self.block, self.cluster, self.smem)

    def _tensors(self, env: Mapping[str, int]) -> list[TensorSpec]:
        tensors: list[TensorSpec] = []
        for i, name in enumerate(self._positional):
            tile = self.specs[i] if i < len(self.specs) else None
            if tile is None:
                tensors.append(TensorSpec(name))
                continue
            shape = tile.resolve_shape(env) if all(d in env for d in tile.symbolic_dims) else None
            tensors.append(TensorSpec(name, shape, tile.dtype, tile.layout))
        return tensors

    def _directives(self) -> list[tuple[str, tuple[Any, ...]]]:
        if self.raw_directives is not None:
            return [(name.lstrip("."), values) for name, values in self.raw_directives]
        return [("reqntid", self.reqntid)] if self.reqntid is not None else []

    # ---------------------------------------------------------------------------------------------------- launching

    def _forget_launches(self) -> None:
        """Be as a kernel that has not been launched; the runtime keeps what it makes here."""
        self._cubin_handles: dict[Any, Any] = {}
        self._compiling: Callable[[], bool] | None = None
        self._attempt: Callable[..., Any] = lambda arrays, kw: NotImplemented

    def bind(self, *shapes: Sequence[int], **kw: Any) -> dict[str, int]:
        """The dimensions that inputs of these shapes bind, with those in `kw`. ValueError where they do not fit
        `in_specs`.
        """
        specs = self.in_specs or ()
        envs = [tile.extract_env(shape) for tile, shape in zip(specs, shapes, strict=False)]
        given = {n: v for n, v in kw.items() if n in self.symbolic_dims and isinstance(v, int)}
        return unify_envs([*envs, given])

    def resolve_launch(self, dims: Mapping[str, int] | None = None, **kw: Any) -> Launch:
        """Grid, block, cluster and dynamic shared memory for these dimensions (and template parameters in `kw`).

        `grid`, `block` and `cluster` may be functions of the dimensions, called with them by name, or in order if they
        do not take names. A grid of 0, for empty tensors, is no launch. ValueError for what is no shape.
        """
        env = dict(dims or {})
        template, bound = self._split({n: v for n, v in kw.items()})
        given = {n: v for n, v in {**kw, **template}.items() if isinstance(v, int) and not isinstance(v, bool)}
        names = {**given, **bound, **env}
        traced = self.trace(**{**kw, **{n: v for n, v in env.items() if n in self.symbolic_dims}})
        if not traced.launched:
            traced.launched.append(True)
            for problem in (*traced.untold, *self._spec_problems(traced)):
                _warn(problem, self._fn)
        launch = Launch(
            self._extent("grid", self.grid if self.grid is not None else 1, names, env),
            self._extent("block", self.block, names, env),
            self._extent("cluster", self.cluster, names, env),
            traced.dynamic_smem,
        )
        problem = launch_problem(self.arch, launch.block, launch.cluster, launch.smem)
        if problem is not None:
            raise ValueError(f"kernel {self.name}: {problem}")
        return launch

    def _extent(self, what: str, value: Any, names: Mapping[str, int], env: Mapping[str, int]) -> tuple[int, int, int]:
        if callable(value):
            value = _call(value, names, env, f"{what} of kernel {self.name}")
        return _shape(what, value, f" of kernel {self.name}")

    def __call__(self, *arrays: Any, **kw: Any) -> Any:
        """Launch on tensors and return the outputs (one, or a tuple). NotImplementedError without `in_specs`,
        TypeError for too few inputs.

        Outputs start uninitialised: a kernel that adds to them, or reads them, takes them as `out=` (one, or a tuple in
        the order of `out_specs`), filled with what it begins with. JAX arrays do not change: there, the kernel writes first.
        """
        compiling = self._compiling
        if compiling is not None and not compiling():  # what has been on a GPU before and is recognised
            result = self._attempt(arrays, kw)
            if result is not NotImplemented:
                return result
        if self.in_specs is None:
            raise NotImplementedError(
                f"kernel {self.name} has no in_specs: only kernels with in_specs and out_specs can be called "
                "(in_specs=[] where it reads no tensor); others are launched with .launch(grid, block, args)"
            )
        if len(arrays) < len(self.in_specs):
            raise TypeError(
                f"kernel {self.name} takes {len(self.in_specs)} tensors "
                f"({', '.join(self._positional[: len(self.in_specs)])}), not {len(arrays)}"
            )
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_dynamo_compiling():
            from ...runtime.call import call_kernel

            return call_kernel(self, arrays, kw)
        call = self._call
        if call is None:  # an import statement, even of what is imported, costs as much as the launch
            from ...runtime.call import call_eager

            call = self._call = call_eager
        return call(self, arrays, kw, torch)

    def launch(self, grid: Any, block: Any, args: Any, *, stream: Any = None, **options: Any) -> None:
        """Launch with explicit arguments, in the order of the entry's parameters: for kernels with `raw_params`.

        GPU tensors, addresses and numbers go to the driver, on `stream` or torch's current one; CPU arrays to the
        simulator, changed in place. Options: cluster, smem, cooperative, programmatic, device, and `template`, a dict
        of template parameters and dimensions. See `pyptx.runtime.raw.launch_entry`.
        """
        from ...runtime.raw import launch_kernel

        launch_kernel(self, grid, block, args, stream=stream, **options)

    def _torch_operator(self, static: tuple[Any, ...], scalars: tuple[str, ...], into: bool) -> str:
        """The name of its operator in `torch.ops.pyptx`. TorchDynamo runs this while it traces, as it is marked."""
        from ...runtime.torch_ops import operator_name

        return operator_name(self, static, scalars, into)

    _torch_operator._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


_MEANT_OTHERWISE = {
    "C7508": "setmaxnreg needs to know how many registers a thread starts with: give the kernel .maxnreg, or .reqntid "
    "(or .maxntid) and .minnctapersm 1 in raw_directives",
    "C7510": "ptxas waits after each wgmma: leave the accumulators alone between an mma and the wait_group for it",
    "C7517": "ptxas put a wait where accumulators are touched before the wait_group for them",
    "C7518": "ptxas waits after each wgmma: there is a divergent branch (or trap) while some are under way",
}
"""Advice of ptxas that the machine code does not do what the kernel says, and what helps."""


def _judged(diagnostic: Diagnostic) -> Diagnostic:
    """What ptxas says, with the advice that a kernel's author must not miss as an error."""
    for code, hint in _MEANT_OTHERWISE.items():
        if f"({code})" in diagnostic.message:
            return replace(diagnostic, severity="error", hint=diagnostic.hint or hint)
    return diagnostic


def _warn(found: Diagnostic, fn: Callable[..., Any]) -> None:
    """Python's warning for a finding, at its place; shown once for each, as those of the kernel's module are."""
    text = f"{found.message}\nhint: {found.hint}" if found.hint else found.message
    registry = getattr(fn, "__globals__", {}).setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, TraceWarning, found.filename or "<kernel>", found.line or 1, registry=registry)


def _values(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else () if values is None else (values,)


_PLAIN = frozenset((int, str, bool, type(None)))
"""What is equal only to what is the same, of one type."""


def template_key(value: Any) -> Any:
    """A template parameter as part of a cache's key: 1, 1.0 and True are different, 0.0 and -0.0 too, inside of tuples,
    lists, dictionaries, sets and dataclasses as well. Other objects go by their own equality.
    """
    cls = value.__class__
    if cls is int or cls is str or cls is bool or value is None:
        return cls, value
    if isinstance(value, float):
        return cls, value.hex()
    if isinstance(value, (tuple, list)):
        return cls, tuple(template_key(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, dict):
        return cls, tuple((template_key(k), template_key(v)) for k, v in cast("dict[Any, Any]", value).items())
    if isinstance(value, (set, frozenset)):
        return cls, frozenset(template_key(v) for v in cast("frozenset[Any]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return cls, tuple(template_key(getattr(value, f.name)) for f in dataclasses.fields(value))
    array: Any = value
    if hasattr(array, "tobytes") and hasattr(array, "dtype"):  # NumPy's
        return cls, str(array.dtype), getattr(array, "shape", ()), array.tobytes()
    try:
        hash(value)
    except TypeError:
        return cls, repr(value)
    return cls, value


def _version(version: Any) -> Version | None:
    if version is None or (isinstance(version, tuple) and len(version) == 2):
        return version
    if isinstance(version, str):
        return parse_version(version)
    raise TypeError(f'version is a PTX version such as "8.7" or (8, 7), not {version!r}')


def _tiles(what: str, specs: Any) -> tuple[Tile, ...]:
    if not isinstance(specs, (Tile, list, tuple)) and not hasattr(specs, "__iter__"):
        raise TypeError(f"{what} is a list of Tiles, such as [Tile(32, f32)], not {specs!r}")
    found: tuple[Any, ...] = (specs,) if isinstance(specs, Tile) else tuple(specs)
    for tile in found:
        if not isinstance(tile, Tile):
            raise TypeError(f'{what} are Tiles, such as Tile("M", "N", f32), not {tile!r}')
    return found


def _pairs(what: str, given: Any, example: str) -> list[tuple[Any, Any]]:
    """A sequence of pairs. TypeError for anything else in it."""
    found: list[Any] = list(given or ())
    for pair in found:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{what} is a list of pairs such as {example}, and has {pair!r}")
    return found


def _shape(what: str, value: Any, whose: str) -> tuple[int, int, int]:
    """One to three extents as three. ValueError for what is none; a grid may have none of a kind (0)."""
    parts: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    least = 0 if what == "grid" else 1
    try:
        parts = tuple(map(operator.index, parts))  # NumPy's integers too
    except TypeError:
        parts = ()
    if not 1 <= len(parts) <= 3 or min(parts) < least:
        raise ValueError(f"the {what}{whose} is one to three positive ints, not {value!r}")
    return (*parts, *(1,) * (3 - len(parts)))  # pyright: ignore[reportReturnType]


def _without_dims(trace: Trace, name: str, missing: Sequence[str], error: BaseException) -> PTXError:
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


def _call(function: Callable[..., Any], names: Mapping[str, int], env: Mapping[str, int], what: str) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function(*env.values())
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return function(**names)
    wanted = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if all(p.name in names or p.default is not p.empty for p in wanted) and len(wanted) == len(parameters):
        return function(**{p.name: names[p.name] for p in wanted if p.name in names})
    unknown = [p.name for p in wanted if p.name not in names]
    needed = [p for p in parameters if p.default is p.empty]
    if any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return function(*env.values())
    if all(p.kind != p.KEYWORD_ONLY for p in needed) and _in_order([p.name for p in needed], list(env)):
        if len(env) > 1 and any(p.name.lower() != d.lower() for p, d in zip(needed, env, strict=True)):
            _tell_order(function, [p.name for p in needed], list(env), what)
        return function(*env.values())
    near = suggest(unknown[0], names) if unknown else []
    raise TypeError(
        f"the {what} is a function of {', '.join(unknown)}, and the dimensions are {', '.join(names) or 'none'}"
        + (f"; did you mean {' or '.join(near)}?" if near else "")
    )


def _tell_order(function: Callable[..., Any], parameters: Sequence[str], dims: Sequence[str], what: str) -> None:
    """Warn of a launch function whose names say nothing about which dimension each parameter is."""
    code: Any = getattr(function, "__code__", None)
    taken = ", ".join(f"{p} = {d}" for p, d in zip(parameters, dims, strict=True))
    message = f"the {what} is a function of {', '.join(parameters)}, none of them a dimension: taken in order, {taken}"
    hint = f"call them as the specs do: lambda {', '.join(dims)}: ..."
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else (None, None)
    _warn(Diagnostic("warning", message, file, line, 1, hint), function)


def _in_order(parameters: Sequence[str], dims: Sequence[str]) -> bool:
    """Whether parameters of other names than the dimensions' may stand for them, in order: as many, all of other names,
    and none that is called like another dimension.
    """
    lowered = [d.lower() for d in dims]
    return (
        len(parameters) == len(dims)
        and not set(parameters) & set(dims)
        and all(p.lower() == d or p.lower() not in lowered for p, d in zip(parameters, lowered, strict=True))
    )


def _targets(arch: str | Sequence[str]) -> tuple[str, ...]:
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
        if name not in FIRST_PTX:
            near = near_targets(name) or suggest(name, FIRST_PTX)
            raise ValueError(
                f"unknown arch {name!r}"
                + (f"; did you mean {' or '.join(near)}?" if near else "; known: " + " ".join(FIRST_PTX))
            )
    return archs


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember a value, and no more than `_KEPT` of them: the oldest goes."""
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept), None), None)
    kept[key] = value


def fat_kernel(*kernels: Kernel) -> Kernel:
    """One kernel of several that do the same on different targets: a launch takes the one for the GPU, everything else
    (printing, the simulator) the first.

    TypeError unless they agree in what a caller sees: dimensions and dtypes of `in_specs` and `out_specs`, raw and
    template parameters. ValueError for two of one target. Layouts, TMA boxes, grid, block, cluster and shared memory
    are each kernel's own.
    """
    if not kernels:
        raise TypeError("fat_kernel needs a kernel for each target")
    for given in kernels:
        if not isinstance(given, Kernel):
            raise TypeError(f"fat_kernel takes kernels one by one, fat_kernel(a, b), not {given!r}")
    first = kernels[0]
    for other in kernels[1:]:
        for what in ("in_specs", "out_specs", "raw_params", "template_params"):
            a, b = _seen(first, what), _seen(other, what)
            if a != b:
                raise TypeError(f"fat_kernel: {what} of {first!r} are {a}, of {other!r} {b}")
    made = copy.copy(first)
    made._archs = _targets([a for k in kernels for a in k.archs])
    made._arch = made._archs[0]
    made._variants = {a: k.variant(a) for k in kernels for a in k.archs}
    made._forget_launches()
    return made


def _seen(kernel: Kernel, what: str) -> Any:
    """What callers see of a kernel's specs and parameters."""
    value: Any = getattr(kernel, what)
    return tuple((t.dims, t.dtype.name) for t in value or ()) if what.endswith("specs") else value


def _detected_arch() -> str:
    try:
        from pyptx import detect_arch

        return detect_arch()
    except (ImportError, RuntimeError):
        return "sm_90a"


@overload
def kernel(fn: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(
    fn: None = None, *, arch: str | Sequence[str] = "sm_90a", version: str | tuple[int, int] | None = None,
    in_specs: Sequence[Tile] | None = None, out_specs: Sequence[Tile] | None = None,
    grid: Any = None, block: Any = (1, 1, 1), cluster: Any = (1, 1, 1), smem: int = 0,
    raw_params: Sequence[tuple[str, str]] | None = None, extern_smem: bool | str = False,
    reqntid: Sequence[int] | None = None, raw_directives: Sequence[tuple[str, Sequence[int]]] | None = None,
    cooperative: bool = False, programmatic: bool = False,
    debug: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...  # fmt: skip
def kernel(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator, bare or with options: make a `Kernel` of a function that uses `reg`, `smem` and `ptx`.

    arch: the target, several (a fat kernel: the function is traced for each, where `ptx.target()` tells which, and a
    launch takes the one for the GPU), or "auto", the GPU's. version: the PTX version, "8.7" or (8, 7); default: the lowest that admits what is
    used. in_specs, out_specs: `Tile`s of the tensors. grid, block, cluster: launch shape, ints or tuples, or functions
    of the dimensions. smem: bytes of dynamic shared memory (the kernel's own allocations need not be counted).
    raw_params: (type, name) pairs of further parameters, see `parameters.raw_parameter`. extern_smem: declare an extern
    shared array, by name or `global_smem`. reqntid: `.reqntid`. raw_directives: (name, values) pairs of performance
    directives, which replace reqntid. cooperative: all CTAs are on the GPU at once (a grid that is too large for that
    is refused). programmatic: it may start before its predecessor on the stream ends (`griddepcontrol`). debug: emit
    `.file` and `.loc` for the Python lines, which profilers and cuda-gdb then show.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        near = suggest(unknown[0], _OPTIONS)
        known = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(_OPTIONS)}"
        raise TypeError(f"@kernel has no option {unknown[0]!r}; {known}")
    if fn is None:
        return lambda function: Kernel(function, **options)
    return Kernel(fn, **options)


_OPTIONS = [name for name in inspect.signature(Kernel).parameters if name != "fn"]
