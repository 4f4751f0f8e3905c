"""Two versions of a kernel on the same inputs, on the simulator: where they differ first (`pyptx diff --run`).

Grid, block, arrays and sizes are guesses from both kernels, as `pyptx transpile --runnable` makes them, where they are not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import StringAttr

from ..codegen import read_module
from ..codegen.guesses import Functions, Guess, Guesses, declarations, guess
from ..codegen.launch_guess import EXTENT, EXTENTS, array_type, box_of, launch_of, shared_address
from ..diagnostics import PTXError, SimulationError, UsageError, did_you_mean
from ..parser.module import parse_text
from ..parser.module_text import ModuleText
from ..simulator import DeviceMemory, LoadedKernel, Observer, Surface, Texture, load, tensor_map
from ..simulator.machine.machine import Machine
from ..simulator.machine.memory import Access
from ..simulator.machine.program import Inst
from ..ssa.builder import FunctionSource
from ..types import from_name
from .hostile import Case, cases

__all__ = ["Comparison", "Difference", "Outcome", "Settings", "Store", "Version", "compare"]

Array = Any
_FLOATS = {"f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
MOST_BYTES = 1 << 30
"""Of the arrays that one version gets."""
MOST_WATCHED = 4096
"""Elements that differ whose stores are looked at."""


@dataclass(frozen=True)
class Settings:
    """What the person said; None and empty: to be guessed."""

    entry: str | None = None
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    cluster: tuple[int, ...] | None = None
    smem: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Parameter -> an array or a number that it is in every case."""
    elements: int = 1 << 16
    """Of arrays whose size is not given."""
    inputs: int = 3
    seed: int = 0
    relative: float = 0.0
    """How much floats may differ; 0: bits must be equal."""
    max_steps: int = 100_000


@dataclass(frozen=True)
class Store:
    """The last store to an element: where it is, who executed it, what is in memory afterwards."""

    file: str
    line: int | None
    text: str
    cta: tuple[int, ...] | None
    thread: int | None
    value: str


@dataclass(frozen=True)
class Difference:
    """The first store whose value differs, or a fault of one version."""

    what: str
    a: Store | None = None
    b: Store | None = None


@dataclass(frozen=True)
class Outcome:
    """One input: `same`, `differs`, or `stops`, where both versions end with an error, which says nothing of the values."""

    case: str
    result: str
    why: str = ""
    difference: Difference | None = None


@dataclass(frozen=True)
class Comparison:
    """Two entries on all inputs."""

    a: str
    b: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    outcomes: list[Outcome]
    notes: list[str] = field(default_factory=list[str])
    """What makes equal results say less: races, few threads that store."""

    def count(self, result: str) -> int:
        return sum(outcome.result == result for outcome in self.outcomes)


@dataclass(frozen=True)
class Version:
    """A PTX text, read."""

    file: str
    source: ModuleText
    entries: dict[str, FunctionSource]

    kernels: Mapping[str, LoadedKernel]
    initial: dict[str, Array]
    """Module variables before a launch."""

    @classmethod
    def of(cls, text: str, file: str) -> Version:
        source = read_module(text, file)
        kernels = load(parse_text(text, file))
        found = (f for f in source.items if isinstance(f, FunctionSource) and f.has_body)
        entries = {n: f for f in found if (n := cast(StringAttr, f.properties["sym_name"]).data) in kernels}
        contents = next(iter(kernels.values())).loaded.contents if kernels else {}
        return cls(file, source, entries, kernels, {name: data.copy() for name, data in contents.items()})

    def kernel(self, name: str) -> LoadedKernel:
        """The kernel, with module variables as they are before the first launch."""
        kernel = self.kernels[name]
        for variable, data in self.initial.items():
            kernel.loaded.contents[variable][...] = data
        return kernel


def compare(a: Version, b: Version, settings: Settings) -> list[Comparison]:
    """Every entry that both have; two single entries are compared whatever their names are. PTXError where there is none, or where
    parameters do not match.
    """
    return [_Pair(a, first, b, second, settings).run() for first, second in _pairs(a, b, settings.entry)]


