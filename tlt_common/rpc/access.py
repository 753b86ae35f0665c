"""Who may call what. Health is free for everybody, reflection for everybody who is known."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import grpc

from tlt_common.errors import PermissionDeniedError, TltError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

DOMAIN = ".tlt.internal"
"""A certificate of component C carries the DNS name C.tlt.internal."""
ADMIN = "admin"
"""Role of operators: a certificate for admin.tlt.internal may call everything."""
REFLECTION = "ServerReflection"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls what, as far as can be seen from the outside."""

    service: str
    """Without its package."""
    method: str
    peer: str = ""
    """Where the call comes from, for the log."""
    roles: frozenset[str] = frozenset()
    """Components the verified client certificate stands for."""
    authorization: str = ""
    """The header of that name."""

    @property
    def is_beside(self) -> bool:
        """It comes over a unix socket: from the same pod."""
        return self.peer.startswith("unix:")


class Access(Protocol):
    """Decides over calls."""

    def admit(self, caller: Caller, request: Any) -> None:
        """
        Let a call pass; `request` is its message, or an iterator where messages are streamed.

        Raises:
            UnauthenticatedError: Nobody knows the caller.
            PermissionDeniedError: The caller may do other things.
        """
        ...


class Open:
    """Everybody may everything: what one machine, or a closed network, needs."""

    def admit(self, caller: Caller, request: Any) -> None:
        """Let it pass."""


class Roles:
    """Lets services in by the role their certificate carries; those of the same pod by their unix socket."""

    def __init__(self, allowed: Mapping[str, Collection[str]]) -> None:
        """
        Args:
            allowed: Roles that may call each method; what is not named is for operators.
        """
        self._allowed = allowed

    def admit(self, caller: Caller, request: Any) -> None:  # noqa: ARG002 - roles are for methods as a whole
        """
        Check the role.

        Raises:
            PermissionDeniedError: None of the caller's roles may.
        """
        if caller.is_beside or ADMIN in caller.roles or (caller.service == REFLECTION and caller.roles):
            return
        accepted = self._allowed.get(caller.method, ())
        if caller.roles.isdisjoint(accepted):
            names = ", ".join(f"{role}{DOMAIN}" for role in (*accepted, ADMIN))
            mine = ", ".join(sorted(caller.roles)) or "none of the suite"
            message = f"{caller.service}.{caller.method}: the certificate is for {mine}; accepted: {names}"
            refuse(caller, "role", PermissionDeniedError(message))


def refuse(caller: Caller, reason: str, error: TltError) -> NoReturn:
    """
    Count and log a refusal.

    Raises:
        TltError: `error`.
    """
    metrics.RPC_REFUSED.labels(service=caller.service, reason=reason).inc()
    log.info("call_refused", service=caller.service, method=caller.method, reason=reason, peer=caller.peer)
    raise error


def caller_of(context: grpc.aio.ServicerContext[Any, Any], *, service: str, method: str) -> Caller:
    """Tell the caller of a call. gRPC verified the certificate when the connection was made."""
    names = context.auth_context().get("peer_dns", ())  # no other names: authorities check those by other rules
    decoded = (name.decode("ascii", "replace").lower() for name in names)
    metadata = dict(context.invocation_metadata() or ())
    return Caller(
        service=service,
        method=method,
        peer=context.peer(),
        roles=frozenset(name.removesuffix(DOMAIN) for name in decoded if name.endswith(DOMAIN)),
        authorization=str(metadata.get("authorization", "")),
    )
