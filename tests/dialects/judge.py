"""Judge one instruction given as text.

Registers: `%p1` .pred, `%b1` .b8, `%h1` .b16, `%r1` .b32, `%d1` .b64, `%q1` .b128, `%f1` .f32, `%u1` .u32.
"""

from __future__ import annotations

import re

import pyptx.dialects.ptx.all  # noqa: F401
from pyptx.dialects.ptx.forms import Use
from pyptx.dialects.ptx.instruction import Resolution
from pyptx.dialects.ptx.opcode_problems import unknown_opcode
from pyptx.dialects.ptx.syntax import layout_text
from pyptx.dialects.ptx.target import parse_version
from pyptx.parser.instruction import instruction_text

CLASSES = {"p": "pred", "b": "b8", "h": "b16", "r": "b32", "d": "b64", "q": "b128", "f": "f32", "u": "u32"}


def register_class(name: str) -> str | None:
    match = re.fullmatch(r"%([pbhrdqfu])\d+", name)
    return CLASSES[match[1]] if match else None


def resolve(text: str) -> Resolution:
    reading, classes = instruction_text(text, register_class)
    if reading.cls is None:
        return Resolution([], unknown_opcode(reading.root, reading.modifiers))
    return reading.cls.resolve(reading.modifiers, reading.layout, classes)


def refusal(text: str, version: str = "9.5", target: str = "sm_100a") -> str:
    """Why the instruction is refused, or the empty string."""
    problem = resolve(text).verdict(parse_version(version), target)
    return "" if problem is None else problem.message


def use(text: str) -> Use:
    """The first reading of a legal instruction."""
    return resolve(text).uses[0]


def roles(text: str) -> str:
    """The operand list of a legal instruction with `=`, `$`, `~` for its registers."""
    return layout_text(use(text).layout)
