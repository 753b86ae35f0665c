"""Authenticates and authorizes HTTP calls with the tokens, scopes and limits of the equivalent gRPC method."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request

from tlt_common.rpc.limits import Limits, Usage
from tlt_common.rpc.security.access import Access, Caller, Open, caller_name
from tlt_common.wire.rollout import SERVICE_NAME
from tlt_gateway.http.bodies.body_budget import BodyBudget
from tlt_gateway.http.odd_headers import require_known_query, require_no_page, require_single_headers

BODIES = 8
"""Bodies of the maximum size that may be read at the same time; half as many of one token."""
CHANGES = "UpdateWeights"
"""The method as which calls that change what is served are permitted."""


class HttpAuth:
    """
    Args:
        access: Identifies and permits callers. An open policy admits programs only, not web pages.
        limits: Limits on the concurrent calls of one caller over HTTP.
        on_loopback: Only this machine can connect.
    """

    def __init__(self, access: Access, limits: Limits, *, on_loopback: bool = False) -> None:
        self._access = access
        self._usage = Usage(limits)
        self._on_loopback = on_loopback
        self.max_bytes = limits.message_bytes
        self._bodies = BodyBudget(BODIES * limits.message_bytes, retry_after_s=limits.retry_after_s)

    def permit(
        self,
        request: Request,
        method: str,
        message: Any = None,
        *,
        query: Collection[str] = (),
        lists: Collection[str] = (),
    ) -> str:
        """
        Authorize a call as the equivalent gRPC method, before its body is read. Return the caller's name, which from
        now on owns the requests of this task.

        Args:
            request: The call.
            method: The gRPC method.
            message: Its message, if the scope depends on it.
            query: Names of the query parameters that the call knows.
            lists: Names of those that it may have several times.

        Raises:
            UnauthenticatedError: The token is missing, unknown or expired.
            PermissionDeniedError: The token lacks the method's scope, or a web page makes the call.
            InvalidRequestError: A query parameter is unknown, or a header is repeated.
        """
        caller = _caller(request, method)
        name = self._identified(request, caller)
        self._access.permit(caller, message)
        require_known_query(request, query, lists)
        return name

    def identify(self, request: Request, method: str) -> str:
        """
        Return the caller's name, which from now on owns the requests of this task. Call `permit` once the facts that
        the scope depends on are known.

        Raises:
            UnauthenticatedError, PermissionDeniedError, InvalidRequestError: As for `permit`.
        """
        return self._identified(request, _caller(request, method))

    def _identified(self, request: Request, caller: Caller) -> str:
        require_single_headers(request)
        if isinstance(self._access, Open):
            require_no_page(request, on_loopback=self._on_loopback, changes=caller.method == CHANGES)
        name = self._access.identify(caller)
        caller_name.set(name)  # of this request's task alone
        self._bodies.admit(request, name, share=1.0 if isinstance(self._access, Open) else 0.5)
        return name

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """
        Count a running call of a caller within the block.

        Raises:
            OverloadedError: The caller has too many running calls.
        """
        with self._usage.call(name):
            yield


def _caller(request: Request, method: str) -> Caller:
    return Caller(
        service=SERVICE_NAME.rpartition(".")[2],
        method=method,
        peer=request.client.host if request.client else "",
        authorization=request.headers.get("authorization", ""),
    )
