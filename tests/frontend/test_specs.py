"""`Tile`, `Layout`, `unify_envs`."""

from __future__ import annotations

import pytest

from pyptx.specs import Layout, Tile, unify_envs
from pyptx.types import bf16, f32


def test_dtype_and_layout_in_any_order():
    tile = Tile("M", Layout.TMA_128B, 64, bf16)
    assert tile == Tile("M", 64, dtype=bf16, layout=Layout.TMA_128B)
    assert (tile.rank, tile.symbolic_dims, tile.layout.value) == (2, ("M",), "tma_128b")
    assert repr(tile) == "Tile('M', 64, bf16, Layout.TMA_128B)"
    for wrong, error in (
        ((f32,), ValueError),
        ((4,), ValueError),
        ((4, f32, 1.5), TypeError),
        ((4, f32, f32), TypeError),
    ):
        with pytest.raises(error):
            Tile(*wrong)


def test_dimensions():
    tile = Tile("M", "M", 4, f32)
    assert tile.resolve_shape({"M": 3}) == (3, 3, 4)
    with pytest.raises(KeyError):
        tile.resolve_shape({})
    assert tile.extract_env((5, 5, 4)) == {"M": 5}
    for shape in ((5, 6, 4), (5, 5, 3), (5, 5)):
        with pytest.raises(ValueError, match="dimension"):
            tile.extract_env(shape)


def test_matches():
    assert Tile("M", bf16).matches((4,), "bfloat16")
    assert Tile("M", bf16).matches((4,), "torch.bfloat16")
    assert not Tile("M", bf16).matches((4,), "float16")
    assert not Tile("M", bf16).matches((4, 4), "bfloat16")


@pytest.mark.parametrize(
    ("tile_k", "layout"),
    [(8, Layout.ROW), (16, Layout.TMA_32B), (32, Layout.TMA_64B), (64, Layout.TMA_128B), (128, Layout.TMA_128B)],
)
def test_wgmma_tiles_have_the_layout_of_their_rows(tile_k, layout):
    tile = Tile.wgmma_a("M", "K", bf16, tile_m=64, tile_k=tile_k)
    assert (tile.layout, tile.tma_box) == (layout, (64, tile_k))
    assert Tile.wgmma_b(tile_k, "N", bf16).layout is Layout.ROW
    with pytest.raises(ValueError, match="48 bytes"):
        Tile.wgmma_b("K", 24, bf16)


def test_rank_3_needs_a_box():
    assert Tile("M", "K", bf16, tma_rank=3, tma_box=(64, 64)).tma_rank == 3
    with pytest.raises(ValueError, match="needs a tma_box"):
        Tile("M", "K", bf16, tma_rank=3)


def test_unify():
    assert unify_envs([{"M": 1}, {"N": 2}, {"M": 1}]) == {"M": 1, "N": 2}
    with pytest.raises(ValueError, match="M is 1 in one tensor and 2 in another"):
        unify_envs([{"M": 1}, {"M": 2}])
