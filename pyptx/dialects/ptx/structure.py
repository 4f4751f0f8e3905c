"""Everything of a PTX module that is not an instruction: module, functions, variables, registers, labels, scopes,
directives.

Each op states its tokens (`tokens()`), from which the printer writes it; how the file laid them out is trivia: the
attribute `gaps`
(text around the tokens, only where it differs from the file's style) and `lead` (comments and blank lines before it).
PTX ISA 4.3 (directives), 5 (variables), 7 (functions), 11 (module-level directives).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, cast

from . import deferred
from .attributes import string_attr
from .foundation import (
    ArrayAttr,
    Attribute,
    Data,
    Operation,
    OpTraits,
    StringAttr,
    VerifyException,
    irdl_attr_definition,
    traits_of,
)
from .syntax import evaluate, literal
from .target import TargetAttr, parse_version, target_meant, version_text
from .types import SCALAR_TYPES

if TYPE_CHECKING:
    from typing import Self

    from xdsl.ir import Block
    from xdsl.parser import AttrParser, Parser
    from xdsl.printer import Printer

Tokens = tuple[str, ...]


def print_text(printer: Printer, text: str) -> None:
    """A string literal of any text, bytes that are not UTF-8 included."""
    printer.print_bytes_literal(text.encode("utf-8", "surrogateescape"))


def parse_text(parser: AttrParser) -> str:
    text = parser.parse_optional_str_literal()
    return parser.parse_bytes_literal().decode("utf-8", "surrogateescape") if text is None else text


def _print_strings(printer: Printer, words: Sequence[str]) -> None:
    for i, word in enumerate(words):
        printer.print_string(", " if i else "")
        print_text(printer, word)


@irdl_attr_definition
class TextAttr(Data[str]):
    """`#ptx.text<"...">`: comments and blank lines before an op (`lead`) or after the last one (`tail`), as written."""

    name: ClassVar[str] = "ptx.text"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parse_text(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_text(printer, self.data)


def text_attr(text: str) -> TextAttr:
    """`TextAttr(text)`, one for all ops with that text if it is short."""
    return _text_attr(text) if len(text) < 1000 else TextAttr(text)


@lru_cache(maxsize=4096)
def _text_attr(text: str) -> TextAttr:
    return TextAttr(text)


@irdl_attr_definition
class TokensAttr(Data[Tokens]):
    """`#ptx.tokens<".maxntid", "256">`: PTX tokens; also used for the gaps around them."""

    name: ClassVar[str] = "ptx.tokens"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Tokens:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, lambda: parse_text(parser)))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_strings(printer, self.data)


@irdl_attr_definition
class DeclarationAttr(Data[tuple[Tokens, tuple[tuple[str, Tokens], ...]]]):
    """A declaration: the words before the names, then each name with what follows it (`[16]`, `<10>`, `= {1, 2}`).

    `#ptx.declaration<[".global", ".align", "4", ".b8"], "table", ["[", "16", "]"]>`. Used for registers, variables and
    parameters.
    """

    name: ClassVar[str] = "ptx.declaration"

    @property
    def head(self) -> Tokens:
        return self.data[0]

    @property
    def items(self) -> tuple[tuple[str, Tokens], ...]:
        return self.data[1]

    @property
    def type(self) -> str:
        """The scalar type without its dot (`b8`), or an opaque one such as `texref`; empty if there is none."""
        found = ""
        for word in self.head:
            if word[1:] in SCALAR_TYPES or word in (".texref", ".samplerref", ".surfref"):
                found = word[1:]
        return found

    @property
    def space(self) -> str:
        """`global`, `shared`, `const`, `local`, `param` or `reg`."""
        for word in self.head:
            if word[1:] in ("global", "shared", "const", "local", "param", "reg"):
                return word[1:]
        return "global" if self.type.endswith("ref") else ""

    @property
    def vector(self) -> int:
        """Elements per vector: 1, 2, 4 or 8."""
        return next((int(w[2:]) for w in self.head if w in (".v2", ".v4", ".v8")), 1)

    @property
    def alignment(self) -> int | None:
        """The `.align` in bytes, or None."""
        if ".ptr" in self.head:
            head = self.head[: self.head.index(".ptr")]
        else:
            head = self.head
        number = head[head.index(".align") + 1 :][:1] if ".align" in head else ()
        try:
            return int(evaluate(number[0])) if number else None
        except (ValueError, OverflowError):
            return None  # reported with the declaration

    @property
    def register_class(self) -> str:
        """The class its registers have: `b32`, `v4.f32`."""
        return f"v{self.vector}.{self.type}" if self.vector > 1 else self.type

    def count(self, index: int = 0) -> int | None:
        """Number of elements of the array `name[4][8]` (32) or of the range `%r<10>` (10); None for a scalar or `[]`."""
        total: int | None = None
        for extent in extents(self.items[index][1]):
            if extent is None:
                return None
            total = extent if total is None else total * extent
        return total

    def declares(self, name: str) -> bool:
        """Whether it declares that name, as an item or as one of a range's (`%r<10>`)."""
        for index, (item, tail) in enumerate(self.items):
            if tail[:1] != ("<",):
                if item == name:
                    return True
            elif name.startswith(item):
                digits = name[len(item) :]
                if digits.isdigit() and int(digits) < (self.count(index) or 0):
                    return True
        return False

    def variables(self) -> Iterator[tuple[str, DeclarationAttr, int]]:
        """The name of each variable, a declaration that has it, and which of that one's items it is. Those of a range
        (`x<4>`) have a declaration each. ptxas reads no `x10` into `x1<12>`.
        """
        for index, (name, tail) in enumerate(self.items):
            if tail[:1] != ("<",):
                yield name, self, index
            elif not name[-1].isdecimal():
                for number in range(min(self.count(index) or 0, MOST_OF_A_RANGE)):
                    yield f"{name}{number}", DeclarationAttr((self.head, ((f"{name}{number}", ()),))), 0

    def size(self, index: int = 0) -> int:
        """Size of a variable in bytes (0 for an incomplete array)."""
        scalar = SCALAR_TYPES.get(self.type)
        element = (scalar.bits + 7) // 8 if scalar is not None else 8
        tail = self.items[index][1]
        count = self.count(index)
        if count is None:
            count = 0 if tail[:1] == ("[",) else 1
        return element * self.vector * count

    def tokens(self) -> list[str]:
        words = list(self.head)
        for i, (name, tail) in enumerate(self.items):
            if i:
                words.append(",")
            words.append(name)
            words.extend(tail)
        return words

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Tokens, tuple[tuple[str, Tokens], ...]]:
        def words() -> Tokens:
            return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_text(parser)))

        items: list[tuple[str, Tokens]] = []
        with parser.in_angle_brackets():
            head = words()
            while parser.parse_optional_punctuation(","):
                name = parser.parse_str_literal()
                parser.parse_punctuation(",")
                items.append((name, words()))
        return head, tuple(items)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            with printer.in_square_brackets():
                _print_strings(printer, self.head)
            for name, tail in self.items:
                printer.print_string(", ")
                printer.print_string_literal(name)
                printer.print_string(", ")
                with printer.in_square_brackets():
                    _print_strings(printer, tail)


