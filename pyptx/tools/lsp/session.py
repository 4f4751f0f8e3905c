"""The server's state: open documents, what was found in them, the processes that do what takes long."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from ... import __version__
from ...diagnostics import Diagnostic
from .document import Document
from .embedded import language_of
from .worker import Worker

__all__ = ["PtxServer", "diagnostic_of", "safely"]

LOG = logging.getLogger(__name__)
SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "advice": lsp.DiagnosticSeverity.Information,
    "note": lsp.DiagnosticSeverity.Hint,
}


def safely(default: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An exception becomes a line in the log and an empty answer: the server goes on."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        def failed() -> Any:
            LOG.exception("%s failed", function.__name__)
            return default() if callable(default) else default

        @wraps(function)
        def guarded(*args: Any) -> Any:
            try:
                return function(*args)
            except Exception:
                return failed()

        @wraps(function)
        async def guarded_later(*args: Any) -> Any:
            try:
                return await function(*args)
            except Exception:
                return failed()

        return guarded_later if inspect.iscoroutinefunction(function) else guarded

    return decorate


class PtxServer(LanguageServer):
    """One client: its open documents."""

    def __init__(self) -> None:
        super().__init__("pyptx", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental)
        self.documents: dict[str, Document] = {}
        self.hints, self.jobs = Worker(), Worker()
        """Hints are wanted after each edit; jobs take longer, and are asked for one by one."""

    def shutdown(self) -> None:
        self.hints.stop()
        self.jobs.stop()
        super().shutdown()

    def document(self, uri: str) -> Document:
        """The current text of a document; what was computed of it is kept until it changes."""
        source = self.workspace.get_text_document(uri)
        known = self.documents.get(uri)
        if known is None or known.version != source.version:
            known = self.documents[uri] = Document(source.source, source.version, language_of(uri))
        return known

    def judge(self, uri: str) -> None:
        """Publish the diagnostics of a document."""
        document = self.document(uri)
        try:
            document.found = document.diagnose()
        except Exception:
            LOG.exception("diagnosing %s failed", uri)
            document.found = []
        self.publish(uri, document)

    def publish(self, uri: str, document: Document) -> None:
        found = [*document.found[:1000], *document.simulated[:1000]]
        items = [diagnostic_of(document, d) for d in found]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, items, document.version))


def diagnostic_of(document: Document, d: Diagnostic) -> lsp.Diagnostic:
    start = document.place(d.line or 1, d.column or 1)
    end = document.line_end(d.line or 1)
    word = re.compile(r"[%.\w$:]+|.").match(document.text, start)
    if d.column is not None and word is not None and word.end() <= end:
        end = word.end()
    return lsp.Diagnostic(
        document.range(min(start, end), end),
        d.message + (f"\n{d.hint}" if d.hint else ""),
        severity=SEVERITIES[d.severity],
        source="pyptx",
    )
