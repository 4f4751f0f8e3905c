"""The call hierarchy of PTX text: which function calls which, by name. A call through a register has no known callee."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from lsprotocol import types as lsp

from .document import Document
from .names import Definition, Names, Scope, Token
from .session import PtxServer, safely

__all__ = ["add_calls", "calls_of", "function_at"]


def function_at(names: Names, offset: int) -> Definition | None:
    """The function that a place names, or whose body it is in."""
    found = names.definition_at(offset)
    if found is not None and found.kind in ("entry", "function"):
        return found
    scope: Scope | None = names.scope_at(offset)
    while scope is not None and scope.function is None:
        scope = scope.parent
    return None if scope is None else scope.function


def calls_of(names: Names) -> Iterator[tuple[Definition, Definition, Token]]:
    """(caller, callee, the place of the call), in the order of the text."""
    bodies = sorted((s.start, s.end, s.function) for s in names.scopes if s.function is not None)
    starts = [start for start, _, _ in bodies]
    found: list[tuple[int, Definition, Definition, Token]] = []
    for callee in names.module.names.values():
        if callee.kind not in ("entry", "function"):
            continue
        for use in callee.uses:
            at = bisect_right(starts, use.start) - 1
            if at >= 0 and use.start < bodies[at][1] and _is_call(names, use):
                found.append((use.start, bodies[at][2], callee, use))
    return iter([(caller, callee, use) for _, caller, callee, use in sorted(found, key=lambda f: f[0])])


def _is_call(names: Names, use: Token) -> bool:
    """Whether the statement of a use is a call, not an address of the function."""
    text = names.text
    begin = max(text.rfind(c, 0, use.start) for c in ";{}:") + 1
    return "call" in text[begin : use.start].split("(")[0].replace(".", " ").split()


def _item(document: Document, uri: str, function: Definition) -> lsp.CallHierarchyItem:
    names = document.names
    body = next((s for s in names.scopes if s.function is function), None)
    whole = document.range(function.start, body.end if body is not None else function.end)
    return lsp.CallHierarchyItem(
        function.name,
        lsp.SymbolKind.Function,
        uri,
        whole,
        document.range(function.start, function.end),
        detail=function.detail,
    )


def add_calls(server: PtxServer) -> None:
    """The requests of the call hierarchy."""
    feature = server.feature

    @feature(lsp.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY)
    @safely(None)
    def prepare(parameters: lsp.CallHierarchyPrepareParams) -> list[lsp.CallHierarchyItem] | None:
        uri = parameters.text_document.uri
        document = server.document(uri)
        function = function_at(document.names, document.offset(parameters.position))
        return None if function is None else [_item(document, uri, function)]

    def grouped(
        item: lsp.CallHierarchyItem, own: int, other: int
    ) -> list[tuple[lsp.CallHierarchyItem, list[lsp.Range]]]:
        """The functions at the other end of the calls of one (0: caller, 1: callee), with the places of the calls."""
        document = server.document(item.uri)
        start = document.offset(item.selection_range.start)
        found: dict[Definition, list[lsp.Range]] = {}
        for *ends, use in calls_of(document.names):
            if ends[own].start == start:
                found.setdefault(ends[other], []).append(document.range(use.start, use.end))
        return [(_item(document, item.uri, function), places) for function, places in found.items()]

    @feature(lsp.CALL_HIERARCHY_INCOMING_CALLS)
    @safely(list)
    def incoming(parameters: lsp.CallHierarchyIncomingCallsParams) -> list[lsp.CallHierarchyIncomingCall]:
        return [lsp.CallHierarchyIncomingCall(caller, places) for caller, places in grouped(parameters.item, 1, 0)]

    @feature(lsp.CALL_HIERARCHY_OUTGOING_CALLS)
    @safely(list)
    def outgoing(parameters: lsp.CallHierarchyOutgoingCallsParams) -> list[lsp.CallHierarchyOutgoingCall]:
        return [lsp.CallHierarchyOutgoingCall(callee, places) for callee, places in grouped(parameters.item, 0, 1)]
