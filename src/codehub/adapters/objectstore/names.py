"""Names as a tar stream writes them go in, paths inside the home come out, as bytes.

Says of each whether it stays inside.
"""

from collections.abc import Iterator


def normalise(name: bytes) -> bytes | None:
    """Return the path below the home ("" for the home itself), or None if it is absolute or climbs."""
    if not name or name[:1] == b"/":
        return None
    if name[:2] == b"./" and b"/." not in name and b"//" not in name and name[-1:] != b"/":
        return name[2:]  # how tar writes nearly all of them
    components = [part for part in name.split(b"/") if part not in (b"", b".")]
    return None if b".." in components else b"/".join(components)


def parents(path: bytes) -> Iterator[bytes]:
    """Yield every directory above a path, the home itself left out."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def leads_outside(path: bytes, target: bytes) -> bool:
    """Whether a symlink at `path` leads out of the home, by its target alone."""
    if target[:1] == b"/":
        return True
    depth = path.count(b"/")
    for part in target.split(b"/"):
        if part == b"..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in (b"", b"."):
            depth += 1
    return False
