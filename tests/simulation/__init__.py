"""The simulator: the real engine, service layer, TTL, GC and membership
on the memory adapters, in virtual time, from one seed.
"""
