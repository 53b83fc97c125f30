"""Chains of calls that schemathesis derives from the document: what one
call makes, the next one uses. `make fuzz` runs it for long.
"""

import os
import subprocess
import sys

from tests.support.background import Background

EXAMPLES = os.environ.get("CODEHUB_TEST_EXAMPLES", "20")


def test_no_chain_of_calls_breaks_the_server() -> None:
    with Background() as site:
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{site.address}/openapi.json"),
            *("--phases", "stateful", "--max-examples", EXAMPLES, "--generation-deterministic"),
            *("--header", f"Authorization: {site.token}", "--no-color"),
            *("--exclude-path", "/api/v1/events", "--exclude-path", "/api/v1/logout"),
            *("--checks", "not_a_server_error,status_code_conformance,response_schema_conformance"),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
