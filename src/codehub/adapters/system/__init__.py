"""The real clock, randomness, ids and tasks of this machine."""
