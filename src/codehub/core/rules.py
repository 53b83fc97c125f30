"""The numbers that decide: time limits, retries, back-off, crash loops. In production the settings
replace them all (rule_settings.py); a test holds the defaults of both equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType

from codehub.core.operations import Operation

_MINUTE = timedelta(minutes=1)
_DOUBLED_MAX = 64


def _default_limits() -> Mapping[Operation, timedelta]:
    return MappingProxyType(
        {
            Operation.PROVISIONING: _MINUTE,
            Operation.CREATE_EMPTY_ARCHIVE: _MINUTE,
            Operation.STARTING: 5 * _MINUTE,
            Operation.STOPPING: _MINUTE,
            Operation.RESTORING: 30 * _MINUTE,
            Operation.ARCHIVING: 30 * _MINUTE,
            Operation.DELETING: 5 * _MINUTE,
        }
    )


@dataclass(frozen=True, slots=True)
class Rules:
    """Every number that a decision depends on."""

    time_limits: Mapping[Operation, timedelta] = field(default_factory=_default_limits)
    retries_max: int = 3
    backoff_s_min: float = 1.0
    backoff_s_max: float = 30.0
    unreachable_retry_s: float = 5.0
    failed_checks_max: int = 3
    restarts_max: int = 5
    restart_window: timedelta = timedelta(minutes=10)
    look_gap_max: timedelta = timedelta(seconds=10)
    """Looks further apart than this leave a gap, in which operations' clocks stand still."""

    def backoff(self, error_count: int, jitter: float) -> timedelta:
        """Return how long to wait after that many failures: it
        doubles, is spread by jitter in [0, 1), and is bounded.
        """
        ceiling = min(self.backoff_s_max, self.backoff_s_min * 2 ** min(error_count, _DOUBLED_MAX))
        return timedelta(seconds=self.backoff_s_min + jitter * (ceiling - self.backoff_s_min))

    def pause(self, tried: timedelta) -> timedelta:
        """Return how long to wait after a try that reached nobody: as long as it
        took, so that half of the time a person can give it up.
        """
        return min(
            max(tried, timedelta(seconds=self.unreachable_retry_s)), timedelta(seconds=self.backoff_s_max)
        )

    def is_backing_off(self, retry_at: datetime, now: datetime) -> bool:
        """Whether it is too early to try again. A time that no back-off
        reaches was written by a clock that has been set back.
        """
        return now < retry_at <= now + timedelta(seconds=self.backoff_s_max)


DEFAULT_RULES = Rules()
