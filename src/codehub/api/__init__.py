"""The HTTP face: translates requests into calls of the service layer and back. Decides nothing."""
