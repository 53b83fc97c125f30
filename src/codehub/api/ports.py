"""Ports of a workspace: what listens, and who besides its owner may enter it."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from codehub.api import render
from codehub.api.context import context_of
from codehub.api.document import OF_WORKSPACE, SIGNED_IN, answers
from codehub.api.errors import refusal_error
from codehub.api.guard import Asking
from codehub.api.shapes import PortList, PortShape
from codehub.api.view import JSON
from codehub.api.workspaces import ONE_PATH, PREFIX, WorkspaceId
from codehub.core.access import Person
from codehub.core.requests import Refused
from codehub.core.visibility import PORT_MAX, SharedPort, Visibility
from codehub.error_codes import ErrorCode
from codehub.service.ports import WorkspacePort
from codehub.web.ids import to_workspace_id
from codehub.web.schemas import PortBody

Port = Annotated[int, Path(ge=1, le=PORT_MAX, description="A port inside the workspace.")]
router = APIRouter(prefix=PREFIX, tags=["ports"])
_ONE: Any = {"response_model": PortShape, "openapi_extra": SIGNED_IN}


@router.get(
    f"{ONE_PATH}/ports",
    summary="What listens in it, and what is open for others. Needs origins of their own",
    response_model=PortList,
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE),
    openapi_extra=SIGNED_IN,
)
async def list_ports(request: Request, person: Asking, workspace_id: WorkspaceId) -> Response:
    ports = await context_of(request).parts.ports.list(person, to_workspace_id(workspace_id))
    if isinstance(ports, Refused):
        raise refusal_error(ports)
    return Response(render.to_json({"items": [_render(port) for port in ports]}), media_type=JSON)


@router.put(
    f"{ONE_PATH}/ports/{{port}}",
    summary="Let others into a port, for a time or until it is made private; its owner may",
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE, body=True),
    **_ONE,
)
async def put_port(
    request: Request, person: Asking, workspace_id: WorkspaceId, port: Port, body: PortBody
) -> Response:
    return await _share(request, person, workspace_id, SharedPort(port, body.visibility, body.expires_at))


@router.delete(
    f"{ONE_PATH}/ports/{{port}}",
    summary="Make a port private: its owner alone may enter it",
    responses=answers(*OF_WORKSPACE, ErrorCode.INVALID_STATE),
    **_ONE,
)
async def delete_port(request: Request, person: Asking, workspace_id: WorkspaceId, port: Port) -> Response:
    return await _share(request, person, workspace_id, SharedPort(port, Visibility.PRIVATE))


async def _share(request: Request, person: Person, workspace_id: str, wanted: SharedPort) -> Response:
    service = context_of(request).parts.ports
    port = await service.share(person, to_workspace_id(workspace_id), wanted, request.state.request_id)
    if isinstance(port, Refused):
        raise refusal_error(port)
    return Response(render.to_json(_render(port)), media_type=JSON)


def _render(port: WorkspacePort) -> dict[str, Any]:
    return {
        "port": port.port,
        "process": port.process,
        "url": port.url,
        "visibility": port.visibility,
        "expires_at": render.time(port.expires_at),
    }
