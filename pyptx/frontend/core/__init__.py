"""What tracing needs: the trace, registers and their operators, instructions, results. Registers have operators, operators are
instructions, and instructions take registers."""
