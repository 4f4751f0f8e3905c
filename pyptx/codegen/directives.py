"""Declarations and directives as Python calls: the call that gives the same tokens, found by making them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..dialects.ptx.structure import DeclarationAttr
from ..frontend.core import declarations as spelling
from ..frontend.memory.parameters import raw_parameter
from .names import literal, string

_MAX_DEPTH = 16


class Unspellable(Exception):
    """Text that reads as PTX but is none, and that no call makes. The message is for pyptx's own developers: users see
    what `pyptx.diagnose` says of the text.
    """


def declaration_call(declaration: DeclarationAttr, readable: bool = False) -> str:
    """`variable(".shared .align 16 .b8", "tile", 1024)`, without the layout. `readable`: text as `[*b"text"]`."""
    head, items = declaration.data
    if len(items) == 1:
        name, tail = items[0]
        found = _tail_values(tail)
        if found is not None:
            shape, init = found
            if spelling.variable(text_of(head), name, shape, init).data == declaration.data:
                words = [_python(text_of(head)), literal(name)]
                if shape is not None or init is not None:
                    words.append(_python(shape))
                if init is not None:
                    words.append(_as_text(init) if readable else _python(init))
                return f"variable({', '.join(words)})"
    pairs = [f"({literal(name)}, {_python(text_of(tail))})" for name, tail in items]
    return f"declare({', '.join([_python(text_of(head)), *pairs])})"


_SHORTEST_TEXT = 3


def _as_text(init: Any) -> str:
    """An initialiser; one whose numbers are the bytes of a text as that text."""
    if isinstance(init, list) and len(init) >= _SHORTEST_TEXT:
        values = cast("list[Any]", init)
        if all(isinstance(v, int) and (v in (0, 9, 10) or 32 <= v < 127) for v in values) and any(values):
            return f"[*{bytes(values)!r}]" if b'"' in bytes(values) else "[*b" + string(bytes(values).decode()) + "]"
    return _python(init)


def compact_declaration(declaration: DeclarationAttr) -> str:
    """As `declaration_call`, with what follows the name as one string."""
    head, items = declaration.data
    pairs = [f"({literal(name)}, {_python(text_of(tail))})" for name, tail in items]
    return f"declare({', '.join([_python(text_of(head)), *pairs])})"


def compact_section(words: Sequence[str]) -> str:
    """`section(...)` with as many data in a row as fit on a line."""
    name, data = words[1], words[3:-1]
    rows: list[str] = []
    row: list[str] = []
    for at, word in enumerate(data):
        starts = word.startswith(".") or (at + 1 < len(data) and data[at + 1] == ":")
        if starts and row and sum(map(len, row)) + len(row) > 64:
            rows.append(str(text_of(row)))
            row = []
        row.append(word)
    rows.append(str(text_of(row)))
    if words[2] != "{" or spelling.section(name, rows) != tuple(words):
        return directive_call(words, [""] * (len(words) + 1))
    return f"section({', '.join(literal(r) for r in (name, *rows))})"


def parameter_call(declaration: DeclarationAttr) -> str:
    """`param("u64", "x", ptr="global", ptr_align=16)`."""
    head, items = declaration.data
    if not declaration.type:
        raise Unspellable(f"no type in {text_of(head)}")
    if len(items) == 1:
        name, tail = items[0]
        found = _tail_values(tail)
        options: dict[str, Any] = {}
        rest = list(head)
        space = rest.pop(0)[1:] if rest else ""
        if space != "param":
            options["space"] = space
        if rest[:1] == [".align"]:
            if not rest[1:] or not rest[1][0].isdigit():
                raise Unspellable(f"no number after .align in {text_of(head)}")
            options["align"] = _number(rest[1])
            rest = rest[2:]
        if ".ptr" in rest:
            at = rest.index(".ptr")
            pointer, rest = rest[at + 1 :], rest[:at]
            options["ptr"] = True
            if pointer and pointer[0] != ".align":
                options["ptr"] = pointer.pop(0)[1:]
            if pointer[:1] == [".align"] and len(pointer) == 2:
                options["ptr_align"] = _number(pointer[1])
        dtype = ".".join(w[1:] for w in rest)
        if (
            found is not None
            and found[1] is None
            and spelling.parameter(dtype, name, found[0], **options) == declaration
        ):
            words = [literal(dtype), literal(name)]
            if found[0] is not None:
                words.append(_python(found[0]))
            words += [f"{key}={_python(value)}" for key, value in options.items()]
            return f"param({', '.join(words)})"
    pairs = [f"({literal(name)}, {_python(text_of(tail))})" for name, tail in items]
    return f"declaration({', '.join([_python(text_of(head)), *pairs])})"


def parameter_words(declaration: DeclarationAttr, usual: str) -> str | None:
    """`u64.ptr.global.palign16` for a parameter of the usual name; None where words do not say it."""
    head, items = declaration.data
    name, tail = items[0]
    if len(items) != 1 or name != usual or head[:1] != (".param",):
        return None
    parts: list[str] = []
    rest = list(head[1:])
    if rest[:1] == [".align"]:
        parts.append(f"align{rest[1]}")
        rest = rest[2:]
    if not rest:
        return None
    base, *pointer = [word.lstrip(".") for word in rest]
    if pointer[-2:-1] == ["align"]:
        alignment = pointer.pop()
        pointer[-1] = f"palign{alignment}"
    parts = [base, *parts, *pointer]
    if len(tail) == 3:
        parts.append(f"array{tail[1]}")
    words = ".".join(parts)
    try:
        return words if raw_parameter(words, name) == declaration else None
    except ValueError:
        return None


def register_call(declaration: DeclarationAttr) -> str:
    """`reg("b32", ("%r", 100))`."""
    head, items = declaration.data
    words: list[str] = [literal(declaration.register_class)]
    for i, (name, tail) in enumerate(items):
        if not tail:
            words.append(literal(name))
        else:
            count = declaration.count(i)
            if count is None or tail != ("<", str(count), ">"):
                raise Unspellable(f"no register is declared as {name}{text_of(tail)}")
            words.append(f"({literal(name)}, {count})")
    if head != (".reg", *["." + w for w in declaration.register_class.split(".")]):
        words.append(f"head={_python(text_of(head))}")
    return f"reg({', '.join(words)})"


def directive_call(words: Sequence[str], gaps: Sequence[str]) -> str:
    """`pragma("nounroll")`, `file(1, "a.cu")`, `section(".debug_str", ...)`, or `directive(...)`; without layout."""
    words = tuple(words)
    match words:
        case (".pragma", *texts, ";") if texts:
            inner = [_unquoted(t) for t in texts if t != ","]
            if spelling.directives([("pragma", *inner)]) == words:
                return f"pragma({', '.join(literal(t) for t in inner)})"
        case (".file", number, name, *more):
            values = [_number(m) for m in more if m != ","]
            arguments: list[Any] = [_number(number), _unquoted(name), *values]
            if all(isinstance(a, int) for a in (arguments[0], *values)) and spelling.file(*arguments) == words:
                return f"file({', '.join(literal(a) for a in arguments)})"
        case (".alias", name, ",", function, ";"):
            return f"alias({literal(name)}, {literal(function)})"
        case (".section", name, "{", *_) if words[-1] == "}":
            rows = _rows(words, gaps)
            if spelling.section(name, rows) == words:
                return f"section({', '.join(literal(r) for r in (name, *rows))})"
        case _:
            pass
    return f"directive({', '.join(literal(w) for w in words)})"


def loc_call(words: Sequence[str]) -> str | None:
    """`loc(1, 20, 9)`; None for other than the usual forms."""
    numbers: list[Any] = [_number(w) for w in words[1:4]]
    if len(numbers) < 3 or not all(isinstance(n, int) for n in numbers):
        return None
    inlined: tuple[Any, ...] | None = None
    if len(words) > 4:
        inlined = tuple(_number(w) for w in words[4:] if w not in (",", "function_name", "inlined_at", "+"))
        if len(inlined) not in (4, 5):
            return None
    if spelling.loc(numbers[0], numbers[1], numbers[2], inlined) != tuple(words):
        return None
    text = ", ".join(str(n) for n in numbers)
    return f"loc({text})" if inlined is None else f"loc({text}, {literal(inlined)})"


def function_directives(words: Sequence[str]) -> str:
    """The directives of a function's header: `[("maxntid", 128, 1, 1)]`, or a string of PTX."""
    items: list[list[Any]] = []
    for word in words:
        if word[:1] == "." and word[1:2].isalpha():
            items.append([word[1:]])
        elif word not in (",", ";") and items:
            items[-1].append(_unquoted(word) if word[:1] == '"' else _number(word))
    if spelling.directives(items) == tuple(words):
        return "[" + ", ".join(literal(tuple(item)) for item in items) + "]"
    return _python(text_of(words))


