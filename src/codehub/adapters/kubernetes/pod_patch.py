"""The operator's additions to every workspace's Pod: a YAML file goes in, a checked patch comes out.

It lists what may be added, so that nothing in it can weaken the
security floor. Refuses anything else by its name.
"""

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml  # type: ignore[import-untyped]


class WrongPatch(Exception):
    """A patch that can't be. Its text names the field, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class PodPatch:
    """What is added to a Pod."""

    content: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def apply_to(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Pod with the additions. What the Pod says itself stays."""
        made = copy.deepcopy(dict(manifest))
        for name, values in (self.content.get("metadata") or {}).items():
            made["metadata"][name] = {**values, **made["metadata"].get(name, {})}
        spec = dict(self.content.get("spec") or {})
        added = copy.deepcopy(spec.pop("container", {}))
        made["spec"]["volumes"] = [*made["spec"]["volumes"], *copy.deepcopy(spec.pop("volumes", []))]
        made["spec"] = {**copy.deepcopy(spec), **made["spec"]}
        container = made["spec"]["containers"][0]
        for name in ("env", "volumeMounts"):
            container[name] = [*container[name], *added.pop(name, [])]
        resources = added.pop("resources", {})
        if "claims" in resources:
            container["resources"]["claims"] = resources.pop("claims")
        for kind, amounts in resources.items():
            container["resources"][kind] = {**container["resources"][kind], **amounts}
        container.update(added)
        return made

    @property
    def placement(self) -> Mapping[str, Any]:
        """Return what says where a Pod may run, and with whose images: what works in a home must get to
        it.
        """
        spec = self.content.get("spec") or {}
        return copy.deepcopy({name: spec[name] for name in _PLACEMENT if name in spec})


NO_PATCH = PodPatch()

_OURS = "codehub.dev/"
# Annotations that were fields of the confinement once, and that nodes still read.
_PROFILES = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
_HOME = PurePosixPath("/home/coder")
_OUR_VARIABLES = frozenset({"HOME", "USER", "LOGNAME", "CODEHUB_WORKSPACE", "CODEHUB_POD"})
_OUR_CLAIM = re.compile(r"ws-[0-9a-f-]{36}-home")
# What the Pod Security Standard "restricted" lets a Pod mount, without what holds a service account's token.
_VOLUMES = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "secret"}
)
_PLACEMENT = (
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "schedulerName",
    "tolerations",
)
_TAKEN = frozenset({"cpu", "memory"})

Check = Callable[[str, Any], None]


