"""Rules of declarations: variables, parameters, functions and the head of a module (PTX ISA 5, 7.1, 11).

Where each directive may stand is in `dialects.ptx.directive_facts`; here is what several parts of one declaration must
agree on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from ..dialects.ptx.directive_facts import (
    FUNCTION_ORDER,
    LINKING,
    PERFORMANCE,
    PLACES,
    UNSIZED_PARAMETER,
    judge_directive,
    judge_together,
)
from ..dialects.ptx.special_registers import is_special_register
from ..dialects.ptx.structure import DeclarationAttr, extents
from ..dialects.ptx.target import NEWEST_PTX, Version, target_in, version_text
from ..dialects.ptx.types import ARRAY_TYPES, SCALAR_TYPES
from .entities import OPAQUE, Entity, Fault, Formal, Signature, formals
from .initial_values import initial_faults
from .opaque import opaque_faults

SPACES = (".global", ".const", ".shared", ".local", ".param", ".reg")
_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+").fullmatch
_PROTOTYPE_PARAMETER = re.compile(
    r"(?:\.align \S+ )*\.(?:reg|param)(?: \.align \S+)*(?: \.v([248]))? \.(\w+)"
    r"(?: \.ptr(?: \.(?:const|global|shared|local))?)?(?: \.align \S+)?"
).fullmatch
_RELEASES = {1: 5, 2: 3, 3: 2, 4: 3, 5: 1, 6: 5, 7: 8, 8: 8, 9: 5}
"""The last minor version of each major PTX version."""


def header_faults(version: Version) -> Iterator[Fault]:
    """A PTX version that no ptxas knows."""
    last = _RELEASES.get(version[0])
    if last is None or version[1] > last:
        newest = version_text(NEWEST_PTX)
        hint = f"PTX {version[0]} ends with {version[0]}.{last}" if last is not None else f"the newest is {newest}"
        yield Fault(f"there is no PTX version {version_text(version)}", hint, word=".version")


# -------------------------------------------------------------------------------------------------------- variables


@lru_cache(maxsize=4096)
def _head_fault(  # noqa: C901  one case for each word of a declaration, in the order in which ptxas reads them
    head: tuple[str, ...], place: str, extra: str, array: bool, ranges: bool, version: Version, target: str
) -> Fault | None:
    """What is wrong with the words before the names: linking, space, alignment, attributes, type. `array`: they are
    arrays, of which ptxas takes types that scalars may not have. `ranges`: they are ranges, which it lets be .managed
    in any space.
    """
    at = 0
    linking = ""
    if head and head[0] in LINKING:
        linking, at = head[0], 1
    space = ""
    type_words: list[str] = []
    in_module = place == "module"
    pointer = False
    while at < len(head):
        word = head[at]
        at += 1
        if word == ".align" or word == ".attribute":
            end = at + 1
            if word == ".attribute" and at < len(head) and head[at] == "(":
                end = closing(head, at)
            arguments = [w for w in head[at:end] if w not in ("(", ")", ",")]
            if word == ".attribute":
                if type_words or not _ATTRIBUTES(" ".join(head[at:end])):
                    return Fault(_ATTRIBUTE_SYNTAX, "before the type of a variable", word=word)
                where = (
                    (next((w for w in head if w in SPACES), ".global"))[1:]
                    if place in ("module", "entry body", "func body")
                    else place
                )
                arguments = [w for w in arguments if w.startswith(".")]
                if ranges and ".unified" not in arguments:
                    where = "global"
            else:
                where = (
                    place
                    if place in ("entry param", "func param")
                    else "local"
                    if space == ".param"
                    else (space or ".global")[1:]
                )
                if space == ".param" and place in ("entry body", "func body", "func return"):
                    where = "func param"
            at = end
            if where not in PLACES:
                return Fault(f"{word} may not stand in a declaration of {space}", word=word)
            problem = judge_directive(word, arguments, where, version, target)
            if problem is not None:
                return Fault(problem.message, problem.hint, word=word)
        elif word in SPACES:
            if space:
                return Fault(f"two state spaces: {space} and {word}", word=word)
            space = word
        elif word == ".ptr":
            pointer = True
            arguments = head[at : at + 1] if at < len(head) and head[at] != ".align" else ()
            at += len(arguments)
            if (problem := judge_directive(".ptr", arguments, place, version, target)) is not None:
                return Fault(problem.message, problem.hint, word=word)
        elif word in LINKING:
            return Fault(
                f"{word} must stand first, alone" if not linking else f"{linking} and {word} exclude each other",
                word=word,
            )
        elif pointer:
            return Fault(f"{word} may not follow .ptr", word=word)
        else:
            type_words.append(word)
            if place == "entry param" and at + 2 == len(head) and head[at] == ".align":
                continue  # the alignment of a kernel's parameter may follow its type
            if at < len(head) and head[at] in (".align", *SPACES):
                return Fault(f"{head[at]} must stand before the type", word=head[at])
    if not space:
        return Fault("the declaration has no state space", f"one of {' '.join(SPACES)}")
    if space == ".param" and place == "entry param" and type_words == [".f16x2"] and not array:
        return Fault("a parameter cannot be .f16x2", "use .b32", word=".f16x2")
    judged = type_words
    if array and space == ".param" and _fits_a_register(type_words):
        judged = type_words[1:]
    elif array and type_words == [".b128"]:
        judged = [".b64"]
    elif array and len(type_words) == 1 and type_words[0][1:] in ARRAY_TYPES and space != ".reg":
        judged = [".b8"]
    problem = judge_directive(space, judged, place, version, target)
    if problem is not None:
        return Fault(problem.message, problem.hint, word=space)
    if type_words == [".b1024"]:
        return Fault("no variable has the type .b1024", "use .align 128 .b8 name[128]", word=".b1024")
    if type_words and type_words[-1] == ".pred" and len(type_words) > 1:
        return Fault("predicates cannot be the elements of a vector", word=".pred")
    if len(type_words) > 1 and type_words[-1][1:] in OPAQUE:
        return Fault(f"{type_words[-1]} cannot be the element type of a vector", word=type_words[-1])
    if linking == ".common" and type_words[-1][1:] in OPAQUE:
        return Fault(f"a {type_words[-1]} cannot be .common", word=linking)
    if linking:
        if not in_module:
            return Fault(f"{linking} is for module scope", word=linking)
        where = f"{space[1:]}{extra}"
        problem = judge_directive(linking, (), where, version, target)
        if problem is not None:
            return Fault(problem.message, problem.hint, word=linking)
    return None


def _fits_a_register(words: Sequence[str]) -> bool:
    """Whether type words are a vector of at most 128 bits."""
    scalar = SCALAR_TYPES.get(words[-1][1:]) if len(words) == 2 and words[0] in (".v2", ".v4") else None
    return scalar is not None and scalar.bits * int(words[0][2:]) <= 128


_ATTRIBUTE = r"(?:\.managed|\.unified \( \w+ , \w+ \))"
_ATTRIBUTES = re.compile(rf"\( {_ATTRIBUTE}(?: , {_ATTRIBUTE})* \)").fullmatch
_ATTRIBUTE_SYNTAX = "an .attribute is .attribute(.managed) or .attribute(.unified(high, low))"


def closing(words: Sequence[str], at: int) -> int:
    depth = 0
    for i in range(at, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            return i + 1
    return len(words)


def declaration_faults(
    declaration: DeclarationAttr, place: str, version: Version, target: str, options: Sequence[str],
    known: Mapping[str, Entity],
) -> Iterable[Fault]:  # fmt: skip
    """A variable or register declaration in `module`, `entry body` or `func body`, or a parameter."""
    if any("=" in tail for _, tail in declaration.items):
        return _declaration_faults(declaration, place, version, target, options, known)
    return _faults_without_values(declaration, place, version, target, tuple(options))


@lru_cache(maxsize=8192)
def _faults_without_values(
    declaration: DeclarationAttr, place: str, version: Version, target: str, options: tuple[str, ...]
) -> tuple[Fault, ...]:
    """Of a declaration that names nothing else."""
    return tuple(_declaration_faults(declaration, place, version, target, options, {}))


def _declaration_faults(
    declaration: DeclarationAttr, place: str, version: Version, target: str, options: Sequence[str],
    known: Mapping[str, Entity],
) -> Iterator[Fault]:  # fmt: skip
    head = declaration.head
    tails = [tail for _, tail in declaration.items]
    extra = " init" if any("=" in t for t in tails) else ""
    space = declaration.space
    incomplete = any(_incomplete(t) for t in tails)
    if incomplete and not extra:
        extra = " incomplete"
    array = all(tail[:1] == ("[",) for tail in tails)
    ranges = all(tail[:1] == ("<",) for tail in tails)
    fault = _head_fault(head, place, extra, array, ranges, version, target)
    if fault is not None:
        yield fault
        return
    if declaration.type == "samplerref" and "texmode_independent" not in options:
        yield Fault(".samplerref needs .target texmode_independent", word=".samplerref")
    external = ".extern" in head
    own: set[str] = set()
    for name, tail in declaration.items:
        own.add(name)
        yield from _item_faults(name, tail, declaration, space, place, external, version, known, own)


def _sizes(tail: Sequence[str]) -> Sequence[str]:
    """The leading `[4][8]` or `<10>` of what follows a name."""
    end = 0
    while end < len(tail) and tail[end] in ("[", "<"):
        close = "]" if tail[end] == "[" else ">"
        while end < len(tail) and tail[end] != close:
            end += 1
        end += 1
    return tail[:end]


def _incomplete(tail: Sequence[str]) -> bool:
    return any(a == "[" and b == "]" for a, b in pairwise(tail)) or tuple(tail[:3]) == (
        "[",
        "0",
        "]",
    )


def special_fault(name: str) -> Fault | None:
    """A name at module scope that a special register has."""
    if name[0] != "%" or not is_special_register(name):
        return None
    return Fault(f"{name} is a special register and cannot be declared at module scope", word=name)


def _item_faults(  # noqa: C901  one rule after the other
    name: str, tail: Sequence[str], declaration: DeclarationAttr, space: str, place: str, external: bool,
    version: Version, known: Mapping[str, Entity], own: set[str],
) -> Iterator[Fault]:  # fmt: skip
    array = tail[:1] == ("[",)
    if not _IDENTIFIER(name) and not (name == "_" and place.endswith(("param", "return"))):
        yield Fault(
            f"{name!r} is not a name", "letters, digits, _ and $; more than one where it starts with _ or $", word=name
        )
    if name == "_" and place in ("func param", "func return"):
        yield Fault("a parameter needs a name", word="_")
    if place == "module" and (fault := special_fault(name)) is not None:
        yield fault
    if name == "WARP_SZ":
        yield Fault("WARP_SZ is a constant and cannot be declared", word=name)
    if array and space == "reg":
        yield Fault("a register cannot be an array", f"a range of registers is {name}<n>", word=name)
        return
    if "<" in tail and place.endswith(("param", "return")):
        yield Fault("a parameter cannot be a range", word=name)
    try:
        sizes = extents(tail) if array else []
    except ValueError as error:  # a `;` between the brackets of a parameter
        yield Fault(str(error), word=name)
        return
    if any(e is None for e in sizes[1:]):
        yield Fault("only the first size of an array may be left out", word=name)
    behind = tail[len(_sizes(tail)) if array else 3 * (tail[:1] == ("<",)) :]
    if behind and (behind[0] != "=" or tail[:1] == ("<",)):
        yield Fault(f"expected ',' or ';' after {name}, not {behind[0]!r}", word=name)
        return
    empty = tuple(tail[-3:]) == ("=", "{", "}")
    if "=" not in tail or empty:
        if (
            array
            and (None in sizes or 0 in sizes)
            and not external
            and place not in ("func param", "entry param", "func return")
        ):
            yield Fault(
                f"{name} needs a size",
                "only .extern arrays, and arrays with an initialiser, may leave it out",
                word=name,
            )
            return
        if not empty:
            return
    if place.endswith(("param", "return")):
        yield Fault("a parameter cannot have an initial value", word="=")
    elif space not in ("global", "const"):
        yield Fault(
            f"a .{space} variable cannot have an initial value", "only .global and .const variables can", word=name
        )
    elif external:
        yield Fault(f"{name} is .extern and cannot have an initial value", word=name)
    elif _is_packed(declaration) and set(tail[tail.index("=") + 1 :]) <= set("{},"):
        return  # ptxas looks at the type of values, and there are none
    elif declaration.type in ARRAY_TYPES:
        yield Fault(f"a .{declaration.type} array cannot have initial values", "declare it .b8 or .b32", word=name)
    elif declaration.type in ("f16", "f16x2"):
        yield Fault(
            f"a .{declaration.type} variable cannot have an initial value", "declare it .b16 or .b32", word=name
        )
    else:
        words = tail[list(tail).index("=") + 1 :]
        if declaration.type in OPAQUE:
            yield from opaque_faults(name, declaration.type, array, words)
        else:
            yield from initial_faults(name, words, declaration, sizes, version, known, own)


# -------------------------------------------------------------------------------------------------------- functions


def _is_packed(declaration: DeclarationAttr) -> bool:
    """Whether variables of this declaration have a packed type, and are not vectors."""
    return declaration.vector == 1 and (declaration.type == "f16x2" or declaration.type in ARRAY_TYPES)


def function_faults(  # noqa: C901  one rule after the other
    name: str, head: Sequence[str], directives: Sequence[str], returns: Sequence[DeclarationAttr] | None,
    params: Sequence[DeclarationAttr] | None, defined: bool, version: Version, target: str, options: Sequence[str],
) -> Iterator[Fault]:  # fmt: skip
    """The header of a function: linking, parameters, results, and the directives before the body."""
    entry = ".entry" in head
    if (fault := special_fault(name)) is not None:
        yield fault
    place = ("entry" if entry else "func") + ("" if defined else " decl")
    keyword = ".entry" if entry else ".func"
    for i, word in enumerate(head):
        if word in LINKING:
            if i:
                yield Fault(f"{word} must stand first, alone", word=word)
            elif (problem := judge_directive(word, (), place, version, target)) is not None:
                yield Fault(problem.message, problem.hint, word=word)
        elif word == ".attribute":
            if (
                entry
                or i == 0
                or head[i - 1] != ".func"
                or not re.fullmatch(r"\( \.unified \( \w+ , \w+ \) \)", " ".join(head[i + 1 :]))
            ):
                yield Fault(".attribute(.unified(high, low)) may follow .func", word=word)
            elif (problem := judge_directive(word, (".unified",), place, version, target)) is not None:
                yield Fault(problem.message, problem.hint, word=word)
            break
        elif word != keyword:
            yield Fault(f"{word} may not stand before the name of a function", f"legal: {' '.join(LINKING)}", word=word)
    if head.count(keyword) > 1:
        yield Fault(f"{keyword} is written twice", word=keyword)
    if entry and returns is not None:
        yield Fault("a kernel returns nothing", "write results to memory", word=name)
    for declaration in returns or ():
        yield from declaration_faults(declaration, "func return", version, target, options, {})
    seen: set[str] = set()
    flat = [f for d in returns or () for f in formals(d)]
    if len(flat) > 1 and any(f.space != "reg" for f in flat):
        yield Fault("several return values must all be .reg", word=flat[0].name)
    inputs = [f for d in params or () for f in formals(d)]
    for declaration in params or ():
        yield from declaration_faults(
            declaration, "entry param" if entry else "func param", version, target, options, {}
        )
    for formal in [*flat, *inputs]:
        if formal.name in seen and formal.name != "_":
            yield Fault(f"{formal.name} is declared twice", word=formal.name)
        seen.add(formal.name)
    yield from _dimension_faults((*flat, *inputs))
    if entry and (unsized := next((f for f in inputs if f.incomplete), None)) is not None:
        yield Fault("a kernel parameter needs a size", word=unsized.name)
    elif not entry:
        yield from _unsized_faults(flat, inputs, version, target)
    if entry:
        yield from _parameter_space(name, inputs, version, target)
    yield from _directive_faults(directives, place, bool(flat), version, target)


def _dimension_faults(parameters: Iterable[Formal]) -> Iterator[Fault]:
    for formal in parameters:
        if len(formal.extents) > 1:
            yield Fault("a parameter has one dimension", "declare it as one array, .b8 name[bytes]", word=formal.name)
        elif any(32 <= (extent or 0).bit_length() < 64 and (extent or 0) >> 32 for extent in formal.extents):
            yield Fault("the size of a parameter does not fit in 32 bits", word=formal.name)


def _unsized_faults(
    returns: Sequence[Formal], inputs: Sequence[Formal], version: Version, target: str
) -> Iterator[Fault]:
    """Parameters without a size: the last input may be one."""
    for formal in (*returns, *inputs[:-1]):
        if formal.incomplete:
            yield Fault("only the last parameter may be an array without a size", word=formal.name)
    if inputs and inputs[-1].incomplete and not UNSIZED_PARAMETER.met(version, target):
        yield Fault(UNSIZED_PARAMETER.why_not(version, target, "a parameter without a size"), word=inputs[-1].name)


def _parameter_space(name: str, inputs: Sequence[Formal], version: Version, target: str) -> Iterator[Fault]:
    most = 32764 if version >= (8, 1) and target_in(target, "70+") else 4352
    offset = 0
    for formal in inputs:
        size = 8 if formal.type in OPAQUE else formal.bytes
        offset = -(-offset // formal.alignment) * formal.alignment + size
    if offset > most:
        hint = "PTX 8.1 and sm_70 raise the limit to 32764" if most == 4352 else None
        yield Fault(f"the parameters of {name} take {offset} bytes, and {most} is the limit", hint, word=name)


def _directive_faults(
    words: Sequence[str], place: str, returns: bool, version: Version, target: str
) -> Iterator[Fault]:
    groups: list[list[str]] = []
    for word in words:
        if word[0] == ".":
            groups.append([word])
        elif groups:
            groups[-1].append(word)
        else:
            yield Fault(f"{word!r} may not stand here", word=word)
            return
    for name, *rest in groups:
        if name in (".visible", ".extern", ".weak", ".common"):
            yield Fault(f"{name} stands before .entry or .func", word=name)
            continue
        pragma = name == ".pragma"
        if (rest[-1:] == [";"]) != pragma:
            yield Fault(f"{name} takes {'a' if pragma else 'no'} semicolon", word=name)
        arguments = rest[:-1] if pragma else [w for w in rest if w != ";"]
        if arguments and (len(arguments) % 2 == 0 or {*arguments[1::2]} - {","} or "," in arguments[::2]):
            yield Fault(f"the arguments of {name} have commas between them: {' '.join(arguments)}", word=name)
            continue
        values = [w.strip('"') if pragma else w for w in arguments[::2]]
        problem = judge_directive(name, values, place, version, target)
        if problem is not None:
            yield Fault(problem.message, problem.hint or _legal(name, place), word=name)
        elif name == ".noreturn" and returns:
            yield Fault(".noreturn is for functions without results", word=name)
    names = [group[0] for group in groups]
    order = [FUNCTION_ORDER[n] for n in names if n in FUNCTION_ORDER]
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if place.startswith("func") and twice is not None:
        yield Fault(f"{twice} may stand only once after a .func", word=twice)
    elif place.startswith("func") and order != sorted(order):
        yield Fault(f"the directives of a .func have an order: {' '.join(FUNCTION_ORDER)}", word=names[0])
    problem = judge_together(names)
    if problem is not None:
        yield Fault(problem.message, problem.hint, word=groups[0][0])


def _legal(name: str, place: str) -> str | None:
    if name in PERFORMANCE:
        return None
    return f"legal here: {' '.join(n for n, d in PERFORMANCE.items() if place in d.places)}"


def _without_lists(words: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The words with each `( ... )` emptied, and what stood in them."""
    outside: list[str] = []
    lists: list[list[str]] = []
    depth = 0
    for word in words:
        depth -= word == ")" and depth > 0
        if depth:
            lists[-1].append(word)
        else:
            outside.append(word)
        if word == "(":
            depth += 1
            if depth == 1:
                lists.append([])
    return outside, lists