def _rows(words: Sequence[str], gaps: Sequence[str]) -> list[str]:
    """The contents of a section, one row per line of the file."""
    rows: list[list[str]] = []
    for i in range(3, len(words) - 1):
        if not rows or "\n" in gaps[i]:
            rows.append([])
        rows[-1].append(words[i])
    return [str(text_of(row)) for row in rows]


_TIGHT_BEFORE = frozenset(",;)]>:[<+")
_TIGHT_AFTER = frozenset("([<@!~+")


def text_of(words: Sequence[str]) -> spelling.Text:
    """Tokens as text that is read as the same tokens; the tokens themselves where there is none."""
    text, previous = "", ""
    for word in words:
        tight = not previous or word in _TIGHT_BEFORE or previous in _TIGHT_AFTER
        text += word if tight else " " + word
        previous = word
    return next((t for t in (text, " ".join(words)) if spelling.words(t) == tuple(words)), tuple(words))


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        inner = text[1:-1]
        plain = inner.replace('\\"', '"').replace("\\\\", "\\")
        return plain if spelling.quoted(plain) == text else inner
    return text


def _number(text: str) -> int | str:
    if text.isdigit() and text.isascii() and (text[0] != "0" or text == "0") and len(text) < 64:
        return int(text)
    return text


def _tail_values(tail: Sequence[str]) -> tuple[Any, Any] | None:
    """(shape, initialiser) of what follows a variable's name; None where it is neither."""
    at = 0
    extents: list[Any] = []
    while at < len(tail) and tail[at] == "[":
        end = at + 1
        while end < len(tail) and tail[end] != "]":
            end += 1
        inner = tail[at + 1 : end]
        extents.append(_number(str(text_of(inner))) if inner else None)
        at = end + 1
    shape: Any = None
    if extents:
        shape = extents[0] if len(extents) == 1 and extents[0] is not None else tuple(extents)
        shape = () if extents == [None] else shape
    if at >= len(tail):
        return shape, None
    if tail[at] != "=":
        return None
    value, end = _value(tail, at + 1, 0)
    return (shape, value) if end == len(tail) and value is not None else None


def _value(words: Sequence[str], at: int, depth: int) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        return None, len(words)
    if at < len(words) and words[at] == "{":
        items: list[Any] = []
        at += 1
        while at < len(words) and words[at] != "}":
            item, at = _value(words, at, depth + 1)
            if item is None:
                return None, len(words)
            items.append(item)
            if at < len(words) and words[at] == ",":
                at += 1
        return items, at + 1
    start, nesting = at, 0
    while at < len(words) and not (nesting == 0 and words[at] in (",", "}")):
        nesting += (words[at] == "(") - (words[at] == ")")
        at += 1
    if at == start:
        return None, len(words)
    if at == start + 1:
        return _number(words[start]), at
    return str(text_of(words[start:at])), at


def _python(value: Any) -> str:
    return literal(value)
