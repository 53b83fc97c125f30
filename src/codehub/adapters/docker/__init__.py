"""Docker: workspaces as containers, homes as volumes.

Touches only what carries this installation's label (docs/adr/0013, 0014).
"""
