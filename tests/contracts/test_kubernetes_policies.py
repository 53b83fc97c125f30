"""Network policies as values: what a workspace and a Job may reach, and who may reach them."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from structlog.testing import capture_logs

from codehub.adapters.kubernetes.isolation import problems
from codehub.adapters.kubernetes.isolation_probe import NotProbed, Probed, probe_manifest
from codehub.adapters.kubernetes.policies import Reach, WrongPeer, digest, parse_peers, policies
from codehub.adapters.system.machine import SystemClock
from codehub.app.isolation import _Keeper
from codehub.core.messages import Code, Message

INSTALLATION = "11111111-2222-3333-4444-555555555555"
ADMITTED = parse_peers("codehub/app.kubernetes.io/name=codehub")


def spec(of: str, reach: Reach | None = None) -> Any:
    return policies(INSTALLATION, reach or Reach(ADMITTED))[f"codehub-{INSTALLATION}-{of}"]["spec"]


def may_reach(of: str, address: str, port: int, reach: Reach | None = None) -> bool:
    """Whether the policy lets them connect to an address that no selector names."""
    return any(
        (not rule.get("ports") or port in [each["port"] for each in rule["ports"]])
        and (not rule.get("to") or any(is_in(address, peer) for peer in rule["to"]))
        for rule in spec(of, reach)["egress"]
    )


def is_in(address: str, peer: Mapping[str, Any]) -> bool:
    block = peer.get("ipBlock")
    if block is None:
        return False
    asked, networks = ip_address(address), [ip_network(each) for each in block.get("except", ())]
    return asked in ip_network(block["cidr"]) and not any(asked in network for network in networks)


@pytest.mark.parametrize(
    ("address", "port", "workspace", "job"),
    [
        ("93.184.216.34", 443, True, True),
        ("2606:2800:220:1::1", 443, True, True),
        ("10.96.0.1", 443, False, True),
        ("10.0.3.7", 5432, False, True),
        ("172.31.255.254", 80, False, True),
        ("192.168.1.1", 80, False, True),
        ("100.64.3.2", 10250, False, True),
        ("198.19.0.1", 80, False, True),
        ("240.3.2.1", 80, False, True),
        ("fd12:3456::1", 443, False, True),
        ("169.254.169.254", 80, False, False),
        ("169.254.170.2", 80, False, False),
        ("168.63.129.16", 80, False, False),
        ("192.0.0.192", 80, False, False),
        ("fe80::1", 80, False, False),
        ("fd00:ec2::254", 80, False, False),
        ("10.96.0.10", 53, True, True),
        ("169.254.20.10", 53, True, True),
    ],
)
def test_what_workspaces_and_jobs_may_reach(address: str, port: int, workspace: bool, job: bool) -> None:
    assert (may_reach("workspaces", address, port), may_reach("jobs", address, port)) == (workspace, job)


def test_what_the_operator_allows_is_reached_and_what_is_refused_is_not_even_then() -> None:
    reach = Reach(
        ADMITTED,
        allowed=(ip_network("10.20.0.0/16"), ip_network("192.168.7.7/32")),
        refused=(ip_network("203.0.113.0/24"), ip_network("10.20.9.0/24"), ip_network("192.168.7.0/24")),
    )
    reached = {
        address: may_reach("workspaces", address, 443, reach)
        for address in ("10.20.1.1", "10.20.9.1", "10.21.1.1", "192.168.7.7", "203.0.113.9", "203.0.114.9")
    }
    assert [address for address, is_reached in reached.items() if is_reached] == ["10.20.1.1", "203.0.114.9"]


def test_without_the_world_names_are_left_and_no_rule_that_would_mean_everybody() -> None:
    reach = Reach(ADMITTED, refused=(ip_network("0.0.0.0/0"), ip_network("::/0")))
    assert [rule.keys() for rule in spec("workspaces", reach)["egress"]] == [{"ports"}]


def test_no_address_is_excepted_twice() -> None:
    reach = Reach(ADMITTED, refused=(ip_network("10.96.0.1/32"), ip_network("10.0.0.0/8")))
    for peer in spec("workspaces", reach)["egress"][1]["to"]:
        networks = [ip_network(each) for each in peer["ipBlock"].get("except", ())]
        assert not any(each.overlaps(other) for each in networks for other in networks if each is not other)


def test_with_archives_on_a_volume_jobs_reach_nothing() -> None:
    assert spec("jobs", Reach(ADMITTED, has_store=False))["egress"] == []


def test_nobody_reaches_a_job_and_only_who_is_named_a_workspace() -> None:
    assert spec("jobs")["ingress"] == []
    assert spec("workspaces")["ingress"] == [{"from": [*ADMITTED]}]
    # An empty list of peers would admit everybody.
    assert spec("workspaces", Reach(()))["ingress"] == []


def test_policies_hold_for_one_installation_s_own_pods_and_for_those_of_the_probe() -> None:
    probing = probe_manifest(INSTALLATION, "probe", "image", ("true",))["spec"]["template"]
    selector = spec("workspaces")["podSelector"]
    assert selector["matchLabels"] == {"codehub.dev/install": INSTALLATION}
    (roles,) = selector["matchExpressions"]
    assert (roles["key"], roles["operator"], roles["values"]) == (
        "codehub.dev/role",
        "In",
        ["instance", "probe"],
    )
    assert probing["metadata"]["labels"]["codehub.dev/role"] in roles["values"]
    for of in ("workspaces", "jobs"):
        assert spec(of)["policyTypes"] == ["Ingress", "Egress"]


def test_peers_are_networks_or_pods_and_never_a_workspace() -> None:
    network, namespace, pods = parse_peers("10.1.2.0/24, tools, code-hub/app.kubernetes.io/name=codehub")
    not_ours = {"matchExpressions": [{"key": "codehub.dev/role", "operator": "DoesNotExist"}]}
    assert network == {"ipBlock": {"cidr": "10.1.2.0/24"}}
    assert namespace == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tools"}},
        "podSelector": not_ours,
    }
    assert pods["podSelector"] == {**not_ours, "matchLabels": {"app.kubernetes.io/name": "codehub"}}


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "Tools", "tools/", "tools/label", "*", "a b"])
def test_who_can_not_be_named_so_is_refused_by_what_was_written(text: str) -> None:
    with pytest.raises(WrongPeer, match="is neither a network"):
        parse_peers(f"10.0.0.0/8,{text}")


def test_other_policies_have_another_digest() -> None:
    made = policies(INSTALLATION, Reach(ADMITTED))
    assert digest(made) == digest(policies(INSTALLATION, Reach(ADMITTED)))
    assert digest(made) != digest(policies(INSTALLATION, Reach(parse_peers("10.0.0.0/8"))))


@pytest.mark.parametrize(
    ("probed", "codes"),
    [
        (Probed((), is_admitted=True), []),
        (Probed(("workspace", "api-server", "node"), is_admitted=True), [Code.REACHES_WORKSPACES]),
        (Probed(("node",), is_admitted=True), [Code.REACHES_NODE]),
        (Probed((), is_admitted=False), [Code.NOT_ADMITTED]),
        (
            Probed(("metadata", "api-server"), is_admitted=False),
            [Code.REACHES_API_SERVER, Code.REACHES_METADATA, Code.NOT_ADMITTED],
        ),
    ],
)
def test_what_a_probe_finds_is_a_problem_each(probed: Probed, codes: Sequence[Code]) -> None:
    assert [problem.code for problem in problems(probed)] == codes


class ProbedElsewhere:
    """Stands for the policies, while another controller probes them."""

    async def is_known(self) -> bool:
        return False

    async def probe(self) -> Probed:
        raise NotProbed(Message(Code.PROBE_UNDER_WAY))


async def test_a_controller_that_meets_another_s_probe_warns_of_nothing() -> None:
    keeper = _Keeper(ProbedElsewhere(), SystemClock())  # type: ignore[arg-type]
    with capture_logs() as logs:
        assert not await keeper._probe()
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("probe_under_way", "info")]
