"""What a call must name to touch a volume."""

import pytest

from codehub.core.observation import UNTOLD, Volume


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
