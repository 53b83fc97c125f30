"""One Job per workspace: work goes in, its last message comes out. A new
Job removes the old one first; a cut-off call leaves none.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import structlog

from codehub.adapters.kubernetes.answers import AlreadyExists, Conflict, NotFound, Refusal
from codehub.adapters.kubernetes.api import Json
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.jobs import Work, grants_manifest, job_manifest
from codehub.adapters.kubernetes.kinds import EVENTS, JOBS, SECRETS
from codehub.adapters.kubernetes.labels import HELPER, INSTALL, ROLE, job_name, owns, workspace_of
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import CONTAINER, ContainerEnd, Pod, time_of
from codehub.adapters.kubernetes.sightings import Sightings
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.kubernetes.why import (
    explain_refusal,
    node_lost,
    why_ended,
    why_not_running,
    why_out_of_sight,
    why_unmade,
)
from codehub.adapters.threads import wait_until_done
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.system import Clock

log = structlog.get_logger()

_POLL_S = 0.05
_GONE_S_MAX = 30.0
_TRIES_MAX = 4
# A Pod that waits may go on by itself: a volume is made, an image fetched.
_PATIENCE_S = 20.0
# So much later it has not begun at all: its node may have fallen
# silent. It is tried again, within the operation's time.
_MORE_PATIENCE_S = 20.0
_LAST_LINES_S_MAX = 1.0

# Hears each line that the work says.
Hear = Callable[[str], None]


def hear_nothing(_line: str) -> None:
    """Hear nothing."""


@dataclass(frozen=True, slots=True)
class LeftoverJob:
    workspace_id: UUID
    made_at: datetime


class JobRunner:
    def __init__(
        self,
        client: KubernetesClient,
        installation: str,
        pods: WatchCache[Pod | None],
        *,
        image: str,
        clock: Clock,
        archive_claim: str | None = None,
        patch: PodPatch = NO_PATCH,
    ) -> None:
        self._client = client
        self._installation = installation
        self._pods = pods
        self._image = image
        self._clock = clock
        self._archive_claim = archive_claim
        self._patch = patch

    async def run(self, workspace_id: UUID, work: Work, hear: Hear = hear_nothing) -> ContainerEnd:
        """Do the work, and return how it ended. Raises what kept it from ending by itself."""
        job = await self._create(workspace_id, work)
        try:
            return await self._follow(workspace_id, job, hear)
        finally:
            await wait_until_done(asyncio.ensure_future(self._discard(workspace_id, job["metadata"]["uid"])))

    async def end(self, workspace_id: UUID) -> None:
        """Remove the workspace's Job, if there is one of ours, and return when nothing of it runs."""
        answer = await self._client.find(JOBS, job_name(workspace_id))
        if answer is None:
            return
        if not owns(self._installation, answer, HELPER):
            raise ActionFailed(Message(Code.KUBERNETES_NOT_OURS, {"name": job_name(workspace_id)}))
        uid = answer["metadata"]["uid"]
        await self._discard(workspace_id, uid)
        deadline = self._clock.monotonic() + _GONE_S_MAX
        while (current := await self._client.find(JOBS, job_name(workspace_id))) is not None:
            if current["metadata"]["uid"] != uid:
                return
            if self._clock.monotonic() > deadline:
                pod = await self._pod_of(workspace_id, uid)
                remains = Message(Code.JOB_REMAINS, {"job": job_name(workspace_id)})
                raise BackendUnreachable(remains if pod is None else node_lost(pod))
            await self._clock.sleep(_POLL_S)

    async def leftovers(self) -> list[LeftoverJob]:
        """Return the Jobs that have ended, or never began: whoever made them is gone."""
        labels = {INSTALL: self._installation, ROLE: HELPER}
        return [
            LeftoverJob(workspace_id, time_of(job["metadata"]["creationTimestamp"]) or datetime.now(UTC))
            for job in await self._client.list_objects(JOBS, labels=labels)
            if not (job.get("status") or {}).get("active") and (workspace_id := workspace_of(job)) is not None
        ]

    async def _create(self, workspace_id: UUID, work: Work) -> Json:
        secret = f"{job_name(workspace_id)}-{uuid4().hex[:8]}"
        body = job_manifest(
            self._installation,
            workspace_id,
            self._image,
            work,
            secret=secret,
            archive_claim=self._archive_claim,
            patch=self._patch,
        )
        for _ in range(_TRIES_MAX):
            await self.end(workspace_id)
            try:
                job = await self._client.create(JOBS, body)
            except AlreadyExists:
                continue
            except Refusal as refusal:
                raise explain_refusal(refusal) from None
            try:
                await self._release(workspace_id, job, secret, work)
            except BaseException:
                uid = job["metadata"]["uid"]
                await wait_until_done(asyncio.ensure_future(self._discard(workspace_id, uid)))
                raise
            return job
        raise ActionFailed(Message(Code.KUBERNETES_CHANGES, {"name": job_name(workspace_id)}))

    async def _release(self, workspace_id: UUID, job: Json, secret: str, work: Work) -> None:
        """Make what the Job needs, which goes with it, and let it run."""
        try:
            if work.grants is not None:
                body = grants_manifest(self._installation, workspace_id, job, secret, work.grants)
                await self._client.create(SECRETS, body)
            name, uid = job["metadata"]["name"], job["metadata"]["uid"]
            await self._client.patch(JOBS, name, {"spec": {"suspend": False}}, uid=uid)
        except Refusal as refusal:
            raise explain_refusal(refusal) from None

    async def _follow(self, workspace_id: UUID, job: Json, hear: Hear) -> ContainerEnd:
        """Wait for the Job's Pod to end, and pass on what it says meanwhile."""
        listener: asyncio.Task[None] | None = None
        sightings = Sightings(self._clock)
        patience_ends = self._clock.monotonic() + _PATIENCE_S
        try:
            pod = await self._wait_for_pod(workspace_id, job["metadata"]["uid"], patience_ends)
            while pod.ended is None:
                if pod.has_running_container and listener is None:
                    listener = asyncio.ensure_future(self._listen(pod.name, hear))
                late_s = self._clock.monotonic() - patience_ends
                await self._raise_trouble(pod, sightings, is_late=late_s > 0)
                if late_s > _MORE_PATIENCE_S and not pod.has_running_container and not pod.has_ended:
                    raise BackendUnreachable(Message(Code.POD_NOT_BEGUN, {"pod": pod.name}))
                await self._clock.sleep(_POLL_S)
                pod = await self._look_again(pod)
            if listener is not None:
                await asyncio.wait({listener}, timeout=_LAST_LINES_S_MAX)
            return _own_end(await self._wait_for_end(pod), pod.ended)
        finally:
            if listener is not None:
                listener.cancel()
                await asyncio.wait({listener})

    async def _wait_for_pod(self, workspace_id: UUID, job_uid: str, patience_ends: float) -> Pod:
        """Return the Pod that the cluster makes for a Job, once it is there."""
        while (pod := await self._pod_of(workspace_id, job_uid)) is None:
            if self._clock.monotonic() > patience_ends:
                raise await self._why_unmade(job_name(workspace_id))
            await self._clock.sleep(_POLL_S)
        return pod

    async def _wait_for_end(self, pod: Pod) -> Pod:
        """Return the Pod as it is once all of it has ended; what others have added to it may go on for
        long.
        """
        deadline = self._clock.monotonic() + _LAST_LINES_S_MAX
        while not pod.is_over and self._clock.monotonic() < deadline:
            await self._clock.sleep(_POLL_S)
            pod = await self._look_again(pod)
        return pod

    async def _look_again(self, pod: Pod) -> Pod:
        now = await self._pods.find(pod.name)
        if now is None or now.uid != pod.uid:
            raise BackendUnreachable(Message(Code.POD_DELETED, {"pod": pod.name}))
        return now

    async def _raise_trouble(self, pod: Pod, sightings: Sightings, *, is_late: bool) -> None:
        if (lost := why_out_of_sight(pod, sightings)) is not None:
            raise BackendUnreachable(lost)
        if pod.has_ended:  # as a whole, and its container never ran
            raise ActionFailed(why_ended(pod) or Message(Code.POD_FAILED, {"pod": pod.name}))
        if pod.has_running_container:
            return
        events = (
            await self._client.list_objects(EVENTS, fields={"involvedObject.uid": pod.uid}) if is_late else ()
        )
        trouble = why_not_running(pod, events)
        if trouble is not None and (is_late or not trouble.waits):
            raise trouble.error()

    async def _why_unmade(self, job: str) -> BackendUnreachable | ActionFailed:
        """Return why the cluster makes no Pod for a Job: mostly a quota, or a rule of its own."""
        fields = {"involvedObject.kind": "Job", "involvedObject.name": job}
        for event in await self._client.list_objects(EVENTS, fields=fields):
            if event.get("reason") == "FailedCreate":
                return why_unmade(event.get("message") or "").error()
        return BackendUnreachable(Message(Code.POD_NOT_MADE, {"job": job}))

    async def _listen(self, pod: str, hear: Hear) -> None:
        rest = b""
        try:
            async for part in self._client.logs(pod, CONTAINER, follow=True):
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    hear(line.decode(errors="replace"))
        except (ActionFailed, BackendUnreachable) as error:  # its end tells all that counts
            log.info("job_not_heard", pod=pod, reason=str(error))

    async def _pod_of(self, workspace_id: UUID, job_uid: str) -> Pod | None:
        prefix = f"{job_name(workspace_id)}-"
        for name, pod in (await self._pods.objects()).items():
            if pod is not None and name.startswith(prefix) and pod.job_uid == job_uid:
                return pod
        return None

    async def _discard(self, workspace_id: UUID, uid: str) -> None:
        """Ask for the end of this very Job: it is there until its Pod is gone."""
        try:
            await self._client.delete(JOBS, job_name(workspace_id), uid=uid, propagation="Foreground")
        except (NotFound, Conflict):
            pass
        except BackendUnreachable as error:
            log.warning("job_left", workspace_id=str(workspace_id), reason=str(error))


def _own_end(pod: Pod, ended: ContainerEnd) -> ContainerEnd:
    """Return how the work has ended, unless somebody else ended it."""
    why = why_ended(pod)
    if why is None:
        return ended
    if why.code == Code.OUT_OF_MEMORY:
        raise ActionFailed(why)
    raise BackendUnreachable(why)  # its node had no room for it: elsewhere, or later, it has
