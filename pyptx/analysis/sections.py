"""The contents of a `.section`: DWARF data as labels and numbers (PTX ISA 11.5).

.section .debug_info { L: .b8 1, 2, -3 .b32 .debug_abbrev+4 .b64 L .b32 L-M }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..dialects.ptx.directive_facts import is_directive
from ..dialects.ptx.syntax import literal
from ..dialects.ptx.target import Version, version_text
from ..dialects.ptx.types import SCALAR_TYPES
from .entities import Fault

_NAME = re.compile(r"\.[A-Za-z]\w*(?:::\w+)*").fullmatch
_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+").fullmatch
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?").fullmatch
_TYPES = {".b8": 8, ".b16": 16, ".b32": 32, ".b64": 64, ".byte": 8, ".4byte": 32, ".quad": 64}
"""The last three are in no manual: ptxas reads these words of GNU as, and no others."""
LABELS_SINCE: Version = (7, 0)
NEGATIVE_SINCE: Version = (7, 5)
DIFFERENCE_SINCE: Version = (7, 5)
OFFSET_SINCE: Version = (3, 2)
_LEGAL = ".b8 .b16 .b32 .b64, followed by numbers, a label or a section"


def section_faults(words: Sequence[str], labels: set[str], version: Version) -> Iterator[Fault]:  # noqa: C901  one rule after the other
    """What is wrong with `.section .name { ... }`, given as its tokens; `labels` are those of all sections so far."""
    if len(words) < 4 or not _is_name(words[1]) or words[2] != "{":
        yield Fault("a .section has a name with a dot, and its data in braces", ".section .debug_info { .b8 1 }")
        return
    at, end = 3, len(words) - 1
    while at < end:
        word = words[at]
        if _IDENTIFIER(word) and word != "WARP_SZ" and words[at + 1] == ":":
            if word in labels:
                yield Fault(f"label {word} stands twice in the sections of this module", word=word)
            labels.add(word)
            at += 2
            if version < LABELS_SINCE:
                yield _too_old("labels in a .section need", LABELS_SINCE, version, word)
                return
            continue
        if word not in _TYPES:
            yield Fault(f"{word} may not stand in a .section", f"legal: {_LEGAL}", word=word)
            return
        bits, at = _TYPES[word], at + 1
        length = _reference(words, at)
        if length:
            if bits < 32:
                yield Fault(f"the address {words[at]} in a .section needs .b32 or .b64, not {word}", word=words[at])
            since = (DIFFERENCE_SINCE if words[at + 1] == "-" else OFFSET_SINCE) if length > 1 else (0, 0)
            if version < since:
                yield _too_old("a sum or difference in a .section needs", since, version, words[at])
            at += length
            continue
        first = at
        while True:
            sign = words[at] == "-"
            number = words[at + sign] if at + sign < end else ""
            if not _NUMBER(number) or (sign and number[-1] == "U"):
                yield Fault(f"{word} in a .section needs a number, not {number or 'its end'}", _LEGAL, word=word)
                return
            try:
                value = int(literal(number)) % (1 << 64)
            except (ValueError, OverflowError) as error:
                yield Fault(str(error), word=number)
                return
            if sign and version < NEGATIVE_SINCE:
                yield _too_old("negative numbers in a .section need", NEGATIVE_SINCE, version, number)
            following = words[at + sign + 1]
            alone = at == first and following != ","
            if not _fits(value, bool(sign), bits) or (sign and not value and alone and bits < 64):
                yield Fault(f"{'-' * sign}{number} does not fit in {word}", word=number)
            at += sign + 1
            if following != ",":
                break
            at += 1


def _is_name(word: str) -> bool:
    """Whether it may be the name of a section: no type and no directive of PTX."""
    return bool(_NAME(word)) and word not in _TYPES and word[1:] not in SCALAR_TYPES and not is_directive(word)


def _fits(value: int, negative: bool, bits: int) -> bool:
    """Whether a number of 64 bits, or its negative, may follow a type of so many bits. ptxas looks at the low 32
    bits of what is not negative. (A -0 alone it takes for .b64 only.)
    """
    if negative:
        return value < 1 << 63 if bits == 64 else value <= 1 << bits - 1
    return bits >= 32 or value % (1 << 32) < 1 << bits


def _too_old(what: str, since: Version, version: Version, word: str) -> Fault:
    message = f"{what} PTX {version_text(since)} or newer, and .version is {version_text(version)}"
    return Fault(message, word=word)


def _reference(words: Sequence[str], at: int) -> int:
    """The number of words of an address: `.debug_abbrev+4`, `L`, `L+4`, `L-M`; 0 if there is none."""
    if _IDENTIFIER(words[at]) and words[at] != "WARP_SZ":
        behind, other = words[at + 1], words[at + 2 : at + 3]
        if behind == "-" and other and _IDENTIFIER(other[0]):
            return 3
    elif not (_NAME(words[at]) and words[at] not in _TYPES):
        return 0
    return 3 if words[at + 1] == "+" and len(words) > at + 2 and _NUMBER(words[at + 2]) else 1
