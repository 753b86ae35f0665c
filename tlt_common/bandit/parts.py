"""
Judging accept length and round time apart.

A reward is accept length times batch size over round time. The accept length follows the drafter, the weights and what
is being written, and hardly the batch size; the time follows device and batch size, and none of the others. So the
former is averaged over the last rounds at any batch size, and forgotten when the drafter changes; the latter is a
median per batch-size bucket (a pause of the process must not count), and believed until there are new rounds.
"""

from collections import defaultdict
from collections.abc import Sequence

from tlt_common.bandit.reward import TRIAL_ROUNDS
from tlt_common.bandit.window import MedianWindow
from tlt_common.domain.strategy import OFF, Arm, ArmWindow


class PartsTrack:
    """
    What an arm makes per round, and how long a round takes.

    A chain that was verified says what every shorter chain of the same drafts would have kept: the beginning. Those
    learn from its rounds too (`shorter`).
    """

    def __init__(self, arm: Arm, below_requests: float, *, window: int) -> None:
        self.arm = arm
        self.below_requests = below_requests
        self.shorter: tuple[PartsTrack, ...] = ()
        self._window = window
        self._length = 1.0
        self._rounds = TRIAL_ROUNDS if arm == OFF else 0
        """Rounds that `_length` rests on, at most the window; below TRIAL_ROUNDS it is not told."""
        self._prior_length: float | None = None
        self._times_s: defaultdict[int, MedianWindow] = defaultdict(lambda: MedianWindow(window))
        self._prior_times_s: dict[int, float] = {}

    def add(self, group: int, accepted: Sequence[int], elapsed_s: float) -> None:
        self._times_s[group].add(elapsed_s)
        self._learn(accepted)
        for track in self.shorter:
            steps = track.arm.steps
            track._learn([min(kept, steps) for kept in accepted])  # noqa: SLF001 - of this class

    def worth(self, group: int) -> float | None:
        times_s = self._times_s.get(group)
        if times_s is not None and len(times_s) >= TRIAL_ROUNDS:
            time_s = times_s.median()
        elif (prior_s := self._prior_times_s.get(group)) is not None:
            time_s = prior_s
        else:
            return None
        length = self._length if self._rounds >= TRIAL_ROUNDS else self._prior_length
        return None if length is None else length * group / time_s

    def groups(self) -> Sequence[int]:
        return [group for group in {*self._times_s, *self._prior_times_s} if self.worth(group) is not None]

    def drafter_changed(self) -> None:
        if self.arm.learned:
            self._rounds, self._prior_length = 0, None
            # A drafter of another shape takes another time; one like it, the same.
            self._prior_times_s |= {group: times_s.median() for group, times_s in self._times_s.items()}
            self._times_s.clear()

    def policy_changed(self) -> None:
        # The drafter fits the new weights a little worse, seldom so much that every arm has to be tried again.
        if self.arm != OFF:
            self._prior_length = self._length if self._rounds >= TRIAL_ROUNDS else self._prior_length
            self._rounds = 0

    def merge(self, windows: Sequence[ArmWindow]) -> None:
        used = [window for window in windows if window.rounds and window.median_reward > 0]
        requests = sum(window.produced_tokens - window.accepted_tokens for window in used)
        self._prior_length = sum(window.produced_tokens for window in used) / requests if requests else None
        # The median of times is not reported; that of rewards is, and its inverse is about that.
        self._prior_times_s = {
            window.group: self._prior_length * window.group / window.median_reward
            for window in used
            if self._prior_length is not None
        }

    def _learn(self, accepted: Sequence[int]) -> None:
        self._rounds = min(self._rounds + 1, self._window)
        self._length += (sum(accepted) / len(accepted) + 1 - self._length) / self._rounds


def linked(tracks: Sequence[PartsTrack]) -> None:
    """Let each chain of the drafter tell the shorter ones of its kind. Tree and retrieval rounds tell of no other."""
    for track in tracks:
        track.shorter = tuple(
            other
            for other in tracks
            if track.arm.learned
            and (other.arm.kind, other.arm.sampled) == (track.arm.kind, track.arm.sampled)
            and other.arm.topk == track.arm.topk == 1
            and other.arm.steps < track.arm.steps
        )
