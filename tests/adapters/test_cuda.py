"""CUDA C++ through NVRTC and nvcc, on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pyptx
from pyptx import PTXError, SimulationError
from pyptx.adapters.signatures import demangled, parameter_types

SOURCE = """
template <typename T, int N> __global__ void reverse(T* x, T a, int n) {
  __shared__ T s[N];
  int i = blockIdx.x * N + threadIdx.x;
  if (i < n) s[threadIdx.x] = x[i];
  SYNC
  if (i < n) x[i] = s[N - 1 - threadIdx.x] * a;
}
struct Pair { const float* x; float* y; int n; };
extern "C" __global__ void copy(Pair p) { int i = threadIdx.x; if (i < p.n) p.y[i] = p.x[i]; }
"""
RIGHT, WRONG = SOURCE.replace("SYNC", "__syncthreads();"), SOURCE.replace("SYNC", "")


def test_a_template_by_its_name() -> None:
    kernel = pyptx.cuda.compile(RIGHT, arch="sm_90a", name="reverse<float, 64>")
    assert repr(kernel) == "CudaKernel(void reverse<float, 64>(float*, float, int))"
    x = np.random.default_rng().standard_normal(128).astype(np.float32)
    want = x.reshape(2, 64)[:, ::-1].reshape(-1) * np.float32(3)
    report = kernel.simulate(x, 3.0, 128, grid=2, block=64)
    assert report.findings == [] and (x == want).all()


def test_findings_have_the_line_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(WRONG)
    report = pyptx.cuda.compile(path, name="reverse<int, 64>").simulate(np.zeros(64, np.int32), 1, 64, grid=1, block=64)
    [race] = report.errors
    assert f"{path}:7" in race.render() and f"{path}:5" in race.render()
    report = pyptx.cuda.compile(WRONG, name="reverse<int, 64>").simulate(
        np.zeros(64, np.int32), 1, 64, grid=1, block=64
    )
    assert "\nfrom <cuda>:7:" in report.errors[0].render()  # a text is in no folder


def test_several_and_all() -> None:
    found = pyptx.cuda.compile(RIGHT, name=["reverse<double, 32>", "copy"])
    assert list(found) == ["reverse<double, 32>", "copy"]
    assert list(pyptx.cuda.compile(RIGHT)) == ["copy"]
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    found["copy"].simulate({0: x, 8: y, 16: np.int32(32)}, grid=1, block=32)  # a structure by value
    assert (x == y).all()


def test_host_code_is_left_aside() -> None:
    source = RIGHT + "int main() { reverse<float, 32><<<1, 32>>>(nullptr, 2.0f, 0); return 0; }"
    assert set(pyptx.cuda.compile(source)) == {"reverse<float, 32>", "copy"}
    assert (
        pyptx.cuda.compile(source, name="reverse<float, 32>").signature == "void reverse<float, 32>(float*, float, int)"
    )


def test_arrays_of_another_type_are_refused() -> None:
    kernel = pyptx.cuda.compile(RIGHT, name="reverse<float, 64>")
    with pytest.raises(SimulationError, match=r"argument 0 of .* is an array of float64, and the parameter is float\*"):
        kernel.simulate(np.zeros(64), 1.0, 64, grid=1, block=64)
    with pytest.raises(SimulationError, match=r"reverse<float, 64>\(float\*, float, int\) takes 3 arguments, not 2"):
        kernel.simulate(np.zeros(64, np.float32), 1.0, grid=1, block=64)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"name": "missing<int>"}, PTXError, r'(?s)identifier "missing" is undefined.*\nhint: name= is a kernel'),
        ({"name": "missing", "compiler": "nvcc"}, PTXError, "is not a kernel of this source; it has: copy"),
        ({"arch": "sm_1000"}, ValueError, "unknown arch 'sm_1000'; did you mean"),
        ({"options": ["--nonsense"]}, PTXError, "unrecognized option"),
        ({"compiler": "clang"}, ValueError, "is not one of"),
        ({"options": "-DN=4"}, ValueError, "it is a sequence"),
    ],
)
def test_what_cannot_be(options: dict, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pyptx.cuda.compile(RIGHT, **options)


def test_messages_of_the_compiler() -> None:
    with pytest.raises(PTXError, match=r'<cuda>\(1\): error: .*"nothing" is undefined'):
        pyptx.cuda.compile('extern "C" __global__ void f() { nothing(); }')


@pytest.mark.parametrize(
    ("symbol", "types"),
    [
        ("_Z1fPfPKiT_", None),
        ("_Z3addPfPKfi", ["float*", "float const*", "int"]),
        ("_Z1fv", []),
        ("plain", []),
        ("_Z1fSt4pairIifEPS_IhhE", ["std::pair<int, float>", "std::pair<unsigned char, unsigned char>*"]),
    ],
)
def test_signatures(symbol: str, types: list[str] | None) -> None:
    """Spellings of the Itanium C++ ABI, 5.1.5."""
    found = demangled(symbol)
    assert found == symbol if types is None else parameter_types(found) == types


def test_overloads_and_names_with_parentheses() -> None:
    source = """
