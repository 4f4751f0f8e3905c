"""Run a case under the sanitizer: what was found, and whether the numbers are right."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from pyptx.diagnostics import PTXError
from pyptx.simulator import load, tensor_map
from pyptx.simulator.sanitizer import Finding
from pyptx.simulator.tensor.tensor_map import ELEMENT_TYPES

Array = Any
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
"""As cuTensorMapEncodeTiled numbers them."""
TYPES = tuple(ELEMENT_TYPES)
KINDS: dict[str, Any] = {
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


@dataclass
class Verdict:
    name: str
    errors: list[str]
    warnings: dict[str, int]
    steps: int
    seconds: float
    difference: float
    """Norm of the error to the norm of the result; NaN if nothing was compared."""

    @property
    def silent(self) -> bool:
        return not self.errors


def judge(file: Path, seed: int = 0) -> Verdict:
    case = json.loads(file.read_text())
    stored = np.load(file.with_suffix(".npz"))
    arrays = [stored[f"array{i}"].copy() for i in range(case["count"])]
    start = time.perf_counter()
    errors: list[str] = []
    warnings: Counter[str] = Counter()
    steps = 0
    try:
        kernel = load(case["ptx"])[case["entry"]]
        report = kernel.simulate(*_arguments(case, arrays, kernel), grid=tuple(case["grid"]), block=tuple(case["block"]),
                                 cluster=case["cluster"] and tuple(case["cluster"]), smem=case["smem"], seed=seed,
                                 cooperative=case["cooperative"])  # fmt: skip
        errors = [str(f) for f in report.errors]
        warnings = Counter(
            f.rule if isinstance(f, Finding) else f.severity for f in report.findings if f.severity != "error"
        )
        steps = report.instructions
    except PTXError as error:
        errors = [f"{type(error).__name__}: {error}"]
    difference = float("nan") if errors and not steps else _difference(case, stored, arrays)
    if difference > case["tolerance"]:
        errors.append(f"wrong numbers: {difference:.2g} off")
    return Verdict(case["name"], errors, dict(warnings), steps, time.perf_counter() - start, difference)


def _arguments(case: dict[str, Any], arrays: list[Array], kernel: Any) -> list[Any]:
    found: list[Any] = []
    for number, (text, parameter) in enumerate(zip(case["arguments"], kernel.parameters, strict=True)):
        raw = bytes.fromhex(text)
        members: dict[int, Any] = {
            at: arrays[i].reshape(-1).view(np.uint8)[skip:] for n, at, i, skip in case["pointers"] if n == number
        }
        members |= {at: _map(fields, arrays[i]) for n, at, i, fields in case["maps"] if n == number}
        if not parameter.array:
            found.append(members.get(0, int.from_bytes(raw, "little")))
            if parameter.type.startswith("f") and not members:
                found[-1] = float(np.frombuffer(raw, f"f{len(raw)}")[0])
            continue
        sizes = {at: 8 if isinstance(value, np.ndarray) else 128 for at, value in members.items()}
        at = 0
        while at < len(raw):
            if at in members:
                at += sizes[at]
                continue
            members[at] = raw[at : at + 1]
            at += 1
        found.append(members)
    return found


def _map(fields: dict[str, Any], array: Array) -> Any:
    return tensor_map(array, fields["box"][::-1], swizzle=SWIZZLES[fields["swizzle"]], type=TYPES[fields["type"]],
                      shape=fields["shape"][::-1], strides=fields["strides"][::-1])  # fmt: skip


def _difference(case: dict[str, Any], stored: Any, arrays: list[Array]) -> float:
    worst = float("nan")
    for number, kind in case["kinds"].items():
        i = int(number)
        got = arrays[i].view(KINDS[kind]) if kind in KINDS else arrays[i]
        wanted = stored[f"expected{i}"].astype(np.float64)
        norm = float(np.linalg.norm(wanted.reshape(-1))) or 1.0
        error = float(np.linalg.norm((got.astype(np.float64) - wanted).reshape(-1))) / norm
        worst = error if np.isnan(worst) else max(worst, error)
    return worst
