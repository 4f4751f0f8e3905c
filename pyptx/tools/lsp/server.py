"""The server (Language Server Protocol 3.17, by pygls): documents in, diagnostics, completion, hover and the rest out."""

from __future__ import annotations

import re

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from ...diagnostics import PTXError
from .calls import add_calls
from .completion import completions
from .document import LARGE, Document
from .hover import hover_text, instruction_at
from .lenses import add_lenses
from .names import Definition
from .session import PtxServer, diagnostic_of, safely

__all__ = ["make_server"]

ITEMS = {
    "opcode": lsp.CompletionItemKind.Function,
    "modifier": lsp.CompletionItemKind.EnumMember,
    "register": lsp.CompletionItemKind.Variable,
    "special": lsp.CompletionItemKind.Constant,
    "label": lsp.CompletionItemKind.Reference,
    "variable": lsp.CompletionItemKind.Field,
    "parameter": lsp.CompletionItemKind.Property,
    "function": lsp.CompletionItemKind.Function,
    "entry": lsp.CompletionItemKind.Function,
    "directive": lsp.CompletionItemKind.Keyword,
}
SYMBOLS = {
    "entry": lsp.SymbolKind.Function, "function": lsp.SymbolKind.Function, "variable": lsp.SymbolKind.Variable,
    "label": lsp.SymbolKind.Key, "parameter": lsp.SymbolKind.Property, "register": lsp.SymbolKind.Field,
}  # fmt: skip
TOKENS = ["comment", "string", "number", "keyword", "function", "modifier", "variable", "parameter", "label", "macro"]
"""The legend of semantic tokens."""


def symbol_of(document: Document, d: Definition, end: int | None = None) -> lsp.DocumentSymbol:
    own = document.range(d.start, d.end)
    whole = own if end is None else document.range(d.start, end)
    name = d.name if d.count is None else f"{d.name}<{d.count}>"
    return lsp.DocumentSymbol(name, SYMBOLS[d.kind], whole, own, detail=d.detail)


def semantic_tokens(document: Document) -> list[int]:
    """Five numbers for each token (LSP 3.17, textDocument/semanticTokens): line, column, length, type, modifiers."""
    names = document.names
    kinds = {d.start: d.kind for d in names.definitions}
    kinds |= {u.start: d.kind for d in names.definitions for u in d.uses}
    styles = {"register": "variable", "entry": "function"}
    data: list[int] = []
    before_line, before_column, opcode_end = 0, 0, -1
    for token in names.tokens:
        if token.kind == "mark":
            continue
        if token.kind == "directive":
            style = "modifier" if token.start == opcode_end else "keyword"
        elif token.kind == "name":
            known = kinds.get(token.start)
            style = styles.get(known or "", known or ("variable" if token.text[0] == "%" else "keyword"))
        else:
            style = {"preprocessor": "macro"}.get(token.kind, token.kind)
        if style in ("keyword", "modifier") and token.kind in ("name", "directive"):
            opcode_end = token.end
        start = token.start
        for piece in token.text.split("\n"):  # comments of several lines
            at = document.position(start)
            if piece:
                column = at.character - before_column if at.line == before_line else at.character
                data += [
                    at.line - before_line,
                    column,
                    document.units(start, start + len(piece)),
                    TOKENS.index(style if style in TOKENS else "variable"),
                    0,
                ]
                before_line, before_column = at.line, at.character
            start += len(piece) + 1
    return data


