"""Pictures of layouts as SVG; the public module is `pyptx.draw`."""
