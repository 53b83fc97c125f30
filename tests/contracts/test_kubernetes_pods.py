"""Pods and claims as values: what is created keeps the
security floor, and what the cluster says is read right.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from tests.support.instances import new_spec

from codehub.adapters.kubernetes.claims import claim_manifest, growth, is_home, parse_claim
from codehub.adapters.kubernetes.jobs import archive_work, job_manifest, provision_work
from codehub.adapters.kubernetes.pod_patch import NO_PATCH, PodPatch, WrongPatch, checked_patch
from codehub.adapters.kubernetes.pods import fingerprint, parse_pod, pod_manifest
from codehub.core.ides import IDES
from codehub.core.observation import UNTOLD, Volume
from codehub.core.workspace import Resources
from codehub.ports.instances import TcpUpstream

INSTALLATION = "11111111-2222-3333-4444-555555555555"
WORKSPACE = UUID("00000000-0000-4000-8000-000000000001")
EVERYTHING = checked_patch(
    {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "runtimeClassName": "gvisor",
            "priorityClassName": "low",
            "imagePullSecrets": [{"name": "registry"}],
            "hostUsers": False,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}}],
            "container": {
                "env": [{"name": "TEAM", "value": "a"}],
                "imagePullPolicy": "Always",
                "resources": {
                    "claims": [{"name": "gpu"}],
                    "limits": {"nvidia.com/gpu": 1},
                    "requests": {"cpu": "500m"},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
            },
        },
    }
)


def pod(patch: PodPatch = NO_PATCH, ide: str = "code-server") -> dict[str, Any]:
    spec = new_spec(workspace_id=WORKSPACE, ide=ide, resources=Resources(2048, 2.0, 100))
    return pod_manifest(INSTALLATION, spec, "volume", IDES[ide], patch)


@pytest.mark.parametrize("patch", [NO_PATCH, EVERYTHING], ids=["no patch", "everything that a patch may add"])
def test_every_pod_keeps_the_security_floor(patch: PodPatch) -> None:
    jobs = [
        job_manifest(INSTALLATION, WORKSPACE, "image", work, archive_claim="archives", patch=patch)
        for work in (provision_work(60), archive_work("{}", 1, "directory", 60))
    ]
    for spec in (pod(patch)["spec"], *(job["spec"]["template"]["spec"] for job in jobs)):
        assert (spec["restartPolicy"], spec["automountServiceAccountToken"]) == ("Never", False)
        assert spec["enableServiceLinks"] is False
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert not any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName"))
        (container,) = spec["containers"]
        confinement = container["securityContext"]
        assert confinement["capabilities"] == {"drop": ["ALL"]}
        assert (confinement["allowPrivilegeEscalation"], confinement["privileged"]) == (False, False)
        assert not any("hostPath" in volume for volume in spec["volumes"])


def test_a_pod_sees_of_its_claim_the_home_alone() -> None:
    (mount,) = pod()["spec"]["containers"][0]["volumeMounts"]
    assert mount == {"name": "home", "mountPath": "/home/coder", "subPath": "home"}


def test_memory_is_reserved_whole_and_processors_are_shared() -> None:
    assert pod()["spec"]["containers"][0]["resources"] == {
        "requests": {"memory": "2048Mi", "cpu": "200m"},
        "limits": {"memory": "2048Mi", "cpu": "2000m"},
    }


def test_a_patch_adds_and_what_the_pod_says_itself_stays() -> None:
    made, plain = pod(EVERYTHING), pod()
    container, before = made["spec"]["containers"][0], plain["spec"]["containers"][0]
    assert made["metadata"]["labels"] == {"team": "a", **plain["metadata"]["labels"]}
    assert made["spec"]["runtimeClassName"] == "gvisor"
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["home", "data"]
    assert container["env"] == [*before["env"], {"name": "TEAM", "value": "a"}]
    assert container["resources"]["limits"] == {**before["resources"]["limits"], "nvidia.com/gpu": 1}
    assert container["resources"]["requests"] == {"memory": "2048Mi", "cpu": "500m"}
    assert container["resources"]["claims"] == [{"name": "gpu"}]
    assert container["args"] == before["args"]


def test_a_changed_patch_makes_another_pod_and_a_larger_home_does_not() -> None:
    spec = new_spec(workspace_id=WORKSPACE)
    larger = new_spec(workspace_id=WORKSPACE, resources=Resources(512, 1.0, 128, 99_999))
    assert fingerprint(spec) == fingerprint(larger) != fingerprint(spec, EVERYTHING)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"spec": {"hostNetwork": True}}, "spec.hostNetwork can't be set"),
        ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext can't be set"),
        ({"spec": {"serviceAccountName": "admin"}}, "spec.serviceAccountName can't be set"),
        ({"spec": {"automountServiceAccountToken": True}}, "spec.automountServiceAccountToken can't be set"),
        ({"spec": {"restartPolicy": "Always"}}, "spec.restartPolicy can't be set"),
        ({"spec": {"initContainers": []}}, "spec.initContainers can't be set"),
        ({"spec": {"container": {"securityContext": {}}}}, "spec.container.securityContext can't be set"),
        ({"spec": {"container": {"command": []}}}, "spec.container.command can't be set"),
        (
            {"spec": {"container": {"resources": {"limits": {"memory": "1Ti"}}}}},
            "spec.container.resources.limits.memory can't be set",
        ),
        ({"spec": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}}, r"spec.volumes\[0\] must be"),
        ({"spec": {"volumes": [{"name": "home", "emptyDir": {}}]}}, r"spec.volumes\[0\].name"),
        (
            {
                "spec": {
                    "volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": f"ws-{WORKSPACE}-home"}}]
                }
            },
            "is the home of a workspace",
        ),
        (
            {"spec": {"volumes": [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {}}]}}]}},
            "not projected",
        ),
        (
            {"spec": {"container": {"volumeMounts": [{"name": "x", "mountPath": "/home/coder/data"}]}}},
            r"volumeMounts\[0\].mountPath",
        ),
        (
            {"spec": {"container": {"volumeMounts": [{"name": "x", "mountPath": "/data/../home"}]}}},
            r"volumeMounts\[0\].mountPath",
        ),
        (
            {"spec": {"container": {"volumeMounts": [{"name": "home", "mountPath": "/all"}]}}},
            r"volumeMounts\[0\].name",
        ),
        ({"spec": {"container": {"env": [{"name": "HOME", "value": "/"}]}}}, r"env\[0\].name"),
        ({"metadata": {"labels": {"codehub.dev/install": "other"}}}, "metadata.labels.codehub.dev/install"),
        (
            {
                "metadata": {
                    "annotations": {"container.apparmor.security.beta.kubernetes.io/codehub": "unconfined"}
                }
            },
            "would choose another profile",
        ),
        (
            {"metadata": {"annotations": {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}}},
            "would choose another profile",
        ),
        ({"metadata": {"finalizers": []}}, "metadata.finalizers can't be set"),
        ({"spec": {"hostUsers": True}}, "spec.hostUsers can only be false"),
        (
            {"spec": {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "archives"}}]}},
            "archives holds the archives of all workspaces",
        ),
        ({"spec": {"container": {"env": [{"name": "N", "value": 1}]}}}, r"env\[0\].value must be a text"),
        ({"spec": []}, "spec must be fields with values"),
        ([], "the file must be fields with values"),
    ],
)
def test_a_patch_can_not_weaken_the_floor_and_the_field_is_named(content: Any, named: str) -> None:
    with pytest.raises(WrongPatch, match=named):
        checked_patch(content, archive_claim="archives")


def with_status(**status: Any) -> dict[str, Any]:
    manifest = pod(ide="http")
    manifest["metadata"] |= {"uid": "uid", "resourceVersion": "7"}
    return {**manifest, "status": status}


def test_a_pod_that_runs_is_read_with_where_it_listens() -> None:
    started = "2026-11-18T20:00:00Z"
    state = {"running": {"startedAt": started}}
    parsed = parse_pod(
        with_status(
            phase="Running", podIP="10.1.2.3", containerStatuses=[{"name": "codehub", "state": state}]
        )
    )
    assert parsed is not None
    assert (parsed.running, parsed.has_ended, parsed.is_instance) == (True, False, True)
    assert parsed.upstream == TcpUpstream("10.1.2.3", 8080)
    assert parsed.started_at == datetime(2026, 11, 18, 20, tzinfo=UTC)


def test_a_pod_that_is_being_deleted_runs_no_more() -> None:
    state = {"running": {"startedAt": "2026-11-18T20:00:00Z"}}
    going = with_status(phase="Running", containerStatuses=[{"name": "codehub", "state": state}])
    going["metadata"]["deletionTimestamp"] = "2026-11-18T20:01:00Z"
    parsed = parse_pod(going)
    assert parsed is not None
    assert not parsed.running
    assert not parsed.has_ended


def claim(**annotations: str | None) -> dict[str, Any]:
    made = claim_manifest(
        INSTALLATION, WORKSPACE, "volume", size_mb=10, storage_class=None, made_from="an archive"
    )
    noted = {
        **made["metadata"]["annotations"],
        **{f"codehub.dev/{key}": annotations[key] for key in annotations},
    }
    made["metadata"] |= {
        "uid": "uid",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-18T20:00:00Z",
        "annotations": {name: text for name, text in noted.items() if text is not None},
    }
    return made


@pytest.mark.parametrize(
    ("annotations", "volume"),
    [
        ({}, Volume(None)),
        ({"complete": "2026-11-18T20:00:00+00:00"}, Volume("volume", made_from="an archive")),
        ({"complete": None}, Volume(None, "volume")),
        ({"complete": None, "volume-id": None}, Volume(None, UNTOLD)),
        ({"complete": "2026-11-18T20:00:00+00:00", "volume-id": None}, Volume(None, UNTOLD)),
    ],
    ids=["being made", "complete", "complete lost", "both lost", "volume-id lost"],
)
def test_a_claim_tells_complete_from_half_and_from_lost(
    annotations: dict[str, str | None], volume: Volume
) -> None:
    parsed = parse_claim(claim(**annotations))
    assert parsed is not None
    assert parsed.volume == volume
    assert parsed.volume.made_from == volume.made_from


@pytest.mark.parametrize(
    ("annotations", "is_its_home"),
    [
        ({"complete": "2026-11-18T20:00:00+00:00"}, True),
        ({"complete": None}, True),
        ({}, False),
        ({"complete": "2026-11-18T20:00:00+00:00", "volume-id": "before"}, False),
    ],
    ids=["complete", "its identity is lost", "being made", "another"],
)
def test_a_pod_tells_its_own_home_from_another(annotations: dict[str, str | None], is_its_home: bool) -> None:
    made = parse_pod(with_status(phase="Running"))
    assert made is not None
    parsed = parse_claim(claim(**annotations))
    assert is_home(parsed, made.annotations["codehub.dev/volume-id"]) is is_its_home
    assert is_home(parsed, None), "a Pod that does not tell is content with any"
    assert not is_home(None, None)


def test_a_claim_grows_and_never_shrinks() -> None:
    parsed = parse_claim(claim())
    assert parsed is not None
    assert growth(parsed, 10) is None
    assert growth(parsed, 5) is None
    assert growth(parsed, 11) == {"spec": {"resources": {"requests": {"storage": "11Mi"}}}}


def test_what_is_not_called_as_a_workspace_s_home_is_none() -> None:
    stray = claim()
    stray["metadata"]["name"] = "another"
    assert parse_claim(stray) is None
