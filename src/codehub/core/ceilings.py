"""Ceilings: what an operator lets one workspace or one person have at
most. A request in, a refusal with the bound or nothing out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from codehub.core.messages import Code, Message
from codehub.core.requests import FieldRefusal, Refusal, Refused
from codehub.core.workspace import InstanceBackend, Resources, Spec

PAGE_MAX = 200
"""The most that a page of a list has on any installation: an operator may allow less."""
_HUB = ("docker.io/", "index.docker.io/", "library/")
UNITS: Mapping[str, str] = {"memory_mb": " MB", "cpus": "", "pids": "", "disk_mb": " MB"}


@dataclass(frozen=True, slots=True)
class Images:
    """Which images may run. The operator's own are those that the
    settings name; `patterns` empty: any other one too.
    """

    own: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def allows(self, image: str) -> bool:
        return not self.patterns or self.has_login(image)

    def has_login(self, image: str) -> bool:
        """Whether the operator has named it: only then is the
        operator's registry login shown to its registry.
        """
        return any(fits(image, pattern) for pattern in (*self.own, *self.patterns))


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Of one workspace: `resources` and `images`. Of one page of a list: `page_size`. Of one person: the
    others.
    """

    resources: Resources = field(
        default_factory=lambda: Resources(memory_mb=16_384, cpus=16.0, pids=16_384, disk_mb=102_400)
    )
    images: Images = Images()
    workspaces: int = 100
    tokens: int = 100
    streams: int = 32
    requests_per_minute: int = 3000
    page_size: int = PAGE_MAX


def refuse_spec(ceilings: Ceilings, spec: Spec, before: Spec | None = None) -> Refused | None:
    """Refuse what is above a ceiling, unless it stays as it was: who changes
    a name need not mend what an operator has lowered since.
    """
    for name, unit in UNITS.items():
        asked, most = getattr(spec.resources, name), getattr(ceilings.resources, name)
        if asked > most and (before is None or asked != getattr(before.resources, name)):
            problem = Message(Code.ABOVE_CEILING, {"max": f"{most:g}{unit}"})
            return _refuse_field(FieldRefusal(f"resources.{name}", problem, {"max": most}))
    if before is not None and spec.image_ref == before.image_ref:
        return None
    return None if may_run(ceilings.images, spec) else _not_allowed(ceilings.images)


def refuse_one_more_workspace(ceilings: Ceilings, owned: int) -> Refused | None:
    if owned < ceilings.workspaces:
        return None
    problem = Message(Code.TOO_MANY_WORKSPACES, {"max": ceilings.workspaces})
    return _refuse_field(FieldRefusal("name", problem, {"max": ceilings.workspaces}))


def clamp(ceilings: Ceilings, resources: Resources) -> Resources:
    """Return what a start gives: a workspace that asked for more,
    before its operator lowered a ceiling, gets the ceiling.
    """
    return replace(
        resources,
        **{name: min(getattr(resources, name), getattr(ceilings.resources, name)) for name in UNITS},
    )


def describe_clamp(ceilings: Ceilings, resources: Resources) -> Message | None:
    """Return what a start gives, where that is less than what was asked for."""
    given = clamp(ceilings, resources)
    if given == resources:
        return None
    return Message(
        Code.CLAMPED,
        {
            "memory": given.memory_mb,
            "cpus": f"{given.cpus:g}",
            "pids": given.pids,
            "disk": given.disk_mb,
        },
    )


def may_run(images: Images, spec: Spec) -> bool:
    """Whether its image is allowed. A process of this machine has none."""
    return spec.instance_backend is InstanceBackend.LOCAL_PROCESS or images.allows(spec.image_ref)


def fits(image: str, pattern: str) -> bool:
    """Whether an image is one that a pattern names: `*` stands for
    anything, and a pattern without a tag for every tag.
    """
    image, pattern = _plain(image), _plain(pattern)
    return fnmatchcase(image, pattern) or ("@" not in pattern and fnmatchcase(_without_tag(image), pattern))


def _without_tag(image: str) -> str:
    name = image.partition("@")[0]
    place, slash, last = name.rpartition("/")
    return place + slash + last.partition(":")[0]


def _plain(image: str) -> str:
    """Return a name without what Docker adds by itself, so that one image has one name."""
    for prefix in _HUB:
        image = image.removeprefix(prefix)
    return image


def _not_allowed(images: Images) -> Refused:
    allowed = [*images.patterns, *(image for image in images.own if image not in images.patterns)]
    problem = Message(Code.IMAGE_NOT_LISTED, {"allowed": allowed})
    return _refuse_field(FieldRefusal("image_ref", problem, {"allowed": allowed}))


def _refuse_field(field: FieldRefusal) -> Refused:
    message = Message(Code.OF_FIELD, {"field": field.field, "problem": field.problem})
    return Refused(Refusal.INVALID_REQUEST, message, fields=[field])