MOST_OF_A_RANGE = 65536
"""The variables of a range that are looked at."""


def extents(tail: Sequence[str]) -> list[int | None]:
    """The sizes in `[4][8]` or `<10>` after a name; None for `[]`. ValueError where a bracket is malformed."""
    found: list[int | None] = []
    at = 0
    while at < len(tail) and tail[at] in ("[", "<"):
        close = "]" if tail[at] == "[" else ">"
        end = at + 1
        while end < len(tail) and tail[end] != close:
            end += 1
        if end == len(tail):
            raise ValueError(f"{tail[at]!r} is not closed")
        inner = tail[at + 1 : end]
        if not inner and close == ">":
            raise ValueError("a register range needs its size")
        if len(inner) > 1:
            raise ValueError(f"a size is one whole number, not {''.join(inner)}")
        value = evaluate(inner[0]) if inner else None
        if isinstance(value, float):
            raise ValueError(f"a size must be a whole number, not {inner[0]}")
        if value is not None:
            value &= (1 << 64) - 1  # ptxas keeps the low 64 bits
        if close == ">" and at:
            raise ValueError("a register range is not an array")
        if value is not None and close == ">" and value >> 32:
            raise ValueError(f"a range has less than 2**32 registers, not {inner[0]}")
        found.append(value)
        at = end + 1
    return found


