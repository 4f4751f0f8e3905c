"""The payload report of an mbarrier with `.layout::v1` (PTX ISA 9.7.15.16.10), and the copies that report the validity of
their data (9.7.10.28.1.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
VALIDITY = "mbarrier::report::validity::"


@dataclass(slots=True)
class Payload:
    """What an mbarrier with `.layout::v1` has in addition to the 64 bits of all."""

    reported: bool = False
    """Whether something reported in the current phase."""
    last: bool = False
    """The same of the phase that ended last."""
    conditional: int = 0
    """Phases that ended without a report."""

    def end(self) -> None:
        """The phase is complete."""
        self.conditional += not self.reported
        self.reported, self.last = False, self.reported


def inspection_of(modifiers: Sequence[str]) -> Callable[[Array], bool] | None:
    """Whether the bytes that a copy moves (uint8) contain the pattern that its report mechanism looks for; None for a copy
    that looks for nothing.

    `per_16bytes` samples one element of each 16 bytes; here it is the first.
    """
    mechanism = next((m for m in modifiers if m.startswith(VALIDITY)), None)
    if mechanism is None:
        return None
    granularity, pattern = mechanism.removeprefix(VALIDITY).split("::")
    if granularity == "per_element":
        return lambda data: bool((data == 0xFF).any())
    wanted, bits = int(pattern, 16), 4 * len(pattern)
    kind, mask = f"<u{max(bits // 8, 1)}", (1 << bits) - 1

    def found(data: Array) -> bool:
        samples = np.ascontiguousarray(data.reshape(-1, 16)[:, : max(bits // 8, 1)]).view(kind)
        return bool((samples & samples.dtype.type(mask) == wanted).any())

    return found
