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
  A vector has one type (`_common_class`): the bit type of its registers' size where they differ. Constants and special
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
from functools import cache, cached_property, lru_cache
from itertools import product
from typing import ClassVar

from .special_registers import SPECIAL_REGISTERS, own_bits, read_problem
from .syntax import (
    PLACEHOLDERS,
    Address,
    Arguments,
    Element,
    Immediate,
    Layout,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    SpecialRegister,
    Sum,
    Symbol,
    Target,
    Vector,
    constant_problem,
    evaluate,
)
from .target import ANYWHERE, Need, need
from .types import SCALAR_TYPES, register_fits

Slots = Mapping[str, str]
Legal = tuple[int, int | None] | frozenset[int] | range
"""The legal values of a constant: (lowest, highest or None), the values themselves, or a range with its step."""
Result = tuple[str, int | None]
"""The type of what an instruction writes, and of how many registers it is a vector (None: one register)."""
SPACES = frozenset(
    "const global local param param::entry param::func shared shared::cta shared::cluster generic".split()
)
HANDLE = need("3.1", "20+")
"""A texture or surface named by a register instead of by its variable."""
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
class OperandSpec:
    """What one operand of a form may be. `parts` are the elements of an address, a pair or an argument list."""

    name: str
    kind: str  # value, address, pair, arguments, sink
    role: str = "$"
    type: str = "type"
    count: str = ""
    flags: str = ""
    parts: tuple[OperandSpec, ...] = ()
    optional_part: bool = False


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
    needs: list[tuple[str, Need]] = field(default_factory=list[tuple[str, Need]])
    symbols: object = None
    """Memo of `symbol_use.symbol_uses`."""

    def has(self, slot: str) -> bool:
        return slot in self.slots

    def operand(self, name: str) -> Operand | None:
        """The operand of that name in the form, or None if it is not there."""
        for spec, operand in zip(self.form.alternative(self.layout) or (), self.layout, strict=False):
            if spec.name == name:
                return operand
        return None


_SLOT = re.compile(r"(\{)?\.(\^?[\w:]+)(\})?")
_SPEC = re.compile(
    r"(?P<name>\w*[^\W_])(?P<role>[=~$])?(?::(?P<type>(?:2\*)?[\w:]*[^\W_](?:\(\w+\))?))?(?:\[(?P<count>\w+)\])?(?P<flags>[-+_!%&@?*#>]*)$"
)


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
        lists = {_parse_specs("".join(parts).strip(" ,")) for parts in product(*choices)}
        return tuple(sorted(lists, key=len, reverse=True))

    def alternative(self, layout: Layout) -> tuple[OperandSpec, ...] | None:
        for specs in self.alternatives:
            if len(specs) == len(layout):
                return specs
        return None

    # ------------------------------------------------------------------------------------------------------- matching

    def operand_types(self, slots: Slots, layout: Layout, owner: type[Fragments]) -> tuple[str, ...]:
        """The scalar type (or kind) of each operand of a list as long as `layout`; empty if none is."""
        matcher = _OperandMatcher(self, slots, (), owner)
        return tuple(matcher.type_of(spec)[0] for spec in self.alternative(layout) or ())

    def results(self, slots: Slots, owner: type[Fragments]) -> Iterator[tuple[int, bool, tuple[Result, ...]]]:
        """Of each operand list whose first operand is written (`d~`: after it was read): how many operands follow, whether the second result is
        optional, and the result (two for a pair `d|p`).
        """
        matcher = _OperandMatcher(self, slots, (), owner)
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
        return Problem(message, place, f"syntax: {self.syntax}", depth=3, word=word)

    def match_operands(
        self, slots: Slots, layout: Layout, classes: tuple[str, ...], owner: type[Fragments]
    ) -> Use | Problem:
        """Check the operands against this form; `classes` are the register classes in text order."""
        specs = self.alternative(layout)
        if specs is None:
            counts = sorted({len(a) for a in self.alternatives})
            wanted = " or ".join(map(str, counts))
            return Problem(
                f"{self.opcode} takes {wanted} operand{'s' if counts != [1] else ''}, not {len(layout)}",
                min(len(layout) - 1, counts[-1]) if layout else -1,
                f"syntax: {self.syntax}",
            )
        matcher = _OperandMatcher(self, slots, classes, owner)
        placed: list[Operand] = []
        for i, (spec, operand) in enumerate(zip(specs, layout, strict=True)):
            matcher.depth, matcher.element = 0, -1
            result = matcher.operand(spec, operand)
            if isinstance(result, str):
                return Problem(result, i, f"syntax: {self.syntax}", matcher.depth, element=matcher.element)
            placed.append(result)
        use = Use(self, slots, tuple(placed), classes)
        if self.rule is not None and (message := self.rule(use)) is not None:
            return self._ruled_out(message, slots, specs)
        use.needs = [*self.needed(slots, specs, layout), *matcher.needs]
        return use


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


