"""What one memory instruction of a warp touches: sectors of global memory, wavefronts of shared memory."""

from __future__ import annotations

from .native import Ints, native

LINE_BYTES, SECTOR_BYTES = 128, 32
LINE_SHIFT, SECTOR_SHIFT = 7, 5
BANKS = 32
SCRATCH = BANKS * 65
"""Words that `wavefronts` works in: for each bank how many words are wanted, and which."""
SECTORS_AT, LINES_AT = 0, 1
"""Where `coalesce` puts its results."""


@native
def coalesce(addresses: Ints, mask: int, lines: Ints, first: int, found: Ints) -> int:
    """The 128-byte lines that active lanes touch, from `lines[2 * first]` on, each with the mask of its sectors. Aligned accesses of
    up to 16 bytes lie in one sector.
    """
    count = 0
    for lane in range(32):
        if mask >> lane & 1:
            line = addresses[lane] >> LINE_SHIFT
            bit = 1 << (addresses[lane] >> SECTOR_SHIFT & 3)
            k = count - 1
            while k >= 0:
                if lines[2 * (first + k)] == line:
                    break
                k -= 1
            if k < 0:
                lines[2 * (first + count)] = line
                lines[2 * (first + count) + 1] = bit
                count += 1
            else:
                lines[2 * (first + k) + 1] = lines[2 * (first + k) + 1] | bit
    sectors = 0
    for k in range(count):
        for s in range(4):
            sectors += lines[2 * (first + k) + 1] >> s & 1
    found[SECTORS_AT] = sectors
    found[LINES_AT] = count
    return count


@native
def want_words(addresses: Ints, mask: int, width: int, start: int, lanes: int, scratch: Ints) -> int:
    """Add the words of some lanes to those of a wavefront; the most that one bank has to give."""
    most = 0
    for lane in range(start, start + lanes):
        if mask >> lane & 1:
            for k in range(0, max(width, 4), 4):
                word = (addresses[lane] + k) >> 2
                bank = (word & 31) * 65
                count = scratch[bank]
                i = 0
                while i < count:
                    if scratch[bank + 1 + i] == word:
                        break
                    i += 1
                if i == count and count < 64:
                    scratch[bank + 1 + count] = word
                    scratch[bank] = count + 1
    for b in range(BANKS):
        most = max(most, scratch[b * 65])
    return most


@native
def clear_banks(scratch: Ints) -> int:
    for b in range(BANKS):
        scratch[b * 65] = 0
    return 0


@native
def wavefronts(addresses: Ints, mask: int, width: int, scratch: Ints) -> int:
    """Passes through shared memory: lanes go 32, 16 or 8 at a time (accesses of up to 4, 8 and 16 bytes); groups that
    are free of conflicts together share one.
    """
    lanes = 32 if width <= 4 else 16 if width == 8 else 8
    total = 0
    current = 0
    clear_banks(scratch)
    for start in range(0, 32, lanes):
        if mask >> start & ((1 << lanes) - 1):
            degree = want_words(addresses, mask, width, start, lanes, scratch)
            if current > 0 and degree > 1:
                total += current
                clear_banks(scratch)
                degree = want_words(addresses, mask, width, start, lanes, scratch)
            current = degree
    return max(total + current, 1)
