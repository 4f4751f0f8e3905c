"""Imports every chapter, so that every op class is registered."""

from . import integer as integer
