"""The claims of all workspaces: found, made, sealed, removed. Refuses a cluster
without this installation's mark, and a claim that was not meant.

codehub-{installation}   the mark, a ConfigMap: a namespace without it is another one, or was emptied; an
                         outage, not an empty list
ws-{id}-home             the home
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from codehub.adapters.kubernetes.answers import AlreadyExists, Conflict, NotFound, Refusal
from codehub.adapters.kubernetes.claims import (
    ONE_NODE,
    Claim,
    claim_manifest,
    growth,
    is_home,
    parse_claim,
    seal_change,
)
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.kinds import CLAIMS, CONFIG_MAPS, EVENTS, PODS
from codehub.adapters.kubernetes.labels import (
    HOME,
    INSTALL,
    INSTANCE,
    MARK,
    ROLE,
    WORKSPACE,
    claim_name,
    mark_name,
    owns,
)
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.adapters.kubernetes.why import explain_refusal
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.ports.backends import ActionFailed, BackendUnreachable, MarkMissing
from codehub.ports.system import Clock, Identity

_POLL_S = 0.05
_GONE_S_MAX = 60.0
_ENDED = frozenset({"Succeeded", "Failed"})


class ClaimEnding(BackendUnreachable):
    """Its deletion was asked for, and nothing takes that back: what
    needs it can be decided once it is gone.
    """


class ClaimStore:
    def __init__(
        self,
        client: KubernetesClient,
        installation: str,
        claims: WatchCache[Claim | None],
        marks: WatchCache[str],
        *,
        identity: Identity,
        clock: Clock,
        storage_class: str | None = None,
        access_mode: str = ONE_NODE,
    ) -> None:
        self._client = client
        self._installation = installation
        self._claims = claims
        self._marks = marks
        self._identity = identity
        self._clock = clock
        self._storage_class = storage_class
        self._access_mode = access_mode

    async def prepare(self) -> None:
        """Mark the namespace as this installation's. For the first
        start alone: afterwards a missing mark is an outage.
        """
        body = {
            "metadata": {
                "name": mark_name(self._installation),
                "labels": {INSTALL: self._installation, ROLE: MARK},
            }
        }
        try:
            self._marks.learn(await self._client.create(CONFIG_MAPS, body))
        except AlreadyExists:
            pass
        except Refusal as refusal:
            raise explain_refusal(refusal) from None

    async def list_all(self) -> Mapping[UUID, Claim]:
        """Return every home, by one look that asks nobody. Raises
        BackendUnreachable rather than leave one out.
        """
        claims = await self.list_unmarked()
        if mark_name(self._installation) not in await self._marks.objects():
            raise self._no_mark()
        return claims

    async def list_unmarked(self) -> Mapping[UUID, Claim]:
        """Return what there is, whether or not it is the right namespace: for whoever has to decide that."""
        claims = (await self._claims.objects()).values()
        return {claim.workspace_id: claim for claim in claims if claim is not None}

    def doubt_without(self, workspace_id: UUID, volume_id: str | None) -> None:
        """Let the claims be listed anew unless this very home is among
        them: a Pod was made on it. None: it does not tell on which.
        """
        self._claims.doubt_unless(claim_name(workspace_id), lambda claim: is_home(claim, volume_id))

    async def inspect(self, workspace_id: UUID) -> Claim | None:
        """Return the claim of one workspace, as it is now."""
        answer = await self._client.find(CLAIMS, claim_name(workspace_id))
        if answer is None:
            # Is it gone, or is this another cluster?
            if await self._client.find(CONFIG_MAPS, mark_name(self._installation)) is None:
                raise self._no_mark()
            return None
        if not owns(self._installation, answer, HOME):
            raise ActionFailed(Message(Code.KUBERNETES_NOT_OURS, {"name": claim_name(workspace_id)}))
        return parse_claim(answer)

    async def require(self, workspace_id: UUID, volume_id: str) -> Claim:
        """Return this very claim. Refuses unless it is there, complete, and to stay."""
        claim = await self.inspect(workspace_id)
        if claim is None or claim.volume.volume_id != volume_id:
            raise ActionFailed(Message(Code.NO_SUCH_VOLUME, {"volume_id": volume_id}))
        if claim.deleted_at is not None:
            raise ClaimEnding(why_held(claim))
        return claim

    async def require_unsealed(self, workspace_id: UUID, volume_id: str) -> Claim:
        """Return this very claim. Refuses unless it is there, and still to be completed."""
        claim = await self.inspect(workspace_id)
        if claim is None or claim.volume_id != volume_id or not claim.is_being_made:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
        return claim

    async def make(self, workspace_id: UUID, *, size_mb: int | None, made_from: str | None = None) -> str:
        """Make a new claim, which does not count before it is sealed, and return its volume_id."""
        volume_id = str(self._identity.new_id())
        body = claim_manifest(
            self._installation,
            workspace_id,
            volume_id,
            size_mb=size_mb,
            storage_class=self._storage_class,
            access_mode=self._access_mode,
            made_from=made_from,
        )
        try:
            self._claims.learn(await self._client.create(CLAIMS, body))
        except AlreadyExists:
            raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id})) from None
        except Refusal as refusal:
            raise explain_refusal(refusal) from None
        return volume_id

    async def seal(self, workspace_id: UUID, volume_id: str, at: str) -> None:
        """Say that the volume is complete, once what it holds is on the
        disk. From here on it counts. `at`: by its node's clock.
        """
        while True:
            claim = await self.require_unsealed(workspace_id, volume_id)
            if await self._patch(claim, seal_change(volume_id, at)):
                return

    async def adopt(self, claim: Claim, volume_id: str) -> bool:
        """Give the claim that was seen its identity again, as of its
        beginning; say whether it was still as it was seen.
        """
        return await self._patch(claim, seal_change(volume_id, claim.made_at.isoformat()))

    async def grow(self, workspace_id: UUID, size_mb: int) -> bool:
        """Make the claim so large, if it is smaller and its class
        allows that; say whether it is so large now.
        """
        with suppress(BackendUnreachable):
            # No claim shrinks: one that was seen to be so large needs no request of a start's time.
            seen = await self._claims.find(claim_name(workspace_id))
            if seen is not None and growth(seen, size_mb) is None:
                return True
        while True:
            claim = await self.inspect(workspace_id)
            changes = None if claim is None else growth(claim, size_mb)
            if claim is None or changes is None:
                return True
            try:
                if await self._patch(claim, changes):
                    return True
            except ActionFailed:  # its class can't
                return False

    async def remove(self, claim: Claim) -> None:
        """Delete this very claim, and return when it is gone."""
        name = claim_name(claim.workspace_id)
        try:
            self._claims.learn_deletion(await self._client.delete(CLAIMS, name, uid=claim.uid))
        except (NotFound, Conflict):
            pass  # it is gone, and what may be there in its place was not meant
        except Refusal as refusal:
            raise explain_refusal(refusal) from None
        deadline = self._clock.monotonic() + _GONE_S_MAX
        while (current := await self._claims.find(name)) is not None and current.uid == claim.uid:
            if self._clock.monotonic() > deadline:
                raise ClaimEnding(why_held(current))
            await self._clock.sleep(_POLL_S)

    async def refuse_in_use(self, workspace_id: UUID) -> None:
        """Refuse if an instance may use the home. A deletion would be
        begun all the same, and nothing takes that back.
        """
        labels = {INSTALL: self._installation, WORKSPACE: str(workspace_id), ROLE: INSTANCE}
        for pod in await self._client.list_objects(PODS, labels=labels):
            if (pod.get("status") or {}).get("phase") not in _ENDED:
                raise ActionFailed(Message(Code.VOLUME_HELD, {"text": pod["metadata"]["name"]}))

    async def events(self, workspace_id: UUID) -> list[Mapping[str, Any]]:
        """Return what the cluster has said of the claim lately."""
        fields = {
            "involvedObject.kind": "PersistentVolumeClaim",
            "involvedObject.name": claim_name(workspace_id),
        }
        return list(await self._client.list_objects(EVENTS, fields=fields))

    async def _patch(self, claim: Claim, changes: Mapping[str, Any]) -> bool:
        try:
            answer = await self._client.patch(
                CLAIMS,
                claim_name(claim.workspace_id),
                changes,
                uid=claim.uid,
                resource_version=claim.resource_version,
            )
        except Conflict:
            return False
        except NotFound:
            raise ActionFailed(Message(Code.VOLUME_LOST), reason=ErrorReason.DATA_LOST) from None
        self._claims.learn(answer)
        return True

    def _no_mark(self) -> MarkMissing:
        facts = {"name": mark_name(self._installation), "namespace": self._client.namespace}
        return MarkMissing(Message(Code.MARK_OF_NAMESPACE, facts))


def why_held(claim: Claim) -> Message:
    """Return why a claim whose deletion was asked for is still there."""
    facts = {"claim": claim_name(claim.workspace_id), "finalizers": list(claim.finalizers)}
    return Message(Code.CLAIM_HELD, facts)
