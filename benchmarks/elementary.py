"""The errors of `ptx.math`: each function's PTX, written as C, over all 2^32 arguments (or every n-th) against float64 of the C library.

    python -m benchmarks.elementary [function ...] [--step 1]

Prints the largest error in ulp of the result's binade (2^-149 for subnormal results), where it is, and how many special results
differ. The C has one operation for each instruction, with IEEE rounding; it needs a C compiler and a CPU with FMA.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from pyptx import Tile, kernel, ptx
from pyptx.types import f32

EXACT = {
    "exp": "exp(x)", "log": "log(x)", "rsqrt": "1 / sqrt(x)", "tanh": "tanh(x)", "erf": "erf(x)",
    "sigmoid": "x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x))",
}  # fmt: skip
MEANINGS = {
    "fma.rn.f32": "fmaf({1}, {2}, {3})", "mul.rn.f32": "{1} * {2}", "add.rn.f32": "{1} + {2}", "sub.rn.f32": "{1} - {2}",
    "div.rn.f32": "{1} / {2}", "rcp.rn.f32": "1.0f / {1}", "sqrt.rn.f32": "sqrtf({1})", "min.f32": "fminf({1}, {2})",
    "max.f32": "fmaxf({1}, {2})", "abs.f32": "fabsf({1})", "neg.f32": "-{1}", "copysign.f32": "copysignf({2}, {1})",
    "cvt.rni.f32.f32": "rintf({1})", "cvt.rzi.s32.f32": "(int){1}", "cvt.rn.f32.s32": "(float){1}",
    "add.s32": "(int)((unsigned){1} + {2})", "sub.s32": "(int)((unsigned){1} - {2})", "shr.s32": "{1} >> {2}",
    "shl.b32": "(int)((unsigned){1} << {2})", "selp.f32": "{3} ? {1} : {2}", "setp.lt.f32": "{1} < {2}",
    "setp.gt.f32": "{1} > {2}", "setp.ge.f32": "{1} >= {2}", "setp.eq.f32": "{1} == {2}", "setp.ltu.f32": "!({1} >= {2})",
    "setp.nan.f32": "({1} != {1} || {2} != {2})", "setp.lt.and.f32": "({1} < {2}) && {3}",
}  # fmt: skip
PROGRAM = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static inline float bits_f(int32_t i) {{ float f; memcpy(&f, &i, 4); return f; }}
static inline int32_t bits_i(float f) {{ int32_t i; memcpy(&i, &f, 4); return i; }}
static inline float ours(float x) {{ {declared}
{body}
return {result}; }}
int main(void) {{
  double worst = 0; float at = 0; uint64_t wrong = 0;
  for (uint64_t i = 0; i < 1ull << 32; i += {step}) {{
    float x32 = bits_f((int32_t)(uint32_t)i), got = ours(x32); double x = x32, want = {exact};
    float rounded = (float)want;
    if (isnan(want) || isinf(rounded) || want == 0) {{
      /* next to the overflow the largest number is 1 ulp off; a result that is rounded to zero or infinity is */
      int fine = isnan(want) ? isnan(got) : got == rounded || (isinf(rounded) && fabs(want) < 0x1.000002p128 && fabsf(got) == 0x1.fffffep127f);
      if (!fine || (!isnan(want) && signbit(got) != signbit(rounded))) wrong++;
      continue;
    }}
    int e; frexp(want, &e); double ulp = ldexp(1.0, e - 24 < -149 ? -149 : e - 24);
    double off = isinf(got) ? fabs(0x1p128 - fabs(want)) / ulp : fabs(got - want) / ulp;
    if (!(off <= worst)) {{ worst = off; at = x32; }}
  }}
  printf("%.3f ulp at %a, %llu special results differ", worst, at, (unsigned long long)wrong);
}}
"""


def lines_of(function: str) -> list[str]:
    """The instructions of the function between the load of its argument and the store of its result."""

    @kernel(in_specs=[Tile(1, f32)], out_specs=[Tile(1, f32)], grid=1, block=1)
    def one(x, out):
        ptx.pointer(out).store(getattr(ptx.math, function)(ptx.pointer(x).load()))

    text = one.ptx().split("\n")
    start = next(i for i, line in enumerate(text) if "ld.global" in line)
    stop = next(i for i, line in enumerate(text) if "st.global" in line)
    return [
        line.strip().rstrip(";")
        for line in [*text[start + 1 : stop], text[stop], text[start]]
        if "%rd" not in line or "global.f32" in line
    ]


def as_c(function: str, step: int) -> str:
    """A C program that compares the function's instructions with float64."""
    *lines, store, load = lines_of(function)
    argument, result = load.split()[1].rstrip(","), store.split()[-1]
    body, kinds = [f"{argument} = x;"], {argument: "float"}
    for line in lines:
        name, _, rest = line.partition(" ")
        operands = rest.split(", ")
        target, source = operands[0], operands[1]
        is_float = target.startswith("%f")
        kinds[target] = "float" if is_float else "int"
        if name == "mov.b32":
            meaning = "bits_f({1})" if is_float else "bits_i({1})"
        elif name == "mov.f32":
            meaning = "{1}"
        else:
            meaning = MEANINGS[name]
        body.append(f"{target} = {meaning.format(target, source, *operands[2:])};")
    declared = " ".join(f"{kind} {name};" for name, kind in kinds.items())
    text = PROGRAM.format(declared=declared, body="\n".join(body), result=result, exact=EXACT[function], step=step)
    text = re.sub(r"0f([0-9A-F]{8})", lambda m: f"bits_f(0x{m[1]})", text)
    return re.sub(r"%([a-z]+\d+)(?=[ ;,)*+?&|!=<>-])", r"\1", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("functions", nargs="*", default=sorted(EXACT))
    parser.add_argument("--step", type=int, default=1, help="try every n-th argument")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for function in options.functions:
            source, program = Path(folder, f"{function}.c"), Path(folder, function)
            source.write_text(as_c(function, options.step))
            subprocess.run(
                ["cc", "-O2", "-mfma", "-ffp-contract=off", "-fwrapv", "-o", program, source, "-lm"], check=True
            )
            print(f"{function:8}", subprocess.run([program], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