def make_server() -> PtxServer:  # noqa: C901  the handlers of one server, as closures
    """A server that is not started yet: `start_io()` or `start_tcp(host, port)`."""
    server = PtxServer()
    feature = server.feature

    @feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    @safely(None)
    def opened(parameters: lsp.DidOpenTextDocumentParams) -> None:
        server.judge(parameters.text_document.uri)

    @feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    @safely(None)
    def changed(parameters: lsp.DidChangeTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        if len(server.document(uri).text) <= LARGE:
            server.judge(uri)

    @feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    @safely(None)
    def saved(parameters: lsp.DidSaveTextDocumentParams) -> None:
        server.judge(parameters.text_document.uri)

    @feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    @safely(None)
    def closed(parameters: lsp.DidCloseTextDocumentParams) -> None:
        uri = parameters.text_document.uri
        server.documents.pop(uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @feature(lsp.TEXT_DOCUMENT_HOVER)
    @safely(None)
    def hover(parameters: lsp.HoverParams) -> lsp.Hover | None:
        place = server.document(parameters.text_document.uri).inside(parameters.position)
        text = None if place is None else hover_text(*place)
        return None if text is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text))

    @feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", "%", "@"]))
    @safely(list)
    def complete(parameters: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        place = server.document(parameters.text_document.uri).inside(parameters.position)
        found = [] if place is None else completions(*place)
        return [
            lsp.CompletionItem(item.label, kind=ITEMS[item.kind], detail=item.detail or None, sort_text=f"{i:05}")
            for i, item in enumerate(found)
        ]

    @feature(lsp.TEXT_DOCUMENT_DEFINITION)
    @safely(None)
    def definition(parameters: lsp.DefinitionParams) -> lsp.Location | None:
        uri = parameters.text_document.uri
        document = server.document(uri)
        found = document.names.definition_at(document.offset(parameters.position))
        return None if found is None else lsp.Location(uri, document.range(found.start, found.end))

    @feature(lsp.TEXT_DOCUMENT_REFERENCES)
    @safely(list)
    def references(parameters: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = parameters.text_document.uri
        document = server.document(uri)
        return [lsp.Location(uri, r) for r in places_of(document, document.offset(parameters.position))]

    @feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    @safely(list)
    def highlight(parameters: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        document = server.document(parameters.text_document.uri)
        return [lsp.DocumentHighlight(r) for r in places_of(document, document.offset(parameters.position))]

    @feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    @safely(None)
    def prepare_rename(parameters: lsp.PrepareRenameParams) -> lsp.Range | None:
        document = server.document(parameters.text_document.uri)
        offset = document.offset(parameters.position)
        token = document.names.token_at(offset)
        found = document.names.definition_at(offset)
        return None if found is None or token is None else document.range(token.start, token.start + len(found.name))

    @feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(parameters: lsp.RenameParams) -> lsp.WorkspaceEdit:
        uri = parameters.text_document.uri
        document = server.document(uri)
        try:
            edits = renamed(document, document.offset(parameters.position), parameters.new_name)
        except PTXError as error:  # an answer for the user: no traceback, no line in the log
            raise JsonRpcException(error.diagnostics[0].message, lsp.LSPErrorCodes.RequestFailed) from None
        return lsp.WorkspaceEdit(changes={uri: edits})

    @feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    @safely(list)
    def symbols(parameters: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        document = server.document(parameters.text_document.uri)
        names = document.names
        found = [symbol_of(document, d) for d in names.module.names.values() if d.kind not in ("entry", "function")]
        bodies = {id(s.function): s for s in names.scopes if s.function is not None}
        for d in names.module.names.values():
            if d.kind in ("entry", "function"):
                body = bodies.get(id(d))
                symbol = symbol_of(document, d, body.end if body else None)
                inner = [] if body is None else [*body.names.values(), *body.families.values()]
                symbol.children = [symbol_of(document, i) for i in inner]
                found.append(symbol)
        return found

    @feature(lsp.TEXT_DOCUMENT_FOLDING_RANGE)
    @safely(list)
    def folding(parameters: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
        document = server.document(parameters.text_document.uri)
        pairs = [(document.position(s.start).line, document.position(s.end).line) for s in document.names.scopes[1:]]
        comments = [t for t in document.names.tokens if t.kind == "comment" and "\n" in t.text]
        found = [lsp.FoldingRange(a, b - 1) for a, b in pairs if b - 1 > a]
        return found + [
            lsp.FoldingRange(
                document.position(t.start).line, document.position(t.end).line, kind=lsp.FoldingRangeKind.Comment
            )
            for t in comments
        ]

    @feature(lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, lsp.SemanticTokensLegend(TOKENS, []))
    @server.thread()
    @safely(lambda: lsp.SemanticTokens([]))
    def tokens(parameters: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        return lsp.SemanticTokens(semantic_tokens(server.document(parameters.text_document.uri)))

    @feature(lsp.TEXT_DOCUMENT_FORMATTING)
    @safely(None)
    def formatting(parameters: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
        from ..commands.fmt import format_text

        document = server.document(parameters.text_document.uri)
        if document.language != "ptx" or len(document.text) > LARGE:
            return None
        try:
            text = format_text(document.text)
        except PTXError:
            return None  # the diagnostics say why
        return [] if text == document.text else [lsp.TextEdit(document.range(0, len(document.text)), text)]

    @feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
    @safely(list)
    def actions(parameters: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = parameters.text_document.uri
        document = server.document(uri)
        first, last = parameters.range.start.line + 1, parameters.range.end.line + 1
        found: list[lsp.CodeAction] = []
        for d in document.found:
            if d.line is None or not first <= d.line <= last:
                continue
            for fix in d.fixes:
                edits = [
                    lsp.TextEdit(
                        document.range(document.place(e.line, e.column), document.place(e.end_line, e.end_column)),
                        e.text,
                    )
                    for e in fix.edits
                ]
                title = fix.title[:1].upper() + fix.title[1:]
                found.append(
                    lsp.CodeAction(
                        title,
                        kind=lsp.CodeActionKind.QuickFix,
                        diagnostics=[diagnostic_of(document, d)],
                        edit=lsp.WorkspaceEdit(changes={uri: edits}),
                    )
                )
        return found

    @feature(lsp.TEXT_DOCUMENT_SIGNATURE_HELP, lsp.SignatureHelpOptions(trigger_characters=[",", " "]))
    @safely(None)
    def signature(parameters: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        return signature_help(server.document(parameters.text_document.uri), parameters.position)

    add_calls(server)
    add_lenses(server)
    return server


def places_of(document: Document, offset: int) -> list[lsp.Range]:
    """The definition and the uses of the name at a place; of a range of registers, only those of this one."""
    found = document.names.definition_at(offset)
    token = document.names.token_at(offset)
    if found is None or token is None:
        return []
    wanted = token.text.partition(".")[0]
    uses = [
        u for u in found.uses if found.count is None or token.start == found.start or u.text.partition(".")[0] == wanted
    ]
    return [
        document.range(found.start, found.end),
        *(document.range(u.start, u.start + len(u.text.partition(".")[0])) for u in uses),
    ]


def renamed(document: Document, offset: int, new: str) -> list[lsp.TextEdit]:
    """The edits of a rename; of `%r<10>`, all its registers get the new stem. PTXError (an answer of the protocol) where the name
    is not valid, or would mean something else somewhere.
    """
    names = document.names
    found = names.definition_at(offset)
    if found is None:
        raise PTXError("no name here can be renamed")
    if not re.fullmatch(r"[A-Za-z][\w$]*|[_$%][\w$]+", new):
        raise PTXError(f"{new} is not a valid PTX name")
    numbered = re.compile(re.escape(new) + r"\d*" if found.count is not None else re.escape(new))
    taken = next((t for t in names.tokens if t.kind == "name" and numbered.fullmatch(t.text.partition(".")[0])), None)
    stem = new.rstrip("0123456789")
    family = next((d for d in names.definitions if d.count is not None and d.name == stem != new), None)
    if taken is not None or family is not None:
        where = (
            document.position(taken.start if taken is not None else family.start if family is not None else 0).line + 1
        )
        raise PTXError(f"{new} is used on line {where}: choose an unused name")
    length = len(found.name)
    places = [found.start, *(u.start for u in found.uses)]
    return [lsp.TextEdit(document.range(p, p + length), new) for p in sorted(set(places))]


def signature_help(document: Document, position: lsp.Position) -> lsp.SignatureHelp | None:
    """The forms of the instruction that is being written, and which operand comes."""
    offset = document.offset(position)
    text = document.text
    begin = max(text.rfind(c, 0, offset) for c in ";{}\n") + 1
    token = next((t for t in document.names.tokens if t.start >= begin and t.kind == "name" and t.text[0] != "%"), None)
    if token is None or token.end >= offset:
        return None
    found = instruction_at(document.names, token)
    if found is None:
        return None
    cls, modifiers = found
    forms = [f for f in cls.forms if f.places(tuple(modifiers)) is not None] or list(cls.forms)
    labels = list(dict.fromkeys(f.syntax for f in forms))
    signatures = [
        lsp.SignatureInformation(
            label, parameters=[lsp.ParameterInformation(p.strip()) for p in label.partition(" ")[2].split(",")]
        )
        for label in labels
    ]
    return lsp.SignatureHelp(signatures, active_signature=0, active_parameter=text[begin:offset].count(","))
