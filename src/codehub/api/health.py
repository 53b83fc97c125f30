"""Health, readiness and metrics."""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from codehub.api.context import context_of
from codehub.api.document import OF_PEOPLE, answers
from codehub.api.errors import ApiError
from codehub.api.guard import admit_monitoring, find_admin, has_metrics_token
from codehub.api.shapes import Health, Readiness
from codehub.ports.store import StoreUnavailable
from codehub.web.cookies import SeveralSessions
from codehub.web.dependencies import Check, NotReady

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
router = APIRouter(tags=["health"])


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Whether this process answers", response_model=Health)
async def healthz() -> Response:
    return JSONResponse({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether everything it needs answers; admins are told why something does not",
    response_model=Readiness,
    responses={503: {"description": "Something does not.", "model": Readiness}},
)
async def readyz(request: Request) -> Response:
    context = context_of(request)
    failures = await failures_of(context.parts.checks)
    is_ready = not any(failures.values())
    # Without the database only the metrics token can be checked.
    may_see_reasons = has_metrics_token(request) or (
        not is_ready and failures.get("database") is None and await _is_admin(request)
    )
    return readiness(failures, may_see_reasons=may_see_reasons)


@router.get(
    "/metrics",
    summary="What operators watch, for Prometheus (admins, and who has the metrics token)",
    response_class=Response,
    responses=answers(*OF_PEOPLE)
    | {200: {"description": "Meters.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    context = context_of(request)
    await admit_monitoring(request)
    return Response(context.parts.metrics.render(await context.parts.store.phases()), media_type=_TEXT)


async def failures_of(checks: Mapping[str, Check]) -> Mapping[str, Exception | None]:
    """Return why each part is not ready; None if it is."""
    return {name: await _failure(check) for name, check in checks.items()}


def readiness(failures: Mapping[str, Exception | None], *, may_see_reasons: bool) -> Response:
    is_ready = not any(failures.values())
    results = {
        name: "ok" if failure is None else _reason(failure, may_see_reasons=may_see_reasons)
        for name, failure in failures.items()
    }
    return JSONResponse({"ready": is_ready, "checks": results}, status_code=200 if is_ready else 503)


async def _failure(check: Check) -> Exception | None:
    try:
        await check()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is why we are not ready
        return error
    return None


async def _is_admin(request: Request) -> bool:
    """Whether an admin asks, as far as that can be known now."""
    try:
        await find_admin(request)
    except (ApiError, SeveralSessions, StoreUnavailable):
        return False
    return True


def _reason(failure: Exception, *, may_see_reasons: bool) -> str:
    """Return our own reasons to anybody; messages of other programs, with names and addresses in them, to
    admins.
    """
    if may_see_reasons or isinstance(failure, NotReady):
        return str(failure) or type(failure).__name__
    return "it does not answer: the log says why, and admins are told"
