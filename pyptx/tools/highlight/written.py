"""Writing generated files into a folder of editors'."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["write_files"]


def write_files(files: Mapping[str, str], module: str, arguments: Sequence[str] | None) -> int:
    """Write `files` (path -> text) into the folder that the arguments of a command line name; the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if len(words) != 1:
        print(f"usage: python -m {module} FOLDER", file=sys.stderr)
        return 2
    for path, text in files.items():
        target = Path(words[0]) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return 0
