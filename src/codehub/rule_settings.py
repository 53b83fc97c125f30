"""The settings behind the rules: time limits, retries, periods, lanes, retention, what a new workspace gets.

Each with its bounds.
"""

from datetime import timedelta
from types import MappingProxyType

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings

from codehub.core.operations import Operation
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.core.workspace import Resources

_DAY_S = 86_400
_LOOKS_PER_GAP = 2
_PAIRS = (
    ("backoff_seconds_min", "backoff_seconds_max"),
    ("probe_seconds_min", "probe_seconds_max"),
)


def _time_limit(default_s: int, what: str) -> int:
    limit: int = Field(default_s, ge=1, le=_DAY_S, description=f"How long {what} may take, in seconds.")
    return limit


class RuleSettings(BaseSettings):
    """What an operator may change of how the controller decides, and of how much it does at once."""

    idle_period_seconds: float = Field(
        10.0,
        gt=0,
        le=_DAY_S,
        description="How often the controller looks at everything while nothing moves, in seconds.",
    )
    active_period_seconds: float = Field(
        2.0,
        gt=0,
        le=_DAY_S,
        description="How often the controller looks while something moves, in seconds.",
    )
    probe_seconds_min: float = Field(
        0.05,
        gt=0,
        le=60,
        description="How soon a starting IDE is asked for the first time whether it is healthy, in seconds.",
    )
    probe_seconds_max: float = Field(
        1.0, gt=0, le=60, description="The longest wait between two such questions, in seconds."
    )
    sweep_period_seconds: float = Field(
        3600.0, ge=1, le=_DAY_S, description="How often every archive is looked at, in seconds."
    )
    ttl_period_seconds: float = Field(
        5.0, gt=0, le=3600, description="How often times to live are looked at, in seconds."
    )
    gc_period_seconds: float = Field(
        3600.0, ge=1, le=7 * _DAY_S, description="How often garbage is collected, in seconds."
    )
    steps_at_once: int = Field(
        64,
        ge=1,
        le=1024,
        description="How many short steps (start, stop, delete) one controller does at once.",
    )
    long_steps_at_once: int = Field(
        2, ge=1, le=256, description="How many archives and restores one controller does at once."
    )

    time_limit_provisioning_seconds: int = _time_limit(60, "making a home")
    time_limit_create_empty_archive_seconds: int = _time_limit(60, "making an empty archive")
    time_limit_restoring_seconds: int = _time_limit(1800, "restoring a home from its archive")
    time_limit_starting_seconds: int = _time_limit(300, "a start, its image's download included,")
    time_limit_stopping_seconds: int = _time_limit(60, "a stop")
    time_limit_archiving_seconds: int = _time_limit(1800, "archiving a home")
    time_limit_deleting_seconds: int = _time_limit(300, "a deletion")

    retries: int = Field(
        3, ge=0, le=100, description="How often a failed step is tried again before it is an ERROR."
    )
    backoff_seconds_min: float = Field(
        1.0,
        gt=0,
        le=3600,
        description="The shortest pause before another try, in seconds. It doubles with each.",
    )
    backoff_seconds_max: float = Field(
        30.0, gt=0, le=3600, description="The longest pause before another try, in seconds."
    )
    unreachable_retry_seconds: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="The shortest pause before a backend that did not answer is asked again.",
    )
    failed_checks: int = Field(
        3, ge=1, le=1000, description="How many failed health checks in a row make a running IDE unhealthy."
    )
    restarts: int = Field(
        5,
        ge=0,
        le=1000,
        description="How often a workspace that died is started again within the restart window.",
    )
    restart_window_seconds: int = Field(
        600, ge=1, le=_DAY_S, description="The restart window, in seconds: more deaths in it are an ERROR."
    )
    history_seconds: int = Field(
        90 * _DAY_S,
        ge=3600,
        le=2_147_483_647,
        description="How long the history of workspaces is kept, in seconds.",
    )

    default_memory_mb: int = Field(
        2048, ge=64, description="The memory of a workspace that asks for none, in MB."
    )
    default_cpus: float = Field(2.0, ge=0.1, description="The processors of a workspace that asks for none.")
    default_pids: int = Field(1024, ge=16, description="The processes of a workspace that asks for none.")
    default_disk_mb: int = Field(20_480, ge=64, description="The size of a home that asks for none, in MB.")

    @model_validator(mode="after")
    def _least_below_most(self) -> "RuleSettings":
        for least, most in _PAIRS:
            if getattr(self, least) > getattr(self, most):
                raise ValueError(
                    f"CODEHUB_{least.upper()} is more than CODEHUB_{most.upper()}: lower the first, or raise the second."
                )
        return self

    @property
    def rules(self) -> Rules:
        limits: dict[Operation, timedelta] = {
            operation: timedelta(seconds=getattr(self, f"time_limit_{operation.lower()}_seconds"))
            for operation in Operation
            if operation is not Operation.NONE
        }
        return Rules(
            MappingProxyType(limits),
            retries_max=self.retries,
            backoff_s_min=self.backoff_seconds_min,
            backoff_s_max=self.backoff_seconds_max,
            unreachable_retry_s=self.unreachable_retry_seconds,
            failed_checks_max=self.failed_checks,
            restarts_max=self.restarts,
            restart_window=timedelta(seconds=self.restart_window_seconds),
            # A period that is longer than the gap would let no operation's time ever be up.
            look_gap_max=max(
                DEFAULT_RULES.look_gap_max, timedelta(seconds=_LOOKS_PER_GAP * self.active_period_seconds)
            ),
        )

    @property
    def default_resources(self) -> Resources:
        return Resources(self.default_memory_mb, self.default_cpus, self.default_pids, self.default_disk_mb)
