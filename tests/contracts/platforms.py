"""Every platform, for suites that each of them must pass. Those that need an engine or a cluster say so."""

import pytest
from tests.support.docker import DOCKER_SUITE
from tests.support.kubernetes import KUBERNETES_SUITE

PLATFORMS = (
    "memory",
    "local",
    "local-without-sandbox",
    pytest.param("docker", marks=DOCKER_SUITE),
    pytest.param("kubernetes", marks=KUBERNETES_SUITE),
)
