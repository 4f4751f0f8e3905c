"""The sanitizer: an observer that checks a launch against the rules of the PTX memory and asynchrony model.

It never stops a kernel: it keeps one `Finding` per rule and pair of instructions. What a GPU would fault on
(`SimulationError`) is the machine's own business, except for threads that poll forever, which end here.

It is made of `Part`s, which hear of the same events: what is known of the launch (`state`), the rules (`rules`), and what happens
to both when threads access memory, copy or synchronise (`events`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from ...diagnostics import Diagnostic
from ..machine.global_memory import Allocation
from ..machine.machine import Action, Machine, Observer
from ..machine.program import Inst
from .finding import Finding, Findings
from .parts import PARTS
from .state.context import Context, Part

if TYPE_CHECKING:
    from ..engine.engine import Engine

Array = Any
HEARD = frozenset(n for n, f in vars(Observer).items() if callable(f) and not n.startswith("_")) - {
    "attach", "started", "finished", "bound",
}  # fmt: skip
"""The events that parts hear of one after the other."""


class Sanitizer(Observer):
    """Checks a launch; `findings` are in the order in which they happened."""

    def __init__(self, before: Sanitizer | None = None) -> None:
        """`before`: of an earlier run of the same launch, what it found is not told again."""
        self.found = Findings(None if before is None else before.found)
        self.parts: list[Part] = []

    @property
    def findings(self) -> list[Finding]:
        return self.found.kept

    @property
    def in_step(self) -> dict[tuple[int, int], tuple[Inst, Inst]]:
        return self.found.in_step

    @property
    def said(self) -> list[Diagnostic]:
        """The findings, and of which rules there are more."""
        self.settle()
        return self.found.told

    @property
    def events(self) -> int:
        """How many accesses, copies and synchronisations it has looked at."""
        return len(self.context.times)

    def settle(self) -> None:
        """Tell what was held back: the launch is over."""
        for part in self.parts:
            part.settle()

    def attach(self, machine: Machine) -> None:
        self.context = Context(machine, self.found)
        self.parts = [self.context.add(kind) for kind in PARTS]
        for event, heard_by in _heard_by(tuple(PARTS)).items():
            setattr(self, event, _to_all([getattr(self.parts[n], event) for n in heard_by]))
        self._binding = [p for p in self.parts if _hears(type(p), "bound")]

    def started(self, engine: Engine) -> None:
        self.context.start(engine)
        for part in self.parts:
            part.start()

    def finished(self, engine: Engine) -> None:
        for part in self.parts:
            part.settle()
        for part in self.parts:
            part.finish()

    def restart(self) -> None:
        """The launch begins again, with memory as it was."""
        self.context.shadow.memory.clear()
        for part in self.parts:
            part.restart()

    def bound(self, inst: Inst, action: Action) -> Action:
        for part in self._binding:
            action = part.bound(inst, action)
        return action

    @property
    def touched(self) -> tuple[Array, Array]:
        """Which granules of global memory the launch wrote, and which it wrote or read."""
        space = self.context.shadow.memory
        wrote = space.write != 0
        read = wrote | (space.read != 0)
        return wrote, read if space.non_coherent is None else read | (space.non_coherent != 0)

    def written(self, allocation: Allocation, offsets: Array) -> Array:
        """Those of these bytes of an allocation that the launch has written so far."""
        return self.context.written(allocation, offsets)

    def writer(self, allocation: Allocation, offset: int) -> Inst:
        """The instruction that wrote a byte last."""
        return self.context.writer(allocation, offset)


def _hears(kind: type[Part], event: str) -> bool:
    return getattr(kind, event) is not getattr(Observer, event)


@cache
def _heard_by(parts: tuple[type[Part], ...]) -> dict[str, list[int]]:
    """Event -> the parts that do something when it happens, by number."""
    found = {event: [n for n, kind in enumerate(parts) if _hears(kind, event)] for event in sorted(HEARD)}
    return {event: numbers for event, numbers in found.items() if numbers}


def _to_all(actions: list[Callable[..., None]]) -> Callable[..., None]:
    """One action for all."""
    if len(actions) == 1:
        return actions[0]

    def tell(*args: Any, **options: Any) -> None:
        for action in actions:
            action(*args, **options)

    return tell
