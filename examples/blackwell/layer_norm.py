"""layer_norm for sm_100a: `examples.hopper.layer_norm` with another target. It uses nothing that sm_100a lacks.

    python -m examples.blackwell.layer_norm

Measured: results against float64 on the simulator, assembled by ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys
from functools import partial

from examples.hopper import layer_norm as shared

build = partial(shared.build, arch="sm_100a")
check = partial(shared.check, arch="sm_100a")

if __name__ == "__main__":
    sys.exit(shared.main(arch="sm_100a"))
