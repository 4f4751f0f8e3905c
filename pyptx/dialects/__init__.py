"""xDSL dialects that pyptx defines."""

makes_ir = True
"""Whether this process may make IR. `pyptx check`, which only judges text, says no before the dialect is imported: the
dialect's classes then hold their facts without being operations, and xDSL, which takes longer to import than a file to be
judged, is not imported. See `ptx.foundation`.
"""
