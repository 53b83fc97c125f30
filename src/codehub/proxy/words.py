"""The words of the proxy's own pages, in each language that codehub speaks."""

from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "waking": "{name} is waking up",
        "waking_why": "It opens here by itself as soon as it is ready.",
        "archived": "{name} is in the archive",
        "archived_why": "Its files are kept there. They are restored as they were, then it starts.",
        "pending": "{name} has not been started",
        "pending_why": "Its home is made when it first starts.",
        "error": "{name} has a problem",
        "limit": "{name} can't start yet",
        "limit_why": "You can run {max} at a time. Running now: {names}. Put one to sleep, and this one starts; its files stay.",
        "limit_total": "{max} can run here at a time, counting everybody's, and no place is free. Once one of them is asleep, try again.",
        "restore": "Restore and open",
        "start": "Start and open",
        "recover": "Recover",
        "stop": "Put {name} to sleep",
        "again": "Try again",
        "details": "What happened?",
        "dashboard": "Your workspaces",
    },
    "ko": {
        "waking": "{name} 워크스페이스를 깨우는 중입니다",
        "waking_why": "준비되면 이 화면에서 자동으로 열립니다.",
        "archived": "{name} 워크스페이스는 보관되어 있습니다",
        "archived_why": "파일은 안전하게 보관되어 있습니다. 그대로 복원한 뒤 시작합니다.",
        "pending": "{name} 워크스페이스는 아직 시작되지 않았습니다",
        "pending_why": "아직 홈이 없습니다. 시작하면 만들어집니다.",
        "error": "{name} 워크스페이스에 문제가 있습니다",
        "limit": "{name} 워크스페이스를 아직 시작할 수 없습니다",
        "limit_why": "동시에 {max}개까지 실행할 수 있습니다. 지금 실행 중: {names}. 하나를 재우면 이 워크스페이스가 시작되며, 재운 워크스페이스의 파일은 그대로 남습니다.",
        "limit_total": "모든 사용자를 합쳐 동시에 {max}개까지 실행할 수 있는데, 지금 빈자리가 없습니다. 그중 하나가 잠들면 다시 시도하세요.",
        "restore": "복원하고 열기",
        "start": "시작하고 열기",
        "recover": "복구",
        "stop": "{name} 재우기",
        "again": "다시 시도",
        "details": "무슨 일인가요?",
        "dashboard": "내 워크스페이스",
    },
}
