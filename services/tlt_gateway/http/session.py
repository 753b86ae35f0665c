"""Session and prefix-cache salt of a call, read from its headers and body."""

from fastapi import Request

from tlt_common.domain.bounds import MAX_SESSION_ID, require_name
from tlt_common.errors import InvalidRequestError

HEADERS = ("X-Session-ID", "X-SMG-Routing-Key")
"""vLLM's name, and that of SGLang's router."""


def session_of(request: Request) -> str:
    """
    Return the session of a call; empty if its headers name none.

    Raises:
        InvalidRequestError: The headers name two sessions, or the name is too long.
    """
    names = {name for header in HEADERS if (name := request.headers.get(header))}
    if len(names) > 1:
        raise InvalidRequestError(f"{' and '.join(HEADERS)} differ; send one of them", field=HEADERS[0])
    session = names.pop() if names else ""
    require_name(HEADERS[0], session, most=MAX_SESSION_ID)
    return session


def salt_of(cache_salt: str | None, extra_key: str | None = None) -> str:
    """
    Return the salt of a prompt.

    Args:
        cache_salt: The field of vLLM's and SGLang's protocols.
        extra_key: The equivalent field of SGLang's protocol.
    """
    if not extra_key:
        return cache_salt or ""
    return f"{len(extra_key)}:{extra_key}:{cache_salt or ''}"
