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
    "error.400.port": "포트가 아니거나, 고를 수 없는 공개 범위입니다.",
    "error.400.entry": "워크스페이스로 가는 링크가 온전하지 않습니다. 목록에서 여세요.",
    "error.403": "다른 사람의 것입니다. 소유자와 관리자만 볼 수 있습니다.",
    "error.403.admin": "관리자만 볼 수 있는 화면입니다. 필요하면 관리자에게 문의하세요.",
    "error.403.entry": "워크스페이스는 다른 화면 안에서 열 수 없고, 그 주소로 직접 들어가야 합니다. 목록에서 여세요.",
    "error.403.foreign": "다른 사이트에서 보낸 요청이라 처리하지 않았습니다. {base} 주소로 codehub를 여세요.",
    "error.403.owner": "다른 사람의 워크스페이스입니다. 소유자만 열 수 있습니다.",
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
    "login.onward": "로그인했습니다. 이제 워크스페이스를 엽니다.",
    "login.throttled": "로그인에 너무 여러 번 실패했습니다. {seconds}초 뒤에 다시 시도하세요.",
    # 만들기와 바꾸기
    "new.title": "새 워크스페이스",
    "new.lead": "만들면 바로 시작합니다. 모든 항목은 나중에 바꿀 수 있습니다.",
    "new.create": "만들고 시작",
    "edit.title": "{name} 설정",
    "edit.lead": "이미지, IDE, 자원은 다음에 시작할 때부터 적용되고 나머지는 바로 적용됩니다.",
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
    "field.tab_script": "IDE 안의 codehub",
    "field.tab_script.hint": "잠들기 전에 알리고, 깨우기를 제안하며, 쓰는 사람이 있는지 알아챕니다.",
    "field.cross_port_access": "포트 사이 접근",
    "field.cross_port_access.hint": (
        "한 포트의 페이지가 다른 포트에 요청하고, IDE가 포트를 그 안에 보여 줄 수 있습니다. 소유자 자신에게만, 이 "
        "워크스페이스 안에서만 열립니다."
    ),
    "switch.yes": "예",
    "switch.no": "아니요",
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
    "wrong.tab_script": "이 가운데 하나를 고르세요.",
    "wrong.cross_port_access": "이 가운데 하나를 고르세요.",
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
    "ports": "포트",
    "ports.why": "워크스페이스에서 수신 대기하는 프로그램마다 별도의 주소가 있습니다. 다른 사람에게 열기 전에는 나만 들어갈 수 있습니다.",
    "ports.none": "지금 수신 대기하는 프로그램이 없습니다. 워크스페이스에서 웹 서버를 시작하면 여기에 나타납니다.",
    "ports.rests": "워크스페이스가 실행 중일 때 포트가 여기에 나타납니다.",
    "ports.away": "백엔드가 응답하지 않아 포트를 볼 수 없습니다.",
    "ports.silent": "수신 대기 없음",
    "ports.for": "{port} 포트에 들어올 수 있는 사람",
    "ports.private": "나만",
    "ports.shared": "공유받은 사람",
    "ports.signed-in": "로그인한 모든 사람",
    "ports.public": "누구나",
    "ports.public.3600": "누구나, 1시간 동안",
    "ports.public.86400": "누구나, 하루 동안",
    "ports.public.604800": "누구나, 1주일 동안",
    "ports.until": "남은 시간",
    "ports.set": "적용",
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
        "누구의 홈인지 알려 주는 표시만 없어졌습니다. 다른 파일이 놓인 것이 아니라면 남아 있는 파일로 계속할 "
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
    "trash.lead": ("삭제한 워크스페이스는 여기에 보관합니다. 삭제를 되돌리거나 영구 삭제할 수 있습니다."),
    "trash.empty": "휴지통이 비어 있습니다",
    "trash.empty.why": "삭제한 워크스페이스는 먼저 여기로 옮겨집니다.",
    "trash.gone": "영구 삭제",
    "trash.kept": "직접 영구 삭제할 때까지 보관",
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
    "reason.KeptInTrash": "삭제되었습니다. 누군가 영구 삭제할 때까지 마지막 보관본을 남겨 둡니다.",
    "reason.Gone": "삭제되었고, 남은 것이 없습니다.",
    "reason.Forgotten": (
        "관리자가 삭제를 포기했고 지워진 파일은 없습니다. 남은 것은 휴지통 보관 기간이 끝날 때까지 그대로 있습니다."
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
    # 클러스터가 말하는 것
    "reason.Unschedulable": (
        "지금 클러스터에 자리가 없습니다. 노드 {nodes}개 중 {lacks} 다른 워크스페이스가 멈추거나 관리자가 노드를 "
        "추가하면 저절로 시작합니다. 메모리나 CPU를 줄이면 들어갈 수도 있습니다."
    ),
    "reason.Unschedulable.one": (
        "지금 클러스터에 자리가 없습니다. 노드 {nodes}개: {lacks} 다른 워크스페이스가 멈추거나 관리자가 노드를 "
        "추가하면 저절로 시작합니다. 메모리나 CPU를 줄이면 들어갈 수도 있습니다."
    ),
    "reason.Unschedulable.unknown": (
        "지금 클러스터에 자리가 없습니다. {message} 다른 워크스페이스가 멈추거나 관리자가 노드를 추가하면 저절로 "
        "시작합니다. 메모리나 CPU를 줄이면 들어갈 수도 있습니다."
    ),
    "reason.LacksResource": "{nodes}개는 {resource} 부족.",
    "reason.LacksResource.one": "{nodes}개는 {resource} 부족.",
    "reason.NodesRefuse": "{nodes}개: {why}.",
    "reason.ImageNotPulled": (
        "지금 이미지를 가져올 수 없습니다({image}): {message} 클러스터가 계속 시도합니다. 이름이 틀렸다면 다른 "
        "이미지를 고르세요."
    ),
    "reason.ImageRefused": "이미지를 쓸 수 없습니다({image}): {message} 다른 이미지를 고른 뒤 복구하세요.",
    "reason.ContainerNotMade": "노드가 실행하지 못합니다: {message} 이미지를 살펴본 뒤 복구하세요.",
    "reason.SandboxFailed": "노드가 아직 준비하지 못했습니다: {message} 클러스터가 계속 시도합니다.",
    "reason.VolumeNotMounted": (
        "홈을 아직 마운트할 수 없습니다: {message} 클러스터가 계속 시도합니다. 관리자가 클레임(PVC)과 스토리지 "
        "클래스를 살펴볼 수 있습니다."
    ),
    "reason.VolumeNotAttached": (
        "홈을 아직 노드에 연결할 수 없습니다: {message} 클러스터가 계속 시도합니다. 사라진 다른 노드가 붙잡고 있다면 "
        "관리자가 그 노드를 서비스 중단(out-of-service)으로 표시할 수 있습니다."
    ),
    "reason.VolumeUnbound": (
        "클러스터가 아직 홈을 만들지 못합니다: {message} 관리자가 스토리지 클래스를 고치면 저절로 계속합니다."
    ),
    "reason.ClaimHeld": (
        "클레임을 삭제하는 중인데({claim}) 무언가가 붙잡고 있습니다: {finalizers}. 관리자가 kubectl로 확인할 수 "
        "있습니다."
    ),
    "reason.OutOfMemory": "메모리 한도({memory})를 넘겨 종료되었습니다. 메모리를 늘린 뒤 시작하세요.",
    "reason.Evicted": "노드에 자원이 모자라 종료되었습니다: {message} 다시 시작할 수 있습니다.",
    "reason.Preempted": "더 중요한 것이 노드의 자리를 차지했습니다: {message} 다시 시작할 수 있습니다.",
    "reason.PlaceTaken": "더 중요한 것이 노드의 자리를 차지했습니다({message}). {why}",
    "reason.QuotaExceeded": (
        "클러스터가 이 네임스페이스에 더는 허용하지 않습니다: {message} 다른 워크스페이스가 멈추거나 관리자가 할당량을 "
        "늘리면 계속합니다."
    ),
    "reason.AdmissionRefused": "클러스터가 받아들이지 않습니다: {message} 관리자가 그 규칙이나 설정을 바꿔야 합니다.",
    "reason.NotPermitted": "codehub에 클러스터에서 그럴 권한이 없습니다: {message} 관리자가 권한을 줘야 합니다.",
    "reason.NodeLost": (
        "노드가 응답하지 않습니다({node}). 거기서 아직 실행 중일 수 있어 아무것도 대신하지 않습니다. 노드가 "
        "돌아오면 계속합니다. 돌아오지 않는다면 관리자가 알려 주세요: "
        "kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    ),
    "reason.KubernetesNotOurs": "클러스터의 {name}: 이 설치의 것이 아니므로 건드리지 않습니다.",
    "reason.KubernetesChanges": "다른 것이 클러스터에서 계속 바꿉니다: {name}.",
    "reason.MarkOfNamespace": "네임스페이스 {namespace}의 ConfigMap {name}",
    "reason.PodNotMade": "클러스터가 Job의 파드를 만들지 않습니다: {job}.",
    "reason.PodNotBegun": "노드가 아직 파드를 시작하지 않았습니다: {pod}.",
    "reason.PodDeleted": "작업이 끝나기 전에 파드가 삭제되었습니다: {pod}.",
    "reason.PodFailed": "파드가 실패했습니다: {pod}.",
    "reason.JobRemains": "Job이 사라지지 않습니다: {job}.",
    "reason.ReachesWorkspaces": (
        "워크스페이스끼리 서로, 그리고 클러스터에 접속할 수 있습니다. 네트워크 플러그인이 NetworkPolicy를 "
        "적용하지 않습니다."
    ),
    "reason.ReachesApiServer": "NetworkPolicy가 막는데도 워크스페이스가 API 서버에 접속할 수 있습니다.",
    "reason.ReachesNode": (
        "NetworkPolicy가 막는데도 워크스페이스가 자신이 실행되는 노드에 접속할 수 있습니다."
    ),
    "reason.ReachesMetadata": (
        "NetworkPolicy가 막는데도 워크스페이스가 메타데이터 주소 169.254.169.254에 접속할 수 있습니다."
    ),
    "reason.NotAdmitted": (
        "여기에서는 codehub가 워크스페이스에 접속할 수 없습니다. 프록시와 컨트롤러가 실행되는 곳을 "
        "CODEHUB_K8S_REACHED_FROM에 적어야 합니다."
    ),
    "reason.ProbeUnderWay": "다른 codehub가 확인하는 중이거나, 몇 분 안에 확인하다가 강제로 종료되었습니다.",
    "reason.ProbeLate": "{image} 이미지의 파드가 {seconds}초 안에 준비되지 않았습니다 (kubectl describe job {job}).",
    "reason.ProbeSilent": (
        "{image} 이미지의 파드가 종료 코드 {exit_code}, 아무 말 없이 끝났습니다. 이 버전의 codehub "
        "이미지인지 확인하십시오."
    ),
    "reason.Grew": "디스크가 거의 찬 동안 홈이 {grew} MB 늘었습니다. 삭제된 것은 없습니다.",
    "reason.FailedAgain": "{count}번 실패했습니다. 마지막 이유: {message}",
    "reason.NoAnswer": "백엔드가 응답하지 않습니다.",
    "reason.ImageNotAllowed": "이곳에서 허용하지 않는 이미지입니다: {image} (CODEHUB_ALLOWED_IMAGES). 다른 이미지를 고른 뒤 복구하세요.",
    "reason.Verbatim": "{text}",
    "reason.Several": "{messages}",
    # 백엔드가 알리는 것: 홈
    "reason.NoSuchVolume": "홈을 찾을 수 없습니다: {volume_id}.",
    "reason.NothingToAdopt": "받아들일 홈이 없습니다.",
    "reason.HasIdentity": "남아 있는 홈에 어느 홈인지 알려 주는 정보가 있어 받아들이지 않습니다.",
    "reason.OtherVolume": "지금 있는 홈은 {volume_id} 홈이 아니므로 건드리지 않습니다.",
    "reason.VolumeInUse": "홈을 사용하고 있습니다. 사용하는 것이 없어질 때까지 기다립니다.",
    "reason.VolumeHeld": "홈을 사용하고 있습니다: {text}",
    "reason.NewerJob": "더 나중에 시작한 시도가 이 시도를 대신했습니다.",
    "reason.JobSilent": "홈을 다루는 작업이 결과를 알리지 않고 끝났습니다: {text}",
    "reason.JobStopped": "홈을 다루는 작업이 중지 지시를 받았습니다.",
    "reason.GrantsUnreadable": "홈을 다루는 작업이 허가 내용을 읽을 수 없습니다: {text}",
    "reason.GrantsRefused": "보관소가 홈을 다루는 작업의 요청을 거부했습니다: {url} ({text})",
    "reason.HomeNotEmpty": "이미 파일이 있어 그 위에 복원하지 않습니다: {path}.",
    "reason.OtherFilesystem": "다른 파일 시스템이라 파일이 보관되지 않습니다: {path}. 파일을 홈으로 옮기거나 마운트를 해제하세요.",
    "reason.TooManyDevices": "홈에 파이프나 장치 파일이 너무 많습니다. 지우세요.",
    "reason.NeedsSandbox": (
        "읽기 전용이면서 확장 속성이 있는 파일은 bubblewrap(과 사용자 네임스페이스) 없이 복원할 수 없습니다: {path}. bubblewrap을 설치하거나 "
        "소유자가 쓸 수 있게 하세요(chmod u+w)."
    ),
    "reason.HomeUnreadable": "홈을 모두 읽지 못했습니다: {text}",
    "reason.HomeChanged": "보관하는 동안 홈이 바뀌었습니다: {text}",
    "reason.HomeUnwritable": "홈에 쓰지 못했습니다: {text}",
    "reason.HomeNotRestored": "홈을 원래대로 복원하지 못했습니다: {text}",
    "reason.NoAcls": "홈의 파일 시스템은 ACL을 지원하지 않습니다: {text}",
    "reason.HomesFull": "홈을 둘 디스크 공간이 없습니다: {text}",
    "reason.DiskFailed": "디스크에 홈을 기록하지 못했습니다: {text}",
    "reason.PathUnusable": "사용할 수 없는 경로입니다: {path} ({text})",
    "reason.PathNotRemoved": "지울 수 없는 경로입니다: {path} ({text})",
    "reason.PathForeign": "다른 사용자의 파일입니다: {path}. 지우세요.",
    "reason.NoLocalHome": "로컬 홈의 위치가 아닙니다: {path}.",
    "reason.OtherInstallation": "다른 설치의 것입니다: {place} ({mark})",
    "reason.NotAnswering": "응답하지 않습니다: {place}.",
    "reason.MarkToAdopt": (
        "홈이 있는 곳을 알려 주는 표식이 없습니다: {mark}. 올바른 곳이고 디스크가 연결되어 있으면 다시 만드세요: "
        "codehub adopt-engine"
    ),
    "reason.MarkOfHomes": "홈 디렉터리의 파일 {path}",
    "reason.MarkOfData": "데이터 디렉터리의 파일 {path}",
    "reason.NameOfHomes": "데이터 디렉터리의 {path} 파일에 적힌 홈 디렉터리 이름",
    "reason.NameOfData": "데이터 디렉터리의 {path} 파일에 적힌 데이터 디렉터리 이름",
    "reason.MarkOfEngine": "Docker 엔진의 볼륨 {name}",
    # 보관본
    "reason.ArchiveOvertaken": "다른 프로세스가 작업을 이어받아 이 보관본을 확정하지 않습니다.",
    "reason.ArchiveNotThere": "보관본이 없어졌거나 끝까지 만들어지지 않았습니다: {key}.",
    "reason.ArchiveDamaged": "보관본을 믿을 수 없습니다: {key} ({problem})",
    "reason.ArchiveUnfit": "보관본을 이곳에서 복원할 수 없습니다: {key}. {problem}",
    "reason.ArchiveNotAsWritten": "보관본이 기록한 내용과 달라 확정하지 않습니다: {key} ({problem})",
    "reason.ArchiveLonger": "보관본이 홈의 크기로 예상한 것보다 깁니다: {size} 바이트 초과.",
    "reason.HomeUnfit": "이 홈은 보관본에서 복원할 수 없습니다: {problem}",
    "reason.AclUnkept": "홈의 파일 시스템이 지원하지 않는 ACL이 있습니다: {path}. ACL을 켜서 마운트하세요.",
    "reason.CapabilityUngiven": (
        "root만 줄 수 있는 권한(capability)이 있습니다: {path}. 지우거나(setcap -r) codehub를 root로 실행하세요."
    ),
    "reason.AclOfUnknown": "root가 아닌 codehub가 알 수 없는 사용자의 ACL이 있습니다: {path}. 그 항목을 지우세요(setfacl -x).",
    "reason.AclByName": "사용자를 번호가 아닌 이름으로 적은 ACL이 있습니다: {path}. bubblewrap을 설치하세요.",
    "reason.AttributeMalformed": "codehub가 쓰는 형식이 아닌 ACL이나 권한(capability)이 있습니다: {path}.",
    "reason.PathTooLong": "경로가 {length} 바이트로 이 시스템의 한도({max})보다 깁니다: {path}",
    "reason.ChecksumWrong": "체크섬이 틀립니다",
    "reason.MetaLater": ".meta의 형식은 {format}인데 이 codehub는 형식 {known}까지 압니다",
    "reason.StreamRefused": "codehub가 쓰는 보관본과 다릅니다 ({text})",
    "reason.ArchivesFull": "보관소에 공간이 없습니다: {url} ({text})",
    "reason.StoreRefused": "보관소가 거부했습니다: {url} ({text})",
    "reason.StoreUnusable": "보관소를 사용할 수 없습니다: {url} ({text})",
    "reason.StoreWithoutBucket": "버킷이 없습니다: {url}. 버킷을 만들거나 CODEHUB_ARCHIVE_URL을 고치세요.",
    "reason.StoreCredentials": (
        "보관소가 자격 증명을 거부했습니다: {url}. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY와 그 권한을 확인하세요 "
        "({text})"
    ),
    "reason.StoreUnsigned": (
        "서명에 쓸 AWS_ACCESS_KEY_ID와 AWS_SECRET_ACCESS_KEY가 없어 작업에 보관소 사용을 허가할 수 없습니다. 설정하세요."
    ),
    "reason.StoreUnmarked": "{mark} 파일이 없습니다: {place}. 마운트되어 있나요?",
    # 로컬 IDE
    "reason.UserIdsTaken": "이 설치의 사용자 번호 {count}개를 모두 사용하고 있습니다.",
    "reason.ProcessesRemain": "IDE의 프로세스를 끝낼 수 없습니다: {pids}.",
    "reason.InstanceUnseen": "여기서 보이지 않는 곳에서 IDE가 실행되고 있습니다.",
    "reason.IdeNotStarted": "IDE를 시작하지 못했습니다: {text}",
    "reason.IdeNotInstalled": "이 서버에 설치되지 않은 IDE입니다: {ide} (설치된 것: {installed}). 설치하거나 다른 IDE를 고르세요.",
    "reason.IdeNotOffered": "이곳에서 실행할 수 없는 IDE입니다: {ide} (가능한 것: {offered}).",
    "reason.IdeFailsHere": "이곳에서 실행할 수 없는 IDE입니다: {ide} ({problem})",
    "reason.IdeSilent": "{seconds}초 동안 응답이 없습니다 {text}",
    "reason.IdeNotCopied": "IDE를 복사하지 못했습니다: {ide} → {path} ({text})",
    "reason.ToolsMissing": "IDE를 별도 사용자로 실행할 수 없습니다: {text}",
    "reason.HomeBarred": (
        "샌드박스 없이는 워크스페이스의 사용자가 들어갈 수 없습니다: {path}. bubblewrap을 설치하거나 다른 사용자가 들어갈 수 있게 하세요(chmod o+x "
        "{path})."
    ),
    # Docker
    "reason.DockerUnreachable": "Docker 엔진에 연결할 수 없습니다: {url} ({text})",
    "reason.DockerCutOff": "Docker의 스트림이 끊겼습니다: {text}",
    "reason.DockerRefused": "Docker가 거부했습니다 ({status}): {text}",
    "reason.DockerFailed": "Docker에 오류가 생겼습니다 ({status}): {text}",
    "reason.DockerListPartial": "Docker가 볼륨 목록을 모두 가져오지 못했습니다: {text}",
    "reason.DockerNotOurs": "Docker 엔진의 {name}: 이 설치의 것이 아니므로 건드리지 않습니다.",
    "reason.KubernetesUnreachable": "Kubernetes API에 물어볼 수 없습니다: {server} ({text})",
    "reason.KubernetesSilent": "Kubernetes API가 제때 응답하지 않습니다: {server}",
    "reason.KubernetesUntrusted": "Kubernetes API의 인증서를 믿을 수 없습니다: {server} ({text})",
    "reason.KubernetesStranger": "Kubernetes API가 codehub의 자격 증명을 받아들이지 않습니다: {server}",
    "reason.KubernetesCredentials": "Kubernetes API에 쓸 codehub의 자격 증명을 사용할 수 없습니다: {server} ({text})",
    "reason.KubernetesPlugin": "kubeconfig의 자격 증명 플러그인 {name}: 자격 증명을 주지 않습니다 ({text})",
    "reason.KubernetesRefused": "Kubernetes가 거부했습니다 ({status}): {text}",
    "reason.KubernetesListExpired": "Kubernetes가 목록을 보관하는 시간보다 조회가 오래 걸립니다: {kind}",
    "reason.KubernetesUnseen": "클러스터의 {kind}: 볼 수 없습니다. {reason}",
    "reason.KubernetesNotListed": "목록이 아직 완전하지 않거나 최신이 아닙니다.",
    "reason.KubernetesCommand": "Kubernetes가 명령을 실행하지 못했습니다: {text}",
    "reason.KubernetesCommandLost": "명령과의 연결이 끊겨 어떻게 끝났는지 알 수 없습니다.",
    "reason.ContainerChanges": "다른 것이 컨테이너를 계속 바꿉니다: {name}.",
    "reason.ContainerNotRemoved": "컨테이너를 지울 수 없습니다: {name}.",
    "reason.ContainerHoldsVolume": "Docker가 지우지 못하는 컨테이너가 홈을 잡고 있습니다: {text}",
    "reason.HelperFailed": "홈을 다루는 작업이 종료 코드 {exit_code}(으)로 끝났습니다: {text}",
    "reason.NetworkOpen": "Docker 네트워크에서 컨테이너끼리 연결할 수 있습니다: {network}. 지우면 올바르게 다시 만듭니다.",
    "reason.ImageUnavailable": "이미지를 가져올 수 없습니다: {image} ({text})",
    "reason.ImageNotFetched": "이미지를 가져오지 못했습니다: {image} ({text})",
    "reason.RegistryUnreachable": "이미지의 레지스트리에 연결할 수 없습니다: {image} ({text})",
    # 백엔드 공통
    "reason.NoAdapter": "이 프로세스는 백엔드에 연결되어 있지 않습니다: {backend}.",
    # 인스턴스로 들어가는 길
    "reason.InstanceNotRunning": "워크스페이스가 실행 중이 아닙니다.",
    "reason.NotEntered": "워크스페이스에 들어갈 수 없습니다: {text}",
    "reason.NoSuchCommand": "워크스페이스에 없는 명령입니다: {command}",
    "reason.NoSuchDirectory": "워크스페이스에 없는 디렉터리입니다: {directory}",
    "reason.CommandUnusable": "프로그램에 전달할 수 없는 명령입니다.",
    "reason.NothingListens": "워크스페이스의 이 포트에서 수신 대기하는 프로그램이 없습니다: {port}",
    "reason.NoLoopback": "워크스페이스에 자체 네트워크가 없어서 이 컴퓨터의 포트에 연결될 수 있습니다.",
    "reason.HelperNotConnected": "도우미 이미지로 연결할 수 없습니다. perl이 없거나 종료되었습니다: {image}",
    "reason.NoRelayProgram": "워크스페이스의 이미지에 perl도 python3도 없어 포트에 연결할 수 없습니다.",
    # 정리하지 않고 남기는 이유
    "reason.NeededByNow": "이제는 필요합니다.",
    "reason.InstanceRunsOnIt": "실행 중인 IDE가 사용하고 있습니다.",
    "reason.ChangedMeanwhile": "확인하는 동안 워크스페이스가 바뀌었습니다.",
    "reason.ItemUnidentified": "파일은 있지만 누구의 홈인지 알려 주는 표시가 없습니다. `--orphans`로 지울 수 있습니다.",
    "reason.ItemWorkedOn": "누군가 작업했지만 워크스페이스에는 그 기록이 없습니다. 데이터베이스가 더 오래되었습니다. `--orphans`로 지울 수 있습니다.",
    "reason.ItemWorkedOnSince": "포기한 삭제 뒤에 누군가 작업했으므로 저절로 지우지 않습니다. `--orphans`로 지울 수 있습니다.",
    "reason.ItemLastCopy": "이 홈을 복원한 보관본이 없어졌고 워크스페이스는 이 홈을 모릅니다. `--orphans`로 지울 수 있습니다.",
    "reason.OfBackend": "{backend}: {message}",
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
    "reason.PortShared": "{port} 포트를 열었습니다: “{visibility}”.",
    "reason.PortSharedUntil": "{port} 포트를 {until}까지 열었습니다: “{visibility}”.",
    "reason.PortMadePrivate": "{port} 포트를 비공개로 바꿨습니다.",
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
    # API의 오류
    "reason.WrongLogin": "이름이나 비밀번호가 틀립니다.",
    "reason.WrongOldPassword": "지금 비밀번호가 틀립니다.",
    "reason.TooManyTries": "실패한 시도가 너무 많습니다. {seconds}초 뒤에 다시 시도하세요.",
    "reason.SignInFirst": "먼저 로그인하세요. POST /api/v1/login을 쓰거나 토큰을 `Authorization: Bearer cht_…`로 보내세요.",
    "reason.KeyEnded": "로그인이 방금 끝났습니다. 다시 로그인하세요.",
    "reason.SeveralSessions": (
        "브라우저가 세션을 여러 개 보냈습니다. 같은 도메인의 다른 사이트가 만든 것일 수 있습니다. 이 사이트와 도메인의 쿠키를 지우고 다시 로그인하세요."
    ),
    "reason.SignInCrowded": "지금 로그인하는 사람이 너무 많습니다. {seconds}초 뒤에 다시 시도하세요.",
    "reason.TokenOnlyReads": "읽기만 할 수 있는 토큰입니다.",
    "reason.OtherSite": "다른 사이트에서 온 요청입니다. codehub 주소로 여세요: {base}.",
    "reason.TooManyRequests": "1분 동안 요청을 {max}개보다 많이 보냈습니다. 잠시 기다리세요.",
    "reason.NoSuchToken": "그런 토큰이 없습니다.",
    "reason.NoSuchUser": "그런 사용자가 없습니다.",
    "reason.UsernameTaken": "같은 이름의 사용자가 있습니다. 다른 이름을 고르세요.",
    "reason.NameTaken": "같은 이름의 워크스페이스가 있습니다. 다른 이름을 고르세요.",
    "reason.LastAdmin": "마지막 관리자입니다. 먼저 다른 사람을 관리자로 지정하세요.",
    "reason.TooManyTokens": "토큰은 {max}개까지 만들 수 있습니다. 먼저 하나를 삭제하세요",
    "reason.TooManyStreams": "스트림은 {max}개까지 열 수 있습니다. 먼저 하나를 닫으세요",
    "reason.KeyUsedBefore": "다른 요청에 이미 사용했습니다",
    "reason.GivenTwice": "두 번 이상 지정했습니다",
    "reason.NoOrigins": (
        "여기서는 워크스페이스마다 별도의 주소(origin)가 없어 포트를 열 수 없습니다. 운영자가 CODEHUB_WORKSPACE_HOST로 "
        "켤 수 있습니다."
    ),
    "reason.OpenedByOwner": "다른 사람에게 여는 것은 소유자만 할 수 있습니다.",
    "reason.PortAboveCeiling": "여기서 허용되는 최대 공개 범위는 {max}입니다",
    "reason.PublicNeedsEnd": "누구나 들어올 수 있게 하려면 끝나는 시각이 필요합니다",
    "reason.EndIsPast": "미래의 시각이어야 합니다",
    "reason.TooManyPorts": "비공개가 아닌 포트는 워크스페이스마다 최대 {max}개입니다. 먼저 하나를 비공개로 바꾸세요",
    "reason.OfDeletedWorkspace": "이 Idempotency-Key로 만든 워크스페이스는 삭제되었습니다. 새로 만들려면 다른 키를 쓰세요.",
    "reason.FollowedByAdmins": "다른 사람의 워크스페이스는 관리자만 볼 수 있습니다.",
    "reason.SeenByAdmins": "다른 사람의 워크스페이스는 관리자만 볼 수 있습니다.",
    "reason.OneWayOn": "accept_loss, take, adopt 중 하나만 고르세요",
    "reason.IdeNotHere": "{ide} IDE가 없습니다. 사용할 수 있는 것: {offered}",
    "reason.BackendNotHere": "설정되지 않은 백엔드입니다: {backend}. 사용할 수 있는 것: {offered}",
    "reason.HomesNotHere": "{backend} 백엔드에는 다음 중 하나여야 합니다: {offered}",
    "reason.NotAvailable": "필요한 것이 응답하지 않습니다. 잠시 뒤에 다시 시도하세요.",
    "reason.OurMistake": "오류가 생겼습니다. 로그에서 이 요청의 X-Request-Id로 찾을 수 있습니다.",
    "reason.BodyUnreadable": "본문을 읽을 수 없습니다. UTF-8로 쓴 JSON이 아니거나 아무도 쓰지 않을 JSON입니다.",
    "reason.BodyNoJson": "본문이 JSON이 아닙니다.",
    "reason.NothingHere": "이 주소에는 아무것도 없습니다.",
    "reason.NoSuchMethod": "이곳에 없는 메서드입니다. 사용할 수 있는 것은 Allow 헤더에 있습니다.",
    # 필드의 잘못
    "problem.missing": "빠졌습니다",
    "problem.extra_forbidden": "없는 필드입니다",
    "problem.string_type": "글자여야 합니다",
    "problem.string_unicode": "반쪽 문자(짝 없는 서로게이트)가 있습니다",
    "problem.string_too_short": "길이가 {min_length} 이상이어야 합니다",
    "problem.string_too_long": "길이가 {max_length} 이하여야 합니다",
    "problem.string_pattern_mismatch": "다음 형식이어야 합니다: {pattern}",
    "problem.int_parsing_size": "너무 큽니다",
    "problem.greater_than": "{gt}보다 커야 합니다",
    "problem.greater_than_equal": "{ge} 이상이어야 합니다",
    "problem.less_than_equal": "{le} 이하여야 합니다",
    "problem.enum": "다음 중 하나여야 합니다: {expected}",
    "problem.value_error": "{error}",
    "problem.otherwise": "올바른 값이 아닙니다",
    "problem.whole": "정수여야 합니다",
    "problem.number": "숫자여야 합니다",
    "problem.truth": "true나 false여야 합니다",
    "problem.object": "객체여야 합니다",
    "problem.no_json": "{position}번째 문자부터 JSON이 아닙니다",
    "problem.not_said_json": "JSON이라고 밝히지 않았습니다. Content-Type: application/json을 보내세요",
    "problem.nul": "NUL 문자가 있습니다",
    "problem.control": "제어 문자가 있습니다: {character}",
    "problem.empty": "비어 있습니다",
    "problem.reserved": "쓸 수 없는 이름입니다(예약됨)",
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
    "waits.Host": "클러스터. {message}",
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
    "proxy.door": "더 이상 사용할 수 없는 링크입니다",
    "proxy.door_why": "이 링크는 요청한 브라우저에서 30초 안에 한 번만 사용할 수 있습니다.",
    "proxy.door_again": "워크스페이스 다시 열기",
    "proxy.frame": "이 포트를 한 번 열어 주십시오",
    "proxy.frame_why": (
        "다른 페이지 안에서는 누구인지 알 수 없습니다. 따로 탭에서 연 다음 여기서 다시 시도하십시오."
    ),
    "proxy.frame_open": "탭에서 열기",
    "proxy.port": "여기서는 포트를 열 수 없습니다",
    "proxy.port_why": "이곳의 워크스페이스에는 자체 네트워크가 없어, 포트를 열면 이 컴퓨터의 포트가 됩니다.",
    "proxy.silent": "{port} 포트에서 아직 아무것도 수신 대기하지 않습니다",
    "proxy.silent_why": "워크스페이스는 실행 중이지만, {port} 포트에서 수신 대기하는 프로그램이 없습니다.",
    "proxy.silent_then": "워크스페이스에서 프로그램을 시작하세요. 준비되면 이 페이지가 저절로 열립니다.",
    "proxy.asleep": "잠들어 있습니다",
    "proxy.asleep_why": "워크스페이스의 소유자만 깨울 수 있습니다. 나중에 다시 오세요.",
    "proxy.asleep_owner": "제가 소유자입니다",
    "proxy.restore": "복원하고 열기",
    "proxy.start": "시작하고 열기",
    "proxy.recover": "복구",
    "proxy.stop": "{name} 재우기",
    "proxy.look": "{name} 문제 확인",
    "proxy.show": "{name} 보기",
    "proxy.again": "다시 시도",
    "proxy.details": "문제 확인",
    "proxy.dashboard": "내 워크스페이스",
    # IDE 탭 안: 제목, 문장, 단추
    "tab.asleep.title": "잠들었습니다",
    "tab.asleep.why": "이 워크스페이스는 자고 있습니다. 파일은 그대로입니다.",
    "tab.asleep.do": "깨우기",
    "tab.starting.title": "시작하는 중",
    "tab.starting.why": "이 워크스페이스가 시작하고 있습니다. 열면 얼마나 되었는지 보입니다.",
    "tab.starting.do": "열기",
    "tab.again.title": "다시 시작되었습니다",
    "tab.again.why": "이 페이지는 이전 실행의 것입니다. 다시 불러와야 이어서 쓸 수 있습니다.",
    "tab.again.do": "다시 불러오기",
    "tab.archived.title": "보관되었습니다",
    "tab.archived.why": "이 워크스페이스의 파일은 그대로 보관되어 있습니다.",
    "tab.archived.do": "열기",
    "tab.unstarted.title": "시작되지 않았습니다",
    "tab.unstarted.why": "이 워크스페이스는 실행되고 있지 않습니다.",
    "tab.unstarted.do": "열기",
    "tab.problem.title": "문제가 있습니다",
    "tab.problem.why": "이 워크스페이스에 사용자의 결정이 필요합니다.",
    "tab.problem.do": "무슨 일인지 보기",
    "tab.warning.title": "곧 잠듭니다",
    "tab.warning.why": "아무도 쓰지 않으면 {s}초 뒤에 잠듭니다.",
    "tab.warning.do": "깨어 있게 하기",
    "tab.away.title": "codehub가 다시 시작하고 있습니다",
    "tab.away.why": "네트워크가 끊겼을 수도 있습니다. 저절로 다시 시도합니다.",
    "tab.away.do": "지금 시도",
    "tab.limit.title": "아직 시작할 수 없습니다",
    "tab.limit.why": "너무 많이 실행되고 있습니다.",
    "tab.limit.do": "멈출 것 고르기",
    "tab.signed_out.title": "로그아웃되었습니다",
    "tab.signed_out.why": "이어서 쓰려면 로그인하세요. 실행 중인 것은 계속 실행됩니다.",
    "tab.signed_out.do": "로그인",
    "tab.gone.title": "이 워크스페이스가 없습니다",
    "tab.gone.why": "삭제되었거나, 더는 열 수 없습니다.",
    "tab.gone.do": "확인",
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
    "cli.garbage.removed": "지움 — {item}: {why}",
    "cli.garbage.would_remove": "지울 것 — {item}: {why}",
    "cli.garbage.failed": "지우지 못함 — {item}: {why}",
    "cli.garbage.unknown": "데이터베이스가 모르는 것이라 남겨 둠(--orphans로 지움): {item}",
    "cli.garbage.forgotten": "삭제를 포기한 워크스페이스에서 남은 것(영구 삭제하거나 휴지통 보관 기간이 끝나면 지움): {item}",
    "cli.garbage.newer": "워크스페이스가 가리키는 것보다 새로운 것이라 남겨 둠(데이터베이스가 홈보다 오래되었나요?): {item}",
    "cli.garbage.unreachable": "확인하지 못함 — {message}",
    "cli.garbage.leftover": "중단된 작업이 남긴 것(충분히 오래되면 지움): {leftover}",
    "cli.garbage.events": "오래된 기록 {count}개를 지움",
    "cli.garbage.none": "정리할 것이 없습니다.",
    "cli.thing.instance": "IDE {name}",
    "cli.thing.volume": "홈 {name}",
    "cli.thing.archive": "보관본 {name}",
    "cli.never": "없음",
    "cli.ago": "{span} 전",
    "cli.ahead": "{span} 뒤",
    "cli.explain.goes": "{name}: {state}. 사라져야 합니다.",
    "cli.explain.rests": "{name}: {state}. 목표 상태입니다.",
    "cli.explain.moves": "{name}: {state}. 목표 상태: {goal}.",
    "cli.explain.nothing": "없음",
    "cli.explain.next": "다음 작업: {operation}",
    "cli.explain.actions": "할 수 있는 것",
    "cli.explain.decisions": "최근 결정 (새것부터)",
    "cli.explain.by": "{actor}",
    "cli.explain.error": "{reason} ({operation} 중)",
    "cli.explain.times": "{count}번",
    "cli.view.goal": " (목표 상태: {goal})",
    "cli.view.backends": "{runs_as}, 파일 위치: {storage}",
    "cli.view.limits": "메모리 {memory_mb} MB, CPU {cpus}개, 프로세스 {pids}개, 디스크 {disk_mb} MB",
    "cli.view.standby_ttl": "{span} 동안 쓰지 않으면",
    "cli.view.archive_ttl": "{span} 동안 잠든 뒤",
    "cli.view.that_is": "즉 {at}",
    "cli.view.undone": "{until}까지 되돌릴 수 있음",
    "cli.view.undone.always": "누군가 영구 삭제할 때까지 되돌릴 수 있음",
    "cli.view.when_purged": "영구 삭제할 때",
    "cli.view.used.memory_mb": "메모리 {n} MB",
    "cli.view.used.cpu": "CPU {n}개",
    "cli.view.used.disk_mb": "디스크 {n} MB",
    "cli.heading.NAME": "이름",
    "cli.heading.PORT": "포트",
    "cli.heading.PROCESS": "프로세스",
    "cli.heading.FOR": "공개 범위",
    "cli.heading.UNTIL": "종료 시각",
    "cli.heading.URL": "주소",
    "cli.heading.PINNED": "고정",
    "cli.heading.OWNER": "소유자",
    "cli.heading.STATE": "상태",
    "cli.heading.IDE": "IDE",
    "cli.heading.LAST USED": "마지막 사용",
    "cli.heading.GONE": "사라짐",
    "cli.heading.SLEEPS": "잠듦",
    "cli.heading.ID": "ID",
    "cli.heading.WHEN": "시각",
    "cli.heading.WHAT": "종류",
    "cli.heading.CHANGE": "변경",
    "cli.heading.BY": "누가",
    "cli.heading.WHY": "이유",
    "cli.heading.SCOPE": "권한",
    "cli.heading.EXPIRES": "만료",
    "cli.label.name": "이름",
    "cli.label.state": "상태",
    "cli.label.held up": "멈춤",
    "cli.label.error": "오류",
    "cli.label.address": "주소",
    "cli.label.description": "설명",
    "cli.label.memo": "메모",
    "cli.label.owner": "소유자",
    "cli.label.id": "ID",
    "cli.label.ide": "IDE",
    "cli.label.image": "이미지",
    "cli.label.runs as": "실행 방식",
    "cli.label.limits": "한도",
    "cli.label.uses": "사용량",
    "cli.label.sleeps": "잠듦",
    "cli.label.archived": "보관",
    "cli.label.awake until": "켜 두는 기한",
    "cli.label.in the IDE": "IDE 안",
    "cli.view.no_tab_script": "codehub의 것이 없음",
    "cli.label.ports": "포트",
    "cli.view.cross_port_access": "브라우저에서 서로 요청할 수 있음",
    "cli.label.last used": "마지막 사용",
    "cli.label.pinned": "고정",
    "cli.label.created": "생성",
    "cli.label.deleted": "삭제",
    "cli.label.archive": "보관본",
    "cli.label.doing": "작업",
    "cli.label.why": "이유",
    "cli.label.waits for": "기다리는 것",
    "cli.label.since": "시작 시각",
    "cli.stage.archive": "파일을 보관하는 중",
    "cli.stage.verify": "보관본을 확인하는 중",
    "cli.stage.restore": "파일을 복원하는 중",
    "cli.stage.pull": "이미지를 가져오는 중",
    # The help of commands
    "help.codehub": "직접 운영하는 클라우드 개발 환경입니다.",
    "help.codehub.epilog": (
        "어느 codehub인지는 CODEHUB_URL과 CODEHUB_TOKEN, 또는 `codehub login`으로 정합니다. 자세한 내용은 "
        "`codehub COMMAND --help`에 있습니다."
    ),
    "help.section.use": "codehub 사용",
    "help.section.run": "codehub 운영",
    "help.section.parts": "구성 요소를 따로 실행",
    "help.login": (
        "로그인하고, 이 컴퓨터에서 로그인 상태를 유지합니다.\n\n비밀번호는 토큰을 만드는 데 한 번만 "
        "쓰입니다. 토큰은 90일 동안 유효하고(`codehub token list`로 확인), 본인만 읽을 수 있는 "
        "~/.config/codehub/login.json에 보관됩니다."
    ),
    "help.login.url": (
        "codehub의 주소입니다. 예: https://code.example.org. 없으면 CODEHUB_URL, 그것도 없으면 "
        "http://127.0.0.1:8000입니다."
    ),
    "help.login.username": "그곳의 사용자 이름입니다. 없으면 물어봅니다.",
    "help.login.password_stdin": "비밀번호를 표준 입력에서 읽습니다.",
    "help.login.token_stdin": "토큰을 표준 입력에서 읽어 보관합니다.",
    "help.logout": "로그아웃합니다. 이 컴퓨터의 토큰은 폐기되고 지워집니다.",
    "help.password": "비밀번호를 바꿉니다. 다른 세션과 토큰은 폐기되고, 이 컴퓨터의 것만 남습니다.",
    "help.password.stdin": (
        "표준 입력에서 두 줄을 읽습니다. 첫 줄은 지금 비밀번호, 둘째 줄은 새 비밀번호입니다."
    ),
    "help.explain": (
        "워크스페이스가 왜 지금 상태인지 설명합니다.\n\n목표 상태, 진행 중인 일, 무엇을 언제부터 기다리는지, "
        "무엇이 실패했는지, 할 수 있는 일, 최근 결정 다섯 가지를 보여 줍니다."
    ),
    "help.up": (
        "이 컴퓨터에서 codehub 전체를 실행합니다. Ctrl-C로 멈춥니다.\n\nPython만 있으면 됩니다. 자체 "
        "PostgreSQL, 홈, 아카이브, 워크스페이스는 모두 CODEHUB_DATA_DIR 아래에 있습니다. 설정은 "
        "docs/settings.md에 있습니다."
    ),
    "help.api": (
        "API와 대시보드만 제공합니다.\n\nCODEHUB_HOST:CODEHUB_PORT에서 `codehub proxy`의 요청을 받습니다."
    ),
    "help.proxy": (
        "공개 포트만 제공합니다.\n\n워크스페이스는 여기서 연결하고, 나머지는 CODEHUB_API_URL의 `codehub "
        "api`로 보냅니다."
    ),
    "help.controller": (
        "모든 워크스페이스를 원하는 상태로 옮깁니다.\n\n관찰, 판정, 계획, 저장, 실행을 되풀이합니다."
    ),
    "help.migrate": (
        "데이터베이스를 이 버전의 스키마로 옮기고 끝납니다. `--contract`를 빼면 시작할 때마다 하는 일과 "
        "같습니다."
    ),
    "help.migrate.contract": (
        "이전 버전에만 필요한 것도 없앱니다. 이전 버전이 더는 실행되지 않을 때 쓰십시오."
    ),
    "help.doctor": "이 컴퓨터를 점검합니다. 무엇이 되고 무엇이 안 되는지, 어떻게 하면 되는지 알려 줍니다.",
    "help.gc": "어떤 워크스페이스에도 필요 없는 것을 지웁니다.",
    "help.gc.dry_run": "무엇을 지울지만 보여 줍니다.",
    "help.gc.orphans": "데이터베이스가 모르는 것도 지웁니다.",
    "help.adopt-engine": (
        "codehub가 자기 Docker 엔진이나 홈 디렉터리를 알아보는 표식을 다시 만듭니다.\n\n`docker volume "
        "prune`이 지웠을 수 있습니다. 무엇이 있고 무엇이 없는지 먼저 보여 주고 묻습니다."
    ),
    "help.backup": (
        "모든 것을 새 위치에 복사합니다. 데이터베이스, 아카이브, 그리고 아카이브에 없는 홈이 포함됩니다.\n\n"
        "codehub가 실행 중이어도 됩니다. 빠진 것이 있으면 무엇인지 알려 주고 1로 끝납니다."
    ),
    "help.restore": (
        "아무것도 설치되지 않은 곳에 백업으로 설치본을 만듭니다.\n\nCODEHUB_DATA_DIR, 또는 설정된 "
        "데이터베이스와 아카이브 저장소에 복원합니다. 무엇이 들어 있는지 먼저 보여 주고 묻습니다."
    ),
    "help.ws": "워크스페이스를 만들고, 열고, 시작하고, 멈추고, 보관하고, 삭제합니다.",
    "help.ws.create": "워크스페이스를 만들고 시작합니다.",
    "help.ws.create.name": "워크스페이스의 이름입니다.",
    "help.ws.change": "워크스페이스를 바꿉니다. 이미지, IDE, 자원은 다음 시작부터 적용됩니다.",
    "help.ws.pin": "워크스페이스를 목록 맨 위에 고정합니다.",
    "help.ws.unpin": "워크스페이스의 고정을 풀어, 목록에서 다시 만든 순서대로 보이게 합니다.",
    "help.ws.list": "워크스페이스 목록을 보여 줍니다. 고정한 것이 먼저, 그다음은 최근에 만든 순서입니다.",
    "help.ws.list.owner": "누구의 것인지: me, 또는 (관리자는) 이름이나 all.",
    "help.ws.show": "워크스페이스의 모든 정보를 보여 줍니다.",
    "help.ws.open": "워크스페이스의 주소를 출력하고, 브라우저가 있으면 엽니다. 방문하면 깨어납니다.",
    "help.ws.ports": (
        "워크스페이스에서 수신 대기하는 포트를 보여 주고, 열거나 다른 사람에게 공개합니다.\n\n포트마다 별도의 주소(origin)가 "
        "있습니다. 소유자가 공개하기 전에는 비공개입니다."
    ),
    "help.ws.ports.open_port": "이 포트의 주소를 출력하고, 브라우저가 있으면 엽니다.",
    "help.ws.ports.share": "포트의 공개 범위를 정합니다: private, shared, signed-in, public.",
    "help.ws.ports.until": "다시 비공개가 되는 시각. 시각이나 지금부터의 시간(예: 2h). public에는 꼭 필요합니다.",
    "help.ws.logs": "워크스페이스 IDE의 출력을 보여 줍니다.",
    "help.ws.logs.json": '각 줄을 {"line": …} 형식으로 출력합니다.',
    "help.ws.events": (
        "워크스페이스의 이력을 보여 줍니다. 모든 요청, 작업, 단계, 오류를 누가 왜 했는지 나옵니다."
    ),
    "help.ws.start": "어떤 상태에서든 워크스페이스를 시작합니다. 보관된 것은 먼저 복원합니다.",
    "help.ws.stop": "워크스페이스를 멈춥니다. 파일은 그대로 있고, 다음에 방문하면 깨어납니다.",
    "help.ws.archive": "워크스페이스를 멈추고 파일을 아카이브에 넣습니다.",
    "help.ws.recover": "워크스페이스의 오류를 지우고, 지금 있는 것으로 다시 판정합니다.",
    "help.ws.awake": "실행 중인 워크스페이스가 한동안 잠들지 않게 합니다.",
    "help.ws.delete": (
        "워크스페이스를 삭제합니다. 마지막 아카이브는 한동안 남아 있어, `undelete`로 삭제를 되돌릴 수 "
        "있습니다."
    ),
    "help.ws.undelete": "삭제를 되돌립니다. `codehub ws list --deleted`가 되돌릴 수 있는 것을 보여 줍니다.",
    "help.ws.undelete.name": "삭제된 워크스페이스의 이름이나 id입니다.",
    "help.ws.forget": (
        "백엔드가 죽어서 끝나지 않는 삭제를 포기합니다(관리자). 파일은 지워지지 않습니다. 남은 것은 `codehub "
        "gc`가 보여 줍니다."
    ),
    "help.token": "토큰: 프로그램이 쓰는 열쇠입니다.",
    "help.token.create": (
        "토큰을 만듭니다. 비밀값은 이번 한 번만 표준 출력에 나오고, codehub에는 해시만 남습니다."
    ),
    "help.token.create.name": "토큰의 용도입니다.",
    "help.token.list": "내 토큰의 목록을 보여 줍니다.",
    "help.token.delete": "토큰을 삭제합니다. 그 즉시 쓸 수 없게 됩니다.",
    "help.user": (
        "사용자를 추가하고, 보고, 막고, 비밀번호를 정하고, 세션과 토큰을 폐기합니다. 서버에서, 실행 중인 "
        "codehub 옆에서 씁니다."
    ),
    "help.user.add": "사용자를 추가합니다.",
    "help.user.add.admin": "관리자로 만듭니다.",
    "help.user.passwd": "사용자의 비밀번호를 정합니다. 그 사용자의 세션과 토큰은 폐기됩니다.",
    "help.user.disable": "사용자를 막습니다. 그 사용자의 세션과 토큰은 폐기됩니다.",
    "help.user.disable.undo": "다시 쓸 수 있게 합니다.",
    "help.user.keys": "사용자가 들어올 수 있는 세션과 토큰을 보여 주거나 폐기합니다.",
    "help.user.keys.end": "모두 폐기합니다. 그것으로 열려 있는 연결도 끊깁니다.",
    "help.user.list": "모든 사용자를 보여 줍니다.",
    "help.option.help": "이 도움말을 보여 주고 끝납니다.",
    "help.option.version": "버전을 출력하고 끝납니다.",
    "help.option.install_completion": "지금 셸에 자동 완성을 설치합니다.",
    "help.option.show_completion": (
        "지금 셸의 자동 완성 코드를 보여 줍니다. 복사하거나 설치를 바꿀 때 씁니다."
    ),
    "help.option.json": "프로그램이 읽을 JSON으로 출력합니다.",
    "help.option.yes": "묻지 않습니다.",
    "help.option.wait": "끝날 때까지 기다리며 진행 상황을 보여 줍니다.",
    "help.option.timeout": "이 시간까지만 기다립니다: 90s, 5m, 2h. 넘으면 9로 끝납니다.",
    "help.option.name": "워크스페이스의 이름이나 id입니다.",
    "help.option.name_or_id": "이름이나 id입니다.",
    "help.option.owner": "이름으로 찾을 때 누구의 것인지: me, 또는 (관리자는) 이름이나 all.",
    "help.option.username": "사용자의 이름입니다.",
    "help.option.password_stdin": "비밀번호를 묻지 않고 표준 입력에서 읽습니다.",
    "help.option.location": "디렉터리, file:///… 또는 s3://…",
    "help.option.accept_loss": "사라진 것 없이 계속합니다. 먼저 묻고, --yes면 묻지 않습니다.",
    "help.option.take_newest": "데이터베이스가 더 오래된 것을 가리켜도 가장 새로운 아카이브로 계속합니다.",
    "help.option.adopt": "누구의 것인지 알 수 없게 된, 지금 있는 볼륨으로 계속합니다. 먼저 묻습니다.",
    "help.option.archive_after": "이만큼 잠들어 있으면 보관합니다: 12h, 7d, never.",
    "help.option.sleep_after": "이만큼 쓰지 않으면 멈춥니다: 30m, 2h, never.",
    "help.option.cross_port_access": (
        "소유자의 브라우저에서 한 포트의 페이지가 다른 포트에 요청하고 IDE가 포트를 그 안에 보여 줄 수 있을지 "
        "정합니다."
    ),
    "help.option.tab_script": (
        "IDE 페이지에 codehub의 스크립트를 넣을지 정합니다. 잠들기 전에 알리고, 깨우기를 제안하며, 누가 "
        "쓰는지 알아챕니다."
    ),
    "help.option.backend": "무엇이 실행하는지: local-process, local-docker, k8s.",
    "help.option.storage": "무엇이 파일을 담는지: local-dir, docker-volume, k8s-pvc, object-store.",
    "help.option.cpus": "프로세서 수, 예: 1.5.",
    "help.option.memory": "메모리, MB 단위.",
    "help.option.pids": "최대 프로세스 수.",
    "help.option.disk_mb": "파일을 담을 디스크, MB 단위.",
    "help.option.description": "한 줄 설명.",
    "help.option.memo": "메모.",
    "help.option.ide": "다음 중 하나: {ides}.",
    "help.option.image": "컨테이너 이미지(Docker, Kubernetes).",
    "help.option.no_start": "만들기만 합니다.",
    "help.option.new_name": "새 이름입니다.",
    "help.option.no_browser": "주소만 출력합니다.",
    "help.option.purge": "아무것도 남기지 않습니다. 되돌릴 수 없습니다. 먼저 묻습니다.",
    "help.option.deleted": "삭제를 되돌릴 수 있는 것만 보여 줍니다.",
    "help.option.query": "이름이나 설명에 있는 낱말.",
    "help.option.phase": "RUNNING, STANDBY, ARCHIVED, PENDING, ERROR 중 하나.",
    "help.option.duration": "얼마 동안: 30m, 2h. 최대 12h.",
    "help.option.tail": "끝에서부터 몇 줄.",
    "help.option.follow": "새로 나오는 출력을 계속 보여 줍니다.",
    "help.option.limit": "최근 것부터 몇 개.",
    "help.option.scope": "read는 아무것도 바꾸지 못합니다.",
    "help.option.expires": "유효 기간: 12h, 30d, never.",
    "help.parser.Usage": "사용법",
    "help.parser.Arguments": "인자",
    "help.parser.Options": "옵션",
    "help.parser.Commands": "명령",
    "help.parser.default": "기본값",
    # What commands say
    "cli.warning": "codehub: 경고: {text}",
    "cli.recover.one_of": "--accept-loss, --take-newest, --adopt 중 하나만 고르십시오",
    "cli.recover.loss": "{name}에서 사라진 것 없이 계속할까요?",
    "cli.recover.loss.deletes": " 아직 남아 있는 파일은 삭제됩니다(--adopt는 그 파일로 계속합니다).",
    "cli.recover.adopt": "지금 있는 볼륨을 {name}의 홈으로 쓸까요?",
    "cli.awake": "{name}: {until}까지 깨어 있습니다.",
    "cli.awake.later": "{name}: {state}. 시작하면 {until}까지 깨어 있습니다.",
    "cli.purge": "{name}: 완전히 삭제할까요? 파일은 다시 찾을 수 없습니다",
    "cli.forget": "{name}: 잊을까요? 백엔드에 남아 있는 것은 그대로 남습니다",
    "cli.forgotten": "{name}: 잊었습니다. 남은 것은 `codehub gc`가 보여 줍니다.",
    "cli.undo": "{until}까지 되돌릴 수 있습니다: {command}",
    "cli.undo.always": "누군가 완전히 삭제하기 전까지 되돌릴 수 있습니다: {command}",
    "cli.timeout.without_wait": "--timeout은 --wait와 함께 씁니다",
    "cli.no_longer_waits": "{name}: 더는 기다리지 않습니다. 작업은 계속됩니다.",
    "cli.is": "{name}: {state}.",
    "cli.will_be": "{name}: {goal} 상태가 됩니다. 지금은 {state}. (--wait는 진행 상황을 보여 줍니다.)",
    "cli.will_be_deleted": "{name}: 삭제됩니다. 지금은 {state}.",
    "cli.waited_for_first": "--wait를 주면 먼저 기다립니다.",
    "cli.failed_in_error": "{name}: ERROR 상태입니다: {reason}: {message}",
    "cli.failed_while": "{name}: {operation} 중에 실패했습니다: {reason}: {message}",
    "cli.overtaken.undone": "{name}: 그사이 누군가 삭제를 되돌렸습니다.",
    "cli.overtaken.deleted": "{name}: 삭제되고 있습니다.",
    "cli.overtaken.wish": "{name}: 그사이 누군가 {goal} 대신 {wish} 상태를 요청했습니다.",
    "cli.timed_out": "{name}: 아직 끝나지 않았습니다: {doing}. 작업은 계속됩니다.",
    "cli.bytes_of": "{total} 중 {done}",
    "cli.bytes_left": "{span} 남음",
    "cli.pinned": "{name}: 고정했습니다.",
    "cli.unpinned": "{name}: 고정을 풀었습니다.",
    "cli.pin": "고정",
    "cli.nothing_to_change": "바꿀 것이 없습니다: `codehub ws change --help`를 보십시오",
    "cli.changed": "{name}: {fields} 항목을 바꿨습니다.",
    "cli.list.no_trash": "휴지통이 비어 있습니다.",
    "cli.list.no_match": "그런 워크스페이스가 없습니다.",
    "cli.list.none": "아직 워크스페이스가 없습니다. 하나 만드십시오: codehub ws create NAME --wait",
    "cli.ports.none": "지금 {name}에서 수신 대기하는 포트가 없습니다.",
    "cli.ports.nothing": "없음",
    "cli.ports.private": "나만",
    "cli.ports.shared": "공유받은 사람",
    "cli.ports.signed-in": "로그인한 모든 사람",
    "cli.ports.public": "누구나",
    "cli.ports.opened": "{url} 공개 범위: {who}",
    "cli.ports.opened.until": "{url} 공개 범위: {who} ({until}까지)",
    "cli.ports.silent": "{name}의 {port} 포트에는 수신 대기하는 프로그램이 없고, 공유되지도 않았습니다.",
    "cli.ports.until": "--until은 --share와 함께 써야 합니다.",
    "cli.ports.no_port": "{text!r}: 포트가 아닙니다. 1부터 65535까지의 숫자여야 합니다.",
    "cli.ports.no_visibility": "{text!r}: {all} 중 하나여야 합니다.",
    "cli.ports.no_time": "{text!r}: 시각이 아닙니다. 2h 또는 2026-12-24T18:00처럼 쓰세요.",
    "cli.open.is": (
        "지금은 {state} 상태입니다. 어떻게 하면 되는지 페이지가 알려 줍니다. 또는 codehub ws start {name} "
        "--wait"
    ),
    "cli.logs.none": "{name}: {state} 상태이고, 출력이 없습니다.",
    "cli.logs.cut": "(연결이 끊겨 다시 따라갑니다. 여기서 몇 줄이 빠졌을 수 있습니다)",
    "cli.token.made": "{name} ({id}): 만들었습니다. 지금 한 번만 보여 줍니다.",
    "cli.token.list.none": "토큰이 없습니다.",
    "cli.token.none": "{name}: 그런 토큰이 없습니다.",
    "cli.token.several": "이름이 {name}인 토큰이 {count}개 있습니다. id로 하나를 지정하십시오:",
    "cli.token.one": "사용 {used}, 만료 {expires}",
    "cli.token.deleted": "{name}: 삭제했습니다.",
    "cli.find.several": "이름이 {name}인 워크스페이스가 {count}개 있습니다. id로 하나를 지정하십시오:",
    "cli.find.none": "{name}: 여기에 그런 워크스페이스가 없습니다.",
    "cli.find.none.trash": "{name}: 휴지통에 그런 워크스페이스가 없습니다.",
    "cli.find.none.owner": "{name}: {owner}에게 그런 워크스페이스가 없습니다.",
    "cli.find.in_trash": "휴지통에 있습니다. 삭제를 되돌리려면: {command}",
    "cli.find.similar": "혹시 {names}?",
    "cli.find.or": " 또는 ",
    "cli.no_time": "{text!r}: 시간이 아닙니다. 90s, 5m, 2h, 1d처럼 쓰십시오",
    "cli.no_time.never": "{text!r}: 시간이 아닙니다. 90s, 5m, 2h, 1d 또는 never처럼 쓰십시오",
    "cli.account.no_token": "토큰에 쓰일 수 없는 문자가 있습니다",
    "cli.account.no_token.do": (
        "앞뒤의 다른 글자 없이 다시 복사하십시오. CODEHUB_TOKEN이 `codehub login`이 보관한 것보다 먼저 "
        "쓰입니다."
    ),
    "cli.account.no_home": "`codehub login`이 토큰을 보관하는 홈 디렉터리를 알 수 없습니다",
    "cli.account.no_home.do": "HOME을 설정하거나, CODEHUB_URL과 CODEHUB_TOKEN을 설정하십시오.",
    "cli.account.password_in_address": (
        "주소에는 이름이나 비밀번호를 쓸 수 없습니다. `codehub login`이나 CODEHUB_TOKEN을 쓰십시오"
    ),
    "cli.account.no_address": "{text!r}: 주소가 아닙니다. http://host:port 또는 https://host여야 합니다",
    "cli.account.unreadable": "{path}: 읽을 수 없습니다 ({error})",
    "cli.account.unreadable.do": "그 파일을 지우고 다시 `codehub login` 하십시오.",
    "cli.account.unwritable": "{path}: 쓸 수 없습니다 ({error})",
    "cli.client.no_tls": "{url}: 연결할 수 없습니다. 그곳은 https로 말하지 않습니다",
    "cli.client.no_tls.do": "{url}: 이 주소로 해 보십시오",
    "cli.client.unreachable": "{url}: 연결할 수 없습니다: {error}",
    "cli.client.unreachable.do": (
        "그곳에서 codehub가 실행 중입니까? 위치는 CODEHUB_URL이나 `codehub login URL`로 정합니다."
    ),
    "cli.client.moved": "{url}: {there}(으)로 이어집니다",
    "cli.client.moved.do": "이어진 주소를 쓰십시오.",
    "cli.client.signed_out": "로그인하지 않았습니다.",
    "cli.client.no_key.environment": "CODEHUB_TOKEN의 토큰은 더 이상 쓸 수 없습니다.",
    "cli.client.no_key": "토큰을 더 이상 쓸 수 없습니다.",
    "cli.client.no_key.do": "CODEHUB_TOKEN을 고치거나 지우십시오. `codehub login`으로는 바뀌지 않습니다.",
    "cli.client.no_codehub": "{url}: 응답하지만 codehub의 응답이 아닙니다",
    "cli.client.no_codehub.status": "{url}: 응답하지만 codehub의 응답이 아닙니다 (상태 {status})",
    "cli.no_text": "입력한 것이 UTF-8 글자가 아닙니다",
    "cli.no_text.stdin": "표준 입력이 UTF-8 글자가 아닙니다",
    "cli.nobody_confirms": "되돌릴 수 없는데 물어볼 사람이 없습니다. --yes를 붙이십시오",
    "cli.nobody_answers": "물어볼 사람이 없습니다. {option} 옵션을 주십시오",
    "cli.output_full": "codehub: 출력을 쓸 수 없습니다: {error}",
    "cli.login.two_keys": "표준 입력에는 비밀번호와 토큰 중 하나만 줄 수 있습니다",
    "cli.login.no_https": "{url}: https가 아니어서, 중간에 있는 누구나 비밀번호를 읽을 수 있습니다",
    "cli.login.environment": "CODEHUB_TOKEN이 설정되어 있어 보관한 것보다 먼저 쓰입니다. 지우십시오",
    "cli.login.signed_out": "이 컴퓨터에서는 로그인하지 않았습니다.",
    "cli.login.out": "{url}에서 로그아웃했습니다.",
    "cli.login.in": "{url}에 {username} 이름으로 로그인했습니다. {path}에 보관했습니다.",
    "cli.login.old_password": "지금 비밀번호",
    "cli.login.new_password": "새 비밀번호",
    "cli.login.password": "비밀번호",
    "cli.login.username": "사용자 이름",
    "cli.login.password_changed": "비밀번호를 바꿨습니다.",
    "cli.login.token_lives": (
        "codehub: 토큰이 {url}에 남아 있습니다({error}). `codehub token delete`로 폐기하십시오"
    ),
    "cli.login.no_token": "표준 입력에 토큰이 없습니다",
    "cli.migrate.applied": "적용함: {name}",
    "cli.migrate.none": "데이터베이스가 최신 상태입니다.",
    "cli.adopt.sure": "다시 만들까요?",
    "cli.adopt.made": "다시 만듦: {mark}",
    "cli.adopt.none": "모든 표식이 있습니다. 할 일이 없습니다.",
    "cli.backup.done": "{place}에 백업함",
    "cli.backup.restored": "{place}에서 복원함",
    "cli.backup.has": "이 백업에 들어 있는 것:",
    "cli.backup.sure": "복원할까요?",
    "cli.backup.taken": "{at}, 설치본 {installation}",
    "cli.backup.database": "데이터베이스 ({size})",
    "cli.backup.archives": "아카이브 {count}개 ({size})",
    "cli.backup.home": "아카이브에 없던 {name}의 홈",
    "cli.backup.missing": "빠진 것: {name}: {reason}",
    "cli.backup.part": "{part}: {total} 중 {done}{amount}",
    "cli.user.no_name": (
        "{name!r}: 이름으로 쓸 수 없습니다. 글자, 숫자, . _ @ -만 64자까지 쓸 수 있고, `me`와 `all`은 안 "
        "됩니다"
    ),
    "cli.user.no_password": "비밀번호로 쓸 수 없습니다: {problem}",
    "cli.user.password_on_stdin": "--password-stdin을 붙이고 비밀번호를 표준 입력으로 주십시오",
    "cli.user.added": "추가함: {name} ({role})",
    "cli.user.password_changed": "{name}: 비밀번호를 바꿈",
    "cli.user.enabled": "{name}: 다시 쓸 수 있게 함",
    "cli.user.disabled": "{name}: 막음",
    "cli.user.taken": "{name}: 이미 있는 사용자입니다",
    "cli.user.unknown": "{name}: 그런 사용자가 없습니다",
    "cli.user.last_admin": "마지막 관리자입니다. 먼저 다른 사람을 관리자로 만드십시오",
    "cli.user.none": "아직 아무도 없습니다.",
    "cli.user.is_disabled": "막힘",
    "cli.user.no_keys": "{name}: 로그인한 곳도 토큰도 없습니다.",
    "cli.user.keys_ended": "모두 폐기했습니다.",
    "cli.heading.KEY": "열쇠",
    "help.parser.required": "필수",
    # What a start, a back-up and its restore say
    "server.starting.database": "codehub 1/3: 데이터베이스를 시작합니다(처음에는 몇 초 걸립니다)",
    "server.starting.backend": "codehub 2/3: 워크스페이스를 실행할 수 있는지 확인합니다",
    "server.starting.address": "codehub 3/3: 주소를 엽니다",
    "server.open_elsewhere": (
        "CODEHUB_HOST={host}: 모든 주소에서 받지만, CODEHUB_PUBLIC_BASE_URL이 없으면 이 컴퓨터에서만 "
        "로그인할 수 있습니다. CODEHUB_PUBLIC_BASE_URL을 사람들이 여는 주소로 설정하십시오. 예: "
        "http://name:port"
    ),
    "server.line": "codehub: {text}",
    "server.warning": "codehub: 경고: {text}",
    "server.stopping": "멈추는 중입니다. 워크스페이스는 잠들고, 깨어 있던 것은 다음 시작 때 다시 깨어납니다.",
    "server.stopped": "멈췄습니다",
    "server.steps.password": (
        "  비밀번호는 지금 한 번만 보여 주니 보관하십시오. 바꾸려면:\n  {codehub} user passwd admin\n"
    ),
    "server.steps": (
        "\n브라우저에서\n  {url} 주소를 열고, admin으로 로그인해 워크스페이스를 만드십시오.\n{password}{names}\n"
        "또는 다른 터미널에서\n  {codehub} login {url} --username admin\n  {codehub} ws create hello "
        "--wait\n  {codehub} ws open hello\n\n{access} Ctrl-C로 멈춥니다.\n다음에 시작하면 모든 것이 그대로 "
        "있습니다."
    ),
    "server.steps.names": "  Safari를 쓴다면 CODEHUB_WORKSPACE_HOST=none으로 시작하십시오.\n",
    "server.access.local": "이 컴퓨터에서만 연결할 수 있습니다.",
    "server.access.open": (
        "{host}:{port}에 연결할 수 있는 사람은 누구나 로그인을 시도할 수 있습니다. https가 없으면 엿들을 "
        "수도 있습니다."
    ),
    "server.second": (
        "{directory}에서 이미 실행 중입니다(pid {pid}). 또 시작하려면 그것을 멈추거나(kill {pid}), "
        "CODEHUB_DATA_DIR과 CODEHUB_PORT를 설정하십시오"
    ),
    "server.second.address": (
        "{directory}에서 이미 실행 중입니다(pid {pid}). {address} 주소를 여십시오. 또 시작하려면 그것을 "
        "멈추거나(kill {pid}), CODEHUB_DATA_DIR과 CODEHUB_PORT를 설정하십시오"
    ),
    "server.no_port": (
        "{host}:{port}에서 받을 수 없습니다({error}). {setting} 설정을 비어 있는 포트로, 또는 CODEHUB_HOST를 이 "
        "컴퓨터의 주소로 설정하십시오"
    ),
    "server.no_database": (
        "CODEHUB_DATABASE_URL: {place}의 데이터베이스에 들어갈 수 없습니다{reason}. 그 서버를 시작하거나 "
        "주소를 고치십시오: postgresql://user:password@host:port/database. 주소가 없으면 codehub가 자체 "
        "데이터베이스를 씁니다"
    ),
    "server.this_machine": "이 컴퓨터",
    "server.set_address": "설정된 주소",
    "server.no_codehub": (
        "{directory}: 여기에는 codehub가 없습니다. `codehub up`으로 한 번 시작하거나, CODEHUB_DATA_DIR로 "
        "위치를 알려 주십시오"
    ),
    "server.wrong_redis": "CODEHUB_REDIS_URL: {error}: ? 뒤를 고치거나 지우십시오",
    "server.wrong_endpoint": "AWS_ENDPOINT_URL {endpoint!r}: http://나 https:// 주소가 아닙니다. 고치십시오",
    "server.no_archives": "{reason} codehub가 쓸 수 있게 하거나 {setting} 설정을 고치십시오",
    "server.no_docker": (
        "{reason} Docker를 시작하거나 DOCKER_HOST를 고치십시오. CODEHUB_INSTANCE_BACKEND=local-process는 "
        "Docker 없이 됩니다"
    ),
    "server.no_workspace_runs": "이 컴퓨터에서는 어떤 워크스페이스도 실행할 수 없습니다: {reason}",
    "server.no_ide": (
        "CODEHUB_IDE={ide}: 이 컴퓨터에 없습니다. 있는 것: {installed}. 설치하거나(`make code-server`는 "
        "code-server를 빌드합니다), 있는 것을 고르거나, CODEHUB_IDE를 비워 두십시오"
    ),
    "server.no_ide.none": (
        "CODEHUB_IDE={ide}: 이 컴퓨터에 없습니다. 다른 IDE도 없습니다. 설치하거나(`make code-server`는 "
        "code-server를 빌드합니다), 있는 것을 고르거나, CODEHUB_IDE를 비워 두십시오"
    ),
    "server.other_machine": (
        "{backend}: 한 컴퓨터에서만 쓸 수 있는데 {machine} 컴퓨터가 쓰고 있습니다. 그곳의 codehub를 멈추거나 "
        "CODEHUB_INSTANCE_BACKEND를 설정하십시오"
    ),
    "server.no_workers": (
        "{seconds:g}초가 지나도 일부 프록시 프로세스가 응답하지 않습니다. 이유는 위의 줄에 있습니다. 개수는 "
        "CODEHUB_PROXY_WORKERS로 정합니다"
    ),
    "server.role_needs": (
        "`codehub {role}`: 다른 codehub 프로세스와 함께 실행됩니다. 다음을 설정하거나(docs/operators.md) "
        "아무 설정도 필요 없는 `codehub up`을 쓰십시오: {settings}"
    ),
    "server.and": ", ",
    "server.no_cluster_access": (
        "{error}. CODEHUB_K8S_KUBECONFIG를 고치거나, codehub를 클러스터 안에서 실행하십시오"
    ),
    "server.no_rights": (
        "{namespace} 네임스페이스에서 codehub에 권한이 없습니다: {rights}. docs/kubernetes.md의 Role을 "
        "계정에 주십시오"
    ),
    "server.namespace": "{server}의 {namespace} 네임스페이스: {reason}",
    "server.patch_not_taken": "CODEHUB_K8S_POD_PATCH: 워크스페이스가 시작되지 않습니다. {reason}",
    "server.isolation.untried": "클러스터가 워크스페이스를 격리하는지 확인하지 못했습니다: {reason}",
    "server.isolation.wrong": "{problem} docs/kubernetes.md의 “What workspaces reach”를 보십시오",
    "server.isolation.no_policies": (
        "codehub가 NetworkPolicy를 만들 수 없고, 다른 정책도 워크스페이스를 막지 않습니다: {reason}"
    ),
    "server.isolation.no_address": (
        "워크스페이스에서 이 컴퓨터가 어떤 주소로 보이는지 알 수 없습니다. CODEHUB_K8S_REACHED_FROM에 그 "
        "주소를 적으십시오 (docs/kubernetes.md)"
    ),
    "server.no_cluster": (
        "{reason} 클러스터를 시작하거나 CODEHUB_K8S_KUBECONFIG를 고치십시오. "
        "CODEHUB_INSTANCE_BACKEND=local-process는 클러스터 없이 됩니다"
    ),
    "server.mark.missing": "{mark}: 없습니다. 이 설치본의 홈이 어디 있는지 알려 주는 표식입니다.",
    "server.mark.homes": (
        "데이터베이스에는 그곳에 홈이 {known}개 있는 것으로 되어 있습니다. 지금 있는 것: {present}개."
    ),
    "server.mark.absent": "  없음: {name}",
    "server.mark.effect": (
        "다른 엔진이나 디렉터리이거나 디스크가 마운트되지 않았다면, 그것을 고치십시오.\n맞는 곳이라면 "
        "codehub는 표식만 다시 만듭니다. 여기 있는 홈으로 계속하고,\n없는 홈은 사라졌다고 알려 줍니다. "
        "아무것도 삭제하지 않습니다."
    ),
    "server.backup.format": (
        "백업의 형식은 {format!r}인데 이 codehub는 {known}만 읽을 수 있습니다. 더 새로운 codehub를 쓰십시오"
    ),
    "server.backup.unreadable": "백업의 {file}: 손상되어 읽을 수 없습니다({error})",
    "server.backup.no_archive": "아카이브 {key}: 저장소에 없습니다",
    "server.backup.half": "백업을 끝내지 못했고, {place}에는 일부만 있습니다: {reason}",
    "server.backup.not_empty": "{place}: 비어 있지 않습니다. 백업마다 새 위치를 쓰십시오",
    "server.backup.not_copied": "홈이 아카이브에 없고, 복사하지도 못했습니다: {reason}",
    "server.restore.incomplete": (
        "{place}: 완전한 백업이 없습니다. `codehub backup`이 마지막에 쓰는 {file} 파일이 없습니다"
    ),
    "server.restore.nothing": "아무것도 복원하지 않았습니다: {reason}",
    "server.restore.database": (
        "CODEHUB_DATABASE_URL의 데이터베이스가 비어 있지 않습니다. codehub를 멈추고 빈 데이터베이스를 "
        "지정하십시오. 다른 설치본 위에는 복원하지 않습니다"
    ),
    "server.restore.unmarked": (
        "{place}: 무언가 들어 있고 codehub의 표식이 없습니다. {setting} 설정에 빈 위치를 지정하십시오"
    ),
    "server.restore.foreign": "{place}: 다른 설치본의 것입니다. {setting} 설정에 빈 위치를 지정하십시오",
    "server.restore.running": (
        "{directory}에서 codehub가 실행 중입니다(pid {pid}). 멈추고, CODEHUB_DATA_DIR에 빈 위치를 "
        "지정하십시오"
    ),
    "server.restore.not_empty": (
        "{directory}: 비어 있지 않습니다. 다른 곳으로 옮기거나 다른 CODEHUB_DATA_DIR을 지정하십시오. 다른 "
        "설치본 위에는 복원하지 않습니다"
    ),
    "server.restore.no_dump": "백업에 {file} 파일이 없습니다",
    "server.restore.damaged": "백업의 {file}: 손상되었습니다. 체크섬이 다릅니다",
    "server.restore.other": "{file}: {manifest}의 것이 아닌 다른 설치본의 것입니다",
    "cli.backup.part.database": "데이터베이스",
    "cli.backup.part.archives": "아카이브",
    "cli.backup.part.homes": "홈",
    "cli.backup.part.verified": "확인함",
    # What the doctor says
    "doctor.part.python": "python",
    "doctor.part.data directory": "데이터 디렉터리",
    "doctor.part.homes": "홈",
    "doctor.part.disk": "디스크",
    "doctor.part.database": "데이터베이스",
    "doctor.part.port": "포트",
    "doctor.part.origins": "오리진",
    "doctor.part.archives": "아카이브",
    "doctor.part.backend": "백엔드",
    "doctor.part.sandbox": "샌드박스",
    "doctor.part.limits": "한도",
    "doctor.part.ide": "IDE",
    "doctor.part.docker": "docker",
    "doctor.part.kubernetes": "kubernetes",
    "doctor.part.isolation": "격리",
    "doctor.part.redis": "redis",
    "doctor.can_not_start": "지금 설정으로는 codehub를 시작할 수 없습니다: {parts}.",
    "doctor.runs": "codehub가 이미 실행 중입니다.",
    "doctor.can_start": "지금 설정으로 codehub를 시작할 수 있습니다.",
    "doctor.limits.do": (
        "워크스페이스 하나하나도, 모두 합쳐서도, 컴퓨터의 자원을 전부 쓸 수 있습니다. codehub를 root로 "
        "실행하거나, 한도가 정해진 컨테이너나 유닛 안에서 실행하십시오"
    ),
    "doctor.limits.total": "모든 워크스페이스 합계: {memory_mb} MB, 프로세스 {pids}개",
    "doctor.limits.no_root": "컨트롤 그룹은 root만 만들 수 있습니다",
    "doctor.limits.none": "{root} 아래에 컨트롤 그룹을 만들 수 없습니다",
    "doctor.disk.short": "{free} MB 비어 있습니다. {floor} MB보다 적으면 워크스페이스가 시작되지 않습니다",
    "doctor.disk.short.do": "공간을 비우거나 CODEHUB_DISK_FLOOR_MB를 낮추십시오",
    "doctor.disk.kept": (
        "{free} MB 비어 있고, {floor} MB 이상이면 워크스페이스가 시작됩니다. 홈의 크기는 파일 시스템이 "
        "제한합니다"
    ),
    "doctor.disk.measured": (
        "{free} MB 비어 있고, {floor} MB 이상이면 워크스페이스가 시작됩니다. 홈의 크기는 재기만 하고 "
        "제한하지 않습니다: {reason}"
    ),
    "doctor.database.runs": "내장 PostgreSQL, 실행 중(pid {pid})",
    "doctor.database.rests": "내장 PostgreSQL {version}, 실행 중이 아님",
    "doctor.database.do": (
        "서버를 시작하거나, CODEHUB_DATABASE_URL을 고치거나, 지워서 내장 데이터베이스를 쓰십시오"
    ),
    "doctor.database.unreachable": "연결할 수 없습니다: {error}",
    "doctor.database.old.do": "PostgreSQL {version} 이상을 쓰십시오",
    "doctor.database.server": "PostgreSQL {version}",
    "doctor.python.do": "Python 3.11 이상을 설치하십시오",
    "doctor.data_dir.do": (
        "이 사용자에게 디렉터리를 주거나, CODEHUB_DATA_DIR을 쓸 수 있는 곳으로 설정하십시오"
    ),
    "doctor.data_dir.short": "{directory}: {free} MB만 비어 있습니다",
    "doctor.data_dir.short.do": "공간을 비우거나 CODEHUB_DATA_DIR을 다른 곳으로 설정하십시오",
    "doctor.data_dir.runs": "{directory} ({free} MB 비어 있음), codehub가 실행 중(pid {pid})",
    "doctor.data_dir.ok": "{directory} ({free} MB 비어 있음)",
    "doctor.homes.do": "이 사용자에게 디렉터리를 주거나, CODEHUB_HOMES_DIR을 쓸 수 있는 곳으로 설정하십시오",
    "doctor.homes.ok": "{directory} 안",
    "doctor.port.ours": "{url}: 이 codehub가 쓰고 있습니다(pid {pid})",
    "doctor.port.taken": "{host}:{port}: 이미 쓰이고 있습니다",
    "doctor.port.taken.do": (
        "그곳에서 받고 있는 것(다른 codehub?)을 멈추거나, CODEHUB_PORT를 비어 있는 포트로 설정하십시오"
    ),
    "doctor.port.unusable": "{host}:{port}: 쓸 수 없습니다({error})",
    "doctor.port.unusable.do": (
        "CODEHUB_HOST는 이 컴퓨터의 주소로, CODEHUB_PORT는 이 사용자가 쓸 수 있는 포트로 설정하십시오"
    ),
    "doctor.port.free": "{host}:{port}: 비어 있습니다",
    "doctor.archives.do": "CODEHUB_ARCHIVE_URL을 쓸 수 있는 디렉터리로 설정하십시오",
    "doctor.backend": "{instances}, 홈: {homes}",
    "doctor.sandbox.do": (
        "apt-get install bubblewrap passt: 없으면 로컬 워크스페이스는 이 사용자의 파일을 볼 수 있는 보통 "
        "프로세스입니다"
    ),
    "doctor.sandbox.unused": "할 일 없음: local-process 워크스페이스만 씁니다",
    "doctor.sandbox.none": "bubblewrap이 설치되어 있지 않습니다",
    "doctor.sandbox.unusable": "bubblewrap이 여기서 샌드박스를 만들 수 없습니다: {reason}",
    "doctor.sandbox.unusable.do": (
        "사용자 네임스페이스를 허용하거나(sysctl kernel.unprivileged_userns_clone=1) root로 실행하십시오"
    ),
    "doctor.sandbox.shared": "bubblewrap ({program}), 그러나 이 컴퓨터의 네트워크를 함께 씁니다: {reason}",
    "doctor.sandbox.shared.do": (
        "apt-get install passt: 없으면 모든 워크스페이스가 이 컴퓨터의 루프백에서 받는 것에 연결할 수 "
        "있습니다"
    ),
    "doctor.sandbox.ok": "bubblewrap ({program}), 네트워크: {gateway}",
    "doctor.ide.image": "이미지에 들어 있습니다",
    "doctor.ide.ok": "{ide} ({program})",
    "doctor.ide.others": "{ide} ({program}), 그리고 {others}",
    "doctor.ide.none": "없습니다",
    "doctor.ide.missing": "{ide}: 없습니다",
    "doctor.ide.do": (
        "code-server를 설치하거나(`make code-server`로 빌드), codehub 옆에 `pip install jupyterlab` 하십시오"
    ),
    "doctor.path.unseen": "{path}: 확인할 수 없습니다({error})",
    "doctor.path.file": "{path}: 디렉터리가 아니라 파일입니다",
    "doctor.path.read_only": "{path}: 쓸 수 없습니다",
    "doctor.docker.do": "Docker를 설치해 시작하거나 DOCKER_HOST를 설정하십시오",
    "doctor.docker.do.optional": (
        "Docker를 설치해 시작하거나 DOCKER_HOST를 설정하십시오. CODEHUB_INSTANCE_BACKEND=local-docker일 때만 "
        "필요합니다"
    ),
    "doctor.docker.wrong_host": "DOCKER_HOST {error}",
    "doctor.docker.wrong_host.do": "DOCKER_HOST를 고치십시오",
    "doctor.docker.late": "{host}: 응답하지 않습니다({seconds:g}초 안에 응답 없음)",
    "doctor.docker.silent": "{host}: 응답하지 않습니다({error})",
    "doctor.docker.other": "{host}: 응답하지만 Docker의 응답이 아닙니다",
    "doctor.docker.old": "{host}의 Docker {version}: 너무 오래되었습니다",
    "doctor.docker.old.do": "Docker 20.10 이상을 쓰십시오",
    "doctor.docker.no_mark": (
        "{host}의 Docker {version}: codehub가 홈의 위치를 알아보는 볼륨 {mark}: 없습니다"
    ),
    "doctor.docker.no_mark.do": (
        "DOCKER_HOST를 고치거나 엔진의 디스크를 마운트하십시오. 맞는 엔진이라면: codehub adopt-engine"
    ),
    "doctor.docker.ok": "{host}의 Docker {version}",
    "doctor.origins.ok": "{domain} 아래의 모든 이름이 여기로 연결됩니다 (주소 {address})",
    "doctor.origins.local": (
        "*.{domain}: Chromium과 Firefox는 이런 이름을 모두 알지만, 이 머신의 프로그램과 Safari는 모릅니다"
    ),
    "doctor.origins.local.do": (
        "Chromium과 Firefox는 그대로 두면 됩니다. 포트를 포워딩할 때는 번호를 그대로 두세요. Safari를 쓰려면 그 머신의 "
        "리졸버가 *.{domain} 이름에 127.0.0.1로 답하게 하거나 CODEHUB_WORKSPACE_HOST=none으로 설정하세요. 프로그램은 "
        "{base} 아래의 `path_url`과 토큰을 씁니다"
    ),
    "doctor.origins.local.start": "이 포트에서 codehub를 시작하세요. 이런 이름에는 codehub가 스스로 답합니다",
    "doctor.origins.unknown": "이 머신은 {domain} 아래의 이름을 모릅니다",
    "doctor.origins.unknown.do": (
        "{base} 주소와 같은 곳을 가리키는 와일드카드 레코드(*.{domain})를 만들거나 CODEHUB_WORKSPACE_HOST=none으로 설정하세요"
    ),
    "doctor.origins.silent": "{domain} 아래의 이름이 가리키는 {address} 주소에서 codehub에 물을 수 없습니다 ({error})",
    "doctor.origins.other": (
        "{domain} 아래의 이름이 가리키는 {address} 주소에서 응답하는 것은 codehub가 아닙니다 (상태 {status})"
    ),
    "doctor.origins.do": (
        "codehub를 시작하고, 리버스 프록시가 {domain} 아래의 모든 이름을 codehub로 넘기게 하세요. Host는 받은 그대로 "
        "두고, *.{domain} 인증서를 쓰세요"
    ),
    "doctor.redis.unset": "설정하지 않음",
    "doctor.redis.unset.do": "할 일 없음: PostgreSQL이 알림을 전합니다",
    "doctor.redis.unusable": "{place}: 쓸 수 없습니다({error})",
    "doctor.redis.unusable.do": (
        "Redis를 시작하거나, CODEHUB_REDIS_URL을 고치거나, 지우십시오. 지우면 알림은 PostgreSQL로 전해집니다"
    ),
    "doctor.redis.ok": "{place}의 Redis {version}",
    "doctor.s3.unset": "s3 버킷 {bucket}: 설정되지 않음: {names}",
    "doctor.s3.and": ", ",
    "doctor.s3.unset.do": "AWS_… 변수를 설정하십시오",
    "doctor.s3.wrong_endpoint": "AWS_ENDPOINT_URL {endpoint!r}: http://나 https:// 주소가 아닙니다",
    "doctor.s3.wrong_endpoint.do": "AWS_ENDPOINT_URL을 고치십시오",
    "doctor.s3.silent": "{host}:{port}: 응답하지 않습니다({error})",
    "doctor.s3.silent.do": "객체 저장소를 시작하거나 AWS_ENDPOINT_URL을 고치십시오",
    "doctor.s3.do": "CODEHUB_ARCHIVE_URL이나 AWS_… 변수를 고치거나, 버킷을 만드십시오",
    "doctor.s3.late": "s3 버킷 {bucket}: {seconds:g}초 안에 응답이 없습니다",
    "doctor.s3.refused": "s3 버킷 {bucket}: {reason}",
    "doctor.s3.new": "s3 버킷 {bucket}, codehub가 처음 씀",
    "doctor.s3.ok": "s3 버킷 {bucket}, 설치본 {installation}",
    "doctor.cluster.jobs": "작업(Job)에 필요한 것이 없습니다",
    "doctor.cluster.patch.do": "CODEHUB_K8S_POD_PATCH를 고치십시오",
    "doctor.cluster.do": "클러스터를 시작하거나 CODEHUB_K8S_KUBECONFIG를 고치십시오",
    "doctor.cluster.rights": (
        "{server}의 {version}: {namespace} 네임스페이스에서 codehub에 권한이 없습니다: {rights}"
    ),
    "doctor.cluster.rights.do": "docs/kubernetes.md의 Role을 계정에 주십시오",
    "doctor.cluster.ok": "{server}의 {version}, 네임스페이스 {namespace}",
    "doctor.cluster.uncounted": (
        "워크스페이스의 메모리와 CPU 사용량을 알 수 없습니다. metrics-server를 설치하고 "
        "codehub에 그 Pod 목록을 읽을 권한을 주십시오"
    ),
    "doctor.isolation.ok": "워크스페이스는 서로에게도 클러스터에도 접속할 수 없습니다",
    "doctor.isolation.new": ("아직 codehub를 시작한 적이 없습니다. 처음 시작할 때 정책을 만들고 확인합니다"),
    "doctor.isolation.do": "docs/kubernetes.md의 “What workspaces reach”를 보십시오",
    "doctor.isolation.untried": "확인하지 못했습니다. {reason}",
    "doctor.isolation.untried.do": "원인을 해결하고 다시 확인하십시오",
    # What is wrong with a password
    "password.short": "{length}자 이상이어야 합니다",
    "password.long": "{length}자 이하여야 합니다",
    "password.nul": "NUL 문자가 들어 있습니다",
    "password.no_text": "UTF-8 글자가 아닙니다",
    # What the proxy answers to programs
    "program.undecided": "codehub가 지금은 요청한 사람이나 워크스페이스의 위치를 확인할 수 없습니다.",
    "program.api_silent": "codehub의 API가 지금은 응답하지 않습니다.",
    "program.gone": "워크스페이스가 없어졌습니다.",
    "program.not_listening": "워크스페이스가 실행 중이지만 그 포트에서 응답하는 것이 없습니다.",
    "program.no_address": "워크스페이스가 실행 중이지만 주소를 알 수 없습니다.",
    "program.other_site": "다른 사이트의 페이지가 보낸 요청입니다.",
    "program.waking": "워크스페이스가 아직 깨어나는 중입니다.",
    "program.sleeps": "워크스페이스가 잠들어 있습니다. 브라우저에서 열면 깨어납니다.",
    "program.under_way": (
        "워크스페이스가 아직 응답할 수 없습니다. {operation} 진행 중입니다. 잠시 뒤 다시 시도하십시오."
    ),
    "program.changing": "워크스페이스가 아직 응답할 수 없습니다. 잠시 뒤 다시 시도하십시오.",
    "program.archived": "워크스페이스가 보관되어 있습니다. 시작하면 복원됩니다.",
    "program.pending": "워크스페이스를 아직 시작하지 않았습니다.",
    "program.error": (
        "워크스페이스가 ERROR 상태입니다. 복구하십시오. 무엇이 잘못되었는지는 `explain`이 알려 줍니다."
    ),
    "program.sign_in": "먼저 로그인하십시오. 프로그램은 토큰을 보냅니다: {header}",
    "program.no_workspace": "그런 워크스페이스가 없습니다.",
    "program.nothing_here": "여기에는 아무것도 없습니다.",
    "program.enter": "브라우저로 직접 이동해야 열 수 있습니다.",
    "program.own_origin": "여기서는 프로그램이 토큰을 보냅니다. 세션으로는 이 워크스페이스를 자체 주소에서만 열 수 있습니다: {origin}/",
    "program.port": "여기서는 포트를 열 수 없습니다: 워크스페이스에 자체 네트워크가 없습니다.",
    "program.silent": "워크스페이스의 {port} 포트에서 수신 대기하는 프로그램이 없습니다.",
    "program.asleep": "워크스페이스가 잠들어 있고, 소유자만 깨울 수 있습니다.",
    "program.unreadable_request": "요청을 전달할 수 없습니다: {reason}.",
    "program.body_too_large": "본문이 {max} 바이트보다 큽니다.",
    "program.late_request": "요청이 제때 끝나지 않았습니다.",
    "program.unreachable": "워크스페이스에 연결할 수 없습니다.",
    "program.no_response": "워크스페이스가 응답 없이 연결을 닫았습니다.",
    "program.unreadable_response": "워크스페이스의 응답을 전달할 수 없습니다: {reason}.",
}
