"""Tensor maps: the 128-byte descriptors of tensors in global memory that tensor copies read (PTX ISA 5.5.8).

`prefetch.tensormap` is in `movement`, `fence.proxy.tensormap` in `barrier`.
"""

from __future__ import annotations

from .forms import form
from .instruction import Instruction, instruction
from .target import need

MODIFIABLE = "90a 100af 103af 107af 110af 120af 121af"
NEWER = "100af 103af 107af 110af 120af 121af"
SPACES = "global shared::cta"


@instruction
class TensormapReplace(Instruction):
    """Replace one field of a tensor map in memory.

    Operands: map, its address; value, the new contents: a .b64 for the address and strides, a .b32 for rank,
    extents, box and element strides, a constant for the other fields (`.elemtype` 0 to 15,
    `.interleave_layout` 0 to 2, `.swizzle_mode` 0 to 4, `.fill_mode` 0 or 1, `.swizzle_atomicity` 0 to 3);
    index, a constant, the dimension 0 to 4 for the fields that have one value for each. `.alloc_small` and
    `.alloc_large` say which class the tensor's allocation is of, alone or with its address (`.alloc_same`: the class
    that the map has). The change is weak and seen by copies after a tensormap proxy fence.
    """

    name = "ptx.tensormap.replace"
    section = "9.7.10.29"
    effect = "order"
    unit = "async copy"
    forms = (
        form("tensormap.replace.tile.global_address{.alloc}{.space}.b1024.b64 [map:u32+], value:b64",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, needs={"?alloc": need("9.5")},
             alloc="alloc_same alloc_small alloc_large"),
        form("tensormap.replace.tile.alloc{.space}.b1024 [map:u32+]",
             space=SPACES, ptx="9.5", sm=MODIFIABLE, alloc="alloc_small alloc_large"),
        form("tensormap.replace.tile.rank{.space}.b1024.b32 [map:u32+], value:b32",
             space=SPACES, ptx="8.3", sm=MODIFIABLE),
        form("tensormap.replace.tile.field{.space}.b1024.b32 [map:u32+], index:imm, value:b32",
             field="box_dim global_dim element_stride", space=SPACES,
             ptx="8.3", sm=MODIFIABLE, ranges={"index": (0, 4)}),
        form("tensormap.replace.tile.global_stride{.space}.b1024.b64 [map:u32+], index:imm, value:b64",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, ranges={"index": (0, 4)}),
        form("tensormap.replace.tile.elemtype{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, ranges={"value": (0, 12)}),
        form("tensormap.replace.tile.elemtype{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.7", sm=NEWER, ranges={"value": (0, 15)}),
        form("tensormap.replace.tile.interleave_layout{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, ranges={"value": (0, 2)}),
        form("tensormap.replace.tile.swizzle_mode{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, ranges={"value": (0, 3)}),
        form("tensormap.replace.tile.swizzle_mode{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.8", sm="103a", ranges={"value": (0, 4)}),
        form("tensormap.replace.tile.swizzle_mode{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="9.4", sm="107a", ranges={"value": (0, 4)}),
        form("tensormap.replace.tile.swizzle_atomicity{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.6", sm=NEWER, ranges={"value": (0, 3)}),
        form("tensormap.replace.tile.fill_mode{.space}.b1024.b32 [map:u32+], value:imm",
             space=SPACES, ptx="8.3", sm=MODIFIABLE, ranges={"value": (0, 1)}),
    )  # fmt: skip


@instruction
class TensormapCpFenceproxy(Instruction):
    """Copy a tensor map from shared to global memory and release it to the tensormap proxy, as a warp.

    Operands: dst, in global memory; src, in shared memory, both 128-byte aligned; size, the constant 128.
    Readers acquire with `fence.proxy.tensormap::generic.acquire` at the same scope.
    """

    name = "ptx.tensormap.cp_fenceproxy"
    section = "9.7.15.17"
    effect = "order"
    unit = "async copy"
    forms = (
        form(
            "tensormap.cp_fenceproxy.dst.src.tensormap::generic.release.scope.sync.aligned [dst], [src], size:imm",
            dst="global", src="shared::cta", scope="cta cluster gpu sys",
            ptx="8.3", sm="90+", ranges={"size": frozenset({128})},
        ),
    )  # fmt: skip


@instruction
class TensormapQueryAllocClassLarge(Instruction):
    """Ask whether a tensor map describes a tensor in a large allocation class: p is true if so.

    Operands: p, a predicate; map, the address of the tensor map.
    """

    name = "ptx.tensormap.query.alloc_class_large"
    section = "9.7.10"
    effect = "read"
    unit = "async copy"
    forms = (
        form("tensormap.query.alloc_class_large{.space}.b1024 p:pred, [map:u64+]",
             space="const global param param::entry shared::cta", ptx="9.5", sm=MODIFIABLE),
    )  # fmt: skip
