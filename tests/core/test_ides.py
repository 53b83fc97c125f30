"""The table of IDEs: each row can be started by every backend that it claims."""

import pytest

from codehub.core.ides import IDES, IdeProfile, expand, ide_profile

PLACES = {"mount": "/w/1", "home": "/home/coder", "socket": "/run/ide.sock"}


@pytest.mark.parametrize("ide", IDES.values(), ids=lambda ide: ide.name)
def test_every_placeholder_of_a_row_is_one_that_backends_fill(ide: IdeProfile) -> None:
    image = expand(ide.image_args or (), mount=PLACES["mount"], home=PLACES["home"])
    process = expand(ide.process_args, **PLACES)
    runtime = expand(ide.runtime_args, runtime="/run")
    path = ide.health_path.format(mount=PLACES["mount"])
    assert not any("{" in text for text in (*image, *process, *runtime, path))
    assert path.startswith("/")


def test_an_ide_with_its_prefix_is_told_where_it_is_mounted() -> None:
    assert ide_profile("jupyterlab").keeps_prefix
    assert "--ServerApp.base_url=/w/1/" in expand(ide_profile("jupyterlab").process_args, **PLACES)


def test_what_is_not_in_the_table_is_any_web_server() -> None:
    assert ide_profile("something-else") is ide_profile("http")
