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
        self._textarea = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._is_in = "stack" in attributes.get("class", "")
        elif tag == "select":
            self._select = attributes["name"]
        elif tag == "textarea":
            self._textarea = attributes["name"]
            self.sent[self._textarea] = ""
        elif self._is_in and tag == "option" and "selected" in attributes:
            self.sent[self._select] = attributes["value"]
        elif (
            self._is_in and tag == "input" and (attributes.get("type") != "radio" or "checked" in attributes)
        ):
            self.sent[attributes["name"]] = attributes.get("value", "")

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self.sent[self._textarea] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":  # the first line break of one is no part of it
            self.sent[self._textarea] = self.sent[self._textarea].removeprefix("\n")
            self._textarea = ""
        self._is_in = self._is_in and tag != "form"


def drawn_fields(page: str) -> dict[str, str]:
    """Return what a page's form would send as it was drawn."""
    fields = _Fields()
    fields.feed(page)
    return fields.sent
