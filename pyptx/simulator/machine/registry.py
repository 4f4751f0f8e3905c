"""Where the meaning of each instruction is found.

A meaning is a function of the decoded instruction that chooses types, rounding and modifiers once and
returns one of

- `Pure`: destination arrays as a function of source arrays, lane by lane; the engine reads, masks and writes;
- `Step`: a function `bind(machine, inst)` that returns what to do for a mask of lanes (memory and other
effects);
- `Collective`: the same for instructions of a whole warp, which wait until the threads of `membership` have
arrived.

    @meaning("add")
    def add(inst): return binary(inst, np.add)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from .machine import Machine
from .program import Inst, Operand
from .types import Action as Action
from .types import Mask as Mask
from .types import dtype_of as dtype_of

Array: TypeAlias = Any


@dataclass(slots=True)
class Pure:
    """`function(*sources) -> destination or tuple of destinations`, each operand with the scalar type it is
    read or written in.

    `ufunc`: the function is a NumPy ufunc of exactly these types, or takes like one the array to write into, so
    that it may write into the register.
    """

    function: Callable[..., Array]
    destinations: Sequence[tuple[Operand, str]]
    sources: Sequence[tuple[Operand, str]]
    ufunc: bool = False
    whole: bool = False
    """Constants must come as full lanes (functions that split registers into elements)."""
    scratch: bool = False
    """`function(lanes)` makes the function for so many lanes, with buffers of its own that no two
    instructions use at once.
    """
    approximate: bool = False
    """The function takes `perturb`, a generator of errors within the documented ones."""
    native: Callable[..., Array] | None = None
    """The same function for one lane in LLVM IR (`numerics.native`), with the same bits; None if nobody wrote it."""


@dataclass(slots=True)
class Step:
    """An instruction with effects: `bind` prepares it for one machine."""

    bind: Callable[[Machine, Inst], Action]
    moves: bool = False
    """It only loads or stores the elements of its value operand, of at most 64 bits, through one `memory.Access`."""


@dataclass(slots=True)
class Collective:
    """An instruction that a warp executes together; `mask` is its membermask operand (None: the whole warp,
    "active": who is there, "warpgroup": four warps together).
    """

    bind: Callable[[Machine, Inst], Action]
    mask: Operand | str | None = None
    sources: Callable[[Machine, Inst], Callable[[], Array]] | None = None
    """For shuffles: gives the lane whose value (operand 1) each lane reads."""


@dataclass(slots=True)
class Barrier:
    """An instruction that waits at a CTA barrier: number and count operands, and how the predicate is
    combined, if at all.
    """

    number: Operand
    count: Operand | None
    combine: str = ""
    predicate: Operand | None = None
    destination: Operand | None = None
    arrive_only: bool = False


@dataclass(slots=True)
class ClusterBarrier:
    """barrier.cluster.arrive or .wait."""

    wait: bool


Meaning: TypeAlias = "Pure | Step | Collective | Barrier | ClusterBarrier"
Function: TypeAlias = "Callable[..., Meaning]"
"""Of an instruction, and of facts that its opcode stands for."""

MEANINGS: dict[str, Callable[[Inst], Meaning]] = {}
_WAITING: set[str] = set()
_LONGEST: dict[str, int] = {}


def meaning(*opcodes: str, waits: bool = False, **facts: Any) -> Callable[[Function], Function]:
    """Register the meaning of opcodes; `waits`: the instruction may have to wait for other threads.

    `facts` are arguments of the function for these opcodes, where several share it:

        @meaning("atom", returns=True)
        @meaning("red", returns=False)
        def atomic(inst, *, returns): ...
    """

    def register(function: Function) -> Function:
        for opcode in opcodes:
            MEANINGS[opcode] = partial(function, **facts) if facts else function
            if waits:
                _WAITING.add(opcode)
            root = opcode.partition(".")[0]
            _LONGEST[root] = max(_LONGEST.get(root, 0), opcode.count("."))
        return function

    return register


def find_key(root: str, words: Sequence[str]) -> tuple[str | None, int]:
    """The longest opcode with a meaning that `root.words...` starts with, and how many of the words belong
    to it.
    """
    for n in range(min(_LONGEST.get(root, -1), len(words)), -1, -1):
        key = ".".join((root, *words[:n]))
        if key in MEANINGS:
            return key, n
    return None, 0


def waits(opcode: str) -> bool:
    return opcode in _WAITING
