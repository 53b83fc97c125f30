"""What a back-up holds, and what it does not."""

from codehub.core.backups import CopiedHome, Manifest


def manifest(*missing: tuple[str, str]) -> Manifest:
    home = CopiedHome("w", "demo", "v", "w/o/home.tar.zst")
    return Manifest("i", "2026-01-01T00:00:00+00:00", "0", 1, ("a",), 1, (home,), missing)


def test_a_back_up_without_somebodys_home_is_not_whole() -> None:
    assert manifest().is_whole
    assert not manifest(("demo", "its home changed while it was archived")).is_whole
