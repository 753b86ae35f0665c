"""Chooses the arm of each round."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random

from tlt_common.bandit.config import BanditConfig
from tlt_common.bandit.exploration import ExplorationBudget
from tlt_common.bandit.guess import Guess, guess
from tlt_common.bandit.pace import MachinePace
from tlt_common.bandit.reward import TRIAL_ROUNDS, bucket, reward
from tlt_common.bandit.tally import RoundTally
from tlt_common.bandit.track import ArmTrack, linked
from tlt_common.domain.arm import OFF, Arm, ArmWindow
from tlt_common.domain.tuner import Posterior

UNSEEN = 0.5
"""Minimum share of the best arm's worth assumed for exploring an arm in a bucket where it was never tried."""

NEAR_GAP = 0.1
"""Arms behind the best by much less than this share are explored about as often as the best would be."""


class Bandit:
    """
    Chooses an arm per round and learns from the round's result.

    Off is always among the arms. Untried arms are tried before any arm is judged, unless their results at the nearest
    batch size or with the previous drafter are poor: then they wait until exploration can afford such a trial.
    """

    def __init__(self, arms: Sequence[Arm], config: BanditConfig, seed: int) -> None:
        self.arms = (OFF, *(arm for arm in dict.fromkeys(arms) if arm != OFF))
        """All arms, off first."""
        self._config = config
        self._random = Random(seed)
        self._tracks = {track.arm.name: track for track in _tracks(self.arms, config)}
        self._tallies: dict[tuple[str, int], RoundTally] = {}
        self._budget = ExplorationBudget(config.exploration_share)
        self._pace = MachinePace()
        self._best: dict[int, tuple[ArmTrack, float]] = {}
        """By bucket, the best arm of the last choice there, and its tokens per request and second at pace 1."""
        self._next: ArmTrack | None = None
        """The arm to explore as soon as that is affordable; None: to be drawn."""
        self._last_query: tuple[int, Sequence[Arm] | None] = (0, None)
        self._candidates: tuple[ArmTrack, ...] = ()
        self._current = self._latest = self._tracks[OFF.name]
        """The arm whose turn it is, and that of the last round."""
        self._rounds_left = 0

    def candidates(self, batch: int, allowed: Sequence[Arm] | None = None) -> tuple[Arm, ...]:
        """
        Return the arms permitted for `batch` running requests, off first: arms of `allowed`, or all arms, within the
        thresholds.
        """
        return tuple(track.arm for track in self._allowed(batch, allowed))

    def choose(self, batch: int, allowed: Sequence[Arm] | None = None) -> Arm:
        """
        Return the arm for the next round with `batch` running requests. Call it once per round.

        Returns only off or an arm of `allowed`; None allows all.

        Raises:
            ValueError: No request is running.
        """
        group = bucket(batch)
        if self._last_query != (batch, allowed):  # fast if the arms are the same objects
            self._last_query, self._candidates = (batch, allowed), self._allowed(batch, allowed)
        candidates = self._candidates
        if len(candidates) == 1:
            self._rounds_left = 0
            return candidates[0].arm
        if self._rounds_left == 0 or self._current not in candidates:
            self._current, self._rounds_left = self._pick(candidates, group)
        self._rounds_left -= 1
        return self._current.arm

    def stand_in(self, batch: int, allowed: Sequence[Arm]) -> Arm:
        """
        Return the arm for a round in which the chosen arm has nothing to draft. The chosen arm keeps its turn.

        Raises:
            ValueError: No request is running.
        """
        candidates = self._allowed(batch, allowed)
        return candidates[0].arm if len(candidates) == 1 else self._pick(candidates, bucket(batch))[0].arm

    def record(
        self,
        arm: Arm,
        batch: int,
        accepted: Sequence[int],
        elapsed_s: float,
        *,
        drafted: int | None = None,
        kv_tokens: int = 0,
    ) -> None:
        """
        Learn from a round: accepted draft tokens per request (without bonus token), and seconds of draft plus verify.

        `drafted` is the number of draft tokens verified, over all requests; None means as many as the arm drafts.
        `kv_tokens` are the tokens in the KV cache, for reports.

        Raises:
            ValueError: No request was running, or no time passed.
        """
        name, group = arm.name, bucket(batch)
        reward(accepted, elapsed_s)
        self._learn(self._tracks[name], group, accepted, elapsed_s)
        if (tally := self._tallies.get((name, group))) is None:
            tally = self._tallies[name, group] = RoundTally(self._config.window)
        drafted = arm.drafted_tokens * len(accepted) if drafted is None else drafted
        tally.add(accepted, drafted, elapsed_s, kv_tokens)

    def drafter_pays(self, batch: int) -> bool:
        """
        Return whether the drafter is likely to be used soon with `batch` running requests: an arm that needs it is the
        best of those that run even without found drafts, or has not been tried.

        Raises:
            ValueError: No request is running.
        """
        group = bucket(batch)
        tracks = tuple(track for track in self._allowed(batch, None) if not track.arm.finds_drafts)
        worths = {track: track.worth(group) for track in tracks}
        untried = [track for track, worth in worths.items() if worth is None and track.arm.needs_drafter]
        if any(self._guess(track, tracks, group).hope >= 1.0 for track in untried):
            return True
        known = {track: worth for track, worth in worths.items() if worth is not None}
        return bool(known) and max(known, key=known.__getitem__).arm.needs_drafter

    def drafter_changed(self) -> None:
        """
        Forget the rewards of arms that use the drafter, so that they are tried again.

        Off and n-gram arms use no drafter and keep theirs.
        """
        for track in self._tracks.values():
            track.drafter_changed()
        self._restart()

    def policy_changed(self) -> None:
        """Treat earlier results of drafting arms as a prior until they have enough new rounds."""
        for track in self._tracks.values():
            track.policy_changed()
        self._restart()

    def _restart(self) -> None:
        self._tallies.clear()  # would be attributed to the new drafter or weights
        self._best.clear()
        self._rounds_left = 0

    def merge(self, posterior: Posterior) -> None:
        """
        Adopt what the fleet has learned, for arms with fewer than TRIAL_ROUNDS own rounds.

        The caller passes results of the loaded drafter only.
        """
        windows: defaultdict[str, list[ArmWindow]] = defaultdict(list)
        for window in posterior.arms:
            windows[window.arm].append(window)
        for name, track in self._tracks.items():
            track.merge(windows[name])

    def windows(self) -> tuple[ArmWindow, ...]:
        """Return the results recorded since the last call, per arm and bucket."""
        drained, self._tallies = self._tallies, {}
        return tuple(tally.window(*key) for key, tally in drained.items())

    def _allowed(self, batch: int, allowed: Sequence[Arm] | None) -> tuple[ArmTrack, ...]:
        return tuple(
            track
            for track in self._tracks.values()
            if batch < track.below_requests and (track.arm == OFF or allowed is None or track.arm in allowed)
        )

    def _learn(self, track: ArmTrack, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        before, self._latest = self._latest, track
        usual_s, beside = track.round_s(group), self._pace.beside(track)
        pace = self._pace.now if beside is None else beside
        own_s = elapsed_s / pace
        if usual_s is not None and _catches_up(track.arm, before.arm):
            owed_s, best = own_s - usual_s, self._best.get(group)
            explored_s = 0.0 if best is None or best[0] is before else owed_s
            self._budget.ran(elapsed_s, pace * (explored_s + self._lost_s(track, group, accepted, usual_s)))
            before.owe(group, owed_s)
            track.learn(accepted)
            return
        self._budget.ran(elapsed_s, pace * self._lost_s(track, group, accepted, own_s))
        if track.measured_s(group) is None or beside is not None:
            track.add(group, accepted, own_s)
        else:  # after its own rounds only, it says how fast the machine is, and nothing of the arm
            track.ran(group, accepted)
        if (round_s := track.measured_s(group)) is not None:
            self._pace.ran(track, elapsed_s / round_s)
        if beside is not None:
            self._pace.compare()

    def _lost_s(self, track: ArmTrack, group: int, accepted: Sequence[int], elapsed_s: float) -> float:
        """
        Return how much longer a round took than the best arm takes for as many tokens, at pace 1.

        0 for an arm without any results: its first rounds are needed once, whatever they cost.
        """
        best = self._best.get(group)
        if best is None or best[0] is track or not track.is_known:
            return 0.0
        return elapsed_s - (sum(accepted) / len(accepted) + 1.0) / best[1]

    def _pick(self, candidates: Sequence[ArmTrack], group: int) -> tuple[ArmTrack, int]:
        """Return the arm to run and the number of rounds to run it for."""
        known = {track: worth for track in candidates if (worth := track.worth(group)) is not None}
        best = max(known, key=known.__getitem__) if known else None
        if best is not None:
            self._best[group] = best, known[best] / group
        if len(known) < len(candidates):
            guessed = {track: self._guess(track, candidates, group) for track in candidates if track not in known}
            rounds = min(TRIAL_ROUNDS, self._config.hold_rounds)
            for track in sorted(guessed, key=lambda track: (guessed[track].hope, _turn(track, group)), reverse=True):
                hope, share = guessed[track].hope, guessed[track].share
                if best is None or (hope >= 1.0 and self._affords(track, share, best, group, rounds, lent_rounds=1)):
                    return track, rounds
            most = max(known.values())
            known |= {track: max(guess.share, UNSEEN) * most for track, guess in guessed.items()}
            best = max(known, key=known.__getitem__)
        assert best is not None  # noqa: S101 - one is known, since nothing is to be tried
        if self._pace.is_doubtful and (other := self._to_compare(known, best, group)) is not None:
            return other, TRIAL_ROUNDS
        rounds = self._config.hold_rounds
        if self._random.random() < self._config.epsilon:
            other = self._to_explore(candidates, known, best)
            if self._affords(other, known[other] / known[best], best, group, rounds):
                self._next = None
                return other, rounds
        return best, rounds

    def _affords(
        self, track: ArmTrack, share: float, best: ArmTrack, group: int, rounds: int, *, lent_rounds: int = 0
    ) -> bool:
        """
        Return whether exploration can afford to try an arm with this expected share of the best arm's worth.

        A trial may borrow the time of one round of the best arm: it is needed only once, and soon.
        """
        pace = self._pace.now
        best_s = pace * (best.round_s(group) or 0.0)
        round_s = pace * (track.round_s(group) or 0.0) or best_s
        return self._budget.affords(rounds * round_s * (1.0 - share), lent_s=lent_rounds * best_s)

    def _guess(self, track: ArmTrack, candidates: Sequence[ArmTrack], group: int) -> Guess:
        best = self._best.get(group)
        return guess(track, candidates, group, best=None if best is None else best[1])

    def _to_compare(self, known: dict[ArmTrack, float], best: ArmTrack, group: int) -> ArmTrack | None:
        """Return the arm whose rounds show whether the best arm or the machine has changed, if it is allowed."""
        others = {track: worth for track, worth in known.items() if track is not best}
        if not others or self._latest is not best:
            return None
        other = max(others, key=others.__getitem__)
        share = others[other] / known[best]
        return other if self._affords(other, share, best, group, TRIAL_ROUNDS, lent_rounds=1) else None

    def _to_explore(self, candidates: Sequence[ArmTrack], known: dict[ArmTrack, float], best: ArmTrack) -> ArmTrack:
        """
        Return an arm other than the best; the closer it is to the best, the more likely.

        It stays the same until it has been explored: otherwise cheap arms would use up the budget that expensive ones
        wait for.
        """
        if self._next is None or self._next is best or self._next not in candidates:
            others = [track for track in candidates if track is not best]
            weights = [(1.0 - known[track] / known[best] + NEAR_GAP) ** -2 for track in others]
            self._next = self._random.choices(others, weights)[0]
        return self._next


def _catches_up(arm: Arm, before: Arm) -> bool:
    """Return whether a round of an arm makes up for drafts found in the previous round."""
    return arm.needs_drafter and before.finds_drafts


def _turn(track: ArmTrack, group: int) -> int:
    """
    Return the priority of a trial, largest first, among arms that are equally likely to be the best.

    If times are known, the longest arm comes first, since its rounds also show the accept length of shorter ones.
    Otherwise off comes first, then the shortest, from which the worth of longer ones is estimated.
    """
    return track.arm.steps if track.round_s(group) is not None else -track.arm.draft_tokens


def _tracks(arms: Sequence[Arm], config: BanditConfig) -> Sequence[ArmTrack]:
    tracks = [ArmTrack(arm, config.below_requests(arm), window=config.window) for arm in arms]
    linked(tracks)
    return tracks
