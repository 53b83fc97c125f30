"""Metrics for Prometheus: one registry per process, nothing global."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from codehub.core.operations import Operation, Phase

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)


class PrometheusMetrics:
    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._phases = Gauge("codehub_workspaces", "Workspaces in each phase.", ["phase"], registry=registry)
        self._requests = Histogram(
            "codehub_http_request_seconds",
            "HTTP requests by route and status.",
            ["method", "route", "status"],
            buckets=_FAST,
            registry=registry,
        )
        self._passes = Histogram(
            "codehub_pass_seconds", "Passes of the controller.", buckets=_FAST, registry=registry
        )
        self._written = Counter("codehub_rows_written", "Rows that passes have written.", registry=registry)
        self._lost = Counter(
            "codehub_swaps_lost", "Writes that lost their compare-and-swap.", registry=registry
        )
        self._operations = Histogram(
            "codehub_operation_seconds",
            "Operations by outcome.",
            ["operation", "outcome"],
            buckets=_SLOW,
            registry=registry,
        )
        self._hints = Counter("codehub_hints", "Hints that were heard.", registry=registry)
        self._lanes = Gauge(
            "codehub_steps_under_way", "Steps under way in each lane.", ["lane"], registry=registry
        )
        self._bytes = Counter(
            "codehub_archive_bytes",
            "Bytes that archives and restores have moved.",
            ["stage"],
            registry=registry,
        )
        self._streams = Gauge("codehub_event_streams", "Open event streams.", registry=registry)
        self._cut_off = Counter(
            "codehub_event_streams_cut_off", "Streams whose reader was too slow.", registry=registry
        )
        self._free = Gauge(
            "codehub_disk_free_megabytes",
            "Free where homes lie, on the disk that has least.",
            registry=registry,
        )
        self._floor = Gauge(
            "codehub_disk_floor_megabytes", "Below this much free nothing starts.", registry=registry
        )
        self._pages = Counter(
            "codehub_ide_pages",
            "Pages of IDEs: with codehub's script in them (inserted), or why they were left alone.",
            ["outcome"],
            registry=registry,
        )
        for lane in ("short", "long"):
            self._lanes.labels(lane).set(0)

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, status).observe(seconds)

    def record_pass(self, seconds: float, *, written: int, lost: int) -> None:
        self._passes.observe(seconds)
        self._written.inc(written)
        self._lost.inc(lost)

    def record_operation(self, operation: Operation, outcome: str, seconds: float) -> None:
        self._operations.labels(operation.value, outcome).observe(seconds)

    def count_hints(self, count: int) -> None:
        self._hints.inc(count)

    def set_running_steps(self, lane: str, count: int) -> None:
        self._lanes.labels(lane).set(count)

    def count_bytes(self, stage: str, done_bytes: int) -> None:
        self._bytes.labels(stage).inc(done_bytes)

    def set_disk_space(self, free_mb: int, floor_mb: int) -> None:
        self._free.set(free_mb)
        self._floor.set(floor_mb)

    def set_streams(self, count: int) -> None:
        self._streams.set(count)

    def count_cut_off_stream(self) -> None:
        self._cut_off.inc()

    def count_page(self, outcome: str) -> None:
        self._pages.labels(outcome).inc()

    def render(self, phases: Mapping[Phase, int]) -> bytes:
        for phase in Phase:
            self._phases.labels(phase.value).set(phases.get(phase, 0))
        return generate_latest(self._registry)
