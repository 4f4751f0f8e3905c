"""`ptx-infer-version`: the lowest `.version` that admits a module."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar

from xdsl.ir import Operation

from ..dialects.ptx.instruction import Instruction, modifiers_of, plain_roles
from ..dialects.ptx.structure import (
    DeclarationAttr,
    DirectiveOp,
    FunctionOp,
    HeaderOp,
    LabelListOp,
    LocOp,
    ModuleOp,
    RegisterOp,
    UnknownOp,
    VariableOp,
)
from ..dialects.ptx.target import (
    FIRST_PTX,
    TargetAttr,
    Version,
    parse_version,
    target_in,
    version_text,
)
from .ptx_pass import PTXPass

WORDS: dict[str, str] = {
    ".address_size": "2.3", ".weak": "3.1", ".common": "5.0", ".alias": "6.3", ".noreturn": "6.4",
    ".reqntid": "2.1", ".minnctapersm": "2.0", ".local_maxnreg": "8.8",
    ".reqnctapercluster": "7.8", ".explicitcluster": "7.8", ".maxclusterrank": "7.8",
    ".blocksareclusters": "9.0",
    ".pragma": "2.0", ".section": "2.0", ".attribute": "4.0", ".ptr": "2.2", ".callprototype": "2.1",
    ".calltargets": "2.1", ".branchtargets": "5.1", ".abi_preserve": "9.0", ".abi_preserve_control": "9.0",
    "function_name": "7.0", "inlined_at": "7.0", "generic": "3.1", ".b128": "8.3", ".f16x2": "4.2",
    ".texref": "1.5", ".samplerref": "1.5", ".surfref": "1.5",
}  # fmt: skip
"""Since when each directive or word outside instructions exists (PTX ISA 5, 7, 11; all asked of ptxas)."""

PRAGMAS: dict[str, str] = {"used_bytes_mask": "8.3", "enable_smem_spilling": "8.7", "frequency": "9.0"}
"""Since when ptxas knows each pragma that is younger than `.pragma` itself."""

_MASK = parse_version("7.1")
"""`0xFF(symbol)` in an initialiser."""


class InferVersion(PTXPass):
    """Set `.version` to the lowest that admits every instruction, directive and the target.

    Contract: only `.version` changes. Where the answer depends on the target (a form that one architecture
    has earlier), the module's target decides; an instruction that its target does not have in any version
    leaves the module's version as the lower bound. Idempotent.
    """

    name: ClassVar[str] = "ptx-infer-version"

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
    elif isinstance(op, LocOp):
        yield from _words(op.words)
    elif isinstance(op, (DirectiveOp, LabelListOp)):
        yield from _words(op.words[:1])
        yield from _pragmas(op.words)
    elif isinstance(op, FunctionOp):
        yield from _words((*op.head, *op.directives))
        yield from _pragmas(op.directives)
        for declaration in (*op.parameters, *op.returns):
            yield from _declaration(declaration)
        if "params" in op.properties and op.is_entry:
            yield (1, 4)
        elif any(d.space == "param" for d in (*op.parameters, *op.returns)):
            yield (2, 0)
    elif isinstance(op, HeaderOp):
        yield from _words(("." + op.what,))
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


def _words(words: tuple[str, ...]) -> Iterator[Version]:
    for word in words:
        if word in WORDS:
            yield parse_version(WORDS[word])


def _declaration(declaration: DeclarationAttr) -> Iterator[Version]:
    yield from _words(declaration.head)
    for _, tail in declaration.items:
        yield from _words(tail)
        if any(b == "(" and a[0].isdigit() for a, b in pairwise(tail)):
            yield _MASK


def _pragmas(words: tuple[str, ...]) -> Iterator[Version]:
    for pragma, word in pairwise(words):
        if pragma == ".pragma":
            name = word.strip('"').split(" ")[0]
            if name in PRAGMAS:
                yield parse_version(PRAGMAS[name])
