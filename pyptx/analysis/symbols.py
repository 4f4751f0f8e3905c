"""Names in a function: that each is declared before it is used, once per scope, and is what its operand needs.

`Names` walks a function's statements in order (the parser's, or the ops of the IR) and keeps the scopes. What an
instruction needs of its
symbols, `dialects.ptx.symbol_use` derives from its form. PTX ISA 4.4 (identifiers), 5.1 (state spaces), 7.1 (calls).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Sequence
from typing import Any

from ..diagnostics import suggest
from ..dialects.ptx.structure import MOST_OF_A_RANGE, DeclarationAttr
from ..dialects.ptx.symbol_use import SymbolUse
from ..dialects.ptx.syntax import Arguments, Layout, Symbol, registers
from .entities import (
    KIND_NAMES,
    OPAQUE,
    Entity,
    Fault,
    Formal,
    Signature,
    call_problem,
    call_table,
    formals,
    named,
)

_ADDRESSES = frozenset({"variable", "function", "entry"})
_REFERENCES = frozenset({"texref", "surfref", "samplerref"})


class _Visible(ChainMap[str, Entity]):
    """A function's names before the module's, which are not copied: there may be as many as there are functions."""

    def __init__(self, *maps: dict[str, Entity]):
        super().__init__(*maps)
        self.hidden: set[str] = set()
        """The names of the module that labels hide."""

    def get(self, key: str, default: Any = None) -> Any:
        found = self.maps[0].get(key)
        if found is not None:
            return found
        return default if key in self.hidden else self.maps[1].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.maps[0] or (key in self.maps[1] and key not in self.hidden)


class Names:
    """The names visible at a point of a function. Feed it the statements in order; each method yields the broken rules.

    `labels` has the labels of each scope (0: the body itself), which may be used before they stand.
    """

    def __init__(
        self, module: dict[str, Entity], labels: dict[int, dict[str, int]], directives: frozenset[str] | None = None
    ):
        """`directives` are the names of a kernel's directives; None in a function, whose callers may have any."""
        self.module = module
        self.directives = directives
        self.labels = labels
        self.path: list[int] = [0]
        self.visible = _Visible({}, module)
        self._own: list[dict[str, Entity | None]] = [{}]  # per open scope: its names, and what each of them hides
        self._ranges: list[dict[str, int]] = [{}]
        self._passed: set[str] = set()
        """The labels so far: ptxas knows what they are, and takes others plus an offset for a number."""
        self._hidden: list[set[str]] = [set()]
        """The names of the module that the labels of each open scope hide."""
        self._own_labels: list[set[str]] = [set()]
        """Those of each open scope."""

    # ------------------------------------------------------------------------------------------------------ scopes

    def open(self, ordinal: int) -> None:
        self.path.append(ordinal)
        self._own.append({})
        self._ranges.append({})
        self._own_labels.append(set())
        self._hidden.append(set())

    def close(self) -> None:
        if len(self.path) == 1:
            return
        self.path.pop()
        self._ranges.pop()
        self._own_labels.pop()
        self.visible.hidden -= self._hidden.pop()
        for name, hidden in self._own.pop().items():
            if hidden is None:
                self.visible.pop(name, None)
            else:
                self.visible[name] = hidden

    def add(self, entity: Entity) -> Fault | None:
        """Declare a name in the innermost scope."""
        own = self._own[-1]
        name = entity.name
        if name in self._own_labels[-1] and not entity.ranged:  # those of a range hide it, as in ptxas
            return Fault(f"{name} is declared twice in this scope: {name} is a label already", word=name)
        if name in own or self._in_range(name):
            earlier = self.visible[name].what if name in own else f"{name} is a register of a range"
            return Fault(f"{name} is declared twice in this scope: {earlier} already", word=name)
        own[name] = self.visible.get(name)
        self.visible[name] = entity
        return None

    def declare(self, declaration: DeclarationAttr, place: str) -> Iterator[Fault]:
        """The names of a `.reg` or variable declaration."""
        register = declaration.space == "reg"
        for index, formal in enumerate(formals(declaration)):
            tail = declaration.items[index][1]
            if tail[:1] == ("<",):
                fault = self._declare_range(formal, declaration.count(index) or 0, register, place)
            else:
                targets = call_table(formal, tail)
                fault = self.add(
                    Entity(formal.name, "register" if register else "variable", place, formal, None, targets)
                )
            if fault is not None:
                yield fault

    def _declare_range(self, formal: Formal, count: int, register: bool, place: str) -> Fault | None:
        stem = formal.name
        ranges = self._ranges[-1]
        if stem in ranges:
            return Fault(f"the range {stem}<> is declared twice in this scope", word=stem)
        numbered = stem[-1].isdecimal()  # legal, but ptxas reads no `%r10` into `%r1<12>`
        # where the first name is taken, ptxas has the range hide it, and looks at no other
        first = f"{stem}0"
        hides = first in self._own[-1] or first in self._own_labels[-1]
        for name in () if numbered or hides else self._own[-1]:
            if name.startswith(stem) and _numbered(name, stem, count):
                return Fault(f"{name} is declared twice in this scope: it is in {stem}<{count}> too", word=stem)
        if register or numbered:
            ranges[stem] = count
            return None
        hidden = self.visible.get(first) if first in self._own[-1] else None
        if hidden is not None and hidden.kind == "register":  # ptxas hides it; here the register would keep the name
            return Fault(f"{first} is declared twice in this scope: {hidden.what} already", word=stem)
        for number in range(min(count, MOST_OF_A_RANGE)):
            entity = Entity(f"{stem}{number}", "variable", place, formal, ranged=True)
            if hides:
                self._own[-1].setdefault(entity.name, self.visible.get(entity.name))
                self.visible[entity.name] = entity
            elif (fault := self.add(entity)) is not None:
                return fault
        ranges[stem] = count
        return None

    def _in_range(self, name: str) -> bool:
        ranges = self._ranges[-1]
        if not ranges or not name[-1].isdecimal():
            return False
        # `%r01` is a name of %r1 for ptxas
        stem = name.rstrip("0123456789")
        return int(name[len(stem) :]) < ranges.get(stem, 0)

    # ------------------------------------------------------------------------------------------------------ labels

    def label(self, name: str) -> Fault | None:
        """A label stands here. From here on it hides what its name is outside this scope."""
        own, labels = self._own[-1], self.labels[self.path[-1]]
        self._passed.add(name)
        again = name in self._own_labels[-1]
        self._own_labels[-1].add(name)
        if labels.get(name, 0) > 1:
            labels[name] = 1  # said once
            return Fault(f"label {name} stands twice in this scope", word=name)
        if again:
            return None
        if name in own:
            known = self.visible[name]
            if known.ranged:  # which keeps the name, as in ptxas
                return None
            return Fault(f"{name} is declared twice in this scope: {known.what} already", word=name)
        if name in self.visible:
            own[name] = self.visible.maps[0].pop(name, None)
            if name in self.visible.maps[1]:
                self._hidden[-1].add(name)
                self.visible.hidden.add(name)
        return None

    def _without_label(self, name: str) -> None:
        """The label that stood here is the name of a list."""
        self._own_labels[-1].discard(name)
        own = self._own[-1]
        if name in self._hidden[-1]:
            self._hidden[-1].discard(name)
            self.visible.hidden.discard(name)
        if name in own and name not in self.visible.maps[0] and (hidden := own.pop(name)) is not None:
            self.visible[name] = hidden

    def has_label(self, name: str) -> bool:
        labels = self.labels
        return any(name in labels[scope] for scope in self.path if scope in labels)

    def branch(self, name: str, operand: int = 0) -> Fault | None:
        """The target of a branch."""
        entity = named(self.visible, name)
        if entity is not None:
            later = f", as the label {name} comes later" if self.has_label(name) else ""
            return Fault(f"a branch needs a label, and {entity.what} here{later}", operand=operand)
        if self.has_label(name):
            return None
        elsewhere = any(name in labels for labels in self.labels.values())
        if elsewhere:
            return Fault(f"label {name} stands in another {{ }} scope, which cannot be branched into", operand=operand)
        near = suggest(name, {label for labels in self.labels.values() for label in labels})
        hint = f"did you mean {' or '.join(near)}?" if near else None
        return Fault(f"label {name} is not defined in this function", operand=operand, untried=hint)

    def table(self, label: str, directive: str, words: Sequence[str], signature: Signature | None) -> Iterator[Fault]:
        """`label: .branchtargets L0, L1` or another list after a label."""
        names = [w for w in words if w not in (",", ";")]
        if directive != ".callprototype" and names and not _is_list(words):
            yield Fault(f"{directive} takes names with commas between them", word=directive)
            return
        if label and self.labels[self.path[-1]].get(label):
            yield Fault(f"label {label} stands twice in this scope", word=label)
            return
        if not label:
            yield Fault(f"{directive} needs a label before it", f"name: {directive} ...;", word=directive)
        if not names:
            yield Fault(f"{directive} needs at least one name", word=directive)
        if directive == ".branchtargets":
            entity = Entity(label, "branch targets")
            for name in names:
                if (fault := self.branch(name)) is not None:
                    yield Fault(fault.message, fault.advice, word=name)
        elif directive == ".calltargets":
            entity = Entity(label, "call targets", targets=tuple(names))
            for name in names:
                target = named(self.visible, name)
                if target is None or target.kind not in ("function", "entry"):
                    what = f"{name} is not declared before it" if target is None else target.what
                    yield Fault(f".calltargets lists functions, and {what}", word=name)
        else:
            entity = Entity(label, "prototype", signature=signature)
        self._without_label(label)  # its label on a line before it
        if label and (fault := self.add(entity)) is not None:
            yield fault

    # -------------------------------------------------------------------------------------------------------- uses

    def check(self, use: SymbolUse) -> Fault | None:  # noqa: C901  one rule after the other
        """Whether the symbol is declared and is what its operand needs."""
        if use.wanted == "call":
            return None
        if use.wanted == "label":
            return self.branch(use.name, use.operand)
        if use.wanted[:1] == ".":
            if self.directives is None or use.wanted in self.directives:
                return None
            return Fault(f"a kernel that reads {use.name} needs {use.wanted}", operand=use.operand)
        entity = named(self.visible, use.name)
        if entity is None:
            if self.has_label(use.name):
                if use.name not in self._passed and (
                    use.wanted in ("constant", "displaced") or (use.wanted == "address" and not use.places)
                ):
                    return None
                return self._wrong(use, f"{use.name} is a label")
            return self._undeclared(use.name, use.operand)
        match use.wanted:
            case "address":
                return self._address(use, entity)
            case "value" | "displaced":
                return self._value(use, entity)
            case "array":
                formal = entity.formal
                if formal is not None and entity.kind == "variable" and formal.extents:
                    return None
                return Fault(f"only an array has elements, and {entity.what}", operand=use.operand)
            case "number":
                return None if entity.kind == "variable" else self._wrong(use, entity.what)
            case "constant":
                return None if entity.kind in _ADDRESSES else self._wrong(use, entity.what)
            case "":
                return None
            case wanted:
                kind = entity.formal.type if entity.formal is not None and entity.kind == "variable" else entity.kind
                if kind == wanted:
                    return None
                name = KIND_NAMES.get(wanted, f"a .{wanted} variable")
                return Fault(f"{use.opcode} needs {name} here, and {entity.what}", operand=use.operand)

    def _undeclared(self, name: str, operand: int) -> Fault:
        near = suggest(name, set(self.visible))
        near = f"did you mean {' or '.join(near)}?" if near else None
        return Fault(
            f"{name} is not declared", "declare it before it is used", word=name, operand=operand, untried=near
        )

    def _wrong(self, use: SymbolUse, what: str) -> Fault:
        return Fault(
            f"operand {use.operand + 1} of {use.opcode} needs a register or a variable's address, and {what}",
            operand=use.operand,
        )

    def _address(self, use: SymbolUse, entity: Entity) -> Fault | None:
        if not use.places:
            return None
        reference = entity.formal is not None and entity.formal.type in OPAQUE and entity.kind == "variable"
        if reference and entity.place == "global":
            return (
                None
                if use.references
                else Fault(f"{use.opcode} cannot use {entity.name}: {entity.what}", operand=use.operand)
            )
        if entity.kind == "variable" and entity.place in use.places and not reference:
            return None
        if entity.kind != "variable":
            return self._wrong(use, entity.what)
        if reference:
            return Fault(f"{use.opcode} cannot read {entity.name}: {entity.what}, and a reference", operand=use.operand)
        spaces = [p for p in ("global", "shared", "local", "const", "param") if p in use.places]
        if entity.place in ("entry", "input", "output", "argument"):
            if entity.place == "output" and "input" in use.places:
                return Fault(f"a return parameter cannot be read: {entity.what}", operand=use.operand)
            if entity.place in ("entry", "input") and "output" in use.places:
                return Fault(f"an input parameter cannot be written: {entity.what}", operand=use.operand)
            hint = "read it with ld.param" if spaces else None
        else:
            hint = f"use .{entity.place}, or a register with the address" if entity.place in SPACE_HINTS else None
        where = " or ".join(f".{s}" for s in spaces) or ".param"
        message = f"this {use.opcode} addresses {where}, and {entity.what}"
        return Fault(message, operand=use.operand, untried=hint)

    def _value(self, use: SymbolUse, entity: Entity) -> Fault | None:
        if entity.kind in ("function", "entry") and use.functions:
            return None
        if entity.kind != "variable":
            return self._wrong(use, entity.what)
        if entity.formal is not None and entity.formal.type in OPAQUE:
            if use.references and entity.place in use.places:
                return None
            return Fault(
                f"{use.opcode} of this type cannot take the address of {entity.name}: {entity.what}",
                operand=use.operand,
            )
        if entity.place in use.places:
            return None
        if entity.place == "argument":
            return Fault(f"the address of {entity.name} cannot be taken: {entity.what}", operand=use.operand)
        wanted = sorted(p for p in use.places if p in ("global", "shared", "local", "const", "param"))
        listed = " or ".join("." + p for p in wanted) or "a register"
        return Fault(f"this {use.opcode} needs {listed}, and {entity.what}", operand=use.operand)

    def check_call(self, layout: Layout, classes: Sequence[str]) -> Fault | None:
        """A call against the signature of its callee, of its prototype, or of every function it may reach."""
        lists = [o for o in layout if isinstance(o, Arguments)]
        first = bool(layout) and isinstance(layout[0], Arguments)
        position = 1 if first else 0
        callee = layout[position]
        following = layout[position + 1] if position + 1 < len(layout) else None
        arguments = following if isinstance(following, Arguments) else None
        results = lists[0] if first else None
        if isinstance(callee, Symbol):
            return self._direct_call(callee.name, position, results, arguments, classes)
        prototype = layout[-1]
        if not isinstance(prototype, Symbol):
            return None
        entity = self.visible.get(prototype.name)
        last = len(layout) - 1
        if entity is None:
            return self._undeclared(prototype.name, last)
        used = registers((results,)) if results is not None else []
        classes = [c for i, c in enumerate(classes) if i != len(used)]  # without the register that holds the address
        if entity.signature is not None and entity.kind == "prototype":
            callees, counted = [(prototype.name, entity.signature)], 0
        elif entity.kind == "call targets" or (entity.targets and entity.place in ("global", "const")):
            reached = [(n, self.module.get(n)) for n in entity.targets]
            looked_at = reached if any(o.elements for o in lists) else reached[:1]
            other = next((n for n, e in looked_at if e is None or e.signature is None), None)
            if entity.kind == "variable" and other is not None:
                return Fault(f"a call table lists functions, and {entity.name} has {other}", operand=last)
            callees = [(n, e.signature) for n, e in reached if e is not None and e.signature is not None]
            counted = 0 if entity.kind == "variable" else len(callees) - 1
        else:
            message = f"an indirect call needs a .callprototype, .calltargets or a call table, and {entity.what}"
            return Fault(message, operand=last)
        for i, (name, signature) in enumerate(callees):
            message = call_problem(name, signature, results, arguments, classes, self.visible, counted=i == counted)
            if message is not None:
                return Fault(message, f"{name}: {signature}")
        return None

    def _direct_call(
        self, name: str, operand: int, results: Arguments | None, arguments: Arguments | None, classes: Sequence[str]
    ) -> Fault | None:
        entity = named(self.visible, name)
        if entity is None and name in self.module:
            return Fault(f"a call needs a function (.func), and {name} is a label here", operand=operand)
        if entity is None:
            near = suggest(name, [n for n, e in self.module.items() if e.kind == "function"])
            near = f"did you mean {' or '.join(near)}?" if near else None
            hint = f"declare it before the call: .extern .func {name} (...);"
            return Fault(f"function {name} is not declared", hint, operand=operand, untried=near)
        if entity.kind != "function" or entity.signature is None:
            return Fault(f"a call needs a function (.func), and {entity.what}", operand=operand)
        message = call_problem(name, entity.signature, results, arguments, classes, self.visible)
        return None if message is None else Fault(message, f"{name}: {entity.signature}", operand=operand)


def _is_list(words: Sequence[str]) -> bool:
    """Whether the words are names with commas between them, and a semicolon."""
    return len(words) % 2 == 0 and all(w == "," for w in words[1:-1:2]) and not {",", ";"} & {*words[::2]}


SPACE_HINTS = frozenset({"global", "shared", "local", "const"})


def _numbered(name: str, stem: str, count: int) -> bool:
    """Whether `name` is `stem` and a number below `count`."""
    digits = name[len(stem) :]
    return digits.isdecimal() and (digits == "0" or digits[0] != "0") and int(digits) < count