class Fragments:
    """What a form may ask of its op class: sizes of operands that depend on several modifiers at once, ..."""

    takes_elements: ClassVar[bool] = False
    """Whether an element of an array, `a[3]`, may stand for an address in brackets, as it may where a variable's address
    is a value.
    """

    @classmethod
    def fragment(cls, name: str, slots: Slots) -> tuple[str, int]:
        """(element type, number of registers) of the operand `name`; 0 registers means a scalar."""
        raise NotImplementedError(f"{cls.__name__} declares a fragment operand and no fragment()")

    @classmethod
    def starts_with_index(cls, name: str, slots: Slots) -> bool:
        """Whether the first element of the fragment `name` is an index, of a type of its own."""
        return False


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts: list[str] = []
    depth = 0
    current = ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


@cache  # few lists are many forms'
def _parse_specs(text: str) -> tuple[OperandSpec, ...]:
    return tuple(_parse_spec(part) for part in _split(text))


@cache
def _parse_spec(text: str) -> OperandSpec:
    if text.startswith("["):
        unified = text.endswith("]{.unified}")
        text = text.removesuffix("{.unified}")
        if not text.endswith("]"):
            raise ValueError(f"bad address {text!r} in a form")
        parts = _split(text[1:-1])
        base = _parse_spec(parts[0])
        elements = (base, *(_parse_spec(p) for p in parts[1:]))
        return OperandSpec(base.name, "address", flags="." if unified else "", parts=elements)
    if text.startswith("("):
        parts = tuple(_parse_spec(p) for p in _split(text[1:-1]))
        return OperandSpec("arguments", "arguments", parts=parts)
    left, bar, right = text.partition("{|")
    if bar:
        first = _parse_spec(left)
        return OperandSpec(first.name, "pair", parts=(first, _parse_spec(right.removesuffix("}"))), optional_part=True)
    left, bar, right = text.partition("|")
    if bar:
        first = _parse_spec(left)
        return OperandSpec(first.name, "pair", parts=(first, _parse_spec(right)))
    if text == "_":
        return OperandSpec("d", "sink")
    match = _SPEC.match(text)
    if match is None:
        raise ValueError(f"bad operand {text!r} in a form")
    name = match["name"]
    written = re.fullmatch(r"d\d*|p|q", name) is not None
    role = match["role"] or ("=" if written else "$")
    return OperandSpec(name, "value", role, match["type"] or "type", match["count"] or "", match["flags"] or "")


def count_in(value: str) -> int:
    """The number in a modifier such as `v4`, `x2`, `2d`."""
    digits = re.sub(r"\D", "", value)
    return int(digits) if digits else 1


_KINDS: dict[type, str] = {
    Immediate: "a constant", Not: "a negated operand", Sum: "a register plus a constant", Symbol: "a symbol", SpecialRegister: "a special register", Sink: "the sink '_'", Vector: "a vector",
    Address: "an address", Element: "an element of an array", Pair: "a pair", Arguments: "an argument list", Target: "a label", Register: "a register",
}  # fmt: skip


def _what(spec: OperandSpec, operand: Operand) -> str:
    """What stands where a form wants something else, and what to do about it."""
    kind = _KINDS.get(type(operand), "this")
    if isinstance(operand, SpecialRegister):
        advice = ": move it to a register first" if spec.role == "$" else ", which is read-only"
        return f"the special register {operand.name}{advice}"
    if isinstance(operand, Symbol):
        return f"the symbol {operand.name}"
    if isinstance(operand, Pair) and spec.role == "=":
        return f"{kind}: there is one result"
    return kind


def _elements(count: int) -> str:
    return f"{count} element{'s' if count != 1 else ''}"


