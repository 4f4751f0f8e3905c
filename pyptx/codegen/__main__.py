"""`python -m pyptx.codegen kernel.ptx [--sugar] [--no-trivia] [--name N] [--runnable] [--allow-unknown]`."""

from __future__ import annotations

import argparse
import sys

from ..diagnostics import PTXError, file_problem
from .command import add_arguments, run


def main() -> int:
    """Exit status 0, 1 for text that is not PTX (nothing is written then), 2 for an unreadable file."""
    parser = argparse.ArgumentParser(prog="python -m pyptx.codegen", description="PTX to Python that gives it back.")
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except PTXError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 0
    except OSError as error:
        print(file_problem(error), file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
