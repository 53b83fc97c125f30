"""Kubernetes: a small typed client, and caches of what a cluster
holds that know when they are behind (docs/adr/0034).
"""
