"""The dashboard's forms as a browser without scripts sends them."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
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


class _Fields(HTMLParser):
    """What a browser would send of the form that the page is about, if nobody touched it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, str] = {}
        self._is_in = False
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_in = "stack" in said.get("class", "")
        elif tag == "select":
            self._select = said["name"]
        elif self._is_in and tag == "option" and "selected" in said:
            self.sent[self._select] = said["value"]
        elif self._is_in and tag == "input" and (said.get("type") != "radio" or "checked" in said):
            self.sent[said["name"]] = said.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        self._is_in = self._is_in and tag != "form"


def drawn_fields(page: str) -> dict[str, str]:
    """Return what a page's form would send as it was drawn."""
    fields = _Fields()
    fields.feed(page)
    return fields.sent
