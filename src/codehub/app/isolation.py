"""Workspaces of a cluster kept apart: policies are made before anything starts, and a probe beside what runs
says where they do not hold.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from codehub.adapters.kubernetes.answers import Refusal
from codehub.adapters.kubernetes.client import KubernetesClient
from codehub.adapters.kubernetes.default_access import own_place
from codehub.adapters.kubernetes.isolation import Isolation, api_servers, problems
from codehub.adapters.kubernetes.isolation_probe import IsolationProbe
from codehub.adapters.kubernetes.pod_patch import PodPatch
from codehub.adapters.kubernetes.policies import Reach, WrongPeer, parse_peers
from codehub.adapters.system.machine import SystemTasks
from codehub.app.errors import CannotStart
from codehub.app.language import say
from codehub.app.process import warn
from codehub.app.supervisor import supervise
from codehub.core.messages import Code
from codehub.engine.system import System
from codehub.ports.backends import ActionFailed, BackendUnreachable
from codehub.ports.system import Clock
from codehub.setting_urls import to_networks
from codehub.settings import Settings
from codehub.text.terminal import terminal_language
from codehub.web.domain_text import failure_text, message_text

log = structlog.get_logger()

# Who removes a policy by hand has it back after this.
_AGAIN_S = 3_600.0
_PROBE_AGAIN_S = 86_400.0


@asynccontextmanager
async def isolation(
    settings: Settings, client: KubernetesClient, installation: str, patch: PodPatch, system: System
) -> AsyncIterator[None]:
    """Make the policies, and keep them while the caller runs. Only a controller does; the others need
    nothing of it.
    """
    probe = IsolationProbe(client, installation, image=settings.helper_image, clock=system.clock, patch=patch)
    keeper = _Keeper(Isolation(client, installation, await _reach(settings, client), probe), system.clock)
    await keeper.apply()
    tasks = SystemTasks()
    tasks.spawn(supervise("isolation", keeper.run, system), name="isolation")
    try:
        yield
    finally:
        await tasks.cancel_all()


async def _reach(settings: Settings, client: KubernetesClient) -> Reach:
    peers = settings.k8s_reached_from or await own_place(settings.k8s_kubeconfig, client.api.access)
    if peers is None:
        raise CannotStart(say("isolation.no_address"))
    try:
        admitted = parse_peers(peers)
    except WrongPeer as error:
        raise CannotStart(f"CODEHUB_K8S_REACHED_FROM: {error}") from None
    return Reach(
        admitted,
        to_networks(settings.k8s_egress_allowed),
        (*to_networks(settings.k8s_egress_refused), *await api_servers(client)),
        has_store=settings.archives.startswith("s3://"),
    )


class _Keeper:
    def __init__(self, isolation: Isolation, clock: Clock) -> None:
        self._isolation = isolation
        self._clock = clock
        self._refusal: str | None = None
        """Why codehub itself can make no policies."""

    async def apply(self) -> None:
        """Make the policies. Where somebody else has to, only the probe tells whether they did."""
        try:
            await self._isolation.apply()
            self._refusal = None
        except Refusal as error:
            self._refusal = failure_text(error, terminal_language())

    async def run(self) -> None:
        probe_at = self._clock.monotonic()
        while True:
            if self._clock.monotonic() >= probe_at and await self._probe():
                probe_at = self._clock.monotonic() + _PROBE_AGAIN_S
            await self._clock.sleep(_AGAIN_S)
            try:
                await self.apply()
            except BackendUnreachable as error:
                log.info("policies_not_seen_to", reason=str(error))

    async def _probe(self) -> bool:
        """Say what is wrong. Returns whether that could be found out."""
        try:
            if await self._isolation.is_known():
                return True
            probed = await self._isolation.probe()
        except (ActionFailed, BackendUnreachable) as error:
            if error.message.code == Code.PROBE_UNDER_WAY:  # of another controller, which will say it
                log.info("probe_under_way")
                return False
            warn(say("isolation.untried", reason=failure_text(error, terminal_language())))
            return False
        wrong = problems(probed)
        for problem in wrong:
            warn(say("isolation.wrong", problem=message_text(problem, terminal_language())))
        if probed.reached and self._refusal is not None:
            warn(say("isolation.no_policies", reason=self._refusal))
        if not wrong:
            log.info("workspaces_kept_apart")
        return True
