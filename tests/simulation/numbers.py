"""The numbers of a simulated installation: minutes instead of hours and
days, so that a run of an hour sees everything several times.
"""

from datetime import UTC, datetime, timedelta

from codehub.core.limits import Limits
from codehub.core.operations import Operation
from codehub.core.rules import DEFAULT_RULES, Rules
from codehub.engine.system import Cadence

EPOCH = datetime(2026, 11, 16, tzinfo=UTC)
GRACE = timedelta(minutes=5)
TRASH_S = 400
FLUSH_S = 30.0
FREE_MB = 100_000
RULES = Rules(
    time_limits={
        **DEFAULT_RULES.time_limits,
        Operation.RESTORING: timedelta(minutes=5),
        Operation.ARCHIVING: timedelta(minutes=5),
    }
)
CADENCE = Cadence(sweep_s=120.0, short_max=4, long_max=1)
LIMITS = Limits(per_user=3, total=5)
