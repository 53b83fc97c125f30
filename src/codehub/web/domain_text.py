"""Words for what the core decides: its enumerations in, words for people out, in each language that codehub speaks.

English sentences are the core's own (`Why`, `REMEDY`, `WaitsFor`): they are written there once, but for those that name the core's
parts (volume, instance, purge), which pages call by other words. Korean is looked up by the enumeration, so a sentence that the core
adds, and nobody translated, is found by a test and not by a reader.
"""

import re
from collections.abc import Mapping
from string import Formatter

from codehub.core import observation
from codehub.core.ceilings import CLAMPED
from codehub.core.conditions import NO_ARCHIVE, NOTHING_YET, Condition
from codehub.core.disk_space import GREW, NO_ROOM
from codehub.core.errors import (
    ARCHIVED_SINCE,
    KEPT_REMEDY,
    NEWER_REMEDY,
    NOT_DELETED,
    NOT_REPLACED,
    REMEDY,
    WORKED_ON_SINCE,
    ErrorReason,
)
from codehub.core.explain import Waiting, WaitsFor
from codehub.core.idle import UNUSED
from codehub.core.judge import (
    ARCHIVE_LOST,
    DIED_AGAIN,
    IDENTITY_LOST,
    NEWER_ARCHIVE,
    VOLUME_LOST,
    WITHOUT_VOLUME,
)
from codehub.core.operations import Operation
from codehub.core.plan import LAST_TRY, TOOK_LONGER, Why
from codehub.core.transitions import ENDED_EARLY, ENDED_SAYING, FAILED_AGAIN

