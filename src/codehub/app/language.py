"""What a start, a back-up and its restore say, in the language of whoever runs them."""

from codehub.text.terminal import terminal_speaker

say = terminal_speaker("server")
