"""The disks of a cluster's homes: a claim's size is its limit, what is used its Pod measures now and then."""

import asyncio
from dataclasses import dataclass

import structlog

from codehub.adapters.kubernetes.claim_store import ClaimStore
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.entry import enter
from codehub.adapters.kubernetes.labels import pod_name
from codehub.adapters.kubernetes.pods import HOME_PLACE, Pod
from codehub.adapters.kubernetes.watch_cache import WatchCache
from codehub.core.disk_space import DiskSpace
from codehub.ports.storage import Home
from codehub.ports.system import Clock

log = structlog.get_logger()

# Each measurement goes through the API server to a node, and reads all of a home's directories: a home is
# measured this rarely, and however many there are, all of them at this pace. Some may come at once.
_RARE_S = 600.0
_PACE_S = 12.0
_AT_ONCE = 10
_MEASURING_S_MAX = 30
_ANSWER_S_MAX = 60.0
_MEASURE = f"exec timeout {_MEASURING_S_MAX} nice -n 19 du -skx {HOME_PLACE} 2>/dev/null"
# So many kilobytes are a petabyte: it is the workspace's own program that says so.
_DIGITS_MAX = 12


@dataclass(frozen=True, slots=True)
class _Measurement:
    begun_s: float
    used_mb: int | None = None
    """None: it failed, or is not there yet."""


class KubernetesDisk:
    """The Disk of homes that are claims."""

    def __init__(
        self, claims: ClaimStore, client: KubernetesClient, pods: WatchCache[Pod | None], *, clock: Clock
    ) -> None:
        self._claims = claims
        self._client = client
        self._pods = pods
        self._clock = clock
        self._measured: dict[str, _Measurement] = {}
        """The last measurement of each home, by its Pod's uid."""
        self._paced_s = clock.monotonic()
        """When all measurements that were begun would be over if they came one by one at the pace."""

    async def room(self) -> DiskSpace | None:
        """Return None: every claim has its own."""

    async def bind(self, home: Home, most_mb: int) -> None:
        """Grow the claim to this size. One that is larger stays: no claim shrinks."""
        if not await self._claims.grow(home.workspace_id, most_mb):
            log.warning("claim_does_not_grow", workspace_id=str(home.workspace_id), wanted_mb=most_mb)

    async def used_mb(self, home: Home) -> int | None:
        """Return what was measured last, and measure first if that is due. What failed is due as late."""
        pod = await self._pods.find(pod_name(home.workspace_id))
        if pod is None or not pod.is_instance or not pod.running:
            return None
        now_s = self._clock.monotonic()
        if self._is_due(pod, now_s):
            self._paced_s = max(self._paced_s, now_s) + _PACE_S
            self._measured[pod.uid] = _Measurement(now_s)
            self._measured[pod.uid] = _Measurement(now_s, await self._measure(pod))
            await self._forget_others()
        measurement = self._measured.get(pod.uid)
        return None if measurement is None else measurement.used_mb

    def _is_due(self, pod: Pod, now_s: float) -> bool:
        """Whoever was measured waits until there was time for everybody, so that nobody is passed over."""
        if self._paced_s - now_s > (_AT_ONCE - 1) * _PACE_S:
            return False
        last, rare_s = self._measured.get(pod.uid), max(_RARE_S, len(self._measured) * _PACE_S)
        return last is None or now_s - last.begun_s >= rare_s

    async def _forget_others(self) -> None:
        there = {pod.uid for pod in (await self._pods.objects()).values() if pod is not None}
        self._measured = {uid: each for uid, each in self._measured.items() if uid in there}

    async def _measure(self, pod: Pod) -> int | None:
        """Ask the home's own Pod, for a bounded time. One that has no such program, or a home too large,
        isn't told.
        """
        try:
            async with asyncio.timeout(_ANSWER_S_MAX), enter(self._client, pod) as entry:
                await entry.ready()
                await entry.run(_MEASURE)
                kilobytes = (await entry.read_line()).partition("\t")[0]
        except TimeoutError:
            return None
        is_number = kilobytes.isascii() and kilobytes.isdigit() and len(kilobytes) <= _DIGITS_MAX
        return int(kilobytes) // 1024 if is_number else None