def _parted(words: Sequence[str]) -> list[list[str]]:
    """The words between the commas."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == ",":
            parts.append([])
        else:
            parts[-1].append(word)
    return parts if words else []


def _are_parameters(words: Sequence[str]) -> bool:
    """Whether the words are parameters with commas between them, or nothing."""
    return all(map(_is_parameter, _parted(words)))


def _prototype_parameters(words: Sequence[str]) -> Iterator[Fault]:
    """The words before the names of a prototype's parameters. ptxas checks their order, and which vectors there are: not
    if the type goes with the space.
    """
    for part in _parted(words):
        at = next(i for i, word in enumerate(part) if word == "_" or _IDENTIFIER(word))
        head = part[:at]
        spaces = [word for word in head if word in (*SPACES, ".tex")]
        found = _PROTOTYPE_PARAMETER(" ".join(head))
        if found is None and len(spaces) > 1:
            yield Fault(f"two state spaces: {spaces[0]} and {spaces[1]}", word=spaces[1])
            continue
        if spaces and spaces[0] not in (".reg", ".param"):
            continue  # reported with the signature
        if found is None:
            hint = f"{spaces[0] if spaces else '.param'} .b32 {part[at]}"
            yield Fault("a parameter of a prototype has a space, and after it its type", hint, word=head[0])
            continue
        vector, kind = found.groups()
        scalar = SCALAR_TYPES.get(kind)
        if scalar is None and kind not in OPAQUE:
            yield Fault(f".{kind} is not a type", word=f".{kind}")
        elif kind == "pred" and (vector or part[at + 1 : at + 2] == ["["]):
            yield Fault("predicates cannot be the elements of a vector or an array", word=".pred")
        elif vector and scalar is None:
            yield Fault(f".{kind} cannot be the element type of a vector", word=f".{kind}")
        elif vector and scalar is not None and int(vector) * scalar.bits > 128:
            yield Fault(
                f"a vector has at most 128 bits, and .v{vector} of .{kind} has {int(vector) * scalar.bits}",
                word=f".{kind}",
            )


def _is_parameter(words: Sequence[str]) -> bool:
    """Whether the words are a space, perhaps an alignment, a type and one name, with the size of an array or without."""
    at = dotted = 0
    while at < len(words) and words[at][0] == ".":
        dotted += words[at] != ".align"
        at += 1 + (words[at] == ".align")
    size = words[at + 1 :]
    named = at < len(words) and (words[at] == "_" or _IDENTIFIER(words[at]) is not None)
    return dotted > 1 and named and (not size or size[0] + size[-1] == "[]")


def _odd_number(words: Sequence[str]) -> bool:
    """Whether a number stands where none goes: not after `.align`, not in brackets."""
    return any(w[0].isdecimal() and (i == 0 or words[i - 1] not in (".align", "[")) for i, w in enumerate(words))


def prototype_faults(words: Sequence[str], signature: Signature, version: Version, target: str) -> Iterator[Fault]:
    """`.callprototype (results) _ (parameters) directives`."""
    if len(signature.returns) > 1 and any(f.space != "reg" for f in signature.returns):
        yield Fault("several return values must all be .reg", word=".callprototype")
    yield from _dimension_faults((*signature.returns, *signature.inputs))
    yield from _unsized_faults(signature.returns, signature.inputs, version, target)
    for formal in (*signature.returns, *signature.inputs):
        if formal.space not in ("reg", "param"):
            yield Fault(f"a parameter is .reg or .param, not .{formal.space or 'nothing'}", word="." + formal.space)
    behind, lists = _without_lists(words[1:])
    wrong = any(map(_odd_number, lists)) or not all(map(_are_parameters, lists))
    if wrong or not re.fullmatch(r"(\(\))?_(\(\))?([.]\w[\w,]*)*;?", "".join(behind)):
        hint = ".callprototype (results) _ (parameters);"
        yield Fault("a .callprototype has its results, the name _ and its parameters", hint, word=".callprototype")
    else:
        for inside in lists:
            yield from _prototype_parameters(inside)
    for inside in lists:
        for i, word in enumerate(inside):
            if word == ".align" and (problem := judge_directive(word, inside[i + 1 : i + 2], "local", version, target)):
                yield Fault(problem.message, problem.hint, word=word)
    problem = judge_directive(".callprototype", (), "func body", version, target)
    if problem is not None:
        yield Fault(problem.message, problem.hint, word=".callprototype")
    elif "_" in behind:
        directives = [w for w in behind[behind.index("_") + 1 :] if w not in ("(", ")", ";")]
        yield from _directive_faults(directives, "func decl", bool(signature.returns), version, target)
