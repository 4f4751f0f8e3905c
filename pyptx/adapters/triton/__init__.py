"""Triton and Gluon kernels on the simulator, unmodified.

with pyptx.triton.simulate(check=True) as run:
    kernel[grid](x, y, BLOCK=64)          # CPU tensors
print(run.launches[-1].report)
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ...codegen import ptx_to_python
from ...diagnostics import Diagnostic, PTXError, SimulationError, did_you_mean
from ...parser import parse_text
from ...simulator import LoadedKernel, load
from ...simulator.launch.options import CHECKS, SHAPE, checked_options, refuse_unknown
from ..require import required
from ..targets import number_of
from .arguments import INTEGERS, Unsupported
from .driver import LOWEST, SESSIONS, TESTED, Launch, Session, make_driver
from .override import Override, override

__all__ = ["Launch", "Override", "Session", "Unsupported", "dump", "kernel", "number_of", "override", "ptx", "simulate"]


@contextmanager
def simulate(
    *, check: bool = True, arch: str = "sm_90", on_finding: str = "warn", **options: Any
) -> Generator[Session]:
    """Run the Triton and Gluon launches inside on the simulator, with CPU tensors, compiled for `arch`.

    `check` and other options: those of `pyptx.simulate`. `on_finding`: `"warn"` (`SimulationWarning` at the launch),
    `"raise"` (SimulationError for findings that are errors) or `"ignore"`. The session's `launches` have the reports.
    MissingFrontEnd where Triton is not installed; TypeError for an unknown option, PTXError for a wrong value.
    """
    if not isinstance(on_finding, str) or on_finding not in ("warn", "raise", "ignore"):
        raise PTXError(f"on_finding={on_finding!r} is not one of 'warn', 'raise', 'ignore'")
    options = {"check": check, **options}
    refuse_unknown(options, [n for n in CHECKS if n not in SHAPE], "pyptx.triton.simulate")
    checked_options(options)
    runtime = required("triton.runtime", "triton", TESTED, LOWEST).driver
    session = Session(number_of(arch), options, lambda launch: _tell(launch, on_finding))
    before = getattr(runtime, "_active", None)
    runtime.set_active(make_driver(session))
    SESSIONS.append(session)
    try:
        yield session
    finally:
        SESSIONS.remove(session)
        runtime._active = before


def ptx(
    function: Any,
    signature: dict[str, str] | None = None,
    constants: dict[str, Any] | None = None,
    *,
    arch: str = "sm_90",
    **options: Any,
) -> str:
    """The PTX of a `triton.jit` function, or of a compiled kernel, which a launch and `warmup` return. `signature`: Triton's
    types by name, such as `{"x": "*fp32", "n": "i32"}`; `constants`: the values of its `tl.constexpr` parameters; options: Triton's,
    such as `num_warps=8`. The last three are for functions only.
    """
    if hasattr(function, "asm"):
        return function.asm["ptx"]
    if not hasattr(function, "arg_names"):
        raise TypeError(f"{type(function).__name__} is not a function of triton.jit or a compiled kernel")
    triton = required("triton", "triton", TESTED, LOWEST)
    compiler = required("triton.compiler", "triton", TESTED)
    target = required("triton.backends.compiler", "triton", TESTED).GPUTarget("cuda", number_of(arch), 32)
    known, types = dict(constants or {}), dict(signature or {})
    for name in [*types, *known]:
        if name not in function.arg_names:
            near = did_you_mean(name, function.arg_names) or f"it has {', '.join(function.arg_names)}"
            raise PTXError(Diagnostic("error", f"{function.__name__} has no parameter {name}", hint=near))
    kinds = {name: types.get(name, "constexpr") for name in function.arg_names}
    missing = [n for n, kind in kinds.items() if kind == "constexpr" and n not in known]
    if missing:
        raise PTXError(f"{function.__name__} has parameters without a type or a constant: {', '.join(missing)}")
    for name, kind in types.items():
        _check_type(name, kind)
    source = compiler.ASTSource(
        function, signature=kinds, constexprs={(function.arg_names.index(n),): v for n, v in known.items()}
    )
    return triton.compile(source, target=target, options=options or None).asm["ptx"]


_TYPES = [*INTEGERS, "fp16", "fp32", "fp64", "bf16", "fp8e4nv", "fp8e5", "constexpr"]


def _check_type(name: str, kind: object) -> None:
    """PTXError for what Triton does not take as the type of a parameter."""
    read = getattr(required("triton.language", "triton", TESTED), "str_to_ty", None)
    try:
        if read is not None:
            read(kind, None)
    except Exception:
        hint = did_you_mean(str(kind), [*_TYPES, *(f"*{t}" for t in _TYPES)]) or "a type is such as i32, fp32 or *fp32"
        raise PTXError(Diagnostic("error", f"parameter {name}: {kind!r} is not a type of Triton", hint=hint)) from None


def dump(
    function: Any,
    signature: dict[str, str] | None = None,
    constants: dict[str, Any] | None = None,
    *,
    arch: str = "sm_90",
    sugar: bool = True,
    **options: Any,
) -> str:
    """A Python program that makes the PTX of a `triton.jit` function or of a compiled kernel, to edit: executed, it leaves the module
    in `m`, which `override` takes. `sugar=False`: one call for each statement. The others: see `ptx`.
    """
    text = ptx(function, signature, constants, arch=arch, **options)
    return ptx_to_python(text + "\n", sugar=sugar, kernel_name=None)


def kernel(
    function: Any,
    signature: dict[str, str] | None = None,
    constants: dict[str, Any] | None = None,
    *,
    arch: str = "sm_90",
    **options: Any,
) -> LoadedKernel:
    """A `triton.jit` function or compiled kernel as `pyptx.load` gives kernels: to simulate, analyse, transpile, edit or launch. See `ptx`."""
    text = ptx(function, signature, constants, arch=arch, **options)
    name = getattr(function, "__name__", "triton")
    return next(iter(load(parse_text(text + "\n", f"<{name}>")).values()))


def _tell(launch: Launch, on_finding: str) -> None:
    from ...runtime.simulated import tell

    report = launch.report
    if on_finding == "warn":
        tell(report)
        return
    if report.output:
        sys.stdout.write(report.output)
    if on_finding == "raise" and report.errors:
        error = SimulationError(f"{launch.kernel}: the launch broke a rule")  # the text begins with the findings
        error.report = report
        raise error
