"""The edge: every request of every browser goes through here, to its workspace or to the API."""
