"""`pyptx sass` and `pyptx analyse --time`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyptx.prediction.model import REASONS
from pyptx.prediction.result import LineStalls, _listed
from pyptx.tools.cli import main

from .test_predict import COPY, has_tools

pytestmark = pytest.mark.skipif(not has_tools(), reason="needs ptxas, nvdisasm and llvmlite")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "copy.ptx"
    path.write_text(COPY)
    return str(path)


def test_sass_has_what_pyptx_sass_has(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sass", file, "--json", "--arch", "sm_90a"]) == 0
    data = json.loads(capsys.readouterr().out)
    (function,) = data["functions"]
    assert (data["arch"], function["name"]) == ("sm_90a", "k")
    load, store = ([i for i in function["instructions"] if i["opcode"] == opcode] for opcode in ("LDG", "STG"))
    assert [load[0]["pipe"], store[0]["pipe"]] == ["memory", "memory"]
    assert "ld.global.v4.f32" in COPY.split("\n")[load[0]["line"] - 1]
    assert load[0]["control"]["write_barrier"] in store[0]["control"]["wait"]
    assert {"E", "128"} <= {*load[0]["modifiers"]}


def test_sass_as_text(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sass", file, "--ptx"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("k  (sm_80, ") and "// st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};" in out
    assert main(["sass", file, "--kernel", "j"]) == 2
    assert f"j is not a function of {file}, which has k" in capsys.readouterr().err


LAUNCH = ["--grid", "64", "--block", "256", "--arg", "zeros:f32:65536", "--arg", "zeros:f32:65536"]


def test_analyse_says_the_predicted_time(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", file, "--time", "--card", "H100", "--card", "L4", *LAUNCH]) == 0
    out = capsys.readouterr().out
    assert "k on H100 SXM (predicted, not measured)" in out and "k on L4 (predicted, not measured)" in out


def test_analyse_has_a_table_of_variants(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyse", file, "--no-ptxas", "--time", "--card", "H100", "--card", "A100", "--what-if", *LAUNCH]
    assert main([*words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["predicted"]
    (other,) = [v for v in first["what_if"] if v["variant"] == "on A100"]
    assert other["prediction"]["cycles"] == second["cycles"] and other["lacking"] is None


def test_the_page_has_a_timeline(file: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["analyse", file, "--no-ptxas", "--time", "--card", "H100", "--html", str(page), *LAUNCH]) == 0
    text = page.read_text()
    assert "H100 SXM (predicted, not measured)" in text and "cycles of one SM, predicted" in text
    assert text.count("<title>warp 0: ") >= 1 and "What if" not in text


def test_the_page_has_the_table_of_variants(file: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["analyse", file, "--no-ptxas", "--time", "--card", "H100", "--what-if", "--html", str(page), *LAUNCH]
    assert main(words) == 0
    text = page.read_text()
    assert text.count("What if (predicted, not measured)") == 1 and "as it is" in text and "CTAs per SM" in text


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--time"], 2, '--time needs --card, such as --card "H100 SXM"'),
        (["--card", "H100"], 2, "--card, --clock, --grid, --arg, --sample and --what-if belong to --time"),
        (["--time", "--card", "H100", "--block", "256"], 1, "k takes 2 arguments, not 0"),
        (["--time", "--card", "H1", *LAUNCH], 2, "'H1' is not a known card"),
        (["--time", "--card", "A1000", *LAUNCH], 2, "did you mean `A100`"),
        (["--time", "--card", "H100", "--arg", "x"], 2, "--arg x: write TYPE:VALUE"),
    ],
)
def test_what_a_prediction_lacks(
    file: str, words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", file, "--no-ptxas", *words]) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["{}", ".extern .func (.param .b32 q)\nf\n(\n.param .b32 p\n)\n;\n{}"])
def test_sass_says_where_an_unresolved_extern_is_used(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    declared = "" if "f" in layout else ".extern .func (.param .b32 q) f(.param .b32 p);\n"
    body = """.visible .entry k(.param .u32 x) // f
{
.reg .b32 %r1;
.param .b32 p;
.param .b32 q;
ld.param.u32 %r1, [x];
st.param.b32 [p], %r1;
call (q),
  f, (p);
ret;
}
"""
    text = head + layout.replace("{}", declared + body)
    path = tmp_path / "extern.ptx"
    path.write_text(text)
    assert main(["sass", str(path)]) == 1
    line = next(n for n, words in enumerate(text.split("\n"), 1) if words == "  f, (p);")
    said = capsys.readouterr().err
    assert f"{path}:{line}:3: error: Unresolved extern function 'f'" in said
    assert "define f in this text (declared at line" in said


@pytest.mark.parametrize("reason", sorted(REASONS.values()))
def test_columns_of_a_prediction_are_apart(reason: str) -> None:
    """After the share: the place, the reason, the text."""
    [_, row] = _listed("title", [LineStalls(7, "wgmma.wait_group", 1, {reason: 2.0})], 6)
    assert row.split() == ["100%", "line", "7", *reason.split(), "wgmma.wait_group"]
