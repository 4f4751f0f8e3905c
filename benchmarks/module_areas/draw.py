"""The choices that all areas make."""

from __future__ import annotations

import random
import re

from pyptx.dialects.ptx.target import FIRST_PTX, parse_version

VERSIONS = (
    "4.0 4.1 4.2 4.3 5.0 5.1 6.0 6.1 6.2 6.3 6.4 6.5 7.0 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8"
    " 8.0 8.1 8.2 8.3 8.4 8.5 8.6 8.7 8.8 9.0 9.1 9.2 9.3 9.4 9.5"
).split()
TARGETS = (
    "sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_90a sm_100 sm_100a sm_100f"
    " sm_103 sm_103a sm_103f sm_110 sm_110a sm_110f sm_120 sm_120a sm_120f sm_121 sm_121a sm_121f"
).split()
INTEGERS = "u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64".split()
TYPES = [*INTEGERS, "f32", "f64"]
ODD_TYPES = "f16 f16x2 bf16 b128 pred b1024 texref surfref samplerref u128 s33 b4 tf32 e4m3".split()


class Draw:
    """A source of choices. `tag` is part of every name, so that modules do not share names."""

    def __init__(self, seed: object, tag: str = ""):
        self.random = random.Random(f"{seed}")
        self.tag = tag
        self.version = self.random.choice(VERSIONS) if self.chance(0.25) else "9.5"
        self.target = self.random.choice(TARGETS) if self.chance(0.6) else "sm_90a"
        if not self.chance(0.05):  # nothing else in a module matters where its target is too new
            known = [t for t in TARGETS if FIRST_PTX[t] <= parse_version(self.version)]
            self.target = self.target if self.target in known else self.random.choice(known)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, choices: str) -> str:
        """One of the words of a text."""
        return self.random.choice(choices.split())

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def maybe(self, probability: float, text: str) -> str:
        return text if self.random.random() < probability else ""

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def name(self, names: str = "a b c f g h") -> str:
        """A name of few, so that they meet."""
        return self.pick(names) + self.tag

    def type(self, odd: float = 0.03) -> str:
        return "." + (self.random.choice(ODD_TYPES) if self.chance(odd) else self.random.choice(TYPES))

    def count(self) -> str:
        """A size."""
        odd = "0 1U 0x10 010 0b11 65536 4294967295 4294967296 18446744073709551615 18446744073709551616 WARP_SZ 1.0 -1 (2) 1+1"
        return self.pick(odd) if self.chance(0.08) else self.pick("1 2 3 4 8 16 32")

    def header(self) -> str:
        options = self.maybe(
            0.03, ", " + self.pick("texmode_unified texmode_independent texmode_independent debug map_f64_to_f32 foo")
        )
        size = self.maybe(0.9, f".address_size {self.random.choices(('64', '32'), (95, 5))[0]}\n")
        return f".version {self.version}\n.target {self.target}{options}\n{size}"

    def kernel(self, body: str, parameters: str = "") -> str:
        return f".visible .entry k{self.tag}({parameters})\n{{\n{body}\n\tret;\n}}\n"

    def shuffled(self, lines: list[str], probability: float = 0.15) -> str:
        """Lines, sometimes in another order."""
        if self.chance(probability):
            self.random.shuffle(lines)
        return "\n".join(lines) + "\n"


TOKEN = re.compile(
    r'"[^"]*"|//[^\n]*|/\*.*?\*/|\s+|%?[\w$]+|\.[A-Za-z_]\w*(?:::\w+)*|<<|>>|&&|\|\||[=!<>]=|.', re.S
).findall


def edited(draw: Draw, text: str) -> str:
    """A text with one token dropped, doubled, exchanged, replaced, or put in; or a line moved, dropped or doubled."""
    choose = draw.random
    if draw.chance(0.15):
        lines = text.split("\n")
        at = choose.randrange(min(3, len(lines) - 1), len(lines))
        line = lines[at] if draw.chance(0.5) else lines.pop(at)
        if draw.chance(0.6):
            lines.insert(choose.randrange(min(3, len(lines)), len(lines) + 1), line)
        return "\n".join(lines)
    tokens = TOKEN(text)
    solid = [i for i, t in enumerate(tokens) if not t.isspace()]
    first = 0 if draw.chance(0.04) else min(8, len(solid) - 1)
    if len(solid) < 3:
        return text
    at = solid[choose.randrange(first, len(solid))]
    action = choose.randrange(7)
    if action == 0:
        tokens[at] = ""
    elif action == 1:
        tokens[at] += choose.choice(("", " ")) + tokens[at]
    elif action == 2:
        other = solid[max(0, solid.index(at) - 1)]
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif action == 3:
        tokens[at] = tokens[choose.choice(solid)]
    elif action == 4:
        tokens[at] = choose.choice(WORDS)
    elif action == 5:
        tokens[at] = choose.choice(WORDS) + " " + tokens[at]
    else:
        tokens[at] = " " + tokens[choose.choice(solid)] + " " + tokens[at]
    return "".join(tokens)


WORDS = [
    *("." + t for t in (*TYPES, *ODD_TYPES)),
    *".visible .extern .weak .common .global .shared .const .local .param .reg .align .ptr .v2 .v4 .v8 .func .entry".split(),
    *".attribute .unified .managed .alias .section .file .loc .branchtargets .calltargets .callprototype .pragma".split(),
    *".maxntid .reqntid .minnctapersm .maxnreg .noreturn .abi_preserve .target .version .address_size .unified".split(),
    *"{ } ( ) [ ] < > , ; : = _ ! ~ + - * / % & | ^ ? << >> == @ # . $ generic WARP_SZ a f %r1 %tid.x ret bra call".split(),
    *'0 1 2 -1 1.0 0x10 010 1U 0f3F800000 0d3FF0000000000000 4294967296 18446744073709551616 0b1 08 1e5 .5 "x"'.split(),
    "/* c */", "// c\n", '\n# 5 "f"\n', "\t",
]  # fmt: skip
