"""`Instruction`: the base of every PTX instruction's op class, and the registry that finds the class by its opcode.

One class per instruction family; the class states its forms (see `forms`), its docstring and its section of the manual,
and everything
else is derived: reading, printing, verifying, the Python functions, the reference pages.

    @instruction
    class Add(Instruction):
        \"\"\"Add two values.\"\"\"

        name = "ptx.add"
        section = "9.7.1.1"
        forms = (form("add.type d, a, b", type="u16 u32 u64"), form("add{.sat}.s32 d, a, b"))

An op holds: one property per filled slot (`type = "u32"`, `sat` as a unit), `layout` (the operand list without its
registers),
`guard` (`"@"` or `"@!"`); operands are the registers read in text order, then the guard, then the old values of written
registers where
the instruction may leave them (guarded, or `~` in the layout); results are the registers written in text order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Operation, OpTraits
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from ...diagnostics import suggest
from .assembly import parse_instruction, print_instruction
from .attributes import LayoutAttr, layout_attr, string_attr
from .effects import InstructionEffects, InstructionSpeculatable
from .explanation import completions, explain, one_of
from .forms import SPACES, Form, Fragments, Problem, Slots, Use
from .operands import Bound, bound_operands
from .rewrites import InstructionFolder, InstructionPatterns
from .syntax import Layout, Register, registers, transform
from .target import Need, TargetAttr, Version, all_met
from .types import RegType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from xdsl.parser import Parser
    from xdsl.printer import Printer

UNIT = UnitAttr()

TRAITS = (InstructionEffects(), InstructionSpeculatable(), InstructionFolder(), InstructionPatterns())
"""What xDSL's passes may ask of every instruction."""

MANUAL: Version = (9, 4)
"""The version of the PTX ISA manual whose numbers `section`, docstrings and findings give: chapters move between
versions (synchronisation was 9.7.13 in 9.1). An instruction newer than it has the number of its chapter.
"""


class Resolution:
    """What an instruction may be, whatever the target: all forms that fit, or the problem of the closest one.

    The problem may be given as a function, called when somebody wants to know. `needs` yields what keeps an instruction
    that fits no form from being there at all: each of a list of alternatives is a list of (what, need). `successor` tells
    what to write for a form that was removed.
    """

    __slots__ = ("uses", "_problem", "_needs", "_successor")

    def __init__(
        self,
        uses: list[Use],
        problem: Problem | Callable[[], Problem] | None,
        needs: Callable[[], Iterable[Alternatives]] | None = None,
        successor: Callable[[], str | None] | None = None,
    ):
        self.uses = uses
        self._problem = problem
        self._needs = needs
        self._successor = successor

    @property
    def problem(self) -> Problem | None:
        if callable(self._problem):
            self._problem = self._problem()
        return self._problem

    def verdict(self, version: Version, target: str, options: Sequence[str] = ()) -> Problem | None:
        """None where some form exists on this version and target (`options`: further words of `.target`), else why not."""
        if self.uses:
            return _lack([use.needs for use in self.uses], version, target, options, self._successor)
        for alternatives in self._needs() if self._needs is not None else ():
            missing = _lack(alternatives, version, target, options, self._successor)
            if missing is not None:
                return missing
        return self.problem

    def use(self, version: Version, target: str) -> Use | None:
        """The form that applies on this version and target; the first that fits where none is available."""
        for use in self.uses:
            if all_met((n for _, n in use.needs), version, target):
                return use
        return self.uses[0] if self.uses else None


Alternatives = Sequence[Sequence[tuple[str, Need]]]
"""Ways to have something, each with (what, need) of its parts."""


def _lack(
    alternatives: Alternatives, version: Version, target: str, options: Sequence[str],
    successor: Callable[[], str | None] | None,
) -> Problem | None:  # fmt: skip
    """None where one of the alternatives is there, else what the first of them lacks; `successor` says what to write
    for what was removed.
    """
    missing: Problem | None = None
    for needs in alternatives:
        if all_met((n for _, n in needs), version, target, options):
            return None
        if missing is None:
            what, lacking = next((w, n) for w, n in needs if not n.met(version, target, options))
            removed = lacking.until is not None and version > lacking.until
            hint = successor() if removed and successor is not None else None
            missing = Problem(lacking.why_not(version, target, what), -1, hint, word=what.partition(" ")[0].lstrip("."))
    return missing


