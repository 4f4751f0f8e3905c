"""Hints next to the code, and lines above each entry: what ptxas makes of it, how long it takes, "simulate"."""

from __future__ import annotations

import logging
from typing import Any

from lsprotocol import types as lsp

from ...diagnostics import Diagnostic
from .document import LARGE, Document
from .launches import EXAMPLE, MARK, WrongLaunch, launch_of
from .names import Definition
from .session import PtxServer, safely
from .worker import JobFailed

__all__ = ["add_lenses"]

LOG = logging.getLogger(__name__)
SMALL = LARGE // 4
"""Characters up to which hints and lenses are computed."""


def _entries(document: Document) -> list[Definition]:
    names = document.names
    bodies = {id(s.function) for s in names.scopes}
    return [d for d in names.module.names.values() if d.kind == "entry" and id(d) in bodies]


def _lenses(document: Document, uri: str) -> list[lsp.CodeLens]:
    found: list[lsp.CodeLens] = []
    for entry in _entries(document) if len(document.text) <= SMALL else ():
        place = document.range(entry.start, entry.end)
        about = {"uri": uri, "entry": entry.name, "start": entry.start}
        found.append(lsp.CodeLens(place, data={**about, "job": "resources"}))
        try:
            launch = launch_of(document.text, entry.start)
        except WrongLaunch as error:
            found.append(lsp.CodeLens(place, command=lsp.Command(str(error), "")))
            continue
        if launch is not None and launch.card:
            found.append(lsp.CodeLens(place, data={**about, "job": "predicted"}))
        found.append(
            lsp.CodeLens(place, command=lsp.Command("simulate", "pyptx.simulate", arguments=[uri, entry.name]))
        )
    return found


def add_lenses(server: PtxServer) -> None:
    """The requests for hints and lenses, and the commands that lenses have."""
    _add_hints(server)
    _add_commands(server)
    feature = server.feature

    @feature(lsp.TEXT_DOCUMENT_CODE_LENS, lsp.CodeLensOptions(resolve_provider=True))
    @server.thread()
    @safely(list)
    def lenses(parameters: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = parameters.text_document.uri
        return _lenses(server.document(uri), uri)

    @feature(lsp.CODE_LENS_RESOLVE)
    async def resolve(lens: lsp.CodeLens) -> lsp.CodeLens:
        """A lens without an answer says why."""
        data: Any = lens.data
        try:
            given: dict[str, Any] = {"entry": data["entry"], "text": server.document(data["uri"]).text}
            if data["job"] == "predicted":
                given["start"] = data["start"]
            title = await server.jobs.ask(data["job"], about=f"{data['uri']} {data['entry']}", **given)
        except JobFailed as error:
            title = f"no {'predicted time' if data['job'] == 'predicted' else 'registers'}: {error}"
        except Exception:
            LOG.exception("a code lens failed")
            title = ""
        lens.command = lsp.Command(title.split("\n", 1)[0], "")
        return lens


def _add_hints(server: PtxServer) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    @safely(list)
    async def inlays(parameters: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        uri = parameters.text_document.uri
        document = server.document(uri)
        if document.language != "ptx" or len(document.text) > SMALL:
            return []
        if document.hints is None:
            try:
                document.hints = await server.hints.ask("inlay", about=uri, text=document.text)
            except JobFailed as error:
                LOG.info("no hints: %s", error)
                return []
        first, last = parameters.range.start.line, parameters.range.end.line
        ends = [(document.position(document.line_end(hint["line"])), hint) for hint in document.hints or ()]
        return [
            lsp.InlayHint(at, hint["label"], tooltip=hint["meaning"], padding_left=True)
            for at, hint in ends
            if first <= at.line <= last
        ]


def _add_commands(server: PtxServer) -> None:
    @server.command("pyptx.simulate")
    async def simulate(uri: str, entry: str) -> dict[str, Any] | None:
        """What is found is shown as diagnostics until the text changes, the rest as a message."""
        document = server.document(uri)
        found = next((d for d in _entries(document) if d.name == entry), None)
        if found is None:
            return _said(server, lsp.MessageType.Error, f"{entry} is not an entry of this file")
        try:
            answer = await server.jobs.ask("simulate", about=uri, text=document.text, entry=entry, start=found.start)
        except JobFailed as error:
            return _said(server, lsp.MessageType.Error, f"{entry} was not simulated: {error}")
        findings = [Diagnostic(**f) for f in answer["findings"]]
        if server.document(uri) is document:
            document.simulated = findings
            server.publish(uri, document)
        failed = any(f.severity == "error" for f in findings)
        if failed and MARK not in document.text:
            answer["summary"] += f". The launch can be given above the entry: {EXAMPLE}"
        _said(server, lsp.MessageType.Warning if failed else lsp.MessageType.Info, answer["summary"])
        return answer

    @server.command("pyptx.sass")
    async def sass(uri: str, entry: str) -> str | None:
        """The machine code of an entry with its PTX lines, for the editor to show."""
        try:
            return await server.jobs.ask("sass", about=uri, text=server.document(uri).text, entry=entry)
        except JobFailed as error:
            return _said(server, lsp.MessageType.Error, f"{entry} has no machine code: {error}")


def _said(server: PtxServer, kind: lsp.MessageType, text: str) -> None:
    server.window_show_message(lsp.ShowMessageParams(kind, text))
