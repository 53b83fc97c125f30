"""The Role that operators are given, in the chart and as a manifest: what codehub asks for, and no more."""

import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from codehub.adapters.kubernetes.rights import RIGHTS

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("file", ["helm/codehub/templates/rights.yaml", "kubernetes/codehub.yaml"])
def test_the_role_is_what_codehub_asks_for(file: str) -> None:
    text = (DEPLOY / file).read_text()
    (rules,) = re.findall(r"^rules:\n((?:  - \{.*\}\n)+)", text, re.MULTILINE)
    granted = {
        (group, resource, verb)
        for rule in yaml.safe_load(rules)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {
        (kind.api_version.rpartition("/")[0], f"{kind.plural}/{part}" if part else kind.plural, verb)
        for kind, part, verbs in RIGHTS
        for verb in verbs
    }, "change deploy/helm/codehub/templates/rights.yaml, and run `make manifests`"
