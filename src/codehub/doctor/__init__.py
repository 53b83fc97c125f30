"""The doctor: settings in, findings out. Looks at the machine, starts nothing that stays, changes nothing."""

from codehub.doctor.examine import examine
from codehub.doctor.findings import Finding, Verdict, report

__all__ = ["Finding", "Verdict", "examine", "report"]
