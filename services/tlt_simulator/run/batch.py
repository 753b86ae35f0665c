"""
The requests that one worker decodes concurrently. Pure.

All requests get tokens at the same pace, so the worker keeps one counter, the tokens per request since it started, and
a request ends when the counter has grown by its remaining tokens since its arrival. The pace falls as the KV cache
fills: a round takes a + b k seconds with k tokens in the cache, which grows by the batch size for each token, so that x
more tokens take p x + q x² / 2, which is solved for x.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf, sqrt

from tlt_simulator.run.speeds import RoundSpeed
from tlt_simulator.trace import TraceSample

EPSILON = 1e-6
"""Tokens by which a request may be short of its end."""


@dataclass(eq=False, slots=True)
class SimRequest:
    """A response being generated."""

    ref: int
    sample: TraceSample
    step: int = 0
    """Number of the step that learns from it."""
    generated: float = 0.0
    """Number of tokens when it arrived at its worker."""
    place: "DecodedBatch | None" = None
    joined_at: float = 0.0
    """The worker's counter of tokens per request at that time."""
    oldest: int | None = None
    """Version of the weights that wrote its first token; None before it."""
    versions: float = 0.0
    """Versions of its attributed tokens, summed."""
    attributed: float = 0.0
    """Number of tokens whose version is known."""

    @property
    def tokens(self) -> float:
        """Number of tokens of its response so far."""
        return self.generated if self.place is None else self.generated + self.place.tokens - self.joined_at

    @property
    def kv_tokens(self) -> float:
        """Tokens in the KV cache."""
        return self.sample.prompt_tokens + self.tokens

    def attribute(self, version: int) -> None:
        """Attribute the tokens since the last call to a version of the weights."""
        tokens = self.tokens
        self.versions += (tokens - self.attributed) * version
        self.attributed = tokens


class DecodedBatch:
    """
    Attributes:
        tokens: Counter of tokens per request since the start.
        rounds: Rounds so far, summed over requests.
        produced: Tokens so far.
        kv_tokens: Tokens in the KV cache.
        at_s: Time up to which all of this is known.
    """

    def __init__(self) -> None:
        self.tokens = 0.0
        self.rounds = 0.0
        self.produced = 0.0
        self.kv_tokens = 0.0
        self.requests: dict[int, SimRequest] = {}
        self._ends: list[tuple[float, int]] = []
        self.at_s = 0.0
        self._stalled_until_s = 0.0
        self._speed = RoundSpeed(1.0, 0.0, 1.0)

    def __len__(self) -> int:
        return len(self.requests)

    def set_speed(self, speed: RoundSpeed) -> None:
        """Set the decoding speed. `advance` must have been called."""
        self._speed = speed

    def stall(self, seconds: float, now_s: float) -> None:
        """Decode nothing for a number of seconds."""
        self._stalled_until_s = max(self._stalled_until_s, now_s) + seconds

    def add(self, request: SimRequest, now_s: float, *, prefill_s: float) -> None:
        """Add a request, whose tokens are prefilled first. `advance` must have been called."""
        if prefill_s > 0.0:
            self.stall(prefill_s, now_s)
        self.kv_tokens += request.kv_tokens
        request.place, request.joined_at = self, self.tokens
        self.requests[request.ref] = request
        heappush(self._ends, (self.tokens + request.sample.tokens - request.generated, request.ref))

    def remove(self, request: SimRequest) -> None:
        """Remove a request with its current tokens. `advance` must have been called."""
        self.kv_tokens -= request.kv_tokens
        request.generated, request.place = request.tokens, None
        del self.requests[request.ref]
        if not self.requests:
            self.kv_tokens = 0.0

    def advance(self, now_s: float) -> float:
        """Advance to the current time; return the tokens that each request got."""
        start_s, self.at_s = max(self.at_s, min(self._stalled_until_s, now_s)), now_s
        if not self.requests or now_s <= start_s:
            return 0.0
        first, slope = self._pace()
        gone_s = now_s - start_s
        tokens = 2.0 * gone_s / (first + sqrt(first * first + 2.0 * slope * gone_s))
        batch = len(self.requests)
        self.tokens += tokens
        self.kv_tokens += tokens * batch
        self.produced += tokens * batch
        self.rounds += tokens * batch / self._speed.length
        return tokens

    def next_event_s(self, kv_room: float) -> float:
        """
        Return the time until the next request ends or the KV cache is full; infinite if neither. `advance` must have
        been called.
        """
        if (end := self._next_end()) is None:
            return inf
        tokens = max(0.0, end - self.tokens)
        if len(self.requests) > 1:
            tokens = min(tokens, max(0.0, (kv_room - self.kv_tokens) / len(self.requests)))
        first, slope = self._pace()
        return max(self.at_s, self._stalled_until_s) + first * tokens + slope * tokens * tokens / 2.0

    def ended(self) -> list[SimRequest]:
        """Remove and return the complete requests. `advance` must have been called."""
        found = list[SimRequest]()
        while (end := self._next_end()) is not None and end - self.tokens <= EPSILON:
            request = self.requests[heappop(self._ends)[1]]
            self.remove(request)
            request.generated = float(request.sample.tokens)
            found.append(request)
        return found

    def retracted(self, kv_room: float) -> list[SimRequest]:
        """
        Remove and return the requests with the fewest tokens until the KV cache has room. `advance` must have been
        called.
        """
        found = list[SimRequest]()
        while len(self.requests) > 1 and self.kv_tokens >= kv_room - EPSILON:
            request = min(self.requests.values(), key=lambda one: (one.tokens, -one.ref))
            self.remove(request)
            found.append(request)
        return found

    def _next_end(self) -> float | None:
        while self._ends:
            end, ref = self._ends[0]
            request = self.requests.get(ref)
            if request is not None and abs(request.joined_at + request.sample.tokens - request.generated - end) < 0.5:
                return end
            heappop(self._ends)  # it was retracted
        return None

    def _pace(self) -> tuple[float, float]:
        """Return the current seconds per token of each request, and their growth per token."""
        speed = self._speed
        first = (speed.base_s + speed.kv_token_s * self.kv_tokens) / speed.length
        return first, speed.kv_token_s * len(self.requests) / speed.length
