"""The catalogue: a file per language, each with the same keys.
Whatever file is here is a language that codehub speaks.
"""
