"""The IDEs that images bring, as a table: which port each listens on, how it is told where it is, and when it is healthy (wire.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

HOME = "/home/coder"
UID = 1000


@dataclass(frozen=True, slots=True)
class Profile:
    """One IDE. Words may hold {id}."""

    port: int
    health_path: str
    healthy_below: int
    """An answer whose status is below this is a healthy one."""
    command: Sequence[str] | None = None
    """What follows the image's entry point; None: what the image says itself."""

    def health_target(self, workspace_id: UUID) -> str:
        return self.health_path.format(id=workspace_id)

    def words(self, workspace_id: UUID) -> list[str] | None:
        return None if self.command is None else [word.format(id=workspace_id) for word in self.command]


PROFILES: Mapping[str, Profile] = {
    "code-server": Profile(
        8080,
        "/healthz",
        300,
        (
            *("--auth", "none", "--bind-addr", "0.0.0.0:8080"),
            # Its second socket would be in the home, which is archived.
            *("--disable-telemetry", "--disable-update-check", "--session-socket", "/tmp/session.sock", HOME),  # noqa: S108  # the container's own /tmp
        ),
    ),
    "jupyterlab": Profile(
        8888,
        "/w/{id}/api",
        300,
        (
            *(
                "jupyter",
                "lab",
                "--ServerApp.ip=0.0.0.0",
                "--ServerApp.port=8888",
                "--ServerApp.open_browser=False",
            ),
            *(
                "--ServerApp.base_url=/w/{id}/",
                f"--ServerApp.root_dir={HOME}",
                "--ServerApp.quit_button=False",
            ),
            # The Host header is the proxy's, who has checked the person.
            *("--ServerApp.allow_remote_access=True", "--IdentityProvider.token=", "--LabApp.news_url=None"),
            *("--PasswordIdentityProvider.hashed_password=", "--KernelManager.transport=ipc"),
        ),
    ),
    "http": Profile(8080, "/", 500),
}
