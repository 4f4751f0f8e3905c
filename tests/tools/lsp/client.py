"""A client of the language server, over its standard input and output."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from functools import wraps

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

URI = "file:///kernel.ptx"
TEXT = """.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .b32 table[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 out, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<10>, %one;
	.reg .b64 %rd<4>;
	.shared .align 16 .b8 buf[64];
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mov.b32 %one, 1;
	{
		.reg .b32 %one;
		mov.b32 %one, 2;
	}
$loop:
	setp.eq.u32 %p1, %r1, %one;
	@%p1 bra $loop;
	st.global.u32 [%rd1], %r1;
	ret;
}
"""


class Client(LanguageClient):
    """A client that remembers what the server published last, and waits for it."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.published: asyncio.Queue[list[lsp.Diagnostic]] = asyncio.Queue()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def keep(parameters: lsp.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(list(parameters.diagnostics))

        self.messages: list[str] = []

        @self.feature(lsp.WINDOW_SHOW_MESSAGE)
        def said(parameters: lsp.ShowMessageParams) -> None:
            self.messages.append(parameters.message)

    async def next_diagnostics(self) -> list[lsp.Diagnostic]:
        return await asyncio.wait_for(self.published.get(), 60)


def with_client(test: Callable[[Client], Awaitable[None]]) -> Callable[[], None]:
    """Runs a test with a server of its own, which must still answer afterwards."""

    async def session() -> None:
        client = Client()
        await client.start_io(sys.executable, "-m", "pyptx.tools.cli", "lsp")
        await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
        client.initialized(lsp.InitializedParams())
        await test(client)
        await asyncio.wait_for(client.shutdown_async(None), 60)
        client.exit(None)
        await client.stop()

    @wraps(test)
    def run() -> None:
        asyncio.run(session())

    del run.__wrapped__  # pytest would ask for its argument
    return run


def place(text: str, piece: str, shift: int = 0, occurrence: int = 0) -> lsp.Position:
    at = [m.start() for m in re.finditer(re.escape(piece), text)][occurrence] + shift
    return lsp.Position(text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1)


def named(uri: str = URI) -> lsp.TextDocumentIdentifier:
    return lsp.TextDocumentIdentifier(uri)


async def opened(client: Client, text: str = TEXT, uri: str = URI) -> list[lsp.Diagnostic]:
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "ptx", 1, text)))
    return await client.next_diagnostics()


async def changed(
    client: Client, version: int, start: lsp.Position, end: lsp.Position, text: str
) -> list[lsp.Diagnostic]:
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(version, URI),
            [lsp.TextDocumentContentChangePartial(lsp.Range(start, end), text)],
        )
    )
    return await client.next_diagnostics()
