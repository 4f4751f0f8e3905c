"""The programs in the README and the guide run, and do what the text says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pyptx import numerics
from tests import lessons

ROOT = Path(__file__).resolve().parent.parent


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


def run(program: str, folder: Path) -> str:
    file = folder / "program.py"  # a file, so that the kernel's lines can be shown
    file.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # this checkout's pyptx, whichever is installed
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_program(tmp_path: Path) -> None:
    out = run(blocks("README.md")[0], tmp_path)
    assert out.startswith("0.0\n.version ")
    assert "ld.global.f32" in out


def test_guide_kernel(tmp_path: Path) -> None:
    check = """
import numpy as np, pyptx
x = np.random.default_rng().standard_normal(1000, dtype=np.float32)
out = block_max(x, G=4)
want = np.array([x[i * 256 : (i + 1) * 256].max() for i in range(4)])
report = pyptx.simulate(block_max, x, out, grid=4, block=256)
print(np.array_equal(out, want), report.findings)
"""
    assert run(blocks("docs/writing-kernels.md")[0] + check, tmp_path) == "True []\n"


def test_guide_pictures(tmp_path: Path) -> None:
    (program,) = [b for b in blocks("docs/writing-kernels.md") if "draw.mma" in b]
    run(program.replace('"load.svg"', repr(str(tmp_path / "load.svg"))), tmp_path)
    assert (tmp_path / "load.svg").read_text().startswith("<svg")


def test_patterns(tmp_path: Path) -> None:
    """The page is one program, whose one refusal is the one shown, at the line that it is said to be at."""
    out = run("".join(blocks("docs/patterns.md")), tmp_path)
    shown = re.search(r"# patterns.py(:.*) ...\n", (ROOT / "docs/patterns.md").read_text())
    assert shown is not None
    assert re.sub(r"(:\d+):\d+:", r"\1:", out).split("program.py", 1)[1].startswith(shown[1])


def test_launching(tmp_path: Path) -> None:
    """The page is one program, from top to bottom."""
    for package in ("torch", "jax"):
        pytest.importorskip(package)
    out = run("".join(blocks("docs/launching.md")), tmp_path)
    said = "scaled_sum: w must be Tile(64, f32), so of size 64 along axis 0, and has shape (32,)"
    assert said in out
    assert said in (ROOT / "docs/launching.md").read_text()


def test_distributed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run("".join(blocks("docs/distributed.md")), tmp_path)


def test_readme_messages(tmp_path: Path) -> None:
    text = (
        ".version 7.8\n.target sm_80\n.entry k()\n{\n\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<2>;\n\n\n\n\n\n"
        "\tadd.s32 %rd1, %r2, %r3;\n\tadd.u16x2 %r1, %r2, %r3;\n\tret;\n}\n"
    )
    (tmp_path / "kernel.ptx").write_text(text)
    command = [sys.executable, "-m", "pyptx.tools.cli", "check", "kernel.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    page = (ROOT / "README.md").read_text()
    shown = re.search(r"\$ pyptx check kernel.ptx\n(.*?)```", page, re.S)
    assert shown is not None
    assert done.stdout.startswith(shown[1].rstrip("\n"))


def test_simulator(tmp_path: Path) -> None:
    """The page is one program, and its finding and its table of losses are the ones shown."""
    page = (ROOT / "docs/simulator.md").read_text()
    program = "".join(blocks("docs/simulator.md")).replace('"rotate.svg"', repr(str(tmp_path / "rotate.svg")))
    out = run(program, tmp_path)
    shown = " ".join(re.findall(r"```\n(rotate\.py.*?)```", page, re.S)[0].split())
    assert shown.partition("error: ")[2].partition(" at rotate.py")[0] in " ".join(out.split())
    assert re.findall(r"```\n(numerics on sm_80.*?)```", page, re.S)[0] in out.replace(f"{ROOT}/", "")
    assert "roofline" in out
    assert (tmp_path / "rotate.svg").read_text().startswith("<svg")


def test_adapters(tmp_path: Path) -> None:
    """Triton and CUDA C++, each a program."""
    for number, program in enumerate(blocks("docs/adapters.md")):
        out = run(program, tmp_path)
        assert ("Report(add" in out or "add" in out) if number == 0 else out == ""


def test_editing(tmp_path: Path) -> None:
    """The page is one program, and what it shows of the transpiled kernel is there."""
    pytest.importorskip("triton")
    page = (ROOT / "docs/editing.md").read_text()
    out = run("".join(blocks("docs/editing.md")), tmp_path)
    shown, _ = re.findall(r"```text\n(.*?)```", page, re.S)  # the other one is of the command line
    without_places = re.sub(r"loc\(.*\)", "loc", out)
    assert re.sub(r"loc\(.*\)", "loc", shown) in without_places


def test_machine_code(tmp_path: Path) -> None:
    run("".join(blocks("docs/sass.md")), tmp_path)


def test_prediction(tmp_path: Path) -> None:
    assert "(predicted, not measured)" in run("".join(blocks("docs/prediction.md")), tmp_path)


def test_descriptors(tmp_path: Path) -> None:
    """TMA's swizzle is the formula of the page, and the descriptor has the fields of the page."""
    assert in_process("docs/descriptors.md", tmp_path) == ""
    assert (tmp_path / "swizzle64.svg").read_text() == (ROOT / "docs/swizzle64.svg").read_text()


