"""What a request's handler needs: the application's parts, and who asks."""

from dataclasses import dataclass

from fastapi import Request

from codehub.api.feed import LiveFeed
from codehub.api.view import View
from codehub.core.access import Person
from codehub.core.amendments import By
from codehub.core.messages import Message
from codehub.web.dependencies import Dependencies
from codehub.web.language import request_language


@dataclass(frozen=True, slots=True)
class Context:
    parts: Dependencies
    view: View
    feed: LiveFeed


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


def language_of(request: Request) -> str:
    """Return the language of whoever asks, as far as codehub speaks it."""
    return request_language(request, context_of(request).parts.base_url)


def by(request: Request, person: Person, reason: Message) -> By:
    """Return who asks, why, and in which request."""
    return By(person, reason, request.state.request_id)
