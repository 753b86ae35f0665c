"""
Which requests of a gateway move now, and whether moving has paid. Pure: times come from the caller.

Nothing moves without a view of the tail that is new and recent, while requests wait, while nothing is lent, or after
moves have turned out to be a loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import TailView
from tlt_gateway.consolidation.plan import Consolidation, Planned
from tlt_gateway.consolidation.verdict import TailVerdict, own, without_moves_s

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTail:
    """A tail in which requests moved is over. Durations are seconds from the first move."""

    actual_s: float
    without_s: float
    """Had nothing moved."""
    foretold_s: float
    ratio: float
    """`actual_s` ÷ `without_s`."""


class TailMoves:
    """
    Args:
        gateway_id: Of this gateway.
        at_most: Requests that a worker runs at most after others have moved to it; 0: nothing moves.
        slack: Share of the time until the end of a step by which moves may delay it.

    Attributes:
        queued: Requests that wait at this gateway; none are moved meanwhile.
        lending: Whether the coordinator lends idle workers. False while it is unreachable.
    """

    def __init__(self, gateway_id: str, *, at_most: int, slack: float) -> None:
        self._gateway_id = gateway_id
        self._at_most = at_most
        self._view: TailView | None = None
        self._known_s = 0.0
        self._done = 0
        self._watched: _Watched | None = None
        self._verdict = TailVerdict(slack)
        self.queued = 0
        self.lending = False

    @property
    def is_off(self) -> bool:
        """Whether moves have turned out to be a loss."""
        return self._verdict.is_off

    @property
    def may_move(self) -> bool:
        """Whether anything may move now."""
        return self.lending and self._at_most > 0 and not self.queued and not self.is_off

    def see(self, view: TailView, at_s: float) -> None:
        """Note the tail of all gateways, as it was at a time."""
        self._view, self._known_s = view, at_s

    def take_view(self, now_s: float) -> TailView | None:
        """Return the view to act on, once; None if there is no new one, or nothing may move."""
        if self.queued:
            self._watched = None  # more has come: the step is another
        view = self._view
        if view is None or view.serial == self._done or now_s - self._known_s > MAX_AGE_S or not self.may_move:
            return None
        self._done = view.serial
        return view

    def chosen(
        self, view: TailView, planned: Consolidation, began_s: Mapping[int, float], now_s: float
    ) -> Sequence[Planned]:
        """
        Return those moves of a plan that this gateway makes.

        Args:
            view: What was planned for.
            planned: The moves of all gateways.
            began_s: When each of this gateway's requests came to its worker, by `TailRequest.ref`.
            now_s: Current time.
        """
        if not self.may_move:
            return ()
        moves = [
            one
            for one in planned.moves
            if one.request.gateway_id == self._gateway_id and now_s - began_s.get(one.request.ref, now_s) >= WORTH_S
        ]
        if moves and self._watched is None:
            refs = frozenset(one.ref for one in own(view, self._gateway_id) if one.ref in began_s)
            self._watched = _Watched(view=view, began_s=self._known_s, planned=planned, refs=refs)
        return moves

    def over(self, ref: int, kv_tokens: float, now_s: float) -> JudgedTail | None:
        """Note a request that is over, with all its tokens; return what has become of the tail if it was its last."""
        watched = self._watched
        if watched is None or ref not in watched.refs:
            return None
        row = next(one for one in own(watched.view, self._gateway_id) if one.ref == ref)
        watched.left_tokens[row.name] = max(0.0, kv_tokens - row.kv_tokens)
        return self._judged(watched, now_s) if len(watched.left_tokens) == len(watched.refs) else None

    def _judged(self, watched: _Watched, now_s: float) -> JudgedTail:
        """Compare a tail that is over with what it would have been."""
        self._watched = None
        actual_s, without_s = now_s - watched.began_s, without_moves_s(watched.view, watched.left_tokens)
        return JudgedTail(
            actual_s=actual_s,
            without_s=without_s,
            foretold_s=watched.planned.moved_end_s,
            ratio=self._verdict.judge(actual_s, without_s),
        )


def by_source(moves: Sequence[Planned]) -> dict[WorkerId, dict[int, WorkerId]]:
    """Return, for each worker that requests leave, those and where each goes."""
    found: dict[WorkerId, dict[int, WorkerId]] = {}
    for one in moves:
        found.setdefault(one.request.worker_id, {})[one.request.ref] = one.to
    return found
