"""Names as a tar stream writes them go in, paths inside the home come out, as bytes. Says of each whether it stays inside."""

from collections.abc import Iterator


def normal(written: bytes) -> bytes | None:
    """Return the path below the home ("" for the home itself), or None if it is absolute or climbs."""
    if not written or written[:1] == b"/":
        return None
    if written[:2] == b"./" and b"/." not in written and b"//" not in written and written[-1:] != b"/":
        return written[2:]  # how tar writes nearly all of them
    kept = [part for part in written.split(b"/") if part not in (b"", b".")]
    return None if b".." in kept else b"/".join(kept)


def parents(path: bytes) -> Iterator[bytes]:
    """Yield every directory above a path, the home itself left out."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)


def leads_outside(path: bytes, target: bytes) -> bool:
    """Whether a symlink at `path` leads out of the home, by its words alone."""
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
