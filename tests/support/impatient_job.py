"""A Job that takes a store for away after a second, not after a minute."""

from codehub.adapters.objectstore import patience
from codehub.job.__main__ import main

if __name__ == "__main__":
    patience.RETRY_S_MAX = 1.0
    main()
