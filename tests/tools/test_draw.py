"""Pictures of layouts: what stands in each cell, against NVIDIA's tables (tests/data/layouts), and that it is drawn
there.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from pyptx import draw
from pyptx.types import bf16, e4m3, f16, f32, tf32

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"
SVG = "{http://www.w3.org/2000/svg}"


def table(name: str) -> Any:
    return json.loads(gzip.decompress((LAYOUTS / f"{name}.json.gz").read_bytes()))


MMA, WGMMA, LDST, TMEM = table("mma_sync"), table("wgmma"), table("tcgen05_ldst"), table("tcgen05_tmem")
TMA = json.loads((LAYOUTS / "tma.json").read_text())
PART = {"lo": 0, "hi": 1, "b0": 0, "b1": 1, "b2": 2, "b3": 3}


def held(cell: draw.Cell, bits: int) -> tuple[int, int]:
    """(thread, value number) that a fragment's cell says."""
    thread, name = cell.text
    register, _, part = name[1:].partition(".")
    number = int(register) * max(32 // bits, 1)
    if part:
        number += PART[part] if part in PART else int(part) // bits
    return int(thread[1:]), number


def drawn(picture: draw.Picture) -> dict[tuple[float, float], list[str]]:
    """(x, y) of each cell's rectangle -> its lines of text, from the SVG."""
    found: dict[tuple[float, float], list[str]] = {}
    for group in ElementTree.fromstring(picture.svg).iter(SVG + "g"):
        rect = group.find(SVG + "rect")
        assert rect is not None
        found[float(rect.attrib["x"]), float(rect.attrib["y"])] = [t.text or "" for t in group.iter(SVG + "text")]
    return found


def mma_operands() -> list[Any]:
    found: dict[tuple[Any, ...], list[list[int]]] = {}
    for op in MMA["ops"]:
        if isinstance(op.get("threads"), list) or "SFA" in op or "E" in op or ".sp" in op["ptx"]:
            continue  # half precision by quads; sparse and scaled forms have the same A, B, C
        for operand in "ABC":
            key = (operand, *op["mnk"], op["value_bits"][operand])
            found[key] = MMA["layouts"][op[operand]]["tv"]
    return [pytest.param(*key, tv, id="-".join(map(str, key))) for key, tv in found.items()]


@pytest.mark.parametrize(("operand", "m", "n", "k", "bits", "tv"), mma_operands())
def test_mma_fragments(operand: str, m: int, n: int, k: int, bits: int, tv: list[list[int]]) -> None:
    picture = draw.mma(operand, (m, n, k), bits)
    rows, columns = {"A": (m, k), "B": (k, n), "C": (m, n)}[operand]
    assert len(picture.cells) == rows * columns == len({(c.row, c.column) for c in picture.cells})
    for cell in picture.cells:
        thread, value = held(cell, bits)
        linear = tv[thread][value]
        # A and C count down the columns, B along n
        assert (linear % n, linear // n) == (cell.column, cell.row) if operand == "B" else (
            linear % rows, linear // rows) == (cell.row, cell.column)  # fmt: skip


@pytest.mark.parametrize("n", [8, 24])
@pytest.mark.parametrize("dtype", [f32, f16])
def test_wgmma_accumulators(n: int, dtype: Any) -> None:
    picture = draw.wgmma("D", dtype, n)
    assert len(picture.cells) == 64 * n
    for cell in picture.cells:
        thread, value = held(cell, dtype.bits)
        assert WGMMA["D_tv"][str(n)][thread][value] == cell.row + 64 * cell.column


@pytest.mark.parametrize(("bits", "depth"), [(32, 8), (16, 16), (8, 32)])
def test_wgmma_a_from_registers(bits: int, depth: int) -> None:
    picture = draw.wgmma("a", bits)
    assert len(picture.cells) == 64 * depth
    tv = WGMMA["A_RS"][f"A_RS_64x{depth}"]["tv"]
    for cell in picture.cells:
        thread, value = held(cell, bits)
        assert tv[thread][value] == cell.row + 64 * cell.column


@pytest.mark.parametrize(
    "op", [op for op in LDST["ops"] if "regs" in op and op["ptx"].startswith("tcgen05.ld")], ids=lambda op: op["ptx"]
)
def test_tcgen05_loads(op: dict[str, Any]) -> None:
    split = op.get("half_split_imm_in_header", 0)
    picture = draw.tcgen05(op["shape"], op["num"], pack=op["pack16"], split=split)
    theirs = set[tuple[int, int, int, str]]()
    for thread, flat in enumerate(op["regs"]):
        places = list(zip(flat[::2], flat[1::2], strict=True))
        for i, (lane, column) in enumerate(places):
            register, half = divmod(i, 2) if op["pack16"] else (i, -1)
            theirs.add((lane, column, thread, f"r{register}" + ("", ".lo", ".hi")[half + 1]))
    mine = {(c.row, c.column, int(c.text[0][1:]), c.text[1]) for c in picture.cells}
    assert mine == theirs


def test_tcgen05_accumulators() -> None:
    checked = 0
    for f in TMEM["fragments"]:
        rows, group = f["m_per_cta"], f["cta_group"]
        if f["what"] != "D" or f["storage_bits"] != 32 or f["n_or_k"] > 64 or rows == 32:
            continue
        picture = draw.tcgen05_accumulator(rows * group, f["n_or_k"], cta_group=group)
        cells = {(c.row, c.column): c.text[0] for c in picture.cells}
        for m, n, lane, column, _ in f["samples_m_n_lane_col_bit"]:
            assert cells[lane, column] == f"{m},{n}"
            checked += 1
    assert checked > 20


@pytest.mark.parametrize("mode", ["32B", "64B", "128B", "128B_ATOM_32B"])
@pytest.mark.parametrize("rows", [8, 4])
def test_swizzles_are_those_of_tma(mode: str, rows: int) -> None:
    picture = draw.swizzle(mode, rows=rows)
    chunks = {"32B": 2, "64B": 4}.get(mode, 8)
    expected = TMA["swizzle"]["tables_16B_chunks"][mode]  # byte of logical chunk i -> byte where it lies
    assert len(picture.cells) == rows * chunks
    for cell in picture.cells:
        row, chunk = map(int, cell.text[0].split(":"))
        assert expected[row * chunks + chunk] == 128 * cell.row + 16 * cell.column


def test_no_swizzle_is_row_major_and_conflicts() -> None:
    picture = draw.swizzle(None)
    assert all(c.text == (f"{c.row}:{c.column}",) for c in picture.cells)
    assert "8-way bank conflict" in picture.svg and "no bank conflict" in draw.swizzle("128B").svg


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_banks_count_words(width: int) -> None:
    rng = np.random.default_rng(width)
    addresses = rng.integers(0, 1024 // width, 32) * width
    picture = draw.banks(addresses, width)
    lanes = 32 if width <= 4 else 128 // width
    last = max(c.row for c in picture.cells)
    counted = {c.column: int(c.text[0]) for c in picture.cells if c.row == last}
    for bank in range(32):
        most = 0
        for first in range(0, 32, lanes):
            data = {int(a) + i for a in addresses[first : first + lanes] for i in range(width)}
            most = max(most, len({byte // 4 for byte in data if byte // 4 % 32 == bank}))
        assert counted.get(bank, 0) == most
    ways = max(counted.values())
    assert ("no bank conflict" if ways == 1 else f"{ways}-way bank conflict") in picture.svg
    starts = {int(re.findall(r"byte (\d+)", c.detail)[0]) for c in picture.cells if c.row < last}
    assert starts == {int(a + i) // 4 * 4 for a in addresses for i in range(width)}


def test_a_column_of_a_padded_tile_has_no_conflict() -> None:
    assert "32-way bank conflict" in draw.banks(lambda lane: 128 * lane).svg
    assert "no bank conflict" in draw.banks(lambda lane: 132 * lane).svg
    assert draw.banks([8] * 32)[0, 2].text == ("T0+31",)


@pytest.mark.parametrize(
    "picture",
    [draw.mma("B", "m16n8k16", bf16), draw.wgmma("D", f32, 8), draw.swizzle("64B"), draw.banks(lambda lane: 8 * lane)],
    ids=["mma", "wgmma", "swizzle", "banks"],
)
def test_the_svg_shows_the_cells(picture: draw.Picture, tmp_path: Path) -> None:
    texts = drawn(picture)
    xs, ys = sorted({x for x, _ in texts}), sorted({y for _, y in texts})
    columns, rows = sorted({c.column for c in picture.cells}), sorted({c.row for c in picture.cells})
    for cell in picture.cells:
        assert texts[xs[columns.index(cell.column)], ys[rows.index(cell.row)]] == list(cell.text)
    assert len(texts) == len(picture.cells)
    assert picture._repr_svg_() == picture.svg
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg
    with pytest.raises(ValueError, match=r"saved as \.svg"):
        picture.save(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: draw.mma("A", "m16n8k32", bf16), "k = 8 or 16, not 32"),
        (lambda: draw.mma("A", "m8n8k4", f16), "k = 8 or 16, not 4"),
        (lambda: draw.mma("X", "m16n8k16", f16), 'not \'X\''),
        (lambda: draw.mma("A", "16x8x16", f16), "a shape is"),
        (lambda: draw.mma("C", "m16n8k16", 8), "accumulators"),
        (lambda: draw.mma("A", "m64n8k16", f16), "m64n8k16"),
        (lambda: draw.wgmma("B", f16), "shared memory"),
        (lambda: draw.wgmma("D", f32, 12), "12 columns"),
        (lambda: draw.tcgen05("32x64b"), "32x64b"),
        (lambda: draw.tcgen05("16x256b", 64), "not 64"),
        (lambda: draw.tcgen05_accumulator(32), "m = 32"),
        (lambda: draw.swizzle("96B"), "96B"),
        (lambda: draw.swizzle("128B", row_bytes=24), "24"),
        (lambda: draw.banks([2], 4), "address 2 of lane 0"),
        (lambda: draw.banks([0] * 33), "33"),
        (lambda: draw.banks([0], 3), "not 3"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_lines_do_not_cut_the_registers_of_four_threads() -> None:
    """Heavier lines stand where another register begins: every 16 bytes along k."""
    for shape, dtype, groups in (("m16n8k32", e4m3, 2), ("m16n8k16", bf16, 2), ("m16n8k8", tf32, 2)):
        picture = draw.mma("A", shape, dtype)
        columns = 1 + max(c.column for c in picture.cells)
        first = [picture[0, c].text[1].split(".")[0] for c in range(columns)]
        assert len(re.findall(r"M[\d. ]+V", picture.svg)) == len(set(first)) - 1 == groups - 1
        assert first == [f"r{2 * (c * groups // columns)}" for c in range(columns)]


def test_shapes_that_mma_does_not_have_are_not_drawn() -> None:
    for wrong in (("D", "m16n8k12", f32), ("A", "m8n8k16", bf16), ("A", "m16n8k64", 8)):
        with pytest.raises(ValueError, match=r"mma\.sync with"):
            draw.mma(*wrong)


def test_notes_say_what_is_not_plain() -> None:
    assert "as the instruction says: 8 here" in draw.tcgen05("16x32bx2", 2, split=8).svg
    assert "T4+1" in draw.banks(lambda lane: 4 * (lane // 2)).svg
    assert "T4+1" not in draw.banks(lambda lane: 4 * lane).svg
    assert "rotate" in draw.banks(lambda lane: 128 * lane).svg
    assert "rotate" not in draw.banks(lambda lane: 4 * lane).svg


class Padded:
    """8 x (4, 4) elements in rows of 20, as a layout of tensor_layouts."""

    shape = (8, (4, 4))

    def __call__(self, row: int, column: int) -> int:
        return 20 * row + column % 4 + 4 * (column // 4)

    def __str__(self) -> str:
        return "(8, (4, 4)):(20, (1, 4))"


def test_any_layout() -> None:
    picture = draw.layout(Padded(), f32)
    assert len(picture.cells) == 128
    for row in range(8):
        for column in range(16):
            assert picture[row, column].text == (str(20 * row + column),)
    assert picture[3, 5].detail == "element (3, 5): number 65, byte 260, bank 1"
    assert "layout (8, (4, 4)):(20, (1, 4))" in picture.svg
    assert "down the first column: no bank conflict, along the first row: no bank conflict" in picture.svg
    same = type("Same", (), {"shape": (32, 32), "__call__": lambda _, i, j: 32 * i + j})()
    assert "down the first column: 32-way bank conflict" in draw.layout(same, f32).svg
    for wrong in (5, type("Large", (), {"shape": (65, 64), "__call__": lambda *_: 0})()):
        with pytest.raises(ValueError, match=r"has a shape and gives|4096 elements at most"):
            draw.layout(wrong)
