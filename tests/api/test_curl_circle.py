"""With curl alone, as wire.md says: the whole life of a workspace with a real IDE."""

from pathlib import Path

from tests.support.curl import CURL, Curl, go_round
from tests.support.program import running


@CURL
def test_with_curl_alone_a_workspace_goes_through_its_whole_life(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, initial_admin_password="correct horse", ide="jupyterlab") as server:
        go_round(Curl(server, tmp_path / "jar"))
