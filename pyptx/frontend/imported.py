"""`Kernel.from_ptx`: an entry of a PTX text as a kernel: to look at, check, translate and run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Operation

from ..analysis.operands import line_of
from ..diagnostics import Diagnostic
from ..dialects.ptx.structure import EntryOp, ModuleOp
from ..dialects.ptx.target import parse_version, version_text
from ..text import parse, read_source
from .kernel import Kernel, Traced
from .parameters import EntryParameter

__all__ = ["ImportedKernel"]


class ImportedKernel(Kernel):
    """A kernel from PTX text. `ptx()` is the text, `python()` the program for it; its parameters are raw."""

    def __init__(self, source: str | os.PathLike[str], entry: str | None = None):
        """`entry`: which one, where the text has several. PTXError for text that is no PTX, ValueError for an entry
        that it does not have.
        """
        text, path = read_source(source)
        self._path = path or "<ptx>"
        self._imported = parse(text, filename=path)
        module = _module(self._imported)
        entries = {op.symbol: op for op in module.functions if isinstance(op, EntryOp) and not op.is_declaration}
        if entry is None and len(entries) == 1:
            entry = next(iter(entries))
        if entry is None or entry not in entries:
            raise ValueError(f"{'which entry' if entry is None else f'no entry {entry}'}? it has: {', '.join(entries)}")
        op = entries[entry]
        threads = [int(n) for n in op.directive(".reqntid") or () if n.isdigit()]
        target = module.target
        super().__init__(
            _named(entry), arch=target.target, version=version_text(target.version), block=tuple(threads) or 1
        )
        self.parameters = tuple(EntryParameter(d.items[0][0], "raw", d) for d in op.parameters)
        self._alone: Traced | None = None

    @classmethod
    def from_ptx(cls, source: str | os.PathLike[str], entry: str | None = None) -> ImportedKernel:
        return cls(source, entry)

    def trace(self, **kw: Any) -> Traced:
        """The module with this entry alone, as the simulator takes it."""
        if self._alone is None:
            module = self._imported.clone()
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
        from ..printer.ptx import print_module

        return print_module(self._imported)

    def python(self, *, sugar: bool = True, **options: Any) -> str:
        """The Python program for it; options as in `pyptx.codegen.ptx_to_python`."""
        from ..codegen import ptx_to_python

        return ptx_to_python(self.ptx(), sugar=sugar, kernel_name=options.pop("kernel_name", self.name), **options)

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


def _module(module: BuiltinModule) -> ModuleOp:
    return next(op for op in module.body.block.ops if isinstance(op, ModuleOp))


def _named(name: str) -> Callable[[], None]:
    def entry() -> None:
        """An entry that came from PTX."""

    entry.__name__ = entry.__qualname__ = name
    return entry
