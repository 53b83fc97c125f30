"""The engine's cgroup driver goes in, the limited parent group of all its containers comes out, or None."""

import os
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.groups import BOUND, ROOT, Totals, bind_together, is_unified, make_group, remove_group

_DRIVERS = ("cgroupfs", "systemd")


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """The parent group of all containers. We set its limits: the engine has no setting for them."""

    installation: str
    most: Totals
    root: Path = ROOT

    def name(self, driver: str) -> str | None:
        """Return the `CgroupParent` for an engine with this driver, or None if it makes no groups."""
        if driver == "cgroupfs":
            return f"/codehub-{self.installation}"
        # A dash in a slice's name would mean a parent slice.
        return f"codehub{self.installation.replace('-', '')}.slice" if driver == "systemd" else None

    def prepare(self, driver: str) -> str | None:
        """Make the group, set its limits, and return its name; None where we can't, as on another machine's
        engine.

        Blocks, shortly. Every start repeats it: somebody may have removed the empty group.
        """
        name = self.name(driver)
        if name is None or os.geteuid() != 0:
            return None
        unified = is_unified(self.root)
        path = name.lstrip("/")
        parents = {
            controller: self.root / path if unified else self.root / controller / path for controller in BOUND
        }
        try:
            for controller, parent in parents.items():
                make_group(parent, controller, unified=unified)
        except OSError:
            return None
        bind_together(parents, self.most, unified=unified)
        return name

    def close(self) -> None:
        """Remove the group from every hierarchy, if nothing runs in it: the engine does not.

        Blocks, shortly.
        """
        if os.geteuid() != 0 or not self.root.is_dir():
            return
        hierarchies = (
            [self.root]
            if is_unified(self.root)
            else [controller for controller in self.root.iterdir() if controller.is_dir()]
        )
        for name in filter(None, map(self.name, _DRIVERS)):
            for hierarchy in hierarchies:
                remove_group(hierarchy / name.lstrip("/"))
