"""Who may make an HTTP call: the same tokens, scopes and limits as for the gRPC method that does the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request

from tlt_common.rpc.access import Access, Caller, caller_name
from tlt_common.rpc.limits import Limits, Usage
from tlt_common.wire.rollout import SERVICE_NAME


class Door:
    """
    Args:
        access: Identifies and permits callers.
        limits: What one caller may use at a time over HTTP.
    """

    def __init__(self, access: Access, limits: Limits) -> None:
        self._access = access
        self._usage = Usage(limits)
        self.max_bytes = limits.message_bytes

    def permit(self, request: Request, method: str, message: Any = None) -> str:
        """
        Permit a call as one of a gRPC method; return the caller's name, who owns the requests of this task from now on.

        Raises:
            UnauthenticatedError: The token is missing, unknown or expired.
            PermissionDeniedError: The token lacks the method's scope.
        """
        caller = Caller(
            service=SERVICE_NAME.rpartition(".")[2],
            method=method,
            peer=request.client.host if request.client else "",
            authorization=request.headers.get("authorization", ""),
        )
        name = self._access.identify(caller)
        self._access.permit(caller, message)
        caller_name.set(name)  # of this request's task alone
        return name

    @contextmanager
    def work(self, name: str) -> Iterator[None]:
        """
        Count a running call of a caller.

        Raises:
            OverloadedError: The caller has too many running calls.
        """
        with self._usage.call(name):
            yield
