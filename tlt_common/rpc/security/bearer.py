"""Authenticates callers by bearer token."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from tlt_common.errors import PermissionDeniedError, UnauthenticatedError
from tlt_common.rpc.security.access import REFLECTION, Caller, refuse
from tlt_common.rpc.security.tokens import Scope, Token, Tokens

SCHEME = "bearer"


def _now() -> datetime:
    return datetime.now(UTC)


class Bearer:
    """Permits callers whose token has the scope of the call."""

    def __init__(
        self, tokens: Tokens, scopes_of: Callable[[str, Any], tuple[Scope, ...]], *, now: Callable[[], datetime] = _now
    ) -> None:
        """
        Args:
            tokens: The valid tokens.
            scopes_of: Returns the scopes that permit a method, given its name and its message or iterator of messages.
            now: Returns the current time, for expiry.
        """
        self._tokens = tokens
        self._scopes_of = scopes_of
        self._now = now

    def identify(self, caller: Caller) -> str:
        """
        Check the token; return the name of its holder.

        Raises:
            UnauthenticatedError: The token is missing, unknown or expired.
        """
        return self._token(caller).name

    def permit(self, caller: Caller, request: Any) -> None:
        """
        Check the token's scopes.

        Raises:
            UnauthenticatedError: The token was removed or has expired since.
            PermissionDeniedError: The token lacks the scopes.
        """
        token = self._token(caller)
        if caller.service == REFLECTION:
            return
        scopes = self._scopes_of(caller.method, request)
        if not any(token.allows(scope) for scope in scopes):
            mine = ", ".join(token.scopes)
            message = f"{caller.method} requires a token with scope {' or '.join(scopes)}; this one has {mine}"
            refuse(caller, "scope", PermissionDeniedError(message, field="authorization"))

    def _token(self, caller: Caller) -> Token:
        secret = _secret_in(caller.authorization)
        if not secret:
            _unauthenticated(caller, "missing", "the call has no token; accepted: authorization: Bearer TOKEN")
        token = self._tokens.current().find(secret)
        if token is None:
            _unauthenticated(caller, "unknown", "unknown token; request one from the operator of the service")
        if token.expired(self._now()):
            _unauthenticated(caller, "expired", f"token {token.name} has expired; request a new one")
        return token


def _secret_in(authorization: str) -> str:
    scheme, _, secret = authorization.partition(" ")
    return secret.strip() if scheme.lower() == SCHEME else ""


def _unauthenticated(caller: Caller, reason: str, message: str) -> NoReturn:
    refuse(caller, reason, UnauthenticatedError(message, field="authorization"))
