"""`pyptx analyse`: the three outputs of one file, and the drawing of graphs."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyptx.tools.cli import main
from pyptx.tools.ptxas import ToolNotFound, find_tool
from pyptx.tools.report.layers import draw

DATA = Path(__file__).resolve().parent.parent / "data" / "ptx"
KERNEL = DATA / "nvcc_shmem.ptx"


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(KERNEL), "--no-ptxas", "--block", "64"]) == 0
    text = capsys.readouterr().out
    assert "64 x 1 x 1 per CTA\n" in text
    assert re.search(r"occupancy +\d+%: \d+ CTAs, \d+ of \d+ warps", text)


def test_traffic_in_loops_of_unknown_length_is_not_called_known(capsys: pytest.CaptureFixture[str]) -> None:
    """SAXPY's three accesses are in a loop over n: nothing is known of its total."""
    path = DATA.parents[2] / "examples" / "transpile" / "kernels.ptx"
    assert main(["analyse", str(path), "--no-ptxas", "--kernel", "saxpy"]) == 0
    text = capsys.readouterr().out
    assert "not known: 3 of 3 global accesses are in loops that run an unknown number of times" in text
    assert "0 bytes" not in text.partition("traffic")[2]
    assert "128 x 1 x 1 per CTA (assumed: the kernel has no .reqntid" in text


def test_copies_through_tensor_maps_are_said_not_to_be_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = DATA.parents[2] / "examples" / "transpile" / "hopper_gemm.ptx"
    lines = path.read_text().splitlines()
    copies = [i for i, line in enumerate(lines, 1) if "cp.async.bulk.tensor" in line]
    assert copies
    text = f"what {len(copies)} cp.async.bulk.tensor move"
    page = tmp_path / "r.html"
    assert main(["analyse", str(path), "--no-ptxas", "--html", str(page)]) == 0
    capsys.readouterr()
    assert main(["analyse", str(path), "--no-ptxas"]) == 0
    (traffic,) = re.findall(r"^  traffic .*", capsys.readouterr().out, re.M)
    assert text in traffic
    assert re.match(r"  traffic +(at least \d|not known)", traffic)
    assert page.read_text().count(text) == 2  # among the facts, and in the tab
    assert main(["analyse", str(path), "--no-ptxas", "--json"]) == 0
    (function,) = json.loads(capsys.readouterr().out)["functions"]
    assert [u["line"] for u in function["traffic"]["uncounted"]] == copies
    assert not function["traffic"]["complete"]


BULK = """
.version 8.0
.target sm_90
.address_size 64
.entry k(.param .u64 p, .param .u32 n) .reqntid 32
{
	.reg .b64 %rd<3>;
	.reg .b32 %r<3>;
	.shared .align 16 .b8 s[1024];
	.shared .align 8 .b64 bar;
	mov.u32 %r1, s;
	mov.u32 %r2, bar;
	ld.param.u64 %rd1, [p];
	cvta.to.global.u64 %rd2, %rd1;
	ld.param.u32 %r0, [n];
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], SIZE, [%r2];
	ret;
}
"""


@pytest.mark.parametrize("size", ["512", "%r0"])
def test_a_bulk_copy_is_counted_if_its_size_is_a_constant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: str
) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(BULK.replace("SIZE", size))
    assert main(["analyse", str(path)]) == 0
    (traffic,) = re.findall(r"^  traffic +(.*)", capsys.readouterr().out, re.M)
    if size == "512":
        assert traffic == "512 bytes read and 0 written per CTA"
    else:
        assert traffic.startswith("not known: what 1 cp.async.bulk move is not counted")