class Instruction(Operation, Fragments):
    """Base class of all PTX instructions. See the module docstring for what an op holds."""

    section: ClassVar[str] = ""
    """Section of the PTX ISA manual, version `MANUAL`."""
    forms: ClassVar[tuple[Form, ...]] = ()
    opcode: ClassVar[str] = ""
    """The dotted opcode, e.g. `mbarrier.try_wait`; the op's name without `ptx.`."""
    effect: ClassVar[str] = "pure"
    """What passes may assume: `pure`, `read` or `write` (memory), `order` (barriers, fences, async, volatile),
    `control`.
    """
    access: ClassVar[str] = ""
    """How it touches the memory that its addresses name: `load`, `store`, `atomic` (many may update one place in any
    order), `copy` (moves between two of them), `object` (an mbarrier).
    """
    access_bytes: ClassVar[int] = 0
    """Bytes that a thread touches together; 0: as its type and vector say."""
    proxy: ClassVar[str] = "generic"
    """The proxy through which it touches memory: `generic` or `async` (PTX ISA 8.6), empty where the manual does not say."""
    polls: ClassVar[bool] = False
    """Whether it looks for what other threads do, so that a loop around it may be one that waits."""
    whole_warp: ClassVar[bool] = False
    """Whether all threads of a warp execute it together, without a membermask."""
    aligned: ClassVar[bool] = False
    """Whether it is `.aligned` without saying so."""
    unit: ClassVar[str] = ""
    """What it keeps busy, as a kind of `analysis.mix`; `arithmetic` and `memory` depend on type and state space, and so
    does an empty one, which is for operations on floating-point numbers only.
    """
    differs: ClassVar[str] = ""
    """Whose results differ although the operands do not: those of each `thread`, or of each `warp`; `none`: they are the
    same for the whole CTA although the operands are not.
    """
    in_flight: ClassVar[str] = ""
    """Kind of asynchronous operation whose registers stay in flight after this instruction (`wgmma`, `tcgen05.ld`)."""
    jumps: ClassVar[bool] = False
    """Whether its operand is the label of the block it goes to, which prints from the block."""
    returns: ClassVar[bool] = False
    """Whether it leaves the function: it reads the function's return registers."""
    waits_for: ClassVar[str] = ""
    """The kind of operation in flight that this instruction waits for."""
    starts: ClassVar[str] = ""
    """The kind of asynchronous operation that it starts, if an instruction with that in `waits_for` or `gathers` ends it."""
    gathers: ClassVar[str] = ""
    """The kind of operation in flight that this instruction puts into a group, or tells an mbarrier of when it is done."""
    symbol_kind: ClassVar[str] = ""
    """What a `symbol` operand must be: `branch targets`, `call`, or a kind of reference (see `analysis.symbols`)."""
    reference: ClassVar[str] = ""
    """The kind of reference that an address such as `[a:u64?&]` may name: `texref` or `surfref`."""
    generic_places: ClassVar[str] = "global shared local"
    """Where the variables are that an address without a state space may name."""
    numbers_with_offset: ClassVar[bool] = False
    """Whether a symbol plus an offset is a mere number here, whatever it is the address of."""
    takes_functions: ClassVar[bool] = True
    """Whether a function's name will do where a variable's address will."""
    takes_references: ClassVar[bool] = True
    """Whether texture and surface references count as addresses here (ptxas does not look closer in most instructions).
    """
    carries_address: ClassVar[bool] = False
    """Whether its result is an address where an operand is one: a move, or a sum with an offset."""
    commutative: ClassVar[bool] = False
    """Whether its two operands may change places."""
    identity: ClassVar[int | None] = None
    """The integer as second operand that leaves the first as it is; -1 has all bits of any type."""
    absorbing: ClassVar[int | None] = None
    """The integer operand that is the result, whatever the other is."""
    takes_constants: ClassVar[bool] = False
    """Whether a constant may stand for any register that it reads, in the type of the instruction (or as a shift's count).
    """
    reads_special: ClassVar[bool] = False
    """Whether a special register may stand for any register that it reads."""
    partial_access: ClassVar[bool] = False
    """Whether it moves data of global memory that its address operands do not show (a tensor map's, a texture's)."""
    result_name: ClassVar[str] = ""
    """What its result is called in a readable program, if nothing says more: `acc`, `old`, `mask`."""
    traits = OpTraits(lambda: TRAITS)
    terminator: ClassVar[bool] = False
    """Whether the instruction ends its block."""

    _bindings: ClassVar[dict[tuple[str, ...], list[tuple[Form, dict[str, str]]]]]
    _words: ClassVar[dict[str, int]]
    """Modifier -> the forms that know it, one bit each; the empty word: all forms."""
    _resolutions: ClassVar[dict[tuple[tuple[str, ...], Layout, tuple[str, ...]], Resolution]]

    @classmethod
    def fences(cls, modifiers: tuple[str, ...]) -> str:
        """What an instruction with these modifiers orders as a fence: `memory` (accesses of this thread), `async`,
        `tensormap` (between the generic proxy and that one), `mbarrier_init`; empty: nothing.
        """
        return ""

    @classmethod
    def adds_if(cls, modifiers: tuple[str, ...]) -> int | None:
        """Position of the operand that says whether the registers that are read and written (`~`) are read."""
        return None

    @classmethod
    def bytes_together(cls, modifiers: tuple[str, ...]) -> int:
        """`access_bytes`, where modifiers decide."""
        return cls.access_bytes

    @classmethod
    def difference(cls, modifiers: tuple[str, ...]) -> str:
        """`differs`, where modifiers decide."""
        return cls.differs

    # ------------------------------------------------------------------------------------------------------- the op

    @property
    def scalar_types(self) -> tuple[str, ...]:
        """The scalar type as which each operand is read or written (`u32` for the amount of a shift); a kind such as
        `imm` where it has none.
        """
        for form, slots in self.candidates(self.modifiers):
            types = form.operand_types(slots, self.layout, type(self))
            if types:
                return types
        return ()

    @property
    def layout(self) -> Layout:
        return cast(LayoutAttr, self.properties["layout"]).data

    @layout.setter
    def layout(self, layout: Layout) -> None:
        self.properties["layout"] = layout_attr(layout)

    @property
    def guard(self) -> str:
        """`""`, `"@"` or `"@!"`."""
        attr = self.properties.get("guard")
        return cast(StringAttr, attr).data if attr is not None else ""

    @property
    def slots(self) -> dict[str, str]:
        """The filled slots, name -> modifier."""
        return slots_of(self.properties)

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers in canonical order (in written order if they fit no form)."""
        return modifiers_of(type(self), self.properties)

    def slot(self, name: str) -> str | None:
        """The modifier in a slot, e.g. `add.slot("rnd")` -> `"rn"`, or None."""
        attr = self.properties.get(name)
        if attr is None:
            return None
        return attr.data if isinstance(attr, StringAttr) else name

    def operand(self, name: str) -> Bound | None:
        """The operand that the instruction's syntax line calls `name` (`a` of `add.type d, a, b`): a `Value` with its SSA
        value, an `Immediate`, a `Memory`, ...; None where the syntax leaves it out here. KeyError if no form has that name.
        """
        known: dict[str, None] = {}
        for form, _ in self.candidates(self.modifiers):
            specs = form.alternative(self.layout)
            for spec, bound in zip(specs or (), bound_operands(self), strict=False):
                if spec.name == name:
                    return bound
            known.update((spec.name, None) for specs in form.alternatives for spec in specs)
        if name in known:
            return None
        raise KeyError(f"{self.opcode} has no operand {name!r}: it has {', '.join(known)}")

    @property
    def register_types(self) -> list[RegType]:
        """The types of the operand list's registers in text order (guard and ties left out)."""
        results, operands = iter(self.results), iter(self.operands)
        return [cast(RegType, next(operands if r.role == "$" else results).type) for r in registers(self.layout)]

    def print(self, printer: Printer) -> None:
        print_instruction(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cast("Self", parse_instruction(cls, parser))

    # ---------------------------------------------------------------------------------------------------- verification

    def verify(self, verify_nested_ops: bool = True) -> None:
        problem = problem_of(self)
        if problem is not None:
            text = problem.message if problem.hint is None else f"{problem.message} ({problem.hint})"
            raise VerifyException(text)

    @classmethod
    def variables(cls, operand: str, slots: Slots, alone: bool) -> tuple[frozenset[str], bool]:
        """What the variable may be that the operand of that name stands for: where it is declared, and whether texture
        and surface
        references will do. A place is a state space; parameters are `entry` (of a kernel), `input` and `output` (of the
        function), and
        `argument` (a `.param` variable of the body). `alone`: the instruction has no other address.
        """
        return cls.places_of(cls.space_of(operand, slots, alone)), cls.takes_references

    @classmethod
    def space_of(cls, operand: str, slots: Slots, alone: bool) -> str:
        """The state space of the address that the operand of that name is (`shared::cta`; empty: generic). `alone`: the
        instruction has no other address.
        """
        space = slots.get(operand, "")
        if space in SPACES:
            return space
        spaces = [v for v in slots.values() if v in SPACES]
        if operand == "src" and len(spaces) > 1:
            return spaces[1]
        if alone and spaces:
            return spaces[0]
        if operand == "mbar":
            return "shared" if spaces else ""
        if operand == "map":
            return "global" if "global" in spaces else ""
        return spaces[0] if spaces else ""

    @classmethod
    def places_of(cls, space: str) -> frozenset[str]:
        """The places of the variables of a state space (empty: a generic address); see `variables`."""
        if space.startswith("param"):
            return frozenset({"entry", "input", "output", "argument"})
        return frozenset(cls.generic_places.split()) if not space else frozenset({space.partition("::")[0]})

    @classmethod
    def candidates(cls, modifiers: tuple[str, ...]) -> list[tuple[Form, dict[str, str]]]:
        """The forms these modifiers (in any legal order) select, with their slots."""
        found = cls._bindings.get(modifiers)
        if found is None:
            found = [(f, slots) for f in cls.knowing(modifiers) if (slots := f.bind(modifiers)) is not None]
            cls._bindings[modifiers] = found
        return found

    @classmethod
    def knowing(cls, modifiers: Iterable[str]) -> Iterator[Form]:
        """The forms that know all these words."""
        words = cls._words
        if not words:
            words = {"": (1 << len(cls.forms)) - 1}
            for i, one in enumerate(cls.forms):
                for word in one.tokens:
                    words[word] = words.get(word, 0) | 1 << i
            cls._words = words  # at once: other threads read it
        bits = words[""]
        for word in modifiers:
            bits &= words.get(word, 0)
        while bits:
            low = bits & -bits
            yield cls.forms[low.bit_length() - 1]
            bits ^= low

    @classmethod
    def judges_constants(cls, modifiers: tuple[str, ...]) -> bool:
        """Whether the value of a constant, not only its kind, decides what is legal with these modifiers."""
        return any(candidate.judges_constants for candidate, _ in cls.candidates(modifiers))

    @classmethod
    def resolve(cls, modifiers: tuple[str, ...], layout: Layout, classes: tuple[str, ...]) -> Resolution:
        """All readings of an instruction: its modifiers, its operand list (roles ignored), its register classes in text
        order.
        """
        candidates = cls.candidates(modifiers)
        if not candidates:
            return Resolution([], lambda: cls.explain_modifiers(modifiers), lambda: cls._needs_of_words(modifiers))
        key = (modifiers, layout, classes)
        found = cls._resolutions.get(key)
        if found is None:
            if len(cls._resolutions) > 50_000:
                cls._resolutions.clear()
            found = cls._resolutions[key] = cls._resolve(modifiers, layout, classes)
        return found

    @classmethod
    def _resolve(cls, modifiers: tuple[str, ...], layout: Layout, classes: tuple[str, ...]) -> Resolution:
        candidates = cls.candidates(modifiers)
        uses: list[Use] = []
        closest: Problem | None = None
        nearest = (False, -1, 0)  # the operand count fits, operands that fit, how far the next one does
        for candidate, slots in candidates:
            result = candidate.match_operands(slots, layout, classes, cls)
            if isinstance(result, Use):
                uses.append(result)
                continue
            fitting = result.operand if result.depth < 3 else len(layout)
            distance = (candidate.alternative(layout) is not None, fitting, result.depth)
            if closest is None or distance > nearest:
                closest, nearest = result, distance

        def successor() -> str | None:
            more = completions(cls, modifiers)
            return f"newer versions take it with {one_of(more)}" if more else None

        if uses:
            return Resolution(uses, None, successor=successor)

        def problem() -> Problem:
            assert closest is not None
            return closest if nearest[0] else cls._miscounted(closest, modifiers, len(layout))

        return Resolution([], problem, lambda: [[list(f.needed(slots, (), ())) for f, slots in candidates]], successor)

    @classmethod
    def _miscounted(cls, problem: Problem, modifiers: tuple[str, ...], operands: int) -> Problem:
        """The problem of a wrong number of operands, with the modifier that would make it right."""
        more = completions(cls, modifiers, operands)
        if not more:
            return problem
        return replace(problem, message=f"{problem.message} (it takes {operands} with {one_of(more)})")

    @classmethod
    def _needs_of_words(cls, modifiers: tuple[str, ...]) -> Iterator[Alternatives]:
        """What the opcode needs, and each modifier, for modifiers that go with no form; nothing where one is unknown."""
        if cls._unknown(modifiers) is not None:
            return
        yield sorted(([(cls.opcode, f.whole)] for f in cls.forms), key=_newness)
        for word in modifiers:
            ways = [
                [(f".{word} of {cls.opcode}", n) for n in (f.whole, f.needs.get(word)) if n is not None]
                for f in cls.knowing((word,))
            ]
            yield sorted(ways, key=_newness)

    @classmethod
    def explain_modifiers(cls, modifiers: tuple[str, ...]) -> Problem:
        """Why no form takes these modifiers: the unknown one, the ones that do not go together, or the missing one."""
        unknown = cls._unknown(modifiers)
        if unknown is None:
            return explain(cls, modifiers)
        root, *own = cls.opcode.split(".")
        torn = torn_opcode(root, (*own, *modifiers), len(own))
        if torn is not None:
            return torn
        if modifiers[0] == unknown and not suggest(unknown, cls._words):  # a slip in a longer opcode
            return misspelled_opcode((root, *own, *modifiers), len(own) + 1) or explain(cls, modifiers)
        return explain(cls, modifiers)

    @classmethod
    def _unknown(cls, modifiers: Iterable[str]) -> str | None:
        """The first modifier that no form knows."""
        return next((word for word in modifiers if next(cls.knowing((word,)), None) is None), None)

    @classmethod
    def destination_count(cls, layout: Layout) -> int:
        """How many leading operands are written, for text that fits no form (to keep its dataflow)."""
        for candidate in cls.forms:
            specs = candidate.alternative(layout)
            if specs is not None:
                return sum(1 for s in specs if any(p.role != "$" for p in (s.parts or (s,))) and s.kind != "address")
        return 0

    @classmethod
    def roles(cls, modifiers: tuple[str, ...], layout: Layout, classes: tuple[str, ...]) -> Layout:
        """The layout with each register's role, from the form that fits, else from the family's habit."""
        resolution = cls.resolve(modifiers, layout, classes)
        if resolution.uses:
            return resolution.uses[0].layout
        written = cls.destination_count(layout)

        def mark(operand: object) -> Register | object:
            return Register("=", operand.member) if isinstance(operand, Register) else operand

        head = transform(layout[:written], mark)  # pyright: ignore[reportArgumentType]
        return (*head, *layout[written:])


def _newness(needs: Sequence[tuple[str, Need]]) -> Version:
    return max(n.since for _, n in needs)


_OpT = TypeVar("_OpT", bound=type[Instruction])

OPCODES: dict[str, type[Instruction]] = {}
"""Every dotted opcode -> its op class."""
_LONGEST: dict[str, int] = {}


def instruction(cls: _OpT) -> _OpT:
    """Register an op class under its opcode and prepare its forms."""
    cls.opcode = cls.name.removeprefix("ptx.")
    cls._bindings, cls._words = {}, {}
    cls._resolutions = {}
    if cls.opcode in OPCODES:
        raise ValueError(f"two op classes for {cls.opcode}")
    for declared in cls.forms:
        declared.bind_opcode(cls.opcode)
    OPCODES[cls.opcode] = cls
    root = cls.opcode.partition(".")[0]
    _LONGEST[root] = max(_LONGEST.get(root, 0), cls.opcode.count("."))
    if cls.terminator:
        cls.traits = OpTraits(lambda: (IsTerminator(), *TRAITS))
    return cls


def find_opcode(root: str, modifiers: Sequence[str]) -> tuple[type[Instruction], int] | None:
    """The op class for `root` + modifiers and how many modifiers belong to its opcode: the longest dotted match."""
    for n in range(min(_LONGEST.get(root, -1), len(modifiers)), -1, -1):
        cls = OPCODES.get(".".join((root, *modifiers[:n])))
        if cls is not None:
            return cls, n
    return None


def unknown_opcode(root: str, modifiers: Sequence[str]) -> Problem:
    """The message for an opcode that does not exist."""
    if root not in _LONGEST:
        near = suggest(root, _LONGEST)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        return Problem(f"unknown instruction {root}", -1, hint)
    problem = torn_opcode(root, modifiers, 0) or misspelled_opcode((root, *modifiers), 1)
    if problem is None:
        names = [o for o in OPCODES if o.partition(".")[0] == root]
        spelled = ".".join((root, *modifiers[:1]))
        problem = Problem(f"unknown instruction {spelled}", -1, f"{root} has {one_of(names, dot='')}")
    return problem


def misspelled_opcode(words: Sequence[str], known: int) -> Problem | None:
    """The problem where one word spoils an opcode that starts with more than these `known` words, or is nearly one."""
    same, nexts = _longest_start(words)
    near = suggest(words[same], nexts) if same < len(words) else []
    if not near and same <= known:
        return None
    start = ".".join(words[:same])
    hint = f"did you mean {' or '.join(f'{start}.{n}' for n in near)}?" if near else f"{start} has {one_of(nexts)}"
    return Problem(f"unknown instruction {'.'.join(words[: same + 1])}", -1, hint)


def torn_opcode(root: str, modifiers: Sequence[str], known: int) -> Problem | None:
    """The problem where the words of an opcode, more than `known` of them behind its root, do not stand together in
    front: `mbarrier.shared.try_wait`.
    """
    whole = [o.split(".")[1:] for o in OPCODES if o.partition(".")[0] == root]
    same, _ = _longest_start((root, *modifiers))
    whole = [words for words in whole if len(words) >= max(same, known + 1) and set(words) <= set(modifiers)]
    if not whole:
        return None
    words = max(whole, key=len)
    rest = list(modifiers)
    for word in words:
        rest.remove(word)
    opcode = ".".join((root, *words))
    message = f"{'.'.join((root, *modifiers))}: the words of {opcode} stand together, in front of all modifiers"
    return Problem(message, -1, f"write {'.'.join((opcode, *rest))}")


def _longest_start(words: Sequence[str]) -> tuple[int, list[str]]:
    """How many of the words start an opcode, and the words that may come next."""
    names = [o.split(".") for o in OPCODES if o.partition(".")[0] == words[0]]
    same = max(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(n, words, strict=False))) for n in names)
    return same, list(dict.fromkeys(n[same] for n in names if n[:same] == list(words[:same]) and len(n) > same))


