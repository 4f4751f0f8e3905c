"""Registers of a traced kernel: `reg.scalar(u32)`, `reg.array(f32, 8)`."""

from .frontend.core.registers import NegPred, PipeRef, Reg, RegArray, alloc, alloc_array, array, from_, scalar
from .frontend.library.fragments import Fragment, mma_frag, wgmma_frag

__all__ = [
    "Fragment",
    "NegPred",
    "PipeRef",
    "Reg",
    "RegArray",
    "alloc",
    "alloc_array",
    "array",
    "from_",
    "mma_frag",
    "scalar",
    "wgmma_frag",
]
