"""The engine's containers in one control group: the engine's way of making groups in, a parent that is bound, or none, out."""

import os
from dataclasses import dataclass
from pathlib import Path

from codehub.adapters.groups import BOUND, ROOT, Totals, bind_together, is_unified, make_group, removed

_DRIVERS = ("cgroupfs", "systemd")


@dataclass(frozen=True, slots=True)
class ParentGroup:
    """What containers are made below. Bound by us, for an engine has no word for it."""

    installation: str
    most: Totals
    root: Path = ROOT

    def name(self, driver: str) -> str | None:
        """Return what `CgroupParent` is to say for an engine with this driver, or None if it makes no groups."""
        if driver == "cgroupfs":
            return f"/codehub-{self.installation}"
        # A dash in a slice's name is a place in a hierarchy.
        return f"codehub{self.installation.replace('-', '')}.slice" if driver == "systemd" else None

    def prepare(self, driver: str) -> str | None:
        """Make the group and bind it, and return its name; None where that is not ours to do, as with an engine of another machine.

        Blocks, shortly. Every start does it again: whoever cleans up may have removed an empty group."""
        name = self.name(driver)
        if name is None or os.geteuid() != 0:
            return None
        unified = is_unified(self.root)
        place = name.lstrip("/")
        parents = {each: self.root / place if unified else self.root / each / place for each in BOUND}
        try:
            for controller, parent in parents.items():
                make_group(parent, controller, unified=unified)
        except OSError:
            return None
        bind_together(parents, self.most, unified=unified)
        return name

    def close(self) -> None:
        """Remove the group, if nothing runs in it: the engine leaves it, in every hierarchy there is. Blocks, shortly."""
        if os.geteuid() != 0 or not self.root.is_dir():
            return
        hierarchies = (
            [self.root] if is_unified(self.root) else [each for each in self.root.iterdir() if each.is_dir()]
        )
        for name in filter(None, map(self.name, _DRIVERS)):
            for hierarchy in hierarchies:
                removed(hierarchy / name.lstrip("/"))
