"""Workspaces on this very machine: homes as directories, IDEs as processes."""