# ------------------------------------------------------------------------------------------------------------
# properties

RESERVED = ("layout", "guard", "modifiers", "silent")


def slots_of(properties: dict[str, Attribute]) -> dict[str, str]:
    return {
        name: attr.data if isinstance(attr, StringAttr) else name
        for name, attr in properties.items()
        if name not in RESERVED
    }


def slot_properties(form_: Form, slots: Slots) -> dict[str, Attribute]:
    """Slots as properties: a unit for a plain flag, a string for a choice."""
    literal = {s.name for s in form_.slots if s.literal}
    return {name: UNIT if name in literal else string_attr(value) for name, value in slots.items()}


_modifiers_memo: dict[tuple[object, ...], tuple[str, ...]] = {}


def modifiers_of(cls: type[Instruction], properties: dict[str, Attribute]) -> tuple[str, ...]:
    """Modifiers in canonical order, from an op's properties."""
    raw = properties.get("modifiers")
    if raw is not None:
        return tuple(cast(StringAttr, raw).data.split(".")[1:])
    slots = slots_of(properties)
    key = (cls, *slots.items())
    found = _modifiers_memo.get(key)
    if found is None:
        found = _modifiers_memo[key] = _canonical(cls, slots)
    return found


def _canonical(cls: type[Instruction], slots: dict[str, str]) -> tuple[str, ...]:
    for candidate in cls.forms:
        places = {s.name: s for s in candidate.slots}
        if all(n in places and v in places[n].values for n, v in slots.items()) and all(
            s.name in slots for s in candidate.slots if s.required
        ):
            return tuple(candidate.modifiers(slots))
    return tuple(slots.values())


