"""What the API, the proxy, the TTL and the command line may ask for. The only writers of a wish."""
