"""Code lenses and their commands, the call hierarchy, PTX in other languages, and what is left of the service for large files."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp

from pyptx.prediction.cards import card_of
from pyptx.runtime.ptxas import ToolNotFound, find_tool
from tests.tools.lsp.client import TEXT, URI, Client, changed, named, opened, place, with_client

CALLS = """.version 8.0
.target sm_90
.address_size 64
.func leaf() { ret; }
.func twice() { call leaf; call.uni leaf; ret; }
.entry k() { .reg .b64 %rd<2>; mov.u64 %rd1, leaf; call twice; ret; }
"""
LAUNCHED = TEXT.replace("@%p1 bra $loop;", "").replace(
    ".visible", '// pyptx: --grid 2 --block 32 --arg zeros:u32:2 --arg u32:0 --card "H100 SXM"\n.visible'
)


def tools_are_there() -> bool:
    try:
        return bool(find_tool("ptxas") and find_tool("nvdisasm"))
    except ToolNotFound:
        return False


@with_client
async def test_lenses(client: Client) -> None:
    """Registers are those that ptxas gives this text; the time is that of a card that the comment names; simulating tells what is wrong."""
    if not tools_are_there():
        pytest.skip("ptxas and nvdisasm are not installed")
    await opened(client, LAUNCHED)
    lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(named()))
    assert all(lens.range.start == place(LAUNCHED, "k(") for lens in lenses)
    resources, predicted, simulate = lenses
    title = (await client.code_lens_resolve_async(resources)).command.title
    assert title.startswith("ptxas: ") and "64 bytes shared" in title and "occupancy" in title
    title = (await client.code_lens_resolve_async(predicted)).command.title
    assert title.startswith("predicted: ") and f"on {card_of('H100 SXM').name}" in title
    command = simulate.command
    answer = await client.workspace_execute_command_async(lsp.ExecuteCommandParams(command.command, command.arguments))
    found = await client.next_diagnostics()
    store = place(LAUNCHED, "st.global")
    assert [d.range.start.line for d in found if "different values to the same place" in d.message] == [
        store.line
    ]  # all threads store to one word
    assert client.messages == [answer["summary"]] and "zeros:u32:2 = [" in answer["summary"]
    listing = await client.workspace_execute_command_async(lsp.ExecuteCommandParams("pyptx.sass", [URI, "k"]))
    assert "STG" in listing and "// st.global.u32 [%rd1], %r1;" in listing
    assert (
        await changed(client, 2, lsp.Position(0, 0), lsp.Position(0, 0), "\n") == []
    )  # what was simulated is another text


@with_client
async def test_lenses_of_wrong_launches(client: Client) -> None:
    text = LAUNCHED.replace("--grid 2", "--gird 2")
    await opened(client, text)
    lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(named()))
    assert "unrecognized arguments: --gird 2" in lenses[1].command.title and len(lenses) == 2
    text = LAUNCHED.replace("--arg u32:0", "--arg u33:0")
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(named()))
    await client.next_diagnostics()
    await opened(client, text)
    for arguments in ([URI, "k"], [URI, "nosuch"]):
        await client.workspace_execute_command_async(lsp.ExecuteCommandParams("pyptx.simulate", arguments))
    wrong, missing = client.messages
    assert "--arg u33:0: write TYPE:VALUE" in wrong and missing == "nosuch is not an entry of this file"


@with_client
async def test_call_hierarchy(client: Client) -> None:
    """A call counts, an address does not."""
    await opened(client, CALLS)

    async def at(piece: str) -> lsp.CallHierarchyItem:
        [item] = await client.text_document_prepare_call_hierarchy_async(
            lsp.CallHierarchyPrepareParams(named(), place(CALLS, piece))
        )
        return item

    twice = await at("call leaf")
    assert twice.name == "twice" and (await at("leaf;")).name == "leaf"
    [down] = await client.call_hierarchy_outgoing_calls_async(lsp.CallHierarchyOutgoingCallsParams(twice))
    assert down.to.name == "leaf" and [r.start for r in down.from_ranges] == [
        place(CALLS, "leaf", 0, 1),
        place(CALLS, "leaf", 0, 2),
    ]
    [up] = await client.call_hierarchy_incoming_calls_async(lsp.CallHierarchyIncomingCallsParams(twice))
    assert up.from_.name == "k"
    of_leaf = await client.call_hierarchy_incoming_calls_async(lsp.CallHierarchyIncomingCallsParams(down.to))
    assert [call.from_.name for call in of_leaf] == ["twice"]


PYTHON = """TEXT = (
    ".version 8.0\\n.target sm_90\\n"  # two literals
    ".entry k() {\\n\\t.reg .b32 %r<4>;\\n\\tadd.u33 %r1, %r2, %r3;\\n\\tret;\\n}\\n"
)
RAW = r'''.version 8.0
.target sm_90
.entry k() { .reg .b32 %r<4>; mul.u32 %r1, %r2, %r3; ret; }
'''
filled = ".version 8.0\\n.target {target}\\n.entry k() { nonsense; }".format(target="sm_90")
also = f".version 8.0\\n.target sm_90\\n.entry {name}() {{ nonsense; }}"
part = head + ".version 8.0\\n.target sm_90\\n.entry k() { nonsense; }"
"""
CUDA = """__device__ int f(int a, float *p, int n) {
    int d;
    asm volatile("{ .reg .pred q;\\n\\t"
                 "setp.eq.s33 q, %1, 0; /* wrong */\\n\\t"
                 "selp.s32 %0, 1, 0, q; }" : "=r"(d) : "r"(a) : "memory");
    asm("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(d), "l"(p), "n"(sizeof(int4)));
    asm("tcgen05.wait::ld.sync.aligned;");
    asm("shfl.bfly.b32 %0, %1, %2, %3;" : "=f"(*p) : "f"(*p), "r"(d), "r"(0));
    asm("mov.u32 %0, %%clock_hi; add.s32 %0, %0, %9;" : "=r"(d));
    asm("ld" CACHE ".u32 %0, [%1];" : "=r"(d) : "l"(p));
    asm("pause");
    return d;
}
"""


@with_client
async def test_ptx_in_other_languages(client: Client) -> None:
    """Found where its text is certain; what one target or immediate takes is right."""
    for uri, text, wrong in (
        ("file:///kernel.py", PYTHON, ["u33", "mul.u32"]),
        ("file:///kernel.cu", CUDA, ["s33", "%9"]),
    ):
        found = await opened(client, text, uri)
        lines = text.split("\n")
        pieces = [lines[d.range.start.line][d.range.start.character :] for d in found]
        assert [w for piece, w in zip(pieces, wrong, strict=True) if not piece.lstrip(".").startswith(w)] == []
        shown = [
            await client.text_document_hover_async(lsp.HoverParams(named(uri), place(text, w, -2))) for w in wrong[:1]
        ]
        assert "PTX ISA" in shown[0].contents.value
        nothing = await client.text_document_hover_async(lsp.HoverParams(named(uri), lsp.Position(0, 1)))
        assert nothing is None
        assert (
            await client.text_document_formatting_async(
                lsp.DocumentFormattingParams(named(uri), lsp.FormattingOptions(4, True))
            )
            is None
        )
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(named(uri)))
        assert await client.next_diagnostics() == []


@with_client
async def test_ten_megabytes(client: Client) -> None:
    """Judged when opened and saved; edits and other requests are answered at once, with nothing."""
    text = TEXT + ("// " + "x" * 1000 + "\n") * 10_000
    assert len(text) > 10_000_000 and await opened(client, text) == []
    at = place(TEXT, "mov.u32 %r1")
    end = lsp.Position(at.line, at.character + 7)
    client.text_document_did_change(
        lsp.DidChangeTextDocumentParams(
            lsp.VersionedTextDocumentIdentifier(2, URI),
            [lsp.TextDocumentContentChangePartial(lsp.Range(at, end), "mov.u33")],
        )
    )
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(10**6, 0))
    tokens = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(named()))
    assert not tokens.data and client.published.empty()
    assert not await client.text_document_inlay_hint_async(lsp.InlayHintParams(named(), whole))
    assert not await client.text_document_code_lens_async(lsp.CodeLensParams(named()))
    assert await client.text_document_hover_async(lsp.HoverParams(named(), at)) is None
    client.text_document_did_save(lsp.DidSaveTextDocumentParams(named()))
    [wrong] = await client.next_diagnostics()
    assert wrong.range.start.line == at.line
