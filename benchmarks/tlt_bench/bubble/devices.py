"""Workers of a calculated fleet, in virtual time: all requests of one get tokens at the same pace."""

from dataclasses import dataclass, field
from math import inf

from tlt_simulator.traces.drawn import Drawn

PROMPT_TOKENS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculatedDevice:
    """What rounds and prefills cost."""

    name: str
    base_s: float
    request_s: float
    kv_token_s: float
    prefill_token_s: float

    def token_s(self, requests: int, kv_tokens: float) -> float:
        """Return the seconds per token of each request."""
        return self.base_s + self.request_s * requests + self.kv_token_s * kv_tokens


H100_7B = CalculatedDevice(
    name="7B policy, H100",
    base_s=0.007,  # 15 GB of weights at 3.35 TB/s, and 2.5 ms of launches and sampling
    request_s=0.00003,
    kv_token_s=20e-9,  # 57 KB: 28 layers, 4 heads of 128, keys and values, 2 bytes
    prefill_token_s=28e-6,  # 14 GFLOP at half of 989 TFLOP/s
)


@dataclass(eq=False, slots=True)
class VirtualRequest:
    """A response that is generated."""

    drawn: Drawn
    generated: float = 0.0

    @property
    def left(self) -> float:
        """Tokens to come."""
        return self.drawn.length - self.generated

    @property
    def kv_tokens(self) -> float:
        """Tokens in the KV cache."""
        return PROMPT_TOKENS + self.generated


@dataclass(eq=False, slots=True)
class VirtualWorker:
    """A worker and what it runs."""

    device: CalculatedDevice
    requests: list[VirtualRequest] = field(default_factory=list)
    stalled_s: float = 0.0
    """Seconds of prefill before anything else goes on."""

    @property
    def pace_s(self) -> float:
        """Seconds per token now."""
        return self.device.token_s(len(self.requests), sum(one.kv_tokens for one in self.requests))

    @property
    def next_end_s(self) -> float:
        """Seconds until the next request ends."""
        if not self.requests:
            return inf
        return self.stalled_s + min(one.left for one in self.requests) * self.pace_s

    def advance(self, seconds: float) -> list[VirtualRequest]:
        """Run for some seconds, within which the pace hardly changes; return the requests that end."""
        waited = min(self.stalled_s, seconds)
        self.stalled_s -= waited
        if self.requests and seconds > waited:
            tokens = (seconds - waited) / self.pace_s
            for one in self.requests:
                one.generated += tokens
        ended = [one for one in self.requests if one.left <= 1e-6]
        self.requests = [one for one in self.requests if one.left > 1e-6]
        return ended

    def receive(self, request: VirtualRequest) -> None:
        """Take over a request, whose tokens are prefilled."""
        self.stalled_s += request.kv_tokens * self.device.prefill_token_s
        self.requests.append(request)
