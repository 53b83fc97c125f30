"""What commands say: a key of the command line's section in, text in the language of whoever runs it out."""

from collections.abc import Mapping

from codehub.text.terminal import terminal_speaker, terminal_texts

say = terminal_speaker("cli")


def help_texts() -> Mapping[str, str]:
    return terminal_texts("help")


def doing_text(operation: str) -> str:
    """Return the text of an operation in progress; empty for none, or for one that only a newer
    server knows.
    """
    return terminal_texts("cli").get(f"doing.{operation}", "")


def done_text(operation: str) -> str:
    """The same, of what was done."""
    return terminal_texts("cli").get(f"done.{operation}", "")


def heading_text(heading: str) -> str:
    """Return what stands above a column."""
    return say(f"heading.{heading}")


def label_text(label: str) -> str:
    """Return what stands before a value; itself, if it is a name that has no text."""
    return terminal_texts("cli").get(f"label.{label}", label)


def stage_text(stage: str) -> str:
    return say(f"stage.{stage}")