_verdicts: dict[tuple[object, ...], tuple[Problem | None, Use | None, object]] = {}


def problem_of(op: Instruction, target: TargetAttr | None = None) -> Problem | None:
    """What is wrong with an op on `target` (its module's, if not given), or None."""
    return verdict_of(op, target if target is not None else target_of_op(op))[0]


def verdict_of(op: Instruction, target: TargetAttr | None) -> tuple[Problem | None, Use | None, object]:
    """What is wrong with an op on `target`, or None; and the form it was read as, if any (the third is of no use to callers).

    Memoised on (properties, register classes, target).
    """
    properties = op.properties
    # the memo holds the attributes themselves, so their ids stay theirs; a list that grows is the fastest way to a key
    parts: list[object] = [op.__class__, id(target)]
    parts += properties  # the names too: all flags have one value
    parts += map(id, properties.values())
    add = parts.append
    for value in op._operands:
        add(value._type.data[0])  # pyright: ignore
    add(None)  # keeps operands and results apart
    for value in op.results:
        add(value._type.data[0])  # pyright: ignore
    key = tuple(parts)
    found = _verdicts.get(key)
    if found is None:
        if len(_verdicts) > 200_000:
            _verdicts.clear()
        found = _verdicts[key] = (*_judge(op, target), (tuple(properties.values()), target))
    return found


