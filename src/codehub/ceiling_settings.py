"""The settings that bound what one workspace, one person and all of a machine may have. Each with its
bounds.
"""

from pydantic import Field

from codehub.core.ceilings import PAGE_MAX, Ceilings, Images
from codehub.core.visibility import Visibility
from codehub.core.workspace import Resources
from codehub.rule_settings import RuleSettings


class CeilingSettings(RuleSettings):
    """What an operator lets people have at most."""

    limit_running_per_user: int = Field(
        2, ge=0, description="How many workspaces of one person may run at once."
    )
    limit_running_total: int = Field(100, ge=0, description="How many workspaces may run at once in all.")
    limit_memory_mb_total: int | None = Field(
        None,
        ge=64,
        description="Memory of all workspaces of a machine together, in MB. Default: nine tenths of it.",
    )
    limit_pids_total: int | None = Field(
        None,
        ge=16,
        description="Processes of all workspaces of a machine together. Default: three quarters of what it can have.",
    )
    limit_workspaces_per_user: int = Field(
        100, ge=1, description="How many workspaces one person may have; those in the trash don't count."
    )
    limit_tokens_per_user: int = Field(
        100, ge=1, description="How many tokens that have not expired one person may have."
    )
    limit_streams_per_user: int = Field(
        32, ge=1, description="How many event streams one person may have open at an API process."
    )
    limit_requests_per_user: int = Field(
        3000, ge=1, description="How many requests a minute one person may send to an API process."
    )
    limit_page_size: int = Field(
        PAGE_MAX, ge=1, le=PAGE_MAX, description="How many items one page of a list may have."
    )
    max_memory_mb: int = Field(16_384, ge=64, description="The most memory that one workspace may ask for.")
    max_cpus: float = Field(16.0, ge=0.1, description="The most processors that one workspace may ask for.")
    max_pids: int = Field(16_384, ge=16, description="The most processes that one workspace may ask for.")
    max_disk_mb: int = Field(
        102_400, ge=64, description="The largest home that one workspace may ask for, in MB."
    )
    ports_ceiling: Visibility = Field(
        Visibility.SIGNED_IN,
        description="Whom a workspace's owner may let into its ports at most: `private`, `shared`, `signed-in` or `public`.",
    )
    disk_floor_mb: int = Field(
        1024, ge=0, description="How much must be free where homes lie, in MB; below it nothing starts."
    )
    database_reserve_mb: int = Field(
        256,
        ge=0,
        description="How much of that disk is kept for the embedded database when it fills up, in MB.",
    )
    allowed_images: str = Field(
        "",
        description="Images that workspaces may run, with commas between; `*` stands for anything, and no tag for every tag: `codercom/code-server, example.org/team/*`. `WORKSPACE_IMAGE` always may. What `docker login` has kept is used for these alone. Default: any.",
    )

    def ceilings_with(self, own_image: str) -> Ceilings:
        """Return what one workspace, one person and one page may have at most. The operator's own image is
        always allowed.
        """
        patterns = tuple(pattern.strip() for pattern in self.allowed_images.split(",") if pattern.strip())
        return Ceilings(
            Resources(self.max_memory_mb, self.max_cpus, self.max_pids, self.max_disk_mb),
            Images((own_image,), patterns),
            workspaces=self.limit_workspaces_per_user,
            tokens=self.limit_tokens_per_user,
            streams=self.limit_streams_per_user,
            requests_per_minute=self.limit_requests_per_user,
            page_size=self.limit_page_size,
        )
