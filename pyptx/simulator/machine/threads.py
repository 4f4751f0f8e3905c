"""The threads of a batch of CTAs that run together, and their places in the grid.

All threads of a batch are one array axis (`lanes`): lane = cta * padded + thread, where each CTA is padded to whole warps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...diagnostics import Diagnostic, SimulationError
from .program import CLUSTER_SHIFT, Inst, Program

Array = Any


@dataclass(frozen=True, slots=True)
class Launch:
    """A checked launch: sizes as (x, y, z)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    explicit_cluster: bool = False
    per_cta: int = 0
    """Bytes of global memory that each CTA has for itself."""
    cooperative: bool = False
    """Whether all CTAs are live at once and have a barrier of the grid."""
    programmatic: bool = False
    """Whether the grid before it may still run, and the next one may begin."""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def grid_size(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_size(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class Threads:
    """The threads of a batch: who they are, and which are alive."""

    def __init__(self, program: Program, launch: Launch, ctas: int):
        self.program, self.launch, self.ctas = program, launch, ctas
        self.padded = (launch.threads + 31) // 32 * 32
        self.lanes = lanes = ctas * self.padded
        self.warps = lanes // 32
        self.lane_numbers = np.arange(lanes)
        self.cta_of_lane = self.lane_numbers // self.padded
        self.thread_of_lane = self.lane_numbers % self.padded
        self.lane_in_warp = (self.lane_numbers % 32).astype(np.uint32)
        self.cluster_size = launch.cluster_size
        ranks = self.cta_of_lane % self.cluster_size
        self.rank_bits: Array = (ranks << CLUSTER_SHIFT).astype(np.uint32) if self.cluster_size > 1 else None
        """What the .shared addresses of each lane's CTA have in bits 24 and up; None without clusters."""
        self.first_cta = 0
        self.next_cta = 0
        self.grid_end = launch.grid_size
        """CTAs from `next_cta` to `grid_end` have not begun; cluster launch control takes from the end."""
        self.live = np.zeros(lanes, np.bool_)
        self.alive: Array = None
        """Lanes that have not exited; None while all lanes are alive."""
        self.clock = 0
        self._lanes_of: tuple[Array, Array] = (None, None)

    def cancel_cluster(self) -> int | None:
        """Cancel the last cluster that has not begun: the number of its first CTA, or None."""
        if self.grid_end - self.cluster_size < self.next_cta:
            return None
        self.grid_end -= self.cluster_size
        return self.grid_end

    def set_alive(self, alive: np.ndarray) -> None:
        self.alive = None if np.count_nonzero(alive) == self.lanes else alive
        self._lanes_of = (None, None)

    def cluster_start(self, cta: np.ndarray) -> np.ndarray:
        """Batch numbers of the first CTA of the clusters that CTAs are in. CTAs of a cluster are neighbours
        in a batch.
        """
        return cta // self.cluster_size * self.cluster_size

    def lanes_of(self, mask: np.ndarray) -> np.ndarray:
        """The numbers of the lanes in a mask; the answer for the latest mask is kept (masks are never
        changed in place).
        """
        if self._lanes_of[0] is not mask:
            self._lanes_of = (mask, np.flatnonzero(mask))
        return self._lanes_of[1]

    def cta_index(self, cta: np.ndarray | int) -> tuple[Array, Array, Array]:
        """%ctaid of CTAs given by their number in the batch. With clusters, CTAs are numbered cluster by
        cluster.
        """
        number = np.asarray(cta) + self.first_cta
        gx, gy, _ = self.launch.grid
        if self.cluster_size == 1:
            return number % gx, number // gx % gy, number // (gx * gy)
        cx, cy, _ = self.launch.cluster
        cluster, rank = number // self.cluster_size, number % self.cluster_size
        nx, ny = gx // cx, gy // cy
        return (
            cluster % nx * cx + rank % cx,
            cluster // nx % ny * cy + rank // cx % cy,
            cluster // (nx * ny) * self.launch.cluster[2] + rank // (cx * cy),
        )

    def describe_thread(self, lane: int) -> str:
        x, y, z = self.cta_index(int(self.cta_of_lane[lane]))
        t = int(self.thread_of_lane[lane])
        bx, by, _ = self.launch.block
        return f"thread ({t % bx}, {t // bx % by}, {t // (bx * by)}) of CTA ({int(x)}, {int(y)}, {int(z)})"

    def fault(self, inst: Inst, message: str, lane: int | None = None, hint: str | None = None) -> NoReturn:
        """Stop with a SimulationError that names the instruction, its place and the thread."""
        raise SimulationError(self.diagnostic(inst, message, lane, hint))

    def diagnostic(self, inst: Inst, message: str, lane: int | None = None, hint: str | None = None) -> Diagnostic:
        where = "" if lane is None else f", {self.describe_thread(lane)}"
        text = f"{message} (instruction `{inst.text}`{where})"
        return Diagnostic("error", text, inst.filename, inst.line, inst.column, hint, origin=self.program.origin(inst))

    def ballot(self, lanes: np.ndarray) -> np.ndarray:
        """One bit per lane, one 32-bit word per warp: shape (warps,)."""
        return np.packbits(lanes, bitorder="little").view(np.uint32)

    def per_lane(self, per_warp: np.ndarray) -> np.ndarray:
        return np.repeat(per_warp, 32)

    def executing(self, mask: Array) -> np.ndarray:
        """The mask as an array, whatever None stands for."""
        if mask is not None:
            return mask
        return np.ones(self.lanes, np.bool_) if self.alive is None else self.alive
