"""A finished trace as a module: declarations, shared memory settled, SSA built, version chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ...diagnostics import Diagnostic, PTXError
from ...dialects.ptx.attributes import string_attr
from ...dialects.ptx.memo import Memo
from ...dialects.ptx.structure import (
    DeclarationAttr,
    EntryOp,
    FallOp,
    HeaderOp,
    ModuleOp,
    ParameterOp,
    RegisterOp,
    TextAttr,
    TokensAttr,
    UndefOp,
    VariableOp,
)
from ...dialects.ptx.style import DEFAULT
from ...dialects.ptx.target import FIRST_PTX, TargetAttr, Version, version_text
from ...ssa.builder import FunctionSource, UnresolvedLabel, build_function
from ...ssa.fastir import create, gc_paused
from ...ssa.never_written import never_written
from ...ssa.statement import Kind, Shape, Statement
from ..core import declarations as spelling
from ..core.instructions import opcode
from ..core.lines import with_lines
from ..core.trace import FINISHED, Trace, declaration_shape, judged
from ..library.blocks import check_blocks
from ..library.control import range_left
from ..memory.parameters import EntryParameter
from ..memory.placing import place_allocations
from ..memory.shared import DYNAMIC, STATIC_LIMIT

Directives = Sequence[tuple[str, tuple[Any, ...]]]

DIRECTIVES: dict[str, Version] = {
    "maxnreg": (1, 3), "maxntid": (1, 3), "minnctapersm": (2, 0), "maxnctapersm": (1, 3), "reqntid": (2, 1),
    "noreturn": (6, 4), "reqnctapercluster": (7, 8), "explicitcluster": (7, 8), "maxclusterrank": (7, 8),
    "blocksareclusters": (9, 0), "abi_preserve": (9, 0), "abi_preserve_control": (9, 0), "pragma": (2, 0),
    "minperctamemory": (9, 4), "language": (9, 2),
}  # fmt: skip
"""Performance directives of an entry and the PTX version they came with (PTX ISA 11.4, 11.7)."""


@dataclass(frozen=True, slots=True)
class Built:
    """The module of a trace. `dynamic_bytes`: what its own allocations need of dynamic shared memory."""

    module: BuiltinModule
    version: Version
    dynamic_bytes: int
    has_extern: bool
    findings: list[Diagnostic]
    """Registers that are read and never written."""


def build_module(
    trace: Trace,
    name: str,
    parameters: Sequence[EntryParameter],
    *,
    extern: str | None,
    directives: Directives,
    force_dynamic: bool,
    debug: bool = False,
) -> Built:
    """The module of a finished trace; with `debug`, `.loc` directives say its Python lines. PTXError for what only the
    whole kernel shows.
    """
    with gc_paused():
        return _build(trace, name, parameters, extern, directives, force_dynamic, debug)


def _build(
    trace: Trace,
    name: str,
    parameters: Sequence[EntryParameter],
    extern: str | None,
    directives: Directives,
    force_dynamic: bool,
    debug: bool,
) -> Built:
    if not trace.failures:
        for place in trace.open_ranges.values():
            raise range_left(trace, place)
    check_blocks(trace)
    _end_with_ret(trace)
    dynamic = bool(trace.allocations) and (force_dynamic or trace.shared_bytes > STATIC_LIMIT)
    if dynamic and extern is not None:
        raise trace.error(
            f"{trace.shared_bytes} bytes of allocations do not fit into the {STATIC_LIMIT} of static shared memory, "
            "and extern_smem takes "
            "the dynamic part",
            f"drop extern_smem, or carve the memory out of {extern} with smem.base()",
            at=0,
        )
    shared = place_allocations(trace, dynamic)
    statements = _assemble(trace, shared)
    if trace.scope_count:
        _check_scopes(trace, statements)
    externs = list(trace.module_statements)
    if debug:
        statements, files = with_lines(statements, trace.locations, externs)
        externs = files + externs
    _note_directives(trace, directives)
    if any(d.register_class == "b128" for d in trace.declarations.values()):
        trace.needs = max(trace.needs, (8, 3))
    version = trace.version or trace.needs
    _check_version(trace, version)

    properties: dict[str, Attribute] = {
        "head": TokensAttr((".visible", ".entry")),
        "sym_name": string_attr(name),
        "directives": TokensAttr(spelling.directives([(name, *values) for name, values in directives])),
    }
    properties["params"] = ArrayAttr([p.declaration for p in parameters])
    source = FunctionSource(EntryOp, properties, {"lead": StringAttr("\n")}, statements, locations=trace.locations)
    if trace.lead:
        source.attributes["end"] = TokensAttr((trace.lead, "", "\n"))
    findings = list(unwritten(trace, source))
    problems: list[UnresolvedLabel] = []
    entry = build_function(source, DEFAULT, None, problems)
    for reg in trace.names.values():
        reg.register_class = FINISHED
    if problems:
        raise PTXError(
            [
                trace.diagnostic(f"label {p.label} is not placed in this kernel", "ptx.label(name) places it", p.line)
                for p in problems
            ]
        )
    ops: list[Operation] = [
        create(HeaderOp, (), (), {"what": string_attr(what)}, {}) for what in ("version", "target", "address_size")
    ]
    if extern is not None:
        externs.append((_extern_shape(extern, 128), (), "", 0, ""))
    if dynamic:
        align = max([128, *[a.align for a in trace.allocations.values()]])
        externs.append((_extern_shape(DYNAMIC, align), (), "", 0, ""))
    for i, (shape, _, _, place, _) in enumerate(externs):
        attributes: dict[str, Attribute] = {"lead": StringAttr("\n")} if i == 0 else {}
        assert shape.op_class is not None
        ops.append(create(shape.op_class, (), (), shape.properties or {}, attributes, (), trace.locations[place]))
    ops.append(entry)
    target = TargetAttr((trace.target, version_text(version), ()))
    module = BuiltinModule([ModuleOp.build(target, ops)])
    return Built(module, version, trace.shared_bytes if dynamic else 0, bool(extern or trace.externs), findings)


def unwritten(trace: Trace, source: FunctionSource) -> Iterator[Diagnostic]:
    """A warning for each register that the function reads and nothing in it writes."""
    for reg, place in never_written(source):
        found = trace.diagnostic(
            f"{reg.name} is read here, and nothing in the kernel writes it",
            "give it a value where it is made: reg.scalar(f32, init=0)",
            place,
        )
        yield replace(found, severity="warning")


def _extern_shape(name: str, align: int) -> Shape:
    return declaration_shape(VariableOp, (".extern", ".shared", ".align", str(align), ".b8"), name, tail=("[", "]"))


def _end_with_ret(trace: Trace) -> None:
    """A kernel that can run off its end gets a `ret` there."""
    for shape, _, _, _, _ in reversed(trace.statements):
        if shape.kind == Kind.TERMINATOR and shape.guard < 0:
            return
        if shape.kind in (Kind.OTHER, Kind.REGISTERS, Kind.CLOSE):
            continue
        break
    path = opcode("ret")
    shape, _ = path._shapes.get(()) or path._make(trace, ())
    trace.check(shape, 0)
    trace.record(shape, [], 0)


def _assemble(trace: Trace, shared: list[Statement]) -> list[Statement]:
    """Declarations, variables, prologue, body."""
    found: list[Statement] = []
    run: list[tuple[str, int | None]] = []
    run_class = ""
    for declaration in trace.declarations.values():
        if declaration.hidden:
            continue
        alone = declaration.count is not None  # a range has its own line
        if alone or declaration.register_class != run_class or len(run) == _PER_LINE:
            _declare(found, run_class, run)
            run, run_class = [], "" if alone else declaration.register_class
        if alone:
            _declare(found, declaration.register_class, [(declaration.name, declaration.count)])
        else:
            run.append((declaration.name, None))
    _declare(found, run_class, run)
    found += shared
    found += trace.variables
    found += trace.prologue
    if not trace.insertions:
        return found + trace.statements
    for i, statement in enumerate(trace.statements):
        found.append(statement)
        if i in trace.insertions:
            found += trace.insertions[i]
    return found


_PER_LINE = 8
"""Neighbouring single registers of one class share a line, so that the text starts with the code and not with a page of
`.reg`.
"""
_register_shapes: Memo[tuple[str, tuple[tuple[str, int | None], ...]], Shape] = Memo()


def _declare(found: list[Statement], register_class: str, registers: list[tuple[str, int | None]]) -> None:
    """`.reg .b32 %r0, %r1, %f<4>;`: one statement for registers of one class, given as (name, size of a range)."""
    if not registers:
        return
    key = (register_class, tuple(registers))
    shape = _register_shapes.get(key)
    if shape is None:
        (name, count), *rest = registers
        shape = _register_shapes[key] = declaration_shape(RegisterOp, (".reg", "." + register_class), name, count)
        first = shape.properties["declaration"]  # pyright: ignore[reportOptionalSubscript]
        assert isinstance(first, DeclarationAttr)
        more = tuple((n, () if c is None else ("<", str(c), ">")) for n, c in rest)
        shape.properties = {"declaration": DeclarationAttr((first.head, (*first.items, *more)))}
    found.append((shape, (), "", 0, ""))


def _check_scopes(trace: Trace, statements: list[Statement]) -> None:
    """Registers of a `{ }` block are used inside it only."""
    scope, stack = 0, list[int]()
    for shape, regs, _, place, name in statements:
        if shape.kind == Kind.OPEN:
            stack.append(scope)
            scope = int(name)
        elif shape.kind == Kind.CLOSE:
            scope = stack.pop()
        for reg in regs:
            if reg.scope and reg.scope != scope and reg.scope not in stack:
                raise trace.error(
                    f"register {reg.name} belongs to a ptx.scope() that has ended", "declare it outside", at=place
                )


def _note_directives(trace: Trace, directives: Directives) -> None:
    for name, _ in directives:
        since = DIRECTIVES.get(name)
        if since is None:
            raise trace.error(
                f"there is no directive .{name} for a kernel", f"known: {' '.join('.' + d for d in DIRECTIVES)}", at=0
            )
        trace.needs = max(trace.needs, since)


def _check_version(trace: Trace, version: Version) -> None:
    """The target must exist in the version, and (when it was inferred) no form may have been removed by then."""
    first = FIRST_PTX.get(trace.target, (1, 0))
    if version < first:
        raise trace.error(
            f"target {trace.target} needs PTX {version_text(first)} or newer, not {version_text(version)}", at=0
        )
    if version < trace.needs and trace.version is not None:
        raise trace.error(
            f"this kernel's directives need PTX {version_text(trace.needs)}, not {version_text(version)}", at=0
        )
    if trace.version is not None:
        return
    for shape, place in trace.used.items():
        _, problem, _ = judged(shape, version, trace.target)
        if problem is not None:
            raise trace.error(
                f"{problem.message} (the version that the rest of the kernel needs)", problem.hint, at=place
            )


def printed_lines(module: BuiltinModule, text: str) -> Iterator[tuple[int, Operation]]:
    """The statements of the entry with the number (from 1) of the line where each starts in `text`, which `module`
    printed to.
    """
    ptx = next(op for op in module.body.block.ops if isinstance(op, ModuleOp))
    entry = next(op for op in ptx.functions if op.is_entry)
    number = text.split("\n").index("{") + 2
    for block in entry.blocks:
        for op in block.ops:
            if isinstance(op, (FallOp, UndefOp, ParameterOp)):
                continue
            lead, gaps = op.attributes.get("lead"), op.attributes.get("gaps")
            if isinstance(lead, TextAttr):
                number += lead.data.count("\n")
            first, *rest = gaps.data if isinstance(gaps, TokensAttr) else ("", "\n")
            number += first.count("\n")
            yield number, op
            number += "".join(rest).count("\n")
