"""Forms: the syntax lines of an instruction in the notation of the PTX manual, and the matcher that reads them.

    form("add{.sat}.s32 d, a, b")
    form("fma.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd="rn rz rm rp")
    form("ld{.weak}{.ss}{.vec}.type d:type[vec]+_, [a]", ss="global shared", vec="v2 v4", type="b32 u32 f32")

Modifiers. `.x` is required, `{.x}` optional, `{.x.y}` both or neither, `.^x` is required right after the opcode
(`mul.^mode.type`: `mul.lo.s32`, never `mul.s32.lo`). A name given as keyword is a *slot* with that set of values; any
other name is the
modifier itself. A literal scalar type (`.s32`) fills the slot `type`. ptxas takes modifiers in any order, except among
types,
among state spaces, among row/col layouts and in `.xor.popc`: slots of those kinds must appear in the form's order.

Operands. `name:type[count]flags`
  name    `d`, `d1`.. and `p`/`q` are written; a name followed by `=` is written, by `~` read and written, by `$` read;
  all others are read
  type    a scalar type, or a slot that holds one; `2*type` is twice as wide, `bits(type)` the bit type of its size.
          Without it, the value of the slot `type`. Further kinds: `pred`, `imm` (a constant), `label`, `symbol`, `any`
          (any register),
          `frag` (the op class's `fragment(name, slots)` tells (type, count))
  count   a number, or a slot whose value ends or starts with one (`v4`, `x2`, `2d`); absent optional slot: a scalar
  flags   `+` a wider register is fine   `_` may be the sink (a vector: its elements; `__` all of it)   `!` may be
  negated, `-` with a minus   `%` no constant   `&` the address of a symbol or of an array's element is fine
          `@` a special register is fine  `?` size is all that counts (a predicate has 32 bits)  `*` a single value may
          stand in braces  `>` more elements or a bare value are fine too  `#` in a bit-type register only
          A constant has the kind of its type; in a bit type a floating-point spelling of that size is fine too
  A vector has one type (`vector_type.common_class`): the bit type of its registers' size where they differ. Constants and special
  registers may stand among its registers, and integers for floats; `%` on a vector means: not constants alone.
  `_` alone: the sink and nothing else (the instruction has no result to give)
  `[a]` an address (`[a:u32+]` in a register of 32 bits or more, `[a:u32?]` of just that size and no variable,
  `[a:u64?&]` or a variable, but no offset, `[a%]` not a special register), `[a]{.unified}` one that may carry
  `.unified`, `[map, c:s32[dim]]` with coordinates, `d|p:pred` two results, `{|p:pred}` `{, e}` optional, `(a)` a call's
  list of any length

Needs. `ptx=`, `sm=` (see `target.need`) hold for the whole form; `needs={"ftz": need("1.4"), "sat+f16": ..., "?vec":
..., "/policy": ...}`
for a modifier, for modifiers together, for a filled slot, for a present operand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product

from .operand_matcher import OperandMatcher
from .operand_specs import SPACES, Fragments, Legal, OperandSpec, Result, Slots, parse_specs
from .syntax import (
    Layout,
    Operand,
    Pair,
    registers,
)
from .target import ANYWHERE, Need, need
from .types import SCALAR_TYPES

_REPEATABLE = frozenset("sat sync approx cc satfinite relu NaN uni shiftamt".split())
"""Modifiers that ptxas lets an instruction have more than once."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One place for a modifier in a form: its name, the values it may take, and whether it must be there."""

    name: str
    values: tuple[str, ...]
    required: bool
    first: bool = False
    group: int = 0
    """The `{.x.y}` it stands in (0: none)."""
    ordered: str = field(init=False)
    """The kind of modifier whose order ptxas checks, or the empty string."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ordered", order_of(self.values))

    @property
    def literal(self) -> bool:
        return self.values == (self.name,)


@lru_cache(maxsize=4096)
def order_of(values: tuple[str, ...]) -> str:
    """The kind of modifier whose order counts that all these are; empty if none."""
    if all((v in SCALAR_TYPES and v != "b1024") or v in ("b2", "b4") for v in values):  # .b1024 may stand anywhere
        return "type"
    if all(v in SPACES for v in values):
        return "space"
    if set(values) <= {"b8x16", "b6x16_p32", "b4x16_p64"}:
        return "format"
    if set(values) <= {"xor", "and", "popc"}:
        return "bit operation"
    return "layout" if set(values) <= {"row", "col"} else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an instruction is not this form: the message, the index of the operand (-1: the opcode and modifiers)."""

    message: str
    operand: int = -1
    hint: str | None = None
    depth: int = 0
    """How far the operand fits, to find the closest form: 1, it is a vector as wanted; 2, of the right length; 3, all
    fit and a rule objects.
    """
    word: str = ""
    """The modifier that it is about, if it is about one."""
    element: int = -1
    """The index of the element of the operand, a vector, if it is about one."""
    proposals: tuple[tuple[str, ...], ...] = ()
    """Opcodes with modifiers, word by word, that are legal here; see `proposals`."""
    cures: tuple[tuple[str, str], ...] = ()
    """(PTX version, target) pairs, of the module, that have the instruction."""