class Structural(Operation):
    """Base of the ops here: an op that prints itself as tokens."""

    traits = OpTraits(tuple)
    required: ClassVar[tuple[str, ...]] = ()
    """The properties that it cannot be without."""
    own_words: ClassVar[bool] = True
    """Whether its tokens follow from its class and properties alone."""

    def tokens(self) -> list[str]:
        """The PTX tokens of the op; empty when it prints nothing."""
        return []

    def verify(self, verify_nested_ops: bool = True) -> None:
        missing = [name for name in self.required if name not in self.properties]
        if missing:
            raise VerifyException(f"{self.name} needs the property {missing[0]}")
        if verify_nested_ops:
            for region in self.regions:
                for block in region.blocks:
                    for op in block.ops:
                        op.verify()

    def _text(self, name: str) -> str:
        attr = self.properties.get(name)
        return cast(StringAttr, attr).data if attr is not None else ""

    def _words(self, name: str) -> Tokens:
        attr = self.properties.get(name)
        return cast(TokensAttr, attr).data if attr is not None else ()


HEADERS = ("version", "target", "address_size")
"""The directives at the start of a module, in the order that PTX demands (PTX ISA 11.1)."""


class ModuleOp(Structural):
    """A PTX module: its target and version, and everything in it. Exactly one stands in a `builtin.module`."""

    name = "ptx.module"
    required = ("target", "address_size")
    traits = traits_of("module")

    @property
    def target(self) -> TargetAttr:
        return cast(TargetAttr, self.properties["target"])

    @target.setter
    def target(self, target: TargetAttr) -> None:
        self.properties["target"] = target

    @property
    def body(self) -> Block:
        return self.regions[0].blocks[0]

    @property
    def functions(self) -> Iterator[FunctionOp]:
        """All entries and functions, in order, declarations included."""
        return (op for op in self.body.ops if isinstance(op, FunctionOp))

    def verify(self, verify_nested_ops: bool = True) -> None:
        problem = self.header_problem()
        if problem is not None:
            raise VerifyException(problem)
        super().verify(verify_nested_ops)

    def header_problem(self) -> str | None:
        """What is wrong with the header ops, which print the module's own attributes; None if nothing is."""
        order = [op.what for op in self.body.ops if isinstance(op, HeaderOp)]
        if order != [what for what in HEADERS if what in order]:
            return f"the header ops are {', '.join(order)}; their order is {', '.join(HEADERS)}, each once"
        lacking = [what for what in HEADERS[:2] if what not in order]
        if order and lacking:
            return f"the header ops are {', '.join(order)} without {' and '.join(lacking)}, which PTX needs"
        return None

    def implied_headers(self) -> list[list[str]]:
        """The tokens of each line of the header that is printed in front of a module without header ops."""
        if any(isinstance(op, HeaderOp) for op in self.body.ops) or not self.body.ops:
            return []
        return [self.header_tokens(what) for what in HEADERS]

    def header_tokens(self, what: str, written: str = "") -> list[str]:
        """`.version`, `.target` or `.address_size` with the module's value, as a file wrote it if it is the same."""
        values = version_text(self.target.version), self.target.target, self._text("address_size")
        value = values[HEADERS.index(what)]
        if written and header_value(what, written) == value:
            value = written
        options = self.target.options if what == "target" else ()
        return ["." + what, value, *(word for option in options for word in (",", option))]

    @staticmethod
    def build(target: TargetAttr, ops: Sequence[Operation], address_size: str = "64") -> ModuleOp:
        from xdsl.ir import Block, Region

        properties: dict[str, Attribute] = {"target": target, "address_size": string_attr(address_size)}
        return ModuleOp.create(properties=properties, regions=[Region(Block(ops))])


def address_size(text: str) -> int | None:
    """The value of a whole number of `.address_size`, however it is spelled (`64`, `0x40`, `64U`)."""
    try:
        value = literal(text)
    except (ValueError, OverflowError):
        return None
    return value & (1 << 64) - 1 if isinstance(value, int) else None


