"""Benchmarks: `python -m benchmarks.<name>` prints a table; `make bench` runs all that need no GPU."""