@dataclass(slots=True)
class Use:
    """One way to read an instruction: the form, its slots, the layout with roles, and what it needs."""

    form: Form
    slots: Slots
    layout: Layout
    classes: tuple[str, ...]
    special: Sequence[tuple[str, Need]] = ()
    """What its special registers need."""
    symbols: object = None
    """Memo of `symbol_use.symbol_uses`."""
    _needs: list[tuple[str, Need]] | None = None

    @property
    def needs(self) -> list[tuple[str, Need]]:
        """(what, need) of all its parts."""
        if self._needs is None:  # who only reads text does not ask
            specs = self.form.alternative(self.layout) or ()
            self._needs = [*self.form.needed(self.slots, specs, self.layout), *self.special]
        return self._needs

    def has(self, slot: str) -> bool:
        return slot in self.slots

    def operand(self, name: str) -> Operand | None:
        """The operand of that name in the form, or None if it is not there."""
        for spec, operand in zip(self.form.alternative(self.layout) or (), self.layout, strict=False):
            if spec.name == name:
                return operand
        return None


_SLOT = re.compile(r"(\{)?\.(\^?[\w:]+)(\})?")


_NO_BRACES = str.maketrans("", "", "{}")


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class Form:
    """A compiled syntax line. Cheap to make (compiled on first use), immutable, shared by all instances of the op."""

    def __init__(
        self,
        text: str,
        sets: dict[str, str],
        whole: Need,
        needs: Mapping[str, Need],
        ranges: Mapping[str, Legal],
        selectors: Mapping[str, str],
        rule: Callable[[Use], str | None] | None,
        judges_constants: bool,
    ):
        self.text, self.sets, self.whole, self.needs, self.rule = text, sets, whole, needs, rule
        self.ranges, self.selectors = ranges, selectors
        self.judges_constants = judges_constants or bool(ranges)
        """Whether the value of a constant operand matters, not only its kind."""

    def __repr__(self) -> str:
        return f"form({self.text!r})"

    @cached_property
    def head(self) -> str:
        return self.text.partition(" ")[0]

    @cached_property
    def opcode(self) -> str:
        """The literal opcode at the front of the line, as far as its op class names it (set by the class)."""
        return self.head.partition(".")[0].partition("{")[0]

    def bind_opcode(self, opcode: str) -> None:
        if not self.text.startswith(opcode):
            raise ValueError(f"form {self.text!r} does not start with its opcode {opcode!r}")
        self.__dict__["opcode"] = opcode

    @cached_property
    def syntax(self) -> str:
        """The line for people, as the manual would write it: without the types and flags that only the matcher reads."""
        head, _, operands = self.text.partition(" ")
        operands = re.sub(r"(\w)[=~$]?(?::[\w*():]+)?(?:\[\w+\])?[-+_!%&@^?*>#]*(?=$|[\s,|\]\[(){}])", r"\1", operands)
        return f"{head.replace('.^', '.')} {operands}".rstrip()

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        found: list[Slot] = []
        taken: set[str] = set()
        group, optional = 0, False
        for match in _SLOT.finditer(self.head[len(self.opcode) :]):
            if match[1]:
                group, optional = group + 1, True
            name = match[2].removeprefix("^")
            if name in self.sets:
                values = _words(self.sets[name])
            else:
                values = (name,)
                if name in SCALAR_TYPES:
                    name = next(n for n in ("type", "type2", "type3", "type4") if n not in taken)
            taken.add(name)
            found.append(Slot(name, values, not optional, match[2][0] == "^", group if optional else 0))
            optional = optional and not match[3]
        unused = self.sets.keys() - taken
        if unused:
            raise ValueError(f"form {self.text!r} does not use {sorted(unused)}")
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[tuple[Slot, ...], ...]:
        """The slots that come together or not at all."""
        numbers = {slot.group for slot in self.slots} - {0}
        groups = (tuple(s for s in self.slots if s.group == n) for n in sorted(numbers))
        return tuple(g for g in groups if len(g) > 1)

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Every modifier this form knows. Most forms are asked for nothing else."""
        found: list[str] = []
        for name in self.head[len(self.opcode) :].translate(_NO_BRACES).replace("^", "").split(".")[1:]:
            if name in self.sets:
                found += _words(self.sets[name])
            else:
                found.append(name)
        return frozenset(found)

    @cached_property
    def alternatives(self) -> tuple[tuple[OperandSpec, ...], ...]:
        """The operand lists this form allows, optional groups expanded, longest first."""
        _, _, text = self.text.partition(" ")
        choices: list[tuple[str, ...]] = []
        rest = text.strip()
        while rest:
            if rest.startswith("{,") or (rest.startswith("{") and not choices):
                end = rest.index("}")
                choices.append(("", rest[1:end]))
                rest = rest[end + 1 :].strip()
                continue
            end = rest.find("{,")
            end = len(rest) if end < 0 else end
            choices.append((rest[:end],))
            rest = rest[end:].strip()
        lists = {parse_specs("".join(parts).strip(" ,")) for parts in product(*choices)}
        return tuple(sorted(lists, key=len, reverse=True))

    def alternative(self, layout: Layout) -> tuple[OperandSpec, ...] | None:
        for specs in self.alternatives:
            if len(specs) == len(layout):
                return specs
        return None

    # ------------------------------------------------------------------------------------------------------- matching

    def _matcher(self, slots: Slots, classes: tuple[str, ...], owner: type[Fragments]) -> OperandMatcher:
        return OperandMatcher(slots, classes, owner, self.ranges, self.selectors)

    def operand_types(self, slots: Slots, layout: Layout, owner: type[Fragments]) -> tuple[str, ...]:
        """The scalar type (or kind) of each operand of a list as long as `layout`; empty if none is."""
        matcher = self._matcher(slots, (), owner)
        return tuple(matcher.type_of(spec)[0] for spec in self.alternative(layout) or ())

    def results(self, slots: Slots, owner: type[Fragments]) -> Iterator[tuple[int, bool, tuple[Result, ...]]]:
        """Of each operand list whose first operand is written (`d~`: after it was read): how many operands follow, whether the second result is
        optional, and the result (two for a pair `d|p`).
        """
        matcher = self._matcher(slots, (), owner)
        for specs in self.alternatives:
            parts = () if not specs else specs[0].parts if specs[0].kind == "pair" else specs[:1]
            if parts and parts[0].role != "$":
                yield len(specs) - 1, specs[0].optional_part, tuple(matcher.type_of(part) for part in parts)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Modifier -> its slot, or -1 where it fits several."""
        found: dict[str, int] = {}
        for i, slot in enumerate(self.slots):
            for value in slot.values:
                found[value] = -1 if value in found else i
        return found

    @cached_property
    def _required(self) -> frozenset[int]:
        return frozenset(i for i, slot in enumerate(self.slots) if slot.required)

    @cached_property
    def _kinds(self) -> tuple[str, ...]:
        """What the order of each slot counts among; `first` must come first, too."""
        return tuple("first" if slot.first else slot.ordered for slot in self.slots)

    def bind(self, modifiers: tuple[str, ...]) -> dict[str, str] | None:
        """Put each modifier into a slot; None unless every modifier fits and every required slot is filled."""
        places = self._places
        taken: dict[int, str] = {}
        last: dict[str, int] = {}
        for word in modifiers:
            place = places.get(word)
            if place is None:
                return None
            kind = self._kinds[place] if place >= 0 else "first"
            if kind == "first" or place in taken:
                return self._bind(modifiers)
            if kind:
                if place < last.get(kind, -1):
                    return None
                last[kind] = place
            taken[place] = word
        slots = self.slots
        if not self._required.issubset(taken):
            return None
        found = {slots[i].name: taken[i] for i in sorted(taken)}
        return found if self._whole_groups(found) else None

    def _whole_groups(self, slots: Slots) -> bool:
        """Whether what comes together did."""
        return not any(0 < sum(slot.name in slots for slot in group) < len(group) for group in self.groups)

    def _bind(self, modifiers: tuple[str, ...]) -> dict[str, str] | None:
        """`bind` where the order of the modifiers counts, or one fits several slots."""
        slots = self.places(modifiers)
        if slots is None or any(s.required and s.name not in slots for s in self.slots):
            return None
        if any(s.first and s.name in slots and slots[s.name] != modifiers[0] for s in self.slots):
            return None
        return slots if self._whole_groups(slots) else None

    def places(self, modifiers: Sequence[str]) -> dict[str, str] | None:
        """The slots that these modifiers take if more of them may come; None where one of them has no place."""
        used = [False] * len(modifiers)
        slots: dict[str, str] = {}
        last: dict[str, int] = {}  # kind of modifier whose order counts -> where the last one stood
        for slot in self.slots:
            kind = slot.ordered
            for i, token in enumerate(modifiers):
                if used[i] or token not in slot.values:
                    continue
                if kind:
                    if i < last.get(kind, -1):
                        return None
                    last[kind] = i
                used[i] = True
                slots[slot.name] = token
                break
        repeated = _REPEATABLE.intersection(slots.values())
        return slots if all(u or m in repeated for u, m in zip(used, modifiers, strict=True)) else None

    def modifiers(self, slots: Slots) -> list[str]:
        """The modifiers in canonical order."""
        return [slots[slot.name] for slot in self.slots if slot.name in slots]

    def needed(self, slots: Slots, specs: tuple[OperandSpec, ...], layout: Layout) -> Iterator[tuple[str, Need]]:
        """(what, need) for the form and each of its parts in use."""
        if self.whole is not ANYWHERE:
            yield f"{self.opcode}{''.join('.' + m for m in self.modifiers(slots))}", self.whole
        if not self.needs:
            return
        present = set(slots.values())
        for key, value in self.needs.items():
            if key[0] == "?":
                if key[1:] in slots:
                    yield f".{slots[key[1:]]} on {self.opcode}", value
            elif key[0] == "/":
                if any(_present(key[1:], spec, operand) for spec, operand in zip(specs, layout, strict=True)):
                    yield f"operand {key[1:]} of {self.opcode}", value
            elif all(part in present for part in key.split("+")):
                yield f"{self.opcode}{''.join('.' + part for part in key.split('+'))}", value

    def _ruled_out(self, message: str, slots: Slots, specs: tuple[OperandSpec, ...]) -> Problem:
        """The problem of what a rule says, at the operand or modifier that it names first (`operand b ...`, `.sat ...`)."""
        name = re.search(r"operand (\w+)", message)
        place = next((i for i, spec in enumerate(specs) if name is not None and _named(name[1], spec)), -1)
        words = re.findall(r"\.([a-zA-Z][\w:]*)", message) if place < 0 else []
        word = next((w for w in words if w in slots.values()), "")
        return Problem(message, place, depth=3, word=word)

    def match_operands(
        self, slots: Slots, layout: Layout, classes: tuple[str, ...], owner: type[Fragments]
    ) -> Use | Problem:
        """Check the operands against this form; `classes` are the register classes in text order. A problem has no hint:
        most are of forms that are not the closest.
        """
        specs = self.alternative(layout)
        if specs is None:
            return self._miscounted(slots, layout, classes, owner)
        matcher = self._matcher(slots, classes, owner)
        placed = self._placed(specs, layout, matcher)
        if isinstance(placed, Problem):
            return placed
        use = Use(self, slots, placed, classes)
        if self.rule is not None and (message := self.rule(use)) is not None:
            return self._ruled_out(message, slots, specs)
        use.special = matcher.needs
        return use

    def _placed(self, specs: Sequence[OperandSpec], layout: Layout, matcher: OperandMatcher) -> Layout | Problem:
        """The operands with their registers' roles set, or the problem of the first that does not fit."""
        placed: list[Operand] = []
        for i, (spec, operand) in enumerate(zip(specs, layout, strict=True)):
            matcher.depth, matcher.element = 0, -1
            result = matcher.operand(spec, operand)
            if isinstance(result, str):
                return Problem(result, i, None, matcher.depth, element=matcher.element)
            placed.append(result)
        return tuple(placed)

    def _miscounted(self, slots: Slots, layout: Layout, classes: tuple[str, ...], owner: type[Fragments]) -> Problem:
        """The problem of a list of operands that is too short or too long."""
        counts = sorted({len(a) for a in self.alternatives})
        wanted = " or ".join(map(str, counts))
        message = f"{self.opcode} takes {wanted} operand{'s' if counts != [1] else ''}, not {len(layout)}"
        place = min(len(layout) - 1, counts[-1]) if layout else -1
        missing = self._missing(slots, layout, classes, owner)
        if 0 < len(missing) < 3:
            message += f": operand {' or '.join(spec.name for _, spec in missing)} is missing"
            place = min(missing[0][0], len(layout) - 1) if len(missing) == 1 else place
        return Problem(message, place)

    def _missing(
        self, slots: Slots, layout: Layout, classes: tuple[str, ...], owner: type[Fragments]
    ) -> list[tuple[int, OperandSpec]]:
        """The places of the operands without which the others would fit."""
        if len(registers(layout)) != len(classes):
            return []
        specs = next((a for a in self.alternatives if len(a) == len(layout) + 1), ())
        found: list[tuple[int, OperandSpec]] = []
        for i, spec in enumerate(specs):
            rest = (*specs[:i], *specs[i + 1 :])
            if not isinstance(self._placed(rest, layout, self._matcher(slots, classes, owner)), Problem):
                found.append((i, spec))
        return found


