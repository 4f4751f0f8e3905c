"""A launch of a kernel, guessed from its parameters and directives: grid, block, shared memory, boxes of tensor maps."""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.occupancy import most_shared
from ..dialects.ptx.structure import DeclarationAttr
from ..dialects.ptx.syntax import SpecialRegister
from ..parser.module_text import ModuleText
from ..ssa.builder import FunctionSource
from ..types import from_name
from .guesses import Guess, Guesses, declarations, tokens

__all__ = [
    "EXTENT",
    "EXTENTS",
    "SIZE",
    "LaunchGuess",
    "array_type",
    "box_of",
    "launch_of",
    "shared_address",
    "tensors_of_maps",
]

SIZE = 64
"""What integer parameters get: mostly sizes, and small enough for the arrays."""
EXTENT = 256
"""Each dimension of a tensor that copies read by a tensor map: beyond it they read zeros."""
EXTENTS = {
    "1d": (SIZE,), "2d": (SIZE, SIZE), "3d": (SIZE, SIZE, SIZE), "a1d": (4, SIZE), "a2d": (4, SIZE, SIZE),
    "cube": (6, SIZE, SIZE), "acube": (4, 6, SIZE, SIZE), "2dms": (4, SIZE, SIZE), "a2dms": (4, 4, SIZE, SIZE),
}  # fmt: skip
"""Of textures and surfaces, by geometry."""
ROW_BYTES = 128
MOST_IN_BOX = 256
_SLACK = 1024
"""Shared memory left for alignment."""
_BLOCKS = (64,), (8, 8), (4, 4, 4)
_BLOCKS_WITH_BARRIERS = (128,), (16, 16), (8, 8, 4)
"""Blocks of one, two and three dimensions."""
_KNOWN = frozenset("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 e4m3 e5m2".split())
"""What NumPy has arrays of."""
SHARED_ADDRESS = 0x400
"""Where the shared memory of a launch begins; the system's is before it."""
SHARED_WINDOW = 0x7000_0000_0000
"""The generic address of shared address 0."""
SHARED_BYTES = 16 << 10
"""Of a kernel that gets addresses of shared memory."""
_GRID = ("%envreg1", "%envreg2")
_SUFFIX = "_tma_desc"
"""What pyptx's own kernels call the tensor map of a tensor."""
Size = tuple[int, ...]


@dataclass(frozen=True)
class LaunchGuess:
    """The shape of a launch; `cluster` is None where the kernel says it itself, or has none."""

    grid: Size
    block: Size
    cluster: Size | None
    smem: int
    cooperative: bool = False
    is_required: bool = False
    """Whether the kernel says the size of the block itself."""

    @property
    def blocks(self) -> list[Size]:
        """The blocks to try: one thread at last, for kernels that count on fewer than were guessed."""
        return [self.block] if self.is_required else [self.block, (1,)]


def launch_of(entry: FunctionSource, found: Guesses, source: ModuleText) -> LaunchGuess:
    """The smallest launch: one CTA or cluster, with all the shared memory that arrays without a size may have."""
    directives = tokens(entry, "directives")
    exact = _sizes(directives, ".reqntid")
    block = exact or _sizes(directives, ".maxntid") or _block(found)
    required = _sizes(directives, ".reqnctapercluster")
    cluster = (2,) if found.clusters and not required else None
    by_address = SHARED_BYTES if _has_shared_addresses(entry, found) else 0
    smem = max(_dynamic_shared(source), by_address)
    return LaunchGuess(required or cluster or (1,), block, cluster, smem, _meets_grid(source), bool(exact))


def shared_address(own: Guess, size: int) -> int | None:
    """What a parameter of this size gets that points into shared memory: of 32 bits an address there, of 64 a generic one."""
    if own.pointer and size == 4:
        return SHARED_ADDRESS
    return SHARED_WINDOW + SHARED_ADDRESS if own.shared and size == 8 else None


def _has_shared_addresses(entry: FunctionSource, found: Guesses) -> bool:
    sizes = {name: d.size(i) for d in declarations(entry, "params") for i, (name, _) in enumerate(d.items)}
    return any(shared_address(own, sizes.get(name, 0)) is not None for name, own in found.parameters.items())


def _meets_grid(source: ModuleText) -> bool:
    """Whether some function waits for all CTAs (cg::this_grid().sync()): the barrier's address is in %envreg1 and %envreg2."""
    shapes = {s[0] for item in source.items if isinstance(item, FunctionSource) for s in item.statements}
    return any(isinstance(o, SpecialRegister) and o.name in _GRID for shape in shapes for o in shape.layout)


def _block(found: Guesses) -> Size:
    if found.barrier_threads > 0:
        return (found.barrier_threads,)
    return (_BLOCKS_WITH_BARRIERS if found.barrier_threads else _BLOCKS)[found.dimensions - 1]


def _dynamic_shared(source: ModuleText) -> int:
    """Bytes of shared memory for a launch to give: all that is left, if some array's size is for the launch to say."""
    declared: list[DeclarationAttr] = []
    for item in source.items:
        statements = item.statements if isinstance(item, FunctionSource) else [item]
        payloads = [s[0].payload for s in statements]
        declared += [d for d in payloads if isinstance(d, DeclarationAttr) and ".shared" in d.head]
    static = sum(d.size(i) for d in declared if ".extern" not in d.head for i in range(len(d.items)))
    if not any(".extern" in d.head for d in declared):
        return 0
    return max(most_shared(source.target) - static - _SLACK, 0) // _SLACK * _SLACK


def _sizes(words: tuple[str, ...], *directives: str) -> Size:
    """The numbers after the first of the directives that is there; none if none is."""
    for directive in directives:
        if directive in words:
            sizes: list[int] = []
            for word in words[words.index(directive) + 1 :]:
                if word.startswith("."):
                    break
                if word.isdigit():
                    sizes.append(int(word))
            return tuple(sizes)
    return ()


def box_of(own: Guess) -> Size:
    """The box of a tensor map, slowest dimension first."""
    inner = ROW_BYTES // from_name(array_type(own)).bytes
    rest = max((own.box_bytes or 64 * ROW_BYTES) // ROW_BYTES, 1)
    if own.rank == 1:
        return (min(inner * rest, MOST_IN_BOX),)
    box = [inner]
    for _ in range(own.rank - 1):
        box.append(min(rest, MOST_IN_BOX))
        rest = max(rest // MOST_IN_BOX, 1)
    return tuple(reversed(box))


def array_type(own: Guess) -> str:
    """The type of the elements of an array, one that NumPy has."""
    return own.type if own.type in _KNOWN else "f32"


def tensors_of_maps(found: Guesses) -> dict[str, str]:
    """Tensor maps with the parameter that is the tensor itself, as pyptx's own kernels have them: it is not used."""
    return {
        name: tensor
        for name, own in found.parameters.items()
        if own.rank and not own.handle and (tensor := name.removesuffix(_SUFFIX)) != name
        if tensor in found.parameters and not found.parameters[tensor].used
    }
