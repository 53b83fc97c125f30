"""The whole idea, pure: what a workspace is, what was seen, what
it means, what comes next. No I/O, no clock, no randomness.
"""
