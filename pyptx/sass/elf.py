"""What a cubin, an ELF file of 64 bits, says about its functions besides their code."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ..diagnostics import PTXError

__all__ = ["Section", "registers_of", "sections_of", "shared_bytes"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NO_BITS = 8
_RESERVED = 1024
_REGISTERS = b"\x04\x2f\x08\x00"
"""The head of an EIATTR_REGCOUNT of `.nv.info` (cuobjdump -elf names it): index of a symbol and number of registers follow."""


@dataclass(frozen=True, slots=True)
class Section:
    """One section; without data where it takes no room in the file."""

    name: str
    size: int
    data: bytes


def sections_of(cubin: bytes) -> dict[str, Section]:
    """The sections by name. PTXError where the bytes are not an ELF file of 64 bits."""
    try:
        return _sections(cubin)
    except (struct.error, IndexError, ValueError):
        raise PTXError("this is not a cubin: it is not an ELF file of 64 bits, or it is cut off") from None


def _sections(cubin: bytes) -> dict[str, Section]:
    ident, *_, offset, _flags, _size, _, _, entry_size, count, names_at = _HEADER.unpack_from(cubin)
    if not ident.startswith(b"\x7fELF\x02\x01") or entry_size != _SECTION.size:
        raise ValueError
    heads = [_SECTION.unpack_from(cubin, offset + i * entry_size) for i in range(count)]
    names = cubin[heads[names_at][4] :][: heads[names_at][5]]
    found: dict[str, Section] = {}
    for name_at, kind, _flags, _address, start, size, *_ in heads:
        name = names[name_at : names.index(b"\0", name_at)].decode("utf-8", "replace")
        data = b"" if kind == _NO_BITS else cubin[start : start + size]
        if kind != _NO_BITS and len(data) != size:
            raise ValueError
        found[name] = Section(name, size, data)
    return found


def registers_of(sections: dict[str, Section]) -> dict[str, int]:
    """Function -> registers per thread."""
    try:
        symbols, names, facts = (sections[n].data for n in (".symtab", ".strtab", ".nv.info"))
    except KeyError:
        return {}
    found: dict[str, int] = {}
    for kind, rest in _records(facts):
        if kind == _REGISTERS:
            index, count = struct.unpack("<II", rest)
            start = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)[0]
            found[names[start : names.index(b"\0", start)].decode("utf-8", "replace")] = count
    return found


def shared_bytes(sections: dict[str, Section], function: str) -> int:
    """Static shared memory of a function. From sm_90 on its section starts with what the system keeps for itself."""
    found = sections.get(f".nv.shared.{function}")
    if found is None:
        return 0
    return found.size - (_RESERVED if ".nv.shared.reserved.0" in sections else 0)


def _records(facts: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(head, value) of the records of `.nv.info`: of format 4, the upper half of the head is the size of a value after it."""
    at = 0
    while at + 4 <= len(facts):
        head = facts[at : at + 4]
        size = int.from_bytes(head[2:], "little") if head[0] == 4 else 0
        yield head, facts[at + 4 : at + 4 + size]
        at += 4 + size
