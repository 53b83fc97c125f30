"""What a call must name to touch a volume, and which volume may be the last copy of an archive."""

from dataclasses import replace

import pytest
from tests.support.workspaces import workspace

from codehub.core.archives import CommittedArchive
from codehub.core.judge import holds_lost_archive
from codehub.core.observation import UNTOLD, Volume
from codehub.core.workspace import HomeCtx


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        (Volume("v1"), "v1"),
        (Volume(None, bears="v1"), "v1"),
        (Volume(None, bears=UNTOLD), UNTOLD),
        (Volume(None), None),
    ],
)
def test_a_volume_is_named_by_its_identity_though_it_was_lost(volume: Volume, name: str | None) -> None:
    assert volume.name == name


KEY, OTHER_KEY = "w/1/home.tar.zst", "w/2/home.tar.zst"


@pytest.mark.parametrize(
    ("volume", "home", "is_last"),
    [
        (Volume("v2", made_from=KEY), HomeCtx(), True),
        (Volume("v2", made_from=OTHER_KEY), HomeCtx(), False),
        (Volume("v2"), HomeCtx(), False),
        (Volume("v2", made_from=KEY), HomeCtx("v2"), False),
        (Volume("v2", made_from=KEY), HomeCtx(replaces="v2"), False),
        (Volume(None, made_from=KEY), HomeCtx(), False),
    ],
    ids=["lost", "there", "made empty", "the row's own", "given up", "half"],
)
def test_a_strange_volume_is_the_last_copy_of_an_archive_that_is_gone(
    volume: Volume, home: HomeCtx, is_last: bool
) -> None:
    status = replace(workspace().status, home_ctx=home)
    assert holds_lost_archive(status, volume, [CommittedArchive(OTHER_KEY, None)]) is is_last