WHY_EN: Mapping[Why, str] = {
    Why.NEEDS_A_PERSON: "It has a problem. A person has to recover or delete it.",
    Why.PURGE: "It is to be deleted for good, or its time in the trash is over: nothing is kept.",
    Why.STRAY_CONTAINER: "An IDE runs that should not. It is stopped first.",
    Why.ADOPTED: "Somebody said that the home which is there is this workspace's: it is taken for that.",
    Why.CONDEMNED: "Its home is archived, and clearing it away was begun: that is finished before the home is used again.",
}
WHY_KO: Mapping[Why, str] = {
    Why.CONVERGED: "목표 상태에 있습니다.",
    Why.IN_TRASH: "삭제되었습니다. 휴지통 보관 기간이 끝날 때까지 마지막 보관본을 남겨 둡니다.",
    Why.GONE: "삭제되었고, 남은 것이 없습니다.",
    Why.FORGOTTEN: "관리자가 삭제를 포기했습니다. 남은 것은 휴지통 보관 기간이 끝날 때까지 그대로 있습니다.",
    Why.CANNOT_LOOK: "백엔드에 연결할 수 없습니다. 다시 응답할 때까지 새 작업을 시작하지 않고 시간도 재지 않습니다.",
    Why.NEEDS_A_PERSON: "문제가 있습니다. 직접 복구하거나 삭제해야 합니다.",
    Why.BACKING_OFF: "지난 시도가 실패했습니다. 잠시 뒤 자동으로 다시 시도합니다.",
    Why.PURGE: "영구 삭제를 요청했거나 휴지통 보관 기간이 끝났습니다. 아무것도 남기지 않습니다.",
    Why.DELETION: "삭제를 요청했습니다. 보관하지 않은 파일은 남아 있지 않습니다.",
    Why.DELETION_STEPS_DOWN: "삭제를 요청했습니다. 먼저 마지막 보관본을 만듭니다.",
    Why.NOTHING_TO_SAVE: "홈이 없어진 뒤에 삭제를 요청했습니다. 더 보관할 파일이 없습니다.",
    Why.STRAY_CONTAINER: "실행 중이면 안 되는 IDE가 있어 먼저 중지합니다.",
    Why.ADOPTED: "남아 있는 홈을 이 워크스페이스의 홈으로 받아들입니다.",
    Why.CONDEMNED: "홈을 보관한 뒤 정리하고 있었습니다. 정리를 끝내고 나서 홈을 다시 사용합니다.",
    Why.MOVES_UP: "목표 상태로 한 단계 올라갑니다.",
    Why.MOVES_DOWN: "목표 상태로 한 단계 내려갑니다.",
    Why.NOT_SEEN_YET: "진행 중입니다. 작업의 결과를 아직 확인하지 못했습니다.",
    Why.SEEN: "작업의 결과를 확인했습니다.",
    Why.TAKEN_OVER: "작업을 시작한 프로세스가 종료되어 새 번호로 이어받습니다.",
    Why.GIVEN_UP: "지연된 작업 대신 다른 요청이 들어와 작업을 그만둡니다.",
    Why.TRIED_AGAIN: "지연된 작업을 다시 시도합니다.",
    Why.IMPOSSIBLE: "지금 상태에서는 작업을 이어 갈 수 없어 다시 판단합니다.",
    Why.TIME_IS_UP: "작업이 제한 시간 안에 끝나지 않았습니다.",
}
REMEDY_EN: Mapping[ErrorReason, str] = {
    ErrorReason.TIMEOUT: "Look at its IDE's output, then recover it: the step is tried again from where it stands.",
    ErrorReason.CRASH_LOOP: (
        "Look at its IDE's output, mend what makes it die (the image, a start-up file, its memory), then recover it."
    ),
    ErrorReason.DATA_LOST: (
        "Put its home or its archive back in place and recover it; or accept the loss, and go on without what is gone."
    ),
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "Recover it: its IDE is stopped first. Then it is judged anew.",
    ErrorReason.ARCHIVE_CORRUPTED: (
        "Put a good copy of its archive in place and recover it; or accept the loss, and begin with an empty home."
    ),
}
REMEDY_KO: Mapping[ErrorReason, str] = {
    ErrorReason.TIMEOUT: "IDE 출력을 확인한 뒤 복구하세요. 멈춘 단계부터 다시 시도합니다.",
    ErrorReason.RETRY_EXCEEDED: "위에 표시된 원인을 해결한 뒤 복구하세요.",
    ErrorReason.ACTION_FAILED: "따로 할 일은 없습니다. 자동으로 다시 시도합니다.",
    ErrorReason.DATA_LOST: "홈이나 보관본을 제자리에 돌려놓고 복구하세요. 그럴 수 없으면 손실을 받아들이고 없어진 파일 없이 계속할 수 있습니다.",
    ErrorReason.UNREACHABLE: "따로 할 일은 없습니다. 백엔드가 다시 응답하면 계속합니다.",
    ErrorReason.IMAGE_PULL_FAILED: "이미지 이름이나 레지스트리 접근 권한을 바로잡은 뒤 복구하세요.",
    ErrorReason.CONTAINER_WITHOUT_VOLUME: "복구하세요. 먼저 IDE를 중지한 뒤 다시 판단합니다.",
    ErrorReason.ARCHIVE_CORRUPTED: "온전한 보관본을 제자리에 두고 복구하세요. 손실을 받아들이면 빈 홈으로 시작합니다.",
    ErrorReason.CRASH_LOOP: "IDE 출력을 확인하고 종료 원인(이미지, 시작 파일, 메모리)을 해결한 뒤 복구하세요.",
}
WAITS_KO: Mapping[WaitsFor, str] = {
    WaitsFor.LOOK: "{conditions} 확인. 백엔드가 응답하지 않습니다",
    WaitsFor.MARK: "관리자의 조치. {message} 올바른 곳이고 디스크가 연결되어 있으면 `codehub adopt-engine` 명령으로 표식을 다시 만들 수 있습니다",
    WaitsFor.NEXT_PASS: "컨트롤러의 다음 확인",
    WaitsFor.NEXT_TRY: "{seconds}초 뒤 다시 시도. 지난 시도의 메시지: {message}",
    WaitsFor.CHANGED_TRY: "{seconds}초 뒤 바뀐 이미지와 IDE로 다시 시도",
    WaitsFor.END_SEEN: "{operation} 작업의 완료 확인",
    WaitsFor.PERSON: "사용자의 결정",
    WaitsFor.RECOVERY: "사용자의 결정. 실패한 뒤에 이미지나 IDE가 바뀌었습니다. 복구하세요",
    WaitsFor.REMEDY: "사용자의 결정. {remedy}",
}
# Where there is something to choose from.
_CHOICES: Mapping[str, Mapping[str, str]] = {
    NEWER_REMEDY: {
        "en": NEWER_REMEDY,
        "ko": "가장 최근 보관본을 선택하면 최근 작업으로 계속합니다. 또는 그 손실을 받아들이고 데이터베이스가 가리키는 것으로 계속할 수 있습니다.",
    },
    KEPT_REMEDY: {
        "en": "Undo its deletion and recover it with the newest archive; or delete it for good, which keeps nothing.",
        "ko": "삭제를 되돌리고 가장 최근 보관본으로 복구하세요. 영구 삭제하면 아무것도 남지 않습니다.",
    },
}
# What is looked at.
CONDITIONS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "storage.volume_ready": "its home",
        "storage.archive_ready": "its archive",
        "infra.container_ready": "its IDE",
    },
    "ko": {
        "storage.volume_ready": "홈",
        "storage.archive_ready": "보관본",
        "infra.container_ready": "IDE",
    },
}
# What is seen of a home, an archive and an IDE.
SEEN_EN: Mapping[Condition, str] = {
    observation.VOLUME_ABSENT: "There is no home.",
    observation.VOLUME_HALF: "Its home was never completed.",
    observation.VOLUME_UNIDENTIFIED: "Its home is there, but not what says which one it is.",
    observation.VOLUME_READY: "Its home is there.",
    observation.VOLUME_FOREIGN: "The home that is there is not this workspace's.",
    observation.VOLUME_UNKNOWN: "Homes could not be listed.",
    observation.ARCHIVE_GONE: "Its archive is gone.",
    observation.ARCHIVE_HALF: "Its archive was never completed.",
    observation.ARCHIVE_UNKNOWN: "Its archive could not be looked for.",
    observation.INSTANCE_ABSENT: "Its IDE is not there.",
    observation.INSTANCE_STOPPED: "Its IDE does not run.",
    observation.INSTANCE_READY: "Its IDE runs and is healthy.",
    observation.INSTANCE_SICK: "Its IDE runs but is not healthy.",
    observation.INSTANCE_UNKNOWN: "IDEs could not be listed.",
}
SEEN_KO: Mapping[Condition, str] = {
    NOTHING_YET: "아직 아무것도 만들지 않았습니다.",
    observation.VOLUME_ABSENT: "홈이 없습니다.",
    observation.VOLUME_HALF: "홈을 끝까지 만들지 못했습니다.",
    observation.VOLUME_UNIDENTIFIED: "홈이 있지만 어느 홈인지 알려 주는 정보가 없습니다.",
    observation.VOLUME_READY: "홈이 있습니다.",
    observation.VOLUME_FOREIGN: "다른 워크스페이스의 홈이 있습니다.",
    observation.VOLUME_UNKNOWN: "홈 목록을 확인하지 못했습니다.",
    NO_ARCHIVE: "보관본이 없습니다.",
    observation.ARCHIVE_GONE: "보관본이 없어졌습니다.",
    observation.ARCHIVE_READY: "보관본이 있습니다.",
    observation.ARCHIVE_HALF: "보관본을 끝까지 만들지 못했습니다.",
    observation.ARCHIVE_UNKNOWN: "보관본을 확인하지 못했습니다.",
    observation.INSTANCE_ABSENT: "IDE가 없습니다.",
    observation.INSTANCE_STOPPED: "IDE가 실행되고 있지 않습니다.",
    observation.INSTANCE_READY: "IDE가 정상적으로 실행되고 있습니다.",
    observation.INSTANCE_SICK: "IDE가 실행되고 있지만 정상이 아닙니다.",
    observation.INSTANCE_UNKNOWN: "IDE 목록을 확인하지 못했습니다.",
}
_REASONS: Mapping[str, Mapping[str, str]] = {
    "en": {
        **{why.value: words for why, words in WHY_EN.items()},
        **{condition.message: words for condition, words in SEEN_EN.items()},
        WITHOUT_VOLUME: "Its IDE runs without its home.",
        IDENTITY_LOST: (
            "Its home is there with its files, but not what says which home it is. To adopt it goes on with them; to accept the loss deletes them."
        ),
        VOLUME_LOST: "Its home is gone, and it may have held what no archive holds.",
        ARCHIVE_LOST: "Its archive is gone, and there is no home.",
        NOT_DELETED: (
            "A home is there that the database does not know of, and somebody worked in it: only to delete it for good deletes it, "
            "unless its loss is accepted."
        ),
        WORKED_ON_SINCE: (
            "Its time in the trash is over, but somebody worked on it after its deletion: the database is older than the home. "
            "Undo its deletion to go on with it, or delete it for good."
        ),
    },
    "ko": {
        **{why.value: words for why, words in WHY_KO.items()},
        **{condition.message: words for condition, words in SEEN_KO.items()},
        UNUSED: "정해진 시간 동안 아무도 사용하지 않았습니다.",
        WITHOUT_VOLUME: "홈 없이 IDE가 실행되고 있습니다.",
        IDENTITY_LOST: (
            "홈과 파일이 남아 있지만 어느 홈인지 알려 주는 정보가 없습니다. 남아 있는 홈을 받아들이면 그 파일로 계속하고, 손실을 받아들이면 파일을 삭제합니다."
        ),
        VOLUME_LOST: "홈이 없어졌습니다. 보관본에 없는 파일이 들어 있었을 수 있습니다.",
        ARCHIVE_LOST: "보관본이 없어졌고 홈도 없습니다.",
        NOT_REPLACED: (
            "데이터베이스가 모르는 홈이 있고 누군가 그 안에서 작업했습니다. 손실을 받아들이지 않으면 더 오래된 보관본으로 바꾸지 않습니다."
        ),
        NOT_DELETED: (
            "데이터베이스가 모르는 홈이 있고 누군가 그 안에서 작업했습니다. 손실을 받아들이거나 영구 삭제해야만 삭제합니다."
        ),
        WORKED_ON_SINCE: (
            "휴지통 보관 기간이 끝났지만 삭제한 뒤에 누군가 작업했습니다. 데이터베이스가 홈보다 오래되었습니다. "
            "계속하려면 삭제를 되돌리고, 아니면 영구 삭제하세요."
        ),
    },
}
# The core's sentences with holes, as pages say them.
_FILLED: Mapping[str, Mapping[str, str]] = {
    DIED_AGAIN: {
        "en": "Its IDE died again after {restarts} restarts in {minutes} minutes.",
        "ko": "{minutes}분 동안 {restarts}번 다시 시작했지만 IDE가 또 종료되었습니다.",
    },
    NEWER_ARCHIVE: {
        "en": NEWER_ARCHIVE,
        "ko": "데이터베이스가 가리키는 것보다 새로운 보관본({at})이 있습니다. 데이터베이스가 홈보다 오래되었습니다.",
    },
    ARCHIVED_SINCE: {
        "en": (
            "Its time in the trash is over, but somebody worked on it after its deletion, and archived it at {at}: the database is older than "
            "the home. Undo its deletion to go on with it, or delete it for good."
        ),
        "ko": (
            "휴지통 보관 기간이 끝났지만 삭제한 뒤에 누군가 작업했고 {at}에 보관했습니다. 데이터베이스가 홈보다 오래되었습니다. "
            "계속하려면 삭제를 되돌리고, 아니면 영구 삭제하세요."
        ),
    },
    observation.MARK_MISSING: {
        "en": observation.MARK_MISSING,
        "ko": "홈이 있는 곳을 알려 주는 표식이 없습니다: {mark}.",
    },
    LAST_TRY.format(outcome=TOOK_LONGER, message="{message}"): {
        "en": "It took longer than {seconds} s. The last try said: {message}",
        "ko": "{seconds}초 안에 끝나지 않았습니다. 마지막 시도의 메시지: {message}",
    },
    TOOK_LONGER: {
        "en": "It took longer than {seconds} s.",
        "ko": "{seconds}초 안에 끝나지 않았습니다.",
    },
    ENDED_SAYING: {
        "en": ENDED_SAYING,
        "ko": "IDE가 시작하다가 종료 코드 {code}(으)로 끝났습니다. 마지막 출력:\n{lines}",
    },
    ENDED_EARLY: {
        "en": ENDED_EARLY,
        "ko": "IDE가 시작하다가 종료 코드 {code}(으)로 끝났습니다.",
    },
    CLAMPED: {
        "en": CLAMPED,
        "ko": "메모리 {memory} MB, CPU {cpus}, 프로세스 {pids}, 디스크 {disk} MB로 시작합니다. 설정에서 요청한 값이 이곳에서 허용하는 값보다 큽니다.",
    },
    NO_ROOM: {
        "en": "Only {free} MB are free where homes lie, and nothing starts below {floor} MB. Archive or delete what you don't need.",
        "ko": "홈이 있는 디스크에 {free} MB만 남았습니다. {floor} MB보다 적으면 아무것도 시작하지 않습니다. 필요 없는 것을 보관하거나 삭제하세요.",
    },
    GREW: {
        "en": "Its home grew by {grew} MB while the disk is nearly full. Nothing of it is deleted.",
        "ko": "디스크가 거의 찬 동안 홈이 {grew} MB 늘었습니다. 삭제된 것은 없습니다.",
    },
    FAILED_AGAIN: {
        "en": "It failed {count} times, the last time so: {message}",
        "ko": "{count}번 실패했습니다. 마지막 이유: {message}",
    },
}
# What went wrong, as a headline.
TROUBLE: Mapping[str, Mapping[ErrorReason, str]] = {
    "en": {
        ErrorReason.TIMEOUT: "It took too long",
        ErrorReason.RETRY_EXCEEDED: "It failed again and again",
        ErrorReason.ACTION_FAILED: "The last try failed",
        ErrorReason.DATA_LOST: "Files are missing",
        ErrorReason.UNREACHABLE: "A backend does not answer",
        ErrorReason.IMAGE_PULL_FAILED: "Its image can't be fetched",
        ErrorReason.CONTAINER_WITHOUT_VOLUME: "It runs without its home",
        ErrorReason.ARCHIVE_CORRUPTED: "Its archive is damaged",
        ErrorReason.CRASH_LOOP: "It keeps dying",
    },
    "ko": {
        ErrorReason.TIMEOUT: "시간이 너무 오래 걸렸습니다",
        ErrorReason.RETRY_EXCEEDED: "여러 번 실패했습니다",
        ErrorReason.ACTION_FAILED: "지난 시도가 실패했습니다",
        ErrorReason.DATA_LOST: "파일이 없어졌습니다",
        ErrorReason.UNREACHABLE: "백엔드가 응답하지 않습니다",
        ErrorReason.IMAGE_PULL_FAILED: "이미지를 가져올 수 없습니다",
        ErrorReason.CONTAINER_WITHOUT_VOLUME: "홈 없이 실행되고 있습니다",
        ErrorReason.ARCHIVE_CORRUPTED: "보관본이 손상되었습니다",
        ErrorReason.CRASH_LOOP: "계속 비정상 종료됩니다",
    },
}
# What is under way.
UNDER_WAY: Mapping[str, Mapping[Operation, str]] = {
    "en": {
        Operation.NONE: "Waiting for its turn…",
        Operation.PROVISIONING: "Making its home…",
        Operation.CREATE_EMPTY_ARCHIVE: "Preparing its archive…",
        Operation.RESTORING: "Restoring its files…",
        Operation.STARTING: "Starting…",
        Operation.STOPPING: "Going to sleep…",
        Operation.ARCHIVING: "Putting its files into the archive…",
        Operation.DELETING: "Deleting…",
    },
    "ko": {
        Operation.NONE: "차례를 기다리는 중…",
        Operation.PROVISIONING: "홈을 만드는 중…",
        Operation.CREATE_EMPTY_ARCHIVE: "보관본을 준비하는 중…",
        Operation.RESTORING: "파일을 복원하는 중…",
        Operation.STARTING: "시작하는 중…",
        Operation.STOPPING: "잠드는 중…",
        Operation.ARCHIVING: "파일을 보관하는 중…",
        Operation.DELETING: "삭제하는 중…",
    },
}


