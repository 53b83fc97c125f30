"""What becomes of a test cluster's node: when it falls silent, and what it takes along without a word."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.support.cluster.cluster import TestCluster


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether its node has told that it is ready: of one that
    never was, nothing tells that the node fell silent.
    """
    return ("Ready", "True") in [(each["type"], each["status"]) for each in pod["status"]["conditions"]]


def power_off(cluster: TestCluster, pod: Mapping[str, Any]) -> None:
    """End what runs in a Pod as a node does that loses its power: nobody tells the cluster."""
    for pid in cluster.processes_in(pod):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
