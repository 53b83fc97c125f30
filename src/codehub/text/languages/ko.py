"""Every text in Korean."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    # 공통
    "skip": "본문으로 건너뛰기",
    "nav": "주 메뉴",
    "nav.workspaces": "워크스페이스",
    "nav.trash": "휴지통",
    "nav.all": "전체 워크스페이스",
    "nav.users": "사용자",
    "nav.health": "상태 점검",
    "nav.account": "계정",
    "signout": "로그아웃",
    "signed_in_as": "{name} 계정으로 로그인했습니다",
    "usage": "{max}개 중 {used}개 실행 중",
    "usage.why": "동시에 실행할 수 있는 내 워크스페이스 수",
    "lost": "연결이 끊겼습니다. 지금 보이는 내용은 최신이 아닐 수 있으며, 다시 연결되면 자동으로 갱신됩니다.",
    "unreached": "codehub에 연결할 수 없어 요청이 처리되지 않은 것 같습니다. 연결되면 다시 시도하세요.",
    "pinned": "고정됨",
    "do.pin": "맨 위에 고정",
    "do.unpin": "고정 해제",
    "done.pin": "{name} 워크스페이스를 목록 맨 위에 고정했습니다.",
    "done.unpin": "{name} 워크스페이스의 고정을 해제했습니다.",
    "field.memo": "메모",
    "field.memo.hint": "워크스페이스 페이지에만 표시됩니다.",
    "wrong.memo": "10,000자까지 입력할 수 있습니다.",
    "close": "닫기",
    "cancel": "취소",
    "save": "저장",
    "home": "내 워크스페이스로 돌아가기",
    "sure.title": "계속할까요?",
    # 상태
    "phase.PENDING": "시작 전",
    "phase.ARCHIVED": "보관됨",
    "phase.STANDBY": "잠듦",
    "phase.RUNNING": "실행 중",
    "phase.ERROR": "문제 있음",
    "phase.DELETED": "삭제됨",
    "phase.DELETING": "삭제 중",
    "step.PENDING": "시작 전",
    "step.ARCHIVED": "보관됨",
    "step.STANDBY": "잠듦",
    "step.RUNNING": "실행 중",
    "wish.PENDING": "쉬는 중",
    "wish.ARCHIVED": "보관됨",
    "wish.STANDBY": "잠듦",
    "wish.RUNNING": "실행 중",
    "means.PENDING": "아직 만들어진 것이 없습니다.",
    "means.ARCHIVED": "파일이 보관되어 있습니다.",
    "means.STANDBY": "파일은 준비되어 있고, IDE는 꺼져 있습니다.",
    "means.RUNNING": "IDE가 응답합니다.",
    "means.ERROR": "사용자의 결정이 필요합니다.",
    "means.DELETED": "휴지통에서 삭제를 되돌릴 수 있습니다.",
    "means.DELETING": "아직 삭제를 되돌릴 수 있습니다.",
    "sleeps_in": "잠들기까지",
    "never_sleeps": "잠들지 않음",
    "archives_in": "보관까지",
    "last_used": "마지막 사용",
    "not_used": "사용한 적 없음",
    # 목록
    "list.title": "워크스페이스",
    "list.all": "전체 워크스페이스",
    "list.new": "새 워크스페이스",
    "list.search": "검색",
    "list.filter": "상태",
    "list.any": "모든 상태",
    "list.more": "더 보기",
    "list.loading": "더 불러오는 중…",
    "list.empty": "첫 워크스페이스를 만들어 보세요",
    "list.empty.why": (
        "워크스페이스는 브라우저에서 바로 쓰는 IDE입니다. 파일은 사라지지 않습니다. 자리를 비우면 잠들고, "
        "다시 열면 깨어납니다."
    ),
    "list.none": "찾은 워크스페이스가 없습니다",
    "list.none.why": "검색어나 상태를 바꿔 보세요.",
    "list.none.clear": "모두 보기",
    "list.nobody": "아직 아무도 워크스페이스를 만들지 않았습니다",
    "list.nobody.why": "누군가 만들면 여기에 표시됩니다.",
    "col.name": "이름",
    "col.state": "상태",
    "col.used": "마지막 사용",
    "col.owner": "소유자",
    "col.deleted": "삭제한 때",
    "col.gone": "영구 삭제 예정",
    "col.added": "추가한 때",
    "col.acts": "할 수 있는 일",
    # 버튼
    "do.open": "열기",
    "do.restore": "복원하고 시작",
    "do.start": "시작",
    "do.stop": "재우기",
    "do.try": "지금 다시 시도",
    "do.archive": "보관",
    "do.look": "문제 확인",
    "do.details": "자세히",
    "do.settings": "설정",
    "do.keep_awake": "{t} 켜 두기",
    "do.delete": "삭제",
    "do.undo": "되돌리기",
    "do.more": "{name} 메뉴",
    "do.recover": "복구",
    "do.adopt": "남아 있는 파일로 계속하기",
    "do.newest": "가장 최근 보관본 선택하기",
    "do.accept": "없어진 파일을 포기하고 계속하기",
    "do.undelete": "삭제 되돌리기",
    "do.purge": "영구 삭제",
    "do.forget": "삭제 포기",
    "do.refresh": "새로 고침",
    "do.copy": "복사",
    "do.copied": "복사했습니다",
    # 결과
    "done.start": "{name} 워크스페이스를 시작합니다.",
    "done.stop": "{name} 워크스페이스를 재웁니다. 파일은 그대로 남습니다.",
    "done.archive": "{name} 워크스페이스를 보관합니다.",
    "done.recover": "{name} 워크스페이스의 상태를 다시 확인합니다.",
    "done.keep_awake": "아무도 쓰지 않아도 {name} 워크스페이스를 더 오래 켜 둡니다.",
    "done.delete": "{name} 워크스페이스를 휴지통으로 옮깁니다.",
    "done.undelete": "{name} 워크스페이스의 삭제를 되돌렸습니다.",
    "done.purge": "{name} 워크스페이스를 영구 삭제합니다.",
    "done.forget": "{name} 워크스페이스의 삭제를 포기했습니다. 남은 것은 “codehub gc”로 확인할 수 있습니다.",
    "done.saved": "저장했습니다.",
    "done.password": "비밀번호를 변경했습니다. 다른 기기에서는 모두 로그아웃되었습니다.",
    # 거절
    "no.INVALID_STATE": (
        "{name} 워크스페이스를 삭제하는 중입니다. 먼저 삭제를 되돌리거나 끝날 때까지 기다리세요."
    ),
    "no.OPERATION_IN_PROGRESS": (
        "{name} 워크스페이스에서 다른 작업을 진행하고 있습니다. 끝난 뒤 다시 시도하세요."
    ),
    "no.RECOVERY_REQUIRED": "{name} 워크스페이스에 문제가 있습니다. 먼저 복구하세요.",
    "no.WORKSPACE_NOT_FOUND": "이 워크스페이스는 더 이상 없습니다.",
    "no.INVALID_REQUEST": "이곳에서 허용하는 범위를 넘습니다.",
    "no.PRECONDITION_FAILED": "그사이 다른 사람이 변경했습니다. 내용을 다시 확인한 뒤 결정하세요.",
    "no.NAME_TAKEN": "같은 이름의 워크스페이스가 있습니다. 다른 이름을 고르세요.",
    "above.resources.memory_mb": "이곳에서는 워크스페이스 하나에 메모리를 최대 {max} MB까지 쓸 수 있습니다.",
    "above.resources.cpus": "이곳에서는 워크스페이스 하나에 CPU를 최대 {max}개까지 쓸 수 있습니다.",
    "above.resources.pids": "이곳에서는 워크스페이스 하나에 프로세스를 최대 {max}개까지 쓸 수 있습니다.",
    "above.resources.disk_mb": "이곳에서는 워크스페이스 하나에 디스크를 최대 {max} MB까지 쓸 수 있습니다.",
    "above.image_ref": "이곳에서 허용하지 않는 이미지입니다. 허용하는 이미지: {allowed}",
    "above.name": "이곳에서는 워크스페이스를 {max}개까지 가질 수 있습니다. 먼저 하나를 삭제하세요.",
    "above.tokens": "이곳에서는 토큰을 {max}개까지 가질 수 있습니다. 먼저 하나를 삭제하세요.",
    "no.LIMIT_EXCEEDED": (
        "동시에 {max}개까지 실행할 수 있습니다. 지금 실행 중인 워크스페이스: {names}. 먼저 하나를 "
        "재우세요. 파일은 그대로 남습니다."
    ),
    "no.LIMIT_MAX": "동시에 {max}개까지 실행할 수 있습니다.",
    "no.LIMIT_PROBLEM": (
        "{name} 워크스페이스는 문제가 있는 채로 자리를 차지하고 있습니다. 복구하거나 삭제하세요."
    ),
    "no.LIMIT_TOTAL": (
        "이곳에서는 모든 사용자를 합쳐 동시에 {max}개까지 실행할 수 있으며, 지금은 빈자리가 없습니다. 실행 "
        "중인 워크스페이스가 잠든 뒤 다시 시도하세요."
    ),
    # 거절하는 화면
    "error.title": "요청을 처리하지 못했습니다",
    "error.400.sessions": (
        "브라우저가 세션을 여러 개 보냈습니다. 같은 도메인의 다른 사이트가 그중 하나를 심었을 수 있습니다. "
        "이 사이트와 상위 도메인의 쿠키를 지운 뒤 다시 로그인하세요."
    ),
    "error.403": "다른 사람의 것입니다. 소유자와 관리자만 볼 수 있습니다.",
    "error.403.admin": "관리자만 볼 수 있는 화면입니다. 필요하면 관리자에게 문의하세요.",
    "error.403.foreign": "다른 사이트에서 보낸 요청이라 처리하지 않았습니다. {base} 주소로 codehub를 여세요.",
    "error.404": "이 주소에는 아무것도 없습니다. 주소가 틀렸거나, 있던 것이 없어졌습니다.",
    "error.404.workspace": (
        "그런 워크스페이스가 없거나 삭제되었습니다. 최근에 삭제한 워크스페이스는 휴지통에 있습니다."
    ),
    "error.500": (
        "codehub에 문제가 생겼습니다. 로그에 {request_id} 번호로 기록되어 있으니 관리자에게 알려 주세요."
    ),
    "error.429": "1분 동안 요청을 {max}번 넘게 보냈습니다. 잠시 기다린 뒤 다시 시도하세요.",
    "error.503": (
        "지금 codehub 데이터베이스가 응답하지 않습니다. 없어진 것은 없습니다. 잠시 뒤 다시 시도하세요."
    ),
    "error.503.crowded": (
        "지금 로그인하려는 사람이 너무 많습니다. 잠시 뒤 이전 화면으로 돌아가 다시 시도하세요."
    ),
    "error.again": "다시 시도",
    "error.home": "내 워크스페이스로",
    # 로그인
    "login.title": "로그인",
    "login.lead": "워크스페이스가 그대로 기다리고 있습니다.",
    "login.username": "사용자 이름",
    "login.password": "비밀번호",
    "login.wrong": "사용자 이름이나 비밀번호가 올바르지 않습니다.",
    "login.ended": "세션이 끝났습니다. 다시 로그인하세요.",
    "login.ended.form": "세션이 끝나 저장하지 못했습니다. 다시 로그인하세요.",
    "login.forgotten": "비밀번호를 잊었다면 관리자에게 새 비밀번호를 요청하세요.",
    "login.throttled": "로그인에 너무 여러 번 실패했습니다. {seconds}초 뒤에 다시 시도하세요.",
    # 만들기와 바꾸기
    "new.title": "새 워크스페이스",
    "new.lead": "만들면 바로 시작합니다. 모든 항목은 나중에 바꿀 수 있습니다.",
    "new.create": "만들고 시작",
    "edit.title": "{name} 설정",
    "edit.lead": "이름, 설명, 시간은 바로 적용되고 나머지는 다음에 시작할 때부터 적용됩니다.",
    "edit.stale": (
        "그사이 다른 사람이 변경해서 아직 저장하지 않았습니다. 값이 다른 항목 아래에 지금 저장된 값이 "
        "있습니다. 다시 저장하면 입력한 값으로 바뀝니다."
    ),
    "edit.stored": "지금 저장된 값: {value}",
    "edit.nothing": "없음",
    "field.name": "이름",
    "field.name.hint": "내 워크스페이스끼리 이름이 같을 수 없습니다.",
    "field.description": "설명",
    "field.optional": "선택 사항",
    "field.ide": "IDE",
    "ide.code-server": "브라우저에서 쓰는 VS Code",
    "ide.jupyterlab": "노트북, 편집기, 터미널",
    "ide.http": "8080 포트를 쓰는 웹 서버",
    "field.image_ref": "이미지",
    "field.image_ref.hint": "워크스페이스를 실행할 컨테이너 이미지입니다.",
    "field.resources": "자원",
    "field.memory_mb": "메모리 (MB)",
    "field.cpus": "CPU",
    "field.pids": "최대 프로세스 수",
    "field.disk_mb": "디스크 (MB)",
    "field.at_most": "이곳에서는 최대 {max}까지 가능합니다.",
    "field.ttl": "아무도 쓰지 않을 때",
    "field.standby_ttl": "잠들기까지",
    "field.archive_ttl": "그 뒤 보관하기까지",
    "ttl.never": "안 함",
    "ttl.at_once": "바로",
    "wrong.title": "아래 항목을 고쳐 주세요.",
    "wrong.name": "1~255자로 입력하세요. 공백만 입력할 수는 없습니다.",
    "wrong.description": "10,000자까지 입력할 수 있습니다.",
    "wrong.ide": "이 중에서 하나를 고르세요.",
    "wrong.image_ref": "debian:bookworm처럼 레지스트리에서 쓰는 이름을 입력하세요.",
    "wrong.memory_mb": "64~{max} 사이의 정수를 입력하세요.",
    "wrong.cpus": "0.1~{max} 사이의 수를 입력하세요.",
    "wrong.pids": "16~{max} 사이의 정수를 입력하세요.",
    "wrong.disk_mb": "64~{max} 사이의 정수를 입력하세요.",
    "wrong.standby_ttl_seconds": "10초 이상이어야 합니다.",
    "wrong.archive_ttl_seconds": "초 단위의 숫자를 입력하세요.",
    "wrong.username": "영문자, 숫자, . _ @ - 만 쓸 수 있으며 64자까지입니다.",
    "wrong.password": "{min}자 이상이어야 합니다.",
    "wrong.new": "{min}자 이상이어야 합니다.",
    "wrong.old": "현재 비밀번호가 올바르지 않습니다.",
    "wrong.scope": "이 중에서 하나를 고르세요.",
    "wrong.role": "이 중에서 하나를 고르세요.",
    "wrong.expires_in_seconds": "이 중에서 하나를 고르세요.",
    "wrong.again": "두 값이 다릅니다.",
    # 워크스페이스 하나
    "ws.explain": "지금 상황",
    "ws.is": "현재 상태",
    "ws.wish": "목표 상태",
    "ws.next": "다음 작업",
    "ws.now": "현재 작업",
    "ws.nothing": "없음",
    "ws.waits": "기다리는 것",
    "ws.since": "바뀐 때",
    "ws.conditions": "점검 결과",
    "ws.history": "기록",
    "ws.earlier": "이전 기록",
    "ws.history.empty": "아직 기록이 없습니다.",
    "ws.logs": "IDE 출력",
    "ws.logs.empty": "아직 출력이 없습니다.",
    "ws.logs.asleep": "실행 중일 때만 출력이 있습니다.",
    "ws.logs.named": "IDE 출력",
    "ws.logs.away": "백엔드가 응답하지 않아 출력을 가져올 수 없습니다. 나중에 새로 고치세요.",
    "ws.sleeps": "잠들기까지",
    "ws.archives": "보관까지",
    "ws.facts": "정보",
    "ws.id": "ID",
    "ws.backend": "실행 위치",
    "ws.home": "저장 위치",
    "ws.created": "만든 때",
    "ws.owner": "소유자",
    "disk.short": (
        "디스크가 거의 찼습니다. 남은 공간은 {free} MB이며 {floor} MB보다 적으면 아무것도 시작하지 "
        "않습니다. 필요 없는 워크스페이스를 보관하거나 삭제하세요. 실행 중인 워크스페이스는 용량이 늘지 "
        "않는 한 계속 실행됩니다."
    ),
    "ws.uses": "사용량",
    "used.memory_mb": "메모리 {n} MB",
    "used.cpu": "CPU {n}",
    "used.disk_mb": "디스크 {n} MB",
    "ws.limits": "{memory} MB · CPU {cpus} · 프로세스 {pids} · 디스크 {disk} MB",
    "ws.ttl": "{standby} / {archive}",
    "ws.ttl.label": "잠들기 / 보관까지",
    "ws.not_yours": "소유자만 열 수 있습니다.",
    "cond.volume_ready": "홈",
    "cond.archive_ready": "보관본",
    "cond.container_ready": "IDE",
    "cond.healthy": "종합",
    "seen.Ready": "준비됨",
    "seen.Absent": "없음",
    "seen.NotReady": "있지만 준비되지 않음",
    "seen.Unidentified": "있지만 어느 홈인지 알 수 없음",
    "seen.Unreachable": "확인하지 못함",
    "seen.MarkMissing": "확인하지 못함: 표식 없음",
    "seen.NotLooked": "아직 확인하지 않음",
    "seen.Healthy": "이상 없음",
    "trouble.changed": "그 뒤에 이미지나 IDE가 바뀌었습니다. 복구하면 다시 시도합니다.",
    "trouble.when": "작업: {operation}",
    "recover.why": "복구는 언제나 안전합니다. 지금 있는 것을 다시 확인하고 거기서부터 이어 갑니다.",
    "adopt.title": "파일이 아직 남아 있습니다",
    "adopt.why": (
        "어느 홈인지 알려 주는 정보만 없어졌습니다. 다른 파일이 놓인 것이 아니라면 남아 있는 파일로 계속할 "
        "수 있습니다. 다음에 보관할 때 새로 보관합니다."
    ),
    "loss.there": "아직 남아 있는 파일은 삭제됩니다.",
    "newest.title": "더 새로운 보관본이 있습니다",
    "newest.why": (
        "백업을 복원한 뒤처럼 데이터베이스가 파일보다 오래되었습니다. 최근 작업으로 계속하려면 가장 최근 "
        "보관본을 선택하세요."
    ),
    "loss.title": "파일을 제자리에 돌려놓을 수 없다면",
    "loss.why": (
        "그 파일 없이 계속할 수 있습니다. 보관본에 없는 파일은 영구히 사라집니다. 마지막으로 온전한 "
        "보관본에서 시작하며, 보관본이 없으면 빈 홈에서 시작합니다."
    ),
    "loss.sure": "이 파일들이 영구히 사라진다는 것을 이해했습니다",
    "actor.ttl": "유휴 타이머",
    "actor.disk": "codehub (디스크 부족)",
    "event.wish": "{actor}: “{after}” 상태를 요청함",
    "event.settings": "{actor}: 설정을 변경함",
    "event.fields": "변경한 항목: {fields}",
    "event.made": "{actor}: 새로 만듦",
    "event.operation": "{after} 시작",
    "event.operation.end": "{before} 완료",
    "event.phase": "{after}",
    "event.error": "문제: {after}",
    "event.error.end": "문제 해결됨",
    "event.recovery": "{actor}: 복구를 요청함",
    "event.recovery.loss": "{actor}: 손실을 받아들임",
    "event.recovery.newest": "{actor}: 가장 최근 보관본을 선택함",
    "event.recovery.adopt": "{actor}: 남아 있는 홈을 받아들임",
    "event.deletion": "{actor}: 삭제함",
    "event.deletion.purge": "{actor}: 영구 삭제함",
    "event.deletion.forgotten": "{actor}: 삭제를 포기함",
    "event.deletion.end": "{actor}: 삭제를 되돌림",
    "op.PROVISIONING": "홈 만들기",
    "op.CREATE_EMPTY_ARCHIVE": "빈 보관본 만들기",
    "op.RESTORING": "파일 복원",
    "op.STARTING": "IDE 켜기",
    "op.STOPPING": "재우기",
    "op.ARCHIVING": "파일 보관",
    "op.DELETING": "삭제",
    "op.NONE": "없음",
    "held_up": "지연됨",
    "doing.PROVISIONING": "준비 중",
    "doing.CREATE_EMPTY_ARCHIVE": "보관 중",
    "doing.RESTORING": "복원 중",
    "doing.STARTING": "시작 중",
    "doing.STOPPING": "잠드는 중",
    "doing.ARCHIVING": "보관 중",
    "doing.DELETING": "삭제 중",
    # 휴지통
    "trash.title": "휴지통",
    "trash.lead": (
        "삭제한 워크스페이스는 한동안 여기에 남아 있습니다. 삭제를 되돌리거나 영구 삭제할 수 있습니다."
    ),
    "trash.empty": "휴지통이 비어 있습니다",
    "trash.empty.why": "삭제한 워크스페이스는 한동안 여기에 남습니다.",
    "trash.gone": "영구 삭제",
    "trash.deleted": "삭제",
    "forget.sure": "{name} 워크스페이스의 삭제를 포기할까요? 백엔드에 남은 것은 지워지지 않습니다.",
    "trash.sure": "{name} 워크스페이스를 영구 삭제할까요? 보관본까지 지워지며 되돌릴 수 없습니다.",
    # 계정
    "account.title": "계정",
    "account.language": "언어",
    "account.language.why": "이 브라우저에만 적용됩니다. 명령줄은 CODEHUB_LANG 또는 터미널의 언어를 따릅니다.",
    "account.language.browser": "브라우저 설정대로",
    "language.name": "한국어",
    "account.password": "비밀번호",
    "account.old": "현재 비밀번호",
    "account.new": "새 비밀번호",
    "account.again": "새 비밀번호 확인",
    "account.change": "비밀번호 변경",
    "account.change.why": "변경하면 다른 기기에서는 모두 로그아웃되고 액세스 토큰도 모두 끝납니다.",
    "tokens.title": "액세스 토큰",
    "tokens.lead": "명령줄, 스크립트, CI에서 사용합니다. 내 모든 권한을 주거나 읽기 권한만 줄 수 있습니다.",
    "tokens.name": "용도",
    "tokens.scope": "권한",
    "scope.read": "읽기 전용",
    "scope.write": "읽기와 변경",
    "tokens.expires": "만료",
    "tokens.days": "{n}일 뒤",
    "tokens.create": "토큰 만들기",
    "tokens.made": "지금 새 토큰을 복사하세요. 다시 표시되지 않습니다.",
    "tokens.empty": "아직 토큰이 없습니다.",
    "tokens.used": "사용",
    "tokens.never": "만료되지 않음",
    "tokens.ended": "만료됨",
    "tokens.delete": "{name} 토큰 삭제",
    "tokens.sure": "{name} 토큰을 삭제할까요? 이 토큰을 쓰는 프로그램은 더 이상 접근할 수 없습니다.",
    # 사용자
    "users.title": "사용자",
    "users.add": "사용자 추가",
    "users.create": "추가",
    "users.username": "사용자 이름",
    "users.password": "비밀번호",
    "users.role": "역할",
    "role.admin": "관리자",
    "role.member": "구성원",
    "users.disabled": "사용 중지됨",
    "users.disable": "사용 중지",
    "users.enable": "사용 재개",
    "users.make_admin": "관리자로 변경",
    "users.make_member": "구성원으로 변경",
    "users.disable.sure": (
        "{name} 계정의 사용을 중지할까요? 모든 기기에서 로그아웃되고 토큰은 끝납니다. 워크스페이스와 "
        "파일은 그대로 남습니다. 관리자가 “사용 재개”를 눌러 되돌릴 수 있지만, 토큰은 새로 만들어야 합니다."
    ),
    "users.make_member.sure": (
        "{name} 계정을 구성원으로 변경할까요? 다른 사람의 워크스페이스와 사용자, 상태 점검 화면을 볼 수 "
        "없게 됩니다. 자신의 워크스페이스는 그대로 남습니다. 관리자가 “관리자로 변경”을 눌러 되돌릴 수 "
        "있습니다."
    ),
    "users.done.add": (
        "{name} 계정으로 로그인할 수 있습니다. 본인에게 비밀번호를 알려 주세요. 비밀번호는 “계정”에서 "
        "변경할 수 있습니다."
    ),
    "users.done.set_password": (
        "{name} 계정의 비밀번호를 새로 설정했고, 세션과 토큰을 모두 끝냈습니다. 본인에게 알려 주세요."
    ),
    "users.done.disable": (
        "{name} 계정의 사용을 중지했습니다. 모든 기기에서 로그아웃되었고 토큰은 끝났으며, 파일은 그대로 "
        "있습니다."
    ),
    "users.done.enable": "{name} 계정을 다시 사용할 수 있습니다.",
    "users.done.make_admin": "{name} 계정을 관리자로 변경했습니다.",
    "users.done.make_member": "{name} 계정을 구성원으로 변경했습니다.",
    "users.set_password": "비밀번호 설정",
    "users.new_password": "{name}의 새 비밀번호",
    "users.taken": "같은 이름의 사용자가 있습니다. 다른 이름을 고르세요.",
    "users.last_admin": "마지막 관리자입니다. 먼저 다른 사람을 관리자로 변경하세요.",
    "users.not_yourself": "자신의 계정은 사용을 중지할 수 없습니다. 다른 관리자에게 요청하세요.",
    "users.you": "나",
    "users.since": "추가",
    "users.keys": "열쇠",
    "keys.title": "{name} 계정의 세션과 토큰",
    "keys.lead": "로그인된 브라우저와 액세스 토큰입니다. 마지막 사용 시각은 1분 이내로 정확합니다.",
    "keys.session": "로그인된 브라우저",
    "keys.token": "토큰",
    "keys.since": "시작",
    "keys.empty": "{name} 계정은 로그인된 곳이 없고 토큰도 없습니다.",
    "keys.end": "모두 끝내기",
    "keys.end.sure": (
        "{name} 계정의 세션과 토큰을 모두 끝낼까요? 모든 기기에서 바로 로그아웃되고, 토큰을 쓰는 "
        "프로그램은 더 이상 접근할 수 없습니다. 비밀번호로 다시 로그인할 수 있습니다."
    ),
    "keys.back": "사용자 목록으로",
    # 상태 점검
    "health.title": "상태 점검",
    "health.good": "모두 정상입니다",
    "health.bad": "응답하지 않는 것이 있습니다",
    "health.bad.why": (
        "응답할 때까지 관련 작업은 기다리며, 없어지는 것은 없습니다. 서버에서 “codehub doctor”를 실행하면 "
        "할 일을 알려 줍니다."
    ),
    "health.checks": "codehub 자체",
    "health.backends": "백엔드",
    "health.controllers": "컨트롤러",
    "health.controllers.none": (
        "지난 한 시간 동안 응답한 컨트롤러가 없어 아무 작업도 진행되지 않습니다. “codehub up”이 실행 "
        "중인지, 로그에 오류가 없는지 확인하세요."
    ),
    "health.heard": "마지막 응답",
    "health.silent": "응답 없음, 마지막 응답",
    "health.ok": "정상",
    "health.reaches": "{backends} 담당",
    # 무엇을 왜 하는지
    "reason.Converged": "목표 상태에 있습니다.",
    "reason.InTrash": "삭제되었습니다. 휴지통 보관 기간이 끝날 때까지 마지막 보관본을 남겨 둡니다.",
    "reason.Gone": "삭제되었고, 남은 것이 없습니다.",
    "reason.Forgotten": (
        "관리자가 삭제를 포기했습니다. 남은 것은 휴지통 보관 기간이 끝날 때까지 그대로 있습니다."
    ),
    "reason.CannotLook": (
        "백엔드에 연결할 수 없습니다. 다시 응답할 때까지 새 작업을 시작하지 않고 시간도 재지 않습니다."
    ),
    "reason.NeedsAPerson": "문제가 있습니다. 직접 복구하거나 삭제해야 합니다.",
    "reason.BackingOff": "지난 시도가 실패했습니다. 잠시 뒤 자동으로 다시 시도합니다.",
    "reason.Purge": "영구 삭제를 요청했거나 휴지통 보관 기간이 끝났습니다. 아무것도 남기지 않습니다.",
    "reason.Deletion": "삭제를 요청했습니다. 보관하지 않은 파일은 남아 있지 않습니다.",
    "reason.DeletionStepsDown": "삭제를 요청했습니다. 먼저 마지막 보관본을 만듭니다.",
    "reason.NothingToSave": "홈이 없어진 뒤에 삭제를 요청했습니다. 더 보관할 파일이 없습니다.",
    "reason.StrayContainer": "실행 중이면 안 되는 IDE가 있어 먼저 중지합니다.",
    "reason.Condemned": "홈을 보관한 뒤 정리하고 있었습니다. 정리를 끝내고 나서 홈을 다시 사용합니다.",
    "reason.Adopted": "남아 있는 홈을 이 워크스페이스의 홈으로 받아들입니다.",
    "reason.MovesUp": "목표 상태로 한 단계 올라갑니다.",
    "reason.MovesDown": "목표 상태로 한 단계 내려갑니다.",
    "reason.NotSeenYet": "진행 중입니다. 작업의 결과를 아직 확인하지 못했습니다.",
    "reason.Seen": "작업의 결과를 확인했습니다.",
    "reason.TakenOver": "작업을 시작한 프로세스가 종료되어 새 번호로 이어받습니다.",
    "reason.GivenUp": "지연된 작업 대신 다른 요청이 들어와 작업을 그만둡니다.",
    "reason.TriedAgain": "지연된 작업을 다시 시도합니다.",
    "reason.Impossible": "지금 상태에서는 작업을 이어 갈 수 없어 다시 판단합니다.",
    "reason.TimeIsUp": "작업이 제한 시간 안에 끝나지 않았습니다.",
    # 확인한 것
    "reason.NothingYet": "아직 아무것도 만들지 않았습니다.",
    "reason.VolumeAbsent": "홈이 없습니다.",
    "reason.VolumeIncomplete": "홈을 끝까지 만들지 못했습니다.",
    "reason.VolumeUnidentified": "홈이 있지만 어느 홈인지 알려 주는 정보가 없습니다.",
    "reason.VolumeReady": "홈이 있습니다.",
    "reason.VolumeForeign": "다른 워크스페이스의 홈이 있습니다.",
    "reason.VolumeUnknown": "홈 목록을 확인하지 못했습니다.",
    "reason.NoArchive": "보관본이 없습니다.",
    "reason.ArchiveGone": "보관본이 없어졌습니다.",
    "reason.ArchiveReady": "보관본이 있습니다.",
    "reason.ArchiveIncomplete": "보관본을 끝까지 만들지 못했습니다.",
    "reason.ArchiveUnknown": "보관본을 확인하지 못했습니다.",
    "reason.InstanceAbsent": "IDE가 없습니다.",
    "reason.InstanceStopped": "IDE가 실행되고 있지 않습니다.",
    "reason.InstanceReady": "IDE가 정상적으로 실행되고 있습니다.",
    "reason.InstanceUnhealthy": "IDE가 실행되고 있지만 정상이 아닙니다.",
    "reason.InstanceUnknown": "IDE 목록을 확인하지 못했습니다.",
    "reason.MarkMissing": "홈이 있는 곳을 알려 주는 표식이 없습니다: {mark}.",
    "reason.ArchiveUnseen": "새 보관본을 아직 확인하지 않았습니다.",
    "reason.Healthy": "어긋난 규칙이 없습니다.",
    # 문제가 된 것
    "reason.WithoutVolume": "홈 없이 IDE가 실행되고 있습니다.",
    "reason.IdentityLost": (
        "홈과 파일이 남아 있지만 어느 홈인지 알려 주는 정보가 없습니다. 남아 있는 홈을 받아들이면 그 "
        "파일로 계속하고, 손실을 받아들이면 파일을 삭제합니다."
    ),
    "reason.VolumeLost": "홈이 없어졌습니다. 보관본에 없는 파일이 들어 있었을 수 있습니다.",
    "reason.ArchiveLost": "보관본이 없어졌고 홈도 없습니다.",
    "reason.NotReplaced": (
        "데이터베이스가 모르는 홈이 있고 누군가 그 안에서 작업했습니다. 손실을 받아들이지 않으면 더 오래된 "
        "보관본으로 바꾸지 않습니다."
    ),
    "reason.LastCopy": (
        "데이터베이스가 모르는 홈이 있고 그 홈을 복원한 보관본이 없어졌습니다. 손실을 받아들이지 않으면 "
        "바꾸지도 삭제하지도 않습니다."
    ),
    "reason.NotDeleted": (
        "데이터베이스가 모르는 홈이 있고 누군가 그 안에서 작업했습니다. 손실을 받아들이거나 영구 "
        "삭제해야만 삭제합니다."
    ),
    "reason.WorkedOnSince": (
        "휴지통 보관 기간이 끝났지만 삭제한 뒤에 누군가 작업했습니다. 데이터베이스가 홈보다 "
        "오래되었습니다. 계속하려면 삭제를 되돌리고, 아니면 영구 삭제하세요."
    ),
    "reason.Unused": "정해진 시간 동안 아무도 사용하지 않았습니다.",
    "reason.Clamped": (
        "메모리 {memory} MB, CPU {cpus}, 프로세스 {pids}, 디스크 {disk} MB로 시작합니다. "
        "설정에서 요청한 값이 이곳에서 허용하는 값보다 큽니다."
    ),
    "reason.DiedAgain": "{minutes}분 동안 {restarts}번 다시 시작했지만 IDE가 또 종료되었습니다.",
    "reason.NewerArchive": (
        "데이터베이스가 가리키는 것보다 새로운 보관본({at})이 있습니다. 데이터베이스가 홈보다 오래되었습니다."
    ),
    "reason.ArchivedSince": (
        "휴지통 보관 기간이 끝났지만 삭제한 뒤에 누군가 작업했고 {at}에 보관했습니다. 데이터베이스가 "
        "홈보다 오래되었습니다. 계속하려면 삭제를 되돌리고, 아니면 영구 삭제하세요."
    ),
    "reason.TookLongerLastTry": "{seconds}초 안에 끝나지 않았습니다. 마지막 시도의 메시지: {message}",
    "reason.TookLonger": "{seconds}초 안에 끝나지 않았습니다.",
    "reason.EndedSaying": "IDE가 시작하다가 종료 코드 {exit_code}(으)로 끝났습니다. 마지막 출력:\n{lines}",
    "reason.EndedEarly": "IDE가 시작하다가 종료 코드 {exit_code}(으)로 끝났습니다.",
    "reason.NoRoom": (
        "홈이 있는 디스크에 {free} MB만 남았습니다. {floor} MB보다 적으면 아무것도 시작하지 않습니다. 필요 "
        "없는 것을 보관하거나 삭제하세요."
    ),
    "reason.Grew": "디스크가 거의 찬 동안 홈이 {grew} MB 늘었습니다. 삭제된 것은 없습니다.",
    "reason.FailedAgain": "{count}번 실패했습니다. 마지막 이유: {message}",
    "reason.NoAnswer": "백엔드가 응답하지 않습니다.",
    "reason.ImageNotAllowed": "이곳에서 허용하지 않는 이미지입니다: {image} (CODEHUB_ALLOWED_IMAGES). 다른 이미지를 고른 뒤 복구하세요.",
    "reason.Verbatim": "{text}",
    "reason.Several": "{messages}",
    # 요청한 것
    "reason.Visited": "누군가 열었습니다.",
    "reason.AskedOnAPage": "화면에서 요청했습니다.",
    "reason.AskedToCreate": "새로 만들도록 요청했습니다.",
    "reason.AskedToChange": "설정 변경을 요청했습니다: {fields}.",
    "reason.AskedToStart": "시작을 요청했습니다.",
    "reason.AskedToStop": "재우도록 요청했습니다.",
    "reason.AskedToArchive": "보관을 요청했습니다.",
    "reason.AskedToRecover": "복구를 요청했습니다.",
    "reason.AskedToAcceptLoss": "손실을 받아들이고 복구하도록 요청했습니다.",
    "reason.AskedToTakeNewest": "가장 최근 보관본으로 복구하도록 요청했습니다.",
    "reason.AskedToAdopt": "남아 있는 홈으로 복구하도록 요청했습니다.",
    "reason.AskedToKeepAwake": "{seconds}초 동안 켜 두도록 요청했습니다.",
    "reason.AskedToPin": "위에 고정하도록 요청했습니다.",
    "reason.AskedToUnpin": "고정을 풀도록 요청했습니다.",
    "reason.AskedToDelete": "삭제를 요청했습니다.",
    "reason.AskedToPurge": "영구 삭제를 요청했습니다.",
    "reason.AskedToUndelete": "삭제를 되돌리도록 요청했습니다.",
    "reason.AskedToForget": "삭제를 포기하도록 요청했습니다.",
    # 요청을 거절한 이유
    "reason.OperationUnderWay": "{operation} 작업이 진행 중입니다. 끝난 뒤에 다시 요청하세요.",
    "reason.DeleteAfterOperation": "{operation} 작업이 진행 중입니다. 끝난 뒤에 삭제하세요.",
    "reason.UndeleteAfterDeleting": "DELETING 작업이 진행 중입니다. 끝난 뒤에 삭제를 되돌리세요.",
    "reason.RecoveryRequired": (
        "워크스페이스에 문제가 있습니다(ERROR). 먼저 복구하세요. 무엇이 잘못되었는지는 `explain`이 알려 줍니다."
    ),
    "reason.RevisionChanged": (
        "다른 사람이 바꾸었습니다. 지금 리비전은 {revision}입니다. 다시 읽고 나서 결정하세요."
    ),
    "reason.Deleted": "삭제된 워크스페이스입니다.",
    "reason.BeingDeleted": "워크스페이스를 삭제하고 있습니다. 먼저 삭제를 되돌리거나 끝날 때까지 기다리세요.",
    "reason.DeletionWasAskedFor": (
        "삭제를 요청한 워크스페이스라서 이어 갈 것이 없습니다. 먼저 삭제를 되돌린 뒤 복구하세요."
    ),
    "reason.TrashTimeOver": "휴지통 보관 기간이 끝나 사라진 워크스페이스입니다.",
    "reason.NotBeingDeleted": "멈춘 삭제만 포기할 수 있습니다. 먼저 삭제하세요.",
    "reason.DeletionNotHeldUp": (
        "삭제를 막는 것이 없습니다. 백엔드가 응답합니다. 기다리거나 영구 삭제하고, 그래도 안 되면 포기하세요."
    ),
    "reason.OwnerLimit": "워크스페이스 {max}개 중 {count}개가 이미 실행 중입니다: {names}. {ways}",
    "reason.StopOne": "먼저 하나를 재우세요.",
    "reason.RecoverOrDelete": "{name} 워크스페이스에 문제가 있습니다(ERROR). 복구하거나 삭제하세요.",
    "reason.TotalLimit": (
        "이 설치의 자리 {max}개가 모두 찼습니다. 다른 워크스페이스가 멈춘 뒤에 다시 시도하세요."
    ),
    "reason.AboveCeiling": "이곳에서는 최대 {max}까지 됩니다",
    "reason.TooManyWorkspaces": "이곳에서는 한 사람이 워크스페이스를 {max}개까지 가질 수 있습니다. 먼저 하나를 삭제하세요",
    "reason.ImageNotListed": "이곳에서 허용하지 않는 이미지입니다. 허용하는 이미지: {allowed}",
    "reason.OfField": "{field}: {problem}",
    "reason.NoSuchWorkspace": "그런 워크스페이스가 없습니다.",
    "reason.ForeignWorkspace": "다른 사람의 워크스페이스입니다.",
    "reason.AdminsOnly": "관리자만 할 수 있습니다.",
    "reason.OwnerOnly": "워크스페이스는 소유자만 열 수 있습니다.",
    "reason.ReadOnlyToken": "읽기 전용 토큰입니다. 워크스페이스를 열려면 쓰기 권한이 있는 토큰이 필요합니다.",
    # 요청할 수 있는 것
    "ask.Start": "시작",
    "ask.TryNow": "지금 다시 시도",
    "ask.Stop": "재우기",
    "ask.Archive": "보관",
    "ask.Recover": "복구",
    "ask.Adopt": "남아 있는 홈으로 복구",
    "ask.TakeNewest": "가장 최근 보관본으로 복구",
    "ask.AcceptLoss": "손실을 받아들이고 복구",
    "ask.KeepAwake": "켜 두기",
    "ask.Undelete": "삭제 되돌리기",
    "ask.Delete": "삭제",
    "ask.Purge": "영구 삭제",
    "ask.Forget": "삭제 포기",
    # 해결 방법
    "remedy.Timeout": "IDE 출력을 확인한 뒤 복구하세요. 멈춘 단계부터 다시 시도합니다.",
    "remedy.RetryExceeded": "위에 표시된 원인을 해결한 뒤 복구하세요.",
    "remedy.ActionFailed": "따로 할 일은 없습니다. 자동으로 다시 시도합니다.",
    "remedy.DataLost": (
        "홈이나 보관본을 제자리에 돌려놓고 복구하세요. 홈의 식별 정보만 없어졌다면 남아 있는 홈으로 복구할 수 "
        "있습니다. 그럴 수 없으면 손실을 받아들이고 없어진 파일 없이 계속할 수 있습니다."
    ),
    "remedy.Unreachable": "따로 할 일은 없습니다. 백엔드가 다시 응답하면 계속합니다.",
    "remedy.ImagePullFailed": "이미지 이름이나 레지스트리 접근 권한을 바로잡은 뒤 복구하세요.",
    "remedy.ContainerWithoutVolume": "복구하세요. 먼저 IDE를 중지한 뒤 다시 판단합니다.",
    "remedy.ArchiveCorrupted": (
        "온전한 보관본을 제자리에 두고 복구하세요. 손실을 받아들이면 빈 홈으로 시작합니다."
    ),
    "remedy.CrashLoop": "IDE 출력을 확인하고 종료 원인(이미지, 시작 파일, 메모리)을 해결한 뒤 복구하세요.",
    "remedy.NewerArchive": (
        "가장 최근 보관본을 선택하면 최근 작업으로 계속합니다. 또는 그 손실을 받아들이고 데이터베이스가 "
        "가리키는 것으로 계속할 수 있습니다."
    ),
    "remedy.KeptArchive": (
        "삭제를 되돌리고 가장 최근 보관본으로 복구하세요. 영구 삭제하면 아무것도 남지 않습니다."
    ),
    # 기다리는 것
    "waits.Look": "{conditions} 확인. 백엔드가 응답하지 않습니다",
    "waits.Mark": (
        "관리자의 조치. {message} 올바른 곳이고 디스크가 연결되어 있으면 `codehub adopt-engine` 명령으로 "
        "표식을 다시 만들 수 있습니다"
    ),
    "waits.NextPass": "컨트롤러의 다음 확인",
    "waits.NextTry": "{seconds}초 뒤 다시 시도. 지난 시도의 메시지: {message}",
    "waits.ChangedTry": "{seconds}초 뒤 바뀐 이미지와 IDE로 다시 시도",
    "waits.EndSeen": "{operation} 작업의 완료 확인",
    "waits.Person": "사용자의 결정",
    "waits.Recovery": "사용자의 결정. 실패한 뒤에 이미지나 IDE가 바뀌었습니다. 복구하세요",
    "waits.Remedy": "사용자의 결정. {remedy}",
    # 확인하지 못한 것
    "look.storage.volume_ready": "홈",
    "look.storage.archive_ready": "보관본",
    "look.infra.container_ready": "IDE",
    # 문제의 제목
    "trouble.Timeout": "시간이 너무 오래 걸렸습니다",
    "trouble.RetryExceeded": "여러 번 실패했습니다",
    "trouble.ActionFailed": "지난 시도가 실패했습니다",
    "trouble.DataLost": "파일이 없어졌습니다",
    "trouble.Unreachable": "백엔드가 응답하지 않습니다",
    "trouble.ImagePullFailed": "이미지를 가져올 수 없습니다",
    "trouble.ContainerWithoutVolume": "홈 없이 실행되고 있습니다",
    "trouble.ArchiveCorrupted": "보관본이 손상되었습니다",
    "trouble.CrashLoop": "계속 비정상 종료됩니다",
    # 진행 중인 작업
    "under_way.NONE": "차례를 기다리는 중…",
    "under_way.PROVISIONING": "홈을 만드는 중…",
    "under_way.CREATE_EMPTY_ARCHIVE": "보관본을 준비하는 중…",
    "under_way.RESTORING": "파일을 복원하는 중…",
    "under_way.STARTING": "시작하는 중…",
    "under_way.STOPPING": "잠드는 중…",
    "under_way.ARCHIVING": "파일을 보관하는 중…",
    "under_way.DELETING": "삭제하는 중…",
    # 워크스페이스 앞의 화면
    "proxy.waking": "{name} 워크스페이스를 깨우는 중입니다",
    "proxy.waking_why": "준비되면 이 화면에서 자동으로 열립니다.",
    "proxy.held_up": "지연되고 있습니다. 자동으로 다시 시도합니다.",
    "proxy.happening": "진행 상황 보기",
    "proxy.archived": "{name} 워크스페이스는 보관되어 있습니다",
    "proxy.archived_why": "파일은 안전하게 보관되어 있습니다. 원래대로 복원한 뒤 시작합니다.",
    "proxy.pending": "{name} 워크스페이스는 아직 시작되지 않았습니다",
    "proxy.pending_why": "처음 시작할 때 홈을 만듭니다.",
    "proxy.error": "{name} 워크스페이스에 문제가 있습니다",
    "proxy.recover_why": "복구는 언제나 안전합니다. 지금 있는 것을 다시 확인하고 거기서부터 이어 갑니다.",
    "proxy.limit": "{name} 워크스페이스를 아직 시작할 수 없습니다",
    "proxy.limit_max": "동시에 {max}개까지 실행할 수 있습니다.",
    "proxy.limit_why": (
        "지금 실행 중인 워크스페이스: {names}. 하나를 재우면 이 워크스페이스를 시작합니다. 재운 "
        "워크스페이스의 파일은 그대로 남습니다."
    ),
    "proxy.limit_problem": (
        "{name} 워크스페이스는 문제가 있는 채로 자리를 차지하고 있습니다. 복구하거나 삭제하세요."
    ),
    "proxy.limit_total": (
        "이곳에서는 모든 사용자를 합쳐 동시에 {max}개까지 실행할 수 있으며, 지금은 빈자리가 없습니다. 실행 "
        "중인 워크스페이스가 잠든 뒤 다시 시도하세요."
    ),
    "proxy.missing": "워크스페이스를 찾을 수 없습니다",
    "proxy.missing_why": "존재하지 않거나 삭제된 워크스페이스입니다.",
    "proxy.sessions": "브라우저가 세션을 여러 개 보냈습니다",
    "proxy.sessions_why": (
        "같은 도메인의 다른 사이트가 그중 하나를 심었을 수 있습니다. 이 사이트와 상위 도메인의 쿠키를 지운 "
        "뒤 다시 로그인하세요."
    ),
    "proxy.foreign": "다른 사람의 워크스페이스입니다",
    "proxy.foreign_why": "소유자만 열 수 있습니다. 관리자도 열 수 없습니다.",
    "proxy.restore": "복원하고 열기",
    "proxy.start": "시작하고 열기",
    "proxy.recover": "복구",
    "proxy.stop": "{name} 재우기",
    "proxy.look": "{name} 문제 확인",
    "proxy.again": "다시 시도",
    "proxy.details": "문제 확인",
    "proxy.dashboard": "내 워크스페이스",
    # 시간과 용량
    "measure.ago": "{t} 전",
    "measure.in": "{t} 뒤",
    "measure.now": "방금",
    "measure.unit.s": "{n}초",
    "measure.unit.min": "{n}분",
    "measure.unit.h": "{n}시간",
    "measure.unit.d": "{n}일",
    "measure.unit.d.1": "1일",
    "measure.of": "{total} 중 {done}",
    "measure.left": "{t} 남음",
    "measure.stage.archive": "보관 중",
    "measure.stage.verify": "보관본 확인 중",
    "measure.stage.restore": "복원 중",
    "measure.stage.pull": "이미지 가져오는 중",
    # 명령줄
    "cli.doing.PROVISIONING": "홈을 만드는 중",
    "cli.doing.CREATE_EMPTY_ARCHIVE": "빈 보관본을 만드는 중",
    "cli.doing.RESTORING": "파일을 복원하는 중",
    "cli.doing.STARTING": "시작하는 중",
    "cli.doing.STOPPING": "중지하는 중",
    "cli.doing.ARCHIVING": "파일을 보관하는 중",
    "cli.doing.DELETING": "삭제하는 중",
    "cli.waiting": "차례를 기다리는 중",
    "cli.held_up": "지연됨",
    "cli.done.PROVISIONING": "홈을 만들었습니다",
    "cli.done.CREATE_EMPTY_ARCHIVE": "빈 보관본을 만들었습니다",
    "cli.done.RESTORING": "파일을 복원했습니다",
    "cli.done.STARTING": "시작했습니다",
    "cli.done.STOPPING": "중지했습니다",
    "cli.done.ARCHIVING": "파일을 보관했습니다",
    "cli.done.DELETING": "삭제했습니다",
    "cli.garbage.Replaced": "어떤 워크스페이스에도 더는 필요 없습니다.",
    "cli.garbage.Incomplete": "끝까지 만들어진 적이 없습니다.",
    "cli.garbage.Trashed": "워크스페이스가 삭제되었고 휴지통 보관 기간이 끝났습니다.",
    "cli.garbage.Stray": "워크스페이스는 보관되었고 여기서 실행된 것은 없습니다.",
    "cli.garbage.Unknown": "데이터베이스에 없는 워크스페이스의 것입니다.",
    "cli.stage.archive": "파일을 보관하는 중",
    "cli.stage.verify": "보관본을 확인하는 중",
    "cli.stage.restore": "파일을 복원하는 중",
    "cli.stage.pull": "이미지를 가져오는 중",
}
