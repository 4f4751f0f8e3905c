"""The CPU machine that executes PTX kernels."""
