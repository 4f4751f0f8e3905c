"""The control code that the compiler writes into each machine instruction of Volta and later (sm_70 and newer).

An instruction has 128 bits; the upper ones say how it is scheduled. The layout is that which Jia et al. found (Dissecting the
NVIDIA Volta GPU Architecture via Microbenchmarking, 2018, section 2.1) and the documents of CuAssembler repeat; Huerta et al.
(Dissecting and Modeling the Architecture of Modern GPU Cores, 2025) describe what the hardware does with it:

| bits | field | meaning |
|---|---|---|
| 105-108 | stall | cycles before the warp's next instruction may issue |
| 109 | yield | 0: the scheduler should prefer another warp for the next cycle |
| 110-112 | write barrier | the scoreboard that is released when the results are written; 7 is none |
| 113-115 | read barrier | the scoreboard that is released when the operands are read; 7 is none |
| 116-121 | wait mask | the scoreboards that must be free before the instruction issues |
| 122-125 | reuse | operand slots whose register stays in the operand cache |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

__all__ = ["SCOREBOARDS", "Control", "control_of"]

SCOREBOARDS = 6
_NONE = 7
_FIRST = 105


@dataclass(frozen=True, slots=True)
class Control:
    """The fields of a control code. Print it: `stall=4 yield wr=0 rd=- wait=0,2 reuse=1`."""

    stall: int
    yields: bool
    """The scheduler should prefer another warp (bit 109 is 0)."""
    write_barrier: int | None
    read_barrier: int | None
    wait: tuple[int, ...]
    """The scoreboards that it waits for."""
    reuse: tuple[int, ...]
    """The operand slots that are kept: 0 is the first source register."""

    @property
    def short(self) -> str:
        """In the notation of maxas: wait mask, read and write barrier, yield, stall: `--:-:0:Y:04`, bits of the mask in hex."""
        mask = sum(1 << n for n in self.wait)
        waits = f"{mask:02x}" if mask else "--"
        read, write = (_digit(b) for b in (self.read_barrier, self.write_barrier))
        return f"{waits}:{read}:{write}:{'Y' if self.yields else '-'}:{self.stall:02d}"

    def __str__(self) -> str:
        words = [f"stall={self.stall}", *(["yield"] if self.yields else [])]
        words += [
            f"{name}={number}"
            for name, number in (("wr", self.write_barrier), ("rd", self.read_barrier))
            if number is not None
        ]
        words += [
            f"{name}={','.join(map(str, numbers))}"
            for name, numbers in (("wait", self.wait), ("reuse", self.reuse))
            if numbers
        ]
        return " ".join(words)


def control_of(word: int) -> Control:
    """The control code of an instruction of 128 bits."""
    return _control((word >> _FIRST) & 0x1FFFFF)


@lru_cache(maxsize=1 << 14)
def _control(code: int) -> Control:
    write, read = code >> 5 & 7, code >> 8 & 7
    return Control(
        stall=code & 15,
        yields=not code >> 4 & 1,
        write_barrier=None if write == _NONE else write,
        read_barrier=None if read == _NONE else read,
        wait=tuple(n for n in range(SCOREBOARDS) if code >> 11 + n & 1),
        reuse=tuple(n for n in range(4) if code >> 17 + n & 1),
    )


def _digit(number: int | None) -> str:
    return "-" if number is None else str(number)
