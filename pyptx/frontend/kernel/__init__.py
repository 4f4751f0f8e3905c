"""`@kernel`: a Python function, traced and built into a module with one entry; kernels of PTX texts."""