def _pairs(a: Version, b: Version, entry: str | None) -> list[tuple[str, str]]:
    if entry is not None:
        for version in (a, b):
            if entry not in version.entries:
                known = did_you_mean(entry, version.entries) or f"it has {', '.join(version.entries) or 'none'}"
                raise UsageError(f"{version.file} has no entry {entry}: {known}")
        return [(entry, entry)]
    common = [(name, name) for name in a.entries if name in b.entries]
    if not common and len(a.entries) == len(b.entries) == 1:
        return [(next(iter(a.entries)), next(iter(b.entries)))]
    if not common:
        listed = [f"{v.file} has {', '.join(v.entries) or 'none'}" for v in (a, b)]
        raise PTXError(f"the files have no entry of the same name: {'; '.join(listed)}")
    return common


@dataclass
class _Run:
    """What one version did with one input."""

    memory: DeviceMemory
    kernel: LoadedKernel
    arrays: list[tuple[str, str, int, Array]]
    """(name, type of the elements, address, bytes), of arguments and module variables."""
    output: str = ""
    findings: list[Any] = field(default_factory=list[Any])
    """Of the sanitizer, where it was asked for."""
    fault: str = ""


class _Pair:
    """Two entries, and how they are launched."""

    def __init__(self, a: Version, first: str, b: Version, second: str, settings: Settings):
        self.versions, self.names, self.settings = (a, b), (first, second), settings
        self.sources = a.entries[first], b.entries[second]
        self.guesses = tuple(guess(s, Functions(v.source)) for s, v in zip(self.sources, self.versions, strict=True))
        self.declared = [
            (name, d.type, d.size(i), bool(d.items[i][1]))
            for d in declarations(self.sources[0], "params")
            for i, (name, _) in enumerate(d.items)
        ]
        sizes = [[p.size for p in v.kernel(n).parameters] for v, n in zip(self.versions, self.names, strict=True)]
        if sizes[0] != sizes[1]:
            listed = [f"{n} takes parameters of {s} bytes" for n, s in zip(self.names, sizes, strict=True)]
            raise PTXError(f"the kernels cannot get the same arguments: {'; '.join(listed)}")
        unknown = next((n for n in settings.arguments if n not in self.parameters), None)
        if unknown is not None:
            near = did_you_mean(unknown, self.parameters) or f"it has {', '.join(self.parameters) or 'none'}"
            raise UsageError(f"{first} has no parameter {unknown}: {near}")
        parts = zip(self.sources, self.guesses, self.versions, strict=True)
        shapes = [launch_of(entry, found, version.source) for entry, found, version in parts]
        found = max(shapes, key=lambda s: (np.prod(s.block), s.cluster or ()))
        self.cluster = settings.cluster or found.cluster
        self.grid = settings.grid or tuple(2 * n if i == 0 else n for i, n in enumerate(self.cluster or found.grid))
        self.block = settings.block or found.block
        self.smem = max(s.smem for s in shapes) if settings.smem is None else settings.smem
        self.cooperative = any(s.cooperative for s in shapes)
        self._refuse_too_many_elements()

    @property
    def parameters(self) -> list[str]:
        return [name for name, *_ in self.declared]

    def _refuse_too_many_elements(self) -> None:
        """UsageError where the arrays that get `elements` each are larger than memory may be."""
        arrays: list[Guess] = []
        for number, (name, _, size, structure) in enumerate(self.declared):
            own = [*self._members(number).values()] if structure else [self._guess(number)]
            if name not in self.settings.arguments:
                arrays += [g for g in own if g.pointer and not g.rank and (structure or size == 8)]
        element = sum(from_name(array_type(own)).bytes for own in arrays)
        if element * self.settings.elements > MOST_BYTES:
            raise UsageError(
                f"{self.settings.elements} elements are too many: the arrays of {self.names[0]} that no argument gives take "
                f"{element} bytes for each element, and {MOST_BYTES >> 20} MiB are the most: {MOST_BYTES // element} elements fit"
            )

    def run(self) -> Comparison:
        most = self._threads_with_elements()
        bound = "the threads" if most == self._threads else "the elements of an array"
        tried = cases(self.settings.inputs, self.settings.seed, most, self._sizes(), bound)
        outcomes = [self._outcome(case) for case in tried]
        same = [case for case, outcome in zip(tried, outcomes, strict=True) if outcome.result == "same"]
        return Comparison(*self.names, self.grid, self.block, outcomes, self._notes(same))

    @property
    def _threads(self) -> int:
        return int(np.prod(self.grid)) * int(np.prod(self.block))

    def _threads_with_elements(self) -> int:
        """The threads of the launch, or as many as arrays have elements."""
        given = [a.size for a in self.settings.arguments.values() if isinstance(a, np.ndarray)]
        return min([self._threads, self.settings.elements, *given])

    def _sizes(self) -> list[str]:
        """The integer parameters that are drawn."""
        return [
            name
            for number, (name, type, size, structure) in enumerate(self.declared)
            if name not in self.settings.arguments and not structure and type not in _FLOATS
            if not self._is_address(self._guess(number), size)
        ]

    @staticmethod
    def _is_address(own: Guess, size: int) -> bool:
        return bool(own.handle or own.rank or (own.pointer and size == 8)) or shared_address(own, size) is not None

    def _notes(self, same: Sequence[Case]) -> list[str]:
        """What is said next to equal results, of the first input that gave them and of the one with the largest integers."""
        if not same:
            return []
        notes: dict[str, None] = {}
        most = 0
        largest = max(same, key=lambda case: case.number or 0)
        for case in {c.name: c for c in (same[0], largest)}.values():
            for version in (0, 1):
                storing = _Storing()
                run = self._launch(case, version, [storing], check=True)
                most = max(most, storing.threads)
                file = self.versions[version].file
                for line in sorted({f.line for f in run.findings if f.rule == "race" and f.line is not None}):
                    notes[f"the result depends on the order of threads: race at line {line} of {file}"] = None
        if 2 * most < self._threads:
            notes[f"few threads store to global memory: at most {most} of {self._threads}"] = None
        return [*notes]

    def _outcome(self, case: Case) -> Outcome:
        a, b = (self._launch(case, i) for i in (0, 1))
        if a.fault and b.fault:
            return Outcome(case.name, "stops", a.fault)
        if a.fault or b.fault:
            at = 0 if a.fault else 1
            what = f"{self.versions[at].file} stops, and {self.versions[1 - at].file} does not: {a.fault or b.fault}"
            return Outcome(case.name, "differs", difference=Difference(what))
        found = self._first_difference(case, a, b)
        if found is None and a.output != b.output:
            found = Difference(f"what they print differs: {a.output[:200]!r} and {b.output[:200]!r}")
        return Outcome(case.name, "same" if found is None else "differs", difference=found)

    def _launch(self, case: Case, version: int, watch: Sequence[Observer] = (), *, check: bool = False) -> _Run:
        kernel = self.versions[version].kernel(self.names[version])
        run = _Run(DeviceMemory(), kernel, [])
        rng = case.generator()
        try:
            values = [self._argument(run, case, rng, i) for i in range(len(self.declared))]
            report = kernel.simulate(
                *values, grid=self.grid, block=self.block, cluster=self.cluster, smem=self.smem, check=check, schedules=1, memory=run.memory, cooperative=self.cooperative,
                max_steps=self.settings.max_steps, observers=watch,
            )  # fmt: skip
            run.output, run.findings = report.output, report.findings
        except SimulationError as error:
            run.fault = str(error).split("\n")[0]
        for variable in kernel.loaded.image.variables.values():
            if variable.space == "global" and variable.name in kernel.loaded.contents:
                contents = kernel.loaded.contents[variable.name]
                run.arrays.append((variable.name, f"b{8 * _width(contents)}", variable.address, contents.copy()))
        return run

    def _argument(self, run: _Run, case: Case, rng: np.random.Generator, number: int) -> Any:
        name, type, size, structure = self.declared[number]
        own = self._guess(number)
        if name in self.settings.arguments:
            given = self.settings.arguments[name]
            if not isinstance(given, np.ndarray):
                return given
            return self._array(run, name, _element(given.dtype), given.reshape(-1).view(np.uint8))
        if own.handle:
            return _image(own)
        if own.rank:
            count = EXTENT**own.rank if own.rank < 4 else 1 << 20
            shape = [EXTENT] * own.rank if own.rank < 4 else [round(count ** (1 / own.rank))] * own.rank
            element = array_type(own)
            data = case.array(rng, element, int(np.prod(shape)))
            self._array(run, name, element, data)
            typed = run.memory.find(run.arrays[-1][2])
            assert typed is not None
            swizzle = "128B" if any(g.swizzled for g in self.guesses) and own.rank > 1 else "none"
            names = {"e4m3": "u8", "e5m2": "u8"}
            return tensor_map(
                typed.array, box_of(own), type=names.get(element, _tensor_type(element)), shape=shape, swizzle=swizzle
            )
        if structure:
            return self._structure(run, case, rng, name, size, self._members(number))
        shared = shared_address(own, size)
        if shared is not None:
            return shared
        if own.pointer and size == 8:
            return self._random(run, case, rng, name, own)
        if type in ("f16", "f32", "f64"):
            return np.frombuffer(case.scalar(rng, type), _FLOATS[type])[0]
        return int.from_bytes(case.scalar(rng, type, name), "little")

    def _structure(
        self, run: _Run, case: Case, rng: np.random.Generator, name: str, size: int, members: Mapping[int, Guess]
    ) -> Any:
        found: dict[int, Any] = {}
        for offset, own in sorted(members.items()):
            if own.pointer:
                found[offset] = self._random(run, case, rng, f"{name}+{offset}", own)
            elif offset + from_name(own.type).bytes <= size:
                found[offset] = case.scalar(rng, own.type)
        return found or bytes(size)

    def _random(self, run: _Run, case: Case, rng: np.random.Generator, name: str, own: Guess) -> Any:
        element = array_type(own)
        return self._array(run, name, element, case.array(rng, element, self.settings.elements))

    def _array(self, run: _Run, name: str, element: str, data: Array) -> Any:
        buffer = run.memory.copy(data, name=name)
        run.arrays.append((name, element, buffer.address, buffer.array.reshape(-1).view(np.uint8)))
        return buffer

    def _guess(self, number: int) -> Guess:
        """What a parameter is: what the first kernel says, unless it does not use it."""
        first, second = (self._named(g, i, number) for i, g in enumerate(self.guesses))
        return first if first.used or first.pointer or not second.used else second

    def _named(self, found: Guesses, version: int, number: int) -> Guess:
        names = [n for d in declarations(self.sources[version], "params") for n, _ in d.items]
        return found.parameters[names[number]]

    def _members(self, number: int) -> dict[int, Guess]:
        members: dict[int, Guess] = {}
        for version, found in reversed([*enumerate(self.guesses)]):
            names = [n for d in declarations(self.sources[version], "params") for n, _ in d.items]
            members |= found.members.get(names[number], {})
        return members

    def _first_difference(self, case: Case, a: _Run, b: _Run) -> Difference | None:
        differing: list[_Element] = []
        theirs = {name: (address, data) for name, _, address, data in b.arrays}
        for name, type, address, data in a.arrays:
            if name not in theirs or theirs[name][1].size != data.size:
                continue
            other, second = theirs[name]
            size = from_name(type).bytes
            for at in _unequal(data, second, type, self.settings.relative)[:MOST_WATCHED].tolist():
                values = _shown(data, type, at), _shown(second, type, at)
                differing.append(_Element((address + at * size, other + at * size), f"{name}[{at}] (.{type})", values))
        if not differing:
            return None
        watches = [_LastStores([d.addresses[version] for d in differing]) for version in (0, 1)]
        for version, watch in enumerate(watches):
            self._launch(case, version, [watch])
        orders = [min(o) for o in zip(*(w.orders() for w in watches), strict=True)]
        first = orders.index(min(orders))  # what no store instruction writes comes last
        found = differing[first]
        parts = zip(watches, found.values, self.versions, strict=True)
        stores = [watch.store(first, value, version.file) for watch, value, version in parts]
        return Difference(f"{found.name}, one of {len(differing)} elements that differ", *stores)


