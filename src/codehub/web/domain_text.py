"""Text for what the core decides: its values in, a sentence of
the catalogue out, in the language that is asked for.

Texts speak of homes and IDEs where the core speaks of volumes and instances.
"""

from typing import Any

from codehub.core.errors import ErrorReason, Remedy
from codehub.core.explain import Ask, Waiting, WaitsFor
from codehub.core.messages import Message
from codehub.core.operations import Operation
from codehub.core.plan import Why
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.text import section, text

# A number of nodes that some texts have a form of their own for.
_FORMS = {"1": "one", "?": "unknown"}
# Facts that are values of the core, and the section that says them.
_VALUES = {"visibility": "ports"}


def trouble_text(reason: ErrorReason, language: str) -> str:
    """Return what went wrong, as a headline."""
    return text(language, f"trouble.{reason}")


def under_way_text(operation: Operation, language: str) -> str:
    return text(language, f"under_way.{operation}")


def ask_text(ask: Ask, language: str) -> str:
    """Return what the button says by which a person asks for something."""
    return text(language, f"ask.{ask}")


def why_text(why: Why, language: str) -> str:
    return text(language, f"reason.{why}")


def remedy_text(remedy: ErrorReason | Remedy, language: str) -> str:
    """Return what can be done about an error."""
    return text(language, f"remedy.{remedy}")


def waiting_text(waiting: Waiting, language: str) -> str:
    facts = {name: _fact(value, language) for name, value in waiting.facts.items()}
    if waiting.on is WaitsFor.LOOK:
        names = section(language, "look")
        facts["conditions"] = ", ".join(names[name] for name in waiting.facts["conditions"])
    if waiting.on is WaitsFor.REMEDY:
        facts["remedy"] = remedy_text(waiting.facts["remedy"], language)
    return text(language, f"waits.{waiting.on}", **facts)


def message_text(message: Message, language: str) -> str:
    """Return what is told, with its facts. A code that only a newer codehub knows is shown as it is."""
    templates = section(language, "reason")
    form = _FORMS.get(str(message.facts.get("nodes")))
    template = templates.get(f"{message.code}.{form}", templates.get(message.code))
    if template is None:
        return str(message)
    if not message.facts:
        return template
    facts = {name: _fact(value, language) for name, value in message.facts.items()}
    for name in _VALUES.keys() & facts:
        facts[name] = section(language, _VALUES[name]).get(facts[name], facts[name])
    return template.format(**facts)


def failure_text(failure: Exception, language: str) -> str:
    """Return what a backend's failure says; of any other exception, what it says itself."""
    if isinstance(failure, ActionFailed | BackendUnreachable):
        return message_text(failure.message, language)
    return str(failure)


def _fact(value: Any, language: str) -> str:
    if isinstance(value, Message):
        return message_text(value, language)
    if isinstance(value, list):
        between = " " if all(isinstance(each, Message) for each in value) else ", "
        return between.join(_fact(each, language) for each in value)
    return str(value)
