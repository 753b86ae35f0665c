"""What one hostile or odd input is, and what must come of it."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MIB = 2**20
SECRETS = {
    "generate": "generate-secret-0001",
    "update_weights": "update-secret-000001",
    "observe": "observe-secret-00001",
    "admin": "admin-secret-0000001",
}
UNSET: Any = object()


class At(StrEnum):
    """The process that gets an input."""

    OPEN = "open"
    """A gateway without tokens, as of `tlt up`."""
    CLOSED = "closed"
    """A gateway whose callers need a token."""
    COORDINATOR = "coordinator"
    """The status page, with tokens."""
    PAGE = "page"
    """The status page without tokens, as of `tlt up`."""
    READER = "reader"
    """What `tlt simulate` reads logs with: no process that serves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One HTTP request, or bytes on a socket."""

    name: str
    at: At = At.OPEN
    method: str = "POST"
    path: str = "/generate"
    body: Any = UNSET
    """Sent as JSON."""
    content: bytes | None = None
    """Sent as it is, instead of `body`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    """All bytes to send, instead of a request made of the above."""
    times: int = 1
    """Connections that send this at the same time."""
    status: int | tuple[int, ...] = 400
    """Accepted statuses. 0: the connection is closed without an answer."""
    param: str = ""
    """How `error.param` begins; empty: not looked at."""
    within: str = ""
    """Text that the answer contains."""
    without: str = ""
    """Text that the answer does not contain."""
    answer_headers: tuple[str, ...] = ()
    """Headers that the answer has."""
    afterwards: str = ""
    """A path that is posted to once the answer is there, so that no other input meets what this one left behind."""

    @property
    def statuses(self) -> tuple[int, ...]:
        return (self.status,) if isinstance(self.status, int) else self.status

    def request(self) -> bytes:
        """Return the bytes to send."""
        if self.raw is not None:
            return self.raw
        content = b"" if self.content is None else self.content
        if self.body is not UNSET:
            content = json.dumps(self.body).encode()
        headers = {"Host": "localhost", "Connection": "close"}
        if content:
            headers |= {"Content-Length": str(len(content)), "Content-Type": "application/json"}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{k}: {v}" for k, v in {**headers, **self.headers}.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One gRPC call of tlt.rollout.v1."""

    name: str
    at: At = At.OPEN
    method: str
    message: bytes = b""
    """The encoded request."""
    metadata: tuple[tuple[str, str], ...] = ()
    code: str = "INVALID_ARGUMENT"
    param: str = ""
    """How the field in the trailing metadata begins; empty: not looked at."""


def bearer(scope: str) -> dict[str, str]:
    """Return the header of a caller whose token has this scope."""
    return {"Authorization": f"Bearer {SECRETS[scope]}"}


def refused(path: str, param: str, *bodies: Any, prefix: str = "", **more: Any) -> list[Case]:
    """Return cases of bodies that are refused with the field's name."""
    return [
        Case(name=f"{prefix or path} {param} {place} {_short(body)}", path=path, body=body, param=param, **more)
        for place, body in enumerate(bodies)
    ]


def accepted(path: str, base: Mapping[str, Any], *changes: Mapping[str, Any], **more: Any) -> list[Case]:
    """Return cases of a valid body with fields that ask for nothing, which must be served."""
    return [
        Case(name=f"{path} accepts {_short(change)}", path=path, body={**base, **change}, status=200, **more)
        for change in changes
    ]


def written(path: str, param: str, contents: Iterable[tuple[str, bytes]], **more: Any) -> list[Case]:
    """Return cases of bodies that are not made by a JSON library."""
    return [Case(name=f"{path} {name}", path=path, content=content, param=param, **more) for name, content in contents]


def _short(body: Any) -> str:
    """Return a body for a test's name: without spaces and quotes, cut."""
    try:
        text = json.dumps(body)[:60]
    except ValueError:
        text = type(body).__name__
    return "".join(letter if letter.isalnum() or letter in "_.:-{}[]=," else "" for letter in text)
