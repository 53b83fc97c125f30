"""When a workspace was last looked at: by its row, and by the passes over everybody."""

import pytest
from tests.support.workspaces import NOW, READY, UNKNOWN, ago, conditions, workspace

from codehub.core.conditions import Conditions
from codehub.core.last_look import everybody_looked_at, last_look
from codehub.core.operations import Operation, Phase

RESTS = workspace(Phase.STANDBY, conditions=conditions(volume=READY), observed_at=ago(500)).status


def test_everybody_was_looked_at_when_the_last_controller_has_looked_at_its_own() -> None:
    assert everybody_looked_at([ago(3), ago(9), ago(1)]) == ago(9)


@pytest.mark.parametrize("passes", [[], [None], [ago(3), None]])
def test_nothing_is_known_of_everybody_while_a_controller_has_not_looked_or_there_is_none(
    passes: list[None],
) -> None:
    assert everybody_looked_at(passes) is None


def test_what_rests_was_looked_at_by_the_last_pass_over_everybody() -> None:
    assert last_look(RESTS, ago(9)) == ago(9)


def test_what_was_written_since_was_looked_at_then() -> None:
    assert last_look(RESTS, ago(501)) == ago(500)


def test_the_row_alone_tells_where_no_pass_over_everybody_is_known() -> None:
    assert last_look(RESTS, None) == ago(500)


def test_no_pass_counts_for_what_was_never_looked_at() -> None:
    assert last_look(workspace(observed_at=None).status, NOW) is None


@pytest.mark.parametrize(
    "blind",
    [
        conditions(volume=UNKNOWN),
        conditions(volume=READY, container=UNKNOWN),
        conditions(archive=UNKNOWN),
    ],
)
def test_no_pass_counts_for_what_it_could_not_look_at(blind: Conditions) -> None:
    status = workspace(conditions=blind, observed_at=ago(500)).status
    assert last_look(status, NOW) == ago(500)


def test_an_unknown_archive_beside_a_volume_decides_only_while_it_is_made() -> None:
    observation = conditions(volume=READY, archive=UNKNOWN)
    rests = workspace(Phase.STANDBY, conditions=observation, observed_at=ago(500)).status
    made = workspace(
        Phase.STANDBY, operation=Operation.ARCHIVING, conditions=observation, observed_at=ago(500)
    ).status
    assert (last_look(rests, NOW), last_look(made, NOW)) == (NOW, ago(500))
