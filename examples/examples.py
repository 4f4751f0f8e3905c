"""Lets an example run as a file (`python examples/demo.py`): what it imports is in the package that this folder is."""

import sys
from pathlib import Path

__path__ = [str(Path(__file__).parent)]
sys.path.append(str(Path(__file__).parents[1]))