__global__ void f(float* x) { *x = 1; }
__global__ void f(int* x) { *x = 2; }
namespace a { namespace { template <char C> __global__ void g(int* x) { *x = C; } } }
template __global__ void a::g<'c'>(int*);
"""
    found = pyptx.cuda.compile(source)
    assert {n for n in found if n.startswith("f(")} == {"f(float*)", "f(int*)"}
    [other] = [n for n in found if not n.startswith("f(")]
    assert "::g<" in other and other.endswith(">")
    for name, dtype, want in (("f(float*)", np.float32, 1), ("f(int*)", np.int32, 2), (other, np.int32, ord("c"))):
        x = np.zeros(1, dtype)
        found[name].simulate(x, grid=1, block=1)
        assert x[0] == want
    with pytest.raises(PTXError, match=r"f is overloaded: .*f\(int\*\)"):
        pyptx.cuda.compile(source, name="f", compiler="nvcc")


def test_findings_name_files_outside_of_ascii(tmp_path: Path) -> None:
    path = tmp_path / "\u00e9 \U0001f600" / "kernel.cu"
    path.parent.mkdir()
    path.write_text('extern "C" __global__ void f(int* x) {\n  *x = threadIdx.x;\n}')
    [race, *_] = pyptx.cuda.compile(path, name="f").simulate(np.zeros(1, np.int32), grid=1, block=32).findings
    assert f"{path}:2" in race.render()


def test_included_files_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_bytes(b'\xef\xbb\xbf// \xe9\n#include "value.h"\nextern "C" __global__ void f(int* x) { *x = VALUE; }')
    for value in (7, 9):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        x = np.zeros(1, np.int32)
        pyptx.cuda.compile(path, name="f").simulate(x, grid=1, block=1)
        assert x[0] == value


def test_pointers_to_pointers() -> None:
    kernel = pyptx.cuda.compile("__global__ void f(const float* const* x, float* y) { *y = *x[0]; }", name="f")
    memory = pyptx.DeviceMemory()
    y = np.zeros(1, np.float32)
    table = np.array([memory.copy(np.array([3], np.float32)).address], np.uint64)
    kernel.simulate(table, y, memory=memory, grid=1, block=1)
    assert y[0] == 3


def test_variables_are_set_by_their_names_in_cpp() -> None:
    source = """
    __constant__ float w[4];
    __constant__ int n;
    namespace a { __device__ int total = 5; }
    template <typename T> __constant__ T factor;
    extern "C" __global__ void f(float* x) { x[threadIdx.x] = w[threadIdx.x] * n * factor<float>; atomicAdd(&a::total, 1); }
    """
    kernel = pyptx.cuda.compile(source, name="f")
    kernel.set_variable("w", np.arange(4, dtype=np.float32))
    kernel.set_variable("w", np.float32(9), offset=4)
    kernel.set_variable("n", (10).to_bytes(4, "little"))
    kernel.set_variable("factor<float>", np.float32(0.5))
    x = np.zeros(4, np.float32)
    kernel.simulate(x, grid=1, block=4)
    assert x.tolist() == [0, 45, 10, 15]
    assert kernel.variable("a::total").view(np.int32)[0] == 9
    for name, values, words in (
        ("w", np.zeros(5, np.float32), "w has 16 bytes, and 20 do not fit at byte 0"),
        ("n", 3, "n has no type in PTX, only 4 bytes: give .*, not int"),
        ("m", np.int32(1), "the module has no variable m; it has "),
    ):
        with pytest.raises(SimulationError, match=words):
            kernel.set_variable(name, values)


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("cstdio", "hint: leave out <cstdio>"),
        ("math.h", "hint: leave out <math.h>"),
        ("cstdint", "hint: NVRTC has no headers of the host: include <cuda/std/cstdint>"),
        ("stdint.h", "include <cuda/std/cstdint>"),
        ("vector", 'hint: give the folder of vector in options=.*; a header of the host needs compiler="nvcc"'),
    ],
)
def test_headers_that_nvrtc_does_not_have(header: str, hint: str) -> None:
    with pytest.raises(PTXError, match=hint):
        pyptx.cuda.compile(f'#include <{header}>\nextern "C" __global__ void f() {{}}')


def test_what_the_hints_about_headers_say_is_so() -> None:
    """The functions are known without a header; libcu++ has the headers."""
    from pyptx.adapters.cuda import IN_LIBCUDACXX

    body = 'extern "C" __global__ void f(float* x, char* y) { printf("%f", sqrtf(*x)); assert(*x > 0); memcpy(y, x, 4); free(malloc(4)); *y = clock(); }'
    there = [f"__has_include(<cuda/std/{name}>)" for name in sorted({*IN_LIBCUDACXX.values()})]
    some, all_of_them = " || ".join(there), " && ".join(there)
    # the headers are a wheel of their own, which may not be installed
    assert pyptx.cuda.compile(f"#if ({some}) && !({all_of_them})\n#error one is missing\n#endif\n{body}", name="f")
