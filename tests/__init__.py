"""The Python tests; folders mirror those of pyptx/."""
