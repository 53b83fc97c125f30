"""The real clock, dice, ids and tasks of this machine."""
