"""Analyses of the `ptx` dialect: they read the IR and change nothing."""
