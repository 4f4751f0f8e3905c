"""What is refused or warned of while a kernel is traced, and what to write instead."""
