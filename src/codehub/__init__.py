"""codehub: self-hosted cloud development environments. `codehub.core` holds the whole idea."""
