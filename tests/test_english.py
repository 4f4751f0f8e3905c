"""Plain technical English in messages, docs and comments: phrases that are not used here, and what to write instead."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PHRASES = {
    r"(?<![Tt]here )(?<![Hh]ere )\b(?:is|are|was|were) no (?!longer\b|more\b|such\b|better\b|less\b|problem\b)\w+": "X is not a Y",
    r"\b(?:stands?|stood) (?:behind|beside)\b": "follows, is next to",
    r"(?<!left )\bbehind\b": "after",
    r"\bbeside\b": "next to",
    r"\bfor ever\b": "forever",
    r"\bgo(?:es)? round\b": "repeats",
}
"""Phrase -> what to write."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of what people read in a file: of Python its comments and strings."""
    source = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(source.split("\n"), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        elif token.type == tokenize.STRING:
            string = (
                re.sub(r"\{[^{}]*\}", "", token.string)
                if token.string[:2].lower().startswith(("f", "rf"))
                else token.string
            )
            for i, line in enumerate(string.split("\n")):
                yield token.start[0] + i, line


FOLDERS = ["pyptx", "examples", "benchmarks", "docs"]
FILES = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".py", ".md")] + [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
]


@pytest.mark.parametrize("folder", [*FOLDERS, "."])
def test_plain_english(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: write {instead!r}"
        for path in FILES
        if (path.relative_to(ROOT).parts[0] == folder) or (folder == "." and path.parent == ROOT)
        for line, text in texts(path)
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, text)
    ]
    assert not found, "\n".join(found)


def test_the_lint_finds_what_it_looks_for() -> None:
    for text in ("x is no constant", "what stands behind it", "beside the table", "polls for ever"):
        assert any(re.search(phrase, text) for phrase in PHRASES), text
    for text in ("there is no constant", "it is no longer there", "left behind", "next to it"):
        assert not any(re.search(phrase, text) for phrase in PHRASES), text
