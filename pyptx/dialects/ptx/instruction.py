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
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from ...diagnostics import counted, suggest
from . import deferred, opcodes
from .attributes import LayoutAttr, layout_attr, string_attr
from .explanation import completions, explain, with_proposals
from .forms import SPACES, Form, Fragments, Problem, Slots, Use
from .foundation import Attribute, Operation, StringAttr, UnitAttr, VerifyException, traits_of
from .lacks import Alternatives, lack
from .memo import Memo
from .opcode_problems import instead, misspelled_opcode, scattered_opcode
from .opcodes import register, roots
from .proposals import Admits, Head, Search, advice, hint_of, refuses_all
from .syntax import Address, Layout, Register, registers, transform
from .target import Need, TargetAttr, Version, all_met
from .types import RegType, class_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping
    from typing import Self

    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from .operands import Bound

OPCODES = cast("MutableMapping[str, type[Instruction]]", opcodes.OPCODES)
"""Every dotted opcode with its op class (`opcodes`)."""
find_opcode = cast("Callable[[str, Sequence[str]], tuple[type[Instruction], int] | None]", opcodes.find_opcode)
"""The op class of an opcode and how many modifiers belong to it (`opcodes`)."""

UNIT = UnitAttr()

MANUAL: Version = (9, 4)
"""The version of the PTX ISA manual whose numbers `section`, docstrings and findings give: chapters move between
versions (synchronisation was 9.7.13 in 9.1). An instruction newer than it has the number of its chapter.
"""


class Resolution:
    """What an instruction may be, whatever the target: all forms that fit, or the problem of the closest one.

    The problem may be given as a function, called when somebody wants to know, with what judges its proposals. `needs` yields
    what keeps an instruction that fits no form from being there at all: each of a list of alternatives is a list of (what,
    need). `successors` adds to a problem what may be written instead of a form that was removed.
    """

    __slots__ = ("uses", "_problem", "_explain", "_needs", "_successors")

    def __init__(
        self,
        uses: list[Use],
        problem: Problem | Explain | None,
        needs: Callable[[], Iterable[Alternatives]] | None = None,
        successors: Callable[[Problem, Judge], Problem] | None = None,
    ):
        self.uses = uses
        self._problem = None if callable(problem) else problem
        self._explain = problem if callable(problem) else None
        self._needs = needs
        self._successors = successors

    @property
    def problem(self) -> Problem | None:
        """Why it is legal nowhere, or None. What it proposes is legal somewhere."""
        if self._problem is None and self._explain is not None:
            self._problem = self._explain(lambda resolution: bool(resolution.uses))
        return self._problem

    def exists(self, version: Version, target: str, options: Sequence[str] = ()) -> bool:
        """Whether some form is there on this version and target."""
        return any(all_met((n for _, n in use.needs), version, target, options) for use in self.uses)

    def verdict(
        self, version: Version, target: str, options: Sequence[str] = (), admits: Judge | None = None
    ) -> Problem | None:
        """None where some form exists on this version and target (`options`: further words of `.target`), else why not.
        `admits` judges what is proposed: by default, all that exists there.
        """
        judge = admits if admits is not None else (lambda found: found.exists(version, target, options))
        if self.uses:
            missing = lack([use.needs for use in self.uses], version, target, options)
            return self._successors(missing, judge) if missing is not None and self._successors is not None else missing
        problem = self._explain(judge) if self._explain is not None else self._problem
        if problem is not None and problem.proposals:
            return problem
        for alternatives in self._needs() if self._needs is not None else ():
            missing = lack(alternatives, version, target, options)
            if missing is not None:  # no version or target is a cure: the instruction fits no form
                return replace(missing, cures=())
        return problem

    def use(self, version: Version, target: str) -> Use | None:
        """The form that applies on this version and target; the first that fits where none is available."""
        for use in self.uses:
            if all_met((n for _, n in use.needs), version, target):
                return use
        return self.uses[0] if self.uses else None


Judge = Callable[[Resolution], bool]
"""Whether what an instruction may be is legal where it stands."""
Explain = Callable[[Judge], Problem]