def read_patch(path: Path, *, archive_claim: str | None = None) -> PodPatch:
    """Read and check the file. No workspace may see the claim with all archives. Raises WrongPatch."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise WrongPatch(f"{path} can't be read: {error}") from None
    except yaml.YAMLError as error:
        raise WrongPatch(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    return checked_patch(content if content is not None else {}, archive_claim=archive_claim)


def checked_patch(content: Any, *, archive_claim: str | None = None) -> PodPatch:
    """Return the patch, if everything in it may be added. Raises WrongPatch."""
    _check_fields("", content, {"metadata": _check_metadata, "spec": _check_spec})
    for number, volume in enumerate((content.get("spec") or {}).get("volumes") or ()):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim is not None and claim == archive_claim:
            where = f"spec.volumes[{number}].persistentVolumeClaim.claimName"
            raise WrongPatch(f"{where}: {claim} holds the archives of all workspaces")
    return PodPatch(content)


def _check_metadata(where: str, value: Any) -> None:
    _check_fields(where, value, {"labels": _check_names, "annotations": _check_names})


def _check_names(where: str, value: Any) -> None:
    for name, text in _require(where, value, dict).items():
        if str(name).startswith(_OURS):
            raise WrongPatch(f"{where}.{name} can't be set: names that begin with {_OURS} are codehub's own")
        if str(name).startswith(_PROFILES):
            raise WrongPatch(f"{where}.{name} can't be set: it would choose another profile of confinement")
        _require(f"{where}.{name}", text, str)


def _check_spec(where: str, value: Any) -> None:
    _check_fields(where, value, _SPEC)


def _check_container(where: str, value: Any) -> None:
    _check_fields(where, value, _CONTAINER)


def _check_resources(where: str, value: Any) -> None:
    _check_fields(where, value, {"claims": _is(list), "limits": _check_limits, "requests": _is(dict)})


def _check_limits(where: str, value: Any) -> None:
    for name in _require(where, value, dict):
        if name in _TAKEN:
            raise WrongPatch(f"{where}.{name} can't be set: each workspace says itself how much it may use")


def _check_variables(where: str, value: Any) -> None:
    for number, variable in enumerate(_require(where, value, list)):
        name = _require(f"{where}[{number}]", variable, dict).get("name")
        if name in _OUR_VARIABLES or not isinstance(name, str):
            raise WrongPatch(f"{where}[{number}].name: {name!r} can't be set here")
        if "value" in variable:
            _require(f"{where}[{number}].value", variable["value"], str)


def _check_volumes(where: str, value: Any) -> None:
    for number, volume in enumerate(_require(where, value, list)):
        here = f"{where}[{number}]"
        kinds = _require(here, volume, dict).keys() - {"name"}
        if volume.get("name") in (None, "home"):
            raise WrongPatch(f"{here}.name must be one of its own: {volume.get('name')!r} is not")
        if len(kinds) != 1 or not kinds <= _VOLUMES:
            raise WrongPatch(f"{here} must be one of {', '.join(sorted(_VOLUMES))}, not {_join(kinds)}")
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if _OUR_CLAIM.fullmatch(str(claim)):
            raise WrongPatch(f"{here}.persistentVolumeClaim.claimName: {claim} is the home of a workspace")


def _check_users(where: str, value: Any) -> None:
    if value is not False:
        raise WrongPatch(f"{where} can only be false: a user namespace of its own for each Pod")


def _check_mounts(where: str, value: Any) -> None:
    for number, mount in enumerate(_require(where, value, list)):
        here = f"{where}[{number}]"
        if _require(here, mount, dict).get("name") == "home":
            raise WrongPatch(f"{here}.name: the home is mounted already, without what lies beside it")
        path = PurePosixPath(_require(f"{here}.mountPath", mount.get("mountPath"), str))
        if (
            not path.is_absolute()
            or ".." in path.parts
            or path.is_relative_to(_HOME)
            or _HOME.is_relative_to(path)
        ):
            raise WrongPatch(f"{here}.mountPath: {path} must be a whole path apart from {_HOME}")


def _is(kind: type) -> Check:
    def check(where: str, value: Any) -> None:
        _require(where, value, kind)

    return check


_SPEC: Mapping[str, Check] = {
    "affinity": _is(dict),
    "container": _check_container,
    "dnsConfig": _is(dict),
    "hostAliases": _is(list),
    "hostUsers": _check_users,
    "imagePullSecrets": _is(list),
    "nodeSelector": _is(dict),
    "preemptionPolicy": _is(str),
    "priorityClassName": _is(str),
    "resourceClaims": _is(list),
    "runtimeClassName": _is(str),
    "schedulerName": _is(str),
    "tolerations": _is(list),
    "topologySpreadConstraints": _is(list),
    "volumes": _check_volumes,
}
_CONTAINER: Mapping[str, Check] = {
    "env": _check_variables,
    "imagePullPolicy": _is(str),
    "resources": _check_resources,
    "volumeMounts": _check_mounts,
}


def _check_fields(where: str, value: Any, known: Mapping[str, Check]) -> None:
    for name, each in _require(where or "the file", value, dict).items():
        here = f"{where}.{name}" if where else str(name)
        check = known.get(name)
        if check is None:
            raise WrongPatch(f"{here} can't be set: here may stand {', '.join(sorted(known))}")
        check(here, each)


def _require(where: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise WrongPatch(f"{where} must be {_KINDS[kind]}, not {value!r}")
    return value


_KINDS: Mapping[type, str] = {dict: "fields with values", list: "a list", str: "a text"}


def _join(kinds: set[str]) -> str:
    return ", ".join(sorted(kinds)) or "nothing"
