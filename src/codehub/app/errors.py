"""Why codehub can't start."""


class CannotStart(Exception):
    """Why codehub can't start, in one line that says what to do."""