def why_words(why: Why, language: str) -> str:
    return WHY_EN.get(why, why.value) if language == "en" else WHY_KO[why]


def remedy_words(reason: ErrorReason, language: str, remedy: str | None = None) -> str:
    """Return what can be done about an error. `remedy`: as the core says it of this one."""
    if remedy is not None and remedy in _CHOICES:
        return _CHOICES[remedy][language]
    return REMEDY_EN.get(reason, REMEDY[reason]) if language == "en" else REMEDY_KO[reason]


def waiting_words(waiting: Waiting, language: str) -> str:
    facts = dict(waiting.facts)
    if waiting.on is WaitsFor.LOOK:
        facts["conditions"] = ", ".join(CONDITIONS[language][one] for one in facts["conditions"].split(", "))
    if waiting.on is WaitsFor.MARK:
        facts["message"] = reason_words(facts["message"], language)
    if language == "en":
        return str(Waiting(waiting.on, facts))
    if waiting.on is WaitsFor.REMEDY:
        facts["remedy"] = remedy_words(ErrorReason(facts["reason"]), language, facts["remedy"])
    return WAITS_KO[waiting.on].format(**facts)


def reason_words(reason: str, language: str) -> str:
    """Return a reason, or what an error says, as pages say it, where it is one of the core's sentences; else as it was written."""
    known = _REASONS[language].get(reason)
    if known is not None:
        return known
    for pattern, words in _FOUND_AGAIN:
        if said := pattern.fullmatch(reason):
            return words[language].format(**said.groupdict())
    return reason


def _found_again(sentence: str) -> re.Pattern[str]:
    """Return what matches a sentence whatever is in its holes."""
    parts = Formatter().parse(sentence)
    return re.compile(
        "".join(re.escape(text) + (f"(?P<{hole}>.+)" if hole else "") for text, hole, _, _ in parts),
        re.DOTALL,
    )


_FOUND_AGAIN = [(_found_again(sentence), words) for sentence, words in _FILLED.items()]
