"""The xDSL dialect object."""

from __future__ import annotations

from xdsl.ir import Dialect

from . import all as _all  # noqa: F401  # pyright: ignore[reportUnusedImport]  (registers every op class)
from .attributes import LayoutAttr
from .instruction import OPCODES
from .rewrites import Constants
from .structure import STRUCTURE, DeclarationAttr, TextAttr, TokensAttr
from .style import StyleAttr
from .target import TargetAttr
from .types import RegType

PTX = Dialect(
    "ptx",
    [*STRUCTURE, *OPCODES.values()],
    [RegType, TargetAttr, LayoutAttr, TokensAttr, DeclarationAttr, StyleAttr, TextAttr],
    [Constants()],
)
