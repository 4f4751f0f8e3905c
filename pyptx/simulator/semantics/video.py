"""Video instructions (PTX ISA 9.7.18): byte and half selectors are written on the operands (`%r1.b0`)."""

from __future__ import annotations
