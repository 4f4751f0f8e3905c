"""The names of a module in the order of its text: redeclarations, aliases, and the rules of each declaration.

PTX ISA 4.4 (identifiers), 5 (variables), 7.1 (functions), 11.6 (linking).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..dialects.ptx.directive_facts import SOURCE_SECTION, judge_directive
from ..dialects.ptx.structure import MOST_OF_A_RANGE, DeclarationAttr
from ..dialects.ptx.target import Version
from .declarations import closing, declaration_faults, function_faults, prototype_faults
from .entities import Entity, Fault, Signature, call_table, formals, named, prototype_difference, signature_of
from .sections import section_faults
from .source_lines import SourceLines
from .symbols import Names

_NAME = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+").fullmatch
_ZERO = re.compile(r"0[xXbB]?0*U?").fullmatch
_LINKING = (".visible", ".extern", ".weak", ".common")


class ModuleRules:
    """Feed it the module's declarations in order; each method yields the broken rules. `known` has what is declared so
    far.
    """

    def __init__(self, version: Version, target: str, options: Sequence[str]):
        self.version, self.target, self.options = version, target, options
        self.known: dict[str, Entity] = {}
        self._aliases: set[str] = set()
        self._ranges: set[str] = set()
        self._section_labels: set[str] = set()
        self.lines = SourceLines(version, target)
        self._noreturn: dict[str, bool] = {}

    def variable(self, declaration: DeclarationAttr) -> Iterator[Fault]:
        """A module-level variable declaration."""
        yield from declaration_faults(declaration, "module", self.version, self.target, self.options, self.known)
        linking = next((w for w in declaration.head if w in _LINKING), "")
        for index, formal in enumerate(formals(declaration)):
            tail = declaration.items[index][1]
            entity = Entity(
                formal.name, "variable", declaration.space, formal, None, call_table(formal, tail), linking,
                linking != ".extern", tail[:1] == ("<",),
            )  # fmt: skip
            if tail[:1] == ("<",):
                if formal.name in self._ranges:
                    yield Fault(f"the range {formal.name}<> is declared twice", word=formal.name)
                    continue
                self._ranges.add(formal.name)
                if formal.name[-1].isdecimal():
                    continue  # legal, but ptxas reads no n10 into n1<12>
                for number in range(min(declaration.count(index) or 0, MOST_OF_A_RANGE)):
                    element = f"{formal.name}{number}"
                    if number and element in self.known:  # ptxas overlooks number 0
                        yield Fault(f"{element} is declared twice: it is in {formal.name}<> too", word=formal.name)
                    self.known[element] = entity
                continue
            if (ranged := named(self.known, formal.name)) is not None and ranged.ranged:
                yield Fault(f"{formal.name} is declared twice: {formal.name} is of a range already", word=formal.name)
                continue
            earlier = self.known.get(formal.name)
            if earlier is not None:
                fault = _variable_again(earlier, entity)
                if fault is not None:
                    yield fault
                    continue
                if earlier.defined:
                    continue
                entity.place = earlier.place
            self.known[formal.name] = entity

    def function(
        self, name: str, head: Sequence[str], directives: Sequence[str], returns: Sequence[DeclarationAttr] | None,
        params: Sequence[DeclarationAttr] | None, defined: bool,
    ) -> Iterator[Fault]:  # fmt: skip
        """A function's header; call it before its body is walked."""
        yield from function_faults(
            name, head, directives, returns, params, defined, self.version, self.target, self.options
        )
        linking = next((w for w in head if w in _LINKING), "")
        kind = "entry" if ".entry" in head else "function"
        signature = signature_of(returns or (), params or ())
        entity = Entity(name, kind, signature=signature, linking=linking, defined=defined)
        noreturn = ".noreturn" in directives or ".noreturn" in head
        earlier = self.known.get(name)
        if earlier is not None:
            fault = _function_again(earlier, entity)
            if fault is None and self._noreturn.get(name, noreturn) != noreturn:
                fault = Fault(f"{name} was declared {'without' if noreturn else 'with'} .noreturn", word=name)
            if fault is not None:
                yield fault
                if earlier.kind == kind and not defined:
                    return
            elif earlier.linking and not linking:
                entity.linking = earlier.linking
        self._noreturn[name] = noreturn
        self.known[name] = entity

    def body(
        self, params: Sequence[DeclarationAttr], returns: Sequence[DeclarationAttr], entry: bool,
        labels: dict[int, dict[str, int]], directives: Sequence[str],
    ) -> Names:  # fmt: skip
        """The names in a function's body; its parameters are declared."""
        behind = zip(directives, (*directives[1:], ""), strict=False)
        said = frozenset(w for w, number in behind if not _ZERO(number))  # 0 asks for nothing
        names = Names(self.known, labels, said if entry else None)
        for declarations, place in ((returns, "output"), (params, "entry" if entry else "input")):
            for declaration in declarations:
                for _ in names.declare(declaration, "reg" if declaration.space == "reg" else place):
                    pass  # a parameter declared twice is reported with the header
        return names

    def body_declaration(self, names: Names, declaration: DeclarationAttr, entry: bool) -> Iterator[Fault]:
        """A variable or register declaration in a body."""
        place = "entry body" if entry else "func body"
        faults = list(declaration_faults(declaration, place, self.version, self.target, self.options, names.visible))
        space = declaration.space
        yield from faults
        yield from names.declare(declaration, "argument" if space == "param" else space)

    def label_list(self, names: Names, label: str, words: Sequence[str]) -> Iterator[Fault]:
        """`.branchtargets`, `.calltargets` or `.callprototype` after a label."""
        signature = None
        if words[0] == ".callprototype":
            try:
                signature = prototype_signature(words[1:])
            except (ValueError, OverflowError) as error:
                yield Fault(f"bad size in a .callprototype: {error}", word=words[0])
                return
            yield from prototype_faults(words, signature, self.version, self.target)
        else:
            problem = judge_directive(words[0], (), "func body", self.version, self.target)
            if problem is not None:
                yield Fault(problem.message, problem.hint, word=words[0])
        yield from names.table(label, words[0], words[1:], signature)

    def body_function(self, names: Names, words: Sequence[str]) -> Iterator[Fault]:
        """`.extern .func f (.param .b32 a);` in a body: it declares the function for the whole module."""
        head, returns, name, params, directives = function_parts(words[:-1])
        if head[-1:] != [".func"] or not _NAME(name):
            yield Fault("a declaration of a function in a body is .func name (parameters);", word=words[0])
            return
        entity = names.visible.get(name)
        if entity is not None and entity.kind not in ("function", "entry"):
            yield Fault(f"{name} is declared twice: {entity.what} already", word=name)
            return
        yield from self.function(name, head, directives, returns, params, False)
        names.visible[name] = self.known[name]

    def directive(self, words: Sequence[str], place: str) -> Iterator[Fault]:
        """`.pragma`, `.alias`, `.section`, ... in a place such as `module` or `entry body`."""
        name = words[0]
        if name in (".alias", ".pragma", ".section", ".file", ".loc", ".loc_intermediate", SOURCE_SECTION):
            arguments = [w.strip('"') for w in words[1:-1:2]] if name == ".pragma" else ()
            problem = judge_directive(name, arguments, place, self.version, self.target)
            if problem is not None:
                yield Fault(problem.message, problem.hint, word=name)
                return
        if name == ".pragma" and not _strings(words[1:-1]):
            yield Fault(".pragma takes strings, with commas between them", '.pragma "nounroll";', word=name)
        if name == ".section":
            yield from section_faults(words, self._section_labels, self.version)
        if name == ".file":
            yield from self.lines.file(words)
        if name == ".loc":
            yield from self.lines.loc(words)
        if name == ".loc_intermediate":
            yield from self.lines.loc_intermediate(words)
        if name == SOURCE_SECTION:
            yield from self.lines.source_section(words)
        if name == ".alias":
            yield from self._alias(words)

    def _alias(self, words: Sequence[str]) -> Iterator[Fault]:
        if len(words) != 5 or words[2] != "," or words[4] != ";" or not (_NAME(words[1]) and _NAME(words[3])):
            yield Fault(".alias takes two names with a comma between them", ".alias name, function;", word=".alias")
            return
        alias, aliased = words[1], words[3]
        for name in (alias, aliased):
            entity = self.known.get(name)
            if entity is None:
                yield Fault(f"{name} is not declared", "declare it before the .alias", word=name)
                return
            if entity.kind != "function":
                yield Fault(f".alias is for functions (.func), and {entity.what}", word=name)
                return
        first, second = self.known[alias], self.known[aliased]
        assert first.signature is not None and second.signature is not None
        difference = prototype_difference(second.signature, first.signature)
        if first.defined:
            yield Fault(f"{alias} has a body and cannot be an alias", word=alias)
        elif alias == aliased:
            yield Fault(f"{alias} cannot be an alias of itself", word=alias)
        elif alias in self._aliases:
            yield Fault(f"{alias} is an alias already", word=alias)
        elif second.linking in (".weak", ".extern"):
            yield Fault(f"{aliased} is {second.linking} and cannot have an alias", word=aliased)
        elif difference is not None:
            yield Fault(f"{alias} and {aliased} have different signatures: {difference}", word=alias)
        elif self._noreturn.get(alias) != self._noreturn.get(aliased):
            yield Fault(f"of {alias} and {aliased} one is .noreturn and one is not", word=alias)
        self._aliases.add(alias)


