"""The language server, asked by a client over standard input and output."""

from __future__ import annotations

import re

import pytest
from lsprotocol import types as lsp

from tests.tools.lsp.client import TEXT, URI, Client, changed, named, opened, place, with_client


@with_client
async def test_diagnostics_and_their_fixes(client: Client) -> None:
    assert await opened(client) == []
    at = place(TEXT, "mov.u32 %r1")
    [wrong] = await changed(client, 2, at, lsp.Position(at.line, at.character + 7), "mov.u33")
    assert wrong.range.start.line == at.line and wrong.severity == lsp.DiagnosticSeverity.Error
    actions = await client.text_document_code_action_async(
        lsp.CodeActionParams(named(), wrong.range, lsp.CodeActionContext([wrong]))
    )
    edits = [a.edit.changes[URI] for a in actions]
    assert any(e.new_text in (".u32", "u32", "mov.u32") for [e] in edits)
    assert await changed(client, 3, at, lsp.Position(at.line, at.character + 7), "mov.u32") == []


@with_client
async def test_hover(client: Client) -> None:
    await opened(client)

    async def shown(piece: str, shift: int = 1) -> str:
        found = await client.text_document_hover_async(lsp.HoverParams(named(), place(TEXT, piece, shift)))
        return found.contents.value if found else ""

    assert "PTX ISA 9.7.10.8" in await shown("ld.param")
    assert "thread index in the CTA" in await shown("%tid")
    assert ".reg .b32 %r<10>" in await shown("%r1, %tid")
    assert "used on 1 line: 20" in await shown("$loop:")
    assert await shown("8.0") == ""


@with_client
async def test_completion_is_legal_here(client: Client) -> None:
    """For sm_80, wgmma and its like are not there; what is offered for `ld.global.` are words that ptxas takes there."""
    text = TEXT.replace("\tret;", "\tld.global.\n\tret;")
    await opened(client, text)

    async def offered(at: lsp.Position) -> list[str]:
        return [i.label for i in await client.text_document_completion_async(lsp.CompletionParams(named(), at))]

    words = await offered(place(text, "ld.global.", 10))
    assert {"nc", "v4", "u32", "relaxed", "L2::cache_hint"} <= set(words)
    assert not {"param", "aligned", "global"} & set(words)
    assert (await offered(place(text, "bra $loop", 4)))[0] == "$loop"
    registers = await offered(place(text, "%r1, %tid"))
    assert {"%r1", "%rd1", "%one", "%tid"} <= set(registers)
    assert "ld" in await offered(place(text, "\tmov.b32 %one, 1", 1))


@with_client
async def test_names(client: Client) -> None:
    await opened(client)
    inner = place(TEXT, "%one, 2")
    found = await client.text_document_definition_async(lsp.DefinitionParams(named(), inner))
    assert found.range.start == place(TEXT, "%one;", 0, 1)  # of the inner scope
    uses = await client.text_document_references_async(
        lsp.ReferenceParams(lsp.ReferenceContext(True), named(), place(TEXT, "%one, 1"))
    )
    assert sorted(u.range.start.line for u in uses) == [7, 12, 18]
    symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(named()))
    assert [s.name for s in symbols] == ["table", "k"]
    assert {"out", "n", "buf", "$loop", "%r<10>"} <= {c.name for c in symbols[1].children}
    folds = await client.text_document_folding_range_async(lsp.FoldingRangeParams(named()))
    assert (5, 21) in {(f.start_line, f.end_line) for f in folds}


@with_client
async def test_rename(client: Client) -> None:
    await opened(client)

    async def renamed(piece: str, new: str) -> list[lsp.TextEdit]:
        edit = await client.text_document_rename_async(lsp.RenameParams(named(), place(TEXT, piece), new))
        return edit.changes[URI]

    assert {e.range.start.line for e in await renamed("$loop:", "$again")} == {17, 19}
    assert {e.range.start.line for e in await renamed("%r1, %tid", "%x")} == {7, 11, 18, 20}  # all of %r<10>
    assert {e.range.start.line for e in await renamed("%one, 2", "%two")} == {14, 15}
    for piece, new in (("$loop:", "$1 x"), ("$loop:", "buf"), ("%one, 1", "%r3")):
        with pytest.raises(Exception, match=r"is not a valid PTX name|is used on line") as refused:
            await renamed(piece, new)
        assert refused.value.code == lsp.LSPErrorCodes.RequestFailed
        assert refused.value.message.startswith(f"{new} is ") and refused.value.data is None  # no traceback


@with_client
async def test_formatting_and_tokens(client: Client) -> None:
    text = TEXT.replace("\tmov.u32 %r1, %tid.x;", "  mov.u32   %r1,%tid.x;")
    await opened(client, text)
    [edit] = await client.text_document_formatting_async(
        lsp.DocumentFormattingParams(named(), lsp.FormattingOptions(8, False))
    )
    assert re.search(r"\tmov\.u32 +%r1, %tid\.x;\n", edit.new_text)
    found = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(named()))
    assert len(found.data) % 5 == 0 and len(found.data) > 300
    line, lines = 0, text.split("\n")
    for i in range(0, len(found.data), 5):  # each token lies in its line
        line += found.data[i]
        assert found.data[i + 2] <= len(lines[line])


