"""Capacity of the queue, reserved before a call is validated, so that a burst cannot exceed it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from tlt_common.errors import InvalidRequestError, OverloadedError
from tlt_common.telemetry import metrics

OWNER_SHARE = 0.5
"""Share of the queue that one caller may use: whatever one sends, as much room is left for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Limits of the queue."""

    requests: int
    tokens: int
    """Tokens of queued prompts and prefixes, which take memory. Samples of a prompt in a batch share them."""
    owner_share: float = 1.0
    """Share of both limits that one named owner may use, which leaves room for others."""

    def of(self, owner: str) -> "QueueLimits":
        """Return the limits of one owner."""
        if not owner:
            return self
        requests, tokens = (max(1, int(most * self.owner_share)) for most in (self.requests, self.tokens))
        return QueueLimits(requests=requests, tokens=tokens)


class QueueCapacity:
    """
    Counts admitted requests that are not running yet.

    Args:
        limits: Limits of the queue.
        free: Returns the number of requests that would run at once, which need no capacity.
        retry_after_s: Retry delay of refusals.
    """

    def __init__(self, limits: QueueLimits, *, free: Callable[[], int], retry_after_s: float) -> None:
        self._limits = limits
        self._free = free
        self._retry_after_s = retry_after_s
        self._requests: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()

    @property
    def tokens(self) -> int:
        """Number of queued tokens."""
        return self._tokens.total()

    @contextmanager
    def reserved(self, owner: str, *, requests: int = 1, tokens: int, field: str) -> Iterator["Reservation"]:
        """
        Reserve capacity for the requests of a call within the block. The unused part is returned when the block ends.

        Args:
            owner: Name of the caller's token; empty without one.
            requests: Requests of the call.
            tokens: Tokens of their prompts and prefixes.
            field: The field that determines the number of requests.

        Raises:
            InvalidRequestError: The queue could never hold them; the error names `field`.
            OverloadedError: There is no capacity left at the moment.
        """
        self.require_fit(owner, requests=requests, tokens=tokens, field=field)
        self._require_free(owner, requests, tokens)
        reservation = Reservation(self, owner, requests, tokens)
        self._add(owner, requests, tokens)
        try:
            yield reservation
        finally:
            reservation.close()

    def require_fit(self, owner: str, *, requests: int, tokens: int = 0, field: str) -> None:
        """
        Check that the requests of a call fit into an empty queue.

        Raises:
            InvalidRequestError: The queue could never hold them; the error names `field`.
        """
        most = self._limits.of(owner)
        if requests > most.requests:
            raise InvalidRequestError(
                f"{field} makes {requests} requests; the maximum is {most.requests} per call", field=field
            )
        if tokens > most.tokens:
            raise InvalidRequestError(
                f"the prompts of the call have {tokens} tokens; the maximum is {most.tokens} per call", field=field
            )

    def _require_free(self, owner: str, requests: int, tokens: int) -> None:
        self._require_within(self._limits, "", self._requests.total(), self.tokens, requests, tokens)
        if owner:
            mine = self._requests[owner], self._tokens[owner]
            self._require_within(self._limits.of(owner), f" of {owner}", *mine, requests, tokens)

    def _require_within(
        self, most: QueueLimits, whose: str, waiting: int, held: int, requests: int, tokens: int
    ) -> None:
        if waiting + requests > most.requests and waiting + requests > most.requests + self._free():
            self._refuse(
                requests, f"{waiting} requests{whose} are queued and {requests} arrived", f"{most.requests} queued"
            )
        if held + tokens > most.tokens:
            self._refuse(
                requests, f"{held} tokens{whose} are queued and {tokens} arrived", f"{most.tokens} tokens queued"
            )

    def _refuse(self, requests: int, found: str, accepted: str) -> NoReturn:
        metrics.GATEWAY_REFUSED.inc(requests)
        raise OverloadedError(
            f"{found}; the maximum is {accepted}; retry after {self._retry_after_s:g} s",
            retry_after_s=self._retry_after_s,
        )

    def _add(self, owner: str, requests: int, tokens: int) -> None:
        for counter, count in ((self._requests, requests), (self._tokens, tokens)):
            counter[owner] += count
            if not counter[owner]:
                del counter[owner]
        metrics.GATEWAY_QUEUED_TOKENS.set(self.tokens)


class Reservation:
    """Capacity reserved by one call. Its tokens return with its last request, since a batch's samples share prompts."""

    def __init__(self, capacity: QueueCapacity, owner: str, requests: int, tokens: int) -> None:
        self._capacity = capacity
        self._owner = owner
        self._requests = requests
        self._tokens = tokens

    def use(self) -> None:
        """Return the capacity of one request that has started or ended."""
        if self._requests:
            self._give(1)

    def close(self) -> None:
        """Return the remaining capacity."""
        if self._requests:
            self._give(self._requests)

    def _give(self, requests: int) -> None:
        self._requests -= requests
        self._capacity._add(self._owner, -requests, 0 if self._requests else -self._tokens)  # noqa: SLF001 - its other half
