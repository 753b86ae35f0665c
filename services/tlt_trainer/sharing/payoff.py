"""
Whether training still pays: it stops when the drafter has learned what its data can teach, and begins again with news.

A plateau is a window of evaluations that spans a whole pass over the training data, in which the held-out accept length
has not risen by more than the required gain from the first half to the second. Means of halves, since one evaluation is
noisy. The price of going on is a device that computes for nothing; the price of stopping is small, since a new policy,
a drafter of another trainer, enough unseen frames or a worse score of the deployed drafter end the rest. Pure.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_trainer.config import PaySettings

PAY_GAIN = 0.01
"""Minimum gain for training to continue, in tokens per round with a chain of three drafts: from the first half of the
evaluations of a plateau to the second. Runs are as fast with 0.001 (docs/results/sweeps.md)."""
FRESH_TOKENS = 8192
"""Number of unseen states after which training resumes. Runs are as fast with a quarter and with eight times as many
(docs/results/sweeps.md)."""
SCORE_DROP = 0.1
"""Drop of the deployed drafter's score after which training resumes, in tokens per round with a chain of three drafts:
ten times the gain that counts."""


class News(StrEnum):
    """Why there is something to learn again."""

    POLICY = "policy"
    """Another version of the policy."""
    DRAFTER = "drafter"
    """Another trainer's drafter."""
    FRAMES = "frames"
    """Enough unseen frames."""
    DROP = "drop"
    """The deployed drafter scores clearly lower than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a drafter can learn from."""

    policy: PolicyVersion = PolicyVersion(0)
    drafter: DrafterVersion = DrafterVersion(0)
    """The fleet's drafter that was last adopted from another trainer."""
    frame_tokens: int = 0
    """States of all frames that arrived so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A score of the own weights."""

    trained_tokens: int
    """Tokens the learner was trained on before."""
    accept_length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Payoff:
    """What is known since the last news."""

    settings: PaySettings
    since: Surroundings = Surroundings()
    evaluations: tuple[Evaluation, ...] = ()
    """Oldest first; only as many as a plateau needs."""
    deployed: float | None = None
    """Highest accept length of the deployed drafter; None: not scored."""
    rests: bool = False
    """Whether nothing is left to learn."""

    def news(self, now: Surroundings) -> News | None:
        """Return why these surroundings are new; None: they are not."""
        if now.policy != self.since.policy:
            return News.POLICY
        if now.drafter != self.since.drafter:
            return News.DRAFTER
        if now.frame_tokens - self.since.frame_tokens >= FRESH_TOKENS:
            return News.FRAMES
        return None

    def noticed(self, now: Surroundings) -> "Payoff":
        """Begin anew if there is news."""
        return self if self.news(now) is None else Payoff(settings=self.settings, since=now)

    def scored(self, own: Evaluation, deployed: float | None, *, pass_tokens: int) -> "Payoff":
        """
        Take note of an evaluation, and decide.

        Args:
            own: Score of the own weights.
            deployed: Accept length of the deployed drafter on the same frames; None: there is none.
            pass_tokens: Tokens of a pass over the training data.
        """
        if deployed is not None and self.deployed is not None and self.deployed - deployed > SCORE_DROP:
            return Payoff(settings=self.settings, since=self.since, evaluations=(own,), deployed=deployed)
        known = self._window((*self.evaluations, own), pass_tokens)
        best = deployed if self.deployed is None else max(self.deployed, deployed or 0.0)
        rests = self._is_plateau(known, pass_tokens)
        return replace(self, evaluations=known, deployed=best, rests=rests)

    def rise(self) -> float:
        """Return by how much the second half of the evaluations is above the first; 0 with fewer than two."""
        half = len(self.evaluations) // 2
        if not half:
            return 0.0
        lengths = [evaluation.accept_length for evaluation in self.evaluations]
        return fmean(lengths[-half:]) - fmean(lengths[:half])

    def _window(self, known: tuple[Evaluation, ...], pass_tokens: int) -> tuple[Evaluation, ...]:
        """Leave out the oldest evaluations that a plateau does not need."""
        count = self.settings.evaluations or 1
        while len(known) > count and known[-1].trained_tokens - known[1].trained_tokens >= pass_tokens:
            known = known[1:]
        return known

    def _is_plateau(self, known: tuple[Evaluation, ...], pass_tokens: int) -> bool:
        count = self.settings.evaluations
        if not count or len(known) < count or known[-1].trained_tokens - known[0].trained_tokens < pass_tokens:
            return False
        return replace(self, evaluations=known).rise() <= PAY_GAIN
