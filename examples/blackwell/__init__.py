"""Kernels for sm_100a."""
