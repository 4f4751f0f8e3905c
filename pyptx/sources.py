"""Where PTX text comes from: strings, files, standard input. Bytes that are not UTF-8 are kept, and line ends as well."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple, TextIO

from .diagnostics import Diagnostic, PTXError

STDIN = "<stdin>"
_OF_TEXT = re.compile(r"(?:^|\s)//|//\s|/\*|[;\0]").search
"""What a line of PTX may have and hardly any file name has."""


_LONGEST_PATH = 4096

_MARKS = {
    codecs.BOM_UTF8: "UTF-8",
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Byte order marks, and the encodings that they announce."""


class Source(NamedTuple):
    """PTX text, and the name that messages use for it (None: it came as a string)."""

    text: str
    name: str | None


def source_of(source: str | os.PathLike[str]) -> Source:
    """PTX given as text or as a path. An `os.PathLike` is a path, and so is a string of one line that ends in `.ptx`, unless
    no file has that name and it has a comment, a semicolon or a NUL; every other string is text.

    OSError where the file cannot be read, TypeError for other objects.
    """
    if isinstance(source, os.PathLike):
        return Source(read_file(source), os.fspath(source))
    if not isinstance(source, str):
        raise TypeError(f"PTX is text or a path, not {type(source).__name__}")
    if source.endswith(".ptx") and "\n" not in source and (os.path.exists(source) or not _OF_TEXT(source)):
        return Source(read_file(source), source)
    return Source(source, None)


def path_given_as_text(source: object) -> str | None:
    """What is wrong where a string that was taken for text, and is not PTX, was probably meant as a path."""
    if not isinstance(source, str) or "\n" in source or not source or len(source) > _LONGEST_PATH or _OF_TEXT(source):
        return None
    if os.path.isdir(source):
        return f"{source!r} was read as PTX text, and is the path of a folder: give the path of one file"
    if os.path.exists(source) or os.sep in source.strip():
        return f"{source!r} was read as PTX text, and looks like a path: a string is a path if it ends in .ptx; pathlib.Path(...) always is"
    return None


def read_file(path: str | os.PathLike[str]) -> str:
    """The text of a file. PTXError where it begins with a byte order mark."""
    with open(path, "rb") as file:
        data = file.read()
    return _unmarked(data, os.fspath(path))


def _unmarked(data: bytes, name: str) -> str:
    """The text of bytes. PTXError where they begin with a byte order mark, or as UTF-16 without one."""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), None)
    if mark is not None:
        name_of_mark = f"{_MARKS[mark]} with a byte order mark (the bytes {mark.hex(' ')})"
        message = f"this is {name_of_mark}, and PTX is ASCII text without one"
    elif data[:2].count(0) == 1 and len(data) > 2:
        message = f"this is UTF-16 (byte {data.index(0) + 1} is 00), and PTX is ASCII text"
    else:
        return decoded(data)
    raise PTXError(Diagnostic("error", message, name, 1, 1, "save it as UTF-8 without a byte order mark"))


def read_argument(name: str) -> tuple[str, str]:
    """(text, name for messages) of what a command line names: `-` is standard input, everything else a file. Text is never taken for a name."""
    return (_standard_input(), STDIN) if name == "-" else (read_file(name), name)


def files_of(names: Iterable[str]) -> Iterator[str]:
    """The files that arguments of a command line name: of a folder all `.ptx` files in it and below, of a pattern (`*.ptx`, where the
    shell left it as it is) what it matches. OSError where a folder or a pattern gives none.
    """
    for name in names:
        found = [name]
        if os.path.isdir(name):
            found = sorted(os.path.join(at, f) for at, _, files in os.walk(name) for f in files if f.endswith(".ptx"))
        elif any(c in name for c in "*?[") and not os.path.exists(name):
            from glob import glob

            found = sorted(glob(name, recursive=True))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no PTX file is there", name)
        yield from found


def decoded(data: bytes) -> str:
    """Bytes as text that `encoded` turns into the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """The bytes of text that `decoded` gave."""
    return text.encode("utf-8", "surrogateescape")


def write_output(text: str) -> None:
    """Write PTX to standard output byte for byte, whatever the terminal's encoding is."""
    buffer: IO[bytes] | None = getattr(sys.stdout, "buffer", None)
    if buffer is None:  # replaced by a program, which takes text
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    buffer.write(encoded(text))
    buffer.flush()


def make_output_total() -> None:
    """Let standard output and error take any text: what their encoding lacks is escaped."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _standard_input() -> str:
    stream: TextIO = sys.stdin
    buffer: IO[bytes] | None = getattr(stream, "buffer", None)
    return _unmarked(buffer.read(), STDIN) if buffer is not None else stream.read()
