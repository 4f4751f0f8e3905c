"""Why no form of an instruction takes the modifiers that were written.

The modifiers are either unknown, or some of them stand in no form together, or one is missing, or they stand in a wrong
order; `explain` looks for these in that order. The types are one whole (`.s32.f32` of cvt): what does not go with them
is at fault, not they. What a problem proposes was tried with the instruction's operands, see `proposals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Protocol

from ...diagnostics import suggest
from .forms import Form, Problem, Slot
from .proposals import MOST, MOST_IN_A_ROW, Admits, Head, Search, advice, hint_of
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


def explain(family: Family, written: Sequence[str], admits: Admits) -> Problem:
    """The problem of modifiers that no form binds; `word` is the one at fault where there is one. `admits` judges what
    is proposed.
    """
    return _Explanation(family, tuple(written), admits).problem()


def with_proposals(problem: Problem, family: Family, written: Sequence[str], admits: Admits) -> Problem:
    """The problem of the operands of an instruction, with the modifiers near the written ones that take them."""
    explanation = _Explanation(family, tuple(written), admits)
    explanation.near([i for i, w in enumerate(written) if w in SCALAR_TYPES], additions=True)
    return explanation.proposing(problem)


def completions(family: Family, written: Sequence[str]) -> list[Head]:
    """The modifiers, in a legal order, that one word more makes of these."""
    return [w for f in family.knowing(written) for w in _completions(f, tuple(written))]


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
    def __init__(self, family: Family, written: tuple[str, ...], admits: Admits):
        self.family, self.words = family, written
        self.opcode = family.opcode
        self.spelled = family.opcode + "".join("." + m for m in written)
        self.types = tuple(w for w in self.words if w in SCALAR_TYPES)
        root = tuple(family.opcode.split("."))
        self.root = root
        self.search = Search((*root, *written), admits)

    def problem(self) -> Problem:
        unknown = self._unknown()
        if unknown is not None:
            return unknown
        fitting = [f for f in self.family.knowing(self.words) if f.places(self.words) is not None]
        if fitting:
            return self._missing(fitting)
        return self._twice() or self._types() or self._conflict()

    # ------------------------------------------------------------------------------------------------------ proposals

    def proposing(self, problem: Problem, *, additions: bool = True) -> Problem:
        """The problem with what was found, and its hint with the words of that (`additions`: of words to add, too)."""
        found = tuple(self.search.found)
        known = set[str]().union(*(f.tokens for f in self.family.forms))
        unknown = "" if problem.word in known else problem.word
        hint = hint_of(advice(self.search.head, found, additions=additions, unknown=unknown), problem.hint)
        return replace(problem, hint=hint, proposals=found)

    def near(self, faulty: Sequence[int], *, additions: bool = False) -> None:
        """Look for legal modifiers near the written ones: others for the words at fault, and without them, then any word
        exchanged, left out or (`additions`) added.
        """
        search, at = self.search, len(self.root)
        for i in faulty:
            self._exchange(i)
        if faulty and not additions:
            search.remove(*(at + i for i in faulty))
        others = [i for i in range(len(self.words)) if i not in faulty]
        if search.found and additions:
            return
        for i in others:
            search.remove(at + i)
        for i in reversed(others):
            if len(search.found) < MOST // 2:
                self._exchange(i)
        if additions and not search.found:
            for i in faulty:
                search.remove(at + i)
            search.offer((self._head(w) for w in self._longer()), MOST_IN_A_ROW)
        if not search.found:
            search.offer((self._head(w) for w in self._ordered()), 1)
        for i in faulty if not search.found else ():
            search.exchange(at + i, self._all_words(), MOST)

    def _head(self, words: Sequence[str]) -> Head:
        return (*self.root, *words)

    def _exchange(self, at: int, most: int = 4) -> None:
        """Look for words that may be meant by the one at this place: those spelled like it and of its kind; types of the
        other kinds only if there are none.
        """
        word, place = self.words[at], len(self.root) + at
        if word not in SCALAR_TYPES:
            slots = [s for f in self.family.forms for s in f.slots if word in self._rivals(s)]
            rivals = list(dict.fromkeys(v for s in slots for v in s.values))
            self.search.exchange(place, [*suggest(word, rivals), *rivals], most)
            return
        types = {v for f in self.family.forms for v in f.tokens if v in SCALAR_TYPES}
        for kindred in (True, False):
            near = sorted((t for t in types if _kindred(word, t) == kindred), key=_distance(word))
            if self.search.exchange(place, near, most):
                return

    def _all_words(self) -> list[str]:
        """Every modifier of the family, in the order of its forms."""
        return list(dict.fromkeys(v for f in self.family.forms for s in f.slots for v in s.values))

    def _longer(self) -> Iterator[Head]:
        """The modifiers with one more of those that some form knows."""
        for form in self.family.knowing(self.words):
            filled = form.places(self.words)
            for slot in form.slots if filled is not None else ():
                if slot.name not in (filled or {}):
                    yield from (_inserted(form, self.words, {slot.name: v}) for v in slot.values)

    def _ordered(self) -> Iterator[Head]:
        """The same modifiers in the order of each form that has them all."""
        for form in self.family.knowing(self.words):
            left = list(self.words)
            words: list[str] = []
            for slot in form.slots:
                word = next((w for w in left if w in slot.values), None)
                if word is not None:
                    left.remove(word)
                    words.append(word)
            if not left:
                yield tuple(words)

    # -------------------------------------------------------------------------------------------------------- unknown

    def _unknown(self) -> Problem | None:
        known: set[str] = set().union(*(f.tokens for f in self.family.forms))
        at = next((i for i, w in enumerate(self.words) if w not in known), -1)
        if at < 0:
            return None
        word, search, place = self.words[at], self.search, len(self.root) + at
        message = f"{self.opcode} has no modifier .{word}"
        if word not in SCALAR_TYPES and search.exchange(place, suggest(word, known, 12)):
            return self.proposing(Problem(message, word=word))
        if word in SCALAR_TYPES:
            if SCALAR_TYPES[word].bits == 8 and not any(t in known for t in _BYTES):
                message = (
                    f"{message}: 8-bit integers are loaded, stored and converted (cvt), {self.opcode} takes wider ones"
                )
            self._exchange(at)
        if not search.remove(place) and not search.found:
            search.exchange(place, self._all_words(), MOST_IN_A_ROW)
        syntax = None if search.found else f"syntax: {self._closest([w for w in self.words if w in known]).syntax}"
        return self.proposing(Problem(message, hint=syntax, word=word))

    # ------------------------------------------------------------------------------------------------------ conflicts

    def _fits(self, words: Sequence[str]) -> bool:
        return any(f.places(words) is not None for f in self.family.knowing(words))

    def _twice(self) -> Problem | None:
        for i, word in enumerate(self.words):
            most = max(sum(word in s.values for s in f.slots) for f in self.family.forms)
            if word in self.words[:i] and self.words.count(word) > most and not self._fits((word, word)):
                return self._problem(f".{word} is written twice", [i], [w for w in self.words if w != word])
        return None

    def _types(self) -> Problem | None:
        """The types alone: too many, or one in a place where it cannot stand."""
        if self._fits(self.types):
            return None
        places = [i for i, w in enumerate(self.words) if w in SCALAR_TYPES]
        most = max(sum(s.ordered == "type" for s in f.slots) for f in self.family.forms)
        listed = "".join(f".{t}" for t in self.types)
        if len(self.types) > most:
            has = f"takes {most} type{'s' if most != 1 else ''}" if most else "takes no type"
            return self._problem(f"{self.opcode} {has}, not {listed}", places[most:], self.types[:most])
        others = [w for w in self.words if w not in SCALAR_TYPES]
        for i in range(len(self.types)):
            rest = (*self.types[:i], *self.types[i + 1 :])
            for beside in (others, []):  # what would be right next to the other modifiers, or at all
                legal = self._instead_of(self.types, i, beside)
                if not legal:
                    continue
                right = (*beside, *self.types[:i], legal[0], *self.types[i + 1 :])
                what = f"does not go with {''.join(f'.{t}' for t in rest)}" if rest else "is not a type of it"
                return self._problem(f".{self.types[i]} {what}", [places[i]], right)
        for i in reversed(range(len(self.types))):
            rest = (*self.types[:i], *self.types[i + 1 :])
            if self._fits((*others, *rest)):
                beside = "".join(f".{t}" for t in rest)
                message = f".{self.types[i]} does not go with {beside}"
                return self._problem(message, [places[i]], (*others, *rest))
        fitting = [f for f in self.family.knowing(others) if f.places(others) is not None] or self.family.forms
        takes = dict.fromkeys("".join(_shown(s) for s in f.slots if s.ordered == "type") for f in fitting)
        here = " or ".join(filter(None, list(takes)[:4])) or "no types"
        return self._problem(f"{self.opcode} takes {here} here, not {listed}", places, others)

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
        foreign = [i for i in others if not self._fits(self._at((i, *types)))]
        if foreign:
            return self._foreign(foreign)
        for size in range(2, len(others) + 1):
            failing = [c for c in combinations(others, size) if not self._fits(self._at(c))]
            if failing:
                return self._together(failing)
            for chosen in combinations(others, size):  # next to the types, which go with each of them
                if not self._fits(self._at((*chosen, *types))):
                    return self._together([chosen], self.types)
        raise AssertionError(f"{self.spelled} fits a form")

    def _at(self, places: Iterable[int]) -> list[str]:
        """The words at these places, in their order."""
        return [self.words[i] for i in sorted(places)]

    def _without(self, *places: int) -> list[str]:
        return [w for i, w in enumerate(self.words) if i not in places]

    def _kind(self, word: str) -> str:
        """The kind of modifier whose order counts that a word is, or the empty string."""
        return next((s.ordered for f in self.family.forms for s in f.slots if word in s.values), "")

    def _foreign(self, foreign: list[int]) -> Problem:
        """Modifiers that do not go with the types."""
        words = list(dict.fromkeys(self._at(foreign)))
        culprit = next((t for t in self.types if not self._fits([words[0], t])), None)
        listed = "".join(f".{t}" for t in (self.types if culprit is None else [culprit]))
        rest = self._without(*foreign)
        message = f"{_listed(words)} {'does' if len(words) == 1 else 'do'} not go with {listed}"
        legal = self._instead_of([words[0]], 0, rest)
        return self._problem(message, foreign, [*rest, *legal[:1]])

    def _together(self, failing: Sequence[tuple[int, ...]], types: Sequence[str] = ()) -> Problem:
        """The smallest sets of modifiers that fit no form, by their places. `types`: they would fit one without these."""
        for pair in failing:
            first, second = self.words[pair[0]], self.words[pair[1]]
            exclude = any({first, second} <= self._rivals(s) for f in self.family.forms for s in f.slots)
            if len(pair) == 2 and not types and exclude and first != second and not self._fits([second, first]):
                rest = self._without(pair[1])
                return self._problem(f".{first} and .{second} exclude each other", [pair[1]], rest)
        places = failing[0]
        words = self._at(places)
        ordered = [i for i in places if self._kind(self.words[i])]
        for i, j in combinations(ordered, 2):
            if self._kind(self.words[i]) != self._kind(self.words[j]):
                continue
            swapped = list(self.words)
            swapped[i], swapped[j] = swapped[j], swapped[i]
            if self._fits([swapped[p] for p in places]):
                self.search.offer([self._head(swapped)])
                return self._problem(f".{self.words[j]} must stand before .{self.words[i]}", [j], swapped)
        for i in reversed(ordered):
            if self._instead_of(words, places.index(i), types):
                others = self._at(p for p in places if p != i)
                return self._problem(f".{self.words[i]} does not go with {_listed(others)}", [i], [*others, *types])
        if len(words) == 2 and not types:
            center = max(places, key=lambda p: sum(p in pair for pair in failing))
            leaves = list(dict.fromkeys(p for pair in failing if center in pair for p in pair if p != center))
            verb = "does" if len(leaves) == 1 else "do"
            message = f"{_listed(self._at(leaves))} {verb} not go with .{self.words[center]}"
            return self._problem(message, leaves, self._without(*leaves))
        listed = "".join(f".{t}" for t in types)
        beside = f" for {listed}" if types else ""
        return self._problem(f"{_listed(words)} do not go together{beside}", [places[-1]], self._without(places[-1]))

    # -------------------------------------------------------------------------------------------------------- missing

    def _missing(self, fitting: list[Form]) -> Problem:
        """All words fit into a form, but it wants more, or another order."""
        ways = sorted(
            ((form, lacking) for form in fitting if (lacking := _lacking(form, self.words))), key=lambda w: len(w[1])
        )
        for count in range(1, 4):  # the forms that lack least and take the operands
            heads = [
                self._head(w) for form, lacking in ways if len(lacking) == count for w in _completed(form, self.words)
            ]
            if self.search.offer(dict.fromkeys(heads), MOST_IN_A_ROW if count == 1 else 3):
                break
        found = list(self.search.found)
        if found:
            chosen, lacking = next((way for way in ways if self._head_of(way[0], found[0])), ways[0])
            added = list(dict.fromkeys(self._added(head) for head in found))
            wanted = _listed(added[0]) if len(added) == 1 else one_of(".".join(a) for a in added)
            if len(added) > 1 and any(
                len(a) > 1 for a in added
            ):  # several words, each with a choice: the hint has them
                message = f"{self.spelled} lacks {_named(lacking)}"
            else:
                message = f"{self.spelled} needs {self._counted(chosen)}{wanted}"
            syntax = dict.fromkeys(f.syntax for f, _ in ways if any(self._head_of(f, head) for head in found))
            problem = Problem(message, -1, f"syntax: {' | '.join(list(syntax)[:3] or [chosen.syntax])}")
            return self.proposing(problem, additions=any(len(a) > 1 for a in added))
        if ways:
            form, lacking = ways[0]
            counted = self._counted(form).removesuffix(": add ")
            if all(len(s.values) == 1 for s in lacking):
                counted = counted or _listed(s.values[0] for s in lacking)
            lacks = f"needs {counted}" if counted else f"lacks {_named(lacking)}"
            problem = Problem(f"{self.spelled} {lacks}", -1, f"syntax: {form.syntax}")
            self.near([])
            return self.proposing(problem)
        form = fitting[0]
        self.search.offer((self._head(w) for w in self._ordered()), 2)
        filled = form.places(self.words) or {}
        for group in form.groups:
            absent = [s for s in group if s.name not in filled]
            if 0 < len(absent) < len(group):
                there = next(filled[s.name] for s in group if s.name in filled)
                slot = absent[0]
                self.search.offer(self._head(_inserted(form, self.words, {slot.name: v})) for v in slot.values)
                self.near([self.words.index(there)])
                return self._said(f".{there} does not stand alone", form, there)
        first = next((s for s in form.slots if s.first), None)
        if first is not None and self.words[0] not in first.values:
            word = filled[first.name]
            return self._said(f".{word} must follow {self.opcode} directly", form, word)
        return self._said("these modifiers do not stand in this order", form, "")

    def _counted(self, form: Form) -> str:
        """Of modifiers that only their order tells apart, such as types: how many a form takes, and how many there are."""
        lacking = _lacking(form, self.words)
        kind = lacking[0].ordered if lacking else ""
        required = [s for s in form.slots if s.required and s.ordered == kind]
        has = len(required) - sum(s.ordered == kind for s in lacking)
        if not kind or not has:
            return ""
        return f"{len(required)} {kind}s, {''.join(f'.{s.name}' for s in required)}, and has {has}: add "

    def _said(self, message: str, form: Form, word: str) -> Problem:
        return self.proposing(Problem(f"{self.spelled}: {message}", -1, f"syntax: {form.syntax}", word=word))

    def _added(self, head: Head) -> tuple[str, ...]:
        """The words of a head that were not written."""
        left = list(self.words)
        added: list[str] = []
        for word in head[len(self.root) :]:
            if word in left:
                left.remove(word)
            else:
                added.append(word)
        return tuple(added)

    def _head_of(self, form: Form, head: Head) -> bool:
        return form.bind(head[len(self.root) :]) is not None

    # ---------------------------------------------------------------------------------------------------------- words

    def _problem(self, message: str, faulty: Sequence[int], right: Sequence[str]) -> Problem:
        """A problem of the words at these places, with the syntax of the form closest to the words that are right."""
        self.near(faulty)
        syntax = f"syntax: {self._closest(right).syntax}"
        return self.proposing(Problem(f"{self.spelled}: {message}", -1, syntax, word=self.words[faulty[0]]))

    def _closest(self, words: Sequence[str]) -> Form:
        def nearness(form: Form) -> tuple[bool, int, int]:
            known = form.tokens.intersection(words)
            return form.places(words) is not None, len(known), -len(_lacking(form, words))

        return max(self.family.forms, key=nearness)


def _kindred(one: str, other: str) -> bool:
    """Whether two types are both packed, both integers (or bits) or both floats."""
    return any(SCALAR_TYPES[one].kind in kinds and SCALAR_TYPES[other].kind in kinds for kinds in _KINDRED)


_KINDRED = (("packed",), ("bits", "unsigned", "signed"), ("float",), ("pred",))
_BYTES = tuple(t for t, scalar in SCALAR_TYPES.items() if scalar.bits == 8)


def _distance(word: str) -> Callable[[str], tuple[bool, bool, int, str]]:
    """Orders types by how far they are from one: of its kind first, then of its size."""
    wanted = SCALAR_TYPES[word]

    def key(other: str) -> tuple[bool, bool, int, str]:
        scalar = SCALAR_TYPES[other]
        return (
            (scalar.kind == "packed") != (wanted.kind == "packed"),
            scalar.kind != wanted.kind,
            abs(scalar.bits - wanted.bits),
            other,
        )

    return key


def _named(slots: Sequence[Slot]) -> str:
    """The names of slots as in a syntax line, without dots."""
    return " and ".join(_shown(s).lstrip(".") for s in slots[:3]) + (" and more" if len(slots) > 3 else "")


def _shown(slot: Slot) -> str:
    """A slot as in a syntax line, its value where there is only one."""
    return f".{slot.values[0] if len(slot.values) == 1 else slot.name}"


def _lacking(form: Form, words: Sequence[str]) -> list[Slot]:
    """The required slots that these words leave empty."""
    filled = form.places(words)
    if filled is None:
        return [s for s in form.slots if s.required and not set(s.values) & set(words)]
    return [s for s in form.slots if s.required and s.name not in filled]


def _completions(form: Form, words: Head) -> Iterator[Head]:
    """The words made a form's by one more."""
    if len(_lacking(form, words)) == 1:
        yield from _completed(form, words)


def _completed(form: Form, words: Head, most: int = 64) -> Iterator[Head]:
    """The words with those that a form lacks, in every way that it binds."""
    lacking = _lacking(form, words)
    for more in islice(product(*(s.values for s in lacking)), most):
        yield _inserted(form, words, dict(zip((s.name for s in lacking), more, strict=True)))


def _inserted(form: Form, words: Head, more: Mapping[str, str]) -> Head:
    """The words with others for slots that they leave empty, put where the form has them; in its order if that will not do."""
    order = {v: i for i, s in reversed(list(enumerate(form.slots))) for v in s.values}
    result = list(words)
    for word in more.values():
        place = next((i for i, w in enumerate(result) if order.get(w, -1) > order[word]), len(result))
        result.insert(place, word)
    filled = form.places(words)
    if filled is None or form.bind(tuple(result)) is not None:
        return tuple(result)
    return tuple(form.modifiers({**filled, **more}))
