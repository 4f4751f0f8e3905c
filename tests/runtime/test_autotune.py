"""`pyptx.autotune` and `pyptx.bench`: with a stopwatch of the test's, a cost function, predictions; what is kept on disk and refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyptx
from pyptx import PTXError, Tile, kernel, ptx
from pyptx.kernel import Kernel
from pyptx.tuning import Tuned
from pyptx.types import f32

CONFIGS = [{"BLOCK": block} for block in (32, 64, 128)]


class Watch:
    """A stopwatch that says what a test wants, by the block size of the kernel."""

    name = "a test"

    def __init__(self, times: dict[int, float]):
        self.times, self.timed, self.flushes, self.captures = times, list[int](), 0, 0

    def capture(self, run: Callable[[], object]) -> Callable[[], object]:
        self.captures += 1
        return run

    def flush(self) -> None:
        self.flushes += 1

    def seconds(self, run: Any) -> float:
        self.timed.append(run.keywords["BLOCK"])
        return self.times[run.keywords["BLOCK"]]

    def clock_mhz(self) -> float | None:
        return 1500.0


def doubling() -> Kernel:
    @kernel(
        in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=lambda N, BLOCK: -(-N // BLOCK),
        block=lambda BLOCK: BLOCK,
    )  # fmt: skip
    def doubled(x: Any, out: Any, *, N: Any = None, BLOCK: Any = 32) -> None:
        if BLOCK == 96:
            raise ValueError("a block of 96 does not divide the tile")
        i = ptx.special.ctaid.x() * BLOCK + ptx.special.tid.x()
        with ptx.if_(i < N):
            (ptx.pointer(out) + i).store((ptx.pointer(x) + i).load() * 2.0)

    return doubled


def tuned(configs: Any = CONFIGS, **options: Any) -> Tuned:
    return pyptx.autotune(configs, **{"cache": False, **options})(doubling())


x = np.arange(100, dtype=np.float32)


def test_the_fastest_is_measured_once_for_each_key() -> None:
    watch = Watch({32: 3e-3, 64: 1e-3, 128: 2e-3})
    made = tuned(stopwatch=watch)
    np.testing.assert_array_equal(made(x), 2 * x)
    timed = len(watch.timed)
    found = made.tune(x)
    assert found.config == {"BLOCK": 64}
    assert [c["BLOCK"] for c, _ in found.seconds] == [64, 128, 32]
    assert [t for _, t in found.seconds] == [1e-3, 2e-3, 3e-3]
    assert "measured on a test" in str(found)
    assert watch.captures == 3
    assert watch.flushes == timed - 3  # the first time of each is an estimate
    made(x)
    made.best(x)
    assert len(watch.timed) == timed
    made(np.arange(7, dtype=np.float32))
    assert len(watch.timed) == 2 * timed


def test_a_key_of_no_dimensions_is_searched_once() -> None:
    watch = Watch({32: 3e-3, 64: 1e-3, 128: 2e-3})
    made = tuned(stopwatch=watch, key=[])
    made(x)
    timed = len(watch.timed)
    np.testing.assert_array_equal(made(x[:7]), 2 * x[:7])
    assert len(watch.timed) == timed


def test_a_cost_and_a_prune() -> None:
    seen: list[Any] = []

    def cost(made: Kernel, array: np.ndarray) -> float:
        seen.append(made.template_params["BLOCK"])
        return -float(seen[-1])

    def prune(configs: list[Any], dims: dict[str, int]) -> list[Any]:
        assert dims == {"N": 100}
        return [c for c in configs if c["BLOCK"] < 128]

    made = tuned(cost=cost, prune=prune)
    assert made.tune(x).config == {"BLOCK": 64}
    assert seen == [32, 64]
    assert made.best(x).template_params["BLOCK"] == 64
    with pytest.raises(PTXError, match="prune leaves none of 3 configurations for N=100"):
        tuned(cost=cost, prune=lambda configs, dims: []).tune(x)


def test_what_cannot_be_launched_is_left_out_with_the_reason() -> None:
    configs = [*CONFIGS, {"BLOCK": 96}, {"BLOCK": 2048}]
    found = tuned(configs, cost=lambda made, array: 1.0).tune(x)
    reasons = {c["BLOCK"]: reason for c, reason in found.rejected}
    assert "a block of 96 does not divide the tile" in reasons[96]
    assert "2048 threads, and a CTA has at most 1024" in reasons[2048]
    assert len(found.seconds) == 3
    assert "rejected" in str(found)
    with pytest.raises(PTXError, match=r"none of 1 configurations can be launched:\n  BLOCK=2048: .* 2048 threads"):
        tuned([{"BLOCK": 2048}], cost=lambda made, array: 1.0).tune(x)


def test_a_cta_that_does_not_fit_is_left_out() -> None:
    @pyptx.autotune([{"KILOBYTES": 4}, {"KILOBYTES": 300}], cost=lambda made, array: 1.0)
    @kernel(in_specs=[Tile("N", f32)], out_specs=[Tile("N", f32)], grid=1, block=32)
    def buffered(x: Any, out: Any, *, N: Any = None, KILOBYTES: Any = 1) -> None:
        tile = pyptx.smem.alloc(f32, (KILOBYTES * 256,))
        i = ptx.special.tid.x()
        tile[i,] = (ptx.pointer(x) + i).load()
        (ptx.pointer(out) + i).store(tile[i,])

    ((config, reason),) = buffered.tune(np.zeros(32, np.float32)).rejected
    assert config == {"KILOBYTES": 300}
    assert "307200" in reason


def test_times_are_kept_on_disk_while_the_ptx_is_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "times"
    first = Watch({32: 3e-3, 64: 1e-3, 128: 2e-3})
    assert not tuned(stopwatch=first, cache=folder).tune(x).cached
    again = Watch({32: 1e-3, 64: 2e-3, 128: 3e-3})
    found = tuned(stopwatch=again, cache=folder).tune(x)
    assert found.cached
    assert found.config == {"BLOCK": 64}
    assert again.timed == []
    assert not tuned(stopwatch=again, cache=folder).tune(x[:9]).cached  # other sizes
    assert not tuned(CONFIGS[:2], stopwatch=again, cache=folder).tune(x).cached  # other configurations
    again.name = "another GPU"
    assert not tuned(stopwatch=again, cache=folder).tune(x).cached


def test_predictions_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`predict`, whose own tests are in `tests/prediction`, gets the kernel of each configuration, the arrays and the card."""
    asked: list[tuple[int, list[tuple[int, ...]], str]] = []

    class Found:
        range_us = (2.0, 4.0)

        def seconds(self) -> float | None:
            return {32: 2e-6, 64: None, 128: 1e-6}[asked[-1][0]]

    def predict(made: Kernel, *arrays: np.ndarray, card: str) -> Found:
        assert made.resolve_launch({"N": 100}).block == (made.template_params["BLOCK"], 1, 1)
        asked.append((made.template_params["BLOCK"], [a.shape for a in arrays], card))
        return Found()

    monkeypatch.setattr("pyptx.prediction.predict", predict)
    found = tuned(card="H200").tune(x)
    assert found.method == "predicted for H200"
    assert asked == [(block, [(100,), (100,)], "H200") for block in (32, 64, 128)]
    assert [c["BLOCK"] for c, _ in found.seconds] == [128, 32, 64]
    assert tuned().tune(x).method == "predicted for H100 SXM"  # the kernel is for sm_90a


