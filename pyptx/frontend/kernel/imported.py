"""An entry of a PTX text (`Kernel.from_ptx`) or of a `Module` as a kernel: to look at, check, translate and run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from ...analysis.operands import line_of
from ...diagnostics import Diagnostic
from ...dialects.ptx.structure import EntryOp, ModuleOp, TokensAttr, directive_numbers
from ...dialects.ptx.target import Version, parse_version, version_text
from ...printer.ptx import print_module
from ...sources import source_of
from ...text import parse
from .. import deferred
from ..memory.parameters import EntryParameter
from .kernel import Kernel
from .tracing import Traced

__all__ = ["EntryKernel", "ImportedKernel"]


class ImportedKernel(Kernel):
    """A kernel from PTX text. `ptx()` is the text, `python()` the program for it; its parameters are raw."""

    def __init__(self, source: str | os.PathLike[str], entry: str | None = None):
        """`entry`: which one, where the text has several. PTXError for text that is not PTX, ValueError for an entry
        that it does not have.
        """
        text, path = source_of(source)
        self._path = path or "<ptx>"
        self._imported = parse(text, filename=path)
        module = _module(self._imported)
        entries = {op.symbol: op for op in module.functions if isinstance(op, EntryOp) and not op.is_declaration}
        if entry is None and len(entries) == 1:
            entry = next(iter(entries))
        if entry is None or entry not in entries:
            raise ValueError(f"{'which entry' if entry is None else f'no entry {entry}'}? it has: {', '.join(entries)}")
        target = module.target
        self._entry = entry  # the kernel's name, which what follows asks for
        super().__init__(
            _named(entry), arch=target.target, version=version_text(target.version),
            block=_threads(entries[entry].numbers(".reqntid")),
        )  # fmt: skip
        self._alone: Traced | None = None

    @property
    def name(self) -> str:
        """The entry's name."""
        return self._entry

    @cached_property
    def parameters(self) -> tuple[EntryParameter, ...]:
        """What a launch passes, in order."""
        entries = (op for op in _module(self._imported).functions if isinstance(op, EntryOp))
        op = next(op for op in entries if op.symbol == self.name and not op.is_declaration)
        return tuple(EntryParameter(d.items[0][0], "raw", d) for d in op.parameters)

    @classmethod
    def from_ptx(cls, source: str | os.PathLike[str], entry: str | None = None) -> ImportedKernel:
        return cls(source, entry)

    def trace(self, **kw: Any) -> Traced:
        """The module with this entry alone, as the simulator takes it."""
        imported = self._imported
        if self._alone is None:
            module = imported.clone()
            for op in list(_module(module).functions):
                if isinstance(op, EntryOp) and op.symbol != self.name:
                    op.detach()
                    op.erase()
            version = parse_version(version_text(_module(module).target.version))
            self._alone = Traced(module, self.parameters, 0, self.arch, version, text=[])
        return self._alone

    def module(self, **kw: Any) -> BuiltinModule:
        """The IR of the whole text."""
        return self._imported

    def ptx(self, **kw: Any) -> str:
        """The text, byte for byte."""
        return print_module(self._imported)

    def python(self, *, sugar: bool = True, **options: Any) -> str:
        """The Python program for it; options as in `pyptx.codegen.ptx_to_python`."""
        return deferred.codegen.ptx_to_python(
            self.ptx(), sugar=sugar, kernel_name=options.pop("kernel_name", self.name), **options
        )

    @property
    def filename(self) -> str:
        """The PTX file; `<ptx>` for text."""
        return self._path

    def printed_lines(self, **kw: Any) -> Iterator[tuple[int, Operation]]:
        """The statements of the entry, each with its line in the text."""
        entry = next(op for op in _module(self._imported).functions if op.symbol == self.name)
        for op in entry.walk():
            line = line_of(op)
            if line is not None:
                yield line, op

    def _mapped(self, diagnostics: Sequence[Diagnostic], kw: Mapping[str, Any]) -> list[Diagnostic]:
        return list(diagnostics)

    def _repr_markdown_(self) -> str:
        """How a notebook shows it: the readable program."""
        return f"```python\n{self.python()}```"


class Owner(Protocol):
    """The module that an entry is of."""

    target: str
    version: Version | None

    def ptx(self) -> str: ...


class Defined(Protocol):
    """An entry of a module, as it is defined there."""

    name: str
    properties: dict[str, Attribute]


class EntryKernel(ImportedKernel):
    """An entry of a `Module`, as its decorator `entry` leaves it. `ptx()` is the text of the whole module; what reads
    the text (`check`, `simulate`, a launch) reads it when it is asked for. As an operand it stands for its name.
    """

    def __init__(self, owner: Owner, function: Defined):
        directives = function.properties["directives"]
        assert isinstance(directives, TokensAttr)
        self._owner, self._entry = owner, function.name
        Kernel.__init__(
            self, _named(function.name), arch=owner.target, version=owner.version, block=_threads(directive_numbers(directives.data, ".reqntid"))
        )  # fmt: skip
        self._path = "<ptx>"
        self._text = ""
        self._alone: Traced | None = None

    def __ptx_symbol__(self) -> tuple[str, int]:
        return self.name, 0

    @property
    def _imported(self) -> BuiltinModule:
        """The module, read anew where the author has added to it."""
        text = self._owner.ptx()
        if text != self._text:
            self._text, self._read, self._alone = text, parse(text), None
            self.__dict__.pop("parameters", None)
        return self._read

    def ptx(self, **kw: Any) -> str:
        """The text of the module."""
        return self._owner.ptx()


def _threads(numbers: tuple[int, ...] | None) -> tuple[int, ...] | int:
    """The block of a launch: what `.reqntid` says, else 1."""
    return numbers or 1


def _module(module: BuiltinModule) -> ModuleOp:
    return next(op for op in module.body.block.ops if isinstance(op, ModuleOp))


def _named(name: str) -> Callable[[], None]:
    def entry() -> None:
        """An entry that came from PTX."""

    entry.__name__ = entry.__qualname__ = name
    return entry
