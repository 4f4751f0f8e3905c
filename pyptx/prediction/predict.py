"""From a kernel object, its arguments and the name of a card to a prediction."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..diagnostics import PTXError, UsageError
from ..dialects.ptx.structure import ModuleOp
from ..dialects.ptx.target import runs_on
from ..frontend.kernel.build import printed_lines
from ..printer.ptx import print_module
from ..sass import assemble
from ..simulator.launch.arguments import place_arguments
from ..simulator.launch.launch import checked_launch
from ..simulator.launch.loaded import LoadedKernel, load
from ..simulator.launch.options import whole_number
from ..simulator.launch.prepared import Prepared, prepare
from ..simulator.machine.global_memory import Allocation, GlobalMemory
from .bounds import count
from .cards import Card, card_of
from .emulation import Buffer, Geometry, in_bank
from .kept import kept_or_made
from .model import Model, predict_function
from .pipes import not_replayed
from .places import Places
from .result import Prediction
from .variants import Question

__all__ = ["predict"]

MOST_SAMPLED = 256


def predict(
    kernel: Any,
    *args: object,
    card: str,
    clock: float | None = None,
    grid: Any = None,
    block: Any = None,
    cluster: Any = None,
    smem: int = 0,
    registers: int | None = None,
    sample: int | None = None,
) -> Prediction:
    """The predicted time of a launch on a card, without that card.

    `kernel` and `args` are those of `simulate`, or PTX as text or a path if it has one entry; arrays are read where addresses or
    branches depend on them, and never written. `card`: a name such as `"H100 SXM"` (`prediction.CARDS` has all); `clock`: GHz, default is the card's
    boost clock; `grid`, `block`, `cluster`, `smem`: as for `simulate`; `registers`: at most so many for each thread, as ptxas's `-maxrregcount`;
    `sample`: for grids whose CTAs differ, how many of them, drawn at random, represent all (default: up to four of one SM).

    PTXError: an unknown card, a kernel that is for another architecture, one that does not fit on an SM. SimulationError: wrong arguments or launch
    shape, no llvmlite. `pyptx.runtime.compile.NoCompiler` without ptxas, `pyptx.runtime.ptxas.ToolNotFound` without nvdisasm.
    """
    wanted = card_of(card)
    given = {"grid": grid, "block": block, "cluster": cluster, "smem": smem}
    return _predict(kernel, args, given, wanted, clock, registers, _checked_sample(sample))


def _predict(
    kernel: Any,
    args: tuple[object, ...],
    given: dict[str, Any],
    wanted: Card,
    clock: float | None,
    registers: int | None,
    sample: int | None,
) -> Prediction:
    ghz = _checked_clock(clock)
    options = _register_option(registers)
    prepared = prepare(_loaded(kernel), args, given, "predict")
    launch = launch_of(prepared)
    arch = arch_for(launch.target, wanted)
    listing = assemble(launch.text, arch, options=options)
    function = listing[launch.name]
    geometry = launch.geometry(arch, function.shared_bytes)

    def made() -> Prediction:
        counted = count(prepared, geometry) if not_replayed(function) else None
        return predict_function(
            function, geometry, wanted, clock=ghz, places=launch.places, counted=counted, sample=sample
        )

    python = sorted(launch.places.python.items())
    found = kept_or_made((listing.cubin, launch.name, launch.text, python, wanted, ghz, sample), geometry, made)

    def again(**change: Any) -> Prediction:
        other = card_of(change["card"]) if "card" in change else wanted
        return _predict(
            change.get("kernel", kernel),
            args,
            given,
            other,
            change.get("clock", clock),
            change.get("registers", registers),
            sample,
        )

    def model() -> Model | None:
        if not_replayed(function):
            return None
        return Model(function, geometry, wanted, ghz or wanted.boost_ghz.value, function.registers, sample)

    return replace(found, question=Question(again, model, ghz, launch.places))


@dataclass(frozen=True)
class LaunchOf:
    """What a prediction needs of a launch."""

    text: str
    """Of the PTX."""
    name: str
    target: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    parameters: bytes
    slots: tuple[tuple[int, int, int], ...]
    """Offset, size and alignment of each parameter."""
    allocations: tuple[Allocation, ...]
    cluster: tuple[int, int, int]
    dynamic: int
    """Bytes of shared memory that the launch adds."""
    places: Places

    def geometry(self, arch: str, shared: int) -> Geometry:
        buffers = [Buffer(a.base, a.size, a.data) for a in self.allocations]
        parameters = in_bank(arch, self.parameters, self.slots)
        return Geometry(
            self.grid, self.block, parameters, buffers, self.allocations, shared + self.dynamic, self.cluster
        )


def launch_of(prepared: Prepared) -> LaunchOf:
    """Addresses for the arguments, the bytes of the parameters, and the PTX that ptxas gets."""
    loaded = prepared.loaded
    program = loaded.program(prepared.name)
    launch = checked_launch(program, prepared.options)
    memory = GlobalMemory()
    variables = [v for v in loaded.image.variables.values() if v.space in ("global", "const")]
    for variable in variables:
        contents = loaded.contents[variable.name]
        memory.add(Allocation(variable.name, variable.address, contents, variable.space == "const"))
    parameters = place_arguments(program, prepared.args, memory, (), prepared.options.memory)
    slots = tuple((p.offset, p.size, p.alignment if p.array else p.size) for p in program.parameters)
    allocations = tuple(a for a in memory.allocations if a.size)
    text = print_module(loaded.module)
    return LaunchOf(
        text, prepared.name, loaded.module.target.target, launch.grid, launch.block, parameters.tobytes(), slots, allocations, launch.cluster,
        launch.dynamic_shared, _places(loaded.module, text),
    )  # fmt: skip


def _places(module: ModuleOp, text: str) -> Places:
    """The lines of the text, and of Python where a trace made the module."""
    python: dict[int, tuple[str, int]] = {}
    whole = module.parent_op()
    if isinstance(whole, BuiltinModule) and any(_in_python(op) for op in module.walk()):
        for number, op in printed_lines(whole, text):
            if (place := _in_python(op)) is not None:
                python[number] = place
    return Places(text.split("\n"), python)


def _in_python(op: Operation) -> tuple[str, int] | None:
    location = op.location
    if isinstance(location, FileLineColLoc) and location.filename.data.endswith(".py"):
        return location.filename.data, location.line.data
    return None


def arch_for(target: str, card: Card) -> str:
    """What ptxas makes code for. PTXError where the text's target does not run on the card."""
    if not runs_on(target, card.arch):
        raise PTXError(
            f"the kernel is for {target}, and {card.name} is {card.arch}: choose a card of that architecture"
        )
    return card.arch


