"""
How long a worker takes for tokens: rounds by running requests, tokens in the KV cache and arm, and prefills. Pure.

A round reads the weights once, whatever it computes, and the KV cache of all its requests: its time is a base, a part
per request and a part per cached token, of which the neighbourhood of each number of requests has its own. It is
learned from sums over rounds, per arm and power of two of requests, which forget.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import WorkedRounds

KEPT_ROUNDS = 1024.0
"""Rounds of an arm and bucket of which at least half are remembered."""
LEAST_ROUNDS = 16.0
"""Rounds near a number of requests before its pace counts as known."""
KEPT_PREFILLED = 262_144.0
"""Prefilled tokens of which at least half are remembered."""
LEAST_PREFILLED = 1024.0
FULL_WEIGHT = 64.0
"""Rounds beyond which a bucket's mean weighs no more: they differ little."""
SWEEPS = 200
"""Of the descent that fits two slopes."""
RIDGE = 1e-3
"""Share of the variance by which slopes are drawn to 0: two that cannot be told apart share what they explain."""


@dataclass(frozen=True, slots=True)
class TokenPace:
    """A cost curve at small numbers of requests, as a few numbers that can be told to others."""

    tokens_s: tuple[tuple[float, float], ...]
    """For 1, 2, ... running requests: seconds per token of each request with an empty KV cache, and the part per token
    in the cache."""
    prefill_token_s: float

    def token_s(self, requests: int, kv_tokens: float) -> float:
        """Return the seconds per token of each of `requests`; beyond those of `tokens_s`, along its last two."""
        place = min(requests, len(self.tokens_s)) - 1
        base_s, per_kv_s = self.tokens_s[place]
        if (beyond := requests - 1 - place) and place:
            base_s += beyond * max(0.0, base_s - self.tokens_s[place - 1][0])
        return base_s + per_kv_s * kv_tokens

    def prefill_s(self, tokens: float) -> float:
        """Return the seconds for which a prefill holds the others up."""
        return self.prefill_token_s * tokens


@dataclass(slots=True)
class _Cell:
    rounds: float = 0.0
    requests: float = 0.0
    kv_tokens: float = 0.0
    produced: float = 0.0
    elapsed_s: float = 0.0

    def add(self, window: ArmWindow) -> None:
        if self.rounds > KEPT_ROUNDS:
            for name in self.__slots__:
                setattr(self, name, getattr(self, name) / 2.0)
        self.rounds += window.rounds
        self.requests += window.produced_tokens - window.accepted_tokens
        self.kv_tokens += window.kv_tokens
        self.produced += window.produced_tokens
        self.elapsed_s += window.elapsed_s


class CostCurve:
    """The cost curve of equal devices."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, int], _Cell] = {}
        self._prefilled = 0.0
        self._prefill_s = 0.0

    def learn(self, rounds: WorkedRounds) -> None:
        """Learn from rounds of a worker."""
        for window in rounds.arms:
            if window.rounds > 0 and window.elapsed_s > 0.0:
                self._cells.setdefault((window.arm, window.group), _Cell()).add(window)
        if rounds.prefill_s > 0.0:
            if self._prefilled > KEPT_PREFILLED:
                self._prefilled, self._prefill_s = self._prefilled / 2.0, self._prefill_s / 2.0
            self._prefilled += rounds.prefilled_tokens
            self._prefill_s += rounds.prefill_s

    def forget_drafts(self) -> None:
        """Forget rounds that drafted: another drafter gets other numbers of drafts accepted."""
        self._cells = {key: cell for key, cell in self._cells.items() if cell.produced <= cell.requests}

    def pace(self, most: int) -> TokenPace | None:
        """Return the pace of up to `most` requests; None while too little is known."""
        if self._prefilled < LEAST_PREFILLED:
            return None
        tokens_s = list[tuple[float, float]]()
        for requests in range(1, most + 1):
            if (found := self._token_s(requests)) is None:
                return None
            tokens_s.append(found)
        return TokenPace(tuple(tokens_s), self._prefill_s / self._prefilled) if tokens_s else None

    def token_s(self, requests: int, kv_tokens: float) -> float | None:
        """Return the seconds per token of each of `requests`; None while too little is known."""
        if (found := self._token_s(requests)) is None:
            return None
        return found[0] + found[1] * kv_tokens

    def _token_s(self, requests: int) -> tuple[float, float] | None:
        near = self._near(requests)
        if near is None or (fitted := self._fitted(near[0], requests)) is None:
            return None
        cell = self._cells[near]
        length = cell.produced / cell.requests
        return fitted[0] / length, fitted[1] / length

    def _near(self, requests: int) -> tuple[str, int] | None:
        """Return the arm that runs at a number of requests, and the bucket from which that is known."""
        known = {key: cell for key, cell in self._cells.items() if cell.rounds >= LEAST_ROUNDS}
        if not known:
            return None
        distance = min(_distance(group, requests) for _, group in known)
        near = (key for key in known if _distance(key[1], requests) == distance)
        return max(near, key=lambda key: (known[key].rounds, key))

    def _fitted(self, arm: str, requests: int) -> tuple[float, float] | None:
        """Return base and part per cached token of a round of an arm, from its buckets, the nearest above all."""
        points = [
            (
                cell.requests / cell.rounds,
                cell.kv_tokens / cell.rounds,
                cell.elapsed_s / cell.rounds,
                cell.rounds,
                group,
            )
            for (name, group), cell in sorted(self._cells.items())
            if name == arm
        ]
        if sum(rounds for *_, rounds, _ in points) < LEAST_ROUNDS:
            return None
        weights = [min(rounds, FULL_WEIGHT) / (1.0 + _distance(group, requests)) ** 4 for *_, rounds, group in points]
        base_s, per_request_s, per_kv_s = _plane([point[:3] for point in points], weights)
        return max(0.0, base_s + per_request_s * requests), per_kv_s


def _distance(group: int, requests: int) -> int:
    return abs(group.bit_length() - requests.bit_length())


def _plane(points: Iterable[tuple[float, float, float]], weights: list[float]) -> tuple[float, float, float]:
    """Return a, b, c >= 0 with z = a + b x + c y, by weighted least squares: coordinate descent on the slopes."""
    points, total = list(points), sum(weights)
    mean = [sum(w * point[axis] for w, point in zip(weights, points, strict=True)) / total for axis in range(3)]

    def moment(one: int, other: int) -> float:
        return (
            sum(w * (p[one] - mean[one]) * (p[other] - mean[other]) for w, p in zip(weights, points, strict=True))
            / total
        )

    xx, yy, xy, xz, yz = moment(0, 0), moment(1, 1), moment(0, 1), moment(0, 2), moment(1, 2)
    xx, yy = xx * (1.0 + RIDGE), yy * (1.0 + RIDGE)
    b = c = 0.0
    for _ in range(SWEEPS):
        b = max(0.0, (xz - xy * c) / xx) if xx > 0.0 else 0.0
        c = max(0.0, (yz - xy * b) / yy) if yy > 0.0 else 0.0
        # Never so steep that a round without requests would take less than no time.
        b = min(b, mean[2] / mean[0]) if mean[0] > 0.0 else b
        c = min(c, max(0.0, mean[2] - b * mean[0]) / mean[1]) if mean[1] > 0.0 else 0.0
    return max(0.0, mean[2] - b * mean[0] - c * mean[1]), b, c
