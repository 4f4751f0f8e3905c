"""Binding of decoded instructions to a machine: closures over rows of registers, so that nothing is looked up while they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...diagnostics import SimulationError
from .machine import Machine
from .program import Inst, Not, Reg
from .registry import MEANINGS, Collective, Meaning, Pure, Step

Array = Any
Full = Callable[[], object]
Masked = Callable[[Array], object]


def meaning_of(machine: Machine, inst: Inst) -> Meaning:
    """What an instruction does; SimulationError if the machine does not know."""
    known: Meaning | None = machine.meanings.get(inst)
    if known is None:
        found = MEANINGS.get(inst.opcode)
        if found is None:
            machine.fault(inst, f"the simulator does not execute {inst.opcode} yet")
        known = machine.meanings[inst] = found(inst)
    return known


def bind(machine: Machine, inst: Inst) -> tuple[Full, Masked]:
    """(run for all lanes alive, run for a mask of lanes) of an instruction that does not wait."""
    full, masked = _bind(machine, inst)
    if not machine.observers:
        return full, masked

    def either(mask: Array) -> object:
        return full() if mask is None else masked(mask)

    action = machine.observed(inst, either)
    if action is either:
        return full, masked
    return lambda: action(machine.alive), action


def _bind(machine: Machine, inst: Inst) -> tuple[Full, Masked]:
    try:
        return _bound(machine, inst)
    except SimulationError as error:
        if error.diagnostics[0].line is not None:
            raise
        machine.fault(inst, error.diagnostics[0].message)


def _bound(machine: Machine, inst: Inst) -> tuple[Full, Masked]:
    what = meaning_of(machine, inst)
    if isinstance(what, Pure):
        full, masked = _bind_pure(machine, inst, what)
        if inst.guard is None:
            return full, masked
        return _guarded(machine, inst, masked)
    if isinstance(what, (Step, Collective)):
        action = what.bind(machine, inst)
        if inst.guard is not None:
            return _guarded(machine, inst, action)
        return lambda: action(machine.alive), action
    raise AssertionError(f"{inst.opcode} waits and must end its segment")


def _guarded(machine: Machine, inst: Inst, masked: Callable[[Array], object]) -> tuple[Full, Masked]:
    assert inst.guard is not None
    p = machine.row(inst.guard)
    negated = inst.negated

    def run(mask: Array) -> None:
        m = ~p if negated else p.copy()
        if mask is not None:
            m &= mask
        if np.count_nonzero(m):
            masked(m)

    return lambda: run(machine.alive), run


def _bind_pure(machine: Machine, inst: Inst, what: Pure) -> tuple[Full, Masked]:
    function = what.function
    if what.scratch:
        made = machine.scratch.get(function)
        if made is None:
            made = machine.scratch[function] = function(machine.lanes)
        function = made
    if what.approximate and machine.arithmetic.noise is not None:
        function = partial(function, perturb=machine.arithmetic.noise)
    flips = [isinstance(o, Not) for o, _ in what.sources]
    sources = [machine.source(o.operand if isinstance(o, Not) else o, t, whole=what.whole) for o, t in what.sources]
    ufunc = what.ufunc
    if ufunc:
        # a ufunc takes a single number faster than an array of one element
        sources = [s.reshape(()) if s.size == 1 and machine.lanes > 1 else s for s in sources]
    if any(flips):
        inner = function
        ufunc = False
        function = lambda *xs: inner(*[~x if flip else x for x, flip in zip(xs, flips, strict=True)])  # noqa: E731
    targets = [machine.destination(o, t) for o, t in what.destinations]
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
    """What runs for all lanes and for some; one and two sources without a list, since this is most of a simulation."""
    make = _unary if len(sources) == 1 else _binary if len(sources) == 2 else _variadic
    full, masked = make(function, sources, d, ufunc)
    return (full, lambda m: full()) if keep else (full, masked)


def _unary(
    function: Callable[..., Array], sources: list[np.ndarray], d: np.ndarray, ufunc: bool
) -> tuple[Full, Masked]:
    (a,) = sources
    copyto, every = np.copyto, Ellipsis

    def into() -> None:
        function(a, d)

    def full() -> None:
        d[every] = function(a)

    def masked(m: Array) -> None:
        copyto(d, function(a), "unsafe", m)

    return into if ufunc else full, masked


def _binary(
    function: Callable[..., Array], sources: list[np.ndarray], d: np.ndarray, ufunc: bool
) -> tuple[Full, Masked]:
    a, b = sources
    copyto, every = np.copyto, Ellipsis

    def into() -> None:
        function(a, b, d)

    def full() -> None:
        d[every] = function(a, b)

    def masked(m: Array) -> None:
        copyto(d, function(a, b), "unsafe", m)

    return into if ufunc else full, masked


def _variadic(
    function: Callable[..., Array], sources: list[np.ndarray], d: np.ndarray, ufunc: bool
) -> tuple[Full, Masked]:
    copyto, every = np.copyto, Ellipsis

    def into() -> None:
        function(*sources, d)

    def full() -> None:
        d[every] = function(*sources)

    def masked(m: Array) -> None:
        copyto(d, function(*sources), "unsafe", m)

    return into if ufunc else full, masked


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
