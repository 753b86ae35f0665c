"""
What gateways report of running requests: how long those of the fleet will run, and the tail that gateways share. Pure:
times come from the caller.
"""

from collections import Counter, deque
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import NamedTuple

from tlt_common.forecast import LengthCurve, LengthHistory, TailView, TailWorker
from tlt_common.forecast.load import GatewayLoad, MovedRequest, TailReport, WorkerLoad

FRESH_S = 2.0
"""Seconds after which a gateway's report is too old for a view of the tail."""
VIEW_S = 1.0
"""Seconds between two views: time for the moves of one to be reported before the next."""

KEPT_MOVES = 2**14
"""Moves of requests that are remembered, the latest."""
MAX_PACED = 64
"""Workers whose pace is looked at: equal devices have one pace."""
HALVINGS = 24
"""Of the tokens among which a quantile is looked for: to one of 16 million."""


class _Report(NamedTuple):
    load: GatewayLoad
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLengths:
    """Responses that ended with as many bits in their number of tokens."""

    bits: int
    count: int
    cut: int
    """Those of them that a cap or an abort ended."""


class RunningLengths:
    """
    Running requests, added up.

    Attributes:
        counts: Requests by cap and bits of generated tokens.
        requests: All of them.
        kv_tokens: Tokens of their prompts and responses.
        workers: Workers with requests; one counts once for each gateway.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, int]] = Counter()
        self.requests = 0
        self.kv_tokens = 0
        self.workers = 0

    def add(self, load: WorkerLoad) -> None:
        """Add the requests of a gateway at a worker."""
        self.workers += 1
        self.kv_tokens += load.kv_tokens
        for of in load.running:
            for bits, count in enumerate(of.counts):
                if count:
                    self.counts[of.cap, bits] += count
                    self.requests += count


class Outlook:
    """
    How long requests will run. Without what gateways know of prompts, so it is wider than their forecasts.

    Args:
        curve: The distribution of lengths.
        running: The requests.
    """

    def __init__(self, curve: LengthCurve, running: RunningLengths) -> None:
        self._curve = curve
        groups = [(cap, _tokens_of(bits), count) for (cap, bits), count in running.counts.items()]
        self._groups = [(cap, had, curve.survival(had), count) for cap, had, count in groups]
        self._most = max((max(0, cap - had) for cap, had, _ in groups), default=0)

    def longest_left(self, level: float) -> float:
        """Return the tokens until all have ended with this probability."""
        low, high = 0.0, float(self._most)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            if self._all_ended(middle, level) < level:
                low = middle
            else:
                high = middle
        return high

    def _all_ended(self, tokens: float, level: float) -> float:
        """Return the probability that all have ended after so many tokens, or anything below `level` if it is less."""
        chance = 1.0
        for cap, had, alive, count in self._groups:
            if had + tokens < cap and alive > 0.0:
                chance *= (1.0 - self._curve.survival(had + tokens) / alive) ** count
                if chance < level:
                    break
        return chance


class Forecasts:
    """The last load of each gateway; one that has not reported for `stale_s` no longer counts."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._reports: dict[str, _Report] = {}
        self._history = LengthHistory()
        self._view = TailView(serial=0, workers=(), requests=())
        self._view_s = -inf
        self._finished: Counter[int] = Counter()
        self._cut: Counter[int] = Counter()
        self._paced: tuple[TailWorker, ...] = ()
        self._moves: deque[tuple[float, MovedRequest]] = deque(maxlen=KEPT_MOVES)

    def report(self, gateway_id: str, load: GatewayLoad, now_s: float) -> None:
        """Record what a gateway runs."""
        for length in load.ended:
            self._history.add(length, ended=True)
        for length in load.cut:
            self._history.add(length, ended=False)
        self._finished.update(length.bit_length() for length in (*load.ended, *load.cut))
        self._cut.update(length.bit_length() for length in load.cut)
        if load.tail and load.tail.workers:
            self._paced = load.tail.workers
        self._moves.extend((now_s - one.age_s, one) for one in load.moved)
        self._reports[gateway_id] = _Report(load, now_s)
        self._look(now_s)

    def moves(self, from_s: float, to_s: float) -> list[tuple[float, MovedRequest]]:
        """Return the requests that moved in tails within a span, with the times at which they did."""
        return [(at_s, one) for at_s, one in self._moves if from_s <= at_s < to_s]

    def view(self, now_s: float) -> tuple[TailView, float] | None:
        """Return the latest view of the tail and its age, in seconds; None if gateways do not know it, or did not."""
        if not self._view.serial or now_s - self._view_s > FRESH_S:
            return None
        return self._view, now_s - self._view_s

    def running(self, now_s: float) -> bool:
        """Whether a gateway runs requests."""
        return any(report.load.workers for report in self._counted(now_s).values())

    def loads(self, now_s: float) -> list[WorkerLoad]:
        """Return the requests of all gateways at all workers."""
        return [worker for report in self._counted(now_s).values() for worker in report.load.workers]

    @property
    def finished(self) -> list[FinishedLengths]:
        """The lengths of responses that ended since `begin_step`, by power of two."""
        return [
            FinishedLengths(bits=bits, count=count, cut=self._cut[bits])
            for bits, count in sorted(self._finished.items())
        ]

    def begin_step(self) -> None:
        """Count lengths from now on."""
        self._finished.clear()
        self._cut.clear()

    def outlook(self, running: RunningLengths) -> Outlook | None:
        """Return how long requests will run; None while too few lengths are known."""
        curve = self._history.curve([(_tokens_of(bits), count) for (_, bits), count in running.counts.items()])
        return Outlook(curve, running) if curve is not None else None

    def token_s(self, running: RunningLengths) -> float | None:
        """Return the seconds per token of each request, as gateways last told in a tail; None: none has."""
        if not self._paced or not running.requests:
            return None
        requests, kv_tokens = -(-running.requests // running.workers), running.kv_tokens / running.workers
        return median(worker.pace.token_s(requests, kv_tokens) for worker in self._paced[:MAX_PACED])

    def _look(self, now_s: float) -> None:
        """Make a new view if all gateways have told theirs, and the last one is old enough."""
        if self._view.serial and now_s - self._view_s < VIEW_S:
            return
        tails = list[tuple[str, TailReport]]()
        for gateway_id, report in sorted(self._counted(now_s).items()):
            tail = report.load.tail
            if tail is None or not tail.is_settled or now_s - report.at_s > FRESH_S or report.at_s <= self._view_s:
                return
            tails.append((gateway_id, tail))
        workers = next((tail.workers for _, tail in tails if tail.workers), ())
        requests = tuple(request for _, tail in tails for request in tail.requests)
        self._view = TailView(serial=self._view.serial + 1, workers=workers, requests=requests)
        self._view_s = now_s

    def _counted(self, now_s: float) -> dict[str, _Report]:
        self._reports = {
            gateway_id: report for gateway_id, report in self._reports.items() if now_s - report.at_s < self._stale_s
        }
        return self._reports


def _tokens_of(bits: int) -> int:
    """Return the middle of the numbers with so many bits."""
    return 3 << bits >> 2
