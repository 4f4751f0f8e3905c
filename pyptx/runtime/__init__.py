"""Launching kernels: on arrays of NumPy and PyTorch, on the CPU machine or a GPU."""
