"""What PTX and machine code (SASS) look like, as one ordered list of patterns each: the first that matches at a place gives its class.

The Pygments lexers and the TextMate grammars are made from these lists. The words are those of the dialect and of `pyptx.sass`. The
patterns use what Python's `re` and Oniguruma (VS Code, TextMate, Sublime) have in common; none matches across lines but a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...dialects.ptx.directive_facts import WORDS
from ...dialects.ptx.opcodes import roots
from ...dialects.ptx.special_registers import SPECIAL_REGISTERS
from ...sass.operands import CONSTANT_REGISTERS, REGISTER_FILES, SPECIAL_REGISTER

__all__ = ["COMMENT", "Rule", "ptx_rules", "sass_rules"]

COMMENT = ("/\\*", "\\*/")
"""Where a comment of several lines begins and ends."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the class of what it matches: a key of `lexers.TOKENS` and `textmate.SCOPES`."""

    kind: str
    pattern: str


def ptx_rules() -> list[Rule]:
    """The rules of PTX, after its comments of several lines."""
    special = _words(SPECIAL_REGISTERS)
    directives = _words(d[1:] for d in WORDS)
    return [
        Rule("comment", r"//[^\n]*"),
        Rule("preprocessor", r"^[ \t]*#[^\n]*"),
        Rule("string", r'"[^"\n]*"?'),
        Rule("modifier", r"\.\d+[a-dpx]\w*"),  # .2d, .16x64b: before the numbers
        Rule("float", r"0[fFdD][0-9a-fA-F]+"),
        Rule("integer", r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?"),
        Rule("float", r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+[eE][+-]?\d+"),
        Rule("integer", r"\d+U?"),
        Rule("special register", rf"{special}\b(?:\.[xyzw]\b)?"),
        Rule("label", r"[%_$A-Za-z][\w$]*(?=\s*:(?!:))"),
        Rule("register", r"%[\w$]+"),
        Rule("directive", rf"\.{directives}\b(?![\w:])"),
        Rule("modifier", r"\.[A-Za-z_]\w*(?:::\w+(?::\d+)?)*"),
        Rule("opcode", rf"\b{_words(roots())}\b(?=[\s.;])"),
        Rule("name", r"[A-Za-z_$][\w$]*"),
        Rule("operator", r"[-+*/%<>=!&|^~?@]"),
        Rule("punctuation", r"[{}()\[\];:,.#]"),
        Rule("name", r"[^\x00-\x7f]+"),
    ]


def sass_rules() -> list[Rule]:
    """The rules of machine code as nvdisasm, cuobjdump and `pyptx.sass` print it, after its comments (addresses and bits)."""
    return [
        Rule("comment", r"//[^\n]*"),
        Rule("string", r'"[^"\n]*"?'),
        Rule("label", r"^[.\w$]+(?=:)"),
        Rule("label", r"(?<=`\()[^)\n]+"),
        Rule("integer", r"\b0x[0-9a-f]+\b"),
        Rule("special register", rf"\b{SPECIAL_REGISTER}"),
        Rule("special register", rf"\b(?:{CONSTANT_REGISTERS})\b"),
        Rule("register", rf"\b(?:{REGISTER_FILES})\d+\b"),
        Rule("float", r"\b(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)(?!\w)|\b[QS]?NAN\b|\bINF\b"),
        Rule("integer", r"\b\d+\b(?!\.)"),
        Rule("memory", r"\b(?:cx?|[a-z]+)(?=\[)"),
        Rule("directive", r"^[ \t]*\.[a-z_]\w*"),
        Rule("modifier", r"\.\w+"),
        Rule("name", r"(?<=, )[0-9A-Za-z_$][\w$]*"),
        Rule("opcode", r"\b[A-Z][A-Z0-9_]*\b"),
        Rule("name", r"[0-9A-Za-z_$][\w$]*"),
        Rule("operator", r"[-+*/%<>=!&|^~?@`#]"),
        Rule("punctuation", r"[{}()\[\];:,.]"),
    ]


def _words(names: Iterable[str]) -> str:
    """Any of the names, the longest first: where a word ends is not the same for all of them."""
    return "(?:" + "|".join(map(re.escape, sorted(names, key=lambda n: (-len(n), n)))) + ")"
