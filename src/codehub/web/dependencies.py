"""What the web application is made of: the services it asks, and what new workspaces begin with."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from codehub.core.addresses import WorkspaceAddresses
from codehub.core.ceilings import Ceilings
from codehub.core.limits import Limits
from codehub.core.origins import WorkspaceOrigins
from codehub.core.workspace import InstanceBackend, Resources, StorageBackend
from codehub.ports.hints import Hints
from codehub.ports.instances import InstanceController
from codehub.ports.metrics import Metrics
from codehub.ports.store import ApiStore
from codehub.ports.system import Clock, Identity, Tasks
from codehub.service.access import AccessService
from codehub.service.doors import DoorService
from codehub.service.ports import PortService
from codehub.service.workspaces import WorkspaceService
from codehub.web.request_rate import RequestRate

# A check returns, or raises with a text that says why the part is not ready.
Check = Callable[[], Awaitable[None]]


class NotReady(Exception):
    """Of a check: why, in words that anybody may read. What any other exception says is for admins."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a new workspace gets where its request says nothing."""

    image_ref: str
    ide: str
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    standby_ttl_seconds: int | None
    archive_ttl_seconds: int | None
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True, slots=True)
class Dependencies:
    store: ApiStore
    workspaces: WorkspaceService
    access: AccessService
    ports: PortService
    hints: Hints
    people_hints: Hints
    instances: Mapping[InstanceBackend, InstanceController]
    homes: Mapping[InstanceBackend, Sequence[StorageBackend]]
    defaults: Defaults
    limits: Limits
    base_url: str
    clock: Clock
    identity: Identity
    tasks: Tasks
    metrics: Metrics
    checks: Mapping[str, Check] = field(default_factory=dict)
    trusted_proxies: Sequence[IPv4Network | IPv6Network] = ()
    sleep_warning_s: float = 60.0
    ceilings: Ceilings = field(default_factory=Ceilings)
    ides: Sequence[str] = ()
    """What a new workspace can have as its IDE here, the usual one first. None named: whatever codehub
    knows.
    """
    own_origins: Collection[str] = ()
    """Where its pages may be open, beside base_url."""
    metrics_token: str | None = None
    """What lets whoever watches this codehub see its meters. None: admins alone do."""
    backends: Mapping[str, Check] = field(default_factory=dict)
    """A look at each backend, for the admins' page of health."""
    workspace_origins: WorkspaceOrigins | None = None
    """Where each workspace has an origin of its own."""
    doors: DoorService | None = None
    """How people come there: there if such origins are."""

    pace: RequestRate = field(init=False)
    """Every face counts a person's requests on the same account."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pace", RequestRate(self.ceilings.requests_per_minute))

    @property
    def addresses(self) -> WorkspaceAddresses:
        return WorkspaceAddresses(self.base_url, self.workspace_origins)

    @property
    def origins(self) -> Collection[str]:
        """Whose pages may ask for changes."""
        return {self.base_url, *self.own_origins}
