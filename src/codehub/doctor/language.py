"""What the doctor says, in the language of whoever asks it."""

from codehub.text.terminal import terminal_speaker

say = terminal_speaker("doctor")
