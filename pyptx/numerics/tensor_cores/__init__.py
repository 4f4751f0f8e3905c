"""What tensor cores compute, bit for bit: `rules` has the table, `accumulate` the sum, `dot` the function for NumPy arrays."""