@dataclass(frozen=True)
class _Element:
    """An element that differs: its addresses and values in both versions."""

    addresses: tuple[int, int]
    name: str
    values: tuple[str, str]


class _Storing(Observer):
    """How many threads store to global memory."""

    def __init__(self) -> None:
        self.found: set[tuple[int, ...]] = set()

    @property
    def threads(self) -> int:
        return len(self.found)

    def attach(self, machine: Machine) -> None:
        self.machine = machine

    def access(self, access: Access) -> None:
        if not _stores_globally(access):
            return
        store, machine = access.store, self.machine

        def watched(lanes: Array, values: Array) -> None:
            everyone = machine.lane_numbers if lanes is None else np.asarray(lanes)
            ctas, threads = machine.cta_of_lane[everyone], machine.thread_of_lane[everyone]
            for cta in np.unique(ctas).tolist():
                index = tuple(int(i) for i in machine.cta_index(cta))
                self.found.update((*index, t) for t in threads[ctas == cta].tolist())
            store(lanes, values)

        access.store = watched


def _stores_globally(access: Access) -> bool:
    return access.inst.family.access in ("store", "atomic") and not access.space.startswith(
        ("shared", "local", "param")
    )


class _LastStores(Observer):
    """Who stored last to each of some addresses."""

    def __init__(self, addresses: list[int]):
        self.sorted = np.argsort(np.array(addresses, np.uint64), kind="stable")
        self.addresses = np.array(addresses, np.uint64)[self.sorted]
        self.place = np.argsort(self.sorted)
        self.last: dict[int, tuple[int, Inst, tuple[int, ...], int]] = {}
        self.number = 0

    def attach(self, machine: Machine) -> None:
        self.machine = machine

    def access(self, access: Access) -> None:
        if not _stores_globally(access):
            return
        inst, store, machine = access.inst, access.store, self.machine

        def watched(lanes: Array, values: Array) -> None:
            everyone = machine.lane_numbers if lanes is None else np.asarray(lanes)
            start = access.row[everyone].astype(np.uint64) + np.uint64(access.offset & (1 << 64) - 1)
            first = np.searchsorted(self.addresses, start)
            after = np.searchsorted(self.addresses, start + np.uint64(access.size))
            self.number += 1
            for i in np.flatnonzero(after > first).tolist():
                lane = int(everyone[i])
                x, y, z = machine.cta_index(int(machine.cta_of_lane[lane]))
                for place in range(int(first[i]), int(after[i])):
                    self.last[place] = self.number, inst, (int(x), int(y), int(z)), int(machine.thread_of_lane[lane])
            store(lanes, values)

        access.store = watched

    def orders(self) -> list[int]:
        """For each address, when it was stored to last."""
        return [self.last[p][0] if (p := int(place)) in self.last else 1 << 62 for place in self.place]

    def store(self, index: int, value: str, file: str) -> Store:
        found = self.last.get(int(self.place[index]))
        if found is None:
            return Store(file, None, "no store instruction writes it", None, None, value)
        _, inst, cta, thread = found
        return Store(inst.filename or file, inst.line, inst.text, cta, thread, value)


