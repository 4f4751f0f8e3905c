"""Line and column of tokens."""

from __future__ import annotations

import re
from bisect import bisect_left

from ..dialects.ptx.syntax import Token

_BREAKS = re.compile("\n").finditer


class Positions:
    """Line and column of the tokens of a chunk, computed when asked."""

    def __init__(self, text: str, tokens: list[Token], gaps: list[str], line: int):
        self.text, self.tokens, self.gaps, self.first = text, tokens, gaps, line
        self._offsets: list[int] | None = None
        self._breaks: list[int] | None = None
        self._multi = "\n" in text

    def _offset(self, at: int) -> int:
        if self._offsets is None:
            if at < 6:
                return sum(map(len, self.gaps[: at + 1])) + sum([len(t) for _, t in self.tokens[:at]])
            offsets: list[int] = []
            offset = 0
            for gap, (_, token) in zip(self.gaps, self.tokens, strict=False):
                offset += len(gap)
                offsets.append(offset)
                offset += len(token)
            self._offsets = offsets
        return self._offsets[at]

    def line(self, at: int) -> int:
        if not self._multi:
            return self.first
        offset = self._offset(at)
        if at < 6:
            return self.first + self.text.count("\n", 0, offset)
        if self._breaks is None:
            self._breaks = [m.start() for m in _BREAKS(self.text)]
        return self.first + bisect_left(self._breaks, offset)

    def column(self, at: int) -> int:
        offset = self._offset(at)
        return offset - (self.text.rfind("\n", 0, offset) + 1) + 1
