"""
Which arm runs the next round: BEG-MAB, the bucketed epsilon-greedy bandit of TLT (arXiv 2511.16665).

Arms are grouped by the tokens the target verifies per request, and each group is allowed below a number of running
requests. Rewards are compared among rounds of like batch sizes only: buckets are powers of two. Pure and seeded: the
same calls give the same choices. A choice takes microseconds; medians are kept, not computed.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from random import Random

from tlt_common.domain.strategy import OFF, Arm, ArmWindow
from tlt_common.domain.tuner import Posterior

SPECULATE_BELOW_REQUESTS = 32
"""TLT paper: from here on verification is bound by compute and drafts no longer pay."""

TRIAL_ROUNDS = 3
"""Rounds before an arm is judged by its own rewards: the fewest whose median survives one warm-up round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditConfig:
    """How to explore. Defaults are those of the paper's code where it has them."""

    epsilon: float = 0.1
    """Share of choices made at random."""
    window: int = 300
    """Rewards remembered per arm and bucket."""
    hold_rounds: int = 4
    """Rounds a choice lasts. Going from off to a chain costs a catch-up of the drafter, so choices are not for one."""
    speculate_below_requests: int = SPECULATE_BELOW_REQUESTS
    """From this many running requests on only off is allowed."""
    group_below_requests: Mapping[int, int] = field(default_factory=dict)
    """Tighter limits by group: tokens to verify -> allowed below so many running requests."""

    def allows(self, arm: Arm, batch: int) -> bool:
        """Whether an arm may run with `batch` requests. Off always may."""
        limit = self.group_below_requests.get(arm.draft_tokens, self.speculate_below_requests)
        return arm == OFF or batch < min(limit, self.speculate_below_requests)


def bucket(batch: int) -> int:
    """
    Largest power of two that is not above `batch`.

    Raises:
        ValueError: No request is running.
    """
    if batch < 1:
        raise ValueError(f"a batch of {batch} requests has no bucket")
    return 1 << (batch.bit_length() - 1)


def reward(accepted: Sequence[int], elapsed_s: float) -> float:
    """
    Tokens per second of one round: a * bs / elapsed with a = sum(accepted) / bs + 1 (TLT, BEG-MAB).

    Args:
        accepted: Draft tokens kept per running request, without the bonus token.
        elapsed_s: Draft plus verify.

    Raises:
        ValueError: No request was running, or no time passed: such a round teaches nothing.
    """
    if not accepted or elapsed_s <= 0.0:
        raise ValueError(f"a round of {len(accepted)} requests in {elapsed_s} s has no reward")
    return (sum(accepted) + len(accepted)) / elapsed_s