@with_client
async def test_signature(client: Client) -> None:
    await opened(client)
    at = place(TEXT, "%r1, %one;", 4)
    found = await client.text_document_signature_help_async(lsp.SignatureHelpParams(named(), at))
    assert any(s.label.startswith("setp.") for s in found.signatures)
    assert found.active_parameter == 2


HOSTILE = [
    "",
    "\0\1\2",
    "{{{{{",
    "}}}}",
    ".entry",
    ".visible .entry k(",
    "/* never closed",
    '"',
    "%",
    TEXT[: len(TEXT) // 2],
    TEXT.replace("\n", "\r\n"),
    TEXT.replace("\n", "\r"),
    "é" * 50,
    "@",
    ".reg .b32 %r<999999999>;",
    "a:" * 500,
]


@with_client
async def test_it_never_dies(client: Client) -> None:
    for text in HOSTILE:
        await opened(client, text)
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(10**6, 0))
        await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(named()))
        await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(named()))
        await client.text_document_completion_async(lsp.CompletionParams(named(), lsp.Position(0, 1)))
        await client.text_document_hover_async(lsp.HoverParams(named(), lsp.Position(3, 500)))
        await client.text_document_code_action_async(lsp.CodeActionParams(named(), whole, lsp.CodeActionContext([])))
        await client.text_document_formatting_async(
            lsp.DocumentFormattingParams(named(), lsp.FormattingOptions(8, False))
        )
        await client.text_document_inlay_hint_async(lsp.InlayHintParams(named(), whole))
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(named()))
        await client.next_diagnostics()


@with_client
async def test_inlay_hints(client: Client) -> None:
    """A hint for each block; of the loop, how often it runs."""
    text = TEXT.replace("setp.eq.u32 %p1, %r1, %one;", "add.u32 %r2, %r2, 1;\n\tsetp.lt.u32 %p1, %r2, 12;").replace(
        "mov.b32 %one, 1;", "mov.b32 %r2, 0;"
    )
    await opened(client, text)
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(10**6, 0))
    hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(named(), whole))
    lines = text.split("\n")
    shown = {lines[h.position.line].strip(): h.label for h in hints}
    # live in the loop: the pointer (two registers of 32 bits), %r1 and %r2
    assert shown["$loop:"] == "4 registers, 12 rounds" and len(shown) == 3
    assert all(h.position.character == len(lines[h.position.line]) for h in hints)
    first = lsp.Range(lsp.Position(0, 0), lsp.Position(hints[0].position.line, 0))
    assert len(await client.text_document_inlay_hint_async(lsp.InlayHintParams(named(), first))) == 1
    await changed(client, 2, lsp.Position(0, 0), lsp.Position(0, 0), "nonsense\n")
    assert not await client.text_document_inlay_hint_async(lsp.InlayHintParams(named(), whole))


@with_client
async def test_line_ends(client: Client) -> None:
    """CR alone ends a line of the protocol (LSP 3.17, Text Documents); diagnostics are where the same text with LF has them."""
    wrong = TEXT.replace("mov.u32 %r1", "mov.u33 %r1").replace("// ", "")
    [expected] = await opened(client, wrong)
    for end in ("\r\n", "\r"):
        text = wrong.replace("\n", end)
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(named()))
        await client.next_diagnostics()
        [found] = await opened(client, text)
        assert found.range.start == expected.range.start
        at = place(wrong, "mov.u33")
        assert await changed(client, 2, at, lsp.Position(at.line, at.character + 7), "mov.u32") == []


@with_client
async def test_columns_are_utf16(client: Client) -> None:
    """LSP 3.17, Position: a column counts UTF-16 code units, of which a character outside of the BMP has two."""
    text = TEXT.replace("mov.b32 %one, 1;", "/* \U0001f600\u00e9\U0001f600 */ mov.b32 %one, %rd1;")
    [line] = [n for n, row in enumerate(text.split("\n")) if "%rd1;" in row]
    row = text.split("\n")[line].encode("utf-16-le")

    def piece(found: lsp.Range) -> str:
        assert found.start.line == found.end.line == line
        return row[2 * found.start.character : 2 * found.end.character].decode("utf-16-le")

    [wrong] = await opened(client, text)
    assert piece(wrong.range) == "%rd1"
    actions = await client.text_document_code_action_async(
        lsp.CodeActionParams(named(), wrong.range, lsp.CodeActionContext([wrong]))
    )
    assert actions and all(
        piece(e.range) in ("%rd1", "mov.b32", "b32", ".b32") for a in actions for e in a.edit.changes[URI]
    )
    at = lsp.Position(
        line, row.decode("utf-16-le").index("%one") + 3
    )  # two wide characters before it, and one into the name
    edit = await client.text_document_rename_async(lsp.RenameParams(named(), at, "%two"))
    assert [piece(e.range) for e in edit.changes[URI] if e.range.start.line == line] == ["%one"]
    tokens = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(named()))
    at_line = column = 0
    found: list[str] = []
    for down, right, length in zip(tokens.data[::5], tokens.data[1::5], tokens.data[2::5], strict=True):
        at_line, column = at_line + down, right + (0 if down else column)
        if at_line == line:
            found.append(piece(lsp.Range(lsp.Position(line, column), lsp.Position(line, column + length))))
    assert found == ["/* \U0001f600\u00e9\U0001f600 */", "mov", ".b32", "%one", "%rd1"]
