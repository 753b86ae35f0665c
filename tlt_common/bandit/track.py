"""
Estimates accept length and round time separately.

A reward is accept length times batch size over round time. The accept length depends on drafter, weights and text, and
hardly on the batch size. The time depends on device and batch size only. The former is therefore averaged over the last
rounds at any batch size and dropped when the drafter changes. The latter is a median per batch-size bucket (robust to a
pause of the process), at pace 1 (`MachinePace`), and kept until there are new rounds.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tlt_common.bandit.pace import differs
from tlt_common.bandit.reward import TRIAL_ROUNDS
from tlt_common.bandit.window import MedianWindow
from tlt_common.domain.arm import OFF, Arm, ArmWindow

TIMES_WINDOW: Final = 16
"""Rounds remembered, at most. Fewer than of what they accept, since a round's time varies by a tenth of itself only."""


class RoundTimes:
    """
    Round time of an arm at one bucket: the median of recent times, robust to a pause. `TRIAL_ROUNDS` contradicting
    times in a row replace it.
    """

    def __init__(self, window: int) -> None:
        self._capacity = min(window, TIMES_WINDOW)
        self._window = MedianWindow(self._capacity)
        self._contradicting: list[float] = []

    @property
    def seconds(self) -> float | None:
        """The median time; None if it has not been measured often enough."""
        return self._window.median() if len(self._window) >= TRIAL_ROUNDS else None

    def add(self, seconds: float) -> None:
        """Add the time of a round."""
        self._window.add(seconds)
        known = self.seconds
        if known is None or not differs(seconds, known):
            self._contradicting.clear()
            return
        if self._contradicting and (seconds > known) != (self._contradicting[-1] > known):
            self._contradicting.clear()
        self._contradicting.append(seconds)
        if len(self._contradicting) == TRIAL_ROUNDS:
            self._window = MedianWindow(self._capacity)
            for each in self._contradicting:
                self._window.add(each)
            self._contradicting.clear()


class Owed:
    """
    Time that an arm owes at one bucket. As robust to a pause of the process as the median of round times.

    After rounds with found drafts, the drafter must catch up before it drafts again. The arm that found the drafts owes
    that time: otherwise its rounds look cheap and the drafter's expensive, the more so the more often they alternate.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._rounds = 0
        self._share = 0.0
        """Share of the last rounds that another arm's round paid for."""
        self._paid_s = MedianWindow(window)

    def ran(self) -> None:
        """Record a round of the arm."""
        self._rounds = min(self._rounds + 1, self._window)
        self._share *= 1.0 - 1.0 / self._rounds

    def paid(self, elapsed_s: float) -> None:
        """Record the extra time of another arm's round that was caused by the round before it."""
        self._share = min(1.0, self._share + 1.0 / max(1, self._rounds))
        self._paid_s.add(elapsed_s)

    @property
    def mean_s(self) -> float:
        """Seconds owed per round."""
        return self._share * max(0.0, self._paid_s.median()) if len(self._paid_s) else 0.0


