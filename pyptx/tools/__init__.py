"""The command line: `pyptx`, `pyptx-opt`, and the NVIDIA tools after them."""