class RewardWindow:
    """The last rewards of one arm, kept sorted beside their order of arrival, so that the median is one look."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._arrival: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float) -> None:
        """Remember a reward; the oldest leaves when the window is full."""
        if len(self._arrival) == self._capacity:
            del self._sorted[bisect_left(self._sorted, self._arrival.popleft())]
        self._arrival.append(value)
        insort(self._sorted, value)

    def median(self) -> float:
        """Median of the window, which must not be empty."""
        middle, odd = divmod(len(self._sorted), 2)
        return self._sorted[middle] if odd else (self._sorted[middle - 1] + self._sorted[middle]) / 2


class _Tally:
    """Rounds of one arm and bucket since they were last reported."""

    def __init__(self, capacity: int) -> None:
        self._rewards = RewardWindow(capacity)
        self._rounds = 0
        self._accepted = 0
        self._produced = 0
        self._drafted = 0
        self._elapsed_s = 0.0

    def add(self, accepted: Sequence[int], drafted: int, elapsed_s: float) -> None:
        kept = sum(accepted)
        self._rewards.add(reward(accepted, elapsed_s))
        self._rounds += 1
        self._accepted += kept
        self._produced += kept + len(accepted)
        self._drafted += drafted
        self._elapsed_s += elapsed_s

    def window(self, arm: str, group: int) -> ArmWindow:
        return ArmWindow(
            arm=arm,
            group=group,
            rounds=self._rounds,
            accepted_tokens=self._accepted,
            produced_tokens=self._produced,
            elapsed_s=self._elapsed_s,
            median_reward=self._rewards.median(),
            drafted_tokens=self._drafted,
        )


class Bandit:
    """
    Chooses an arm per round and learns from what the round brought.

    Off is always among the arms. An arm without experience at a batch size is tried before any is judged.
    """

    def __init__(self, arms: Sequence[Arm], config: BanditConfig, seed: int) -> None:
        self._arms = (OFF, *(arm for arm in dict.fromkeys(arms) if arm != OFF))
        self._config = config
        self._random = Random(seed)
        self._rewards: dict[tuple[str, int], RewardWindow] = {}
        self._priors: dict[tuple[str, int], float] = {}
        self._tallies: dict[tuple[str, int], _Tally] = {}
        self._current = OFF
        self._rounds_left = 0

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, off first."""
        return self._arms

    def candidates(self, batch: int, allowed: Sequence[Arm] | None = None) -> tuple[Arm, ...]:
        """Arms for `batch` running requests, off first: those of `allowed`, or of all, that the thresholds leave."""
        return tuple(
            arm
            for arm in self._arms
            if arm == OFF or ((allowed is None or arm in allowed) and self._config.allows(arm, batch))
        )

    def choose(self, batch: int, allowed: Sequence[Arm] | None = None) -> Arm:
        """
        Arm for the next round with `batch` running requests. Call once per round.

        Only off and the arms of `allowed` can come out; None allows all.

        Raises:
            ValueError: No request is running.
        """
        group = bucket(batch)
        candidates = self.candidates(batch, allowed)
        if len(candidates) == 1:
            self._rounds_left = 0
            return candidates[0]
        if self._rounds_left == 0 or self._current not in candidates:
            self._current = self._pick(candidates, group)
            self._rounds_left = self._config.hold_rounds
        self._rounds_left -= 1
        return self._current

    def record(
        self, arm: Arm, batch: int, accepted: Sequence[int], elapsed_s: float, *, drafted: int | None = None
    ) -> None:
        """
        Learn from a round: draft tokens kept per request (bonus not counted), and seconds of draft plus verify.

        `drafted` counts the draft tokens verified, over all requests; None: as many as the arm drafts.

        Raises:
            ValueError: No request was running, or no time passed.
        """
        key = (arm.name, bucket(batch))
        value = reward(accepted, elapsed_s)
        capacity = self._config.window
        self._rewards.setdefault(key, RewardWindow(capacity)).add(value)
        verified = arm.drafted_tokens * len(accepted) if drafted is None else drafted
        self._tallies.setdefault(key, _Tally(capacity)).add(accepted, verified, elapsed_s)

    def drafter_changed(self) -> None:
        """
        Try the learned arms anew: what they earned with the drafter before says nothing.

        Off does not draft and retrieval needs no drafter: they keep what they know.
        """
        kept = {arm.name for arm in self._arms if not arm.learned}
        self._restart(kept, {key: prior for key, prior in self._priors.items() if key[0] in kept})

    def policy_changed(self) -> None:
        """
        Judge the drafting arms by what they earned so far until they have rounds of their own again.

        The drafter fits the new weights a little worse, seldom so much that every arm has to be tried again.
        """
        own = {key: window.median() for key, window in self._rewards.items() if len(window) >= TRIAL_ROUNDS}
        self._restart({OFF.name}, {**self._priors, **own})

    def _restart(self, kept: AbstractSet[str], priors: Mapping[tuple[str, int], float]) -> None:
        self._rewards = {key: window for key, window in self._rewards.items() if key[0] in kept}
        self._priors = dict(priors)
        self._tallies.clear()  # would be reported as earned with what is there now
        self._rounds_left = 0

    def merge(self, posterior: Posterior) -> None:
        """
        Take over what the fleet has learned, for arms with less than TRIAL_ROUNDS own rounds at a batch size.

        The caller leaves out posteriors of another drafter than the loaded one.
        """
        self._priors = {(arm.arm, arm.group): arm.median_reward for arm in posterior.arms if arm.rounds}

    def windows(self) -> tuple[ArmWindow, ...]:
        """What was recorded since the last call, per arm and bucket."""
        drained, self._tallies = self._tallies, {}
        return tuple(tally.window(*key) for key, tally in drained.items())

    def _pick(self, candidates: Sequence[Arm], group: int) -> Arm:
        estimates = {arm: self._estimate(arm, group) for arm in candidates}
        judged = {arm: estimate for arm, estimate in estimates.items() if estimate is not None}
        if len(judged) < len(candidates):
            return next(arm for arm in candidates if arm not in judged)
        if self._random.random() < self._config.epsilon:
            return self._random.choice(candidates)
        return max(judged, key=judged.__getitem__)

    def _estimate(self, arm: Arm, group: int) -> float | None:
        own = self._rewards.get((arm.name, group))
        if own is not None and len(own) >= TRIAL_ROUNDS:
            return own.median()
        return self._priors.get((arm.name, group))
