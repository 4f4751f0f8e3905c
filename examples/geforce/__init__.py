"""Kernels for sm_120a (GeForce and RTX Pro Blackwell)."""
