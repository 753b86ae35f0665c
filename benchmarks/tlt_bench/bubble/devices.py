"""Workers of a calculated fleet, in virtual time: all requests of one get tokens at the same pace."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from tlt_common.bandit.reward import bucket
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds
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
    kv_room: int
    accept_length: float = 1.0

    def token_s(self, requests: int, kv_tokens: float) -> float:
        """Return the seconds per token of each request."""
        return (self.base_s + self.request_s * requests + self.kv_token_s * kv_tokens) / self.accept_length


H100_7B = CalculatedDevice(
    name="7B policy, H100",
    base_s=0.007,  # 15 GB of weights at 3.35 TB/s, and 2.5 ms of launches and sampling
    request_s=0.00003,
    kv_token_s=20e-9,  # 57 KB: 28 layers, 4 heads of 128, keys and values, 2 bytes
    prefill_token_s=28e-6,  # 14 GFLOP at half of 989 TFLOP/s
    kv_room=900_000,
)


@dataclass(eq=False, slots=True)
class VirtualRequest:
    """A response that is generated."""

    ref: int
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

    name: str
    device: CalculatedDevice
    requests: list[VirtualRequest] = field(default_factory=list)
    stalled_s: float = 0.0
    """Seconds of prefill before anything else goes on."""
    busy_s: float = 0.0
    serial: int = 0
    _windows: dict[int, list[float]] = field(default_factory=dict)
    _prefilled: list[float] = field(default_factory=lambda: [0.0, 0.0])

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
        if not self.requests:
            return []
        self.busy_s += seconds
        waited = min(self.stalled_s, seconds)
        self.stalled_s -= waited
        worked_s = seconds - waited
        if worked_s > 0.0:
            tokens, kv_tokens = worked_s / self.pace_s, sum(one.kv_tokens for one in self.requests)
            self._count(tokens, kv_tokens, worked_s)
            for one in self.requests:
                one.generated += tokens
        ended = [one for one in self.requests if one.left <= 1e-6]
        self.requests = [one for one in self.requests if one.left > 1e-6]
        return ended

    def receive(self, request: VirtualRequest) -> None:
        """Take over a request, whose tokens are prefilled."""
        seconds = request.kv_tokens * self.device.prefill_token_s
        self.stalled_s += seconds
        self._prefilled = [self._prefilled[0] + request.kv_tokens, self._prefilled[1] + seconds]
        self.requests.append(request)

    def rounds(self) -> WorkedRounds:
        """Return what was worked since the last call."""
        self.serial += 1
        windows = tuple(_window(group, sums, self.device) for group, sums in self._windows.items())
        tokens, seconds = self._prefilled
        self._windows, self._prefilled = {}, [0.0, 0.0]
        return WorkedRounds(serial=self.serial, arms=windows, prefilled_tokens=round(tokens), prefill_s=seconds)

    def _count(self, tokens: float, kv_tokens: float, seconds: float) -> None:
        rounds, batch = tokens / self.device.accept_length, len(self.requests)
        sums = self._windows.setdefault(bucket(batch), [0.0] * 4)
        for place, value in enumerate((rounds, rounds * batch, rounds * kv_tokens, seconds)):
            sums[place] += value


def _window(group: int, sums: Iterable[float], device: CalculatedDevice) -> ArmWindow:
    rounds, requests, kv_tokens, seconds = sums
    produced = round(requests * device.accept_length)
    return ArmWindow(
        arm="off",
        group=group,
        rounds=round(rounds),
        accepted_tokens=produced - round(requests),
        produced_tokens=produced,
        elapsed_s=seconds,
        median_reward=0.0,
        kv_tokens=round(kv_tokens),
    )
