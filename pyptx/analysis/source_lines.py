"""`.file` and `.loc`: the lines of the program that a PTX text was made from (PTX ISA 11.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ..dialects.ptx.directive_facts import judge_directive
from ..dialects.ptx.syntax import literal
from ..dialects.ptx.target import Version
from .entities import Fault

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?").fullmatch
_LABEL = re.compile(r"\.?[A-Za-z_$%][\w$]*").fullmatch
FILE = '.file 1 "folder/name.cu"'
BLOCK = '.code_block { .ir_name: "TileIR" .sourceFileName: 2 .source_begin (lines) .source_end }'
LOC = ".loc file line column {, function_name label{+offset}, inlined_at file line column}"


class SourceLines:
    """Feed it the `.file` and `.loc` directives of a module in order; each method yields the broken rules."""

    def __init__(self, version: Version, target: str):
        self.version, self.target = version, target
        self._files: set[int] = set()
        self._places: set[tuple[int | None, ...]] = set()

    def file(self, words: Sequence[str]) -> Iterator[Fault]:
        """`.file index "name" {, time {, size}}`."""
        index = _number(words[1], 32) if len(words) > 2 else None
        more = words[3:]
        if index is None or words[2][0] != '"' or words[2] == '"':
            yield Fault(".file takes a number below 2**32 and one name", FILE, word=".file")
        elif len(more) not in (0, 2, 4) or {*more[::2]} - {","} or None in [_number(w, 65) for w in more[1::2]]:
            yield Fault(
                "after the name of a .file stand its time and size, whole numbers",
                f"{FILE}, 1700000000, 4096",
                word=".file",
            )
        elif index in self._files:
            yield Fault(f"there are two files of the number {words[1]}", word=".file")
        else:
            self._files.add(index)

    def loc(self, words: Sequence[str]) -> Iterator[Fault]:
        """`.loc file line column`, perhaps with the place that a function was inlined at."""
        place = tuple([_number(w, 32) for w in words[1:4]])
        if len(place) < 3 or None in place or (len(words) > 4 and words[4] != ","):
            yield Fault(".loc takes three whole numbers below 2**32: file, line and column", LOC, word=".loc")
            return
        if len(words) > 4:
            yield from self._inlined(words[5:])
        self._places.add(place)

    def loc_intermediate(self, words: Sequence[str]) -> Iterator[Fault]:
        """`.loc_intermediate file line column`: the place in the intermediate language (PTX ISA 11.5.5). ptxas asks
        neither for the `.loc` before it nor for its `.file`.
        """
        if len(words) != 4 or None in [_number(w, 32) for w in words[1:]]:
            message = ".loc_intermediate takes three whole numbers below 2**32: file, line and column"
            yield Fault(message, ".loc_intermediate 2 23 6", word=words[0])

    def source_section(self, words: Sequence[str]) -> Iterator[Fault]:
        """`.nv_intermediate_source_section { .code_block { .ir_name: "TileIR" .sourceFileName: 2 .source_begin ...
        .source_end } ... }`: the text of intermediate programs (PTX ISA 11.5.6).
        """
        blocks = words[2:-1]
        for start in range(0, len(blocks), 10):
            block = blocks[start : start + 10]
            if len(block) < 10 or not _is_block(block):
                yield Fault("a block of an intermediate source is not as it should be", BLOCK, word=words[0])
                return
            if _number(block[7], 32) not in self._files:
                yield Fault(f"there is no .file {block[7]} before this", FILE, word=block[7])

    def _inlined(self, words: Sequence[str]) -> Iterator[Fault]:
        if "+" in words and words.index("+") == 2 and len(words) > 3 and _NUMBER(words[3]):
            words = [*words[:2], *words[4:]]
        outer = tuple([_number(w, 32) for w in words[4:]])
        right = len(outer) == 3 and None not in outer and _LABEL(words[1])
        if not right or (words[0], words[2], words[3]) != ("function_name", ",", "inlined_at"):
            yield Fault("after its numbers a .loc has function_name and inlined_at", LOC, word=".loc")
            return
        problem = judge_directive(".loc", ("function_name",), "func body", self.version, self.target)
        if problem is not None:
            yield Fault(problem.message, problem.hint, word="function_name")
        elif outer not in self._places:
            where = " ".join(words[4:])
            yield Fault(f"inlined_at {where}: no .loc before this one says {where}", word="inlined_at")


def _is_block(words: Sequence[str]) -> bool:
    """Whether the ten words are those of a `.code_block`."""
    name, number, source = words[4], words[7], words[8]
    return (
        [*words[:4], *words[5:7], words[9]] == [".code_block", "{", ".ir_name", ":", ".sourceFileName", ":", "}"]
        and name[0] == '"'
        and _number(number, 32) is not None
        and source.startswith(".source_begin")
        and source != ".source_begin"
    )


@lru_cache(maxsize=16384)
def _number(word: str, bits: int) -> int | None:
    """A whole number of at most so many bits, or None."""
    if not _NUMBER(word):
        return None
    try:
        value = int(literal(word))
    except (ValueError, OverflowError):
        return None
    return None if value >> bits else value
