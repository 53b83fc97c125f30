"""The command line: messages for people on stderr, results on stdout.

A client command imports no server code.
"""
