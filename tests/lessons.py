"""The home page and the chapters of docs/learn as programs: `python -m tests.lessons` writes what pyptx says to the mistakes, and the pictures, into them.

The python blocks of a page are one program. A diff block is a mistake: a change of lines of the program; the text block after it is
what pyptx then says, which is made here and never written by hand.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import re
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

from pyptx.diagnostics import PTXError, SimulationError, SimulationWarning, TraceWarning

DOCS = Path(__file__).resolve().parent.parent / "docs"
CHAPTERS = sorted((DOCS / "learn").glob("[0-9]*.md"))
PAGES = [DOCS / "index.md", *CHAPTERS]
WITH_PICTURES = [*PAGES, DOCS / "descriptors.md"]
MISTAKE = re.compile(r"```diff\n(.*?)```\n\n```text\n(.*?)```", re.S)


def program_of(page: Path) -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))


def mistakes_of(page: Path) -> list[tuple[str, str]]:
    """(the program with the mistake, what the page says about it)"""
    program = program_of(page)
    found: list[tuple[str, str]] = []
    for diff, shown in MISTAKE.findall(page.read_text()):
        old, new = ("".join(line[1:] + "\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+")
        assert program.count(old) == 1, f"{page.name}: {old!r} is not exactly once in the program"
        found.append((program.replace(old, new), shown))
    return found


def run(program: str, name: str, folder: Path) -> str:
    """Run a program in `folder`, as the file `name`: what pyptx finds wrong in it, if anything."""
    (folder / name).write_text(program)
    back = Path.cwd()
    os.chdir(folder)  # a program's pictures go there
    linecache.clearcache()  # another program had the same name
    try:
        with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            exec(compile(program, name, "exec"), {"__name__": "__main__"})
    except (PTXError, SimulationError) as error:
        return str(error)
    except AssertionError:
        if not caught:
            raise  # a wrong result, and nothing said why
    finally:
        os.chdir(back)
    return "\n".join(str(w.message) for w in caught if isinstance(w.message, (SimulationWarning, TraceWarning)))


def shown(message: str) -> str:
    """The first finding of a message as the pages have it, with its hints, and its lines wrapped."""
    first = re.split(r"\n(?=\w+\.py:\d)", message)[0]
    lines = [part for line in first.splitlines() for part in textwrap.wrap(line, 110, subsequent_indent="  ")]
    return "\n".join(lines) + "\n"


def name_of(page: Path) -> str:
    """The file name that a page's program has in messages: 03-tiled.md is tiled.py."""
    return page.stem.lstrip("0123456789-").replace("-", "_").replace("index", "home") + ".py"


def main() -> int:
    """Write the messages and pictures."""
    for page in WITH_PICTURES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if said := run(program_of(page), name_of(page), folder):
                raise SystemExit(f"{page.name}: {said}")
            text = page.read_text()
            for program, before in mistakes_of(page):
                after = shown(run(program, name_of(page), folder))
                text = text.replace(f"```\n\n```text\n{before}```", f"```\n\n```text\n{after}```", 1)
            page.write_text(text)
            for picture in folder.glob("*.svg"):
                (page.parent / picture.name).write_bytes(picture.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
