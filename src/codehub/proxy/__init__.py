"""The edge: every request of every browser goes through here. `/w/{id}/…` reaches a workspace, all else the API."""
