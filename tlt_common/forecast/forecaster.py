"""Forecasts of what is left of responses, from what is known of lengths, siblings and earlier epochs of a prompt."""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import erfc, prod, sqrt

from tlt_common.forecast.curve import LengthCurve, between, length_at, place_of
from tlt_common.forecast.history import LengthHistory
from tlt_common.forecast.left import LEVELS, Left, last_end
from tlt_common.forecast.likeness import Likeness, PastEpoch

MAX_PROMPTS = 65_536
"""Prompts whose earlier responses are remembered; beyond, those are forgotten that ran longest ago."""
MAX_EPOCHS = 4
"""Epochs of a prompt that are remembered."""
MAX_SIBLINGS = 256
"""Responses of an epoch that are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A response that is being generated."""

    prompt: Hashable
    """The same for responses to the same prompt; says nothing else."""
    generated: int
    cap: int
    """Tokens at which it ends at the latest."""


@dataclass(slots=True)
class _Known:
    """What is known of the responses to a prompt: those that have ended since none ran, and earlier epochs."""

    scores: list[float] = field(default_factory=list)
    capped: list[int] = field(default_factory=list)
    """Lengths of responses that a cap ended."""
    earlier: deque[PastEpoch] = field(default_factory=lambda: deque(maxlen=MAX_EPOCHS))


