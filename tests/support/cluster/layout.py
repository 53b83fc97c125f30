"""Where a test cluster's files lie and what its addresses are: by
its number alone, so that several run side by side.
"""

from dataclasses import dataclass
from pathlib import Path

NODE = "node-1"
DOMAIN = "cluster.local"
NUMBERS = range(1, 40)


@dataclass(frozen=True)
class Layout:
    """One cluster's: its directory, whose name is its number, and which is removed with it."""

    place: Path

    @property
    def number(self) -> int:
        return int(self.place.name)

    @property
    def binaries(self) -> Path:
        """What scripts/kubernetes/build has made."""
        return self.place / "bin"

    @property
    def name(self) -> str:
        return f"codehub-k8s-{self.number}"

    @property
    def host_link(self) -> str:
        return f"chk8s-{self.number}"

    @property
    def host_address(self) -> str:
        """This machine, as Pods see it."""
        return f"10.{self.number + 150}.0.1"

    @property
    def node_address(self) -> str:
        return f"10.{self.number + 150}.0.2"

    @property
    def services(self) -> str:
        return f"10.{self.number + 100}.0.0/16"

    @property
    def first_service(self) -> str:
        """The API server's own, inside the cluster."""
        return f"10.{self.number + 100}.0.1"

    @property
    def pods(self) -> str:
        return f"10.{self.number + 200}.0.0/16"

    @property
    def server(self) -> str:
        return f"https://{self.node_address}:6443"

    @property
    def keys(self) -> Path:
        return self.place / "keys"

    @property
    def containerd(self) -> Path:
        return self.place / "containerd.sock"

    @property
    def groups(self) -> list[Path]:
        """The control groups of everything that runs in this cluster:
        one, or one per controller where they are not unified.
        """
        root = Path("/sys/fs/cgroup")
        if (root / "cgroup.controllers").exists():
            return [root / self.name]
        return [
            root / controller.name / self.name
            for controller in root.iterdir()
            if controller.is_dir() and not controller.is_symlink()
        ]

    def kubeconfig(self, user: str) -> Path:
        return self.place / f"{user}.kubeconfig"
