"""A compiler for NVIDIA PTX on xDSL."""
