"""layer_norm for sm_80: `examples.hopper.layer_norm` with another target. It uses nothing that sm_80 lacks.

    python -m examples.ampere.layer_norm

Measured: results against float64 on the simulator, assembled by ptxas 13.5. Not yet measured: time on a GPU.
"""

from __future__ import annotations

import sys
from functools import partial

from examples.hopper import layer_norm as shared

build = partial(shared.build, arch="sm_80")
check = partial(shared.check, arch="sm_80")

if __name__ == "__main__":
    sys.exit(shared.main(arch="sm_80"))
