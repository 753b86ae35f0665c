"""
Costs of rounds, fitted to a journal. Pure.

The duration of a round is a sum of nonnegative parts, fitted by least squares of relative errors. These are relative to
the fitted duration, which repeated fits find: relative to the recorded one, rounds that other programs slowed down
would count less than those that they did not, and the sum of all rounds would come out too short. A minute's
rounds of one kind are weighted by their number, up to a limit. Reading weights is part of `round_fixed_s`. Intervals
come from fits to resampled minutes.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul
from random import Random
from typing import Final

from tlt_common.errors import ConfigError
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.squares import Moments, added, solved
from tlt_simulator.fit.observed import ObservedRounds
from tlt_worker.capacity.rounds import part_counts

LEAST_ROUNDS: Final = 256
"""Rounds without a drafter below which their costs are not fitted."""
LEAST_DRAFTING: Final = 64
"""Minimum rounds with drafts, whose costs are those of plain rounds plus those of a pass."""
LEAST_BATCHES: Final = 2
"""Minimum batch sizes, a factor of two apart, to determine the cost of a request."""
FULL_WEIGHT: Final = 128
"""Number of rounds of a kind in a minute above which their weight does not increase."""
COSTS: Final = ("round_fixed_s", "round_request_s", "round_token_s", "kv_token_s", "draft_fixed_s", "draft_token_s")
"""Costs that are fitted."""
PART_OF_A_PASS: Final = (
    "draft_round_s",
    "draft_request_s",
    "draft_kv_token_s",
    "draft_step_s",
    "ngram_round_s",
    "ngram_request_s",
)
"""Costs of drafting that a journal does not tell from those of a pass and of rows."""
REPEATS: Final = 10
"""Fits, of which each takes the durations of the one before for relative errors; they settle after about five."""
DRAWS: Final = 200
"""Resamplings of minutes for 90 % intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundCosts:
    """Seconds under the names of `CostModel`, and statistics of the fit."""

    figures: dict[str, CostFigure]
    error: float
    """Mean relative error of the observations, weighted as in the fit."""


def fitted_rounds(rounds: Sequence[ObservedRounds], *, seed: int = 0) -> RoundCosts:
    """
    Fit the costs of rounds.

    Raises:
        ConfigError: There are too few rounds; the message names the parameter and how many more are needed.
    """
    _require(rounds)
    has_drafts = any(one.arm.needs_drafter for one in rounds)
    found = _Fit(rounds)
    chance = Random(seed)
    minutes = list(found.by_minute.values())
    draws = [found.of(added(chance.choices(minutes, k=len(minutes)))) for _ in range(DRAWS)]
    figures = {}
    for name, value in found.of(found.whole).items():
        if has_drafts or not name.startswith("draft_"):
            low, high = interval([draw[name] for draw in draws])
            figures[name] = CostFigure(
                value=value,
                low=min(low, value),
                high=max(high, value),
                source=Source.FITTED,
                of=f"{sum(one.rounds for one in rounds):,} rounds of {len(minutes)} minutes",
            )
    if has_drafts:
        figures |= dict.fromkeys(PART_OF_A_PASS, CostFigure(value=0.0, source=Source.FITTED, of="part of a pass"))
    return RoundCosts(figures=figures, error=found.error(rounds))


def interval(draws: Iterable[float]) -> tuple[float, float]:
    """Return the ends of the central 90 %."""
    ordered = sorted(draws)
    last = len(ordered) - 1
    return ordered[round(0.05 * last)], ordered[round(0.95 * last)]


class _Fit:
    def __init__(self, rounds: Sequence[ObservedRounds]) -> None:
        expected_s = [one.round_s for one in rounds]
        for _ in range(REPEATS):
            self.by_minute = _moments(rounds, expected_s)
            self.whole = added(self.by_minute.values())
            found, _ = solved(self.whole)
            expected_s = [sum(map(mul, found, _parts(one))) for one in rounds]

    def of(self, moments: Moments) -> dict[str, float]:
        """Return the costs by name."""
        return {"round_read_s": 0.0, **dict(zip(COSTS, solved(moments)[0], strict=True))}

    def error(self, rounds: Sequence[ObservedRounds]) -> float:
        """Return the mean relative error."""
        found, _ = solved(self.whole)
        off = total = 0.0
        for one in rounds:
            weight = min(one.rounds, FULL_WEIGHT)
            seconds = sum(map(mul, found, _parts(one)))
            off += weight * abs(seconds / one.round_s - 1.0)
            total += weight
        return off / total


def _moments(rounds: Sequence[ObservedRounds], expected_s: Sequence[float]) -> dict[float, Moments]:
    """Return the sums of each minute, with errors relative to expected durations."""
    by_minute = defaultdict[float, list[Moments]](list)
    for one, seconds in zip(rounds, expected_s, strict=True):
        row = [part / seconds for part in _parts(one)]
        by_minute[one.at_s].append(Moments.of(row, one.round_s / seconds, float(min(one.rounds, FULL_WEIGHT))))
    return {at_s: added(moments) for at_s, moments in by_minute.items()}


def _parts(one: ObservedRounds) -> tuple[float, ...]:
    """Return how often a round has each of `COSTS`."""
    counts = part_counts(one.arm, one.batch, one.kv_tokens)
    return tuple(counts[name] for name in COSTS)


def _require(rounds: Sequence[ObservedRounds]) -> None:
    plain = [one for one in rounds if not one.arm.needs_drafter]
    _require_rounds("round_fixed_s", "rounds without a drafter", plain, LEAST_ROUNDS)
    drafting = [one for one in rounds if one.arm.needs_drafter]
    if drafting:
        _require_rounds("draft_fixed_s", "rounds that draft", drafting, LEAST_DRAFTING)
    batches = {round(one.batch).bit_length() for one in rounds}
    if len(batches) < LEAST_BATCHES:
        raise ConfigError(
            f"round_request_s cannot be fitted: all rounds have about {rounds[0].batch:.0f} requests; needed: "
            f"{LEAST_BATCHES - len(batches)} more batch size, half or twice as large",
            field="round_request_s",
        )


def _require_rounds(field: str, what: str, rounds: Sequence[ObservedRounds], least: int) -> None:
    count = sum(one.rounds for one in rounds)
    if count < least:
        raise ConfigError(
            f"{field} cannot be fitted: the journal has {count} {what}; needed: {least - count} more",
            field=field,
        )
