"""Access control of the page and API."""

from collections.abc import Collection
from pathlib import Path

from fastapi import Request

from tlt_common.errors import PermissionDeniedError
from tlt_common.rpc.http.hosts import is_own_host
from tlt_common.rpc.security.access import Access, Caller
from tlt_common.rpc.security.bearer import Bearer
from tlt_common.rpc.security.tokens import Scope, tokens_in

PAGE = "StatusPage"
"""Name of the HTTP server in metrics and logs."""


def access_of(tokens: Path | None) -> Access | None:
    """
    Return the access control of the page: a token with scope observe; None without a token file, for open access.

    Raises:
        ConfigError: The token file cannot be used.
    """
    return Bearer(tokens_in(tokens), lambda _method, _request: (Scope.OBSERVE,)) if tokens else None


class ViewerAccess:
    """
    Checks the tokens of requests or, without tokens, that no web page makes them: one can let its name resolve to this
    address, and read what is answered.

    Args:
        access: Access control; None: everybody has access.
        hosts: Names by which the server may be called without tokens, besides private ones.
    """

    def __init__(self, access: Access | None, hosts: Collection[str] = ()) -> None:
        self._access = access
        self._hosts = hosts

    async def admit(self, request: Request) -> None:
        """Check the token of a request, as `check`; a dependency of routes."""
        self.check(request)

    def check(self, request: Request) -> str:
        """
        Check the token of a request; again while its answer goes on. Return the caller's name; empty without tokens.

        Raises:
            UnauthenticatedError: The token is missing, unknown or expired.
            PermissionDeniedError: It does not allow access, or a web page makes the request.
        """
        if self._access is None:
            self._require_own_host(request)
            return ""
        caller = Caller(
            service=PAGE,
            method=request.url.path.removeprefix("/")[:100],
            peer=request.client.host if request.client else "",
            authorization=request.headers.get("authorization", ""),
        )
        name = self._access.identify(caller)
        self._access.permit(caller, None)
        return name

    def _require_own_host(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if not is_own_host(host, self._hosts):
            raise PermissionDeniedError(
                f"Host is {host!r:.80}: without tokens, the coordinator answers to addresses, names without a dot and "
                "names of the cluster, and to those in http_hosts",
                field="Host",
            )
