"""The parts of the sanitizer, and its rules."""

from __future__ import annotations

from .events.accesses import Accesses
from .events.barriers import Barriers
from .events.copies import Asynchronous
from .events.mbarriers import Arrivals
from .rule import Rule
from .rules.barriers import BarrierUse
from .rules.clusters import Clusters
from .rules.collectors import Collectors
from .rules.copies_in_flight import CopiesInFlight
from .rules.dependents import Dependents
from .rules.exits import Exits
from .rules.mbarriers import Mbarriers
from .rules.non_coherent import NonCoherent
from .rules.promotion import Promotion
from .rules.proxies import Proxies
from .rules.races import Races
from .rules.registers_in_flight import RegistersInFlight
from .rules.repeated_copies import RepeatedCopies
from .rules.replicas import Replicas
from .rules.rounds import Rounds
from .rules.schedules import Schedules
from .rules.setmaxnreg import RegisterFile
from .rules.tensor_maps import TensorMaps
from .rules.tensor_memory import TensorMemory
from .rules.uninitialised_memory import UninitialisedMemory
from .rules.uninitialised_registers import UninitialisedRegisters
from .rules.warps import Warps
from .state.completion import Completion
from .state.context import Part
from .state.copies import Copies
from .state.lockstep import Lockstep
from .state.observation import Observation
from .state.order import Order
from .state.patterns import Patterns
from .state.phases import Phases
from .state.progress import Progress
from .state.scopes import Scopes
from .state.unused import Unused

STATE: tuple[type[Part], ...] = (
    Progress,
    Order,
    Patterns,
    Observation,
    Lockstep,
    Unused,
    Scopes,
    Phases,
    Completion,
    Copies,
)
CHECKS: tuple[type[Part], ...] = (
    UninitialisedMemory,
    Replicas,
    Races,
    CopiesInFlight,
    NonCoherent,
    Clusters,
    Mbarriers,
    Dependents,
    Rounds,
    BarrierUse,
    Warps,
    Proxies,
    TensorMaps,
    RepeatedCopies,
    Exits,
    Collectors,
    TensorMemory,
    RegistersInFlight,
    RegisterFile,
    Promotion,
    Schedules,
)
"""What looks for broken rules. A check finds those before it by `Context.part`."""
EVENTS: tuple[type[Part], ...] = (Accesses, Asynchronous, Barriers, Arrivals)
LAST: tuple[type[Part], ...] = (UninitialisedRegisters,)
PARTS = (*STATE, *CHECKS, *EVENTS, *LAST)
"""All parts in the order in which they hear of an event."""
RULES: tuple[Rule, ...] = tuple(rule for part in PARTS for rule in part.rules)
"""All rules."""
