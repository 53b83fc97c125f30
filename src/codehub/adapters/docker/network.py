"""The network that all workspaces share and in which none reaches another. Refuses one of that name that lets them talk."""

from aiodocker import DockerError

from codehub.adapters.docker.containers import NETWORK
from codehub.adapters.docker.engine import CONFLICT, Engine, refusal
from codehub.ports.backends import ActionFailed

# One network for all: a bridge per workspace ends at about thirty.
_TALK = "com.docker.network.bridge.enable_icc"


async def ensure_network(engine: Engine) -> None:
    """Return when the network is there and keeps its containers apart. It is never changed or removed: others may use it."""
    found = await engine.find(f"networks/{NETWORK}")
    if found is None:
        config = {"Name": NETWORK, "Driver": "bridge", "CheckDuplicate": True, "Options": {_TALK: "false"}}
        try:
            await engine.ask("POST", "networks/create", body=config)
        except DockerError as error:
            if error.status != CONFLICT:  # somebody else was faster
                raise refusal(error) from None
        found = await engine.find(f"networks/{NETWORK}")
    if found is None or (found.get("Options") or {}).get(_TALK) != "false":
        raise ActionFailed(
            f"the Docker network {NETWORK!r} lets containers reach each other: remove it, and it is made anew as it must be"
        )
