"""The shipped in-memory adapters: for tests and the simulator, with hooks that make them fail."""
