"""
Consolidates the tail: moves the last running requests onto few workers, so that the others can be lent to training.

Decoding a few requests takes a device hardly longer than decoding one, so responses of a tail lose little time
together, and those that are not expected to end last lose none that counts. Which they are, and what company costs, is
foretold (`consolidation`); without a forecast, or with an old one, nothing moves. Afterwards each tail is judged by
what its responses had left indeed, and if moves have delayed steps, there are no more.
"""

import asyncio
from collections.abc import Sequence
from typing import Never, Protocol

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import TailView
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.consolidation.plan import Consolidation, Planned, moves
from tlt_gateway.consolidation.tail_moves import JudgedTail, TailMoves, by_source
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.requests.forecast import RequestForecast, kv_tokens
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RequestStage, RunningRequest

log = get_logger(__name__)

LOOK_S = 0.25
"""Seconds between two looks at the workers."""


class TailJournal(Protocol):
    """Notes moves and what became of them."""

    def moves(self, chosen: Sequence[Planned], planned: Consolidation) -> None:
        """Note requests that move, and the plan of all gateways that they are part of."""

    def tail(self, *, actual_s: float, without_s: float, foretold_s: float, is_off: bool) -> None:
        """Note how long a tail took, would have taken without moves, and was to take; whether moves are off now."""


class Tail:
    """
    Args:
        gateway_id: Of this gateway.
        slots: The workers, and what runs on them.
        requests: The requests.
        forecast: What is known of lengths and paces.
        at_most: Requests that a worker runs at most after others have moved to it.
        slack: Share of the time until the end of a step by which moves may delay it.
        journal: Is told of moves; None: nobody is.

    Attributes:
        moves: Decides; is told whether requests wait, and whether workers are lent.
    """

    def __init__(
        self,
        gateway_id: str,
        slots: WorkerSlots,
        requests: Requests,
        forecast: RequestForecast,
        *,
        at_most: int,
        slack: float,
        journal: TailJournal | None = None,
    ) -> None:
        self._slots = slots
        self._requests = requests
        self._forecast = forecast
        self._at_most = at_most
        self._slack = slack
        self._journal = journal
        self._asked: dict[WorkerId, dict[int, WorkerId]] = {}
        """Requests that workers were asked to end, and where each is to continue."""
        self.moves = TailMoves(gateway_id, at_most=at_most, slack=slack)
        metrics.GATEWAY_CONSOLIDATION_OFF.set(0)

    def see(self, view: TailView, age_s: float) -> None:
        """Note the tail of all gateways, as it was `age_s` ago."""
        self.moves.see(view, asyncio.get_running_loop().time() - age_s)

    def over(self, request: RunningRequest) -> None:
        """Note a request that is over."""
        was_off = self.moves.is_off
        judged = self.moves.over(request.ref, kv_tokens(request), asyncio.get_running_loop().time())
        if judged is not None:
            self._tell(judged, turned_off=self.moves.is_off and not was_off)

    async def run(self) -> Never:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._forecast.learn()
            await self._ask_again()
            if (view := self.moves.take_view(asyncio.get_running_loop().time())) is not None:
                # In a thread, between whose steps the event loop runs: with 512 workers a plan takes 0.1 s.
                planned = await asyncio.to_thread(moves, view, at_most=self._at_most, slack=self._slack)
                await self._carry_out(view, planned)

    async def _carry_out(self, view: TailView, planned: Consolidation) -> None:
        """Move this gateway's requests of a plan."""
        began_s = {one.ref: one.began_s for one in self._requests.all}
        chosen = self.moves.chosen(view, planned, began_s, asyncio.get_running_loop().time())
        if not chosen:
            return
        for move in chosen:
            self._forecast.moved(move.request, move.to)
        leaving = by_source(chosen)
        log.info(
            "tail_moves",
            requests=len(chosen),
            workers=sorted(leaving),
            end_s=round(planned.end_s, 2),
            moved_end_s=round(planned.moved_end_s, 2),
            freed_s=round(planned.freed_s, 2),
        )
        if self._journal is not None:
            self._journal.moves(chosen, planned)
        await self._ask(leaving)

    async def _ask(self, chosen: dict[WorkerId, dict[int, WorkerId]]) -> None:
        self._asked = chosen
        workers = {one.worker_id: worker for one, worker in self._slots.candidates()}
        leaving = (self._requests.hand_over(workers[name], to) for name, to in chosen.items() if name in workers)
        await asyncio.gather(*leaving)

    async def _ask_again(self) -> None:
        """Ask for requests whose workers have not ended them: the call may have failed."""
        leaving = {one.ref for one in self._requests.all if one.stage is RequestStage.LEAVING}
        left = {name: {ref: target for ref, target in to.items() if ref in leaving} for name, to in self._asked.items()}
        if left := {name: to for name, to in left.items() if to}:
            await self._ask(left)

    def _tell(self, judged: JudgedTail, *, turned_off: bool) -> None:
        """Say what has become of a tail."""
        metrics.GATEWAY_TAIL_LOSS.observe(judged.ratio)
        log.info(
            "tail_judged",
            actual_s=round(judged.actual_s, 2),
            without_s=round(judged.without_s, 2),
            foretold_s=round(judged.foretold_s, 2),
            ratio=round(judged.ratio, 3),
        )
        if self._journal is not None:
            self._journal.tail(
                actual_s=judged.actual_s,
                without_s=judged.without_s,
                foretold_s=judged.foretold_s,
                is_off=self.moves.is_off,
            )
        if turned_off:
            metrics.GATEWAY_CONSOLIDATION_OFF.set(1)
            log.warning(
                "consolidation_off",
                reason="moves in the tail have delayed the ends of steps",
                last=round(judged.ratio, 3),
            )
