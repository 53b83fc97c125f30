"""The network that all workspaces share and in which none reaches another.

Refuses one that lets them connect.
"""

import json
from operator import itemgetter

from codehub.adapters.docker.containers import NETWORK
from codehub.adapters.docker.engine import CONFLICT, NOT_FOUND, DockerError, Engine, Json, refusal
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed

# One network for all: Docker can make only about thirty bridges.
_TALK = "com.docker.network.bridge.enable_icc"
_IN_USE = 403


async def ensure_network(engine: Engine) -> None:
    """Make the network if it is missing, and check that it isolates its containers.

    An existing one is never changed or removed: others may use it."""
    try:
        networks = await _list_networks(engine)
        if not networks:
            await _make(engine)
            networks = await _list_networks(engine)
        if not networks or any((network["Options"] or {}).get(_TALK) != "false" for network in networks):
            raise ActionFailed(Message(Code.NETWORK_OPEN, {"network": NETWORK}))
        for duplicate in networks[1:]:
            await _remove(engine, duplicate)
    except DockerError as error:
        raise refusal(error) from None


async def _list_networks(engine: Engine) -> list[Json]:
    """Return the networks of this name, the oldest first."""
    matches = await engine.ask("GET", "networks", filters=json.dumps({"name": [NETWORK]}))
    return sorted(
        (network for network in matches if network["Name"] == NETWORK), key=itemgetter("Created", "Id")
    )


async def _make(engine: Engine) -> None:
    config = {"Name": NETWORK, "Driver": "bridge", "CheckDuplicate": True, "Options": {_TALK: "false"}}
    try:
        await engine.ask("POST", "networks/create", body=config)
    except DockerError as error:
        if error.status != CONFLICT:  # another process was faster
            raise


async def _remove(engine: Engine, network: Json) -> None:
    """Remove the later of two that were made at the same time: the engine looks for duplicates only before.

    With two of one name neither could be used by name. The engine itself refuses to remove one in use.
    """
    try:
        await engine.ask("DELETE", f"networks/{network['Id']}")
    except DockerError as error:
        if error.status not in (NOT_FOUND, _IN_USE):
            raise
