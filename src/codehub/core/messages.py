"""What people are told: a code and the facts of the case. Its text stands in the catalogue of each
language.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Code(StrEnum):
    """What may be told, beside a plan's `Why`. The catalogue has each under `reason.` and its value."""

    VERBATIM = "Verbatim"
    """A text of somebody else: a backend's, an exception's, or an older codehub's. It has no translation."""
    SEVERAL = "Several"

    NOTHING_YET = "NothingYet"
    VOLUME_ABSENT = "VolumeAbsent"
    VOLUME_INCOMPLETE = "VolumeIncomplete"
    VOLUME_UNIDENTIFIED = "VolumeUnidentified"
    VOLUME_READY = "VolumeReady"
    VOLUME_FOREIGN = "VolumeForeign"
    VOLUME_UNKNOWN = "VolumeUnknown"
    MARK_MISSING = "MarkMissing"
    NO_ARCHIVE = "NoArchive"
    ARCHIVE_GONE = "ArchiveGone"
    ARCHIVE_READY = "ArchiveReady"
    ARCHIVE_INCOMPLETE = "ArchiveIncomplete"
    ARCHIVE_UNKNOWN = "ArchiveUnknown"
    ARCHIVE_UNSEEN = "ArchiveUnseen"
    INSTANCE_ABSENT = "InstanceAbsent"
    INSTANCE_STOPPED = "InstanceStopped"
    INSTANCE_READY = "InstanceReady"
    INSTANCE_UNHEALTHY = "InstanceUnhealthy"
    INSTANCE_UNKNOWN = "InstanceUnknown"
    HEALTHY = "Healthy"

    WITHOUT_VOLUME = "WithoutVolume"
    IDENTITY_LOST = "IdentityLost"
    VOLUME_LOST = "VolumeLost"
    ARCHIVE_LOST = "ArchiveLost"
    NEWER_ARCHIVE = "NewerArchive"
    NOT_REPLACED = "NotReplaced"
    NOT_DELETED = "NotDeleted"
    LAST_COPY = "LastCopy"
    WORKED_ON_SINCE = "WorkedOnSince"
    ARCHIVED_SINCE = "ArchivedSince"
    DIED_AGAIN = "DiedAgain"
    TOOK_LONGER = "TookLonger"
    TOOK_LONGER_LAST_TRY = "TookLongerLastTry"
    ENDED_EARLY = "EndedEarly"
    ENDED_SAYING = "EndedSaying"
    FAILED_AGAIN = "FailedAgain"
    IMAGE_NOT_ALLOWED = "ImageNotAllowed"
    CLAMPED = "Clamped"
    NO_ANSWER = "NoAnswer"
    NO_ROOM = "NoRoom"

    NO_SUCH_VOLUME = "NoSuchVolume"
    NOTHING_TO_ADOPT = "NothingToAdopt"
    HAS_IDENTITY = "HasIdentity"
    OTHER_VOLUME = "OtherVolume"
    VOLUME_IN_USE = "VolumeInUse"
    VOLUME_HELD = "VolumeHeld"
    NEWER_JOB = "NewerJob"
    JOB_SILENT = "JobSilent"
    JOB_STOPPED = "JobStopped"
    GRANTS_UNREADABLE = "GrantsUnreadable"
    GRANTS_REFUSED = "GrantsRefused"
    HOME_NOT_EMPTY = "HomeNotEmpty"
    OTHER_FILESYSTEM = "OtherFilesystem"
    TOO_MANY_DEVICES = "TooManyDevices"
    NEEDS_SANDBOX = "NeedsSandbox"
    HOME_UNREADABLE = "HomeUnreadable"
    HOME_CHANGED = "HomeChanged"
    HOME_UNWRITABLE = "HomeUnwritable"
    HOME_NOT_RESTORED = "HomeNotRestored"
    NO_ACLS = "NoAcls"
    HOMES_FULL = "HomesFull"
    DISK_FAILED = "DiskFailed"
    PATH_UNUSABLE = "PathUnusable"
    PATH_NOT_REMOVED = "PathNotRemoved"
    PATH_FOREIGN = "PathForeign"
    NO_LOCAL_HOME = "NoLocalHome"
    OTHER_INSTALLATION = "OtherInstallation"
    NOT_ANSWERING = "NotAnswering"
    MARK_TO_ADOPT = "MarkToAdopt"
    MARK_OF_HOMES = "MarkOfHomes"
    MARK_OF_DATA = "MarkOfData"
    NAME_OF_HOMES = "NameOfHomes"
    NAME_OF_DATA = "NameOfData"
    MARK_OF_ENGINE = "MarkOfEngine"

    ARCHIVE_OVERTAKEN = "ArchiveOvertaken"
    ARCHIVE_NOT_THERE = "ArchiveNotThere"
    ARCHIVE_DAMAGED = "ArchiveDamaged"
    ARCHIVE_UNFIT = "ArchiveUnfit"
    ARCHIVE_NOT_AS_WRITTEN = "ArchiveNotAsWritten"
    ARCHIVE_LONGER = "ArchiveLonger"
    HOME_UNFIT = "HomeUnfit"
    ACL_UNKEPT = "AclUnkept"
    CAPABILITY_UNGIVEN = "CapabilityUngiven"
    ACL_OF_UNKNOWN = "AclOfUnknown"
    ACL_BY_NAME = "AclByName"
    ATTRIBUTE_MALFORMED = "AttributeMalformed"
    PATH_TOO_LONG = "PathTooLong"
    CHECKSUM_WRONG = "ChecksumWrong"
    META_LATER = "MetaLater"
    STREAM_REFUSED = "StreamRefused"
    ARCHIVES_FULL = "ArchivesFull"
    STORE_REFUSED = "StoreRefused"
    STORE_UNUSABLE = "StoreUnusable"
    STORE_WITHOUT_BUCKET = "StoreWithoutBucket"
    STORE_CREDENTIALS = "StoreCredentials"
    STORE_UNSIGNED = "StoreUnsigned"
    STORE_UNMARKED = "StoreUnmarked"

    USER_IDS_TAKEN = "UserIdsTaken"
    PROCESSES_REMAIN = "ProcessesRemain"
    INSTANCE_UNSEEN = "InstanceUnseen"
    IDE_NOT_STARTED = "IdeNotStarted"
    IDE_NOT_INSTALLED = "IdeNotInstalled"
    IDE_NOT_OFFERED = "IdeNotOffered"
    IDE_FAILS_HERE = "IdeFailsHere"
    IDE_SILENT = "IdeSilent"
    IDE_NOT_COPIED = "IdeNotCopied"
    TOOLS_MISSING = "ToolsMissing"
    HOME_BARRED = "HomeBarred"

    DOCKER_UNREACHABLE = "DockerUnreachable"
    DOCKER_CUT_OFF = "DockerCutOff"
    DOCKER_REFUSED = "DockerRefused"
    DOCKER_FAILED = "DockerFailed"
    DOCKER_LIST_PARTIAL = "DockerListPartial"
    DOCKER_NOT_OURS = "DockerNotOurs"
    KUBERNETES_UNREACHABLE = "KubernetesUnreachable"
    KUBERNETES_SILENT = "KubernetesSilent"
    KUBERNETES_UNTRUSTED = "KubernetesUntrusted"
    KUBERNETES_STRANGER = "KubernetesStranger"
    KUBERNETES_CREDENTIALS = "KubernetesCredentials"
    KUBERNETES_PLUGIN = "KubernetesPlugin"
    KUBERNETES_REFUSED = "KubernetesRefused"
    KUBERNETES_LIST_EXPIRED = "KubernetesListExpired"
    KUBERNETES_UNSEEN = "KubernetesUnseen"
    KUBERNETES_NOT_LISTED = "KubernetesNotListed"
    KUBERNETES_COMMAND = "KubernetesCommand"
    KUBERNETES_COMMAND_LOST = "KubernetesCommandLost"
    CONTAINER_CHANGES = "ContainerChanges"
    CONTAINER_NOT_REMOVED = "ContainerNotRemoved"
    CONTAINER_HOLDS_VOLUME = "ContainerHoldsVolume"
    HELPER_FAILED = "HelperFailed"
    NETWORK_OPEN = "NetworkOpen"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    IMAGE_NOT_FETCHED = "ImageNotFetched"
    REGISTRY_UNREACHABLE = "RegistryUnreachable"

    NO_ADAPTER = "NoAdapter"

    INSTANCE_NOT_RUNNING = "InstanceNotRunning"
    NOT_ENTERED = "NotEntered"
    NO_SUCH_COMMAND = "NoSuchCommand"
    NO_SUCH_DIRECTORY = "NoSuchDirectory"
    COMMAND_UNUSABLE = "CommandUnusable"
    NOTHING_LISTENS = "NothingListens"
    NO_LOOPBACK = "NoLoopback"
    HELPER_NOT_CONNECTED = "HelperNotConnected"
    NO_RELAY_PROGRAM = "NoRelayProgram"

    NEEDED_BY_NOW = "NeededByNow"
    INSTANCE_RUNS_ON_IT = "InstanceRunsOnIt"
    CHANGED_MEANWHILE = "ChangedMeanwhile"
    ITEM_UNIDENTIFIED = "ItemUnidentified"
    ITEM_WORKED_ON = "ItemWorkedOn"
    ITEM_WORKED_ON_SINCE = "ItemWorkedOnSince"
    ITEM_LAST_COPY = "ItemLastCopy"
    OF_BACKEND = "OfBackend"

    UNSCHEDULABLE = "Unschedulable"
    LACKS_RESOURCE = "LacksResource"
    NODES_REFUSE = "NodesRefuse"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    IMAGE_REFUSED = "ImageRefused"
    CONTAINER_NOT_MADE = "ContainerNotMade"
    SANDBOX_FAILED = "SandboxFailed"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    VOLUME_NOT_ATTACHED = "VolumeNotAttached"
    VOLUME_UNBOUND = "VolumeUnbound"
    CLAIM_HELD = "ClaimHeld"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    PLACE_TAKEN = "PlaceTaken"
    QUOTA_EXCEEDED = "QuotaExceeded"
    ADMISSION_REFUSED = "AdmissionRefused"
    NOT_PERMITTED = "NotPermitted"
    NODE_LOST = "NodeLost"
    KUBERNETES_NOT_OURS = "KubernetesNotOurs"
    KUBERNETES_CHANGES = "KubernetesChanges"
    MARK_OF_NAMESPACE = "MarkOfNamespace"
    POD_NOT_MADE = "PodNotMade"
    POD_NOT_BEGUN = "PodNotBegun"
    POD_DELETED = "PodDeleted"
    POD_FAILED = "PodFailed"
    JOB_REMAINS = "JobRemains"
    REACHES_WORKSPACES = "ReachesWorkspaces"
    REACHES_API_SERVER = "ReachesApiServer"
    REACHES_NODE = "ReachesNode"
    REACHES_METADATA = "ReachesMetadata"
    NOT_ADMITTED = "NotAdmitted"
    PROBE_UNDER_WAY = "ProbeUnderWay"
    PROBE_LATE = "ProbeLate"
    PROBE_SILENT = "ProbeSilent"

    GREW = "Grew"
    UNUSED = "Unused"
    VISITED = "Visited"
    ASKED_ON_A_PAGE = "AskedOnAPage"
    ASKED_TO_CREATE = "AskedToCreate"
    ASKED_TO_CHANGE = "AskedToChange"
    ASKED_TO_START = "AskedToStart"
    ASKED_TO_STOP = "AskedToStop"
    ASKED_TO_ARCHIVE = "AskedToArchive"
    ASKED_TO_RECOVER = "AskedToRecover"
    ASKED_TO_ACCEPT_LOSS = "AskedToAcceptLoss"
    ASKED_TO_TAKE_NEWEST = "AskedToTakeNewest"
    ASKED_TO_ADOPT = "AskedToAdopt"
    ASKED_TO_KEEP_AWAKE = "AskedToKeepAwake"
    ASKED_TO_PIN = "AskedToPin"
    ASKED_TO_UNPIN = "AskedToUnpin"
    ASKED_TO_DELETE = "AskedToDelete"
    ASKED_TO_PURGE = "AskedToPurge"
    ASKED_TO_UNDELETE = "AskedToUndelete"
    ASKED_TO_FORGET = "AskedToForget"
    PORT_SHARED = "PortShared"
    PORT_SHARED_UNTIL = "PortSharedUntil"
    PORT_MADE_PRIVATE = "PortMadePrivate"

    OPERATION_UNDER_WAY = "OperationUnderWay"
    DELETE_AFTER_OPERATION = "DeleteAfterOperation"
    UNDELETE_AFTER_DELETING = "UndeleteAfterDeleting"
    RECOVERY_REQUIRED = "RecoveryRequired"
    REVISION_CHANGED = "RevisionChanged"
    DELETED = "Deleted"
    BEING_DELETED = "BeingDeleted"
    DELETION_WAS_ASKED_FOR = "DeletionWasAskedFor"
    TRASH_TIME_OVER = "TrashTimeOver"
    NOT_BEING_DELETED = "NotBeingDeleted"
    DELETION_NOT_HELD_UP = "DeletionNotHeldUp"
    OWNER_LIMIT = "OwnerLimit"
    STOP_ONE = "StopOne"
    RECOVER_OR_DELETE = "RecoverOrDelete"
    TOTAL_LIMIT = "TotalLimit"
    ABOVE_CEILING = "AboveCeiling"
    GIVEN_TWICE = "GivenTwice"
    TOO_MANY_WORKSPACES = "TooManyWorkspaces"
    IMAGE_NOT_LISTED = "ImageNotListed"
    OF_FIELD = "OfField"
    NO_SUCH_WORKSPACE = "NoSuchWorkspace"
    FOREIGN_WORKSPACE = "ForeignWorkspace"
    ADMINS_ONLY = "AdminsOnly"
    OWNER_ONLY = "OwnerOnly"
    READ_ONLY_TOKEN = "ReadOnlyToken"  # noqa: S105  # no password

    WRONG_LOGIN = "WrongLogin"
    WRONG_OLD_PASSWORD = "WrongOldPassword"  # noqa: S105  # no password
    TOO_MANY_TRIES = "TooManyTries"
    SIGN_IN_FIRST = "SignInFirst"
    KEY_ENDED = "KeyEnded"
    SEVERAL_SESSIONS = "SeveralSessions"
    SIGN_IN_CROWDED = "SignInCrowded"
    TOKEN_ONLY_READS = "TokenOnlyReads"  # noqa: S105  # no password
    OTHER_SITE = "OtherSite"
    TOO_MANY_REQUESTS = "TooManyRequests"
    NO_SUCH_TOKEN = "NoSuchToken"  # noqa: S105  # no password
    NO_SUCH_USER = "NoSuchUser"
    USERNAME_TAKEN = "UsernameTaken"
    NAME_TAKEN = "NameTaken"
    LAST_ADMIN = "LastAdmin"
    TOO_MANY_TOKENS = "TooManyTokens"  # no password
    TOO_MANY_STREAMS = "TooManyStreams"
    KEY_USED_BEFORE = "KeyUsedBefore"
    NO_ORIGINS = "NoOrigins"
    OPENED_BY_OWNER = "OpenedByOwner"
    PORT_ABOVE_CEILING = "PortAboveCeiling"
    PUBLIC_NEEDS_END = "PublicNeedsEnd"
    END_IS_PAST = "EndIsPast"
    TOO_MANY_PORTS = "TooManyPorts"
    OF_DELETED_WORKSPACE = "OfDeletedWorkspace"
    FOLLOWED_BY_ADMINS = "FollowedByAdmins"
    SEEN_BY_ADMINS = "SeenByAdmins"
    ONE_WAY_ON = "OneWayOn"
    IDE_NOT_HERE = "IdeNotHere"
    BACKEND_NOT_HERE = "BackendNotHere"
    HOMES_NOT_HERE = "HomesNotHere"
    NOT_AVAILABLE = "NotAvailable"
    OUR_MISTAKE = "OurMistake"
    BODY_UNREADABLE = "BodyUnreadable"
    BODY_NO_JSON = "BodyNoJson"
    NOTHING_HERE = "NothingHere"
    NO_SUCH_METHOD = "NoSuchMethod"


@dataclass(frozen=True, slots=True)
class Message:
    """What is told, in no language."""

    code: str
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Values of JSON, other messages, and lists of either."""

    def __str__(self) -> str:
        """Return it for logs, which are for operators: the code with its facts."""
        if self.code == Code.VERBATIM:
            return str(self.facts["text"])
        return " ".join((self.code, *(f"{name}={_plain(value)}" for name, value in self.facts.items())))


_BARE: Mapping[str, Message] = {code: Message(code) for code in Code}


def bare_message(code: str) -> Message:
    """Return a message without facts: the same each time, so that it costs little to keep and to compare."""
    return _BARE.get(code) or Message(code)


def verbatim(text: str) -> Message:
    """Return a text that is shown as it is, in any language."""
    return Message(Code.VERBATIM, {"text": text})


def to_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them, as they are stored and shown."""
    return {name: _to_json(value) for name, value in facts.items()}


def from_json(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that `to_json` was given."""
    return {name: _from_json(value) for name, value in stored.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "facts": to_json(value.facts)}
    return [_to_json(each) for each in value] if isinstance(value, list) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Message(value["code"], from_json(value["facts"]))
    return [_from_json(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> str:
    return ", ".join(_plain(each) for each in value) if isinstance(value, list) else str(value)