def test_wrong_names() -> None:
    for configs, key, message in (
        ([], None, "needs one configuration at least"),
        ([{"BLOCKS": 1}], None, "BLOCKS is not a template parameter of kernel doubled; it has: BLOCK"),
        ([{"N": 1}], None, "N is not a template parameter of kernel doubled"),
        (CONFIGS, ["M"], "key 'M' is not a dimension or template parameter"),
        (CONFIGS, ["BLOCK"], "BLOCK is in configs and in key"),
    ):
        with pytest.raises(TypeError, match=message):
            tuned(configs, key=key)
    with pytest.raises(TypeError, match="put it above @kernel"):
        pyptx.autotune(CONFIGS)(lambda x: x)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="no template parameter 'BLOCKS'; it has: N, BLOCK"):
        doubling().specialize(BLOCKS=1)


def test_a_measurement() -> None:
    def run(BLOCK: int = 32) -> None:
        calls.append(BLOCK)

    calls: list[int] = []
    watch = Watch({32: 0.01})
    found = pyptx.bench(partial(run, BLOCK=32), budget=0.3, stopwatch=watch)
    assert len(calls) == 2  # the stopwatch of the test does not run it
    assert len(found.times) == 31
    assert found.median == found.fastest == found.slowest == 0.01
    assert str(found).startswith("10000.00 us (median of 31;")
    assert "SM clock 1500 to 1500 MHz" in str(found)
    assert watch.flushes == 31
    without = pyptx.bench(partial(run, BLOCK=32), flush_l2=False, graph=False, budget=1e-6, stopwatch=watch)
    assert watch.flushes == 31
    assert watch.captures == 1
    assert len(without.times) == 11
    with pytest.raises(ValueError, match="positive number of seconds, not 0"):
        pyptx.bench(run, budget=0, stopwatch=watch)


def test_measuring_needs_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        assert pyptx.bench(lambda: torch.zeros(1, device="cuda")).median > 0
        return
    with pytest.raises(RuntimeError, match="bench measures on a GPU"):
        pyptx.bench(lambda: None)
