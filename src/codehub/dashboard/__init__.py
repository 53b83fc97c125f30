"""The dashboard: workspaces as people see them, rendered on the server, live in the browser.

It asks the service layer, and decides nothing.
"""