def _named(name: str, spec: OperandSpec) -> bool:
    return name in (spec.name, *(part.name for part in spec.parts))


def form(
    text: str,
    *,
    ptx: str = "1.0",
    sm: str = "",
    until: str | None = None,
    until_sm: str = "",
    needs: Mapping[str, Need] | None = None,
    ranges: Mapping[str, Legal] | None = None,
    selectors: Mapping[str, str] | None = None,
    rule: Callable[[Use], str | None] | None = None,
    judges_constants: bool = False,
    **sets: str,
) -> Form:
    """Declare one syntax line. See the module docstring for the notation; `sets` gives the values of each slot.

    `ranges` bounds constant operands: name -> its `Legal` values. `selectors` gives the parts of a 32-bit register that
    a video operand may
    name (`%r1.b0`): name -> regular expression. `rule` is called with the `Use` for what
    syntax cannot say and returns a message or None; `judges_constants` says that it looks at the values of constants.
    """
    plain = ptx == "1.0" and not sm and until is None
    whole = ANYWHERE if plain else need(ptx, sm, until=until, until_targets=until_sm)
    return Form(text, sets, whole, needs or {}, ranges or {}, selectors or {}, rule, judges_constants)


def _present(name: str, spec: OperandSpec, operand: Operand) -> bool:
    """Whether the operand of that name is there, possibly as the optional half of a pair."""
    if spec.optional_part and isinstance(operand, Pair):
        return name in (spec.name, spec.parts[1].name)
    return spec.name == name
