"""The imperative shell: observes, persists and executes what the pure core judges and plans."""
