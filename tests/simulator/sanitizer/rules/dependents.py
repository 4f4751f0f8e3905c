"""Programmatic dependent launches."""

from __future__ import annotations

from ..pieces import Pair

READ, STORE = "    ld.global.u32 %r10, [%rd4];", "    st.global.u32 [%rd5], %r1;"
WAIT, LAUNCH = "\n    griddepcontrol.wait;\n", "\n    griddepcontrol.launch_dependents;\n"
PAIRS = [
    Pair("dependent-read", READ + " //!" + WAIT, WAIT + READ, {"programmatic": True}),
    Pair("dependent-store", WAIT + LAUNCH + STORE + " //!", WAIT + STORE + LAUNCH, {"programmatic": True}),
]
