"""The page that `pyptx analyse --html` writes."""
