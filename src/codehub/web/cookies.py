"""The session's cookie: its word in, the header out (wire.md). No word ends it."""

from codehub.service.access import SESSION_COOKIE


def session_cookie(base_url: str, word: str | None) -> str:
    is_secure = base_url.startswith("https://")
    plain = f"{SESSION_COOKIE}={word or ''}; Path=/; HttpOnly; SameSite=Lax{'; Secure' if is_secure else ''}"
    return plain if word else f"{plain}; Max-Age=0"
