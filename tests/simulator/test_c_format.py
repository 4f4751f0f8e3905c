"""printf of kernels prints what C's printf does: the C library of this machine is asked."""

from __future__ import annotations

import ctypes
import math
import random
import sys

import pytest

from pyptx.simulator.semantics.c_format import CONVERSION, Conversion, conversion_of

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the C library is called through ctypes on Linux"
)
FLOATS = (
    0.0, -0.0, 1.0, 1.5, 2.5, -3.25, 0.1, 1e10, 1e-5, 123456.789, 5e-324, 2.2250738585072014e-308, 1.9999999999999998,
    1.7976931348623157e308, math.inf, -math.inf, math.nan,
)  # fmt: skip
INTEGERS = (0, 1, -1, 7, 8, 127, 128, 255, -(2**31), 2**31 - 1, 2**40 + 5, -(2**63))


def by_c(text: str, value: object) -> str:
    buffer = ctypes.create_string_buffer(8192)
    ctypes.CDLL(None).snprintf(buffer, ctypes.c_size_t(8192), text.encode(), value)
    return buffer.value.decode("latin-1")


def read(text: str) -> Conversion:
    found = CONVERSION.fullmatch(text)
    assert found is not None
    flags, width, precision, length, kind = found.groups()
    return conversion_of(flags, int(width or 0), None if precision is None else int(precision or 0), length or "", kind)


def drawn(kinds: str, lengths: tuple[str, ...], chosen: random.Random) -> str:
    flags = "".join(chosen.sample("-+ #0", chosen.choice((0, 0, 1, 2, 3))))
    width, precision = (
        chosen.choice(("", "", "1", "5", "24")),
        chosen.choice(("", "", ".", ".0", ".1", ".3", ".12", ".20")),
    )
    return f"%{flags}{width}{precision}{chosen.choice(lengths)}{chosen.choice(kinds)}"


def test_integers() -> None:
    seed = random.randrange(1 << 30)
    chosen = random.Random(seed)
    for _ in range(4000):
        text, value = drawn("diouxX", ("", "", "ll", "l", "h", "hh"), chosen), chosen.choice(INTEGERS)
        assert read(text).integer(value) == by_c(text, ctypes.c_longlong(value)), (text, value, seed)


def test_floats() -> None:
    seed = random.randrange(1 << 30)
    chosen = random.Random(seed)
    for _ in range(4000):
        text = drawn("eEfFgGaA", ("",), chosen)
        value = chosen.choice(
            (*FLOATS, chosen.uniform(-1000, 1000), math.ldexp(chosen.random(), chosen.randrange(-1074, 1000)))
        )
        assert read(text).floating(value) == by_c(text, ctypes.c_double(value)), (text, value, seed)


def test_text_characters_and_negative_widths() -> None:
    for text in ("%s", "%9s", "%-9s|", "%.2s", "%09.0s"):
        assert read(text.removesuffix("|")).text("pyptx") + "|" * text.endswith("|") == by_c(text, b"pyptx")
    for text in ("%c", "%5c", "%-5c"):
        assert read(text).character(0x141) == by_c(text, 0x141)
    assert conversion_of("0", -6, -1, "", "d").integer(-12) == by_c("%-06d", -12) == "-12   "
    assert read("%20p").pointer(255) == by_c("%20p", ctypes.c_void_p(255))