def test_refused_text_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_tool("ptxas")
    except ToolNotFound:
        pytest.skip("no ptxas")
    path = tmp_path / "bad.ptx"
    path.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .f32 %f<2>; .reg .b64 %r<2>;\n"
        "add.f32 %f1, %f0, %r1; ret; }\n"
    )
    assert main(["analyse", str(path)]) == 1
    found = capsys.readouterr()
    assert "kernel k" in found.out
    assert f"{path}:5" in found.err
    assert "ptxas refuses this text" in found.err
    assert main(["analyse", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["refused"]
    assert main(["analyse", str(path), "--no-ptxas"]) == 0


def test_json_agrees_with_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(KERNEL), "--no-ptxas", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert main(["analyse", str(KERNEL), "--no-ptxas"]) == 0
    text = capsys.readouterr().out
    for function in facts["functions"]:
        assert f"{function['name']} " in text
        assert f"{function['pressure']['estimated']} estimated" in text
        assert sum(function["mix"]["kinds"].values()) == len(function["pressure"]["points"])


def test_unknown_kernel_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(KERNEL), "--no-ptxas", "--kernel", "nothing"]) == 2
    assert "does not define a function nothing" in capsys.readouterr().err


@pytest.mark.parametrize("block", ["0", "1,2,3,4", "x", "1024,2"])
def test_bad_block_is_a_usage_error(block: str) -> None:
    with pytest.raises(SystemExit) as failed:
        main(["analyse", str(KERNEL), "--block", block])
    assert failed.value.code == 2


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.lines: set[int] = set()
        self.external: list[str] = []
        self.text: list[str] = []
        self.row = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag not in ("meta", "br", "rect", "path", "line"):
            self.open.append(tag)
        if known.get("class") == "row":
            self.lines.add(int(known["data-line"] or 0))
        self.external += [v for k, v in attrs if k in ("src", "href") and v]

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_is_whole_and_self_contained(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert main(["analyse", str(KERNEL), "--html", str(out)]) == 0
    html = out.read_text(encoding="utf-8")
    page = _Page()
    page.feed(html)
    assert page.open == []
    assert page.external == []
    assert "http://" not in html
    assert "https://" not in html
    source = KERNEL.read_text().split("\n")
    entry = next(i for i, line in enumerate(source, 1) if ".entry" in line)
    end = max(i for i, line in enumerate(source, 1) if line.startswith("}"))
    assert set(range(entry, end + 1)) <= page.lines
    try:
        find_tool("nvdisasm")
    except ToolNotFound:
        return
    assert 'data-tab="sass"' in html
    assert "EXIT" in "".join(page.text)


@st.composite
def graphs(draw_: st.DrawFn) -> list[list[int]]:
    count = draw_(st.integers(1, 14))
    return [draw_(st.lists(st.integers(0, count - 1), max_size=2)) for _ in range(count)]


@given(graphs())
def test_boxes_do_not_overlap_and_every_edge_is_drawn(successors: list[list[int]]) -> None:
    sizes = [(40.0 + 13 * (i % 4), 38.0) for i in range(len(successors))]
    drawing = draw(successors, sizes)
    boxes = list(drawing.boxes.values())
    assert len(boxes) == len(successors)
    for i, a in enumerate(boxes):
        assert 0 <= a.x
        assert a.x + a.width <= drawing.width
        for b in boxes[:i]:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            assert apart
    edges = {(b, s) for b, nexts in enumerate(successors) for s in nexts}
    assert {(r.source, r.target) for r in drawing.routes} == edges
    for r in drawing.routes:
        if not r.back:
            assert drawing.boxes[r.target].y > drawing.boxes[r.source].y


def test_illegal_text_is_told_as_check_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    head = ".version 8.5\n.target sm_90a\n.visible .entry k()\n{\n\t.reg .b32 %r<4>;\n"
    for body, lines in (("\tmov.u32 %r9, 1;\n\tadd.s32 %r1, %r2;\n", [6, 7]), ("\tadd.s32 %r1, %r2;\n", [6])):
        path.write_text(f"{head}{body}\tret;\n}}\n")
        assert main(["analyse", str(path)]) == 1
        said = capsys.readouterr().err
        assert [int(n) for n in re.findall(r"k\.ptx:(\d+):\d+: error", said)] == lines
        assert "ptxas:" not in said
