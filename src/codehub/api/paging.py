"""How much of a list somebody asks for at once: a number in, the same or a refusal with the bound out."""

from typing import Annotated

from fastapi import Depends, Query, Request

from codehub.api.context import context_of
from codehub.api.errors import field_error
from codehub.core.ceilings import PAGE_MAX
from codehub.core.messages import Code, Message


def page_size(
    request: Request,
    limit: Annotated[
        int,
        Query(ge=1, le=PAGE_MAX, description="An operator may allow less: 422 names the bound then."),
    ] = 50,
) -> int:
    """Return how many items a page has. Who names no number gets what an operator allows."""
    most = context_of(request).parts.ceilings.page_size
    if "limit" not in request.query_params:
        return min(limit, most)
    if limit > most:
        raise field_error("limit", Message(Code.ABOVE_CEILING, {"max": most}), max=most)
    return limit


PageSize = Annotated[int, Depends(page_size)]
