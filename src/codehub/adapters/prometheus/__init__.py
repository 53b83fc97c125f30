"""Meters for Prometheus."""
