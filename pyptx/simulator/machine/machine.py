"""The state of a batch of CTAs that run together, and the binding of decoded instructions to it.

All threads of a batch are one array axis (`lanes`): lane = cta * padded + thread, where each CTA is padded
to whole warps. A register is
a row over all lanes. Binding an instruction gives closures over rows, so that nothing is looked up while it
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ...diagnostics import Diagnostic, SimulationError
from .arithmetic import Arithmetic
from .memory import Access, GlobalMemory
from .observe import Observer
from .payload import Payload
from .pending import Pending
from .program import (
    CLUSTER_SHIFT,
    GRID_BASE,
    LOCAL_BASE,
    PER_CTA_BASE,
    Imm,
    Inst,
    Name,
    Not,
    Operand,
    Place,
    Program,
    Reg,
    Sink,
    Special,
    Vec,
)
from .registry import MEANINGS, Collective, Meaning, Pure, Step, dtype_of
from .shared_names import SharedNames
from .tensor_memory import TensorMemory

Array = Any
Full = Callable[[], object]
Masked = Callable[[Array], object]

_ROW_TYPES = {
    "p": np.bool_,
    "8": np.uint8,
    "16": np.uint16,
    "32": np.uint32,
    "64": np.uint64,
    "128": np.uint64,
}
POISON = 0xCD
SMALL = 1024
"""Up to so many lanes constants are full rows: NumPy broadcasts one element more slowly than it reads a
short row.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """A checked launch: sizes as (x, y, z)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    explicit_cluster: bool = False
    per_cta: int = 0
    """Bytes of global memory that each CTA has for itself."""
    cooperative: bool = False
    """Whether all CTAs are live at once and have a barrier of the grid."""
    programmatic: bool = False
    """Whether the grid before it may still run, and the next one may begin."""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def grid_size(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_size(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class Machine:
    """Registers, shared and local memory of `ctas` CTAs that are live at once."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        memory: GlobalMemory,
        parameters: np.ndarray,
        ctas: int,
        seed: int = 0,
        observers: Sequence[Observer] = (),
        arithmetic: Arithmetic | None = None,
    ):
        self.program, self.launch, self.memory, self.parameters, self.ctas = (
            program,
            launch,
            memory,
            parameters,
            ctas,
        )
        self.seed = seed
        self.shared_names = SharedNames(program, launch.dynamic_shared)
        self.arithmetic = arithmetic or Arithmetic(target=program.target)
        self.padded = (launch.threads + 31) // 32 * 32
        self.lanes = ctas * self.padded
        self.warps = self.lanes // 32
        lanes = self.lanes
        self.pools: dict[str, np.ndarray] = {}
        for pool, count in program.pools.items():
            shape = (count, 2, lanes) if pool == "128" else (count, lanes)
            rows = np.empty(shape, _ROW_TYPES[pool])
            rows.view(np.uint8)[...] = 0 if pool == "p" else POISON
            self.pools[pool] = rows
        self.lane_numbers = np.arange(lanes)
        self.cta_of_lane = self.lane_numbers // self.padded
        self.thread_of_lane = self.lane_numbers % self.padded
        self.lane_in_warp = (self.lane_numbers % 32).astype(np.uint32)
        self.shared_size = program.dynamic_offset - 0x400 + launch.dynamic_shared
        stride = max(128, (self.shared_size + 127) // 128 * 128)
        self.shared = np.full((ctas, stride), POISON, np.uint8)
        self.local_size = max(0, program.local_size - LOCAL_BASE)
        self.local = np.full((lanes, max(32, (self.local_size + 31) // 32 * 32)), POISON, np.uint8)
        self.stack_top = np.full(lanes, program.dynamic_start, np.uint32)
        """Where the next `alloca` of each lane begins."""
        self.cluster_size = launch.cluster_size
        ranks = self.cta_of_lane % self.cluster_size
        self.rank_bits: Array = (ranks << CLUSTER_SHIFT).astype(np.uint32) if self.cluster_size > 1 else None
        """What the .shared addresses of each lane's CTA have in bits 24 and up; None without clusters."""
        self.first_cta = 0
        self.next_cta = 0
        self.grid_end = launch.grid_size
        """CTAs from `next_cta` to `grid_end` have not begun; cluster launch control takes from the end."""
        self.live = np.zeros(lanes, np.bool_)
        self.alive: Array = None
        """Lanes that have not exited; None while all lanes are alive."""
        self.clock = 0
        self._special: dict[str, np.ndarray] = {}
        self._constants: dict[tuple[str, bytes], np.ndarray] = {}
        self._scratch: dict[Callable[..., Array], Callable[..., Array]] = {}
        self._index_buffers: dict[np.dtype[Any], tuple[Array, Array, Array]] = {}
        self._lanes_of: tuple[Array, Array] = (None, None)
        self.accesses: dict[Inst, Access] = {}
        """The memory operand of each bound instruction; of several, or several bindings, the last."""
        self.output: list[str] = []
        self.payloads: dict[int, Payload] = {}
        """The mbarriers of the batch with `.layout::v1`, by their 8-byte word in the flat shared memory."""
        self.tmem: TensorMemory | None = None
        self.pending = Pending(self, seed)
        self.observers = list(observers)
        for observer in self.observers:
            observer.attach(self)

    #
    #
    #
    #
    # ----------------------------------------------------------------------------------------------------------- batch

    def start(self, first_cta: int, count: int) -> None:
        """Make the machine run CTAs `first_cta` to `first_cta + count - 1` (in x, y, z order of the grid)."""
        self.first_cta, self.next_cta = first_cta, first_cta + count
        live = (self.thread_of_lane < self.launch.threads) & (self.cta_of_lane < count)
        self.live = live
        self.set_alive(live)
        self.shared[...] = POISON
        self.local[...] = POISON
        self.stack_top[...] = self.program.dynamic_start
        self.pending.reset()
        self.payloads.clear()
        if self.tmem is not None:
            self.tmem.reset()
        for reg in self.program.frame_pointers:
            self.row(reg)[...] = self.program.stack_start
        for name, array in self._special.items():
            array[...] = self._special_value(name)

    def cancel_cluster(self) -> int | None:
        """Cancel the last cluster that has not begun: the number of its first CTA, or None."""
        if self.grid_end - self.cluster_size < self.next_cta:
            return None
        self.grid_end -= self.cluster_size
        return self.grid_end

    def set_alive(self, alive: np.ndarray) -> None:
        self.alive = None if np.count_nonzero(alive) == self.lanes else alive
        self._lanes_of = (None, None)

    def cluster_start(self, cta: np.ndarray) -> np.ndarray:
        """Batch numbers of the first CTA of the clusters that CTAs are in. CTAs of a cluster are neighbours
        in a batch.
        """
        return cta // self.cluster_size * self.cluster_size

    def lanes_of(self, mask: np.ndarray) -> np.ndarray:
        """The numbers of the lanes in a mask; the answer for the latest mask is kept (masks are never
        changed in place).
        """
        if self._lanes_of[0] is not mask:
            self._lanes_of = (mask, np.flatnonzero(mask))
        return self._lanes_of[1]

    def index_buffers(self, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
        """Two rows of an address type and one of indices, for one instruction at a time."""
        found = self._index_buffers.get(dtype)
        if found is None:
            found = np.empty(self.lanes, dtype), np.empty(self.lanes, dtype), np.empty(self.lanes, np.int64)
            self._index_buffers[dtype] = found
        return found

    def cta_index(self, cta: np.ndarray | int) -> tuple[Array, Array, Array]:
        """%ctaid of CTAs given by their number in the batch. With clusters, CTAs are numbered cluster by
        cluster.
        """
        number = np.asarray(cta) + self.first_cta
        gx, gy, _ = self.launch.grid
        if self.cluster_size == 1:
            return number % gx, number // gx % gy, number // (gx * gy)
        cx, cy, _ = self.launch.cluster
        cluster, rank = number // self.cluster_size, number % self.cluster_size
        nx, ny = gx // cx, gy // cy
        return (
            cluster % nx * cx + rank % cx,
            cluster // nx % ny * cy + rank // cx % cy,
            cluster // (nx * ny) * self.launch.cluster[2] + rank // (cx * cy),
        )

    def describe_thread(self, lane: int) -> str:
        x, y, z = self.cta_index(int(self.cta_of_lane[lane]))
        t = int(self.thread_of_lane[lane])
        bx, by, _ = self.launch.block
        return f"thread ({t % bx}, {t // bx % by}, {t // (bx * by)}) of CTA ({int(x)}, {int(y)}, {int(z)})"

    def fault(self, inst: Inst, message: str, lane: int | None = None, hint: str | None = None) -> NoReturn:
        """Stop with a SimulationError that names the instruction, its place and the thread."""
        raise SimulationError(self.diagnostic(inst, message, lane, hint))

    def diagnostic(self, inst: Inst, message: str, lane: int | None = None, hint: str | None = None) -> Diagnostic:
        where = "" if lane is None else f", {self.describe_thread(lane)}"
        text = f"{message} (instruction `{inst.text}`{where})"
        return Diagnostic("error", text, inst.filename, inst.line, inst.column, hint, origin=self.program.origin(inst))

    #
    #
    #
    #
    # -------------------------------------------------------------------------------------------------------- operands

    def row(self, reg: Reg) -> np.ndarray:
        """A register's storage over all lanes: unsigned of its width, or bool. Shape (lanes,), 128-bit ones
        (2, lanes).
        """
        return self.pools[reg.pool][reg.slot]

    def address_of(self, place: Place) -> int:
        """A variable's address in its space (without the frame pointer)."""
        if place.space == "shared" and place.size == -1:
            return self.program.dynamic_offset + place.address
        return place.address

    def source(self, operand: Operand, type_name: str, *, whole: bool = False) -> np.ndarray:
        """A readable array of an operand in a scalar type: a view of the register, or one element for a
        constant.
        """
        dtype = dtype_of(type_name)
        match operand:
            case Reg():
                row = self.row(operand)
                if row.dtype == dtype or operand.pool == "128":
                    return row
                if row.dtype.itemsize == dtype.itemsize:
                    return row.view(dtype)
                if row.dtype.itemsize > dtype.itemsize:
                    return row.view(dtype)[:: row.dtype.itemsize // dtype.itemsize]
                what = "predicate" if operand.pool == "p" else f"{row.dtype.itemsize * 8}-bit register"
                raise SimulationError(f"a {what} is read as .{type_name}")
            case Imm():
                array = operand.array(dtype)
            case Place():
                unsigned = np.dtype(f"u{dtype.itemsize}")
                array = np.array([self.address_of(operand)], np.uint64).astype(unsigned).view(dtype)
                if operand.space == "shared" and self.rank_bits is not None:
                    return self.rank_bits.astype(unsigned).view(dtype) + array
            case Special(name):
                special = self.special(name)
                if special.dtype.itemsize < dtype.itemsize:
                    return special.astype(dtype)
                if special.dtype == dtype:
                    return special
                return special.view(np.dtype(f"u{dtype.itemsize}"))[:: special.dtype.itemsize // dtype.itemsize].view(
                    dtype
                )
            case Vec((single,)):  # CUTLASS writes the scale factors of mma so
                return self.source(single, type_name, whole=whole)
            case Name(name):
                raise SimulationError(f"{name} is a place in the code, which has no address in memory")
            case _:
                raise SimulationError(f"this operand cannot be read: {operand}")
        if whole or self.lanes <= SMALL:
            return self._constant(array)
        return array

    def _constant(self, array: np.ndarray) -> np.ndarray:
        """A constant as a full row, shared by all instructions that use it."""
        key = (array.dtype.str, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = np.repeat(array, self.lanes)
            found.flags.writeable = False
        return found

    def destination(self, operand: Operand, type_name: str) -> tuple[np.ndarray, np.dtype[Any] | None] | None:
        """(array to write, dtype to view the result as before, or None), or None for the sink.

        A register wider than the type gets the value extended: sign-extended for signed types, else with
        zeros.
        """
        if isinstance(operand, Vec) and len(operand.elements) == 1:
            operand = operand.elements[0]
        if isinstance(operand, Sink):
            return None
        assert isinstance(operand, Reg), operand
        dtype = dtype_of(type_name)
        row = self.row(operand)
        if operand.pool in ("128", "p") or row.dtype == dtype:
            return row, None
        if row.dtype.itemsize == dtype.itemsize:
            return row.view(dtype), None
        if dtype.kind == "i":
            return row.view(np.dtype(f"i{row.dtype.itemsize}")), None
        return row, (np.dtype(f"u{dtype.itemsize}") if dtype.kind == "f" else None)

    # ------------------------------------------------------------------------------------------------
    # special registers

    def special(self, name: str) -> np.ndarray:
        """The values of a special register, one per lane; refreshed for each batch."""
        found = self._special.get(name)
        if found is None:
            value = self._special_value(name)
            found = self._special[name] = np.array(np.broadcast_to(value, self.lanes))
        return found

    def _special_value(self, name: str) -> np.ndarray:
        base, _, element = name.partition(".")
        base = base[1:]
        axis = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}.get(element, 0)
        launch = self.launch
        thread = self.thread_of_lane
        bx, by, _ = launch.block
        u32 = np.uint32
        if base in (
            "tid",
            "ntid",
            "ctaid",
            "nctaid",
            "clusterid",
            "nclusterid",
            "cluster_ctaid",
            "cluster_nctaid",
        ):
            if axis == 3:
                return np.zeros(1, u32)
            cta = self.cta_index(self.cta_of_lane)
            value: Array = {
                "tid": lambda: (thread % bx, thread // bx % by, thread // (bx * by)),
                "ntid": lambda: launch.block,
                "ctaid": lambda: cta,
                "nctaid": lambda: launch.grid,
                "clusterid": lambda: tuple(c // s for c, s in zip(cta, launch.cluster, strict=True)),
                "nclusterid": lambda: tuple(g // s for g, s in zip(launch.grid, launch.cluster, strict=True)),
                "cluster_ctaid": lambda: tuple(c % s for c, s in zip(cta, launch.cluster, strict=True)),
                "cluster_nctaid": lambda: launch.cluster,
            }[base]()[axis]
            return np.atleast_1d(np.asarray(value)).astype(u32)
        lane = self.lane_in_warp
        one = u32(1)
        match base:
            case "laneid":
                return lane
            case "warpid":
                return (thread // 32).astype(u32)
            case "nwarpid":
                return np.array([self.padded // 32], u32)
            case "smid":
                return (self.cta_of_lane % 132).astype(u32)
            case "nsmid":
                return np.array([132], u32)
            case "gridid":
                return np.ones(1, np.uint64)
            case "lanemask_eq":
                return one << lane
            case "lanemask_lt":
                return (one << lane) - one
            case "lanemask_le":
                return (u32(2) << lane) - one
            case "lanemask_gt":
                return ~((u32(2) << lane) - one)
            case "lanemask_ge":
                return ~((one << lane) - one)
            case "clock" | "clock_hi" | "globaltimer_lo" | "globaltimer_hi":
                return np.array([self.clock >> (32 if base.endswith("hi") else 0) & 0xFFFFFFFF], u32)
            case "clock64" | "globaltimer":
                return np.array([self.clock], np.uint64)
            case "total_smem_size" | "aggr_smem_size":
                return np.array([self.shared_size], u32)
            case "dynamic_smem_size":
                return np.array([launch.dynamic_shared], u32)
            case "cluster_ctarank":
                return (self.cta_of_lane % self.cluster_size).astype(u32)
            case "cluster_nctarank":
                return np.array([self.cluster_size], u32)
            case "is_explicit_cluster":
                return np.array([launch.explicit_cluster])
            case "perctamemorysize":
                return np.array([launch.per_cta], u32)
            case "perctamemoryoffset":
                x, y, z = self.cta_index(self.cta_of_lane)
                number = x + launch.grid[0] * (y + launch.grid[1] * z)
                return (PER_CTA_BASE + launch.per_cta * number.astype(np.uint64)).astype(np.uint64)
            case "reserved_smem_offset_end" | "reserved_smem_offset_cap" | "reserved_smem_offset_1":
                return np.array([0x400], u32)
            case "envreg1" | "envreg2" if launch.cooperative:
                return np.array([GRID_BASE >> (32 if base == "envreg1" else 0) & 0xFFFF_FFFF], u32)
            case _:
                wide = base.endswith("_64") or base == "current_graph_exec"
                return np.zeros(1, np.uint64 if wide else u32)

    #
    #
    #
    #
    # ---------------------------------------------------------------------------------------------------------- warps

    def ballot(self, lanes: np.ndarray) -> np.ndarray:
        """One bit per lane, one 32-bit word per warp: shape (warps,)."""
        return np.packbits(lanes, bitorder="little").view(np.uint32)

    def per_lane(self, per_warp: np.ndarray) -> np.ndarray:
        return np.repeat(per_warp, 32)

    def executing(self, mask: Array) -> np.ndarray:
        """The mask as an array, whatever None stands for."""
        if mask is not None:
            return mask
        return np.ones(self.lanes, np.bool_) if self.alive is None else self.alive

    #
    #
    #
    #
    # --------------------------------------------------------------------------------------------------------- binding

    def meaning(self, inst: Inst) -> Meaning:
        """What an instruction does; SimulationError if the machine does not know."""
        found = MEANINGS.get(inst.opcode)
        if found is None:
            self.fault(inst, f"the simulator does not execute {inst.opcode} yet")
        return found(inst)

    def bind(self, inst: Inst) -> tuple[Full, Masked]:
        """(run for all lanes alive, run for a mask of lanes) of an instruction that does not wait."""
        full, masked = self._bind(inst)
        if not self.observers:
            return full, masked

        def either(mask: Array) -> object:
            return full() if mask is None else masked(mask)

        action = self.observed(inst, either)
        if action is either:
            return full, masked
        return lambda: action(self.alive), action

    def observed(self, inst: Inst, action: Masked) -> Masked:
        """An instruction's action as the observers watch it, if there are any."""
        for observer in self.observers:
            action = observer.bound(inst, action)
        return action

    def _bind(self, inst: Inst) -> tuple[Full, Masked]:
        try:
            return self._bound(inst)
        except SimulationError as error:
            if error.diagnostics[0].line is not None:
                raise
            self.fault(inst, error.diagnostics[0].message)

    def _bound(self, inst: Inst) -> tuple[Full, Masked]:
        what = self.meaning(inst)
        if isinstance(what, Pure):
            full, masked = self._bind_pure(inst, what)
            if inst.guard is None:
                return full, masked
            return self._guarded(inst, masked)
        if isinstance(what, (Step, Collective)):
            action = what.bind(self, inst)
            if inst.guard is not None:
                return self._guarded(inst, action)
            return lambda: action(self.alive), action
        raise AssertionError(f"{inst.opcode} waits and must end its segment")

    def guard_of(self, inst: Inst, mask: Array) -> Array:
        """The lanes of a mask whose guard holds."""
        assert inst.guard is not None
        p = self.row(inst.guard)
        p = ~p if inst.negated else p.copy()
        if mask is None:
            return p
        return p & mask

    def active(self, inst: Inst, mask: Array) -> np.ndarray:
        """The lanes of a mask (None: all alive) in which the instruction takes effect."""
        here = self.executing(mask)
        return here if inst.guard is None else self.guard_of(inst, here)

    def _guarded(self, inst: Inst, masked: Callable[[Array], object]) -> tuple[Full, Masked]:
        assert inst.guard is not None
        p = self.row(inst.guard)
        negated = inst.negated

        def run(mask: Array) -> None:
            m = ~p if negated else p.copy()
            if mask is not None:
                m &= mask
            if np.count_nonzero(m):
                masked(m)

        return lambda: run(self.alive), run

    def _bind_pure(self, inst: Inst, what: Pure) -> tuple[Full, Masked]:
        function = what.function
        if what.scratch:
            made = self._scratch.get(function)
            if made is None:
                made = self._scratch[function] = function(self.lanes)
            function = made
        if what.approximate and self.arithmetic.noise is not None:
            function = partial(function, perturb=self.arithmetic.noise)
        flips = [isinstance(o, Not) for o, _ in what.sources]
        sources = [self.source(o.operand if isinstance(o, Not) else o, t, whole=what.whole) for o, t in what.sources]
        ufunc = what.ufunc
        if ufunc:
            # a ufunc takes a single number faster than an array of one element
            sources = [s.reshape(()) if s.size == 1 and self.lanes > 1 else s for s in sources]
        if any(flips):
            inner = function
            ufunc = False
            function = lambda *xs: inner(*[~x if flip else x for x, flip in zip(xs, flips, strict=True)])  # noqa: E731
        targets = [self.destination(o, t) for o, t in what.destinations]
        keep = inst.guard is None and all(o in inst.local for o, _ in what.destinations if isinstance(o, Reg))
        if len(targets) == 1:
            target = targets[0]
            if target is None:
                return (lambda: None), (lambda m: None)
            d, view = target
            if view is not None:
                unviewed = function
                ufunc = False
                function = lambda *xs: np.asarray(unviewed(*xs)).view(view)  # noqa: E731
            return _closures(function, sources, d, ufunc, keep)
        return _closures_many(function, sources, targets, keep)


def _closures(
    function: Callable[..., Array], sources: list[np.ndarray], d: np.ndarray, ufunc: bool, keep: bool
) -> tuple[Full, Masked]:
    copyto = np.copyto
    every = Ellipsis
    if len(sources) == 1:
        (a,) = sources
        if ufunc:

            def full() -> None:
                function(a, d)
        else:

            def full() -> None:
                d[every] = function(a)

        def masked(m: Array) -> None:
            copyto(d, function(a), "unsafe", m)

    elif len(sources) == 2:
        a, b = sources
        if ufunc:

            def full() -> None:
                function(a, b, d)
        else:

            def full() -> None:
                d[every] = function(a, b)

        def masked(m: Array) -> None:
            copyto(d, function(a, b), "unsafe", m)

    else:
        if ufunc:

            def full() -> None:
                function(*sources, d)
        else:

            def full() -> None:
                d[every] = function(*sources)

        def masked(m: Array) -> None:
            copyto(d, function(*sources), "unsafe", m)

    if keep:
        return full, lambda m: full()
    return full, masked


def _closures_many(
    function: Callable[..., Array],
    sources: list[np.ndarray],
    targets: list[tuple[np.ndarray, np.dtype[Any] | None] | None],
    keep: bool,
) -> tuple[Full, Masked]:
    def full() -> None:
        for r, target in zip(function(*sources), targets, strict=True):
            if target is not None:
                target[0][...] = r if target[1] is None else np.asarray(r).view(target[1])

    def masked(m: Array) -> None:
        results = [np.array(r) for r in function(*sources)]
        for r, target in zip(results, targets, strict=True):
            if target is not None:
                np.copyto(target[0], r if target[1] is None else r.view(target[1]), "unsafe", m)

    def many() -> None:
        # results may be views of registers that an earlier destination overwrites
        for r, target in zip([np.array(r) for r in function(*sources)], targets, strict=True):
            if target is not None:
                target[0][...] = r if target[1] is None else r.view(target[1])

    del full
    return many, (lambda m: many()) if keep else masked
