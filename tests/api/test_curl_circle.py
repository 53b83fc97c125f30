"""With curl alone, as wire.md says: a workspace goes round the whole circle on the embedded default, with a real IDE."""

from pathlib import Path

from tests.support.curl import CURL, Curl, go_round
from tests.support.program import running


@CURL
def test_with_curl_alone_a_workspace_goes_round_the_whole_circle(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, initial_admin_password="correct horse", ide="jupyterlab") as server:
        go_round(Curl(server, tmp_path / "jar"))
