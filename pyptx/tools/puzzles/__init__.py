"""Twenty small puzzles, from adding two arrays to a ring of mbarriers: `pyptx puzzle 7`."""

from .judging import Verdict, judge
from .puzzle import Puzzle
from .tasks import PUZZLES

__all__ = ["PUZZLES", "Puzzle", "Verdict", "judge"]
