"""What the sanitizer knows of a launch: accesses to memory, the order of events, copies in flight. Nothing here is a rule."""
