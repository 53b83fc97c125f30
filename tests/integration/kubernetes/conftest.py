"""A real cluster, and a namespace of it that is a test's alone."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from tests.support.cluster.cluster import TestCluster
from tests.support.kubernetes import Kubernetes


@pytest.fixture
def cluster(kubernetes: Kubernetes) -> TestCluster:
    return kubernetes()


@pytest.fixture
def namespace(cluster: TestCluster) -> Iterator[str]:
    """One that admits restricted Pods alone."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    with cluster.namespace(f"test-{uuid4().hex[:8]}", **restricted) as name:
        yield name
