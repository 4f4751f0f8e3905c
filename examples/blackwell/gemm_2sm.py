"""C = A * B^T on tensor memory by two SMs together per tile: see `examples.blackwell.gemm`.

python -m examples.blackwell.gemm_2sm --size 512
"""

from __future__ import annotations

import sys
from functools import partial

from examples import gemms
from examples.blackwell import gemm
from examples.common import main as run

build = partial(gemm.build, pair=True)
check = gemms.checker(build)


def main() -> int:
    return run("C = A * B^T on tensor memory", check, build, size=(512,) * 3, names=("M", "N", "K"), arch="sm_100a",
               limit=gemms.LIMIT)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