def nothing(_: Resolution) -> bool:
    """The judge of those who want no proposals, which cost time."""
    return False


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
    looks_at_schedule: ClassVar[bool] = False
    """Whether its result depends on the order in which threads run, in right programs, too."""
    whole_warp: ClassVar[bool] = False
    """Whether all threads of a warp execute it together, without a membermask."""
    exchanges: ClassVar[bool] = False
    """Whether threads of a warp exchange values of registers, without another effect."""
    aligned: ClassVar[bool] = False
    """Whether it is `.aligned` without saying so."""
    unit: ClassVar[str] = ""
    """What it keeps busy, as a kind of `analysis.mix`; `arithmetic` and `memory` depend on type and state space, and so
    does an empty one, which is for operations on floating-point numbers only.
    """
    sums: ClassVar[str] = ""
    """The name of a matrix multiplication in the table of tensor cores' sums, `numerics.tensor_cores.rules`."""
    addend: ClassVar[int] = 0
    """The position of the operand of a matrix multiplication that the product is added to: D, or C."""
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
    wide_addresses: ClassVar[bool] = False
    """Whether ptxas makes code only where the register of an address of global or generic memory has 64 bits. Its parser takes
    32 bits, too.
    """
    numbers_with_offset: ClassVar[bool] = False
    """Whether a symbol plus an offset is a mere number here, whatever it is the address of."""
    takes_functions: ClassVar[bool] = True
    """Whether a function's name will do where a variable's address will."""
    takes_references: ClassVar[bool] = True
    """Whether texture and surface references count as addresses here (ptxas does not look closer in most instructions).
    """
    carries_address: ClassVar[bool] = False
    """Whether its result is an address where an operand is one: a move, or a sum with an offset."""
    argument_lists: ClassVar[bool] = False
    """Whether its operands are lists in parentheses, which are constant expressions elsewhere."""
    reads_carry: ClassVar[bool] = False
    """Whether it reads the carry that an instruction with `.cc` wrote."""
    returns_nothing: ClassVar[bool] = False
    """Whether it is an atomic operation without a result: its read is part of no acquire pattern (PTX ISA 8.8)."""
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
    traits = traits_of("instruction")
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
            for spec, bound in zip(specs or (), deferred.operands.bound_operands(self), strict=False):
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
        deferred.assembly.print_instruction(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cast("Self", deferred.assembly.parse_instruction(cls, parser))

    # ---------------------------------------------------------------------------------------------------- verification

    def verify(self, verify_nested_ops: bool = True) -> None:
        if "layout" not in self.properties:
            raise VerifyException(f"{self.name} needs the property layout, its operand list")
        if (self.jumps or self.symbol_kind == "branch targets") and not self.successors:
            raise VerifyException(f"{self.opcode} needs the blocks that it goes to as successors")
        problem = problem_of(self)
        if problem is not None:
            hint = (problem.hint or "").replace("\n", "; ")
            text = f"{problem.message} ({hint})" if hint else problem.message
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
    def narrow_address(cls, use: Use) -> int:
        """The first operand that is an address of global or generic memory in a register of 32 bits; -1 if none is."""
        alone = sum(isinstance(o, Address) for o in use.layout) == 1
        for i, (spec, operand) in enumerate(zip(use.form.alternative(use.layout) or (), use.layout, strict=True)):
            if isinstance(operand, Address) and isinstance(operand.base, Register):
                at = len(registers(use.layout[:i]))
                if class_bits(use.classes[at]) == 32 and cls.space_of(spec.name, use.slots, alone) in ("", "global"):
                    return i
        return -1

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
            if len(cls._bindings) > 20_000:
                cls._bindings.clear()
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
            return Resolution(
                [],
                lambda judge: cls.explain_modifiers(modifiers, admits(judge, layout, classes)),
                lambda: cls._needs_of_words(modifiers),
            )
        key = (modifiers, layout, classes)
        found = cls._resolutions.get(key)
        if found is None:
            found = cls._resolutions[key] = cls._resolve(modifiers, layout, classes)
        return found

    @classmethod
    def _resolve(cls, modifiers: tuple[str, ...], layout: Layout, classes: tuple[str, ...]) -> Resolution:
        candidates = cls.candidates(modifiers)
        uses: list[Use] = []
        closest: tuple[Problem, Form] | None = None
        nearest = (False, -1, 0)  # the operand count fits, operands that fit, how far the next one does
        for candidate, slots in candidates:
            result = candidate.match_operands(slots, layout, classes, cls)
            if isinstance(result, Use):
                uses.append(result)
                continue
            fitting = result.operand if result.depth < 3 else len(layout)
            distance = (candidate.alternative(layout) is not None, fitting, result.depth)
            if closest is None or distance > nearest:
                closest, nearest = (result, candidate), distance

        def successors(missing: Problem, judge: Judge) -> Problem:
            problem = cls._without_word(missing, modifiers, admits(judge, layout, classes))
            newer = cls._successor(modifiers) if " was removed " in missing.message else None
            return replace(problem, hint=hint_of(problem.hint, newer))

        if uses:
            return Resolution(uses, None, successors=successors)

        def problem(judge: Judge) -> Problem:
            assert closest is not None
            admitted = admits(judge, layout, classes)
            hinted = replace(closest[0], hint=f"syntax: {closest[1].syntax}")
            return cls._or_other_opcode(with_proposals(hinted, cls, modifiers, admitted), modifiers, admitted)

        return Resolution([], problem, lambda: [[list(f.needed(slots, (), ())) for f, slots in candidates]])

    @classmethod
    def _successor(cls, modifiers: tuple[str, ...]) -> str | None:
        """What newer versions have for a form that was removed: its syntax."""
        words = next(iter(completions(cls, modifiers)), None)
        if words is None:
            return None
        return f"newer versions have {cls.candidates(words)[0][0].syntax}"

    @classmethod
    def _without_word(cls, missing: Problem, modifiers: tuple[str, ...], judge: Admits) -> Problem:
        """The problem of a modifier that is not there, with the instruction without it."""
        if modifiers.count(missing.word) != 1:
            return missing
        root = tuple(cls.opcode.split("."))
        search = Search((*root, *modifiers), judge)
        search.remove(len(root) + modifiers.index(missing.word))
        hint = hint_of(missing.hint, advice(search.head, search.found))
        return replace(missing, hint=hint, proposals=tuple(search.found))

    @classmethod
    def in_other_spaces(cls, modifiers: tuple[str, ...], judge: Admits) -> list[Head]:
        """The legal heads that differ in the state space of a variable."""
        root = tuple(cls.opcode.split("."))
        search = Search((*root, *modifiers), judge)
        for i, word in enumerate(modifiers):
            if word in SPACES:
                search.exchange(len(root) + i, sorted(SPACES), 2)
        if not SPACES.intersection(modifiers):
            search.offer([(*root, space, *modifiers) for space in sorted(SPACES)], 2)
        return list(search.found)

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
    def explain_modifiers(cls, modifiers: tuple[str, ...], admits: Admits) -> Problem:
        """Why no form takes these modifiers: the unknown one, the ones that do not go together, or the missing one.
        `admits` judges what is proposed.
        """
        unknown = cls._unknown(modifiers)
        if unknown is None:
            return cls._or_other_opcode(explain(cls, modifiers, admits), modifiers, admits)
        root, *own = cls.opcode.split(".")
        torn = scattered_opcode(root, (*own, *modifiers), len(own), admits)
        if torn is not None:
            return torn
        if modifiers[0] == unknown and not suggest(unknown, cls._words):  # a slip in a longer opcode
            problem = misspelled_opcode((root, *own, *modifiers), len(own) + 1, admits)
            if problem is not None and problem.proposals:
                return problem
        return cls._or_other_opcode(explain(cls, modifiers, admits), modifiers, admits)

    @classmethod
    def _or_other_opcode(cls, problem: Problem, modifiers: tuple[str, ...], judge: Admits) -> Problem:
        """The problem of modifiers or operands; where nothing else cures it, with opcodes spelled like this one."""
        if problem.proposals:
            return problem
        root, *own = cls.opcode.split(".")
        near = [(name, *own, *modifiers) for name in suggest(root, roots(), 8)]
        found = instead("", (root, *own, *modifiers), near, judge)
        return replace(problem, hint=hint_of(found.hint, problem.hint), proposals=found.proposals)

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


def instruction(cls: _OpT) -> _OpT:
    """Register an op class under its opcode and prepare its forms."""
    cls.opcode = cls.name.removeprefix("ptx.")
    cls._bindings, cls._words, cls._resolutions = Memo(), {}, Memo()
    for declared in cls.forms:
        declared.bind_opcode(cls.opcode)
    register(cls)
    if cls.terminator:
        cls.traits = traits_of("terminator")
    return cls


def admits(judge: Judge, layout: Layout, classes: tuple[str, ...]) -> Admits:
    """Judges heads with these operands."""
    if judge is nothing:
        return refuses_all

    def admitted(head: Head) -> bool:
        found = find_opcode(head[0], head[1:])
        return found is not None and judge(found[0].resolve(head[1 + found[1] :], layout, classes))

    return admitted


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


_modifiers_memo: Memo[tuple[object, ...], tuple[str, ...]] = Memo()


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


_verdicts: Memo[tuple[object, ...], tuple[Problem | None, Use | None, object]] = Memo()


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
        return Problem(
            f"the layout writes {counted(written, 'register')} and the op has {counted(len(op.results), 'result')}"
        )
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


_plain: Memo[Layout, Layout] = Memo()


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
