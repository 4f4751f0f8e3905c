"""Writes the tree-sitter grammar of PTX, from the dialect's facts: `python -m pyptx.tools.highlight.treesitter editors/tree-sitter-ptx`.

`tree-sitter generate` makes a parser of it (Helix, Neovim, Emacs). Its tokens have no look-ahead, so it says what a label is by a rule. The
tree has blocks, labels and instructions' words; what is legal is the language server's matter.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from ...dialects.ptx.directive_facts import WORDS
from ...dialects.ptx.opcodes import roots
from ...dialects.ptx.special_registers import SPECIAL_REGISTERS
from .written import write_files

__all__ = ["CAPTURES", "files", "main"]

CAPTURES = {
    "comment": "comment",
    "preprocessor": "keyword.directive",
    "string": "string",
    "float": "constant.numeric.float",
    "integer": "constant.numeric.integer",
    "special_register": "variable.builtin",
    "label": "label",
    "register": "variable",
    "directive": "keyword.storage.type",
    "modifier": "type",
    "opcode": "keyword",
    "identifier": "variable.other",
    "operator": "operator",
}
"""Node -> capture, in the names that Helix and Neovim have for themes."""

GRAMMAR = """// Written by python -m pyptx.tools.highlight.treesitter: the words are those of the dialect.

module.exports = grammar({
  name: "ptx",
  extras: ($) => [/\\s/, /\\\\\\r?\\n/, $.comment],
  word: ($) => $.identifier,
  rules: {
    source_file: ($) => repeat($._element),
    _element: ($) =>
      choice(
        $.block, $.label, $.opcode, $.directive, $.modifier, $.special_register, $.register, $.identifier,
        $.string, $.float, $.integer, $.operator, $.preprocessor, ";", ",", "(", ")", "[", "]", ".", ":",
      ),
    block: ($) => seq("{", repeat($._element), "}"),
    label: ($) => prec(1, seq(field("name", choice($.identifier, $.register)), ":")),
    comment: () => token(choice(/\\/\\/[^\\n]*/, /\\/\\*[^*]*\\*+([^/*][^*]*\\*+)*\\//)),
    preprocessor: () => /#[^\\n]*/,
    string: () => /"[^"\\n]*"/,
    float: () => token(choice(/0[fFdD][0-9a-fA-F]+/, /[0-9]+\\.[0-9]*([eE][+-]?[0-9]+)?/, /\\.[0-9]+/, /[0-9]+[eE][+-]?[0-9]+/)),
    integer: () => token(choice(/0[xX][0-9a-fA-F]+U?/, /0[bB][01]+U?/, /[0-9]+U?/)),
    opcode: () => choice(OPCODES),
    directive: () => choice(DIRECTIVES),
    modifier: () => token(choice(/\\.[A-Za-z_][A-Za-z0-9_]*(::[A-Za-z0-9_]+(:[0-9]+)?)*/, /\\.[0-9]+[a-dpx][A-Za-z0-9_]*/)),
    special_register: () => choice(SPECIAL),
    register: () => /%[A-Za-z0-9_$]+(\\.[xyzwrgba])?/,
    identifier: () => /[A-Za-z_$\\u0080-\\uffff][A-Za-z0-9_$\\u0080-\\uffff]*/,
    operator: () => choice("+", "-", "*", "/", "%", "<", ">", "=", "!", "&", "|", "^", "~", "?", "@", "<<", ">>", "==", "!=", "<=", ">=", "&&", "||"),
  },
});
"""


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(json.dumps(w) for w in sorted(words))


def files() -> dict[str, str]:
    """Path -> text of each file that is generated."""
    special = [s if dot is None else s + dot for s in SPECIAL_REGISTERS for dot in (None, *_elements(s))]
    grammar = GRAMMAR.replace("OPCODES", _quoted(roots())).replace("DIRECTIVES", _quoted(WORDS))
    queries = "".join(f"({node}) @{capture}\n" for node, capture in CAPTURES.items())
    described = {
        "grammars": [
            {"name": "ptx", "scope": "source.ptx", "file-types": ["ptx"], "highlights": "queries/highlights.scm"}
        ],
        "metadata": {"version": "0.2.0", "license": "Apache-2.0", "description": "NVIDIA PTX"},
    }
    return {
        "grammar.js": grammar.replace("SPECIAL", _quoted(special)),
        "queries/highlights.scm": queries,
        "tree-sitter.json": json.dumps(described, indent=1) + "\n",
    }


def _elements(special: str) -> Sequence[str]:
    """`%tid` is a vector: `%tid.x` is one of its elements."""
    return (".x", ".y", ".z", ".w") if SPECIAL_REGISTERS[special].elements else ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files into a folder."""
    return write_files(files(), __spec__.name if __spec__ else __name__, arguments)


if __name__ == "__main__":
    sys.exit(main())
