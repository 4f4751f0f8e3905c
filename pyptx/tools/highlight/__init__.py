"""Pygments lexers for PTX and machine code (`pygmentize -l ptx`, `-l sass`; Sphinx, MkDocs, notebooks)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from .rules import Rule, ptx_rules, sass_rules

__all__ = ["PtxLexer", "SassLexer"]

TOKENS = {
    "comment": Comment.Single,
    "preprocessor": Comment.Preproc,
    "string": String,
    "float": Number.Float,
    "integer": Number.Integer,
    "special register": Name.Builtin,
    "memory": Name.Builtin,
    "label": Name.Label,
    "register": Name.Variable,
    "directive": Keyword.Declaration,
    "modifier": Keyword.Type,
    "opcode": Keyword,
    "name": Name,
    "operator": Operator,
    "punctuation": Punctuation,
}
"""Class of a rule -> token type."""


def _states(rules: Iterable[Rule]) -> dict[str, Any]:
    space = [(r"\s+", Whitespace), (r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)", Comment.Multiline)]
    return {"root": [*space, *((rule.pattern, TOKENS[rule.kind]) for rule in rules)]}


class PtxLexer(RegexLexer):
    """PTX: opcodes, modifiers, directives, registers, special registers, labels, numbers, comments."""

    name = "PTX"
    aliases: ClassVar = ["ptx"]
    filenames: ClassVar = ["*.ptx"]
    mimetypes: ClassVar = ["text/x-ptx"]
    url = "https://docs.nvidia.com/cuda/parallel-thread-execution/"
    version_added = ""
    flags = re.MULTILINE
    tokens: ClassVar[dict[str, Any]] = _states(ptx_rules())


class SassLexer(RegexLexer):
    """Machine code as nvdisasm, cuobjdump and `pyptx.sass` print it."""

    name = "SASS"
    aliases: ClassVar = ["sass"]
    filenames: ClassVar = ["*.sass"]
    mimetypes: ClassVar = ["text/x-sass"]
    url = "https://docs.nvidia.com/cuda/cuda-binary-utilities/"
    version_added = ""
    flags = re.MULTILINE
    tokens: ClassVar[dict[str, Any]] = _states(sass_rules())
