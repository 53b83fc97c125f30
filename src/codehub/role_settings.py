"""The settings of the roles as processes of their own: where they find each
other, how they are asked, how they leave. Each with its bounds.
"""

from pydantic import Field

from codehub.ceiling_settings import CeilingSettings

_DRAIN_S_MAX = 86_400


class RoleSettings(CeilingSettings):
    """What several of each role need; `codehub up` needs none of it."""

    proxy_workers: int = Field(
        1,
        ge=1,
        le=64,
        description="How many processes serve the port, apart from the one that controls.",
    )
    api_url: str | None = Field(
        None,
        description="Where `codehub proxy` finds `codehub api`: `http://host:port` or `unix:///path`; several with commas between. `codehub up` needs none.",
    )
    health_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Where `codehub api`, `codehub proxy` and `codehub controller` answer `/healthz` and `/readyz` for themselves alone, on `HOST`. Default: nowhere. On the public port `/readyz` is the installation's.",
    )
    drain_notice_seconds: float = Field(
        5.0,
        ge=0,
        le=600,
        description="How long a role that is told to end (SIGTERM) goes on taking connections while its `/readyz` says 503, so that balancers hear of it.",
    )
    drain_seconds: float = Field(
        20.0,
        ge=0,
        le=_DRAIN_S_MAX,
        description="How long what is under way there may then go on. WebSockets that are left are closed with 1001.",
    )
