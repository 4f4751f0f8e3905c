"""The state of the CPU machine: programs as plain data, registers, memories, barriers in flight, and how instructions register their meaning."""
