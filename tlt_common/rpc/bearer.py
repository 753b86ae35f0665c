"""Lets callers in by the token they present."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from tlt_common.errors import PermissionDeniedError, UnauthenticatedError
from tlt_common.rpc.access import REFLECTION, Caller, refuse
from tlt_common.rpc.tokens import Scope, Token, Tokens

SCHEME = "bearer"


def _now() -> datetime:
    return datetime.now(UTC)


class Bearer:
    """Lets in whoever presents a token that is good for the call."""

    def __init__(
        self, tokens: Tokens, scope_of: Callable[[str, Any], Scope], *, now: Callable[[], datetime] = _now
    ) -> None:
        """
        Args:
            tokens: Those that are known.
            scope_of: What a method needs; gets its name, and its message or an iterator of messages.
            now: Time by which tokens expire.
        """
        self._tokens = tokens
        self._scope_of = scope_of
        self._now = now

    def admit(self, caller: Caller, request: Any) -> None:
        """
        Check the token.

        Raises:
            UnauthenticatedError: There is none, or it is unknown or has expired.
            PermissionDeniedError: It is good for other things.
        """
        token = self.identify(caller)
        if caller.service == REFLECTION:
            return
        scope = self._scope_of(caller.method, request)
        if not token.allows(scope):
            mine = ", ".join(token.scopes)
            message = f"{caller.method} needs a token of scope {scope}; this one has {mine}"
            refuse(caller, "scope", PermissionDeniedError(message, field="authorization"))

    def identify(self, caller: Caller) -> Token:
        """
        Tell whose token came.

        Raises:
            UnauthenticatedError: There is none, or it is unknown or has expired.
        """
        scheme, _, secret = caller.authorization.partition(" ")
        if scheme.lower() != SCHEME or not secret.strip():
            _unauthenticated(caller, "missing", "no token came; accepted: authorization: Bearer TOKEN")
        token = self._tokens.current().find(secret.strip())
        if token is None:
            _unauthenticated(caller, "unknown", "the token is not known here; ask whoever runs the service for one")
        if token.expired(self._now()):
            _unauthenticated(caller, "expired", f"token {token.name} has expired; ask for a new one")
        return token


def _unauthenticated(caller: Caller, reason: str, message: str) -> NoReturn:
    refuse(caller, reason, UnauthenticatedError(message, field="authorization"))
