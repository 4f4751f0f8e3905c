"""The language server while one types: the time from an edit to its diagnostics, over standard input and output as an editor has it.

python -m benchmarks.editing [--edits 60]

An instruction is typed into the middle of a generated kernel, a character at a time, and deleted again. "with requests": the editor
also asks for semantic tokens, hints and lenses every tenth edit, as editors do when one pauses.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from benchmarks._table import Table
from benchmarks.text import generated

URI = "file:///kernel.ptx"
TYPED = "add.s32 %r1, %r2, %r3;"
BUDGETS = {1_500: 100, 10_000: 300}
"""Lines of the kernel -> milliseconds that 95 of 100 edits may take."""


async def measured(lines: int, edits: int, requests: bool) -> list[float]:
    """Milliseconds of each edit, sorted."""
    client = LanguageClient("benchmark", "1")
    published: asyncio.Queue[int | None] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def keep(parameters: lsp.PublishDiagnosticsParams) -> None:
        published.put_nowait(parameters.version)

    await client.start_io(sys.executable, "-m", "pyptx.tools.cli", "lsp")
    await client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities()))
    client.initialized(lsp.InitializedParams())
    text = generated(lines)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(URI, "ptx", 1, text)))
    await published.get()
    line = text.count("\n", 0, text.index("\n", len(text) // 2)) + 1
    named = lsp.TextDocumentIdentifier(URI)
    whole = lsp.Range(lsp.Position(line - 30, 0), lsp.Position(line + 30, 0))
    times: list[float] = []
    waiting: list[asyncio.Future[object]] = []
    for edit in range(edits):
        at = edit % (2 * len(TYPED))
        typing = at < len(TYPED)
        column = at if typing else 2 * len(TYPED) - at - 1
        start, end = lsp.Position(line, column), lsp.Position(line, column + (not typing))
        change = lsp.TextDocumentContentChangePartial(lsp.Range(start, end), TYPED[at] if typing else "")
        begin = time.perf_counter()
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(edit + 2, URI), [change])
        )
        while await published.get() != edit + 2:
            pass
        times.append((time.perf_counter() - begin) * 1000)
        if requests and edit % 10 == 9:
            waiting += [
                asyncio.ensure_future(client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(named))),
                asyncio.ensure_future(client.text_document_inlay_hint_async(lsp.InlayHintParams(named, whole))),
                asyncio.ensure_future(client.text_document_code_lens_async(lsp.CodeLensParams(named))),
            ]
        await asyncio.sleep(0.05)  # a fast typist
    await asyncio.gather(*waiting)
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return sorted(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=60)
    options = parser.parse_args()
    table = Table("edits", "ms")
    for lines, budget in BUDGETS.items():
        for requests in (False, True):
            times = asyncio.run(measured(lines, options.edits, requests))
            what = f"{lines} lines{', with requests' if requests else ''}"
            table.add(f"{what}: median", times[len(times) // 2])
            table.add(f"{what}: p95", times[min(int(len(times) * 0.95), len(times) - 1)], at_most=budget)
    table.print()


if __name__ == "__main__":
    main()
