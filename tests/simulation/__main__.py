"""`make simulate SEEDS=… SEED=…` and `make mutants`: many seeds, one seed
with its story, or a search for seeds that kill mutants.
"""

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.simulation.faults import Faults
from tests.simulation.mutants import MUTANTS, NEEDS, alive, is_of_cluster
from tests.simulation.run import Outcome, run
from tests.simulation.story import shrink, tell

KILLERS = Path(__file__).with_name("killers.json")
KEPT_MAX = 4
_WANTED = 2
"""With one alone, the next change of the engine might leave none."""
_SEARCHED_MAX = 2_000


def outcomes(seeds: Sequence[int], *, in_cluster: bool) -> Iterator[Outcome]:
    """Run the seeds on all cores, in order."""
    with ProcessPoolExecutor() as pool:
        yield from pool.map(partial(run, in_cluster=in_cluster), seeds, chunksize=4)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument(
        "--only", help="with --seed: the numbers of the faults that may strike, with commas, or none"
    )
    parser.add_argument("--cluster", action="store_true", help="with what only a cluster does")
    parser.add_argument(
        "--mutants", action="store_true", help="search seeds that kill each mutant, and record them"
    )
    asked = parser.parse_args()
    if asked.mutants:
        return search()
    if asked.seed is not None:
        return replay(asked.seed, asked.only, in_cluster=asked.cluster)
    return survey(range(asked.first, asked.first + asked.seeds), in_cluster=asked.cluster)


def replay(seed: int, only: str | None, *, in_cluster: bool) -> int:
    numbers = None if not only else [] if only == "none" else [int(number) for number in only.split(",")]
    outcome = run(seed, only=numbers, in_cluster=in_cluster)
    if outcome.broken is None:
        _say(
            f"seed {seed}: every contract holds ({outcome.passes} passes, {len(outcome.strikes)} faults, {outcome.digest[:12]})"
        )
        return 0
    _say(tell(outcome if numbers is not None else shrink(outcome), known=outcome))
    return 1


def survey(seeds: Sequence[int], *, in_cluster: bool) -> int:
    began, used = time.perf_counter(), _processor_s()
    passes = faults = count = 0
    workspace_s = 0.0
    for outcome in outcomes(seeds, in_cluster=in_cluster):
        count += 1
        passes, faults = passes + outcome.passes, faults + len(outcome.strikes)
        workspace_s += outcome.workspace_seconds
        if outcome.broken is not None:
            _say(tell(shrink(outcome), known=outcome))
            return 1
        if count % 100 == 0:
            _say(f"{count} seeds, {passes:,} passes, {faults:,} faults: every contract holds")
    core_s = _processor_s() - used
    _say(
        f"{count} seeds: every contract holds. {passes:,} passes, {faults:,} faults, {workspace_s / 86400:,.1f} workspace-days"
        f" in {time.perf_counter() - began:.0f} s; {core_s / count:.2f} core-seconds a seed, {passes / core_s:,.0f} passes and"
        f" {workspace_s / 86400 / core_s:.2f} workspace-days per second of one core"
    )
    return 0


def kills(name: str, seed: int) -> str | None:
    """Return the contract that this seed sees the mutant break. One that only falls over has shown
    nothing.
    """
    with alive(name):
        outcome = run(seed, in_cluster=is_of_cluster(name))
    if outcome.broken is None or outcome.broken.contract == "no task fails":
        return None
    return outcome.broken.contract


def promising(name: str) -> list[int]:
    """Return the seeds to search, those first in which what this mutant needs is rife."""

    def chance(seed: int) -> float:
        rates = Faults(seed, in_cluster=is_of_cluster(name)).rates
        return math.prod(rates.get(fault, 0.0) for fault in NEEDS.get(name, ()))

    return sorted(range(_SEARCHED_MAX), key=chance, reverse=True)


def search() -> int:
    known = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    killers: dict[str, dict[str, str]] = {}
    with ProcessPoolExecutor() as pool:
        for name in MUTANTS:
            order = [*map(int, known.get(name, {})), *promising(name)]
            killers[name] = {}
            for start in range(0, len(order), 8):
                batch = order[start : start + 8]
                for seed, contract in zip(batch, pool.map(partial(kills, name), batch), strict=True):
                    if contract is None or len(killers[name]) >= KEPT_MAX:
                        continue
                    if (
                        run(seed, in_cluster=is_of_cluster(name)).broken is None
                    ):  # else the seed has found a bug of ours
                        killers[name][str(seed)] = contract
                if len(killers[name]) >= _WANTED:
                    break
            KILLERS.write_text(json.dumps({**known, **killers}, indent=2) + "\n")
            _say(f"{name}: {killers[name] or f'SURVIVES {_SEARCHED_MAX} seeds'}")
    KILLERS.write_text(json.dumps(killers, indent=2) + "\n")
    return 0 if all(killers.values()) else 1


def _processor_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
