"""Registers of a traced kernel: `reg.scalar(u32)`, `reg.array(f32, 8)`."""

from .frontend.registers import NegPred, PipeRef, Reg, RegArray, alloc, alloc_array, array, from_, scalar, wgmma_frag

__all__ = ["NegPred", "PipeRef", "Reg", "RegArray", "alloc", "alloc_array", "array", "from_", "scalar", "wgmma_frag"]