def _judge(op: Instruction, target: TargetAttr | None) -> tuple[Problem | None, Use | None]:
    problem = _miscounted(op)
    if problem is not None:
        return problem, None
    classes = tuple(t.data[0] for t in op.register_types)
    resolution = type(op).resolve(modifiers_of(type(op), op.properties), plain_roles(op.layout), classes)
    problem = resolution.problem
    if target is not None:
        problem = resolution.verdict(target.version, target.target, target.options)
    return problem, resolution.uses[0] if resolution.uses else None


def _miscounted(op: Instruction) -> Problem | None:
    """What is wrong with the number of operands and results, or with the guard."""
    layout = op.layout
    placed = registers(layout)
    written = sum(1 for r in placed if r.role != "$")
    silent_reads, silent_ties = silent_registers(op)
    if written + silent_ties != len(op.results):
        return Problem(f"the layout writes {written} registers and the op has {len(op.results)} results")
    read = len(placed) - written
    ties = written if op.guard else sum(1 for r in placed if r.role == "~")
    expected = read + silent_reads + bool(op.guard) + ties + silent_ties
    if not op._successors and expected != len(op._operands):
        return Problem(f"the op needs {expected} operands and has {len(op._operands)}")
    if op.guard and cast(RegType, op._operands[read + silent_reads].type).data[0] != "pred":
        return Problem("the guard must be a .pred register")
    return None


