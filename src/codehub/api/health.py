"""Health, readiness and meters."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from codehub.api.desk import desk
from codehub.api.document import OF_PEOPLE, answers
from codehub.api.shapes import Health, Readiness
from codehub.web.addresses import is_local
from codehub.web.parts import Check

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
router = APIRouter(tags=["health"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Whether this process answers", response_model=Health)
async def healthz() -> Response:
    return JSONResponse({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether everything it needs answers",
    response_model=Readiness,
    responses={503: {"description": "Something does not.", "model": Readiness}},
)
async def readyz(request: Request) -> Response:
    results = {name: await _result(check) for name, check in desk(request).parts.checks.items()}
    is_ready = all(result == "ok" for result in results.values())
    return JSONResponse({"ready": is_ready, "checks": results}, status_code=200 if is_ready else 503)


@router.get(
    "/metrics",
    summary="What operators watch, for Prometheus (admins, and programs on this machine)",
    response_class=Response,
    responses=answers(*OF_PEOPLE)
    | {200: {"description": "Meters.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    here = desk(request)
    if not is_local(request):
        await here.guard.admin(request)
    return Response(here.parts.meters.shown(await here.parts.store.phases()), media_type=_TEXT)


async def _result(check: Check) -> str:
    try:
        await check()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why we are not ready
        return str(error) or type(error).__name__
    return "ok"
