"""The OpenAPI document: complete, true, and proof against whatever schemathesis makes of it."""

import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import ignored_auth
from tests.support.background import Background
from tests.support.patience import PATIENCE_S
from tests.support.site import API

from codehub.api.app import openapi
from codehub.error_codes import ErrorCode

EXAMPLES = int(os.environ.get("CODEHUB_TEST_EXAMPLES", "15"))  # of each mode: 30 per operation
DOCUMENT = openapi()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
# A stream has no end, and signing out ends what the others need; both have tests of their own.
FUZZED = [name for name in OPERATIONS if name not in (f"GET {API}/events", f"POST {API}/logout")]

# wire.md's calls, each of them.
CALLS = [
    *("POST /login", "POST /logout", "GET /session", "PUT /session/password"),
    *("POST /tokens", "GET /tokens", "DELETE /tokens/{token_id}"),
    *("GET /users", "POST /users", "PATCH /users/{user_id}"),
    *("GET /users/{user_id}/keys", "DELETE /users/{user_id}/keys"),
    *("POST /workspaces", "GET /workspaces", "GET /workspaces/{workspace_id}"),
    *("PATCH /workspaces/{workspace_id}", "DELETE /workspaces/{workspace_id}"),
    *(
        f"POST /workspaces/{{workspace_id}}:{word}"
        for word in ("start", "stop", "archive", "recover", "undelete", "keep_awake")
    ),
    "POST /workspaces/{workspace_id}:forget",  # spec §5; the wire has no call for it (ADR 0024)
    *(f"GET /workspaces/{{workspace_id}}/{word}" for word in ("events", "logs", "explain")),
    "GET /workspaces/{workspace_id}/ports",
    *(f"{method} /workspaces/{{workspace_id}}/ports/{{port}}" for method in ("PUT", "DELETE")),
    "GET /events",
]


def test_every_call_of_the_wire_is_in_the_document_and_no_other() -> None:
    served = {name.replace(API, "") for name in OPERATIONS}
    assert served == {*CALLS, "GET /healthz", "GET /readyz", "GET /metrics"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_what_it_answers_with_a_shape_and_examples(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["summary"]
    responses = operation["responses"]
    assert any(status.startswith("2") for status in responses)
    if not name.startswith(f"GET {API}") and API not in name:
        return
    assert {"400", "422", "500", "503"} <= set(responses)
    if operation.get("security"):
        assert {"401", "403"} <= set(responses)
    for status, response in responses.items():
        assert response["description"]
        if status.startswith(("4", "5")):
            content = response["content"]["application/json"]
            assert content["schema"] == {"$ref": "#/components/schemas/ErrorShape"}
            for code, example in content["examples"].items():
                assert example["value"]["error"]["code"] == code
                assert int(status) == ErrorCode[code].status or code == "INVALID_REQUEST"
    if "{workspace_id}" in name:
        assert "WORKSPACE_NOT_FOUND" in responses["404"]["content"]["application/json"]["examples"]


def test_every_error_code_of_the_wire_is_documented_but_the_proxy_s() -> None:
    documented = set(re.findall(r"'code': '([A-Z_]+)'", str(DOCUMENT)))
    assert documented == {code.value for code in ErrorCode} - {"UPSTREAM_UNAVAILABLE"}


@pytest.fixture(scope="module")
def background() -> Iterator[Background]:
    with Background() as running:
        yield running


@pytest.fixture
def workspace_id(background: Background) -> str:
    """A workspace that is there, so that not every call is 404."""
    headers = {"Authorization": background.token}
    body = {"name": os.urandom(8).hex(), "desired_state": "PENDING"}
    answer = httpx.post(
        f"{background.address}{API}/workspaces", json=body, headers=headers, timeout=PATIENCE_S
    )
    return str(answer.json()["id"])


# schemathesis itself reaches for `random`, which hypothesis does not like.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module")
@pytest.mark.parametrize("mode", GenerationMode)
@pytest.mark.parametrize("name", FUZZED)
def test_nothing_that_the_document_allows_or_forbids_breaks_the_server(
    background: Background, workspace_id: str, name: str, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    method, path = name.split(" ")
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and not (
        operation.body or operation.query or operation.path_parameters
    ):
        return
    headers = {"Authorization": background.token}

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    def fuzz(case: Any) -> None:
        if "workspace_id" in (case.path_parameters or {}) and mode is GenerationMode.POSITIVE:
            case.path_parameters["workspace_id"] = workspace_id
        if (
            name == f"POST {API}/workspaces"
            and mode is GenerationMode.POSITIVE
            and isinstance(case.body, dict)
        ):
            # Which backends there are is not the document's to say.
            case.body.pop("instance_backend", None)
            case.body.pop("storage_backend", None)
            # Nor that the same key for something else is refused.
            if case.headers:
                case.headers.pop("Idempotency-Key", None)
        if mode is GenerationMode.POSITIVE and case.headers:
            case.headers.pop("if-match", None)  # whether it is stale is not the document's to say either
        response = case.call(base_url=background.address, headers=headers, timeout=PATIENCE_S)
        case.validate_response(response, headers=headers, excluded_checks=[ignored_auth])

    fuzz()
