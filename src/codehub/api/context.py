"""What a request's handler needs: the application's parts, and who asks."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from codehub.api.feed import LiveFeed
from codehub.api.guard import Guard
from codehub.api.view import View
from codehub.core.access import Person
from codehub.core.amendments import By
from codehub.core.messages import Message
from codehub.web.dependencies import Dependencies
from codehub.web.language import request_language


@dataclass(frozen=True, slots=True)
class Context:
    parts: Dependencies
    guard: Guard
    view: View
    feed: LiveFeed


def context_of(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _person(request: Request) -> Person:
    return await context_of(request).guard.person(request)


async def _admin(request: Request) -> Person:
    return await context_of(request).guard.admin(request)


Asking = Annotated[Person, Depends(_person)]
Admin = Annotated[Person, Depends(_admin)]


def language_of(request: Request) -> str:
    """Return the language of whoever asks, as far as codehub speaks it."""
    return request_language(request, context_of(request).parts.base_url)


def by(request: Request, person: Person, reason: Message) -> By:
    """Return who asks, why, and in which request."""
    return By(person, reason, request.state.request_id)
