"""Authorization of calls. Health checks are open to everyone, reflection to every authenticated caller."""

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import grpc

from tlt_common.errors import PermissionDeniedError, TltError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

DOMAIN = ".tlt.internal"
"""A certificate of component C contains the DNS name C.tlt.internal."""
ADMIN = "admin"
"""Role of operators: a certificate for admin.tlt.internal may call every method."""
REFLECTION = "ServerReflection"

caller_name: ContextVar[str] = ContextVar("caller_name", default="")
"""Name of the caller of the call that is being served, as `Access.identify` returned it; empty if callers have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller and the called method, as determined from the connection and its metadata."""

    service: str
    """Service name without its package."""
    method: str
    peer: str = ""
    """Address of the caller, for logs."""
    roles: frozenset[str] = frozenset()
    """Components named in the verified client certificate."""
    authorization: str = ""
    """The authorization header; empty if there is none."""

    @property
    def is_same_pod(self) -> bool:
        """Whether the call comes over a unix socket, hence from the same pod."""
        return self.peer.startswith("unix:")


class Access(Protocol):
    """Decides whether a call is permitted."""

    def identify(self, caller: Caller) -> str:
        """
        Return the caller's name, before the call's message is read, whose size the caller chooses.

        Raises:
            UnauthenticatedError: The caller is unknown.
            PermissionDeniedError: The caller may not make this call, whatever its message says.
        """
        ...

    def permit(self, caller: Caller, request: Any) -> None:
        """
        Permit a call of an identified caller. `request` is its message, or an iterator for streamed requests.

        Raises:
            UnauthenticatedError: The caller is not known any more.
            PermissionDeniedError: The caller may not make this call.
        """
        ...


class Open:
    """Permits every call, for a single machine or a closed network."""

    def identify(self, caller: Caller) -> str:  # noqa: ARG002 - nobody has one
        """Return an empty name."""
        return ""

    def permit(self, caller: Caller, request: Any) -> None:
        """Permit the call."""


class Roles:
    """Permits services by the role in their certificate, and callers in the same pod through their Unix socket."""

    def __init__(self, allowed: Mapping[str, Collection[str]]) -> None:
        """
        Args:
            allowed: Roles that may call each method; other methods are reserved to operators.
        """
        self._allowed = allowed

    def identify(self, caller: Caller) -> str:
        """
        Check the role; return the caller's roles.

        Raises:
            PermissionDeniedError: None of the caller's roles is accepted.
        """
        name = ",".join(sorted(caller.roles))
        if caller.is_same_pod or ADMIN in caller.roles or (caller.service == REFLECTION and caller.roles):
            return name
        accepted = self._allowed.get(caller.method, ())
        if caller.roles.isdisjoint(accepted):
            names = ", ".join(f"{role}{DOMAIN}" for role in (*accepted, ADMIN))
            mine = ", ".join(sorted(caller.roles)) or "no component"
            message = f"{caller.service}.{caller.method}: the certificate is for {mine}; accepted: {names}"
            refuse(caller, "role", PermissionDeniedError(message))
        return name

    def permit(self, caller: Caller, request: Any) -> None:
        """Permit the call: roles do not depend on the message."""


def refuse(caller: Caller, reason: str, error: TltError) -> NoReturn:
    """
    Count and log a refusal, and raise its error.

    Raises:
        TltError: `error`.
    """
    metrics.RPC_REFUSED.labels(service=caller.service, reason=reason).inc()
    log.info("call_refused", service=caller.service, method=caller.method, reason=reason, peer=caller.peer)
    raise error


def caller_of(context: grpc.aio.ServicerContext[Any, Any], *, service: str, method: str) -> Caller:
    """Return the caller of a call. gRPC verified the certificate when the connection was established."""
    names = context.auth_context().get("peer_dns", ())  # DNS names only: CAs verify other names by other rules
    decoded = (name.decode("ascii", "replace").lower() for name in names)
    return Caller(
        service=service,
        method=method,
        peer=context.peer(),
        roles=frozenset(name.removesuffix(DOMAIN) for name in decoded if name.endswith(DOMAIN)),
        authorization=authorization_in(context.invocation_metadata()),
    )


def authorization_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Return the authorization header of a call; empty if there is none."""
    return str(dict(metadata or ()).get("authorization", ""))
