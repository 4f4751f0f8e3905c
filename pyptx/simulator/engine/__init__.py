"""Runs a program: decode, warp by warp execution, deadlocks and endless loops."""
