"""Imports every chapter, so that every op class is registered."""

from . import comparison as comparison
from . import extended as extended
from . import floating as floating
from . import integer as integer
from . import logic as logic
from . import move as move
from . import movement as movement
