"""Mutants: deliberate bugs, one at a time, each of which the judges must
find. One that survives means a judge or a fault is missing.
"""

from tests.simulation.mutants import cluster, control, faces, homes
from tests.simulation.mutants.registry import MUTANTS, NEEDS, alive, is_of_cluster

__all__ = ["MUTANTS", "NEEDS", "alive", "cluster", "control", "faces", "homes", "is_of_cluster"]
