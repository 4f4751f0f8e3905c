"""The command line: `pyptx`, `pyptx-opt`, and the NVIDIA tools behind them."""
