"""What both web faces stand on: who asks from where, what may be asked
in which shape, and the words for what the core decides.
"""