class ArmTrack:
    """
    Record of one arm: its tokens per round, and the time of its rounds.

    Its worth is in tokens per second; compare it only between arms at the same batch-size bucket.

    A verified chain shows what every shorter chain of the same drafts would have accepted: its prefix. Those arms learn
    from its rounds too (`shorter`).
    """

    def __init__(self, arm: Arm, below_requests: float, *, window: int) -> None:
        self.arm = arm
        self.below_requests = below_requests
        self.shorter: tuple[ArmTrack, ...] = ()
        self._window = window
        self._length = 1.0
        self._rounds = TRIAL_ROUNDS if arm == OFF else 0
        """Rounds averaged in `_length`, at most the window; below TRIAL_ROUNDS it is not used."""
        self._times: defaultdict[int, RoundTimes] = defaultdict(lambda: RoundTimes(window))
        self._owed: defaultdict[int, Owed] = defaultdict(lambda: Owed(window))
        # Used until there are own rounds: first what was learned here before a change, then the fleet's experience.
        self._former_length: float | None = None
        """Accept length with the previous drafter, from which only the cost of a trial is estimated."""
        self._kept_length: float | None = None
        self._kept_times_s: dict[int, float] = {}
        self._fleet_length: float | None = None
        self._fleet_times_s: dict[int, float] = {}

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        """Record a round of the arm at bucket `group` with its time and accept length."""
        self._times[group].add(elapsed_s)
        self.ran(group, accepted)

    def ran(self, group: int, accepted: Sequence[int]) -> None:
        """Record a round of the arm at bucket `group` without its time."""
        self._owed[group].ran()
        self.learn(accepted)

    def owe(self, group: int, elapsed_s: float) -> None:
        """Record the extra time of another arm's round at bucket `group` that this arm's round caused."""
        self._owed[group].paid(elapsed_s)

    def learn(self, accepted: Sequence[int]) -> None:
        """Record only the accept length of a round."""
        self._learn(accepted)
        for track in self.shorter:
            steps = track.arm.steps
            track._learn([min(kept, steps) for kept in accepted])  # noqa: SLF001 - same class

    def worth(self, group: int) -> float | None:
        """Return the worth at a bucket, or None if the arm must be tried first."""
        length, time_s = self._known_length(), self.round_s(group)
        if length is None or time_s is None:
            return None
        owed = self._owed.get(group)
        return length * group / (time_s + (owed.mean_s if owed else 0.0))

    @property
    def is_known(self) -> bool:
        """Whether there are results to extrapolate from: at any bucket, or with the previous drafter."""
        return self._former_length is not None or bool(self.groups())

    def round_s(self, group: int) -> float | None:
        """Return the seconds of a round at a bucket and pace 1, or None if unknown."""
        if (seconds := self.measured_s(group)) is not None:
            return seconds
        return self._kept_times_s.get(group, self._fleet_times_s.get(group))

    def measured_s(self, group: int) -> float | None:
        """Return the seconds measured in its own rounds with this drafter, excluding kept and merged results."""
        times = self._times.get(group)
        return None if times is None else times.seconds

    def expected_length(self) -> float | None:
        """Return tokens per request and round, also from the previous drafter; None if unknown."""
        return self._known_length() or self._former_length

    def former_worth(self, group: int) -> float | None:
        """Return the worth with the previous drafter, or None if there was none or its time is unknown."""
        time_s = self.round_s(group)
        return None if self._former_length is None or time_s is None else self._former_length * group / time_s

    def groups(self) -> Sequence[int]:
        """Return the buckets with a known worth, from which others are estimated."""
        groups = {*self._times, *self._kept_times_s, *self._fleet_times_s}
        return [group for group in groups if self.worth(group) is not None]

    def drafter_changed(self) -> None:
        """Drop results that are invalid for another drafter."""
        if self.arm.needs_drafter:
            self._former_length = self._known_length() or self._former_length
            self._rounds, self._kept_length, self._fleet_length = 0, None, None
            # A drafter of another shape takes a different time, one of the same shape the same: keep times as a prior.
            known = {group: self.round_s(group) for group in {*self._times, *self._fleet_times_s}}
            self._kept_times_s |= {group: time_s for group, time_s in known.items() if time_s is not None}
            self._times.clear()

    def policy_changed(self) -> None:
        """Reduce results under earlier weights to a prior."""
        # The drafter matches new weights slightly worse, but rarely so much that all arms must be tried again.
        if self.arm != OFF:
            self._kept_length = self._length if self._rounds >= TRIAL_ROUNDS else self._kept_length
            self._rounds = 0

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        """Adopt the fleet's results for this arm, replacing those adopted before."""
        used = [window for window in windows if window.rounds and window.median_reward > 0]
        requests = sum(window.produced_tokens - window.accepted_tokens for window in used)
        length = sum(window.produced_tokens for window in used) / requests if requests else None
        self._fleet_length = length
        # Median times are not reported; the inverse of the reported median reward approximates them.
        self._fleet_times_s = {
            window.group: length * window.group / window.median_reward for window in used if length is not None
        }

    def _known_length(self) -> float | None:
        if self._rounds >= TRIAL_ROUNDS:
            return self._length
        return self._fleet_length if self._kept_length is None else self._kept_length

    def _learn(self, accepted: Sequence[int]) -> None:
        self._rounds = min(self._rounds + 1, self._window)
        self._length += (sum(accepted) / len(accepted) + 1 - self._length) / self._rounds


def linked(tracks: Sequence[ArmTrack]) -> None:
    """Make rounds of each arm also count for the arms they inform about (`ArmKind.tells_of`)."""
    for track in tracks:
        track.shorter = tuple(other for other in tracks if track.arm.tells_of(other.arm))
