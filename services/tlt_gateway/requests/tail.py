"""
Consolidates the tail: moves the last running requests onto few workers, so that the others can be lent to training.

Decoding a few requests takes a device hardly longer than decoding one, so the long responses of a tail lose little time
together, and the drafter that is trained meanwhile repays it. A response that has been running for long is likely to
run for long, so only those are moved: they are prefilled again at the other worker.
"""

import asyncio
from typing import Never

from tlt_common.domain.ids import WorkerId
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.requests.requests import Requests
from tlt_gateway.workers.routing import to_empty

LOOK_S = 0.25
"""Seconds between two looks at the workers."""
SETTLE_S = 0.5
"""Seconds for which a worker must have been one to empty: its requests may end by themselves."""
WORTH_S = 2.0
"""Seconds after which a request on a worker may be moved to another."""


class Tail:
    """
    Args:
        slots: The workers, and what runs on them.
        requests: The requests.
        at_most: Requests that a worker runs at most after others have moved to it.

    Attributes:
        queued: Requests that wait at this gateway; none are moved meanwhile.
        lending: Whether the coordinator lends idle workers. False while it is unreachable.
    """

    def __init__(self, slots: WorkerSlots, requests: Requests, *, at_most: int) -> None:
        self._slots = slots
        self._requests = requests
        self._at_most = at_most
        self._since_s: dict[WorkerId, float] = {}
        self.queued = 0
        self.lending = False

    async def run(self) -> Never:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if settled := self._settled(asyncio.get_running_loop().time()):
                workers = {one.worker_id: worker for one, worker in self._slots.candidates().items()}
                moves = (self._requests.hand_over(workers[name], after_s=WORTH_S) for name in settled)
                await asyncio.gather(*moves)

    def _settled(self, now_s: float) -> list[WorkerId]:
        """Return the workers that have been ones to empty for `SETTLE_S`."""
        found = to_empty(self._slots.candidates(), at_most=self._at_most) if self.lending and not self.queued else ()
        self._since_s = {name: self._since_s.get(name, now_s) for name in found}
        return [name for name, since_s in self._since_s.items() if now_s - since_s >= SETTLE_S]