def test_profiling(tmp_path: Path) -> None:
    assert in_process("docs/profiling.md", tmp_path) == ""


def in_process(page: str, folder: Path) -> str:
    """What pyptx says to the program of a page, which runs here: that is faster than a process of its own."""
    return lessons.run(lessons.program_of(ROOT / page), lessons.name_of(Path(page)), folder)


def test_report(tmp_path: Path) -> None:
    """The report is what the command prints for the kernel of the page."""
    page = (ROOT / "docs/report.md").read_text()
    (kernel,) = re.findall(r"```ptx\n(.*?)```", page, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.S)
    (command,) = re.findall(r"```sh\npyptx (.*)\n```", page)
    (tmp_path / "column.ptx").write_text(kernel)
    done = subprocess.run(
        [sys.executable, "-m", "pyptx.tools.cli", *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=tools(),
    )
    assert done.stdout == shown
    assert in_process("docs/report.md", tmp_path) == ""


def test_testing(tmp_path: Path) -> None:
    """The page's test file passes."""
    (tmp_path / "test_reverse.py").write_text("".join(blocks("docs/testing.md")))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_reverse.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=tools())
    assert done.returncode == 0 and "7 passed" in done.stdout, done.stdout


def test_each_page_with_programs_is_named_in_a_test() -> None:
    """Home and the chapters: `tests/lessons.py`; the reference has signatures."""
    tests = "".join(p.read_text() for p in (ROOT / "tests").rglob("test_*.py"))
    pages = [p for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "index.md" and "```python\n" in p.read_text()]
    assert [p.name for p in pages if f"docs/{p.name}" not in tests and f'"{p.name}"' not in tests] == []


def test_guide_lit(tmp_path: Path) -> None:
    text = (ROOT / "docs/passes.md").read_text()
    test, errors = re.findall(r"```ptx\n(.*?)```", text, re.S)
    (config,) = [b for b in blocks("docs/passes.md") if "lit.formats" in b]
    (tmp_path / "dce.ptx").write_text(test)
    (tmp_path / "broken.ptx").write_text(test.replace("st.global.u32 [%rd2], %r1", "st.global.u32 [%rd2], %r2"))
    (tmp_path / "errors.ptx").write_text(errors)
    (tmp_path / "no_errors.ptx").write_text(errors.replace("%rd1", "%r1").replace("mul.u32", "mul.lo.u32"))
    (tmp_path / "lit.cfg.py").write_text(config)
    done = subprocess.run(["lit", "-v", tmp_path], capture_output=True, text=True, env=tools(), check=False)
    assert "PASS: kernels :: dce.ptx" in done.stdout
    assert "FAIL: kernels :: broken.ptx" in done.stdout  # the sum is used there
    assert "PASS: kernels :: errors.ptx" in done.stdout
    assert "FAIL: kernels :: no_errors.ptx" in done.stdout


