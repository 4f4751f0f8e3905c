"""The whole path once: a Python kernel and a PTX file, through the `ptx` dialect, to text and to results on a CPU.

python -m examples.demo
"""

from __future__ import annotations

import argparse

from examples.hopper import rms_norm
from examples.transpile import run as transpile


def main() -> None:
    argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__).parse_args()
    print("== A kernel written in Python: examples/hopper/rms_norm.py\n")
    rms_norm.demo()
    print("\n== A kernel compiled by nvcc: examples/transpile/kernels.ptx\n")
    transpile.main()


if __name__ == "__main__":
    main()
