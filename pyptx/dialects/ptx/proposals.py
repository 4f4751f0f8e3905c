"""Proposals: what could be written instead of an instruction's opcode and modifiers, each of them tried.

A *head* is an opcode and its modifiers, word by word: `("add", "s32")`. A `Search` makes heads near the written one and keeps
those that its judge admits with the operands as they are. The words of a hint derive from what was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...diagnostics import suggest

Head = tuple[str, ...]
Admits = Callable[[Head], bool]
"""Whether an instruction with this head, and the operands in question, is legal."""

MOST = 8
"""Proposals of one message."""
MOST_IN_A_ROW = 16
"""Proposals of one message that differ in the word that they add."""
_TRIES = 400


def refuses_all(_: Head) -> bool:
    """Admits nothing: a `Search` with it tries nothing."""
    return False


class Search:
    """The legal heads near a written one, in the order in which they were found."""

    def __init__(self, head: Head, admits: Admits):
        self.head = head
        self._admits = admits
        self._left = 0 if admits is refuses_all else _TRIES
        self._tried: dict[Head, bool] = {head: False}
        self.found: dict[Head, None] = {}

    def legal(self, head: Head) -> bool:
        """Whether a head is legal; no, once too many were tried."""
        known = self._tried.get(head)
        if known is None:
            if not self._left:
                return False
            self._left -= 1
            known = self._tried[head] = self._admits(head)
        return known

    def offer(self, heads: Iterable[Head], most: int = MOST) -> list[Head]:
        """Keep the legal ones of these heads, at most so many."""
        kept: list[Head] = []
        for head in heads if self._left else ():
            if len(kept) == most:
                break
            if head not in kept and self.legal(head):
                kept.append(head)
                if len(self.found) < MOST_IN_A_ROW:
                    self.found[head] = None
        return kept

    def exchange(self, at: int, words: Iterable[str], most: int = 4) -> list[str]:
        """Keep those of these words that may stand instead of the word at this place."""
        before, after = self.head[:at], self.head[at + 1 :]
        return [head[at] for head in self.offer(((*before, w, *after) for w in words), most)]

    def remove(self, *places: int) -> bool:
        """Keep the head without the words at these places, if that is legal."""
        return bool(self.offer([tuple(w for i, w in enumerate(self.head) if i not in places)]))


def title(head: Head, new: Head) -> str:
    """What has to be done to a head, in words."""
    old, added = difference(head, new)
    if len(old) > 1 or len(added) > 1 or old == head[:1] or sorted(head) == sorted(new):
        return f"write {'.'.join(new)}"
    new_word = "".join(f".{w}" for w in added)
    if not old:
        return f"add {new_word}"
    return f"replace .{old[0]} with {new_word}" if added else f"remove .{old[0]}"


def difference(head: Head, new: Head) -> tuple[Head, Head]:
    """The words of two heads between those that both start and end with."""
    first, last = common_ends(head, new)
    return head[first : len(head) - last], new[first : len(new) - last]


def common_ends(head: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many words two heads start and end with alike."""
    first = next((i for i, (a, b) in enumerate(zip(head, new, strict=False)) if a != b), min(len(head), len(new)))
    most = min(len(head), len(new)) - first
    last = next((i for i in range(most) if head[-1 - i] != new[-1 - i]), most)
    return first, last


def advice(head: Head, proposals: Iterable[Head], *, additions: bool = True, unknown: str = "") -> str:
    """What a hint says of proposals; `additions`: also the words to add. `unknown` is a word that does not exist, which may be
    another one misspelled.
    """
    groups: dict[str, list[str]] = {}
    for new in proposals:
        what = title(head, new)
        verb, _, rest = what.partition(" ")
        if verb == "add" and not additions:
            continue
        old, word, replacement = rest.partition(" with ")
        group = groups.setdefault(f"replace {old} with" if word else verb, [])
        if (replacement or rest) not in group:
            group.append(replacement or rest)
    meant = groups.get(f"replace .{unknown} with", [])
    if meant and all(suggest(unknown, [w[1:]]) for w in meant):
        del groups[f"replace .{unknown} with"]
    else:
        meant = []
    said = ", or ".join(f"{verb} {any_of(words)}" for verb, words in groups.items())
    return "\n".join(filter(None, (f"did you mean {any_of(meant)}?" if meant else "", said)))


def any_of(words: Sequence[str]) -> str:
    """`.a`, `.a or .b`, `.a, .b or .c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def hint_of(*lines: str | None) -> str | None:
    """A hint of several lines, of those that say something."""
    return "\n".join(filter(None, lines)) or None
