"""What a launch would allocate or step through is bounded, in words."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pyptx.diagnostics import SimulationError
from pyptx.simulator import load

HEAD = ".version 9.5\n.target sm_90a\n.address_size 64\n"
ENTRY = ".visible .entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d0, [out];\n"
TOO_MUCH = {
    "one variable": (".global .b8 g[1000000000000];", "ret; }", {}, "the largest is g with 1,000,000,000,000"),
    "a constant": (".const .u64 g[4000000000000000000];", "ret; }", {}, "at most 4 GiB"),
    "an initial value": (".global .b8 g[1000000000000] = {1, 2};", "ret; }", {}, "at most 4 GiB"),
    "many": ("\n".join(f".global .b8 g{i}[1000000000];" for i in range(9)), "ret; }", {}, "9,000,000,000 bytes"),
    "inside a function": ("", ".global .b8 g[1000000000000]; ret; }", {}, "k::g"),
    "shared": (".shared .b8 s[1000000000000];", "mov.u32 %r0, s; ret; }", {}, "that a CTA may have"),
    "dynamic shared": ("", "ret; }", {"smem": 10**12}, "that a CTA may have"),
    "local": ("", ".local .b8 l[1000000000000]; mov.u64 %d1, l; ret; }", {}, "bytes of local memory"),
    "local of a large grid": (
        "",
        ".local .b8 l[400000]; mov.u64 %d1, l; ret; }",
        {"grid": 100_000},
        "use a smaller grid",
    ),
    "threads": ("", "ret; }", {"grid": 2**31 - 1}, "can be simulated"),
    "threads of three dimensions": ("", "ret; }", {"grid": (2**31 - 1, 65535, 65535)}, "can be simulated"),
    "a cooperative grid": ("", "ret; }", {"grid": 10**7, "cooperative": True}, "a smaller grid"),
    "a cooperative grid for a larger GPU": (
        "",
        "ret; }",
        {"grid": 2 * 192 + 1, "block": 1024, "cooperative": True},  # two such CTAs on an SM (compute capability 9.0)
        "room for 2 CTAs of 1024 threads.* 385 CTAs are too many; use a smaller grid .at most 384",
    ),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_too_much_is_refused_at_once(case: str) -> None:
    declarations, body, launch, message = TOO_MUCH[case]
    start = time.process_time()
    with pytest.raises(SimulationError, match=message):
        load(HEAD + declarations + "\n" + ENTRY + body)["k"].simulate(
            np.zeros(8, np.uint32), **{"grid": 1, "block": 32, **launch}
        )
    assert time.process_time() - start < 5


def test_malloc_returns_null_when_there_is_no_more() -> None:
    """CUDA C++ Programming Guide, dynamic global memory allocation: NULL if insufficient memory is available."""
    source = f"""{HEAD}
    .extern .func (.param .b64 r) malloc(.param .b64 n);
    {ENTRY}
        {{ .param .b64 n; .param .b64 r; st.param.b64 [n], 1000000000000; call (r), malloc, (n); ld.param.b64 %d1, [r]; }}
        st.global.u64 [%d0], %d1;
        ret;
    }}"""
    out = np.ones(1, np.uint64)
    load(source)["k"].simulate(out, grid=1, block=1)
    assert out[0] == 0


def test_operators_new_and_delete_and_printf_of_other_compilers() -> None:
    """Their names in the Itanium C++ ABI; GCC's printf takes the address of its arguments."""
    source = f"""{HEAD}
    .extern .func (.param .b64 r) _Znwm(.param .b64 n);
    .extern .func (.param .b64 r) _Znam(.param .b64 n);
    .extern .func _ZdlPvm(.param .b64 p, .param .b64 n);
    .extern .func _ZdaPv(.param .b64 p);
    .extern .func (.param .b32 r) printf(.param .b64 f, .param .b64 a);
    .global .b8 words[4] = {{37, 100, 10, 0}};
    {ENTRY}
        .reg .b64 %e<4>; .local .align 8 .b8 buffer[8]; mov.u64 %e2, buffer; cvta.local.u64 %e2, %e2; st.u32 [%e2], 7; mov.u64 %e3, words;
        {{ .param .b64 n; .param .b64 r; st.param.b64 [n], 8; call (r), _Znwm, (n); ld.param.b64 %d1, [r]; }}
        {{ .param .b64 n; .param .b64 r; st.param.b64 [n], 8; call (r), _Znam, (n); ld.param.b64 %d2, [r]; }}
        st.u64 [%d1], 3; st.u64 [%d2], 4; ld.u64 %e0, [%d1]; ld.u64 %e1, [%d2]; add.u64 %e0, %e0, %e1; st.global.u64 [%d0], %e0;
        {{ .param .b64 p; .param .b64 n; st.param.b64 [p], %d1; st.param.b64 [n], 8; call _ZdlPvm, (p, n); }}
        {{ .param .b64 p; st.param.b64 [p], %d2; call _ZdaPv, (p); }}
        {{ .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %e3; st.param.b64 [a], %e2; call (r), printf, (f, a); }}
        ret;
    }}"""
    out = np.ones(1, np.uint64)
    report = load(source)["k"].simulate(out, grid=1, block=1)
    assert out[0] == 7
    assert report.output == "7\n"


def test_a_cooperative_grid_that_fits() -> None:
    load(HEAD + ENTRY + "ret; }")["k"].simulate(np.zeros(8, np.uint32), grid=384, block=1, cooperative=True)


@pytest.mark.parametrize(
    ("offset", "words"), [(0, "is out of bounds: this is a null pointer"), (8, "8 bytes past a null pointer")]
)
@pytest.mark.parametrize("space", [".global", ""])
def test_a_null_pointer(space: str, offset: int, words: str) -> None:
    entry = load(HEAD + ENTRY + f"st{space}.u32 [%d0+{offset}], 1; ret; }}")["k"]
    with pytest.raises(SimulationError, match=words):
        entry.simulate(0, grid=1, block=1)


@pytest.mark.parametrize("store", ["st.global.u32 [%d0], 1;", "red.global.add.u32 [%d0], 1;"])
def test_an_array_that_cannot_be_written(store: str) -> None:
    array = np.zeros(8, np.uint32)
    array.setflags(write=False)
    message = r"not allowed: out \(argument 0\) is read-only; pass an array that can be written"
    with pytest.raises(SimulationError, match=message):
        load(HEAD + ENTRY + store + " ret; }")["k"].simulate(array, grid=1, block=1)
