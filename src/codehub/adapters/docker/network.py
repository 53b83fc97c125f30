"""The network that all workspaces share and in which none reaches another. Refuses one of that name that lets them talk."""

import json
from operator import itemgetter

from codehub.adapters.docker.containers import NETWORK
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, Json, refusal
from codehub.ports.backends import ActionFailed

# One network for all: a bridge per workspace ends at about thirty.
_TALK = "com.docker.network.bridge.enable_icc"
_IN_USE = 403


async def ensure_network(engine: Engine) -> None:
    """Return when there is one such network and it keeps its containers apart. It is never changed or removed: others may use it."""
    try:
        found = await _found(engine)
        if not found:
            await _make(engine)
            found = await _found(engine)
        if not found or any((one["Options"] or {}).get(_TALK) != "false" for one in found):
            raise ActionFailed(
                f"the Docker network {NETWORK!r} lets containers reach each other: remove it, and it is made anew as it must be"
            )
        for late in found[1:]:
            await _remove(engine, late)
    except DockerError as error:
        raise refusal(error) from None


async def _found(engine: Engine) -> list[Json]:
    """Return the networks of this name, the oldest first."""
    alike = await engine.ask("GET", "networks", filters=json.dumps({"name": [NETWORK]}))
    return sorted((one for one in alike if one["Name"] == NETWORK), key=itemgetter("Created", "Id"))


async def _make(engine: Engine) -> None:
    config = {"Name": NETWORK, "Driver": "bridge", "CheckDuplicate": True, "Options": {_TALK: "false"}}
    try:
        await engine.ask("POST", "networks/create", body=config)
    except DockerError as error:
        if error.status != CONFLICT:  # somebody else was faster
            raise


async def _remove(engine: Engine, late: Json) -> None:
    """Remove the later of two that were made at once: the engine looks for duplicates before it makes one, and not again.

    By its name neither could be used any more. One in use the engine itself refuses to remove.
    """
    try:
        await engine.ask("DELETE", f"networks/{late['Id']}")
    except DockerError as error:
        if error.status not in (NOT_FOUND, _IN_USE):
            raise