class Forecaster:
    """Learns from responses as they finish. `look` fixes what is known; forecasts that follow are of that moment."""

    def __init__(self) -> None:
        self._history = LengthHistory()
        self._likeness = Likeness()
        self._prompts: OrderedDict[Hashable, _Known] = OrderedDict()
        self._open: set[Hashable] = set()
        """Prompts with responses that have ended since none ran."""
        self._curve: LengthCurve | None = None
        self._chances: list[tuple[float, ...]] = []
        """For each effect of a group, the survival at each edge of the curve's buckets."""

    @property
    def ready(self) -> bool:
        """Whether enough responses have been seen."""
        return self._curve is not None

    def finished(self, response: Running, *, ended: bool, begun: int = 0) -> None:
        """
        Learn from a response that is not generated any more.

        Args:
            response: The response, with all its tokens.
            ended: Whether it ended by itself; otherwise by its cap or an abort.
            begun: Tokens it had when it arrived.
        """
        self._history.add(response.generated, begun=begun, ended=ended)
        if self._curve is None:
            return
        known = self._of(response.prompt)
        if len(known.scores) + len(known.capped) >= MAX_SIBLINGS:
            return
        if ended:
            known.scores.append(self._curve.score(response.generated))
        elif response.generated >= response.cap:
            known.capped.append(response.generated)
        self._open.add(response.prompt)

    def look(self, running: Iterable[Running]) -> None:
        """Fix what is known now, with the responses that run. A prompt of which none runs any more ends its epoch."""
        running = tuple(running)
        for prompt in self._open - {one.prompt for one in running}:
            self._close(prompt)
        self._curve = self._history.curve(Counter(one.generated for one in running).items())
        if self._curve is not None:
            spread, scores = sqrt(2.0 * (1.0 - self._likeness.siblings)), self._curve.scores
            self._chances = [
                tuple(erfc((score - effect) / spread) / 2.0 for score in scores) for effect in self._likeness.effects
            ]

    def left(self, running: Sequence[Running]) -> list[Left]:
        """
        Return what is left of responses. All siblings that run should be among them.

        Raises:
            ValueError: Too few responses have been seen; `ready` says so.
        """
        return list(self.lefts(running))

    def lefts(self, running: Sequence[Running]) -> Iterator[Left]:
        """
        Return the same one at a time, each of which takes about 0.1 ms.

        Raises:
            ValueError: Too few responses have been seen; `ready` says so.
        """
        groups = self._grouped(running)
        return (self._left(one, groups[one.prompt]) for one in running)

    def ends(
        self, running: Sequence[Running], seconds_per_token: Sequence[float], levels: Sequence[float]
    ) -> list[float]:
        """
        Return the times, in seconds, by which all have ended with the probabilities `levels`.

        Raises:
            ValueError: Too few responses have been seen; `ready` says so.
        """
        groups = self._grouped(running)
        members: dict[Hashable, list[tuple[Running, float]]] = {}
        for one, pace_s in zip(running, seconds_per_token, strict=True):
            members.setdefault(one.prompt, []).append((one, pace_s))
        all_end = [self._group_ends(of, groups[prompt]) for prompt, of in members.items()]
        latest_s = max(
            ((one.cap - one.generated) * pace_s for one, pace_s in zip(running, seconds_per_token, strict=True)),
            default=0.0,
        )
        return [last_end(all_end, level=level, within_s=latest_s) for level in levels]

    def _group_ends(
        self, members: Sequence[tuple[Running, float]], weights: Sequence[float]
    ) -> Callable[[float], float]:
        total = sum(weights)

        def ended(time_s: float) -> float:
            """Return the probability that all members have ended by a time."""
            chances = [1.0] * len(weights)
            for one, pace_s in members:
                length = one.generated + time_s / pace_s
                if length >= one.cap:
                    continue
                now, then = place_of(one.generated), place_of(length)
                for place, survivals in enumerate(self._chances):
                    alive = between(survivals, now)
                    chances[place] *= 1.0 - between(survivals, then) / alive if alive > 0.0 else 1.0
            return sum(weight * chance for weight, chance in zip(weights, chances, strict=True)) / total

        return ended

    def _left(self, one: Running, weights: Sequence[float]) -> Left:
        """Return what is left of one, given the probabilities of its group's effects."""
        here = place_of(one.generated)
        alive = [between(survivals, here) for survivals in self._chances]
        shares = [weight / chance if chance > 0.0 else 0.0 for weight, chance in zip(weights, alive, strict=True)]
        total = sum(share * chance for share, chance in zip(shares, alive, strict=True))

        known = dict[int, float]()

        def surviving(edge: int) -> float:
            if edge not in known:  # the levels look at the same edges
                known[edge] = sum(share * of[edge] for share, of in zip(shares, self._chances, strict=True)) / total
            return known[edge]

        tokens, low = list[float](), here
        for level in LEVELS:
            low = max(low, self._reaching(surviving, here, 1.0 - level))
            tokens.append(max(0.0, min(length_at(low), one.cap) - one.generated))
        return Left(tuple(tokens))

    def _reaching(self, surviving: Callable[[int], float], here: float, share: float) -> float:
        """Return the place, beyond `here`, at which at most `share` survives."""
        low, high = int(here), len(self._chances[0]) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if surviving(middle) > share:
                low = middle
            else:
                high = middle
        above = surviving(low) if low > here else 1.0
        start, below = max(here, float(low)), surviving(high)
        return start + (high - start) * (above - share) / (above - below) if above > max(below, share) else start

    def _grouped(self, running: Sequence[Running]) -> dict[Hashable, list[float]]:
        """Return, for each prompt, the probability of each effect given all that is known of it, up to a factor."""
        if self._curve is None:
            raise ValueError("too few responses have been seen for a forecast")
        places: dict[Hashable, list[float]] = {}
        for one in running:
            places.setdefault(one.prompt, []).append(place_of(one.generated))
        return {prompt: self._effects(prompt, seen) for prompt, seen in places.items()}

    def _effects(self, prompt: Hashable, places: Sequence[float]) -> list[float]:
        """Return the probability of each effect, up to a factor, when responses have got to `places`."""
        known = self._prompts.get(prompt) or _Known()
        seen = [*places, *map(place_of, known.capped)]
        weights = [
            weight * prod(between(survivals, place) for place in seen)
            for weight, survivals in zip(
                self._likeness.weights(known.scores, tuple(known.earlier)), self._chances, strict=True
            )
        ]
        if not any(weights):  # beyond what any effect explains: the strongest
            weights[-1] = 1.0
        return weights

    def _of(self, prompt: Hashable) -> _Known:
        """Return what is known of a prompt's responses."""
        known = self._prompts.setdefault(prompt, _Known())
        self._prompts.move_to_end(prompt)
        if len(self._prompts) > MAX_PROMPTS:
            self._open.discard(self._prompts.popitem(last=False)[0])
        return known

    def _close(self, prompt: Hashable) -> None:
        """Learn from a group that is complete. One that reached its cap counts as if it had ended there."""
        self._open.discard(prompt)
        known = self._prompts[prompt]
        capped = [self._curve.score(length) for length in known.capped] if self._curve else []
        scores, known.scores, known.capped = [*known.scores, *capped], [], []
        if not scores:  # all were aborted
            return
        self._likeness.learn(scores, tuple(known.earlier))
        known.earlier.append(PastEpoch(sum(scores) / len(scores), len(scores)))
