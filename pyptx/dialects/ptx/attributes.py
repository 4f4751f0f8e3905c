"""Attributes of PTX instructions: the operand layout. Interned, so that identity tells equal layouts apart cheaply."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .foundation import Data, StringAttr, data_attr, irdl_attr_definition
from .memo import Memo
from .syntax import Layout, SyntaxProblem, layout_text, parse_layout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """`#ptx.layout<"{=, =}, [$+8]">`: the operand list of an instruction with its registers left out. See `syntax`."""

    name: ClassVar[str] = "ptx.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            return parse_layout(text)
        except SyntaxProblem as problem:
            parser.raise_error(str(problem))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(layout_text(self.data))


_layouts: Memo[Layout, LayoutAttr] = Memo()
_strings: Memo[str, StringAttr] = Memo()


def layout_attr(layout: Layout) -> LayoutAttr:
    """The one attribute for this layout."""
    attr = _layouts.get(layout)
    if attr is None:
        attr = _layouts[layout] = data_attr(LayoutAttr, layout)
    return attr


def string_attr(text: str) -> StringAttr:
    """The one string attribute for a short word (modifier, name)."""
    attr = _strings.get(text)
    if attr is None:
        attr = _strings[text] = data_attr(StringAttr, text)
    return attr
