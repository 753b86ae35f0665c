"""
Consolidates the tail: moves the last running requests onto few workers, so that the others can be lent to training.

Decoding a few requests takes a device hardly longer than decoding one, so responses of a tail lose little time
together, and those that are not expected to end last lose none that counts. Which they are, and what company costs, is
foretold (`consolidation`); without a forecast, or with an old one, nothing moves. Afterwards each tail is judged by
what its responses had left indeed, and if moves have delayed steps, there are no more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Never, Protocol

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import TailView
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.consolidation.plan import Consolidation, Planned, moves
from tlt_gateway.consolidation.verdict import TailVerdict, own, without_moves_s
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.requests.forecast import RequestForecast, kv_tokens
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RequestStage, RunningRequest

log = get_logger(__name__)

LOOK_S = 0.25
"""Seconds between two looks at the workers."""
MAX_AGE_S = 2.0
"""Seconds after which a view is too old to act on."""
WORTH_S = 2.0
"""Seconds after which a request on a worker may be moved to another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A tail in which requests have moved."""

    view: TailView
    began_s: float
    planned: Consolidation
    refs: frozenset[int]
    """This gateway's requests in it."""
    left_tokens: dict[str, float] = field(default_factory=dict)
    """What those had left that are over, by name."""


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
        queued: Requests that wait at this gateway; none are moved meanwhile.
        lending: Whether the coordinator lends idle workers. False while it is unreachable.
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
        self._gateway_id = gateway_id
        self._slots = slots
        self._requests = requests
        self._forecast = forecast
        self._at_most = at_most
        self._slack = slack
        self._journal = journal
        self._view: TailView | None = None
        self._known_s = 0.0
        self._done = 0
        self._asked: dict[WorkerId, dict[int, WorkerId]] = {}
        """Requests that workers were asked to end, and where each is to continue."""
        self._watched: _Watched | None = None
        self._verdict = TailVerdict(slack)
        metrics.GATEWAY_CONSOLIDATION_OFF.set(0)
        self.queued = 0
        self.lending = False

    def see(self, view: TailView, age_s: float) -> None:
        """Note the tail of all gateways, as it was `age_s` ago."""
        self._view, self._known_s = view, asyncio.get_running_loop().time() - age_s

    def over(self, request: RunningRequest) -> None:
        """Note a request that is over."""
        watched = self._watched
        if watched is None or request.ref not in watched.refs:
            return
        row = next(one for one in own(watched.view, self._gateway_id) if one.ref == request.ref)
        watched.left_tokens[row.name] = max(0.0, kv_tokens(request) - row.kv_tokens)
        if len(watched.left_tokens) == len(watched.refs):
            self._judge(watched)

    async def run(self) -> Never:
        """Run until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._forecast.learn()
            if self.queued:
                self._watched = None  # more has come: the step is another
            await self._ask_again()
            if (view := self._current()) is not None:
                self._done = view.serial
                # In a thread, between whose steps the event loop runs: with 512 workers a plan takes 0.1 s.
                planned = await asyncio.to_thread(moves, view, at_most=self._at_most, slack=self._slack)
                if self._may_move:
                    await self._carry_out(view, planned)

    def _current(self) -> TailView | None:
        """Return the view to act on; None if there is no new one, or nothing may move."""
        view, age_s = self._view, asyncio.get_running_loop().time() - self._known_s
        if view is None or view.serial == self._done or age_s > MAX_AGE_S:
            return None
        return view if self._may_move else None

    @property
    def _may_move(self) -> bool:
        return self.lending and self._at_most > 0 and not self.queued and not self._verdict.is_off

    async def _carry_out(self, view: TailView, planned: Consolidation) -> None:
        """Move this gateway's requests of a plan."""
        now_s = asyncio.get_running_loop().time()
        began_s = {one.ref: one.began_s for one in self._requests.all}
        chosen: dict[WorkerId, dict[int, WorkerId]] = {}
        own_moves = list[Planned]()
        for move in planned.moves:
            one = move.request
            if one.gateway_id == self._gateway_id and now_s - began_s.get(one.ref, now_s) >= WORTH_S:
                chosen.setdefault(one.worker_id, {})[one.ref] = move.to
                self._forecast.moved(one, move.to)
                own_moves.append(move)
        if not chosen:
            return
        log.info(
            "tail_moves",
            requests=sum(map(len, chosen.values())),
            workers=sorted(chosen),
            end_s=round(planned.end_s, 2),
            moved_end_s=round(planned.moved_end_s, 2),
            freed_s=round(planned.freed_s, 2),
        )
        if self._watched is None:
            refs = frozenset(one.ref for one in own(view, self._gateway_id) if one.ref in began_s)
            self._watched = _Watched(view=view, began_s=self._known_s, planned=planned, refs=refs)
        if self._journal is not None:
            self._journal.moves(own_moves, planned)
        await self._ask(chosen)

    async def _ask(self, chosen: dict[WorkerId, dict[int, WorkerId]]) -> None:
        self._asked = chosen
        workers = {one.worker_id: worker for one, worker in self._slots.candidates().items()}
        leaving = (self._requests.hand_over(workers[name], to) for name, to in chosen.items() if name in workers)
        await asyncio.gather(*leaving)

    async def _ask_again(self) -> None:
        """Ask for requests whose workers have not ended them: the call may have failed."""
        leaving = {one.ref for one in self._requests.all if one.stage is RequestStage.LEAVING}
        left = {name: {ref: target for ref, target in to.items() if ref in leaving} for name, to in self._asked.items()}
        if left := {name: to for name, to in left.items() if to}:
            await self._ask(left)

    def _judge(self, watched: _Watched) -> None:
        """Compare a tail that is over with what it would have been."""
        self._watched = None
        actual_s = asyncio.get_running_loop().time() - watched.began_s
        without_s = without_moves_s(watched.view, watched.left_tokens)
        was_off, ratio = self._verdict.is_off, self._verdict.judge(actual_s, without_s)
        metrics.GATEWAY_TAIL_LOSS.observe(ratio)
        log.info(
            "tail_judged",
            actual_s=round(actual_s, 2),
            without_s=round(without_s, 2),
            foretold_s=round(watched.planned.moved_end_s, 2),
            ratio=round(ratio, 3),
        )
        if self._journal is not None:
            self._journal.tail(
                actual_s=actual_s,
                without_s=without_s,
                foretold_s=watched.planned.moved_end_s,
                is_off=self._verdict.is_off,
            )
        if self._verdict.is_off and not was_off:
            metrics.GATEWAY_CONSOLIDATION_OFF.set(1)
            log.warning(
                "consolidation_off", reason="moves in the tail have delayed the ends of steps", last=round(ratio, 3)
            )
