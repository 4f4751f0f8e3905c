"""Tensors in memory: maps, boxes, swizzled operands, sparsity."""
