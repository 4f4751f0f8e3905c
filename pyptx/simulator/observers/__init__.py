"""What watches a run without changing it: profile, trace, timeline."""
