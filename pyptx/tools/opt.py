"""`pyptx-opt`: xDSL's optimiser driver with the `ptx` dialect, its passes, target and frontend."""

from __future__ import annotations

import sys

from xdsl.utils.exceptions import DiagnosticException, ParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from ..diagnostics import PTXError


def main() -> None:
    """Run the driver; what is wrong with the input is printed, exit status 1, never a traceback."""
    try:
        xDSLOptMain("pyptx-opt, a driver for the ptx dialect").run()
    except (PTXError, ParseError, DiagnosticException) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except (ValueError, OSError) as error:  # unknown passes, missing options, unreadable files
        print(f"pyptx-opt: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
