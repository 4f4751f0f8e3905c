"""`ptx-infer-version`: the lowest `.version` that admits a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from xdsl.ir import Operation

from ..dialects.ptx.directive_facts import (
    DECLARATIONS,
    LINKING,
    OPAQUE,
    OTHERS,
    PERFORMANCE,
    TYPE_NEEDS,
    UNSIZED_PARAMETER,
    Directive,
    Places,
)
from ..dialects.ptx.instruction import Instruction, modifiers_of, plain_roles
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    FunctionOp,
    HeaderOp,
    ModuleOp,
    RegisterOp,
    UnknownOp,
    VariableOp,
    extents,
)
from ..dialects.ptx.target import FIRST_PTX, TargetAttr, Version, target_in, version_text
from .ptx_pass import PTXPass

INITIALISERS = {"generic": (3, 1)}
"""Since when an operator may stand in an initialiser."""
MASK: Version = (7, 1)
"""`0xFF(symbol)` in an initialiser."""
KERNEL_PARAMETERS: Version = (1, 4)
"""Kernels without a parameter list are older."""


class InferVersion(PTXPass):
    """Set `.version` to the lowest that admits every instruction, directive and the target.

    Contract: only `.version` changes. Where the answer depends on the target (a form that one architecture
    has earlier), the module's target decides; an instruction that its target does not have in any version
    leaves the module's version as the lower bound. Idempotent.
    """

    name: ClassVar[str] = "ptx-infer-version"
    changes_the_judge: ClassVar[bool] = True

    def run(self, module: ModuleOp) -> None:
        version = lowest_version(module)
        target = module.target
        if version != target.version:
            module.target = TargetAttr((target.target, version_text(version), target.options))


def lowest_version(module: ModuleOp) -> Version:
    """The lowest PTX version that admits a module on its own target."""
    target = module.target
    lowest = FIRST_PTX.get(target.target, (1, 0))
    if "debug" in target.options:
        lowest = max(lowest, (3, 0))
    for op in module.walk():
        for version in versions_of(op, target):
            lowest = max(lowest, version)
    return lowest


def versions_of(op: Operation, target: TargetAttr) -> Iterator[Version]:
    """Lower bounds on the version that one op gives (its nested ops left out)."""
    if isinstance(op, Instruction):
        version = instruction_version(op, target)
        yield target.version if version is None else version
    elif isinstance(op, (RegisterOp, VariableOp)):
        yield from _declaration(op.declaration)
    elif isinstance(op, DirectiveOp):
        yield from _directives(op.words)
    elif isinstance(op, FunctionOp):
        yield from _directives((*op.head, *op.directives))
        for declaration in (*op.parameters, *op.returns):
            yield from _declaration(declaration)
        if any(None in extents(tail) for d in op.parameters for _, tail in d.items):
            yield UNSIZED_PARAMETER.since
        if "params" in op.properties and op.is_entry:
            yield KERNEL_PARAMETERS
        elif any(d.space == "param" for d in (*op.parameters, *op.returns)):
            yield DECLARATIONS[".param"]["func param"].since
    elif isinstance(op, HeaderOp):
        yield from _directives(("." + op.what,))
    elif isinstance(op, UnknownOp):
        yield target.version


def instruction_version(op: Instruction, target: TargetAttr) -> Version | None:
    """The first version that has an instruction on a target; None where no form of it exists there."""
    classes = tuple(t.data[0] for t in op.register_types)
    resolution = type(op).resolve(modifiers_of(type(op), op.properties), plain_roles(op.layout), classes)
    found: Version | None = None
    for use in resolution.uses:
        if any(n.targets and not target_in(target.target, n.targets) for _, n in use.needs):
            continue
        since = max((n.since for _, n in use.needs), default=(1, 0))
        if found is None or since < found:
            found = since
    return found


def _directives(words: Sequence[str]) -> Iterator[Version]:
    """What the directives among the words need, and the arguments of theirs that are younger."""
    directive: Directive | None = None
    for word in words:
        found = PERFORMANCE.get(word) or LINKING.get(word) or OTHERS.get(word)
        if found is not None:
            directive = found
            yield _first(found.places)
        elif directive is not None:
            places = directive.words.get(word.strip('"').partition(" ")[0])
            if places is not None:
                yield _first(places)


def _declaration(declaration: DeclarationAttr) -> Iterator[Version]:
    yield from _directives(declaration.head)
    for word in declaration.head:
        found = TYPE_NEEDS.get(word) or OPAQUE.get(word)
        if found is not None:
            yield found.since
    for _, tail in declaration.items:
        for word, following in pairwise(tail):
            if following == "(":
                yield MASK if word[0].isdigit() else INITIALISERS.get(word, (1, 0))


def _first(places: Places) -> Version:
    return min(found.since for found in places.values())
