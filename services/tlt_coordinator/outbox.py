"""Orders on their way down one worker's stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from tlt_common.domain.fleet import DrafterWish, Lease, Revocation
from tlt_common.errors import TltError

Order: TypeAlias = Lease | Revocation | DrafterWish


class Outbox:
    """
    At most one order of each kind, the latest: a worker that reads slowly finds what still holds, not a backlog.

    Revocations leave first, then leases. With epochs that order is safe: the end of an old lease does not touch a new
    one, and a lease that was revoked before it left never does.
    """

    def __init__(self) -> None:
        self._revocation: Revocation | None = None
        self._lease: Lease | None = None
        self._wish: DrafterWish | None = None
        self._closed = False
        self._error: TltError | None = None
        self._ready = asyncio.Event()

    def put(self, order: Order) -> None:
        """Send an order when the stream is free."""
        match order:
            case Revocation(epoch=epoch):
                self._revocation = order
                if self._lease is not None and self._lease.epoch <= epoch:
                    self._lease = None
            case Lease():
                self._lease = order
            case DrafterWish():
                self._wish = order
        self._ready.set()

    def close(self, error: TltError | None = None) -> None:
        """End the stream, telling the worker why if there is a reason. What waits is dropped; only one close counts."""
        if not self._closed:
            self._closed, self._error = True, error
            self._ready.set()

    async def orders(self) -> AsyncIterator[Order]:
        """
        Yield orders until closed. Has one reader.

        Raises:
            TltError: What the outbox was closed with.
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
        """Next order to leave, without waiting; None: there is none."""
        order: Order | None
        if self._revocation is not None:
            order, self._revocation = self._revocation, None
        elif self._lease is not None:
            order, self._lease = self._lease, None
        else:
            order, self._wish = self._wish, None
        return order
