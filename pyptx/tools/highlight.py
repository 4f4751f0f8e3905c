"""A Pygments lexer for PTX (`pygmentize -l ptx`, Sphinx, MkDocs, notebooks). Its words are those of the dialect."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from ..dialects.ptx.directive_facts import WORDS
from ..dialects.ptx.opcodes import roots
from ..dialects.ptx.special_registers import SPECIAL_REGISTERS

__all__ = ["PtxLexer"]

SPECIAL = sorted((re.escape(name) for name in SPECIAL_REGISTERS), key=len, reverse=True)


class PtxLexer(RegexLexer):
    """PTX: opcodes, modifiers, directives, registers, special registers, labels, numbers, comments."""

    name = "PTX"
    aliases: ClassVar = ["ptx"]
    filenames: ClassVar = ["*.ptx"]
    mimetypes: ClassVar = ["text/x-ptx"]
    url = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
    version_added = ""
    flags = re.MULTILINE

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)", Comment.Multiline),
            (r"^[ \t]*#[^\n]*", Comment.Preproc),
            (r'"[^"\n]*"?', String),
            (r"0[fFdD][0-9a-fA-F]+", Number.Float),
            (r"0[xX][0-9a-fA-F]+U?|0[bB][01]+U?", Number.Integer),
            (r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+[eE][+-]?\d+", Number.Float),
            (r"\d+U?", Number.Integer),
            (r"(?:" + "|".join(SPECIAL) + r")\b(?:\.[xyzw]\b)?", Name.Builtin),
            (r"[%_$A-Za-z][\w$]*(?=\s*:(?!:))", Name.Label),
            (r"%[\w$]+", Name.Variable),
            (words([d[1:] for d in WORDS], prefix=r"\.", suffix=r"\b(?![\w:])"), Keyword.Declaration),
            (r"\.[A-Za-z_]\w*(?:::\w+)*", Keyword.Type),
            (words(roots(), prefix=r"\b", suffix=r"\b(?=[\s.;])"), Keyword),
            (r"[A-Za-z_$][\w$]*", Name),
            (r"[-+*/%<>=!&|^~?@]", Operator),
            (r"[{}()\[\];:,.#]", Punctuation),
            (r"[^\x00-\x7f]+", Name),
        ],
    }
