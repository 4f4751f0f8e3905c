"""Example kernels, each runnable on the CPU simulator and on a GPU."""
