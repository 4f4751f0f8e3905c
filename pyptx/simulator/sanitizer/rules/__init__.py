"""The rules: one file for each, or for a few that go together, with their words."""