def header_value(what: str, text: str) -> str:
    """The value of a header directive as a module has it, however it is spelled (`08.5`, `sm_90b`, `0x40`)."""
    if what == "version":
        return version_text(parse_version(text))
    return target_meant(text) if what == "target" else str(address_size(text))


class HeaderOp(Structural):
    """`.version`, `.target` or `.address_size`: where the module's own attribute is printed. `written` is how the file
    spelled it, where it did so in its own way; it is printed while the module has this value.
    """

    name = "ptx.header"
    required = ("what",)
    own_words = False

    def verify(self, verify_nested_ops: bool = True) -> None:
        super().verify(verify_nested_ops)
        if not isinstance(self.parent_op(), ModuleOp):
            raise VerifyException("ptx.header is an operation of ptx.module: it prints the module's own attributes")

    @property
    def what(self) -> str:
        return self._text("what")

    def tokens(self) -> list[str]:
        module = self.parent_op()
        if not isinstance(module, ModuleOp):
            return ["." + self.what]
        return module.header_tokens(self.what, self._text("written"))


def directive_arguments(words: Sequence[str], name: str) -> Tokens | None:
    """The arguments of a directive among those of a function (commas left out), or None if it is not there."""
    if name not in words:
        return None
    found: list[str] = []
    for word in words[words.index(name) + 1 :]:
        if word.startswith(".") or word == ";":
            break
        if word != ",":
            found.append(word)
    return tuple(found)


def directive_numbers(words: Sequence[str], name: str) -> tuple[int, ...] | None:
    """The numbers of a directive among those of a function, or None if it is not there or does not have numbers."""
    arguments = directive_arguments(words, name)
    try:
        return None if arguments is None else tuple([int(literal(word)) for word in arguments])
    except (ValueError, OverflowError):
        return None


class FunctionOp(Structural):
    """A `.func`, with a body or (without region) as a declaration."""

    name = "ptx.func"
    required = ("sym_name",)
    traits = traits_of("function")

    @property
    def symbol(self) -> str:
        return self._text("sym_name")

    def print(self, printer: Printer) -> None:
        deferred.assembly.print_function(self, printer)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cast("Self", deferred.assembly.parse_function(cls, parser))

    @property
    def is_entry(self) -> bool:
        return False

    @property
    def head(self) -> Tokens:
        """The words before the return parameters and the name: `.visible .func`."""
        return self._words("head")

    @property
    def directives(self) -> Tokens:
        """The words after the parameters: `.maxntid 256 , 1 , 1`, `.pragma "..." ;`."""
        return self._words("directives")

    @property
    def parameters(self) -> tuple[DeclarationAttr, ...]:
        return self._declarations("params")

    @property
    def returns(self) -> tuple[DeclarationAttr, ...]:
        return self._declarations("returns")

    @property
    def blocks(self) -> list[Block]:
        return list(self.regions[0].blocks) if self.regions else []

    @property
    def is_declaration(self) -> bool:
        return not self.regions or not self.regions[0].blocks

    def directive(self, name: str) -> Tokens | None:
        """The arguments of a directive such as `.maxntid` (commas left out), or None if it is not there."""
        return directive_arguments(self.directives, name)

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """The numbers of a directive such as `.maxntid`, or None if it is not there or does not have numbers."""
        return directive_numbers(self.directives, name)

    def _declarations(self, name: str) -> tuple[DeclarationAttr, ...]:
        attr = self.properties.get(name)
        return tuple(cast("ArrayAttr[DeclarationAttr]", attr)) if attr is not None else ()

    def tokens(self) -> list[str]:
        words = list(self.head)
        if "returns" in self.properties:
            words += _list_tokens(self.returns)
        words.append(self.symbol)
        if "params" in self.properties:
            words += _list_tokens(self.parameters)
        words += self.directives
        words.append(";" if self.is_declaration else "{")
        return words


def _list_tokens(declarations: Sequence[DeclarationAttr]) -> list[str]:
    words = ["("]
    for i, declaration in enumerate(declarations):
        if i:
            words.append(",")
        words += declaration.tokens()
    return [*words, ")"]


