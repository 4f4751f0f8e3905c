"""Module passes of the `ptx` dialect, one file each, all reachable from `pyptx-opt`."""
