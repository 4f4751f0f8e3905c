"""Published kernels as PTX: the sources lie outside of this repository (`--sources`), and so do the files that are made of them.

Each `Recipe` says how the file of a repository becomes one that nvcc takes alone, and what the kernel's arguments are. Tokens of arguments:
`f32:M*K` is an array of so many elements, `N` a dimension, `=0.5` a number.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROWS_AND_COLUMNS = "f32:rows*cols f32:rows*cols"
GEMM = "f16:M*K f16:K*N f32:M*N M N K"
ALPHA_BETA = "M N K =0.5 f32:M*K f32:K*N =3.0 f32:M*N"
ARGUMENTS = {
    "gemm_naive": "f32:M*K f32:K*N f32:M*N M N K",
    "gemm_wmma_t": GEMM,
    "gemm_mma_t": GEMM,
    "gemm_lowprec_t": "u8:M*K u8:K*N f32:M*N M N K",
    "sgemm_global_mem_coalesce": ALPHA_BETA,
    "sgemm1DBlocktiling": ALPHA_BETA,
    "sgemmDoubleBuffering": ALPHA_BETA,
    "sgemmVectorize": ALPHA_BETA,
    "sgemmWarptiling": ALPHA_BETA,
    "rms_norm_f32_kernel": f"{ROWS_AND_COLUMNS} =1.0 rows cols",
    "rms_norm_f32x4_kernel": f"{ROWS_AND_COLUMNS} =1.0 rows cols",
    "rms_norm_f16_f32_kernel": "f16:rows*cols f16:rows*cols =1.0 rows cols",
    "layer_norm_f32_kernel": f"{ROWS_AND_COLUMNS} =1.0 =0.0 rows cols",
    "softmax_f32x4_per_token_kernel": f"{ROWS_AND_COLUMNS} rows*cols",
    "safe_softmax_f32_per_token_kernel": f"{ROWS_AND_COLUMNS} rows*cols",
    "elementwise_add_f32x4_kernel": f"f32:rows*cols {ROWS_AND_COLUMNS} rows*cols",
    "mat_transpose_f32_row2col2d_kernel": f"{ROWS_AND_COLUMNS} rows cols",
    "mat_transpose_f32x4_shared_row2col2d_kernel": f"{ROWS_AND_COLUMNS} rows cols",
    "sumKernel4": "s32:n s32:1 n//4",
    "elementwise exp": "f32:elements f32:elements u64:elements",
    "elementwise rsqrt": "f32:elements f32:elements u64:elements",
    "elementwise add": "f32:elements f32:elements u64:elements",
}
DTYPES = {"f32": np.float32, "f16": np.float16, "u8": np.uint8, "s32": np.int32}


class Missing(Exception):
    """Why a row cannot be compared."""


def arguments(row: dict[str, Any]) -> list[Any]:
    """Arrays whose contents are never looked at, and numbers."""
    if row["kernel"] not in ARGUMENTS:
        raise Missing("no recipe")
    found: list[Any] = []
    for token in ARGUMENTS[row["kernel"]].split():
        kind, _, expression = token.rpartition(":")
        if token[0] == "=":
            found.append(float(token[1:]))
            continue
        size = int(eval(expression, {"__builtins__": {}}, dict(row["problem"])))
        found.append(np.empty(size, DTYPES[kind]) if kind in DTYPES else size)
    return found


@dataclass(frozen=True)
class Source:
    """A file that nvcc takes, and its options."""

    text: str
    folder: Path
    options: tuple[str, ...] = ()


def folder_of(sources: Path, repository: str) -> Path:
    """A repository's folder: `owner/name`, `owner+name` or `name`."""
    for name in (repository, repository.replace("/", "+"), repository.split("/")[1]):
        if (sources / name).is_dir():
            return sources / name
    raise Missing(f"{repository} is not in {sources}")


