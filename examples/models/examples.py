"""Lets an example run as a file (`python examples/models/layer.py`): what it imports is in the package around this folder."""

import sys
from pathlib import Path

__path__ = [str(Path(__file__).parents[1])]
sys.path.append(str(Path(__file__).parents[2]))
