"""Who may look."""

from pathlib import Path

from fastapi import Request

from tlt_common.rpc.security.access import Access, Caller
from tlt_common.rpc.security.bearer import Bearer
from tlt_common.rpc.security.tokens import Scope, tokens_in

PAGE = "StatusPage"
"""Name of the HTTP server in metrics and logs."""


def access_of(tokens: Path | None) -> Access | None:
    """
    Return the access control of the page: a token of scope observe; None, without a token file: everybody has access.

    Raises:
        ConfigError: The token file cannot be used.
    """
    return Bearer(tokens_in(tokens), lambda _method, _request: (Scope.OBSERVE,)) if tokens else None


class ViewerAccess:
    """
    Checks the tokens of requests.

    Args:
        access: Access control; None: everybody has access.
    """

    def __init__(self, access: Access | None) -> None:
        self._access = access

    async def admit(self, request: Request) -> None:
        """Check the token of a request, as `check`; a dependency of routes."""
        self.check(request)

    def check(self, request: Request) -> None:
        """
        Check the token of a request; again while its answer goes on.

        Raises:
            UnauthenticatedError: The token is missing, unknown or expired.
            PermissionDeniedError: It does not allow access.
        """
        if self._access is None:
            return
        caller = Caller(
            service=PAGE,
            method=request.url.path.removeprefix("/")[:100],
            peer=request.client.host if request.client else "",
            authorization=request.headers.get("authorization", ""),
        )
        self._access.identify(caller)
        self._access.permit(caller, None)