@cache
def _selectors(pattern: str) -> str:
    """The selectors that a regular expression takes, in words: `b[0-3]|h[01]` -> `.b0 to .b3 or .h0 to .h1`."""
    named: list[str] = []
    for letter, highest in (("b", 7), ("h", 3)):
        for digits in (1, 2, 3, 4):
            numbers = product("01234567"[: highest + 1], repeat=digits)
            legal = [one for number in numbers if re.fullmatch(pattern, one := f"{letter}{''.join(number)}")]
            if legal:
                named.append(f".{legal[0]} to .{legal[-1]}" if len(legal) > 1 else f".{legal[0]}")
    return " or ".join(named)


_PLAIN = Register()


class _OperandMatcher:
    """Walks operand specs and operands together, consuming register classes in text order."""

    def __init__(self, form: Form, slots: Slots, classes: tuple[str, ...], owner: type[Fragments]):
        self.form, self.slots, self.classes, self.owner, self.at = form, slots, classes, owner, 0
        self.needs: list[tuple[str, Need]] = []  # of special registers
        self.depth = 0  # see Problem.depth
        self.element = -1  # see Problem.element

    def operand(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        """The operand with its registers' roles set, or a message."""
        if spec.kind == "address":
            return self._address(spec, operand)
        if spec.kind == "pair":
            return self._pair(spec, operand)
        if spec.kind == "sink":
            return (
                operand
                if isinstance(operand, Sink)
                else f"operand {spec.name} must be the sink '_': there is no result"
            )
        if spec.kind == "arguments":
            return self._arguments(spec.parts[0], operand)
        if isinstance(operand, Pair) and spec.role == "=" and isinstance(operand.second, Sink):
            first = self._value(spec, operand.first)  # ptxas lets any scalar result have an unwanted second one
            return first if isinstance(first, str) else Pair(first, operand.second)
        return self._value(spec, operand)

    def _pair(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        if not isinstance(operand, Pair):
            if spec.optional_part:
                return self.operand(spec.parts[0], operand)
            return f"operand {spec.name} must be a pair {spec.parts[0].name}|{spec.parts[1].name}"
        first = self.operand(spec.parts[0], operand.first)
        if isinstance(first, str):
            return first
        second = self.operand(spec.parts[1], operand.second)
        return second if isinstance(second, str) else Pair(first, second)

    def _element(self, spec: OperandSpec, operand: Element) -> Operand | str:
        """An element of an array as an address."""
        index = operand.index
        if isinstance(index, Register):
            index = Register()
            register_class = self.classes[self.at]
            self.at += 1
            found = SCALAR_TYPES.get(register_class)
            if found is None or found.kind not in ("bits", "unsigned", "signed") or found.bits > 64:
                return f"the index in operand {spec.name} must be an integer register, not .{register_class}"
        elif isinstance(index, SpecialRegister):
            special = SPECIAL_REGISTERS.get(index.name)
            if special is None or special.elements or special.predicate:
                return f"{index.name} is not an index"
            self.needs.append((index.name, special.need))
        elif not isinstance(index, Immediate):
            return f"the index in operand {spec.name} must be a constant or a register, not {_KINDS.get(type(index), 'this')}"
        elif index.is_float:
            return f"the index in operand {spec.name} must be an integer"
        if isinstance(operand.index, Register) and operand.index.member:
            return f"the index in operand {spec.name} may not be a vector element"
        if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
            return f"operand {spec.name}: {problem}"
        if operand.offset[:1] == "-":
            return f"operand {spec.name}: an offset is added, write +{operand.offset}"
        return Element(operand.array, index, operand.offset)

    def _address(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        if isinstance(operand, Element) and self.owner.takes_elements:
            return self._element(spec, operand)
        if not isinstance(operand, Address):
            return f"operand {spec.name} must be an address in brackets, not {_what(spec, operand)}"
        base = operand.base
        exact, wanted = "?" in spec.parts[0].flags, spec.parts[1:]
        if isinstance(base, Register):
            register_class = self.classes[self.at]
            self.at += 1
            bits = SCALAR_TYPES.get(register_class)
            if base.member:
                return f"the address in operand {spec.name} may not be a vector element ({base.member})"
            if bits is None or bits.kind not in ("bits", "unsigned", "signed") or bits.bits > 64:
                return f"the address in operand {spec.name} must be an integer register, not .{register_class}"
            least = spec.parts[0].type
            if least != "type" and not register_fits(least, register_class, wider=True):
                return f"the address in operand {spec.name} must be .{least} or wider, and the register is .{register_class}"
            if exact and (bits.bits != SCALAR_TYPES[least].bits or (least[0] == "b" and bits.kind != "bits")):
                return f"the address in operand {spec.name} must be .{least}, and the register is .{register_class}"
            if exact and "&" in spec.parts[0].flags:
                self.needs.append((f"operand {spec.name} in a register", HANDLE))
        elif exact and not ("&" in spec.parts[0].flags and isinstance(base, Symbol)):
            return f"the address in operand {spec.name} must be a register, not {_KINDS.get(type(base), 'this')}"
        elif isinstance(base, Immediate):
            if "local" not in self.slots.values():
                return f"the address in operand {spec.name} must be a register or a variable: constants are .local only"
            if base.is_float:
                return f"the address in operand {spec.name} must be an integer"
            if (problem := constant_problem(base.text)) is not None:
                return f"the address in operand {spec.name} is not a constant: {problem}"
        elif isinstance(base, SpecialRegister) and "%" not in spec.parts[0].flags:
            found = SPECIAL_REGISTERS.get(base.name)
            if wanted:
                return f"the address in operand {spec.name} must be a register or a variable, not {base.name}"
            if found is None or found.elements or found.bits == (1,):
                return f"{base.name} is not an address"
            least = SCALAR_TYPES.get(spec.parts[0].type)
            if least is not None and own_bits(base.name) < least.bits:
                return f"the address in operand {spec.name} must be .{least.name} or wider, and {base.name} is not"
            self.needs.append((base.name, found.need))
        elif not isinstance(base, Symbol):
            return f"an address is a register, a symbol or a constant, not {_KINDS.get(type(base), 'this')}"
        if operand.offset and (wanted or (exact and "&" in spec.parts[0].flags)):
            return f"operand {spec.name} takes no offset"
        if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
            return f"operand {spec.name}: {problem}"
        if operand.unified and ("." not in spec.flags or (SPACES - {"global"}) & set(self.slots.values())):
            return f".unified does not go with operand {spec.name}: it is for generic and global loads and atomics"
        if len(operand.rest) != len(wanted):
            return f"the address in operand {spec.name} takes {len(wanted) + 1} parts, not {len(operand.rest) + 1}"
        if operand.unified and not isinstance(base, Register):
            return f".unified in operand {spec.name} needs the address in a register"
        rest: list[Operand] = []
        for part, item in zip(wanted, operand.rest, strict=True):
            if isinstance(item, Immediate):
                return f"operand {spec.name}: inside the brackets a constant stands in braces, {{{item.text}}}"
            if isinstance(item, Register) and item.member:
                return f"operand {spec.name}: inside the brackets an element of a vector register stands in braces"
            if isinstance(item, Symbol) and item.offset:
                return f"operand {spec.name} takes {item.name}{item.offset} nowhere inside its brackets"
            result = self.operand(part, item)
            if isinstance(result, str):
                return result
            rest.append(result)
        return Address(base, operand.offset, tuple(rest), operand.unified)

    def type_of(self, spec: OperandSpec) -> tuple[str, int | None]:
        """(scalar type or kind, number of vector elements or None)."""
        name = spec.type
        if name == "frag":
            scalar, n = self.owner.fragment(spec.name, self.slots)
            return scalar, n or None
        count: int | None = None
        if spec.count:
            if spec.count.isdigit():
                count = int(spec.count)
            elif spec.count in self.slots:
                count = count_in(self.slots[spec.count])
        if count is None and "*" in spec.flags:
            count = 1
        double = name.startswith("2*")
        name = name.removeprefix("2*")
        bits = name.startswith("bits(")
        if bits:
            name = name[5:-1]
        name = self.slots.get(name, name)
        if double or bits:
            scalar = SCALAR_TYPES[name]
            width = scalar.bits * (2 if double else 1)
            name = f"{'b' if bits else scalar.name[0]}{width}"
        return name, count

    def _value(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        wanted, count = self.type_of(spec)
        loose = ">" in spec.flags
        scalar = loose or (count == 1 and spec.count != "1" and spec.type != "frag")
        if count is None or (scalar and not isinstance(operand, Vector)):
            return self._scalar(spec, wanted, operand)
        if isinstance(operand, Register) and not operand.member and self.classes[self.at].startswith(f"v{count}."):
            return self._register(spec, wanted, operand, self.classes[self.at].rpartition(".")[2])  # a vector register
        if isinstance(operand, SpecialRegister) and "@" in spec.flags and spec.count in self.slots:
            return self._special(spec, wanted, operand, count)
        if isinstance(operand, Sink) and "__" in spec.flags:
            return operand
        if not isinstance(operand, Vector):
            return f"operand {spec.name} must be a vector of {_elements(count)} in braces, not {_what(spec, operand)}"
        given = len(operand.elements)
        if given != count and not (loose and given > count and given in (2, 4)):
            self.depth = 1
            return f"operand {spec.name} must have {_elements(count)}, not {given}"
        self.depth = 2
        return self._vector(spec, wanted, operand)

    def _vector(self, spec: OperandSpec, wanted: str, operand: Vector) -> Operand | str:
        given = operand.elements
        if len(given) > 2 and given.count(_PLAIN) == len(given):
            # a fragment of like registers is as good as its first
            classes = self.classes[self.at : self.at + len(given)]
            if "." not in classes[0] and classes.count(classes[0]) == len(given):
                result = self._register(spec, wanted, _PLAIN, classes[0])
                self.at += len(given) - 1
                return result if isinstance(result, str) else Vector((result,) * len(given))
        classes = iter(self.classes[self.at :])
        members: list[str] = []  # the class of each register; `int`, `float` or `float32` for a constant
        places: list[int] = []  # where each of them stands
        for self.element, element in enumerate(given):
            places.append(self.element)
            if isinstance(element, Register):
                vector, _, scalar = next(classes).rpartition(".")
                if vector and not element.member:
                    return f"operand {spec.name}: a vector register does not stand in braces"
                members.append(scalar)
            elif isinstance(element, Symbol) and element.offset:
                return f"operand {spec.name}: {element.name}{element.offset} does not stand in braces"
            elif isinstance(element, SpecialRegister):
                members.append("b64" if own_bits(element.name) == 64 else "b32")
            elif isinstance(element, Immediate):
                if (problem := constant_problem(element.text)) is not None:
                    return f"operand {spec.name}: {element.text} is not a constant: {problem}"
                members.append("float32" if element.is_single else "float" if element.is_float else "int")
            else:
                places.pop()
        self.element = -1
        if not members and all(isinstance(e, Sink) for e in operand.elements):
            return f"operand {spec.name} needs at least one element that is not the sink '_'"
        apart = int(spec.type == "frag" and self.owner.starts_with_index(spec.name, self.slots))
        common = _common_class(members, apart)
        if common is None:
            self.element = places[_odd_one(members, apart)]
            listed = ", ".join(dict.fromkeys(f".{m}" if m in SCALAR_TYPES else m for m in members))
            return f"the elements of operand {spec.name} must be of one type, not {listed}"
        if not common and len(set(members)) > 1 and members[0] != "float32":  # constants of several kinds
            common = f"b{SCALAR_TYPES[wanted].bits}"
        floating = members[:1] in (["float"], ["float32"])
        bits = SCALAR_TYPES[wanted].bits if floating and SCALAR_TYPES[wanted].kind == "bits" else 0
        if bits == 32 and "int" in members:
            return f"operand {spec.name} starts with a floating-point constant, so it takes no integer ones"
        if bits and common in SCALAR_TYPES and SCALAR_TYPES[common].bits != bits:
            return f"operand {spec.name}: after a floating-point constant registers have the size of .{wanted}, not of .{common}"
        if any(isinstance(e, Immediate) for e in given):
            for e in given:
                if isinstance(e, SpecialRegister) and ("." in e.name or SPECIAL_REGISTERS[e.name].predicate):
                    return (
                        f"operand {spec.name} has a constant and {e.name} side by side: put one of them into a register"
                    )
        mixed = common in SCALAR_TYPES and spec.role == "$"
        if mixed and not any(isinstance(e, Register) for e in operand.elements):
            mixed = self._fits(spec, wanted, common)
        if common == "float32" and spec.role == "$":  # such constants alone are a vector of .f32
            mixed = SCALAR_TYPES[wanted].bits == 32 and self._fits(spec, wanted, "f32")
        elements: list[Operand] = []
        for self.element, element in enumerate(given):
            if isinstance(element, Register):
                result = self._register(spec, wanted, element, common)
            elif mixed and isinstance(element, SpecialRegister):
                result = self._special(spec, common, element)
            elif mixed and isinstance(element, Immediate):
                result = element
            else:
                result = self._scalar(spec, wanted, element)
            if isinstance(result, str):
                return result
            elements.append(result)
        self.element = -1
        return Vector(tuple(elements))

    def _arguments(self, spec: OperandSpec, operand: Operand) -> Operand | str:
        """A call's list, of any length: its prototype says what each element must be."""
        written = spec.role == "="
        name = "results" if written else "arguments"
        if not isinstance(operand, Arguments):
            return f"the {name} of a call stand in parentheses"
        elements: list[Operand] = []
        for element in operand.elements:
            if isinstance(element, Register):
                element = self._register(spec, "any", element)
                if isinstance(element, str):
                    return element
            elif not (isinstance(element, Symbol) and not element.offset) and not isinstance(
                element, Sink if written else Immediate
            ):
                also = "_" if written else "constants"
                given = _KINDS.get(type(element), "this")
                return f"the {name} of a call are registers, .param variables or {also}, not {given}"
            elements.append(element)
        return Arguments(tuple(elements))

    def _scalar(self, spec: OperandSpec, wanted: str, operand: Operand) -> Operand | str:
        match operand:
            case Register():
                return self._register(spec, wanted, operand)
            case Immediate():
                return self._immediate(spec, wanted, operand)
            case Sink():
                return operand if "_" in spec.flags else f"operand {spec.name} may not be the sink '_'"
            case Not(inner, mark):
                if mark not in spec.flags or (mark == "!" and wanted != "pred"):
                    return f"operand {spec.name} may not be negated with '{mark}'"
                if mark == "-" and isinstance(inner, Symbol):
                    return f"operand {spec.name}: there is no minus of an address"
                if isinstance(inner, (Symbol, Not)):
                    return f"operand {spec.name}: '{mark}' stands before a register, not before {_KINDS.get(type(inner), 'this')}"
                if mark == "-" and isinstance(inner, Register) and self.classes[self.at] == "f16x2":
                    return f"operand {spec.name}: there is no minus of a .f16x2 register"
                result = self._scalar(spec, wanted, inner)
                return result if isinstance(result, str) else Not(result, mark)
            case Sum(Register() as inner, offset):
                return self._sum(spec, wanted, inner, offset)
            case Element() if "&" in spec.flags:
                return self._element(spec, operand)
            case Symbol():
                if wanted in ("symbol", "label"):
                    return (
                        f"operand {spec.name} is {describe(wanted, spec)}, without an offset"
                        if operand.offset
                        else operand
                    )
                if operand.offset and (problem := _offset_problem(operand.offset)) is not None:
                    return f"operand {spec.name}: {problem}"
                if operand.offset and spec.name in self.form.selectors:
                    return f"operand {spec.name} takes no address plus an offset: move it to a register"
                if "&" in spec.flags:
                    return operand
                if operand.offset and spec.role == "$" and "%" not in spec.flags and _is_whole(wanted):
                    if spec.type not in SCALAR_TYPES or SCALAR_TYPES[wanted].bits == 32:
                        return operand  # an address plus an offset is an integer constant
            case Target():
                if wanted == "label":
                    return operand
            case SpecialRegister():
                if "@" in spec.flags:
                    return self._special(spec, wanted, operand)
            case _:
                pass
        return f"operand {spec.name} must be {describe(wanted, spec)}, not {_what(spec, operand)}"

    def _sum(self, spec: OperandSpec, wanted: str, register: Register, offset: str) -> Operand | str:
        """A register plus a constant, which ptxas takes for the value of a source."""
        if spec.role != "$":
            return f"operand {spec.name} is written and cannot be a register plus a constant"
        if wanted not in SCALAR_TYPES or spec.name in self.form.selectors:
            return f"operand {spec.name} takes no register plus a constant: add it with an instruction"
        if (problem := _offset_problem(offset)) is not None:
            return f"operand {spec.name}: {problem}"
        result = self._register(spec, wanted, register)
        return result if isinstance(result, str) else Sum(result, offset)

    def _special(
        self, spec: OperandSpec, wanted: str, operand: SpecialRegister, count: int | None = None
    ) -> Operand | str:
        scalar = SCALAR_TYPES.get(wanted)
        if scalar is None or scalar.kind in ("float", "packed"):
            return f"operand {spec.name} of type .{wanted} cannot be a special register"
        problem = read_problem(operand.name, scalar.bits, count, narrower="+" in spec.flags)
        if problem is not None:
            return problem
        base = operand.name.partition(".")[0]
        self.needs.append((base, SPECIAL_REGISTERS[base].need))
        return operand

    def _register(self, spec: OperandSpec, wanted: str, operand: Register, common: str = "") -> Operand | str:
        """`common` is the type of the vector that the register stands in."""
        register_class = self.classes[self.at]
        self.at += 1
        selector = self.form.selectors.get(spec.name)
        if operand.member and self.form.selectors:  # there are no elements of vectors next to selectors
            if selector is None or "." in register_class or not re.fullmatch(selector, operand.member[1:]):
                legal = f"it may have {_selectors(selector)}" if selector else "it is read whole"
                return f"operand {spec.name} has no part {operand.member}: {legal}"
        elif operand.member:
            vector, _, register_class = register_class.rpartition(".")
            if not vector or operand.member not in MEMBERS:  # ptxas takes .z of a .v2, too
                own = self.classes[self.at - 1]
                return f"operand {spec.name}: a .{own} register has no element {operand.member}"
        if common:
            register_class = common
        role = spec.role
        if role == "=" and operand.member and not selector:
            role = "~"  # writing one element keeps the others
        if wanted == "any":
            return Register(role, operand.member)
        if wanted in ("imm", "label", "symbol"):
            return f"operand {spec.name} must be {describe(wanted, spec)}, not a register"
        if not self._fits(spec, wanted, register_class) and not (common and _is_float_of(spec, wanted, register_class)):
            return f"operand {spec.name} must be {describe(wanted, spec)}, and the register is .{register_class}"
        return Register(role, operand.member) if operand.member else PLACEHOLDERS[role]

    def _fits(self, spec: OperandSpec, wanted: str, register_class: str) -> bool:
        if "?" in spec.flags and SCALAR_TYPES[wanted].bits == _bits_of(register_class):
            return True
        fits = register_fits(wanted, register_class, wider="+" in spec.flags)
        if fits and "#" in spec.flags:
            return SCALAR_TYPES[register_class].kind == "bits"
        fixed = spec.type in SCALAR_TYPES or spec.type == "frag"
        if fits and register_class == "f16x2" and fixed and "+" not in spec.flags:
            return SCALAR_TYPES[wanted].kind in ("bits", "packed")  # an integer only where the modifiers give the type
        return fits

    def _immediate(self, spec: OperandSpec, wanted: str, operand: Immediate) -> Operand | str:
        if spec.role != "$":
            return f"operand {spec.name} is written and cannot be a constant ({operand.text})"
        if "%" in spec.flags:
            return f"operand {spec.name} must be a register, not a constant"
        if (
            "?" in spec.flags and not operand.is_float and SCALAR_TYPES[wanted].kind != "float"
        ):  # ptxas gives it 64 bits
            return f"operand {spec.name} must be a register, not an integer constant"
        if not operand.text.isalnum() and (problem := constant_problem(operand.text)) is not None:
            return f"operand {spec.name}: {operand.text} is not a constant: {problem}"
        if wanted == "imm":
            if operand.is_float:
                return f"operand {spec.name} must be an integer constant"
        elif wanted in ("label", "symbol"):
            return f"operand {spec.name} must be {describe(wanted, spec)}, not a constant"
        else:
            scalar = SCALAR_TYPES.get(wanted)
            if scalar is None or wanted in ("f16", "bf16") or scalar.kind == "packed":
                return f"operand {spec.name} of type .{wanted} must be a register, not a constant"
            if scalar.kind == "float" and not operand.is_float:
                return (
                    f"operand {spec.name} of type .{wanted} needs a floating-point constant such as 1.0 or 0f3F800000"
                )
            if scalar.kind in ("unsigned", "signed", "pred") and operand.is_float:
                return f"operand {spec.name} of type .{wanted} needs an integer constant"
            if scalar.kind == "bits" and operand.is_float:
                if scalar.bits not in (32, 64):
                    return f"operand {spec.name} of type .{wanted} needs an integer constant"
                if scalar.bits != (32 if operand.is_single else 64):
                    spelling = "0f3F800000" if scalar.bits == 32 else "1.0 or 0d3FF0000000000000"
                    return f"operand {spec.name} of type .{wanted} needs an integer or one such as {spelling}"
        return self._in_range(spec, operand)

    def _in_range(self, spec: OperandSpec, operand: Immediate) -> Operand | str:
        legal = self.form.ranges.get(spec.name)
        if legal is None:
            return operand
        value = operand.value
        if isinstance(legal, frozenset):
            if value in legal:
                return operand
            return f"operand {spec.name} must be one of {', '.join(map(str, sorted(legal)))}, not {operand.text}"
        if isinstance(legal, range):
            if value in legal:
                return operand
            wanted = f"a multiple of {legal.step} in {legal[0]}..{legal[-1]}"
            return f"operand {spec.name} must be {wanted}, not {operand.text}"
        if legal[0] <= value and (legal[1] is None or value <= legal[1]):
            return operand
        if legal[1] is None:
            return f"operand {spec.name} must be at least {legal[0]}, not {operand.text}"
        return f"operand {spec.name} must be in {legal[0]}..{legal[1]}, not {operand.text}"


def _offset_problem(offset: str) -> str | None:
    """Why what follows an address (`+8`) is not an offset, or None."""
    if offset[0] == "-":
        return f"an offset is added, write +{offset}"
    if offset[1:].isdecimal():
        return None
    if isinstance(evaluate(offset[1:]), float):
        return f"an offset is an integer, not {offset[1:]}"
    return constant_problem(offset[1:])


def _present(name: str, spec: OperandSpec, operand: Operand) -> bool:
    """Whether the operand of that name is there, possibly as the optional half of a pair."""
    if spec.optional_part and isinstance(operand, Pair):
        return name in (spec.name, spec.parts[1].name)
    return spec.name == name


def _bits_of(register_class: str) -> int:
    """The size that ptxas sees where size is all that counts: a predicate is a 32-bit register. 0 for a vector register."""
    if register_class == "pred":
        return 32
    return SCALAR_TYPES[register_class].bits if register_class in SCALAR_TYPES else 0


def _common_class(members: Sequence[str], apart: int = 0) -> str | None:
    """The one type that ptxas gives a vector of these register classes and constants (`int`, `float`), or None.

    Registers have one size. Neighbours must be alike, those after the first `apart` ones: the same type, both integers,
    both floats, or one of them of a bit type. Where the types differ, the vector is of the bit type. Constants alone
    stay `int`, `float` or `float32`.
    """
    sizes = {_bits_of(m) for m in members if m in SCALAR_TYPES}
    if len(sizes) > 1 or not all(map(_alike, members[apart:], members[apart + 1 :])):
        return None
    kinds = {_CONSTANT_TYPES.get(m, m) for m in members} if sizes else set(members)
    return kinds.pop() if len(kinds) == 1 else f"b{sizes.pop()}" if sizes else ""


def _is_float_of(spec: OperandSpec, wanted: str, register_class: str) -> bool:
    """Whether a register in braces is an integer of the size of the float that the modifiers want: bits are moved."""
    scalar = SCALAR_TYPES[register_class] if register_class in SCALAR_TYPES else None
    if scalar is None or scalar.kind not in ("unsigned", "signed") or spec.type in SCALAR_TYPES or spec.type == "frag":
        return False
    return SCALAR_TYPES[wanted].kind == "float" and SCALAR_TYPES[wanted].bits == scalar.bits


def _odd_one(members: Sequence[str], apart: int) -> int:
    """The first of these classes without a common one that is not like those before it."""
    return next(i for i in range(1, len(members) + 1) if _common_class(members[:i], apart) is None) - 1


_CONSTANT_TYPES = {"float": "f64", "float32": "f32"}
_CONSTANTS = {"int": "signed", "float": "float", "float32": "float"}


def _alike(first: str, second: str) -> bool:
    if first == second:
        return True
    kinds = {SCALAR_TYPES[m].kind if m in SCALAR_TYPES else _CONSTANTS[m] for m in (first, second)}
    return "bits" in kinds or kinds == {"float"} or kinds <= {"signed", "unsigned"}


MEMBERS = (".x", ".r", ".y", ".g", ".z", ".b", ".w", ".a")
"""The elements of a vector register, two spellings each."""


def _is_whole(wanted: str) -> bool:
    scalar = SCALAR_TYPES.get(wanted)
    return scalar is not None and scalar.kind in ("bits", "unsigned", "signed")


def describe(wanted: str, spec: OperandSpec) -> str:
    """`.u32`-typed etc., for messages."""
    if wanted == "imm":
        return "a constant"
    if wanted in ("label", "symbol"):
        return f"a {wanted}"
    if wanted == "pred":
        return "a .pred register"
    return f".{wanted} or wider" if "+" in spec.flags else f".{wanted}"
