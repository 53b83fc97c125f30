"""One folder per platform. None imports another; each imports ports and core only."""