def _loaded(kernel: Any) -> Any:
    """PTX text and paths as a kernel; other objects as they are."""
    if not isinstance(kernel, (str, os.PathLike)):
        return kernel
    entries: dict[str, LoadedKernel] = dict(load(kernel))
    if len(entries) != 1:
        listed = ", ".join(entries) or "none"
        raise PTXError(
            f"predict needs one kernel, and the text has {len(entries)} ({listed}): choose one, pyptx.load(text)[name]"
        )
    return next(iter(entries.values()))


def _checked_clock(clock: Any) -> float | None:
    if clock is None:
        return None
    if isinstance(clock, bool) or not isinstance(clock, (int, float)) or not 0.1 <= clock <= 10:
        raise UsageError(f"clock must be a number of GHz, such as 1.755, not {clock!r}")
    return float(clock)


def _checked_sample(sample: Any) -> int | None:
    if sample is None:
        return None
    count = whole_number(sample, "sample")
    if not 1 <= count <= MOST_SAMPLED:
        raise UsageError(f"sample must be between 1 and {MOST_SAMPLED} CTAs, not {count}")
    return count


def _register_option(registers: Any) -> tuple[str, ...]:
    if registers is None:
        return ()
    count = whole_number(registers, "registers")
    if not 16 <= count <= 255:
        raise UsageError(f"registers must be between 16 and 255, not {count}")
    return (f"-maxrregcount={count}",)
