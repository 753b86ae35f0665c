"""What gateways know of the end of a step, as all of them see it. Pure."""

from dataclasses import dataclass

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast.left import Left
from tlt_common.forecast.pace import TokenPace


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """A request that a worker runs."""

    gateway_id: str
    ref: int
    """Chosen by its gateway; says nothing of the request."""
    worker_id: WorkerId
    kv_tokens: int
    """Tokens of prompt and response: those that would be prefilled if it moved."""
    left: Left

    @property
    def name(self) -> str:
        """What identifies it in the fleet."""
        return f"{self.gateway_id}/{self.ref}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TailWorker:
    """A worker that accepts requests."""

    worker_id: WorkerId
    pace: TokenPace
    slots: int
    """Requests that it may run."""
    kv_room: int
    """Tokens that its KV cache holds."""
    lendable: bool = False
    """Whether its device would be lent if it ran no request."""
    training: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TailView:
    """The running requests of all gateways, at one moment."""

    serial: int
    """Rises with every view; all gateways see the same under one number."""
    workers: tuple[TailWorker, ...]
    requests: tuple[TailRequest, ...]
