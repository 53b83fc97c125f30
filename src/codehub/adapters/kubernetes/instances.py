"""Instances as Pods, each on its workspace's claim, looked at by a watch.
Refuses Pods of others, and never replaces what may still run.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID

import structlog

from codehub.adapters.health import answer_status
from codehub.adapters.kubernetes.answers import AlreadyExists, Conflict, Invalid, NotFound, Refusal
from codehub.adapters.kubernetes.claim_store import ClaimEnding, ClaimStore
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import EVENTS, PODS
from codehub.adapters.kubernetes.labels import IDE, INSTANCE, SPEC, VOLUME_ID, owns, pod_name, workspace_named
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch
from codehub.adapters.kubernetes.pods import (
    CONTAINER,
    Pod,
    fingerprint,
    is_probed_as_strictly,
    parse_pod,
    pod_manifest,
)
from codehub.adapters.kubernetes.sightings import Sightings
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.kubernetes.why import (
    Trouble,
    explain_refusal,
    node_lost,
    why_ended,
    why_ended_by,
    why_not_running,
    why_out_of_sight,
)
from codehub.adapters.workspace_locks import WorkspaceLocks
from codehub.core.ides import IDES, IdeProfile
from codehub.core.messages import Code, Message
from codehub.core.observation import Instance
from codehub.core.route import mount_of
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.instances import InstanceSpec, Upstream
from codehub.ports.storage import Report, ignore_progress
from codehub.ports.system import Clock

log = structlog.get_logger()

_BOOT_S_MAX = 120.0
_PROBES_AT_ONCE = 64
_TRIES_MAX = 10
_POLL_S = 0.02
_GONE_S_MAX = 30.0
# How long a start waits for its container, which mostly runs by then: its node tells that by the watch.
_CONTAINER_S_MAX = 1.0
# A Pod that has had a node for longer should run: then its events are read for why it does not.
_PLACED_S_MAX = 5.0
_FRESH_S = 1.0
_HEALTHY = Instance(running=True, healthy=True)


class _PodChanged(Exception):
    """Something has changed the Pod meanwhile: look again."""


class KubernetesInstances:
    """The InstanceController of the k8s backend."""

    def __init__(
        self,
        client: KubernetesClient,
        installation: str,
        pods: WatchCache[Pod | None],
        claims: ClaimStore,
        *,
        clock: Clock,
        patch: PodPatch = NO_PATCH,
        boot_s_max: float = _BOOT_S_MAX,
    ) -> None:
        self._client = client
        self._installation = installation
        self._pods = pods
        self._claims = claims
        self._clock = clock
        self._patch = patch
        self._boot_s_max = boot_s_max
        self._locks = WorkspaceLocks()
        self._sightings = Sightings(clock)
        self._answered_at: dict[str, float] = {}
        """When each Pod last gave a healthy answer, by its uid."""
        self._unhealthy: set[str] = set()
        """The uids of Pods that were not healthy when we last asked them."""
        self._ready: dict[str, Pod] = {}
        """The Pods that their nodes find healthy, by uid, as they were when that was looked at."""
        self._claims_checked: set[str] = set()
        """The uids of Pods whose claim was looked for when they were first listed."""
        self._end_reasons: dict[str, Message | None] = {}
        """Why each Pod has ended that does not say so itself, by its uid: its events are read once."""

    async def start(self, spec: InstanceSpec, volume_id: str, report: Report = ignore_progress) -> None:  # noqa: ARG002  # no cluster tells how far a pull is
        ide = _ide(spec.ide)
        manifest = pod_manifest(self._installation, spec, volume_id, ide, self._patch)
        async with self._locks.of(spec.workspace_id):
            for _ in range(_TRIES_MAX):
                await self._claims.require(spec.workspace_id, volume_id)
                try:
                    await self._make(spec, volume_id, manifest)
                except _PodChanged as error:
                    log.info("pod_raced", workspace_id=str(spec.workspace_id), reason=str(error))
                else:
                    return
        raise ActionFailed(Message(Code.KUBERNETES_CHANGES, {"name": pod_name(spec.workspace_id)}))

    async def delete(self, workspace_id: UUID) -> None:
        async with self._locks.of(workspace_id):
            answer = await self._look(workspace_id)
            if answer is not None:
                await self._remove(answer)
                log.info("instance_deleted", workspace_id=str(workspace_id))

    async def status(self, workspace_id: UUID) -> Instance | None:
        pod = await self._pods.find(pod_name(workspace_id))
        return None if pod is None else await self._observe(pod)

    async def list_all(self) -> Mapping[UUID, Instance]:
        """Its node asks each IDE every few seconds: only what is not healthy by that is asked from here."""
        pods = [pod for pod in (await self._pods.objects()).values() if pod is not None]
        uids = {pod.uid for pod in pods}
        self._doubt_claims_behind(pods, uids)
        self._forget_all_but(uids)
        # A Pod of which nothing was heard since is the very object that it was.
        self._ready = {
            pod.uid: pod
            for pod in pods
            if pod.uid not in self._unhealthy and (self._ready.get(pod.uid) is pod or _is_ready(pod))
        }
        instances = {pod.workspace_id: _HEALTHY for pod in self._ready.values()}
        others = [pod for pod in pods if pod.uid not in self._ready and pod.is_instance]
        gate = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def observe(pod: Pod) -> Instance:
            if self._has_just_answered(pod):
                return _HEALTHY
            async with gate:
                return await self._observe(pod)

        observations = await asyncio.gather(*(observe(pod) for pod in others))
        return instances | {
            pod.workspace_id: instance for pod, instance in zip(others, observations, strict=True)
        }

    async def resolve_upstream(self, workspace_id: UUID) -> Upstream | None:
        pod = await self._pods.find(pod_name(workspace_id))
        return pod.upstream if pod is not None and pod.running else None

    async def logs(
        self, workspace_id: UUID, *, tail: int = 200, follow: bool = False
    ) -> AsyncIterator[bytes]:
        if await self._look(workspace_id) is None:
            return
        try:
            async for part in self._client.logs(pod_name(workspace_id), CONTAINER, tail=tail, follow=follow):
                yield part
        except (NotFound, Invalid):  # it is gone, or was never run
            return

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[UUID]]:
        return self._events()

    @asynccontextmanager
    async def _events(self) -> AsyncIterator[AsyncIterator[UUID]]:
        async with self._pods.changes() as changes:
            known = {name: _stage(pod) for name, pod in (await self._pods.objects()).items()}

            async def workspace_ids() -> AsyncIterator[UUID]:
                async for names in changes:
                    pods = await self._pods.objects()
                    for name in names:
                        before, now = known.pop(name, None), _stage(pods.get(name))
                        if now is not None:
                            known[name] = now
                        if before not in (None, now):
                            yield workspace_named(name)

            yield workspace_ids()

    async def _make(self, spec: InstanceSpec, volume_id: str, manifest: Mapping[str, Any]) -> None:
        """Make the Pod, or find that it is there already. Raises _PodChanged if it has to be tried again."""
        try:
            created = await self._client.create(PODS, manifest)
        except AlreadyExists:
            await self._accept(spec, volume_id)
            return
        except Refusal as refusal:
            raise explain_refusal(refusal) from None
        self._pods.learn(created)
        try:
            # From here on the claim can't go away. It may have gone just before.
            await self._claims.require(spec.workspace_id, volume_id)
        except (ActionFailed, ClaimEnding):
            await self._remove(created)
            raise
        log.info("instance_started", workspace_id=str(spec.workspace_id), image=spec.image_ref)
        await self._raise_trouble(created["metadata"]["uid"], spec.workspace_id)

    async def _accept(self, spec: InstanceSpec, volume_id: str) -> None:
        """Leave the Pod that is there, if it is the wanted one, and say
        what keeps it from running. Any other is removed first.
        """
        answer = await self._client.find(PODS, pod_name(spec.workspace_id))
        if answer is None:
            raise _PodChanged("it is gone")
        if not owns(self._installation, answer, INSTANCE):
            raise ActionFailed(Message(Code.KUBERNETES_NOT_OURS, {"name": pod_name(spec.workspace_id)}))
        pod = parse_pod(answer)
        assert pod is not None
        if (lost := why_out_of_sight(pod, self._sightings)) is not None:
            raise BackendUnreachable(lost)
        expected = (fingerprint(spec, self._patch), volume_id)
        if (pod.annotations.get(SPEC), pod.annotations.get(VOLUME_ID)) == expected and pod.deleted_at is None:
            if pod.running and await self._is_healthy_or_booting(pod):
                return
            if not pod.has_running_container and not pod.has_ended:
                await self._raise_trouble(pod.uid, spec.workspace_id)
                return
        await self._remove(answer)
        raise _PodChanged("it was removed first")

    async def _raise_trouble(self, uid: str, workspace_id: UUID) -> None:
        """Return once the Pod runs, or soon. Say what keeps it from that, if it is known by then. One that
        never will run is removed.
        """
        deadline = self._clock.monotonic() + _CONTAINER_S_MAX
        while True:
            pod = await self._pods.find(pod_name(workspace_id))
            if pod is None or pod.uid != uid or pod.has_running_container or pod.has_ended:
                return
            if (trouble := await self._trouble(pod)) is not None:
                if not trouble.waits:
                    await self._remove_named(workspace_id, uid)
                raise trouble.error()
            if self._is_late(pod) or self._clock.monotonic() > deadline:
                return
            await self._clock.sleep(_POLL_S)

    async def _trouble(self, pod: Pod) -> Trouble | None:
        if pod.condition("PodScheduled").status == "False" or self._is_late(pod):
            events = [
                *await self._events_of({"kind": "Pod", "name": pod.name}),
                *await self._claims.events(pod.workspace_id),
            ]
            return why_not_running(pod, events)
        return why_not_running(pod)

    async def _remove(self, answer: Mapping[str, Any]) -> None:
        """Delete this very Pod, and return when it is gone. It is never
        taken from the list while its node may still run it.
        """
        pod = parse_pod(answer)
        assert pod is not None
        await self._remove_named(pod.workspace_id, pod.uid)

    async def _remove_named(self, workspace_id: UUID, uid: str) -> None:
        name = pod_name(workspace_id)
        try:
            self._pods.learn_deletion(await self._client.delete(PODS, name, uid=uid))
        except (NotFound, Conflict):
            pass  # it is gone, and what may be there in its place was not meant
        except Refusal as refusal:
            raise explain_refusal(refusal) from None
        deadline = self._clock.monotonic() + _GONE_S_MAX
        while (pod := await self._pods.find(name)) is not None and pod.uid == uid:
            if self._clock.monotonic() > deadline:
                raise BackendUnreachable(node_lost(pod))
            await self._clock.sleep(_POLL_S)
        self._answered_at.pop(uid, None)

    async def _look(self, workspace_id: UUID) -> Mapping[str, Any] | None:
        answer = await self._client.find(PODS, pod_name(workspace_id))
        return answer if answer is not None and owns(self._installation, answer, INSTANCE) else None

    def _doubt_claims_behind(self, pods: Sequence[Pod], uids: set[str]) -> None:
        """Of two watches one may be behind. No Pod is made without its claim, so where that very one is not
        listed the claims are listed anew, once for each Pod: or the Pod would seem to have lost its home.
        """
        if new := uids - self._claims_checked:
            for pod in pods:
                if pod.uid in new and pod.is_instance:
                    self._claims.doubt_without(pod.workspace_id, pod.annotations.get(VOLUME_ID))
        self._claims_checked = uids

    async def _observe(self, pod: Pod) -> Instance:
        if (lost := why_out_of_sight(pod, self._sightings)) is not None:
            return Instance(running=False, healthy=False, is_out_of_sight=True, why=lost)
        if pod.has_ended:
            exit_code = None if pod.ended is None or not pod.is_over else pod.ended.exit_code
            return Instance(
                running=False,
                healthy=False,
                has_ended=True,
                exit_code=exit_code,
                why=await self._why_ended(pod),
            )
        if not pod.running:
            trouble = why_not_running(pod)
            return Instance(running=False, healthy=False, why=None if trouble is None else trouble.message)
        return Instance(running=True, healthy=await self._is_healthy(pod))

    async def _why_ended(self, pod: Pod) -> Message | None:
        if (why := why_ended(pod)) is not None or not pod.is_over:
            return why
        if pod.uid not in self._end_reasons:
            self._end_reasons[pod.uid] = why_ended_by(await self._events_of({"uid": pod.uid}))
        return self._end_reasons[pod.uid]

    async def _events_of(self, about: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
        fields = {f"involvedObject.{name}": value for name, value in about.items()}
        return await self._client.list_objects(EVENTS, fields=fields)

    def _forget_all_but(self, uids: Set[str]) -> None:
        self._unhealthy &= uids
        self._sightings.forget_all_but(uids)
        self._answered_at = {uid: at for uid, at in self._answered_at.items() if uid in uids}
        self._end_reasons = {uid: why for uid, why in self._end_reasons.items() if uid in uids}

    def _has_just_answered(self, pod: Pod) -> bool:
        at = self._answered_at.get(pod.uid)
        is_fresh = (
            at is not None and self._clock.monotonic() - at < _FRESH_S and pod.uid not in self._unhealthy
        )
        return is_fresh and pod.running and why_out_of_sight(pod, self._sightings) is None

    async def _is_healthy_or_booting(self, pod: Pod) -> bool:
        if await self._is_healthy(pod) or self._is_booting(pod):
            return True
        # Twice: a server that is busy for a moment must not be replaced.
        return await self._is_healthy(pod)

    async def _is_healthy(self, pod: Pod) -> bool:
        ide = IDES.get(pod.annotations.get(IDE, ""))
        if ide is None or pod.upstream is None:
            return False
        status = await answer_status(pod.upstream, ide.health_path.format(mount=mount_of(pod.workspace_id)))
        is_healthy = status is not None and status < ide.healthy_below
        if is_healthy:
            self._answered_at[pod.uid] = self._clock.monotonic()
            self._unhealthy.discard(pod.uid)
        else:
            self._unhealthy.add(pod.uid)
            self._running_s(pod)
        return is_healthy

    def _is_booting(self, pod: Pod) -> bool:
        """Return whether it may still boot: it has answered neither us nor its node yet."""
        if pod.uid in self._answered_at or pod.started_at is None or _was_ready(pod):
            return False
        return self._running_s(pod) < self._boot_s_max

    def _running_s(self, pod: Pod) -> float:
        """Return how long ago it was first found not to answer in this container."""
        return self._sightings.seconds(pod.uid, "container", pod.started_at)

    def _is_late(self, pod: Pod) -> bool:
        """Return whether the scheduler's word on it is older than a start mostly takes."""
        since = pod.condition("PodScheduled").since
        return since is not None and self._sightings.seconds(pod.uid, "place", since) > _PLACED_S_MAX


def _stage(pod: Pod | None) -> object:
    """Return what of a Pod is worth a hint once it changes. Who starts one watches it."""
    return None if pod is None or not pod.is_instance else (pod.uid, pod.has_ended, pod.deleted_at is None)


def _was_ready(pod: Pod) -> bool:
    """Return whether its node found it healthy once, and no longer does: that came after its container did,
    by one clock.
    """
    ready = pod.condition("Ready")
    was_later = ready.since is not None and pod.started_at is not None and ready.since > pod.started_at
    return ready.status == "False" and was_later


def _is_ready(pod: Pod) -> bool:
    """Return whether its node finds it healthy, by a probe that is as strict as ours."""
    ide = IDES.get(pod.annotations.get(IDE, ""))
    is_told = ide is not None and is_probed_as_strictly(ide)
    return is_told and pod.is_instance and pod.running and pod.condition("Ready").status == "True"


def _ide(name: str) -> IdeProfile:
    ide = IDES.get(name)
    if ide is None:
        raise ActionFailed(Message(Code.IDE_NOT_OFFERED, {"ide": name, "offered": list(IDES)}))
    return ide
