"""`Kernel`, `TensorSpec`, `TmaDescriptorHandle` and the decorator `kernel`."""

from .frontend.kernel.kernel import Kernel, Launch, TensorSpec, TmaDescriptorHandle, Traced, kernel

__all__ = ["Kernel", "Launch", "TensorSpec", "TmaDescriptorHandle", "Traced", "kernel"]
