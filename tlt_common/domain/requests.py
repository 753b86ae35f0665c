"""Messages between gateway and worker about requests."""

from dataclasses import dataclass
from typing import TypeAlias

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import TltError


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A request to start."""

    prompt: Prompt
    traceparent: str = ""
    """W3C trace context of the caller's span; empty without traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """The caller of a request has hung up."""

    request_id: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request failed; others continue."""

    request_id: RequestId
    error: TltError


Part: TypeAlias = TokenChunk | Failure
"""What a worker sends for one request."""
