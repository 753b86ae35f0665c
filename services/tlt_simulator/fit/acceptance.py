"""
Acceptance and learning of drafters, fitted to a journal. Pure.

The accepted tokens of an arm's rounds give the acceptance probability of a first draft by inverting the cost model's
formula. Its decay from one position to the next is the one for which chains of different lengths agree best. The
probability of each published drafter, with its training tokens and age, then gives the learning curve. Held-out scores
are used as well, scaled accordingly, since many drafters are replaced before they have drafted much.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tlt_common.domain.arm import Arm
from tlt_common.errors import ConfigError
from tlt_common.journal.coordinator_lines import DrafterLine
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.squares import Moments, added, solved
from tlt_simulator.fit.observed import ObservedRounds
from tlt_simulator.fit.rounds import DRAWS, interval

LEAST_DRAFTED: Final = 200
"""Requests, summed over rounds that drafted, below which acceptance is not fitted."""
LEAST_REQUESTS: Final = 50
"""Minimum requests of a drafter under one policy for an estimate of its quality."""
SCORE_REQUESTS: Final = 100.0
"""Weight of a held-out score, in requests."""
START_REQUESTS: Final = 6.0
"""
Weight of the base's `accept_start`, in requests: drafters that have learned much do not determine where they started,
and its own interval is wide.
"""
LEAST_DRAFTERS: Final = 3
"""Minimum number of published drafters for a learning curve."""
AGEING_REQUESTS: Final = 1000.0
"""Weight of the base's `ageing`, in requests: drafters of about the same age do not determine it."""
DECAY_REQUESTS: Final = 30.0
"""For which the base's `accept_decay` counts: long chains run when their drafts are accepted, and so look better."""
DECAYS: Final = tuple(0.70 + 0.02 * place for place in range(16))
HALVES: Final = tuple(1000.0 * 10 ** (place / 8) for place in range(33))
"""Tokens, up to ten million."""
HALVINGS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterQuality:
    """Acceptance of a drafter while a policy was served."""

    version: int
    policy: int
    chance: float
    """Acceptance probability of its first draft."""
    requests: float
    """Number of requests, summed over rounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Probabilities under the names of `CostModel`."""

    figures: dict[str, CostFigure]
    drafters: tuple[DrafterQuality, ...]


