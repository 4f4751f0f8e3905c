"""Which op class an opcode names. A chapter of the dialect is imported when one of its opcodes is first met."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from importlib import import_module
from typing import Any, Protocol


class OpClass(Protocol):
    """What is asked here, and by messages about opcodes, of an op class (`Instruction`)."""

    __module__: str

    @property
    def opcode(self) -> str: ...

    def candidates(self, modifiers: tuple[str, ...]) -> Any: ...


CHAPTERS: dict[str, str] = {
    "movement": "ld ldu st prefetch prefetchu applypriority discard createpolicy cvta isspacep istypep mapa getctarank",
    "async_copy": "cp multimem applypriority",
    "atomic": "atom red multimem",
    "warp": "shfl vote match activemask redux elect",
    "barrier": "bar barrier membar fence griddepcontrol",
    "cluster": "clusterlaunchcontrol",
    "integer": "add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a clmad",
    "comparison": "setp set selp slct",
    "control": "bra brx call ret exit",
    "conversion": "cvt",
    "extended": "addc subc madc",
    "fabric": "fabric",
    "floating": "fma rcp sqrt rsqrt sin cos lg2 ex2 tanh testp copysign",
    "logic": "and or xor not cnot lop3 shf shl shr",
    "matrix": "mma wmma ldmatrix stmatrix movmatrix",
    "mbarrier": "mbarrier",
    "misc": "trap brkpt pmevent nanosleep setmaxnreg trace",
    "move": "mov prmt",
    "sparsity": "spcompress spdecompress",
    "stack": "alloca stacksave stackrestore",
    "surface": "suld sust sured suq",
    "tcgen05": "tcgen05",
    "tensor_map": "tensormap",
    "texture": "tex tld4 txq",
    "video": "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4",
    "wgmma": "wgmma",
}  # fmt: skip
"""Chapter -> the first words of its opcodes (a test compares them with the classes). An opcode that starts with none of
these words is looked up in all chapters.
"""

_pending: dict[str, list[str]] = {}
"""First word -> the chapters with it that may not be imported yet."""
for _chapter, _words in CHAPTERS.items():
    for _word in _words.split():
        _pending.setdefault(_word, []).append(_chapter)
_roots: dict[str, None] = dict.fromkeys(_pending)
_classes: dict[str, OpClass] = {}
_longest: dict[str, int] = {}
"""First word -> the most dots in an opcode that starts with it."""
_all_loaded = False


def _load(root: str) -> None:
    """Import the chapters that have opcodes with this first word."""
    for chapter in _pending.get(root, ()):
        import_module(f".{chapter}", __package__)
    _pending.pop(root, None)  # afterwards: another thread may ask meanwhile


def _load_all() -> None:
    """Import all chapters, and put the classes into their order."""
    global _classes, _all_loaded
    if _all_loaded:
        return
    for chapter in CHAPTERS:
        import_module(f".{chapter}", __package__)
    _classes = dict(sorted(_classes.items(), key=lambda item: _place(item[1])))
    _all_loaded = True


_places = {f"{__package__}.{chapter}": i for i, chapter in enumerate(CHAPTERS)}


def _place(cls: OpClass) -> int:
    """Where its chapter stands: the order in which chapters were imported says nothing."""
    return _places.get(cls.__module__, len(_places))


class _Opcodes(MutableMapping[str, OpClass]):
    """Every dotted opcode with its op class. To look one up imports its chapter, to list them all chapters."""

    def __getitem__(self, opcode: str) -> OpClass:
        _load(opcode.partition(".")[0])
        return _classes[opcode]

    def __setitem__(self, opcode: str, cls: OpClass) -> None:
        _classes[opcode] = cls

    def __delitem__(self, opcode: str) -> None:
        del _classes[opcode]

    def __iter__(self) -> Iterator[str]:
        _load_all()
        return iter(_classes)

    def __len__(self) -> int:
        _load_all()
        return len(_classes)


OPCODES = _Opcodes()


def register(cls: OpClass) -> None:
    """Put an op class under its opcode."""
    opcode = cls.opcode
    root = opcode.partition(".")[0]
    if not cls.__module__.startswith(f"{__package__}."):
        _load(root)  # it may have taken an opcode of ours
    if opcode in _classes:
        raise ValueError(f"two op classes for {opcode}")
    _classes[opcode] = cls
    _longest[root] = max(_longest.get(root, 0), opcode.count("."))
    _roots[root] = None


def find_opcode(root: str, modifiers: Sequence[str]) -> tuple[OpClass, int] | None:
    """The op class for `root` + modifiers and how many modifiers belong to its opcode: the longest dotted match."""
    if root in _pending:
        _load(root)
    elif root not in _longest:
        _load_all()
    for n in range(min(_longest.get(root, -1), len(modifiers)), -1, -1):
        cls = _classes.get(".".join((root, *modifiers[:n])))
        if cls is not None:
            return cls, n
    return None


def roots() -> list[str]:
    """The first words of all opcodes."""
    return list(_roots)


def opcodes_of(root: str) -> list[str]:
    """The opcodes that start with this word."""
    _load(root)
    found = [item for item in _classes.items() if item[0].partition(".")[0] == root]
    return [opcode for opcode, _ in sorted(found, key=lambda item: _place(item[1]))]
