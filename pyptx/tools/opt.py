"""`pyptx-opt`: xDSL's optimiser driver with the `ptx` dialect, its passes, target and frontend."""

from __future__ import annotations

from xdsl.xdsl_opt_main import xDSLOptMain


def main() -> None:
    xDSLOptMain("pyptx-opt, a driver for the ptx dialect").run()


if __name__ == "__main__":
    main()
