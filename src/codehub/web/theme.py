"""The look that all of codehub's own pages share, the dashboard's
and the proxy's: colours and type, as a style sheet.
"""

from importlib.resources import files

TOKENS = files("codehub.web").joinpath("look.css").read_text("utf-8")
