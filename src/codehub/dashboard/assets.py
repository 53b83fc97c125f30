"""What pages load beside themselves: scripts, styles, icons.

All of it is in the package; its address carries its hash, so it is kept for ever.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from codehub.web.theme import TOKENS

PREFIX = "/assets"
_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES = ("codehub.css", "codehub.js", "htmx.min.js", "icons.svg", "mark.svg")


@dataclass(frozen=True, slots=True)
class Asset:
    body: bytes
    compressed: bytes
    kind: str
    address: str


def _read(name: str) -> Asset:
    body = files("codehub.dashboard").joinpath("static", name).read_bytes()
    if name == "codehub.css":
        body = TOKENS.encode() + body
    digest = hashlib.sha256(body).hexdigest()[:12]
    kind = _TYPES[name.rpartition(".")[2]]
    return Asset(body, gzip.compress(body, mtime=0), kind, f"{PREFIX}/{digest}/{name}")


ASSETS: Mapping[str, Asset] = {name: _read(name) for name in _NAMES}
_BY_ADDRESS: Mapping[str, Asset] = {asset.address: asset for asset in ASSETS.values()}


def address(name: str) -> str:
    return ASSETS[name].address


async def asset(request: Request) -> Response:
    """Answer with an asset under its own hash; any other hash is an older or newer codehub's, and is not
    here.
    """
    asset_found = _BY_ADDRESS.get(request.url.path)
    if asset_found is None:
        return Response(status_code=404)
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            asset_found.compressed,
            headers=headers | {"Content-Encoding": "gzip"},
            media_type=asset_found.kind,
        )
    return Response(asset_found.body, headers=headers, media_type=asset_found.kind)
