"""Pending orders on one worker's stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from tlt_common.domain.fleet import DrafterWish, Lease, ReportInterval, Revocation
from tlt_common.errors import TltError

Order: TypeAlias = Lease | Revocation | DrafterWish | ReportInterval


class Orders:
    """
    At most one order of each kind, the latest: a worker that reads slowly receives what is still valid, not a backlog.

    Revocations are sent first, then leases. Epochs make that order safe: revoking an old lease does not affect a new
    one, and a lease that was revoked before it was sent is never sent.
    """

    def __init__(self) -> None:
        self._revocation: Revocation | None = None
        self._lease: Lease | None = None
        self._wish: DrafterWish | None = None
        self._interval: ReportInterval | None = None
        self._closed = False
        self._error: TltError | None = None
        self._ready = asyncio.Event()

    def put(self, order: Order) -> None:
        """Queue an order; it replaces a pending one of its kind."""
        match order:
            case Revocation(epoch=epoch):
                self._revocation = order
                if self._lease is not None and self._lease.epoch <= epoch:
                    self._lease = None
            case Lease():
                self._lease = order
            case DrafterWish():
                self._wish = order
            case ReportInterval():
                self._interval = order
        self._ready.set()

    def close(self, error: TltError | None = None) -> None:
        """End the stream, with an error if one is given. Pending orders are dropped; later calls have no effect."""
        if not self._closed:
            self._closed, self._error = True, error
            self._ready.set()

    async def orders(self) -> AsyncIterator[Order]:
        """
        Yield orders until closed. Supports one reader.

        Raises:
            TltError: The error passed to `close`.
        """
        while not self._closed:
            order = self.take()
            if order is not None:
                yield order
            else:
                self._ready.clear()
                await self._ready.wait()
        if self._error is not None:
            raise self._error

    def take(self) -> Order | None:
        """Return the next order without waiting, or None."""
        order: Order | None
        if self._revocation is not None:
            order, self._revocation = self._revocation, None
        elif self._lease is not None:
            order, self._lease = self._lease, None
        elif self._wish is not None:
            order, self._wish = self._wish, None
        else:
            order, self._interval = self._interval, None
        return order