class EntryOp(FunctionOp):
    """A kernel entry point, `.entry`."""

    name = "ptx.entry"

    @property
    def is_entry(self) -> bool:
        return True


class _DeclarationOp(Structural):
    required = ("declaration",)

    @property
    def declaration(self) -> DeclarationAttr:
        return cast(DeclarationAttr, self.properties["declaration"])

    @declaration.setter
    def declaration(self, declaration: DeclarationAttr) -> None:
        self.properties["declaration"] = declaration

    def tokens(self) -> list[str]:
        return [*self.declaration.tokens(), ";"]


class VariableOp(_DeclarationOp):
    """Variables in `.global`, `.const`, `.shared`, `.local` or `.param` space, with initialisers."""

    name = "ptx.variable"


class RegisterOp(_DeclarationOp):
    """`.reg .b32 %r<10>;`: the names that values of these registers may carry in their types."""

    name = "ptx.registers"


class LabelOp(Structural):
    """A label. At the head of a block it is what branches to the block print."""

    name = "ptx.label"

    @property
    def label(self) -> str:
        return self._text("label")

    @label.setter
    def label(self, label: str) -> None:
        self.properties["label"] = string_attr(label)

    def tokens(self) -> list[str]:
        return [self.label, ":"]


class ScopeBeginOp(Structural):
    """`{` inside a function."""

    name = "ptx.scope_begin"

    def tokens(self) -> list[str]:
        return ["{"]


class ScopeEndOp(Structural):
    """`}` inside a function."""

    name = "ptx.scope_end"

    def tokens(self) -> list[str]:
        return ["}"]


class DirectiveOp(Structural):
    """A directive kept as its tokens: `.pragma`, `.alias`, `.file`, `.loc`, `.section`."""

    name = "ptx.directive"

    @property
    def words(self) -> Tokens:
        return self._words("words")

    @words.setter
    def words(self, words: Tokens) -> None:
        self.properties["words"] = TokensAttr(words)

    def tokens(self) -> list[str]:
        return list(self.words)


class LocOp(DirectiveOp):
    """`.loc file line column [, function_name ..., inlined_at ...]`."""

    name = "ptx.loc"


class LabelListOp(DirectiveOp):
    """`name: .branchtargets L1, L2;`, `.calltargets`, `.callprototype`: what an indirect branch or call may reach."""

    name = "ptx.label_list"

    @property
    def label(self) -> str:
        """The label on the same line."""
        return self._text("label")

    @property
    def list_name(self) -> str:
        """What branches and calls know the list by: its label, which may be on a line of its own before it."""
        previous = self.prev_op
        while isinstance(previous, (UndefOp, ParameterOp)):
            previous = previous.prev_op
        return self.label or (previous.label if isinstance(previous, LabelOp) else "")

    def tokens(self) -> list[str]:
        return [self.label, ":", *self.words] if self.label else list(self.words)


class UndefOp(Structural):
    """A register read before anything was written to it; prints nothing."""

    name = "ptx.undef"
    traits = traits_of("undefined")


class ParameterOp(Structural):
    """The `.reg` parameters of a device function, as results; prints nothing."""

    name = "ptx.parameters"


class FallOp(Structural):
    """Falling through into the next block (or off the end of the function); prints nothing."""

    name = "ptx.fall"
    traits = traits_of("fall")


class UnknownOp(Structural):
    """An instruction this version does not know, carried through as its tokens (`allow_unknown`). Registers in it are
    only text.
    """

    name = "ptx.unknown"

    def tokens(self) -> list[str]:
        return list(self._words("words"))


STRUCTURE: tuple[type[Operation], ...] = (
    ModuleOp, HeaderOp, FunctionOp, EntryOp, VariableOp, RegisterOp, LabelOp, ScopeBeginOp, ScopeEndOp, DirectiveOp, LocOp,
    LabelListOp, UndefOp, ParameterOp, FallOp, UnknownOp,
)  # fmt: skip


def head_labels(block: Block) -> list[LabelOp]:
    """The labels at the head of a block, past ops that print nothing."""
    labels: list[LabelOp] = []
    for op in block.ops:
        if isinstance(op, LabelOp):
            labels.append(op)
        elif not isinstance(op, (UndefOp, ParameterOp)):
            break
    return labels