def fitted_acceptance(
    rounds: Sequence[ObservedRounds], drafters: Sequence[DrafterLine], base: CostModel, *, seed: int = 0
) -> Acceptance:
    """
    Fit the acceptance of drafts.

    Args:
        rounds: All rounds; those without drafts are ignored.
        drafters: Published drafters.
        base: Costs that supply numbers missing from the journal.
        seed: Seed of the resampled minutes for intervals.

    Raises:
        ConfigError: There are too few drafting rounds; the message names the parameter and how many more are needed.
    """
    learned = [one for one in rounds if one.arm.needs_drafter]
    found_ones = [one for one in rounds if one.arm.finds_drafts]
    figures = dict[str, CostFigure]()
    qualities: tuple[DrafterQuality, ...] = ()
    if learned:
        requests = sum(one.requests for one in learned)
        if requests < LEAST_DRAFTED:
            raise ConfigError(
                f"accept_decay cannot be fitted: drafts of a drafter were verified for {requests:.0f} requests, summed "
                f"over rounds; needed: {math.ceil(LEAST_DRAFTED - requests)} more",
                field="accept_decay",
            )
        decay = _decay(learned, base)
        figures["accept_decay"] = _figure(
            decay, [_decay(drawn, base) for drawn in _drawn(learned, seed, DRAWS // 10)], f"{requests:,.0f} requests"
        )
        base = base.model_copy(update={"accept_decay": figures["accept_decay"]})
        qualities = tuple(_qualities(learned, base))
        figures |= _learning(qualities, drafters, base, seed)
    if sum(one.requests for one in found_ones) >= LEAST_DRAFTED:
        draws = [_ngram(drawn, base) for drawn in _drawn(found_ones, seed, DRAWS)]
        figures["ngram_accept"] = _figure(
            _ngram(found_ones, base), draws, f"{sum(one.requests for one in found_ones):,.0f} requests"
        )
    return Acceptance(figures=figures, drafters=qualities)


def chance_of(costs: CostModel, arm: Arm, accepted: float) -> float:
    """Return the quality of a drafter whose arm gets this many drafts accepted per round."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if costs.accepted(arm, middle) < accepted else (low, middle)
    return (low + high) / 2.0


def _ngram(rounds: Sequence[ObservedRounds], base: CostModel) -> float:
    """Return the quality that explains n-gram arms, with the decay of drafters."""

    def accepted(chance: float) -> float:
        costs = base.replaced(ngram_accept=chance)
        return sum(costs.accepted(one.arm, 0.0) * one.requests for one in rounds)

    wanted = sum(one.accepted * one.requests for one in rounds)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if accepted(middle) < wanted else (low, middle)
    return (low + high) / 2.0


def _decay(rounds: Sequence[ObservedRounds], base: CostModel) -> float:
    """Return the decay for which the arms of each drafter agree best."""
    before = base.accept_decay.value

    def off(decay: float) -> float:
        drawn = DECAY_REQUESTS * (decay - before) ** 2
        return drawn + _disagreement(rounds, base.replaced(accept_decay=decay))

    return min(DECAYS, key=off)


def _disagreement(rounds: Sequence[ObservedRounds], costs: CostModel) -> float:
    squares = 0.0
    for one in _groups(rounds).values():
        sums = _sums(one)
        chances = {arm: chance_of(costs, arm, accepted / requests) for arm, (accepted, requests) in sums.items()}
        total = sum(requests for _, requests in sums.values())
        mean = sum(chances[arm] * requests for arm, (_, requests) in sums.items()) / total
        squares += sum((chances[arm] - mean) ** 2 * requests for arm, (_, requests) in sums.items())
    return squares


def _qualities(rounds: Sequence[ObservedRounds], costs: CostModel) -> Iterable[DrafterQuality]:
    for (version, policy), ones in sorted(_groups(rounds).items()):
        sums = _sums(ones)
        if (total := sum(requests for _, requests in sums.values())) < LEAST_REQUESTS:
            continue
        chance = sum(
            chance_of(costs, arm, accepted / requests) * requests for arm, (accepted, requests) in sums.items()
        )
        yield DrafterQuality(version=version, policy=policy, chance=chance / total, requests=total)


def _groups(rounds: Iterable[ObservedRounds]) -> dict[tuple[int, int], list[ObservedRounds]]:
    groups = defaultdict[tuple[int, int], list[ObservedRounds]](list)
    for one in rounds:
        groups[one.drafter, one.policy].append(one)
    return groups


def _sums(rounds: Iterable[ObservedRounds]) -> dict[Arm, tuple[float, float]]:
    """Return accepted drafts and requests by arm."""
    sums = defaultdict[Arm, tuple[float, float]](lambda: (0.0, 0.0))
    for one in rounds:
        accepted, requests = sums[one.arm]
        sums[one.arm] = accepted + one.accepted * one.requests, requests + one.requests
    return sums


def _learning(
    qualities: Sequence[DrafterQuality], drafters: Sequence[DrafterLine], base: CostModel, seed: int
) -> dict[str, CostFigure]:
    """Return the learning curve, if the training tokens of enough drafters are known."""
    known = {line.version: line for line in drafters if line.tokens}
    seen = [(one, known[one.version]) for one in qualities if one.version in known]
    seen += _scored(seen, known.values())
    versions = sorted({one.version for one, _ in seen})
    if len(versions) < LEAST_DRAFTERS:
        return {}
    whole = _curve(seen, base)
    chance, draws = Random(seed), list[tuple[float, ...]]()
    for _ in range(DRAWS):
        drawn = chance.choices(versions, k=len(versions))
        if len(set(drawn)) >= LEAST_DRAFTERS:
            draws.append(_curve([pair for version in drawn for pair in seen if pair[0].version == version], base))
    names = ("accept_start", "accept_best", "ageing", "learn_half_tokens")
    of = f"{len(versions)} drafters"
    return {name: _figure(whole[place], [draw[place] for draw in draws], of) for place, name in enumerate(names)}


def _scored(
    seen: Sequence[tuple[DrafterQuality, DrafterLine]], drafters: Iterable[DrafterLine]
) -> list[tuple[DrafterQuality, DrafterLine]]:
    """Return held-out scores, scaled to the acceptance of drafters that have drafted."""
    pairs = [(one.chance * one.requests, line.top1 * one.requests) for one, line in seen if line.top1]
    if not pairs:
        return []
    per_score = sum(chance for chance, _ in pairs) / sum(score for _, score in pairs)
    return [
        (
            DrafterQuality(
                version=line.version,
                policy=line.policy,
                chance=min(1.0, line.top1 * per_score),
                requests=SCORE_REQUESTS,
            ),
            line,
        )
        for line in drafters
        if line.top1
    ]


def _curve(seen: Sequence[tuple[DrafterQuality, DrafterLine]], base: CostModel) -> tuple[float, float, float, float]:
    """
    Return the start, the best, the loss per update, and the tokens to half of the way.

    The chance is start (1 - s) + best s - ageing u, all at least 0, where s is the drafter's progress and u the number
    of updates since it learned.
    """
    before = (
        Moments.of((1.0, 0.0, 0.0), 1.0 - base.accept_start.value, START_REQUESTS),
        Moments.of((0.0, 0.0, 1.0), base.ageing.value, AGEING_REQUESTS),
    )
    best: tuple[float, tuple[float, ...], float] | None = None
    for half in HALVES:
        moments = list(before)
        for one, line in seen:
            share = line.tokens / (line.tokens + half)
            updates = max(0, one.policy - line.policy)
            # As a sum of parts of at least 0: what is lost to age is counted from 1 downwards.
            moments.append(Moments.of((1.0 - share, share, float(updates)), 1.0 - one.chance, one.requests))
        found, squares = solved(added(moments))
        if best is None or squares < best[0]:
            best = squares, found, half
    assert best is not None  # noqa: S101 - there are halves
    _, (start, learned, ageing), half = best
    first, last = max(0.0, 1.0 - start), max(0.0, 1.0 - learned)
    return min(first, last), max(first, last), ageing, half


def _drawn(rounds: Sequence[ObservedRounds], seed: int, draws: int) -> Iterable[list[ObservedRounds]]:
    """Yield rounds of randomly resampled minutes."""
    by_minute = defaultdict[float, list[ObservedRounds]](list)
    for one in rounds:
        by_minute[one.at_s].append(one)
    minutes, chance = list(by_minute.values()), Random(seed)
    for _ in range(draws):
        yield [one for minute in chance.choices(minutes, k=len(minutes)) for one in minute]


def _figure(value: float, draws: Sequence[float], of: str) -> CostFigure:
    low, high = interval(draws) if draws else (value, value)
    return CostFigure(value=value, low=min(low, value), high=max(high, value), source=Source.FITTED, of=of)
