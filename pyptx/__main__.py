"""`python -m pyptx`: the `pyptx` command."""

import sys

from .tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
