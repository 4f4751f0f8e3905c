"""How a kernel is launched, as a comment in front of it says: `// pyptx: --grid 4 --block 128 --arg zeros:f32:512`."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["EXAMPLE", "MARK", "WrongLaunch", "arguments_of", "launch_of", "launch_without_arguments"]

COMMENT = re.compile(r"^[ \t]*//[ \t]*pyptx:(?P<words>[^\n]*)$", re.M)
MARK = "// pyptx:"
EXAMPLE = f"{MARK} --grid 1 --block 32 --arg zeros:f32:1024"


class WrongLaunch(ValueError):
    """The comment cannot be read."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongLaunch(f"the comment `// pyptx:` is not a launch: {message}")


def _parser() -> _Parser:
    parser = _Parser(prog="pyptx", add_help=False, allow_abbrev=False)
    for name in ("--grid", "--block", "--cluster"):
        parser.add_argument(name)
    parser.add_argument("--smem", type=int, default=0)
    parser.add_argument("--arg", action="append", default=[])
    parser.add_argument("--card", action="append", default=[])
    return parser


def launch_of(text: str, start: int) -> argparse.Namespace | None:
    """The launch of the entry whose name is at `start`: of the last comment between the function before it and it. WrongLaunch."""
    begin = text.rfind("}", 0, start) + 1
    words = [m["words"] for m in COMMENT.finditer(text, begin, start)]
    if not words:
        return None
    try:
        return _parser().parse_args(shlex.split(words[-1]))
    except ValueError as error:
        raise error if isinstance(error, WrongLaunch) else WrongLaunch(f"`// pyptx:{words[-1]}`: {error}") from None


def launch_without_arguments() -> argparse.Namespace:
    """What is taken where no comment is."""
    return _parser().parse_args([])


def arguments_of(launch: argparse.Namespace) -> tuple[Sequence[Any], dict[str, Any]]:
    """Arguments and keywords of `simulate` and `predict`. WrongLaunch."""
    from ..commands.debug import argument, sizes

    try:
        arguments = [argument(word, seed) for seed, word in enumerate(launch.arg)]
        shape = {name: sizes(getattr(launch, name)) for name in ("grid", "block", "cluster")}
    except ValueError as error:
        raise WrongLaunch(str(error)) from None
    return arguments, {**shape, "grid": shape["grid"] or (1,), "smem": launch.smem}
