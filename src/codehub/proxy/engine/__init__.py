"""An HTTP/1.1 reverse proxy that knows nothing of codehub: requests go in, what a policy decides is done."""
