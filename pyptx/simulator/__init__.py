"""The CPU machine: kernels run without a GPU, bit for bit, and what a GPU would fault on stops with its
place.

    report = simulate(kernel, x, y, n, grid=16, block=128)

`engine/decode` makes a program (plain data), which `engine/engine` runs on a `machine/machine` (NumPy, all threads of a
batch of CTAs at once); `semantics/` has one meaning per instruction, `pyptx.numerics` the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .launch.device_memory import DeviceBuffer, DeviceMemory
from .launch.launch import simulate_entry
from .launch.loaded import LoadedKernel, load
from .launch.options import Workers
from .launch.prepared import prepare
from .launch.report import Line, Report
from .launch.simulated_driver import SimulatedDriver
from .machine.endpoint import Endpoint
from .machine.machine import Observer
from .machine.texture import Sampler, Surface, Texture
from .observers.numerics import Numerics
from .observers.profile import Profile
from .observers.timeline import Timeline
from .observers.trace import Step, Stored, ThreadName
from .tensor.tile_maps import tensor_map

__all__ = [
    "DeviceBuffer",
    "DeviceMemory",
    "Endpoint",
    "Line",
    "LoadedKernel",
    "Numerics",
    "Observer",
    "Profile",
    "Report",
    "Sampler",
    "SimulatedDriver",
    "Step",
    "Stored",
    "Surface",
    "Texture",
    "Timeline",
    "load",
    "simulate",
    "tensor_map",
]


def simulate(
    kernel: Any,
    *args: object,
    grid: Any = None,
    block: Any = None,
    cluster: Any = None,
    smem: int = 0,
    check: bool = True,
    seed: int = 0,
    max_steps: int | None = None,
    trace: Callable[[str], object] | None = None,
    on_instruction: Callable[[Step], object] | None = None,
    on_store: Callable[[Stored], object] | None = None,
    threads: Sequence[ThreadName] | None = None,
    profile: bool = False,
    numerics: bool = False,
    observers: Sequence[Observer] = (),
    arithmetic: str = "hardware",
    arch: str | None = None,
    approx: str = "rounded",
    engine: str | None = None,
    schedules: int | None = None,
    schedule: int | str | None = None,
    cooperative: bool | None = None,
    programmatic: bool = False,
    memory: DeviceMemory | None = None,
    workers: Workers | None = None,
    sample: float | None = None,
) -> Report:
    """Run a kernel on the CPU.

    `kernel`: a traced `Kernel`, a `LoadedKernel`, an entry op or a module with one entry. `args`, in
    parameter order: NumPy arrays and CPU
    torch tensors (contiguous; changed in place) for pointers, numbers for scalars, bytes for structs,
    `tensor_map(array, box, ...)` for tensor maps (those of a traced kernel follow from its tiles), `Texture`,
    `Surface` and `Sampler` for handles, `Endpoint` for endpoints of the fabric.
    `grid`, `block`, `cluster`: an
    integer or up to three; `smem`: bytes of dynamic shared memory; `max_steps`: instructions that may be
    issued to one batch of CTAs.

    `check`: look for mistakes that a GPU does not report (`Report.findings`, rules in `sanitizer`); `seed`: 0
    completes copies at once and runs warps in order, another number delays and shuffles what PTX leaves open.
    `schedules`: in how many orders the kernel runs, chosen to differ (`schedule`), the inputs restored between them; the
    results and counts are those of the first, the order of the seed, and the findings of all are merged. None: as many as
    find something new at twice the first one's cost with `check`, else one. `schedule`: run only this one, by its number or
    by the token that a finding names (`"0:3"`).
    `trace`: called with a line per executed instruction of `threads` ((%ctaid or number of the CTA, number of the
    thread); default the first), `on_instruction` and `on_store` with `trace.Step` and `trace.Stored`; `profile`:
    fill `Report.profile`; `numerics`: fill `Report.numerics`, what the sums of matrix instructions lose; `observers`: more, such as a `Timeline`.

    What PTX leaves open in arithmetic: `arithmetic="hardware"` sums the products of matrix multiplications as the tensor cores of
    `arch` do (None: the module's target; docs/simulator.md), `"exact"` rounds the true sum once, `"random"` adds them in random
    groups and order. `approx="rounded"` rounds `.approx` functions correctly, `"random"` gives them errors within the documented
    ones. What is random follows from `seed`.

    `engine`: `"numpy"`; `"jit"`, which compiles runs of straight-line instructions with llvmlite (the extra `jit`);
    `"auto"`, which compiles those that are executed often, where llvmlite is installed, and those that the disk cache has. None: the
    environment's PYPTX_ENGINE, else `"auto"`. All give the same bits. What is watched (`check`, `trace`, `profile`, ...) runs in NumPy.

    `cooperative`: all CTAs run at once and can wait for each other by the barrier of the grid, `cg::this_grid().sync()` (a traced kernel
    says it in its decorator).

    `programmatic`: a programmatic dependent launch: with `check`, reads of global memory before griddepcontrol.wait and stores after
    griddepcontrol.launch_dependents are warnings.

    `memory`: a `DeviceMemory`, whose allocations the kernel reaches by their addresses and which outlives the launch.

    `workers`: run CTAs in several processes: how many, a `concurrent.futures.Executor`, or `"joblib"` for the backend that is active there
    (docs/workers.md). Results and findings are those of one process; CTAs that learn of each other run together (`Report.together`).
    `sample`: run about this share of the CTAs, evenly spaced, for profiles of large grids; what the others write is not written.

    In a terminal, a launch of several seconds shows its progress where tqdm is installed. Ctrl-C raises KeyboardInterrupt, whose `report` has what
    was done until then.

    SimulationError: wrong arguments or launch shape, `engine="jit"` without llvmlite, an access out of bounds or misaligned, a deadlock, too
    many steps.
    """
    given = {k: v for k, v in locals().items() if k not in ("kernel", "args")}
    p = prepare(kernel, args, given, "simulate")
    return simulate_entry(p.loaded, p.name, p.args, p.options, named=p.named)
