"""A pytest plugin: gives every test the marker of its suite, so that
`pytest -m docker` runs one. Refuses a test without a suite.

`make test-NAME` runs the suite NAME. With `-m NAME` files of other suites aren't even imported.
"""

from collections.abc import Mapping, Set
from pathlib import Path, PurePosixPath

import pytest

SUITES: Mapping[str, str] = {
    "core": "the pure core, and the rules of this repository",
    "store": "PostgreSQL, and the contracts of ports",
    "sim": "the engine on the memory platform, and the simulator",
    "local": "this machine as a platform",
    "docker": "Docker as a platform; needs an engine",
    "kubernetes": "Kubernetes as a platform, on a real cluster",
    "s3": "archives in a real S3 server: SeaweedFS, or MinIO by `make test-minio`",
    "circle": "a workspace's whole life with code-server on Docker",
    "chaos": "processes and services that are killed",
    "api": "the API from outside",
    "up": "the program from outside",
    "proxy": "the proxy over real sockets",
    "browser": "the dashboard, also in Chromium",
    "cli": "the command line",
    "package": "the wheel and what deploys it",
    "compose": "compose.yaml, run; not in `make test`",
    "fuzz": "chains of calls; not in `make test`, see `make fuzz`",
}

SUITES_BY_PATH: Mapping[str, tuple[str, ...]] = {
    "api": ("api",),
    "api/test_command.py": ("up",),
    "api/test_curl_circle.py": ("up",),
    "api/test_edge.py": ("proxy",),
    "api/test_fresh_machine.py": ("up",),
    "api/test_logs.py": ("up",),
    "api/test_settings.py": ("up",),
    "api/test_up.py": ("up",),
    "api/test_users_command.py": ("up",),
    "api/test_workers.py": ("proxy",),
    "architecture": ("core",),
    "architecture/test_walk.py": ("api",),
    "browser": ("browser",),
    "browser/test_default_day.py": ("browser", "circle"),
    "chaos": ("chaos",),
    "chaos/test_kubernetes.py": ("kubernetes",),
    "cli": ("cli",),
    "cli/test_separate_roles.py": ("up",),
    "contracts": ("store",),
    "contracts/test_endings.py": ("store", "kubernetes"),
    "contracts/test_instance_access.py": ("local", "docker", "kubernetes"),
    "contracts/test_instances.py": ("local", "docker", "kubernetes"),
    "contracts/test_instance_ports.py": ("local", "docker", "kubernetes"),
    "contracts/test_listening.py": ("local", "docker", "kubernetes"),
    "contracts/storage": ("local", "docker", "kubernetes"),
    "core": ("core",),
    "dashboard": ("browser",),
    "engine": ("sim",),
    "fuzz": ("fuzz",),
    "integration/archives": ("local",),
    "integration/docker": ("docker",),
    "integration/docker/test_circle.py": ("circle",),
    "integration/docker/test_origin_day.py": ("circle",),
    "integration/docker/test_up.py": ("circle",),
    "integration/embedded_postgres": ("store",),
    "integration/jobs": ("local", "s3"),
    "integration/kubernetes": ("kubernetes",),
    "integration/kubernetes_client": ("local",),
    "integration/local_instances": ("local",),
    "integration/s3": ("s3",),
    "integration/test_full_disk.py": ("local",),
    "integration/test_homes_dir.py": ("local",),
    "integration/test_http.py": ("local",),
    "integration/test_local_circle.py": ("local",),
    "integration/test_lineage.py": ("store",),
    "integration/test_migrations.py": ("store",),
    "integration/test_ownership.py": ("store",),
    "integration/test_pairs.py": ("local", "docker", "kubernetes"),
    "integration/test_redis.py": ("store",),
    "integration/test_relay_programs.py": ("local",),
    "integration/test_restored_dumps.py": ("store",),
    "integration/test_schema.py": ("store",),
    "integration/test_store_postgres.py": ("store",),
    "integration/test_statements.py": ("store",),
    "many": ("up",),
    "many/test_on_docker.py": ("docker",),
    "packaging": ("package",),
    "packaging/test_compose.py": ("compose",),
    "proxy": ("proxy",),
    "simulation": ("sim",),
    "text": ("core",),
}
"""The suites of a folder or a file below tests/; a file's own row
wins. A test has the first, unless a marker names another.
"""

LONGEST = (
    "browser/test_first_day.py",
    "integration/kubernetes/test_installed.py",
    "integration/kubernetes/test_bucket.py",
    "integration/kubernetes/test_causes.py",
    "integration/kubernetes/test_whys.py",
    "integration/kubernetes/test_places.py",
    "chaos/test_kubernetes.py",
)
"""Files that begin before all others: no worker is to have one left when the rest is done. That pytest's
arguments name them first does not count beside a folder.
"""

_TESTS = Path(__file__).parents[1]


def suites_of(path: PurePosixPath) -> tuple[str, ...]:
    """The suites that a file's tests belong to, by its path below tests/; none for a file that has no row."""
    rows = (SUITES_BY_PATH.get(str(place)) for place in (path, *path.parents))
    return next((suites for suites in rows if suites is not None), ())


def suite_of(path: PurePosixPath, markers: Set[str]) -> str:
    """The one suite of a test, by its file and its own markers.
    Raises UsageError if there is not exactly one.
    """
    suites, marked = suites_of(path), markers & SUITES.keys()
    if not suites or len(marked) > 1 or not marked <= set(suites):
        raise pytest.UsageError(
            f"tests/{path}: a test marked {sorted(marked)} in a file of {list(suites)} "
            "(tests/support/markers.py)"
        )
    return next(iter(marked), suites[0])


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in SUITES.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    suite = config.getoption("markexpr")
    if suite not in SUITES or collection_path.suffix != ".py":
        return None
    suites = suites_of(_below_tests(collection_path))
    return True if suites and suite not in suites else None


@pytest.hookimpl(tryfirst=True)  # before pytest's own deselects by them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        markers = {mark.name for mark in item.iter_markers()}
        suite = suite_of(_below_tests(item.path), markers)
        if suite not in markers:
            item.add_marker(suite)
    items.sort(key=lambda item: _turn(str(_below_tests(item.path))))


def _turn(path: str) -> int:
    return LONGEST.index(path) if path in LONGEST else len(LONGEST)


def _below_tests(path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(_TESTS) if path.is_relative_to(_TESTS) else path)
