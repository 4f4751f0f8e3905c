"""Kernels for sm_80."""
