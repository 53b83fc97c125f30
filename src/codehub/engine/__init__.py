"""The imperative shell: observes, executes and persists what the pure core judges and plans."""
