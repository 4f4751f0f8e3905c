"""`@kernel`: a Python function that is traced into a PTX module (the public module `pyptx.kernel`)."""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule

from ...diagnostics import Diagnostic, PTXError, counted, suggest
from ...dialects.ptx.memo import trim
from ...dialects.ptx.target import Version
from ...ssa.fastir import gc_paused
from .. import deferred
from ..core.tiles import Tile, unify_envs
from ..lint.specs import spec_problems
from ..memory.parameters import TensorSpec, TmaDescriptorHandle
from .build import printed_lines
from .device import detect_arch
from .explain import Explanation, explain
from .keys import PLAIN, keep, template_key
from .launch_call import explained
from .launch_shape import Launch, call_with_dimensions, extents, unsaid_shape, warn_once
from .limits import launch_problem
from .notebook import markdown
from .options import check_runtime_dims, pair_option, target_option, tile_option, tuple_option, version_option
from .tracing import Traced, run

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from ...analysis.pressure import Pressure
    from ..deferred import KernelReport, PtxasResult, ResourceUsage

__all__ = ["Kernel", "Launch", "TensorSpec", "TmaDescriptorHandle", "Traced", "fat_kernel", "kernel"]


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
        self._archs = target_option(arch)
        self._arch = self._archs[0]
        self._variants: dict[str, Kernel] = {}
        self._version = version_option(version)
        self.in_specs = None if in_specs is None else tile_option("in_specs", in_specs)
        self.out_specs = None if out_specs is None else tile_option("out_specs", out_specs)
        self.grid, self.block, self.cluster, self.smem = grid, block, cluster, smem
        if not isinstance(smem, int) or smem < 0:
            raise TypeError(f"smem is a number of bytes, not {smem!r}")
        self.raw_params = tuple((str(t), str(n)) for t, n in pair_option("raw_params", raw_params, '("u32", "n")'))
        self.extern_smem = "global_smem" if extern_smem is True else (extern_smem or None)
        self.reqntid = None if reqntid is None else tuple_option(reqntid)
        self.raw_directives = (
            None
            if raw_directives is None
            else tuple(
                (n, tuple_option(v)) for n, v in pair_option("raw_directives", raw_directives, '("maxnreg", (128,))')
            )
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
        self.tensor_names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        keywords = [p for p in parameters if p.kind == p.KEYWORD_ONLY]
        self._template = {p.name: None if p.default is p.empty else p.default for p in keywords}
        self._without_default = [p.name for p in keywords if p.default is p.empty]
        if self.specs and len(self.specs) != len(self.tensor_names):
            raise TypeError(
                f"kernel {fn.__name__} has {len(self.tensor_names)} tensor parameters "
                f"({', '.join(self.tensor_names)}) and {counted(len(self.specs), 'spec')}"
            )
        check_runtime_dims(self.name, self.tensor_names, self.specs, [name for _, name in self.raw_params])
        functools.update_wrapper(self, fn)

    def __repr__(self) -> str:
        arch = self._arch if len(self._archs) == 1 else self._archs
        return f"Kernel({self._fn.__name__}, arch={arch!r})"

    def _repr_markdown_(self) -> str:
        """How a notebook shows it: what it takes, gives and is for, without tracing it."""
        return markdown(self)

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
        return deferred.imported.ImportedKernel(source, entry)

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
            made._archs, made._arch = target_option(arch), arch
            made._variants, made._cache, made._texts = {}, {}, {}
            made._forget_launches()
            found = self._variants.setdefault(arch, made)
        return found

    def specialize(self, **template: Any) -> Kernel:
        """The kernel with other defaults of template parameters, for `simulate` and `predict`, which take none. TypeError for a name
        that it does not have.
        """
        unknown = [name for name in template if name not in self._template]
        if unknown:
            known = ", ".join(self._template) or "none"
            raise TypeError(f"kernel {self.name} has no template parameter {unknown[0]!r}; it has: {known}")
        made = copy.copy(self)
        made._template = {**self._template, **template}
        made._without_default = [name for name in self._without_default if name not in template]
        made._variants = {
            arch: each.specialize(**template) for arch, each in self._variants.items() if each is not self
        }
        made._cache, made._texts = {}, {}
        made._forget_launches()
        return made

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

    @property
    def runtime_dims(self) -> tuple[str, ...]:
        """The named dimensions whose sizes are parameters, `dim("N", runtime=True)`, each once, in order."""
        return tuple(dict.fromkeys(d for t in self.specs for d in t.runtime_dims))

    # ----------------------------------------------------------------------------------------------------- tracing

    def trace(self, **kw: Any) -> Traced:
        """The kernel traced for these template parameters and dimensions (cached)."""
        template, env = self._split(kw)
        for name in self.runtime_dims:  # the trace does not depend on them
            env.pop(name, None)
            if name in template:
                template[name] = None
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
                found = run(self, template, env, self._not_given(kw))
            keep(self._cache, key, found)
        return found

    _trace = trace

    def module(self, **kw: Any) -> BuiltinModule:
        """The IR: a `builtin.module` with one `ptx.module`. Do not change it in place, it is shared: clone it."""
        return self.trace(**kw).module

    def ptx(self, **kw: Any) -> str:
        """The PTX text."""
        key = (*kw.items(), *map(type, kw.values())) if all(map(PLAIN.__contains__, map(type, kw.values()))) else None
        if key is not None and key in self._texts:
            return self._texts[key]
        traced = self.trace(**kw)
        if not traced.text:
            from ...printer.ptx import print_module

            traced.text.append(print_module(traced.module))
        if key is not None:
            keep(self._texts, key, traced.text[0])
        return traced.text[0]

    def sass(self, **kw: Any) -> str:
        """The machine code that ptxas makes of it, disassembled. RuntimeError (ToolNotFound) without ptxas and
        nvdisasm; PTXError as `check`.
        """
        for tool in ("ptxas", "nvdisasm", "cuobjdump"):
            deferred.ptxas.find_tool(tool)
        cubin = self._assembled(kw).cubin
        assert cubin is not None
        return deferred.ptxas.disassemble(cubin)

    def explain(self, **kw: Any) -> Explanation:
        """Python line -> PTX lines -> SASS instructions: print it for a table, or read its `rows`.

        The SASS is what ptxas makes (with `-lineinfo`, which changes no instruction); without ptxas and nvdisasm the
        table says so and stops at the PTX. Errors of tracing as `ptx`.
        """
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
        return register_pressure(entry := next(op for op in module.functions if op.is_entry), liveness(cfg_of(entry)))

    def usage(self, **kw: Any) -> ResourceUsage:
        """What ptxas says the kernel needs: registers, shared memory, spills, stack, barriers (bytes and counts per
        thread or CTA), and the dynamic shared memory of its launch. Errors as `sass`.
        """
        return replace(self._assembled(kw).usage[self.name], dynamic_shared_bytes=self.trace(**kw).dynamic_smem)

    def report(self, *args: Any, card: str | Sequence[str] = (), **kw: Any) -> KernelReport:
        """All analyses of the kernel at its own launch: registers, occupancy with its threads and dynamic shared memory, loops,
        bytes of its tensor copies (the boxes of its tiles), bank conflicts, findings. Print it, or `.save("report.html")`.

        `card`: one or more cards, whose predicted times are added, with a timeline of one SM on the page; of the arguments
        `args` if there are any, which then say the dimensions, else of zeros. PTXError for dimensions that the arrays contradict.
        """
        return deferred.report.kernel_report(self, args, card, kw)

    def _assembled(self, kw: Mapping[str, Any]) -> PtxasResult:
        result = deferred.ptxas.assemble(self.ptx(**kw), self.arch)
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

        try:
            traced = self.trace(**kw)
        except PTXError as error:
            return list(error.diagnostics)
        found = [*traced.findings, *self._spec_problems(traced), *module_diagnostics(traced.module)]
        if any(d.severity == "error" for d in found):
            return found
        try:
            result = deferred.ptxas.assemble(self.ptx(**kw), self.arch)
        except deferred.ptxas.ToolNotFound:
            return found
        return found + self._mapped([_judged(d) for d in result.diagnostics], kw)

    def _spec_problems(self, traced: Traced) -> list[Diagnostic]:
        """Inputs that it writes and outputs that it does not."""
        if not self.specs:
            return []
        count = len(self.in_specs or ())
        line = getattr(getattr(self._fn, "__code__", None), "co_firstlineno", 1)
        return spec_problems(traced.module, self.tensor_names[:count], self.tensor_names[count:], (self.filename, line))

    def printed_lines(self, **kw: Any) -> Iterator[tuple[int, Operation]]:
        """The statements of the entry, each with the number (from 1) of the line of `ptx(**kw)` where it starts."""
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
        do not take names. A grid of 0, for empty tensors, is not a launch. ValueError for what is not a shape.
        """
        env = dict(dims or {})
        template, bound = self._split({n: v for n, v in kw.items()})
        given = {n: v for n, v in {**kw, **template}.items() if isinstance(v, int) and not isinstance(v, bool)}
        names = {**given, **bound, **env}
        traced = self.trace(**{**kw, **{n: v for n, v in env.items() if n in self.symbolic_dims}})
        if not traced.launched:
            traced.launched.append(True)
            for problem in (*traced.on_launch, *self._spec_problems(traced), *unsaid_shape(self, traced.module)):
                warn_once(problem, self._fn)
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
            value = call_with_dimensions(value, names, env, f"{what} of kernel {self.name}")
        return extents(what, value, f" of kernel {self.name}")

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
                f"kernel {self.name} takes {counted(len(self.in_specs), 'tensor')} "
                f"({', '.join(self.tensor_names[: len(self.in_specs)])}), not {len(arrays)}"
            )
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_dynamo_compiling():
            return deferred.call.call_kernel(self, arrays, kw)
        call = self._call
        if call is None:  # an import statement, even of what is imported, costs as much as the launch
            call = self._call = deferred.call.call_eager
        return call(self, arrays, kw, torch)

    @explained
    def launch(self, grid: Any, block: Any, args: Any, *, stream: Any = None, **options: Any) -> None:
        """Launch with explicit arguments, in the order of the entry's parameters: for kernels with `raw_params`.

        GPU tensors, addresses and numbers go to the driver, on `stream` or torch's current one; CPU arrays to the
        simulator, changed in place. Options: cluster, smem, cooperative, programmatic, device, and `template`, a dict
        of template parameters and dimensions. See `pyptx.runtime.raw.launch_entry`.
        """
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.compiler.is_dynamo_compiling():
            return deferred.torch_launch.launch_traced(self, grid, block, args, {"stream": stream, **options})
        deferred.raw.launch_kernel(self, grid, block, args, stream=stream, **options)

    def _torch_launch(self, kinds: str) -> str:
        """The name of the operator that launches it with arguments of these kinds. TorchDynamo runs this while it traces."""
        return deferred.torch_launch.operator_name(self, self.ptx(), kinds)

    _torch_launch._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]

    def op(self, *args: Any, into: bool = False, **template: Any) -> Any:
        """Its torch operator, for `torch.library.opcheck` and for graphs that are edited: `opcheck(kernel.op(), (x, y))`.

        `template`: the template parameters and dimensions that are fixed; `into`: the one that writes to given outputs.
        A kernel that is launched, not called, has one for each kind of arguments, which are given like those of a launch:
        `kernel.op(x, n)(x, n, [grid], [block])`.
        """
        if args or self.in_specs is None:
            return deferred.torch_launch.operator_for(self, args)
        return deferred.torch_ops.overload(self._torch_operator(tuple(sorted(template.items())), (), into))

    def _torch_operator(self, static: tuple[Any, ...], scalars: tuple[str, ...], into: bool) -> str:
        """The name of its operator in `torch.ops.pyptx`. TorchDynamo runs this while it traces, as it is marked."""
        return deferred.torch_ops.operator_name(self, static, scalars, into)

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
    made._archs = target_option([a for k in kernels for a in k.archs])
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
