"""What the client makes of the answers of an API: objects, refusals by
what they mean, outages. The server does as it is told.
"""

import asyncio
from pathlib import Path

import pytest
from tests.integration.kubernetes_client.conftest import ShortClock
from tests.support.kubernetes_api import Conversation, HostileApi

from codehub.adapters.kubernetes.answers import (
    AdmissionRefused,
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    QuotaExceeded,
    Refusal,
)
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import JOBS, NODES, PODS
from codehub.ports.backends import ActionFailed, BackendUnreachable

FORBIDDEN_BY_RBAC = (
    'pods is forbidden: User "ada" cannot list resource "pods" in API group "" in the namespace "spaces"'
)
FORBIDDEN_BY_QUOTA = (
    'pods "a" is forbidden: exceeded quota: all, requested: pods=1, used: pods=2, limited: pods=2'
)
FORBIDDEN_BY_LIMITS = 'pods "a" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
FORBIDDEN_BY_SECURITY = (
    'pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
)
DENIED_BY_WEBHOOK = 'admission webhook "policy.example" denied the request: no'


async def well(talk: Conversation) -> None:
    talk.answer({"kind": "Pod", "metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}})


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind"),
    [
        (404, "NotFound", "no such pod", NotFound),
        (409, "AlreadyExists", "it exists", AlreadyExists),
        (409, "Conflict", "the object has been modified", Conflict),
        (410, "Expired", "too old resource version", Gone),
        (403, "Forbidden", FORBIDDEN_BY_RBAC, Forbidden),
        (403, "Forbidden", FORBIDDEN_BY_QUOTA, QuotaExceeded),
        (403, "Forbidden", FORBIDDEN_BY_LIMITS, AdmissionRefused),
        (403, "Forbidden", FORBIDDEN_BY_SECURITY, AdmissionRefused),
        (400, "", DENIED_BY_WEBHOOK, AdmissionRefused),
        (422, "Invalid", "spec.containers: Required value", Invalid),
        (400, "BadRequest", 'strict decoding error: unknown field "spec.imgae"', Invalid),
        (405, "MethodNotAllowed", "not here", Refusal),
    ],
)
async def test_a_refusal_is_raised_as_what_it_means_with_the_api_s_own_message(
    api: HostileApi,
    client: KubernetesClient,
    status: int,
    reason: str,
    message: str,
    kind: type[Refusal],
) -> None:
    async def refuse(talk: Conversation) -> None:
        talk.refuse(status, reason, message)

    api.handlers = [refuse]
    with pytest.raises(ActionFailed) as refusal:
        await client.create(PODS, {"metadata": {"name": "a"}})
    assert type(refusal.value) is kind
    assert str(refusal.value) == f"KubernetesRefused status={status} text={message}"
    assert len(api.requests) == 1


async def test_a_patch_of_another_object_of_the_name_is_a_conflict(
    api: HostileApi, client: KubernetesClient
) -> None:
    """The API calls the precondition of a patch on a uid invalid, not a conflict."""

    async def refuse(talk: Conversation) -> None:
        causes = [{"field": "metadata.uid", "message": "field is immutable"}]
        talk.answer({"kind": "Status", "reason": "Invalid", "details": {"causes": causes}}, 422)

    api.handlers = [refuse]
    with pytest.raises(Conflict):
        await client.patch(PODS, "a", {"data": {}}, uid="another")


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_an_api_in_trouble_is_an_outage_and_is_asked_once(
    api: HostileApi, client: KubernetesClient, status: int
) -> None:
    async def fail(talk: Conversation) -> None:
        talk.answer(b"<html>bad gateway</html>", status)

    api.handlers = [fail]
    with pytest.raises(BackendUnreachable, match=rf"\({status}\) <html>bad gateway</html>"):
        await client.get(PODS, "a")
    assert len(api.requests) == 1


async def test_a_busy_api_is_asked_again_after_the_time_it_names(
    api: HostileApi, client: KubernetesClient, clock: ShortClock
) -> None:
    async def be_busy(talk: Conversation) -> None:
        talk.refuse(429, "TooManyRequests", Retry_After="2")

    api.handlers = [be_busy, be_busy, well]
    assert (await client.create(PODS, {}))["metadata"]["name"] == "a"
    assert clock.waits == [2, 2]


@pytest.mark.parametrize("retry_after", ["3600", "Wed, 18 Nov 2026 20:00:00 GMT"])
async def test_a_busy_api_is_not_waited_for_for_ever(
    api: HostileApi, client: KubernetesClient, clock: ShortClock, retry_after: str
) -> None:
    async def be_busy(talk: Conversation) -> None:
        talk.refuse(429, "TooManyRequests", "too many requests", Retry_After=retry_after)

    api.handlers = [be_busy]
    with pytest.raises(BackendUnreachable, match=r"\(429\) too many requests"):
        await client.get(PODS, "a")
    assert len(api.requests) == 4
    assert max(clock.waits) <= 5


async def test_two_that_meet_at_a_quota_are_no_conflict(api: HostileApi, client: KubernetesClient) -> None:
    async def race(talk: Conversation) -> None:
        details = {"name": "all", "kind": "resourcequotas"}
        talk.answer({"kind": "Status", "reason": "Conflict", "details": details}, 409)

    api.handlers = [race, well]
    await client.create(PODS, {})
    assert len(api.requests) == 2


async def test_a_token_that_has_rotated_is_read_again(
    api: HostileApi, client: KubernetesClient, token_file: Path
) -> None:
    async def check(talk: Conversation) -> None:
        if talk.request.headers["authorization"] == "Bearer second":
            await well(talk)
        else:
            talk.refuse(401, "Unauthorized", "Unauthorized")

    api.handlers = [check]
    with pytest.raises(BackendUnreachable, match="KubernetesStranger"):
        await client.get(PODS, "a")
    token_file.write_text("second\n")  # noqa: ASYNC240  # a line
    await client.get(PODS, "a")
    assert len(api.requests) == 4
    assert api.connections == 1


async def test_a_token_that_is_gone_is_an_outage(
    api: HostileApi, client: KubernetesClient, token_file: Path
) -> None:
    api.handlers = [well]
    token_file.unlink()  # noqa: ASYNC240  # nothing to wait for
    with pytest.raises(BackendUnreachable, match="KubernetesCredentials"):
        await client.get(PODS, "a")


async def test_a_list_is_complete_or_begins_anew_or_is_none(
    api: HostileApi, client: KubernetesClient
) -> None:
    async def first(talk: Conversation) -> None:
        assert talk.request.query["labelSelector"] == "app=a,role=b"
        talk.answer({"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [1]})

    async def expired(talk: Conversation) -> None:
        assert talk.request.query["continue"] == "more"
        talk.refuse(410, "Expired")

    async def last(talk: Conversation) -> None:
        assert talk.request.query["continue"] == "more"
        talk.answer({"metadata": {"resourceVersion": "5"}, "items": [2]})

    labels = {"app": "a", "role": "b"}
    api.handlers = [first, expired, first, last]
    assert await client.list_objects(PODS, labels=labels) == [1, 2]
    api.handlers = [first, expired] * 3
    with pytest.raises(BackendUnreachable, match="KubernetesListExpired"):
        await client.list_objects(PODS, labels=labels)


async def test_each_verb_says_what_it_must(api: HostileApi, client: KubernetesClient) -> None:
    api.handlers = [well]
    await client.create(JOBS, {"metadata": {"name": "a"}}, dry_run=True)
    await client.apply(PODS, "a", {"metadata": {"name": "a"}})
    await client.patch(PODS, "a", {"metadata": {"labels": {"x": None}}}, uid="1", resource_version="7")
    await client.patch_json(PODS, "a", [{"op": "remove", "path": "/x"}])
    await client.delete(PODS, "a", uid="1", grace_s=0)
    await client.find(NODES, "n/1")
    create, apply, patch, patch_json, delete, get = api.requests
    assert (create.method, create.path) == ("POST", "/apis/batch/v1/namespaces/spaces/jobs")
    assert create.body == {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    assert create.query == {"fieldManager": "codehub", "fieldValidation": "Strict", "dryRun": "All"}
    assert apply.headers["content-type"] == "application/apply-patch+yaml"
    assert apply.query["force"] == "true"
    assert patch.headers["content-type"] == "application/merge-patch+json"
    assert patch.body == {"metadata": {"labels": {"x": None}, "uid": "1", "resourceVersion": "7"}}
    assert patch_json.headers["content-type"] == "application/json-patch+json"
    assert delete.body["preconditions"] == {"uid": "1"}
    assert delete.body["gracePeriodSeconds"] == 0
    assert get.path == "/api/v1/nodes/n%2F1"


async def test_an_answer_that_never_comes_is_an_outage(api: HostileApi, client: KubernetesClient) -> None:
    async def hang(talk: Conversation) -> None:
        await talk.reader.read()

    api.handlers = [hang]
    impatient = KubernetesClient(
        client.api.access, namespace="spaces", clock=client.api.clock, answer_s_max=0.2
    )
    with pytest.raises(BackendUnreachable, match="KubernetesSilent"):
        await impatient.create(PODS, {})
    assert len(api.requests) == 1
    await impatient.close()


async def test_a_write_is_never_sent_twice_over_a_cut_line(api: HostileApi, client: KubernetesClient) -> None:
    async def cut(talk: Conversation) -> None:
        talk.cut()

    api.handlers = [well, cut, cut, well]
    await client.get(PODS, "a")
    with pytest.raises(BackendUnreachable, match="KubernetesUnreachable"):
        await client.create(PODS, {})
    assert api.asked()[1:] == ["POST /api/v1/namespaces/spaces/pods"]


async def test_logs_come_as_they_are_written_and_a_cut_is_no_end(
    api: HostileApi, client: KubernetesClient
) -> None:
    is_read = asyncio.Event()

    async def write(talk: Conversation) -> None:
        talk.begin_stream()
        talk.send("one")
        await talk.writer.drain()
        await is_read.wait()
        talk.cut()

    api.handlers = [write]
    output = client.logs("a", "ide", tail=5, follow=True)
    assert await anext(output) == b'"one"\n'
    is_read.set()
    with pytest.raises(BackendUnreachable):
        await anext(output)
    assert api.requests[0].query == {"container": "ide", "tailLines": "5", "follow": "true"}