def _strings(words: Sequence[str]) -> bool:
    """Whether the words are strings with commas between them."""
    return len(words) % 2 == 1 and all((w == ",") if i % 2 else (w[0] == '"') for i, w in enumerate(words))


def _variable_again(earlier: Entity, later: Entity) -> Fault | None:
    name = later.name
    if earlier.kind != "variable":
        return Fault(f"{name} is declared twice: {earlier.what} already", word=name)
    a, b = earlier.formal, later.formal
    assert a is not None and b is not None
    sized = a.extents != b.extents and not (a.incomplete or b.incomplete)
    moved = earlier.place != later.place and earlier.defined and later.defined  # the first declaration's space counts
    if (a.type, a.vector) != (b.type, b.vector) or moved or sized:
        return Fault(f"{name} was declared as {a} and is declared as {b}", word=name)
    if earlier.defined and later.defined:
        return Fault(f"{name} is defined twice", "one of them may be .extern", word=name)
    if later.defined and not later.linking:
        return Fault(
            f"{name} was declared .extern, and is defined without .visible", f"write .visible ... {name}", word=name
        )
    return None


def _function_again(earlier: Entity, later: Entity) -> Fault | None:
    name = later.name
    if earlier.kind != later.kind:
        return Fault(f"{name} is declared twice: {earlier.what} already", word=name)
    if earlier.defined:
        again = "defined twice" if later.defined else "declared after its definition"
        return Fault(f"{name} is {again}", word=name)
    if earlier.linking == ".extern" and later.defined:
        return Fault(f"{name} was declared .extern and cannot be defined here", "declare it .visible", word=name)
    if later.linking != earlier.linking and (later.linking or earlier.linking == ".extern"):
        was, now = (e.linking or "without linking" for e in (earlier, later))
        return Fault(f"{name} was declared {was} and is declared {now}", word=name)
    assert earlier.signature is not None and later.signature is not None
    difference = prototype_difference(earlier.signature, later.signature)
    if difference is not None:
        return Fault(f"{name} differs from its declaration: {difference}", word=name)
    return None


