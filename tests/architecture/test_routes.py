"""Only core/route.py knows where workspaces are mounted: no other source, comment or template names it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "codehub"
LITERAL = "/w/"
TEXT = {".py", ".html", ".js", ".css", ".sql", ".toml"}


def naming_the_mount(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.suffix in TEXT)
    return sorted(str(path.relative_to(folder)) for path in files if LITERAL in path.read_text())


def test_only_the_route_knows_where_workspaces_are_mounted() -> None:
    assert naming_the_mount(SOURCE) == ["core/route.py"]


def test_a_module_that_names_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text('link = f"/w/{row.id}/"\n')
    assert naming_the_mount(tmp_path) == ["page.py"]
