"""Generators of random modules, an area of the PTX manual each. They know the grammar and nothing of pyptx's verdicts.

An area is a function `(Draw) -> str` that draws the text after the header, legal more often than not; `AREAS` has them
by name. What a module is edited to afterwards is `edits.edited`.
"""

from __future__ import annotations

from collections.abc import Callable

from . import debug, directives, functions, names, text, values, variables
from .draw import Draw

Area = Callable[[Draw], str]

AREAS: dict[str, Area] = {
    "linking": functions.linking,
    "alias": functions.alias,
    "branch targets": functions.branch_targets,
    "call targets": functions.call_targets,
    "prototypes": functions.prototypes,
    "parameters": functions.parameters,
    "results": functions.results,
    "bodies": functions.bodies,
    "performance": functions.performance,
    "pragma": functions.pragmas,
    "declarations": variables.declarations,
    "attributes": variables.attributes,
    "initial scalars": variables.scalars,
    "initial lists": variables.lists,
    "initial addresses": variables.addresses,
    "textures": variables.textures,
    "scopes": names.scopes,
    "ranges": names.ranges,
    "vectors": names.vectors,
    "identifiers": names.identifiers,
    "labels": names.labels,
    "literals": values.literals,
    "constant expressions": values.expressions,
    "address forms": values.addresses,
    "sections": debug.sections,
    "line numbers": debug.line_numbers,
    "header": text.header,
    "layout": text.layout,
    "versions": text.versions,
    "mixed": directives.mixed,
}
"""`header` draws the whole text, and `layout` lays out a module of another area."""
WHOLE = frozenset({"header", "mixed"})
"""The areas that draw the header, too."""
