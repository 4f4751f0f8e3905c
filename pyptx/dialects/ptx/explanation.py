"""Why no form of an instruction takes the modifiers that were written.

The modifiers are either unknown, or some of them stand in no form together, or one is missing, or they stand in a wrong
order; `explain` looks for these in that order. The types are one whole (`.s32.f32` of cvt): what does not go with them
is at fault, not they.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Protocol

from ...diagnostics import suggest
from .forms import Form, Problem, Slot, order_of
from .types import SCALAR_TYPES


class Family(Protocol):
    """What is asked of an op class."""

    @property
    def opcode(self) -> str: ...
    @property
    def forms(self) -> tuple[Form, ...]: ...
    def knowing(self, modifiers: Iterable[str], /) -> Iterator[Form]:
        """The forms that know all these words."""
        ...


def explain(family: Family, written: Sequence[str]) -> Problem:
    """The problem of modifiers that no form binds; `word` is the one at fault where there is one."""
    return _Explanation(family, tuple(written)).problem()


def completions(family: Family, written: Sequence[str], operands: int = -1) -> list[str]:
    """The modifiers one of which more makes another form of these; of a form with that many operands, if given."""
    forms = [f for f in family.knowing(written) if operands < 0 or any(len(a) == operands for a in f.alternatives)]
    return list(dict.fromkeys(v for f in forms for _, values in _completions(f, written) for v in values))


def one_of(values: Iterable[str], dot: str = ".") -> str:
    """`.a`, or `one of .a .b`."""
    words = [dot + v for v in dict.fromkeys(values)]
    if len(words) == 1:
        return words[0]
    return f"one of {' '.join(words[:16])}{' ...' if len(words) > 16 else ''}"


def _listed(words: Iterable[str]) -> str:
    """`.a`, `.a and .b`, `.a, .b and .c`."""
    names = [f".{w}" for w in words]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class _Explanation:
    def __init__(self, family: Family, written: tuple[str, ...]):
        self.family, self.words = family, written
        self.opcode = family.opcode
        self.spelled = family.opcode + "".join("." + m for m in written)
        self.types = tuple(w for w in self.words if w in SCALAR_TYPES)

    def problem(self) -> Problem:
        unknown = self._unknown()
        if unknown is not None:
            return unknown
        fitting = [f for f in self.family.knowing(self.words) if f.places(self.words) is not None]
        if fitting:
            return self._missing(fitting)
        return self._twice() or self._types() or self._conflict()

    # -------------------------------------------------------------------------------------------------------- unknown

    def _unknown(self) -> Problem | None:
        known: set[str] = set().union(*(f.tokens for f in self.family.forms))
        for word in self.words:
            if word in known:
                continue
            return Problem(f"{self.opcode} has no modifier .{word}", -1, self._instead(word, known), word=word)
        return None

    def _instead(self, word: str, known: set[str]) -> str | None:
        """What might be written for an unknown word: one of a similar name, the one that lacks, what goes with the others."""
        near = suggest(word, known)
        if near:
            return f"did you mean {' or '.join('.' + n for n in near)}?"
        others = [w for w in self.words if w in known]
        fitting = [f for f in self.family.knowing(others) if f.places(others) is not None]
        missing = [v for f in fitting for _, values in _completions(f, others) for v in values]
        if missing and all(f.bind(tuple(others)) is None for f in fitting):
            return f"there should be {one_of(missing)}"
        free = [s for f in fitting for s in _free(f, others)]
        alike = [s for s in free if s.ordered and s.ordered == order_of((word,))]  # another space for a space
        legal = sorted({v for s in alike or free for v in s.values})
        if not legal:
            legal = sorted(known)
        return f"legal: {' '.join('.' + w for w in legal[:24])}{' ...' if len(legal) > 24 else ''}" if legal else None

    # ------------------------------------------------------------------------------------------------------ conflicts

    def _fits(self, words: Sequence[str]) -> bool:
        return any(f.places(words) is not None for f in self.family.knowing(words))

    def _twice(self) -> Problem | None:
        for word in self.words:
            most = max(sum(word in s.values for s in f.slots) for f in self.family.forms)
            if self.words.count(word) > most and not self._fits((word, word)):
                return self._problem(f".{word} is written twice", word, [w for w in self.words if w != word])
        return None

    def _types(self) -> Problem | None:
        """The types alone: too many, or one in a place where it cannot stand."""
        if self._fits(self.types):
            return None
        most = max(sum(s.ordered == "type" for s in f.slots) for f in self.family.forms)
        listed = "".join(f".{t}" for t in self.types)
        if len(self.types) > most:
            has = f"takes {most} type{'s' if most != 1 else ''}" if most else "takes no type"
            return self._problem(f"{self.opcode} {has}, not {listed}", self.types[most], self.types[:most])
        others = [w for w in self.words if w not in SCALAR_TYPES]
        for rest in (others, []):  # what would be right beside the other modifiers, or at all
            for i, word in enumerate(self.types):
                legal = self._instead_of(self.types, i, rest)
                if legal:
                    beside = "".join(f".{t}" for t in (*self.types[:i], *self.types[i + 1 :]))
                    message = f".{word} does not go with {beside}, which takes {one_of(legal)}"
                    return self._problem(message, word, (*rest, *self.types[:i], legal[0], *self.types[i + 1 :]))
        for i in reversed(range(len(self.types))):
            rest = (*self.types[:i], *self.types[i + 1 :])
            if self._fits((*others, *rest)):
                beside = "".join(f".{t}" for t in rest)
                return self._problem(f".{self.types[i]} does not go with {beside}", self.types[i], (*others, *rest))
        fitting = [f for f in self.family.knowing(others) if f.places(others) is not None] or self.family.forms
        takes = dict.fromkeys("".join(_shown(s) for s in f.slots if s.ordered == "type") for f in fitting)
        here = " or ".join(filter(None, list(takes)[:4])) or "no types"
        return self._problem(f"{self.opcode} takes {here} here, not {listed}", self.types[0], others)

    def _instead_of(self, words: Sequence[str], at: int, others: Sequence[str]) -> list[str]:
        """The words that would fit in place of one of `words`."""
        kept = (*words[:at], *words[at + 1 :], *others)
        legal: dict[str, None] = {}
        for form in self.family.knowing(kept):
            for slot in form.slots:
                if words[at] not in self._rivals(slot):
                    continue
                for value in slot.values:
                    if value not in legal and form.places((*words[:at], value, *words[at + 1 :], *others)) is not None:
                        legal[value] = None
        return list(legal)

    def _rivals(self, slot: Slot) -> set[str]:
        """All values of slots of this name, in any form; all types stand for each other."""
        if slot.ordered == "type":
            return set(SCALAR_TYPES)
        return {v for f in self.family.forms for s in f.slots if s.name == slot.name for v in s.values}

    def _conflict(self) -> Problem:
        """Modifiers that stand in no form together: those that the types exclude, or the smallest set that fits no form."""
        words, types = self.words, [i for i, w in enumerate(self.words) if w in SCALAR_TYPES]
        others = [i for i in range(len(words)) if i not in types]
        foreign = [words[i] for i in others if not self._fits(self._at((i, *types)))]
        if foreign:
            return self._foreign(list(dict.fromkeys(foreign)))
        for size in range(2, len(others) + 1):
            failing = [self._at(c) for c in combinations(others, size)]
            failing = [c for c in failing if not self._fits(c)]
            if failing:
                return self._together(failing[0], failing)
            for chosen in combinations(others, size):  # beside the types, which go with each of them
                if not self._fits(self._at((*chosen, *types))):
                    return self._together(self._at(chosen), [], self.types)
        raise AssertionError(f"{self.spelled} fits a form")

    def _at(self, places: Iterable[int]) -> list[str]:
        """The words at these places, in their order."""
        return [self.words[i] for i in sorted(places)]

    def _kind(self, word: str) -> str:
        """The kind of modifier whose order counts that a word is, or the empty string."""
        return next((s.ordered for f in self.family.forms for s in f.slots if word in s.values), "")

    def _foreign(self, foreign: list[str]) -> Problem:
        """Modifiers that do not go with the types."""
        first = foreign[0]
        culprit = next((t for t in self.types if not self._fits([first, t])), None)
        types = [culprit] if culprit is not None else list(self.types)
        listed = "".join(f".{t}" for t in types)
        rest = [w for w in self.words if w not in foreign]
        message = f"{_listed(foreign)} {'does' if len(foreign) == 1 else 'do'} not go with {listed}"
        legal = self._instead_of([first], 0, rest)
        if legal:
            message = f"{message}, which takes {one_of(legal)}"
        if len(types) == 1:
            beside = [w for w in self.words if w not in types]
            goes = self._instead_of(types, 0, beside)
            if goes:
                message = f"{message}; {'it goes' if len(foreign) == 1 else 'they go'} with {one_of(goes)}"
        return self._problem(message, first, [*rest, *legal[:1]])

    def _together(self, words: list[str], failing: list[list[str]], types: Sequence[str] = ()) -> Problem:
        """The smallest sets of modifiers that fit no form: `words` is the first of them."""
        for pair in failing:
            if len(pair) == 2 and any(set(pair) <= self._rivals(s) for f in self.family.forms for s in f.slots):
                rest = [w for w in self.words if w != pair[1]]
                if pair[0] != pair[1] and not self._fits(pair[::-1]):
                    return self._problem(f".{pair[0]} and .{pair[1]} exclude each other", pair[1], rest)
        ordered = [i for i, w in enumerate(words) if self._kind(w)]
        for i, j in combinations(ordered, 2):
            if self._kind(words[i]) != self._kind(words[j]):
                continue
            swapped = list(words)
            swapped[i], swapped[j] = words[j], words[i]
            if self._fits(swapped):
                return self._problem(f".{words[j]} must stand before .{words[i]}", words[j], swapped)
        for i in reversed(ordered):
            legal = self._instead_of(words, i, types)
            if legal:
                others = [w for n, w in enumerate(words) if n != i]
                message = f".{words[i]} does not go with {_listed(others)}, which takes {one_of(legal)}"
                return self._problem(message, words[i], [*others, legal[0], *types])
        if len(words) == 2 and failing:
            center = max(words, key=lambda w: sum(w in pair for pair in failing))
            leaves = list(dict.fromkeys(w for pair in failing if center in pair for w in pair if w != center))
            rest = [w for w in self.words if w not in leaves]
            verb = "does" if len(leaves) == 1 else "do"
            message = f"{_listed(leaves)} {verb} not go with .{center}"
            legal = self._instead_of([leaves[0]], 0, rest)
            if legal:
                return self._problem(f"{message}, which takes {one_of(legal)}", leaves[0], [*rest, legal[0]])
            return self._problem(message, leaves[0], rest)
        listed = "".join(f".{t}" for t in types)
        beside = f" for {listed}" if types else ""
        rest = [w for w in self.words if w != words[-1]]
        return self._problem(f"{_listed(words)} do not go together{beside}", words[-1], rest)

    # -------------------------------------------------------------------------------------------------------- missing

    def _missing(self, fitting: list[Form]) -> Problem:
        """All words fit into a form, but it wants more, or another order."""
        lines: dict[str, None] = {}  # the syntax of each form that lacks one modifier
        values: list[str] = []
        counted = False
        for form in fitting:
            for slot, legal in _completions(form, self.words):
                values += legal
                lines[form.syntax] = None
                counted = counted or _count(form, slot.ordered) > 1
        if lines and not counted:
            message = f"{self.spelled} needs {one_of(values)}{self._or_another_shape()}"
            return Problem(message, -1, f"syntax: {' | '.join(list(lines)[:3])}")
        form = min(fitting, key=lambda f: _want(_lacking(f, self.words)))
        syntax = f"syntax: {form.syntax}"
        lacking = _lacking(form, self.words)
        if lacking:
            return Problem(f"{self.spelled} needs {self._needs(form, lacking, values)}", -1, syntax)
        filled = form.places(self.words) or {}
        for group in form.groups:
            absent = [s for s in group if s.name not in filled]
            if 0 < len(absent) < len(group):
                there = next(filled[s.name] for s in group if s.name in filled)
                message = f"{self.spelled}: .{there} needs {one_of(absent[0].values)} too"
                return Problem(message, -1, syntax, word=there)
        first = next((s for s in form.slots if s.first), None)
        if first is not None and self.words[0] not in first.values:
            word = filled[first.name]
            return Problem(f"{self.spelled}: .{word} must follow {self.opcode} directly", -1, syntax, word=word)
        return Problem(f"{self.spelled} is not a legal order of these modifiers", -1, syntax)

    def _or_another_shape(self) -> str:
        """The shapes with which nothing lacks, in words: they decide what else a matrix operation must have."""
        for i, word in enumerate(self.words):
            shapes = [s.values for f in self.family.forms for s in f.slots if s.name == "shape" and word in s.values]
            legal = [v for v in dict.fromkeys(v for values in shapes for v in values) if self._binds(i, v)]
            if legal:
                return f", or instead of .{word} {one_of(legal)}"
        return ""

    def _binds(self, at: int, value: str) -> bool:
        words = (*self.words[:at], value, *self.words[at + 1 :])
        return any(f.bind(words) is not None for f in self.family.knowing(words))

    def _needs(self, form: Form, lacking: list[Slot], values: Sequence[str]) -> str:
        """What a form lacks, in words: of types it says how many it takes. `values`: what completes any form."""
        kind = lacking[0].ordered
        required = [s for s in form.slots if s.required and s.ordered == kind]
        has = len(required) - sum(s.ordered == kind for s in lacking)
        if kind and has:
            names = "".join(f".{s.name}" for s in required)
            return f"{len(required)} {kind}s, {names}, and has {has}: add {one_of(values or lacking[0].values)}"
        more = " and more" if len(lacking) > 3 else ""
        return " and ".join(one_of(s.values) for s in lacking[:3]) + more

    # ---------------------------------------------------------------------------------------------------------- words

    def _problem(self, message: str, word: str, right: Sequence[str]) -> Problem:
        """A problem whose hint is the syntax of the form closest to the words that are right."""
        return Problem(f"{self.spelled}: {message}", -1, f"syntax: {self._closest(right).syntax}", word=word)

    def _closest(self, words: Sequence[str]) -> Form:
        def nearness(form: Form) -> tuple[bool, int, int]:
            known = form.tokens.intersection(words)
            return form.places(words) is not None, len(known), -len(_lacking(form, words))

        return max(self.family.forms, key=nearness)


def _shown(slot: Slot) -> str:
    """A slot as in a syntax line, its value where there is only one."""
    return f".{slot.values[0] if len(slot.values) == 1 else slot.name}"


def _lacking(form: Form, words: Sequence[str]) -> list[Slot]:
    """The required slots that these words leave empty."""
    filled = form.places(words)
    if filled is None:
        return [s for s in form.slots if s.required and not set(s.values) & set(words)]
    return [s for s in form.slots if s.required and s.name not in filled]


def _free(form: Form, words: Sequence[str]) -> list[Slot]:
    filled = form.places(words) or {}
    return [s for s in form.slots if s.name not in filled]


def _completions(form: Form, words: Sequence[str]) -> Iterator[tuple[Slot, list[str]]]:
    """The slot without which these words are a form's, and the values that make them complete."""
    lacking = _lacking(form, words)
    if len(lacking) == 1:
        values = [
            v for v in lacking[0].values if form.bind((*words, v)) is not None or form.bind((v, *words)) is not None
        ]
        if values:
            yield lacking[0], values


def _count(form: Form, kind: str) -> int:
    """How many modifiers of a kind whose order counts a form must have."""
    return sum(s.required and s.ordered == kind for s in form.slots) if kind else 0


def _want(lacking: list[Slot]) -> tuple[int, int]:
    """Orders forms by how little they lack, and then by how much is to choose."""
    return len(lacking), -max((len(s.values) for s in lacking), default=0)