def _unequal(a: Array, b: Array, element: str, relative: float) -> Array:
    """The numbers of the elements that differ."""
    size = from_name(element).bytes
    bits = f"u{size}"
    usable = a.size // size * size
    left, right = a[:usable].view(bits), b[:usable].view(bits)
    different = left != right
    if relative and element in ("f16", "bf16", "f32", "f64"):
        x, y = _floats(left, element), _floats(right, element)
        with np.errstate(all="ignore"):
            close = np.abs(x - y) <= relative * np.maximum(np.abs(x), np.abs(y))
        different &= ~(close | (np.isnan(x) & np.isnan(y)))
    return np.flatnonzero(different)


def _floats(bits: Array, element: str) -> Array:
    from ..runtime.arguments import NUMPY_TYPES

    with np.errstate(all="ignore"):  # NaN
        return bits.view(NUMPY_TYPES[element]).astype(np.float64)


def _shown(data: Array, element: str, at: int) -> str:
    size = from_name(element).bytes
    bits = data[at * size : (at + 1) * size].view(f"u{size}")
    number = int(bits[0])
    if element in ("f16", "bf16", "f32", "f64", "e4m3", "e5m2"):
        return f"{float(_floats(bits, element)[0]):.9g} (0x{number:0{2 * size}x})"
    signed = number - (1 << 8 * size) if element[0] == "s" and number >> 8 * size - 1 else number
    return f"{signed} (0x{number:0{2 * size}x})"


def _element(dtype: np.dtype[Any]) -> str:
    known = {"float": "f", "uint": "u", "int": "s"}
    kind = dtype.name.rstrip("0123456789")
    return f"{known[kind]}{8 * dtype.itemsize}" if kind in known else f"b{8 * dtype.itemsize}"


def _tensor_type(element: str) -> str:
    return element.replace("b", "u", 1) if element[0] == "b" and element[1:].isdigit() else element


def _width(contents: Array) -> int:
    return 4 if contents.size % 4 == 0 else 1


def _image(own: Guess) -> Any:
    kind = Texture if own.handle == "texref" else Surface
    extents = [*EXTENTS[own.geometry], *([4] if kind is Surface else [])]
    return kind(np.ones(extents, np.float32), geometry=own.geometry)
