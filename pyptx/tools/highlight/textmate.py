"""Writes what an editor's highlighting needs, from the dialect's facts: `python -m pyptx.tools.highlight.textmate editors/vscode`.

TextMate grammars of PTX and machine code, which VS Code, Sublime Text, TextMate and JetBrains' editors read, and the snippets.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from .rules import COMMENT, Rule, ptx_rules, sass_rules
from .written import write_files

__all__ = ["SCOPES", "files", "grammar", "main"]

SCOPES = {
    "comment": "comment.line.double-slash",
    "preprocessor": "meta.preprocessor",
    "string": "string.quoted.double",
    "float": "constant.numeric.float",
    "integer": "constant.numeric.integer",
    "special register": "variable.language.special-register",
    "memory": "support.type.memory",
    "label": "entity.name.label",
    "register": "variable.other.register",
    "directive": "storage.type.directive",
    "modifier": "storage.modifier",
    "opcode": "keyword.other.opcode",
    "name": "variable.other",
    "operator": "keyword.operator",
    "punctuation": "punctuation",
}
"""Class of a rule -> scope, in the names that themes know."""


def grammar(name: str, language: str, extension: str, rules: Sequence[Rule]) -> dict[str, Any]:
    """A TextMate grammar."""
    begin, end = COMMENT
    comment = {"name": f"comment.block.{language}", "begin": begin, "end": end}
    return {
        "name": name,
        "scopeName": f"source.{language}",
        "fileTypes": [extension],
        "patterns": [comment, *({"name": f"{SCOPES[r.kind]}.{language}", "match": r.pattern} for r in rules)],
    }


def files() -> dict[str, str]:
    """Path -> text of each file that is generated."""
    grammars = {
        "syntaxes/ptx.tmLanguage.json": grammar("PTX", "ptx", "ptx", ptx_rules()),
        "syntaxes/sass.tmLanguage.json": grammar("SASS", "sass", "sass", sass_rules()),
    }
    return {path: json.dumps(content, indent=1) + "\n" for path, content in grammars.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files into a folder."""
    return write_files(files(), __spec__.name if __spec__ else __name__, arguments)


if __name__ == "__main__":
    sys.exit(main())
