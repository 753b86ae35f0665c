"""
Which requests move. A function of a view that all gateways share, so that several, each of which moves its own, decide
alike.

The end of the step is compared with and without a move over the same draws of what every request has left. A worker is
emptied if that does not move the end, and its device would be free for long enough to be lent.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest, nsmallest
from typing import TypeAlias

from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import Left, TailRequest, TailView, TailWorker
from tlt_gateway.consolidation.ends import ends_s

DRAWS = 32
"""Draws of what requests have left: so many that the mean end is known to about 3 % of its spread."""
NEGLIGIBLE = 0.0005
"""Share of the time until the end of the step by which a move may delay it beyond `slack`: too little to foretell."""
END_WORTH = 2.0
"""Device-seconds of lending that a second of the step is worth. With 1, steps are 1 % shorter than without moves; with
4, 3 %, but a third of the device time is freed (`tlt bench consolidate`)."""
WORTH_RELIEF = 0.003
"""Share of the time until the end of the step that a move has to save if it frees no device."""
WORTH_S = 2.0
"""Seconds that a device has to be free for to be worth a move: a lease is granted, and revoked, within one."""
MOST_SOURCES = 16
"""Workers that are tried in one view; the next one follows within a second."""
MOST_TARGETS = 8
"""Workers that are tried for each request."""
ROOM_SHARE = 0.9
"""Quantile of what requests have left for which the KV cache of their worker must have room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A request that moves."""

    request: TailRequest
    to: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """Moves that empty workers, and what they are expected to do."""

    moves: tuple[Planned, ...] = ()
    end_s: float = 0.0
    """Mean of the time until the end of the step, without the moves."""
    moved_end_s: float = 0.0
    """The same with them."""
    freed_s: float = 0.0
    """Device-seconds that they free."""


@dataclass(slots=True)
class _Place:
    """A worker, and what it would run."""

    worker: TailWorker
    requests: tuple[TailRequest, ...]
    arrivals: tuple[TailRequest, ...] = ()
    """Those of the requests that would have moved here."""


Ends: TypeAlias = tuple[float, ...]
"""Seconds until the last request of a worker ends, for each draw."""
NO_ENDS: Ends = (0.0,) * DRAWS


@dataclass(frozen=True, slots=True)
class _Trial:
    """What changes if a worker is emptied."""

    places: Mapping[WorkerId, _Place]
    ends: Mapping[WorkerId, Ends]
    moves: list[Planned]
    step_s: float
    """Mean of the time until the end of the step."""

    def freed_s(self, ends: Mapping[WorkerId, Ends]) -> float:
        """Return the device-seconds by which the workers are free earlier."""
        return sum(_mean(ends[name]) - _mean(self.ends[name]) for name in self.ends)

    def pays(self, ends: Mapping[WorkerId, Ends], now_s: float) -> bool:
        """Whether the step ends earlier, and that is worth more than that devices are free later."""
        saved_s = now_s - self.step_s
        return saved_s > WORTH_RELIEF * now_s and saved_s * END_WORTH > -self.freed_s(ends)


def moves(view: TailView, *, at_most: int, slack: float) -> Consolidation:
    """
    Choose the requests that move.

    Args:
        view: The requests and workers of the fleet.
        at_most: Requests that a worker runs at most after others have moved to it.
        slack: Share of the time until the end of the step by which all moves together may delay it.
    """
    places = _places(view)
    if sum(bool(place.requests) for place in places.values()) < 2:
        return Consolidation()
    ends = {name: _last_ends(place) for name, place in places.items()}
    without_s = _mean(_latest(list(ends.values())))
    chosen, freed_s, now_s = list[Planned](), 0.0, without_s
    while (relief := _relieved(places, ends, at_most=at_most)) and relief.pays(ends, now_s):
        places, ends, now_s = {**places, **relief.places}, {**ends, **relief.ends}, relief.step_s
        chosen += relief.moves
    last = _last(ends)
    for source in _sources(places, ends, last):
        trial = _emptied(places, ends, source, last=last, at_most=at_most)
        if trial is None:
            continue
        gained_s = trial.freed_s(ends)
        if gained_s >= WORTH_S and trial.step_s <= without_s * (1.0 + slack + NEGLIGIBLE):
            places, ends, now_s = {**places, **trial.places}, {**ends, **trial.ends}, trial.step_s
            chosen += trial.moves
            freed_s += gained_s
    return Consolidation(moves=tuple(chosen), end_s=without_s, moved_end_s=now_s, freed_s=freed_s)


def _places(view: TailView) -> dict[WorkerId, _Place]:
    running: dict[WorkerId, list[TailRequest]] = {}
    for request in sorted(view.requests, key=lambda one: one.name):
        running.setdefault(request.worker_id, []).append(request)
    workers = sorted(view.workers, key=lambda one: one.worker_id)
    return {one.worker_id: _Place(one, tuple(running.get(one.worker_id, ()))) for one in workers}


def _sources(places: Mapping[WorkerId, _Place], ends: Mapping[WorkerId, Ends], last: WorkerId) -> Iterator[WorkerId]:
    """Yield the workers that may be emptied: those with the fewest requests first, and then those that run longest."""
    busy = [
        name
        for name, place in places.items()
        if place.requests and place.worker.lendable and name != last and not place.worker.training
    ]
    busy.sort(key=lambda name: (len(places[name].requests), -_mean(ends[name]), name))
    yield from busy[:MOST_SOURCES]


def _relieved(places: Mapping[WorkerId, _Place], ends: Mapping[WorkerId, Ends], *, at_most: int) -> _Trial | None:
    """
    Return the best of what changes if one request leaves the worker that is expected to end last; None if none may.

    It was packed when less was known, or never: the end of the step comes closer.
    """
    last = _last(ends)
    origin, found = places[last], list[tuple[float, float, WorkerId, _Trial]]()
    if len(origin.requests) < 2:
        return None
    keeps = max(origin.requests, key=lambda one: (one.left.mean, one.name))
    for request in origin.requests:
        if request is keeps or request in origin.arrivals:
            continue
        rest = _Place(origin.worker, tuple(one for one in origin.requests if one is not request), origin.arrivals)
        rest_ends = _last_ends(rest)
        open_to = [
            name
            for name, place in places.items()
            if name != last
            and place.requests
            and _has_room(place, request, at_most=at_most)
            and _is_worth(request, origin, place)
        ]
        for name in nsmallest(MOST_TARGETS, open_to, key=lambda name: (_mean(ends[name]), name)):
            beside = _with(places[name], request)
            changed = {last: rest_ends, name: _last_ends(beside)}
            step_s = _mean(_latest(list({**ends, **changed}.values())))
            trial = _Trial({last: rest, name: beside}, changed, [Planned(request=request, to=name)], step_s)
            found.append((round(step_s, 6), _mean(changed[name]), name, trial))
    return min(found, key=lambda one: one[:3])[3] if found else None


def _emptied(
    places: Mapping[WorkerId, _Place],
    ends: Mapping[WorkerId, Ends],
    source: WorkerId,
    *,
    last: WorkerId,
    at_most: int,
) -> _Trial | None:
    """Return what changes if the requests of `source` move to others, the best for each; None if one has to stay."""
    origin = places[source]
    if origin.arrivals:
        return None  # nothing moves twice
    open_to = [
        name
        for name, place in places.items()
        if name not in {source, last} and place.requests and not place.worker.training
    ]
    targets = nlargest(MOST_TARGETS, open_to, key=lambda name: (_mean(ends[name]), name))
    rest = _latest([of for name, of in ends.items() if name != source and name not in targets])
    places = {name: places[name] for name in targets}
    ends = {name: ends[name] for name in targets}
    changed, made = set[WorkerId](), list[Planned]()
    for request in sorted(origin.requests, key=lambda one: (-one.left.mean, one.name)):
        found = list[tuple[float, float, WorkerId, Ends]]()
        for name, place in places.items():
            if _has_room(place, request, at_most=at_most) and _is_worth(request, origin, place):
                beside = _last_ends(_with(place, request))
                step_s = _mean(_latest([rest, *({**ends, name: beside}).values()]))
                found.append((round(step_s, 6), _mean(beside) - _mean(ends[name]), name, beside))
        if not found:
            return None
        _, _, to, ends[to] = min(found)
        places[to] = _with(places[to], request)
        changed.add(to)
        made.append(Planned(request=request, to=to))
    step_s = _mean(_latest([rest, *ends.values()]))
    places[source], ends[source] = _Place(origin.worker, ()), NO_ENDS
    changed.add(source)
    return _Trial({name: places[name] for name in changed}, {name: ends[name] for name in changed}, made, step_s)


def _with(place: _Place, request: TailRequest) -> _Place:
    return _Place(place.worker, (*place.requests, request), (*place.arrivals, request))


def _has_room(place: _Place, request: TailRequest, *, at_most: int) -> bool:
    """Whether a worker may run one more request, with all that its requests will have in the KV cache."""
    if place.worker.training or len(place.requests) >= min(at_most, place.worker.slots):
        return False
    need = sum(one.kv_tokens + one.left.at(ROOM_SHARE) for one in (*place.requests, request))
    return need <= place.worker.kv_room


def _is_worth(request: TailRequest, origin: _Place, target: _Place) -> bool:
    """Whether more of a request is left than its prefill costs."""
    kv_tokens = sum(one.kv_tokens for one in origin.requests)
    left_s = request.left.median * origin.worker.pace.token_s(len(origin.requests), kv_tokens)
    return left_s > target.worker.pace.prefill_s(request.kv_tokens)


def _last_ends(place: _Place) -> Ends:
    """Return the seconds until the last request of a worker ends, for each draw; 0 without requests."""
    if not place.requests:
        return NO_ENDS
    pace = place.worker.pace
    kv_tokens = [one.kv_tokens for one in place.requests]
    stall_s = sum(pace.prefill_s(one.kv_tokens) for one in place.arrivals)
    drawn = zip(*(_drawn(one.name, one.left) for one in place.requests), strict=True)
    return tuple(max(ends_s(left, kv_tokens, pace, stall_s=stall_s)) for left in drawn)


@lru_cache(maxsize=8192)
def _drawn(name: str, left: Left) -> Ends:
    """Return what a request has left in each draw, in tokens."""
    return tuple(map(left.at, _shares(name)))


@lru_cache(maxsize=8192)
def _shares(name: str) -> tuple[float, ...]:
    """Return the quantiles that a request gets in the draws: every stratum once, in an order of its own."""
    shares = [(draw + 0.5) / DRAWS for draw in range(DRAWS)]
    random.Random(name).shuffle(shares)
    return tuple(shares)


def _latest(ends: Sequence[Ends]) -> Ends:
    """Return the time until the last of several workers ends, for each draw."""
    return tuple(map(max, zip(NO_ENDS, *ends, strict=True)))


def _last(ends: Mapping[WorkerId, Ends]) -> WorkerId:
    return max(ends, key=lambda name: (_mean(ends[name]), name))


def _mean(values: Ends) -> float:
    return sum(values) / DRAWS
