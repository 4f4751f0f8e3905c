"""What ptxas accepts of directives: where each may stand, since which version, on which targets, with which arguments.

    judge_directive(".maxntid", ("32", "1", "1"), "entry", (8, 7), "sm_90a")     None: legal
    judge_directive(".reg", (".b128",), "entry body", (8, 0), "sm_90a")          Problem: needs PTX 8.3
    judge_together((".maxntid", ".reqntid"))                                      Problem: exclude each other

A place is one of the names in `PLACES`. The arguments of a declaration are its type words (`.v4 .f32`), of `.pragma`
and `.attribute` their words, of a directive with numbers these numbers. PTX ISA 5 (variables), 11 (directives), 12
(pragmas).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .forms import Problem
from .syntax import evaluate
from .target import ANYWHERE, Need, Version, need
from .types import REGISTER_CLASSES, SCALAR_TYPES

PLACES: dict[str, str] = {
    "header": "the head of a module",
    "module": "module scope",
    "entry": "an .entry after its parameters",
    "entry decl": "an .entry without a body",
    "func": "a .func after its parameters",
    "func decl": "a .func without a body",
    "entry body": "the body of an .entry",
    "func body": "the body of a .func",
    "entry param": "the parameter list of an .entry",
    "func param": "the parameter list of a .func",
    "func return": "the result list of a .func",
    "global": "a .global variable",
    "global init": "a .global variable with an initialiser",
    "global incomplete": "a .global array without a size",
    "const": "a .const variable",
    "const init": "a .const variable with an initialiser",
    "const incomplete": "a .const array without a size",
    "shared": "a .shared variable",
    "shared init": "a .shared variable with an initialiser",
    "shared incomplete": "a .shared array without a size",
    "local": "a .local variable",
    "reg": "a register",
}
"""Where a directive may stand, and how messages call it: `entry` and `func` are definitions of functions, `entry decl`
and `func decl` their declarations."""

BODY = ("entry body", "func body")
Places = Mapping[str, Need]


def _at(*places: str, since: str = "1.4", sm: str = "") -> dict[str, Need]:
    return dict.fromkeys(places, need(since, sm))


@dataclass(frozen=True)
class Directive:
    """One directive: the places it may stand in and since when there, and how many numbers it takes."""

    places: Places
    numbers: tuple[int, int] = (0, 0)
    lowest: int = 0
    """The lowest legal number."""
    highest: int = (1 << 32) - 1
    """The highest legal number."""
    words: Mapping[str, Places] = field(default_factory=dict[str, Places])
    """Arguments that are words, with the places of their own."""


# ------------------------------------------------------------------------------------------------- of functions

PERFORMANCE: dict[str, Directive] = {
    ".maxntid": Directive(_at("entry"), (1, 3), 1),
    ".reqntid": Directive(_at("entry", since="2.1"), (1, 3), 1),
    ".minnctapersm": Directive(_at("entry", since="2.0"), (1, 1), 1),
    ".maxnreg": Directive(_at("entry"), (1, 1), 1),
    ".local_maxnreg": Directive(_at("entry", "func", since="8.8"), (1, 1), 1),
    ".reqnctapercluster": Directive(_at("entry", since="7.8", sm="90+"), (1, 3)),
    ".maxclusterrank": Directive(_at("entry", since="7.8", sm="90+"), (1, 1)),
    ".explicitcluster": Directive(_at("entry", since="7.8", sm="90+")),
    ".blocksareclusters": Directive(_at("entry", since="9.0", sm="90+")),
    ".minperctamemory": Directive(_at("entry", since="9.4", sm="80+"), (1, 1)),
    ".language": Directive(_at("entry", "func", since="9.2"), (1, 1 << 32), highest=10),
    ".noreturn": Directive(_at("func", "func decl", since="6.4")),
    ".abi_preserve": Directive(_at("func", "func decl", since="9.0", sm="80+"), (1, 1)),
    ".abi_preserve_control": Directive(_at("func", "func decl", since="9.0", sm="80+"), (1, 1), highest=11),
}
SOURCE_SECTION = ".nv_intermediate_source_section"
LANGUAGES = (
    "unknown", "", "", "ptx", "nvvm", "cuda c++", "cuda c++ tile", "tile ir", "python-cutile", "fortran", "optix",
)  # fmt: skip
"""The names that a `.language` may have (in any case of letters), at their numbers."""
FUNCTION_ORDER = {
    ".noreturn": 0, ".abi_preserve": 1, ".abi_preserve_control": 1, ".local_maxnreg": 2, ".language": 3,
}  # fmt: skip
"""The order of the directives of a .func, as ranks."""
EXCLUSIVE = ((".maxntid", ".reqntid"), (".reqnctapercluster", ".maxclusterrank"))
REQUIRED = {".blocksareclusters": (".reqntid", ".reqnctapercluster")}
REMOVED = {".maxnctapersm": "it is now called .minnctapersm"}

# --------------------------------------------------------------------------------------------------- linking

_VARIABLES = ("global", "global init", "const", "const init", "shared")
_DEFINITIONS = ("entry", "func", "func decl")
LINKING: dict[str, Directive] = {
    ".visible": Directive({**_at(*_VARIABLES, *_DEFINITIONS), **_at("entry decl", since="3.0")}),
    ".extern": Directive(
        {
            **_at("global", "const", "shared", "func decl", "global incomplete", "shared incomplete"),
            **_at("const incomplete", since="2.3"),
            **_at("entry decl", since="3.0"),
        }
    ),
    ".weak": Directive(_at(*_VARIABLES, *_DEFINITIONS, "entry decl", since="3.1")),
    ".common": Directive(_at("global", "global init", since="5.0")),
}

# ---------------------------------------------------------------------------------------------------- others

OTHERS: dict[str, Directive] = {
    ".pragma": Directive(
        _at("module", "entry", *BODY, since="2.0"),
        words={
            "enable_smem_spilling": _at("entry body", since="8.7", sm="75+"),
            "frequency": _at(*BODY, since="9.0"),
            "mma_throughput": _at(*BODY, since="9.3"),
            "used_bytes_mask": _at(*BODY, since="8.3", sm="50+"),
        },
    ),
    ".attribute": Directive(
        _at("global", "global init", "func", "func decl", since="4.0"),
        words={
            ".managed": _at("global", "global init", since="4.0"),
            ".unified": _at("global", "func", "func decl", since="8.0", sm="90+"),
        },
    ),
    ".alias": Directive(_at("module", *BODY, since="6.3")),
    ".file": Directive(_at("module"), words={"timestamp": _at("module", since="4.0")}),
    ".section": Directive(_at("module", since="2.0")),
    ".loc": Directive(
        _at(*BODY), words={"function_name": _at(*BODY, since="7.0"), "inlined_at": _at(*BODY, since="7.0")}
    ),
    ".loc_intermediate": Directive(_at(*BODY, since="9.4")),
    SOURCE_SECTION: Directive(_at("module", since="9.4")),
    ".branchtargets": Directive(_at(*BODY, since="5.1")),
    ".calltargets": Directive(_at(*BODY, since="2.1")),
    ".callprototype": Directive(
        _at(*BODY, since="2.1"),
        words={
            ".noreturn": _at(*BODY, since="6.4"),
            ".abi_preserve": _at(*BODY, since="9.0", sm="80+"),
            ".abi_preserve_control": _at(*BODY, since="9.0", sm="80+"),
        },
    ),
    ".ptr": Directive(_at("entry param", since="2.2")),
    ".target": Directive(
        _at("header", since="1.0"),
        words={
            "texmode_unified": _at("header", since="1.4"),
            "texmode_independent": _at("header", since="2.0"),
            "debug": _at("header", since="1.0"),
        },
    ),
    ".address_size": Directive(_at("header", since="2.3"), (1, 1)),
}

_CHOICES: dict[str, tuple[str, ...]] = {
    ".ptr": (".global", ".shared", ".const", ".local"),
    ".attribute": (".managed", ".unified"),
    ".target": ("texmode_unified", "texmode_independent", "debug"),
    ".address_size": ("32", "64"),
}
"""The words a directive may have, where the list is closed."""

# ---------------------------------------------------------------------------------------------- declarations

DECLARATIONS: dict[str, Places] = {
    ".reg": _at(*BODY, "func param", "func return"),
    ".const": _at("module", *BODY),
    ".global": _at("module", *BODY),
    ".shared": _at("module", *BODY),
    ".local": _at(*BODY),
    ".param": {**_at("entry param"), **_at(*BODY, "func param", "func return", since="2.0")},
}
"""State space -> where variables of it are declared."""
OPAQUE = {".texref": need("1.5"), ".samplerref": need("1.5"), ".surfref": need("1.5")}
TYPE_NEEDS = {".b128": need("8.3", "70+"), ".f16x2": need("4.2", "53+")}
UNSIZED_PARAMETER = need("6.0")
WORDS = tuple(dict.fromkeys([
    ".version", ".entry", ".func", ".align", ".const", ".global", ".local", ".param", ".reg", ".shared",
    *PERFORMANCE, *LINKING, *OTHERS, *OPAQUE,
]))  # fmt: skip
"""Every directive, for editors and highlighting."""
"""A last parameter whose size is open: `.param .b8 rest[]`."""
ALIGNED = ("global", "shared", "const", "local", "reg", "entry param", "func param")


def is_directive(word: str) -> bool:
    """Whether a word with a dot is a directive, a state space or a word of declarations."""
    known = word in DECLARATIONS or word in PERFORMANCE or word in LINKING or word in OTHERS or word in OPAQUE
    return known or word in (".align", ".func", ".entry", ".v2", ".v4")


def judge_directive(name: str, arguments: Sequence[str], place: str, version: Version, target: str) -> Problem | None:
    """Why a directive (`.maxntid`, `.reg`, `.pragma`, `.weak`, ...) is not legal in a place, or None."""
    if place not in PLACES:
        raise ValueError(f"{place!r} is not a place of a directive: {', '.join(PLACES)}")
    if name in DECLARATIONS:
        return _declaration(name, arguments, place, version, target)
    if name == ".align":
        return _alignment(arguments, place, version, target)
    directive = PERFORMANCE.get(name) or LINKING.get(name) or OTHERS.get(name)
    if directive is None:
        return Problem(f"there is no directive {name}", hint=REMOVED.get(name))
    return (
        _standing(name, directive.places, place, version, target)
        or _numbers(name, directive, arguments)
        or _words(name, directive, arguments, place, version, target)
    )


_FREQUENCY = re.compile(r"frequency\s*\+?(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9]\d*)").fullmatch


def judge_together(names: Sequence[str]) -> Problem | None:
    """Why the performance directives of one function do not go together, or None. Writing one twice is fine."""
    for first, second in EXCLUSIVE:
        if first in names and second in names:
            return Problem(f"{first} and {second} exclude each other")
    for name, others in REQUIRED.items():
        lacking = [other for other in others if other not in names]
        if name in names and lacking:
            return Problem(f"{name} needs {' and '.join(lacking)} too")
    return None


def _standing(name: str, places: Places, place: str, version: Version, target: str) -> Problem | None:
    found = places.get(place)
    if found is None:
        return Problem(f"{name} may not stand in {PLACES[place]}", hint=f"it goes in {_listed(places)}")
    return None if found.met(version, target) else Problem(found.why_not(version, target, name))


def _numbers(name: str, directive: Directive, arguments: Sequence[str]) -> Problem | None:
    least, most = directive.numbers
    if most == 0 and name in PERFORMANCE and arguments:
        return Problem(f"{name} takes no number")
    if most == 0:
        return None
    if not least <= len(arguments) <= most:
        wanted = "one number" if most == 1 else f"{least} to {most} numbers" if most < 1 << 32 else "one or more"
        return Problem(f"{name} takes {wanted}, not {len(arguments)}")
    for text in arguments:
        if name == ".language" and text[:1] == '"':
            if not text[1:-1] or text[1:-1].lower() not in LANGUAGES:
                known = ", ".join(f'"{n}"' for n in LANGUAGES if n)
                return Problem(f"{name} knows no language {text}", hint=f"known: {known}")
            continue
        value = _integer(text)
        if value is None or not directive.lowest <= value <= directive.highest:
            upto = (
                f"at least {directive.lowest}"
                if directive.highest >> 31
                else f"{directive.lowest} to {directive.highest}"
            )
            return Problem(f"{name} takes a whole number of {upto}, not {text}")
    return None


def _words(
    name: str, directive: Directive, arguments: Sequence[str], place: str, version: Version, target: str
) -> Problem | None:
    choices = _CHOICES.get(name)
    for word in arguments:
        if choices is not None and word not in choices:
            return Problem(f"{name} has no argument {word}", hint=f"legal: {' '.join(choices)}")
        key = word if name != ".pragma" else next((k for k in directive.words if word.startswith(k)), "")
        places = directive.words.get(key)
        if places is not None and (problem := _standing(f"{name} {word}", places, place, version, target)):
            return problem
        if key == "frequency" and not _FREQUENCY(word):
            return Problem(f"{name} {word}: a frequency is a whole number", hint='write "frequency 100"')
    if name == ".target" and {"texmode_unified", "texmode_independent"} <= set(arguments):
        return Problem("texmode_unified and texmode_independent exclude each other")
    return None


def _declaration(name: str, words: Sequence[str], place: str, version: Version, target: str) -> Problem | None:
    """A variable of state space `name` whose type is `words`: `.b32`, `.v4 .f32`, `.texref`."""
    problem = _standing(name, DECLARATIONS[name], place, version, target)
    scalar = words[-1] if words else ""
    if scalar in OPAQUE:
        if (name, place) not in ((".global", "module"), (".param", "entry param")):
            return Problem(f"{scalar} is for .global variables at module scope and .entry parameters")
        found = OPAQUE[scalar]
        return None if found.met(version, target) else Problem(found.why_not(version, target, scalar))
    if problem is not None:
        return problem
    known = SCALAR_TYPES.get(scalar[1:])
    declarable = REGISTER_CLASSES if name == ".reg" else ("b1024", *REGISTER_CLASSES)
    if known is None or known.name not in declarable:
        return Problem(f"no variable has the type {scalar}", hint=f"types: {' '.join('.' + c for c in declarable)}")
    if scalar == ".pred" and name != ".reg":
        return Problem("only a register can be a predicate", hint="use .reg .pred")
    if len(words) > 2:
        return Problem(f"a variable has one type, not {' '.join(words[1:])}")
    if len(words) > 1:
        vector = words[0]
        if vector not in (".v2", ".v4") or name == ".param" or known.bits * int(vector[2:]) > 128:
            return Problem(f"{name} has no {vector} of {scalar}", hint=".v2 and .v4, up to 128 bits, not in .param")
    found = TYPE_NEEDS.get(scalar, ANYWHERE)
    return None if found.met(version, target) else Problem(found.why_not(version, target, f"{name} {scalar}"))


def _alignment(arguments: Sequence[str], place: str, version: Version, target: str) -> Problem | None:
    if place not in ALIGNED:
        return Problem(f".align may not stand in {PLACES[place]}", hint=f"it goes in {_listed(ALIGNED)}")
    value = _integer(arguments[0]) if len(arguments) == 1 else None
    if value is None or value < 1 or value >> 32 or value & (value - 1):
        return Problem(f".align takes a power of two, not {' '.join(arguments) or 'nothing'}")
    if place == "func param" and value > 128:
        return Problem(f".align of a .func parameter is at most 128, not {value}")
    found = need("2.0") if place == "func param" else ANYWHERE
    return None if found.met(version, target) else Problem(found.why_not(version, target, ".align here"))


def _integer(text: str) -> int | None:
    if not re.fullmatch(r"\w+", text):
        return None
    try:
        value = evaluate(text)
    except (ValueError, OverflowError):
        return None
    return value if isinstance(value, int) else None


def _listed(places: Mapping[str, Need] | Sequence[str]) -> str:
    names = [PLACES[place] for place in places]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