def prototype_signature(words: Sequence[str]) -> Signature:
    """The signature in `( .reg .b32 _ ) _ ( .param .b32 _ , ... )`."""
    lists: list[list[DeclarationAttr]] = []
    order: list[str] = []
    at = 0
    while at < len(words):
        if words[at] == "(":
            end = at
            depth = 0
            while end < len(words):
                depth += (words[end] == "(") - (words[end] == ")")
                if depth == 0:
                    break
                end += 1
            lists.append(_declarations(words[at + 1 : end]))
            order.append("(")
            at = end + 1
            continue
        if not words[at].startswith("."):
            order.append("_")
        at += 1
    if order[:1] == ["("]:
        return signature_of(lists[0], lists[1] if len(lists) > 1 else ())
    return signature_of((), lists[0] if lists else ())


def function_parts(
    words: Sequence[str],
) -> tuple[list[str], list[DeclarationAttr] | None, str, list[DeclarationAttr] | None, list[str]]:
    """The parts of a function's header without its end: head, results, name, parameters, directives."""
    at = next((i + 1 for i, w in enumerate(words) if w == ".func"), 0)
    head = list(words[:at])
    while at < len(words) and words[at] == ".attribute":
        end = closing(words, at + 1)
        head += words[at:end]
        at = end
    returns = params = None
    if tuple(words[at : at + 1]) == ("(",):
        end = closing(words, at)
        returns, at = _declarations(words[at + 1 : end - 1]), end
    name = words[at] if at < len(words) else ""
    at += 1
    if tuple(words[at : at + 1]) == ("(",):
        end = closing(words, at)
        params, at = _declarations(words[at + 1 : end - 1]), end
    return head, returns, name, params, list(words[at:])


def _declarations(words: Sequence[str]) -> list[DeclarationAttr]:
    found: list[DeclarationAttr] = []
    part: list[str] = []
    for word in [*words, ","]:
        if word != ",":
            part.append(word)
            continue
        at = next((i for i, w in enumerate(part) if not w.startswith(".") and not w[0].isdigit()), len(part))
        if at < len(part):
            found.append(DeclarationAttr((tuple(part[:at]), ((part[at], tuple(part[at + 1 :])),))))
        part = []
    return found


def labels_of(events: Sequence[tuple[str, str]]) -> dict[int, dict[str, int]]:
    """How often each label stands in each scope, from (`open` | `close` | `label`, ordinal or name) in order."""
    found: dict[int, dict[str, int]] = {0: {}}
    path = [0]
    for what, name in events:
        if what == "label":
            labels = found[path[-1]]
            labels[name] = labels.get(name, 0) + 1
        elif what == "open":
            path.append(int(name))
            found.setdefault(path[-1], {})
        elif len(path) > 1:
            path.pop()
    return found