def test_guide_passes(tmp_path: Path) -> None:
    """The commands run, on the page's PTX and MLIR; the form of MLIR that is said to be refused is refused so."""
    text = (ROOT / "docs/passes.md").read_text()
    ptx, mlir, commands = (re.findall(rf"```{kind}\n(.*?)```", text, re.S)[0] for kind in ("ptx", "mlir", "sh"))
    (tmp_path / "kernel.ptx").write_text(ptx)
    (tmp_path / "saxpy.mlir").write_text(mlir)
    for line in commands.splitlines():
        done = subprocess.run(line, shell=True, capture_output=True, text=True, env=tools(), cwd=tmp_path, check=False)
        assert (done.returncode, done.stderr) == (0, ""), line
    assert "fma.rn.f32" in done.stdout  # the last one: saxpy as PTX
    (tmp_path / "custom.mlir").write_text("gpu.module @kernels {\n}\n")
    command = ["pyptx-opt", "custom.mlir"]
    done = subprocess.run(command, capture_output=True, text=True, env=tools(), cwd=tmp_path, check=False)
    (refusal,) = re.findall(r"is refused: \"(.*)\"", text)
    assert done.returncode == 1
    assert refusal in done.stderr


def tools() -> dict[str, str]:
    """An environment in which the tools next to this interpreter run this checkout's pyptx."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}


def test_pass_in_20_lines(tmp_path: Path) -> None:
    (program,) = [b for b in blocks("docs/passes.md") if "PatternPass" in b]
    out = run(program, tmp_path)
    body = out[out.index("\tld.param") : out.index("}")]
    assert body == (
        "\tld.param.u64 \t%rd1, [out];  // the layout of this line stays\n\tmov.u32 %r1, %tid.x;\n"
        "\t// eight bytes for each thread\n\tshl.b32 %r2, %r1, 3;\n\tst.global.u32 [%rd1], %r2;\n\tret;\n"
    )


def test_sums_of_tensor_cores(tmp_path: Path) -> None:
    """The losses of FP8 that the page shows, to as many digits."""
    out = run("".join(blocks("docs/numerics.md")), tmp_path)
    shown = re.findall(r"^(?:normal|positive) .*$", (ROOT / "docs/numerics.md").read_text(), re.M)
    assert shown and out.splitlines()[: len(shown)] == shown
    assert "\nTrue\n" in out and "of the sums differ between A100 and H100" in out


def test_picture_of_a_sum() -> None:
    """Each number of the picture has its digits, and the sum is what `numerics.dot` computes."""
    page = (ROOT / "docs/simulator.md").read_text()
    rows = re.findall(r"^(\S.*?)  +([01]+\.[01]+)(?: [| ] +([01]+))?", page, re.M)
    *addends, left, d, true = [
        (label, *(_binary(digits + part) for part in ("", more))) for label, digits, more in rows
    ]
    values = [eval(label.removeprefix("C = ").replace("^", "**"), {}) for label, *_ in addends]
    assert len(addends) == 4 and values == [whole for _, _, whole in addends]
    assert left[1] == sum(kept for _, kept, _ in addends) and true[2] == sum(values)
    assert [len(digits.partition(".")[2]) for _, digits, _ in rows[:4]] == [11] * 4  # X = 2: 2**(X - 13) is the last
    a, b = np.zeros((1, 32)), np.zeros((32, 1))
    for k, (label, *_) in enumerate(addends[1:]):
        a[0, k], b[k, 0] = (
            eval(x.strip("()").replace("^", "**"), {})
            for x in re.split(r"\) \* \(" if "(" in label else r" \* ", label)
        )
    for kind, arch, row in (("wgmma.f32.e4m3.e4m3", "sm_90", d), ("tcgen05.f32.e4m3.e4m3", "sm_100", true)):
        assert numerics.dot(a, b, np.float32(values[0]), kind=kind, arch=arch).item() == row[2]
    assert f"= {d[2]}\n" in page and f"= {true[2]}\n" in page


def _binary(digits: str) -> float:
    whole, _, fraction = digits.partition(".")
    return int(whole + fraction, 2) / 2 ** len(fraction)


def test_workers(tmp_path: Path) -> None:
    """Both programs: a launch in two pieces, and a sweep by an executor."""
    launch, sweep = blocks("docs/workers.md")
    use = """
from concurrent.futures import ThreadPoolExecutor

print(sweep(ThreadPoolExecutor(1)))
"""
    launch = launch.replace("workers=2", "workers=ThreadPoolExecutor(1)")
    assert run(f"from concurrent.futures import ThreadPoolExecutor\n{launch}{sweep}{use}", tmp_path).split("\n", 1)[
        1
    ] == ("[0, 0, 0, 0, 0, 0]\n")
