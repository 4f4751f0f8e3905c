"""What the page docs/playground.md calls, in Pyodide: texts in, text out."""

from __future__ import annotations

import re

__all__ = ["check", "run"]


def check(text: str) -> str:
    """Every diagnostic of a PTX text, as `pyptx check` prints them; needs neither NumPy nor a parsed module."""
    from ..diagnostics import merged
    from ..parser.diagnose import diagnose_text

    found = merged(diagnose_text(text, "kernel.ptx"))
    return "\n".join(d.render() for d in found) or "kernel.ptx: fine"


def run(text: str) -> str:
    """Simulate the first entry as its comment `// pyptx:` says: the arrays afterwards, and what was found."""
    from .lsp.worker import perform

    entry = re.search(r"\.entry\s+([\w$%]+)", text)
    if entry is None:
        return "this text has no entry"
    done = perform({"job": "simulate", "text": text, "entry": entry[1], "start": entry.start(1)})
    if "failed" in done:
        return f"{entry[1]} was not run: {done['failed']}"
    findings = [f"kernel.ptx:{f['line'] or '?'}: {f['severity']}: {f['message']}" for f in done["value"]["findings"]]
    return "\n".join([done["value"]["summary"], *findings])
