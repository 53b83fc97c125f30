"""The dashboard's forms as a browser without scripts sends them."""

import re
from collections.abc import Mapping
from typing import Any

import httpx
from tests.support.site import Site


async def post(
    client: httpx.AsyncClient,
    site: Site,
    path: str,
    headers: Mapping[str, str] | None = None,
    /,
    **fields: Any,
) -> httpx.Response:
    return await client.post(path, data=fields, headers={"Origin": site.parts.base_url, **(headers or {})})


def answered_yes(asked: httpx.Response) -> dict[str, str]:
    """Return what the button of a question posts."""
    assert asked.status_code == 200
    form = asked.text[asked.text.index('<form class="ends"') :]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
