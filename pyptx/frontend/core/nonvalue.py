"""Objects of the DSL that look like values and are none: places in memory, tensors, special registers not yet read.

Arithmetic and comparisons with them are refused at the kernel's line, with what to write instead.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ...diagnostics import PTXError
from .trace import current


class NotAValue:
    """A base class whose operators raise PTXError. `described` says what it is and what to write."""

    __slots__ = ()

    def described(self) -> tuple[str, str]:
        """What it is, and what to write instead of computing with it."""
        raise NotImplementedError

    def refusal(self) -> PTXError:
        """The error, at the kernel's line."""
        what, instead = self.described()
        return current().error(f"{what} is not a value to compute with", instead)

    def _refuse(self, *_: Any) -> NoReturn:
        raise self.refusal()

    def __eq__(self, other: object) -> bool:
        """Identity; compared with a number or a register, which is what its value was meant to be, it is refused."""
        if isinstance(other, (int, float, np.number)) or hasattr(other, "resolve"):  # a Reg
            raise self.refusal()
        return self is other

    __hash__ = object.__hash__

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __neg__ = __invert__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


class NoTruth(NotAValue):
    """A place, an address, or a register that is not read yet: it is always true, so `if` means what is there. (Arrays,
    allocations and tensors may be optional arguments: those are true.)
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        what, instead = self.described()
        raise current().error(f"{what} has no truth value", instead)


def as_int(value: Any) -> Any:
    """A NumPy integer as Python's; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value
