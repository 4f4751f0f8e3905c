"""`pyptx transpile`: PTX to Python that gives the same PTX back (`python -m pyptx.codegen` is the same)."""

from ...codegen.command import add_arguments, run

__all__ = ["add_arguments", "run"]
