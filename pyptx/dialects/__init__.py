"""xDSL dialects that pyptx defines."""
