"""Pulls images. A registry that refuses is a permanent error, one that does not answer is an outage."""

import json
from collections.abc import Mapping
from typing import Any

import structlog

from codehub.adapters.docker.credentials import auth_header, config_file
from codehub.adapters.docker.engine import DockerError, Engine
from codehub.adapters.registries import has_refused, is_away
from codehub.adapters.threads import in_thread
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.storage import Amount, Report

log = structlog.get_logger()


async def pull(engine: Engine, image: str, report: Report, *, with_login: bool = True) -> None:
    """Fetch the image, and report the layers' bytes as they come.

    `with_login`: with the credentials of `docker login`.
    """
    layers: dict[str, tuple[int, int]] = {}
    log.info("image_pull_began", image=image)
    headers = await in_thread(auth_header, image, config_file()) if with_login else {}
    try:
        async with engine.stream(
            "POST", "images/create", headers=headers, fromImage=image, **_tag(image)
        ) as lines:
            async for line in lines:
                message = json.loads(line)
                if "error" in message:
                    raise _failure(image, str(message["error"]))
                if _count(message, layers):
                    done, total = (sum(column) for column in zip(*layers.values(), strict=True))
                    report(Amount("pull", done, total))
    except DockerError as error:
        raise _failure(image, error.message) from None
    log.info("image_pulled", image=image)


def unusable(image: str, reason: str) -> ActionFailed:
    """Return the error for an image that no retry can fetch."""
    return ActionFailed(
        Message(Code.IMAGE_UNAVAILABLE, {"image": image, "text": reason}),
        reason=ErrorReason.IMAGE_PULL_FAILED,
        context={"image": image},
    )


def _count(message: Mapping[str, Any], layers: dict[str, tuple[int, int]]) -> bool:
    """Count one message's layer, and return whether it changed.

    A complete layer counts in full, so no figure decreases.
    """
    layer, status, detail = message.get("id"), message.get("status"), message.get("progressDetail") or {}
    if layer is None:
        return False
    if status == "Downloading" and detail.get("total"):
        before = layers.get(layer, (0, 0))[0]
        layers[layer] = (max(before, detail["current"]), detail["total"])
    elif status in ("Download complete", "Pull complete", "Verifying Checksum") and layer in layers:
        layers[layer] = (layers[layer][1], layers[layer][1])
    else:
        return False
    return True


def _tag(image: str) -> dict[str, str]:
    """Without a tag Docker would fetch every image of that name."""
    last = image.rpartition("/")[2]
    return {} if ":" in last or "@" in image else {"tag": "latest"}


def _failure(image: str, reason: str) -> Exception:
    if is_away(reason):
        return BackendUnreachable(Message(Code.REGISTRY_UNREACHABLE, {"image": image, "text": reason}))
    if has_refused(reason):
        return unusable(image, reason)
    return ActionFailed(
        Message(Code.IMAGE_NOT_FETCHED, {"image": image, "text": reason}), context={"image": image}
    )
