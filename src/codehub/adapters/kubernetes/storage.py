"""Homes as claims, archived and restored by a Job that moves the
bytes itself. Refuses a volume other than the one named.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

from codehub.adapters.archiving_storage import ArchivedHomes
from codehub.adapters.kubernetes.claim_store import ClaimStore
from codehub.adapters.kubernetes.claims import Claim
from codehub.adapters.kubernetes.job_runner import JobRunner
from codehub.adapters.kubernetes.jobs import (
    AS_MADE,
    Work,
    archive_work,
    look_for_change,
    provision_work,
    restore_work,
)
from codehub.adapters.kubernetes.pods import HOME_DIRECTORY, ContainerEnd
from codehub.adapters.workspace_locks import WorkspaceLocks
from codehub.core.errors import ErrorReason
from codehub.core.messages import Code, Message
from codehub.core.observation import Volume
from codehub.core.operations import Operation
from codehub.core.rules import Rules
from codehub.ports.archives import Archives, Check, Hear, JobGrants
from codehub.ports.backends import ActionFailed
from codehub.ports.storage import Home, Report, RestoredVolume, ignore_progress

_LOOK_S_MAX = 600
# A node tells the second in which work was done: what was changed after it came later.
_SECOND = timedelta(seconds=1)
# A directory beside the home; the next restore removes what has such a name.
_TRIAL = ".codehub-restoring-trial-"


class KubernetesStorage(ArchivedHomes):
    """The StorageProvider on claims. After a kill at any step, the same call again does the rest."""

    def __init__(self, claims: ClaimStore, jobs: JobRunner, *, archives: Archives, rules: Rules) -> None:
        super().__init__(archives)
        self.claims = claims
        self._jobs = jobs
        self._limits_s = {
            operation: int(limit.total_seconds()) for operation, limit in rules.time_limits.items()
        }
        self._locks = WorkspaceLocks()

    async def prepare(self) -> None:
        """Mark the namespace as this installation's. For the first
        start alone: afterwards a missing mark is an outage.
        """
        await self.claims.prepare()

    async def provision(self, home: Home, *, replaces: str | None = None) -> str:
        async with self._locks.of(home.workspace_id):
            claim = await self._find_lasting(home)
            if claim is not None and claim.volume.volume_id is not None:
                return claim.volume.volume_id
            _refuse_other(claim, replaces)
            volume_id = await self._make_anew(home, claim)
            work = provision_work(self._limits_s[Operation.PROVISIONING])
            end = await self._jobs.run(home.workspace_id, work)
            _require_success(end)
            await self._seal(home, volume_id, end)
            return volume_id

    async def adopt(self, home: Home, lost: str) -> str:
        """Let it count again, as the one that it was: it counts as worked on since it was made."""
        async with self._locks.of(home.workspace_id):
            while True:
                claim = await self._find_lasting(home)
                if claim is None:
                    raise ActionFailed(Message(Code.NOTHING_TO_ADOPT), reason=ErrorReason.DATA_LOST)
                if claim.volume_id not in (None, lost) or claim.is_being_made:
                    raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": lost}))
                if claim.volume.volume_id is not None:
                    return lost
                await self._jobs.end(home.workspace_id)
                await self.claims.refuse_in_use(home.workspace_id)
                if await self.claims.adopt(claim, lost):
                    return lost

    async def restore(
        self, home: Home, archive_key: str, report: Report, *, replaces: str | None = None
    ) -> RestoredVolume:
        async with self._locks.of(home.workspace_id):
            claim = await self._find_lasting(home)
            _refuse_other(claim, replaces)
            if claim is not None and claim.volume.volume_id is not None:
                # A restore that fails leaves what was there.
                await self._unpack(home, archive_key, ignore_progress, into=f"{_TRIAL}{uuid4()}")
            volume_id = await self._make_anew(home, claim, archive_key)
            await self._seal(home, volume_id, await self._unpack(home, archive_key, report))
            return RestoredVolume(volume_id, archive_key)

    async def delete_volume(self, home: Home, volume_id: str | None) -> None:
        async with self._locks.of(home.workspace_id):
            claim = await self.claims.inspect(home.workspace_id)
            if claim is None:
                return
            if claim.volume.name != volume_id:
                raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": volume_id}))
            await self._remove(claim)

    async def is_worked_on(self, home: Home, volume_id: str, *, since: datetime | None = None) -> bool:
        async with self._locks.of(home.workspace_id):
            claim = await self.claims.require(home.workspace_id, volume_id)
            assert claim.completed_at is not None
            moments = [claim.completed_at + _SECOND, *([] if since is None else [since])]
            work = look_for_change(max(moments).timestamp(), _LOOK_S_MAX)
            end = await self._jobs.run(home.workspace_id, work)
            # Only these very words show that nothing was changed.
            return end.message != AS_MADE

    async def list_volumes(self) -> Mapping[UUID, Volume]:
        return {key: claim.volume for key, claim in (await self.claims.list_all()).items()}

    async def list_unmarked(self) -> Mapping[UUID, Volume]:
        """Return what there is though the mark is missing: for whoever
        has to decide whether this is the right cluster.
        """
        return {key: claim.volume for key, claim in (await self.claims.list_unmarked()).items()}

    async def list_leftovers(self) -> Sequence[str]:
        """Return what work that died has left: Jobs, unfinished uploads."""
        jobs = [f"job {job.workspace_id}" for job in await self._jobs.leftovers()]
        return [*jobs, *await self._archives.list_leftovers()]

    async def remove_leftovers(self, older_than: datetime) -> int:
        removed = await self._archives.remove_leftovers(older_than)
        for job in await self._jobs.leftovers():
            if job.made_at < older_than:
                async with self._locks.of(job.workspace_id):
                    await self._jobs.end(job.workspace_id)
                removed += 1
        return removed

    async def _require(self, home: Home, volume_id: str) -> None:
        await self.claims.require(home.workspace_id, volume_id)

    async def _write_home(
        self, archives: Archives, key: str, home: Home, volume_id: str, report: Report, check: Check
    ) -> None:
        claim = await self.claims.require(home.workspace_id, volume_id)
        limit_s = self._limits_s[Operation.ARCHIVING]
        run = partial(self._run_granted, home, partial(archive_work, time_limit_s=limit_s), [])
        await archives.write_by_job(key, run, report, check, capacity=claim.size_bytes, time_limit_s=limit_s)

    async def _unpack(
        self, home: Home, archive_key: str, report: Report, *, into: str = HOME_DIRECTORY
    ) -> ContainerEnd:
        """Unpack an archive into the claim that is there, and return how that ended."""
        ends: list[ContainerEnd] = []
        limit_s = self._limits_s[Operation.RESTORING]
        work = partial(restore_work, time_limit_s=limit_s, into=into)
        run = partial(self._run_granted, home, work, ends)
        await self._archives.read_by_job(archive_key, run, report, time_limit_s=limit_s)
        return ends[-1]

    async def _run_granted(
        self,
        home: Home,
        work: Callable[[str, int, str | None], Work],
        ends: list[ContainerEnd],
        grants: JobGrants,
        hear: Hear,
    ) -> str:
        granted = work(grants.text, grants.memory_bytes, grants.directory)
        end = await self._jobs.run(home.workspace_id, granted, hear)
        ends.append(end)
        return end.message

    async def _find_lasting(self, home: Home) -> Claim | None:
        """Return the claim, if there is one. If its deletion was asked for, return None once it is gone."""
        claim = await self.claims.inspect(home.workspace_id)
        if claim is None or claim.deleted_at is None:
            return claim
        await self.claims.remove(claim)
        return None

    async def _make_anew(self, home: Home, claim: Claim | None, made_from: str | None = None) -> str:
        """Make a new claim in place of what was found there."""
        if claim is not None:
            await self._remove(claim)
        return await self.claims.make(home.workspace_id, size_mb=home.size_mb, made_from=made_from)

    async def _remove(self, claim: Claim) -> None:
        await self._jobs.end(claim.workspace_id)
        await self.claims.refuse_in_use(claim.workspace_id)
        await self.claims.remove(claim)

    async def _seal(self, home: Home, volume_id: str, end: ContainerEnd) -> None:
        await self.claims.seal(home.workspace_id, volume_id, (end.at or datetime.now(UTC)).isoformat())


def _refuse_other(claim: Claim | None, replaces: str | None) -> None:
    if claim is not None and claim.volume.name not in (None, replaces):
        raise ActionFailed(Message(Code.OTHER_VOLUME, {"volume_id": replaces}))


def _require_success(end: ContainerEnd) -> None:
    if end.exit_code:
        facts = {"exit_code": end.exit_code, "text": end.message or end.reason}
        raise ActionFailed(Message(Code.HELPER_FAILED, facts))
