"""Bank conflicts of shared memory accesses whose addresses are known per thread.

Shared memory has 32 banks of 4 bytes. A warp's request is served in passes over 32 lanes (up to 4 bytes
each), 16 lanes (8 bytes) or
8 lanes (16 bytes, and each matrix of ldmatrix); in a pass, different words of one bank are served one after
the other, equal words at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..dialects.ptx.instruction import Instruction
from .access import Access, accesses
from .active import ActiveThreads
from .cfg import CFG
from .operands import line_of
from .threads import WARP, Lanes, Threads

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class BankUse:
    """How one shared access meets the banks, in the worst warp of the CTA.

    `wavefronts` is how many passes the request takes, `ideal` how many its data needs; `ways` is the worst
    pass (1: no conflict).
    `address` is the address as a sum; ways and counts are None where it is not known.
    """

    op: Instruction
    line: int | None
    kind: str
    width: int
    address: str | None
    ways: int | None
    wavefronts: int | None
    ideal: int | None


def is_shared(access: Access, lanes: Lanes | None, shared: frozenset[str]) -> bool:
    """Whether an access is to shared memory: it says so, or its generic address is based on a shared
    variable."""
    if access.space != "generic":
        return access.space == "shared"
    return lanes is not None and any(name in shared for name, _ in lanes.rest)


def bank_uses(cfg: CFG, threads: Threads, active: ActiveThreads, shared: frozenset[str] = frozenset()) -> list[BankUse]:
    """Every ordinary shared access of a function in layout order. `shared`: names of shared variables."""
    found: list[BankUse] = []
    for b, block in enumerate(cfg.blocks):
        for op in block.ops:
            if not isinstance(op, Instruction):
                continue
            for access in accesses(op):
                lanes = threads.address(access.memory)
                if access.whole is not None or access.kind == "atomic" or not is_shared(access, lanes, shared):
                    continue
                line = line_of(op)
                if lanes is None:
                    found.append(BankUse(op, line, access.kind, access.width, None, None, None, None))
                    continue
                ways = wavefronts = ideal = 0
                addresses, mask = threads.per_thread(lanes), active.of(op, b)
                for start in range(0, threads.count, WARP):
                    here = mask[start : start + WARP]
                    result = conflicts(addresses[start : start + WARP], access.width, here, access.lanes)
                    if result[1] - result[2] > wavefronts - ideal or wavefronts == 0:
                        ways, wavefronts, ideal = result
                found.append(
                    BankUse(op, line, access.kind, access.width, threads.describe(lanes), ways, wavefronts, ideal)
                )
    return found


def conflicts(
    addresses: NDArray[np.int64], width: int, active: NDArray[np.bool_] | None = None, lanes: int = WARP
) -> tuple[int, int, int]:
    """(ways of the worst pass, passes, passes that the same data needs without conflicts) of one warp's
    request.

    `addresses`: bytes, one per lane; `width`: bytes per lane, a power of two up to 16; `lanes`: how many
    lanes' addresses count.
    A common offset of all addresses that is a multiple of 4 changes nothing.
    """
    per_pass = WARP if width <= 4 else WARP * BANK_BYTES // width
    ways = passes = ideal = 0
    for start in range(0, min(lanes, len(addresses)), per_pass):
        chosen = addresses[start : start + per_pass]
        if active is not None:
            chosen = chosen[active[start : start + per_pass]]
        if not len(chosen):
            continue
        first = chosen[:, None] + np.arange(0, max(width, BANK_BYTES), BANK_BYTES)
        words = np.unique(first // BANK_BYTES)
        worst = int(np.bincount(words % BANKS, minlength=BANKS).max())
        ways = max(ways, worst)
        passes += worst
        ideal += -(-len(words) // BANKS)
    return ways, passes, ideal