def silent_registers(op: Instruction) -> tuple[int, int]:
    """(reads, ties) that print nothing: registers in flight that a wait carries, return registers that a `ret` reads."""
    attr = op.properties.get("silent")
    if attr is None:
        return 0, 0
    reads, _, ties = cast(StringAttr, attr).data.partition(",")
    return int(reads), int(ties)


def plain_roles(layout: Layout) -> Layout:
    """The layout with every register's role reset, the key under which `resolve` memoises."""
    found = _plain.get(layout)
    if found is None:
        found = _plain[layout] = transform(layout, lambda o: Register("$", o.member) if isinstance(o, Register) else o)
    return found


_plain: dict[Layout, Layout] = {}


def target_of_op(op: Operation) -> TargetAttr | None:
    """The target attribute of the enclosing `ptx.module`, or None."""
    parent = op.parent_op()
    while parent is not None:
        found = parent.properties.get("target")
        if found is not None:
            return cast(TargetAttr, found)
        parent = parent.parent_op()
    return None


def iter_instructions(op: Operation) -> Iterator[Instruction]:
    """Every instruction inside an op, in layout order."""
    for nested in op.walk():
        if isinstance(nested, Instruction):
            yield nested


def needs_of(op: Instruction) -> list[tuple[str, Need]]:
    """What the op needs (for version inference and retargeting): the needs of its most available form."""
    classes = tuple(t.data[0] for t in op.register_types)
    resolution = type(op).resolve(modifiers_of(type(op), op.properties), plain_roles(op.layout), classes)
    return min(
        (u.needs for u in resolution.uses), key=lambda n: max((x.since for _, x in n), default=(1, 0)), default=[]
    )