def source_of(row: dict[str, Any], sources: Path) -> Source:
    folder = folder_of(sources, row["repo"])
    path = folder / row["path"]
    if not path.is_file():
        raise Missing(f"{row['path']} is not in {folder}")
    if row["repo"].startswith("siboehm"):
        values = row["template"].split(" ")[0]
        parameters = "int, int, int, float, float *, float *, float, float *"
        if row["kernel"] in ("sgemm_global_mem_coalesce", "sgemm1DBlocktiling"):
            parameters = "int, int, int, float, const float *, const float *, float, float *"
        head = "#include <algorithm>\n#include <cassert>\n#include <cstdio>\n#include <cstdlib>\n#include <cuda_runtime.h>\n"
        guard = "#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))\n"
        made = f'{head}{guard}#include "{path}"\ntemplate __global__ void {row["kernel"]}<{values}>({parameters});\n'
        return Source(made, folder)
    if row["repo"].startswith("xlite"):
        return Source(_leet(path.read_text(), row), folder)
    if row["repo"].startswith("lookup"):
        kind = {"exp": 0, "rsqrt": 2, "add": 3}.get(row["kernel"].split()[-1])
        if kind is None:
            raise Missing("no recipe")
        return Source(f'#include "{path}"\n', folder, (f"-DOP_KIND={kind}",))
    if row["repo"].startswith("pranjalssh"):
        text = path.read_text()
        body = text[: text.index("const int NUM_KERNELS")] if "const int NUM_KERNELS" in text else text
        body = re.sub(r"#include <(cub|thrust|cooperative).*\n", "", body)
        return Source(f"{body}\ntemplate __global__ void sumKernel4<{row['template']}>(int4 *, int *, int);\n", folder)
    return Source(f'#include "{path}"\n', folder, (f"-I{folder / 'include'}",))


def _leet(text: str, row: dict[str, Any]) -> str:
    """The kernels, without what binds them to torch."""
    text = re.sub(r"#include <torch.*\n", "", text)
    text = text[: text.index("#define STRINGFY")]
    if not row["template"]:
        return text
    declared = re.search(rf"__global__ void\s+{row['kernel']}\(([^)]*)\)", text)
    assert declared is not None
    parameters = ", ".join(re.sub(r"\w+$", "", p.strip()) for p in declared[1].split(","))
    return f"{text}\ntemplate __global__ void {row['kernel']}<{row['template']}>({parameters});\n"


def ptx_of(source: Source, arch: str, scratch: Path) -> str:
    """The PTX that nvcc makes, kept in `scratch`."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise Missing("nvcc was not found")
    key = hashlib.sha256(f"{source}{arch}".encode()).hexdigest()[:20]
    out = scratch / f"{key}.ptx"
    if not out.exists():
        made = scratch / f"{key}.cu"
        stub = scratch / "cublas_v2.h"  # kernels whose files include it do not use it
        stub.write_text("typedef void *cublasHandle_t;\n")
        made.write_text(source.text)
        command = [
            nvcc,
            "-std=c++17",
            "-O3",
            "-arch",
            arch,
            "-ptx",
            "-w",
            f"-I{scratch}",
            *source.options,
            str(made),
            "-o",
            str(out),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise Missing(
                "nvcc: " + next((line for line in done.stderr.splitlines() if "error" in line), "failed")[:100]
            )
    return out.read_text()


def entry_of(names: list[str], row: dict[str, Any]) -> str:
    """The entry of a row by its mangled name."""
    kernel = "elementwise_kernel" if row["kernel"].startswith("elementwise ") else row["kernel"]
    values = row["template"].split(" ")[0] if " " not in row["kernel"] else ""
    pattern = f"{len(kernel)}{kernel}"
    if values:
        numbers = "".join(_mangled(v) for v in values.split(","))
        pattern += f"I{numbers}E"
    found = [n for n in names if re.search(pattern, n)]
    if len(found) != 1:
        raise Missing(f"{len(found)} entries match {pattern}")
    return found[0]


def _mangled(value: str) -> str:
    if value in ("true", "false"):
        return f"Lb{int(value == 'true')}E"
    if value.isdigit():
        return f"L[ijm]{value}E"
    return {"Fmt::MXFP4": r"L\w+?E2E", "Fmt::FP4": r"L\w+?E1E", "Fmt::FP8": r"L\w+?E0E"}.get(value, r"L\w+?E\d+E")
