"""
Decides when a drafter is trained, scored and published, and when training rests. Pure: records events and reports what
is due.

*Training* stops at a plateau: a window of evaluations that spans a whole pass over the training data, in which the
held-out accept length has not risen by more than `PAY_GAIN` from the first half to the second. Halves are
averaged, since single evaluations are noisy. Continuing wastes the device, while stopping costs little, since a new
policy, another trainer's drafter, enough unseen frames or a worse score of the deployed drafter end the rest.

*Publishing* spares engines swaps with little benefit. The first drafter competes with decoding without it: plainly, or
with n-gram drafts, which cost nothing. At small batches a round without drafts takes as long as reading the policy's
weights, and a drafted token as long as reading the drafter's. Whether a drafter is used, and when, remains the bandit's
decision.
"""

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, prod
from statistics import StatisticsError, fmean, linear_regression

from tlt_common.domain.fleet import PAY_GAIN
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import LAYER
from tlt_trainer.config import PLATEAU_EVALUATIONS, PublishSettings
from tlt_trainer.drafter.score import Score

FRESH_TOKENS = 8192
"""Number of unseen states after which training resumes. Runs are as fast with a quarter and with eight times as many
(docs/results/sweeps.md)."""
SCORE_DROP = 0.1
"""Drop of the deployed drafter's score after which training resumes, in tokens per round with a chain of three drafts:
ten times `PAY_GAIN`."""
PAUSE = 9.0
"""Pause between two publications under a lease, relative to how long the last one took."""
SLOPE_POINTS = 5
"""Evaluations from which the gain per second is estimated."""
LEAST_POINTS = 3


class News(StrEnum):
    """Why there is something new to learn."""

    POLICY = "policy"
    """A new policy version."""
    DRAFTER = "drafter"
    """Another trainer's drafter."""
    FRAMES = "frames"
    """Enough unseen frames."""
    DROP = "drop"
    """The deployed drafter scores clearly lower than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """State of the data, policy and drafter that training depends on."""

    policy: PolicyVersion = PolicyVersion(0)
    drafter: DrafterVersion = DrafterVersion(0)
    """The fleet's drafter last adopted from another trainer."""
    frame_tokens: int = 0
    """Number of states in all frames that have arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A score of the trainer's own weights."""

    trained_tokens: int
    """Tokens that the learner was trained on before it."""
    accept_length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plateau:
    """Detects that a drafter has learned all that its data can teach, from evaluations since the last news."""

    evaluations_needed: int | None
    """Number of evaluations needed; null if a plateau is never reached."""
    since: Surroundings = Surroundings()
    evaluations: tuple[Evaluation, ...] = ()
    """Oldest first; at most as many as a plateau needs."""
    deployed: float | None = None
    """Highest accept length of the deployed drafter; None if not scored."""
    reached: bool = False

    def news(self, now: Surroundings) -> News | None:
        """Return what is new in these surroundings, or None."""
        if now.policy != self.since.policy:
            return News.POLICY
        if now.drafter != self.since.drafter:
            return News.DRAFTER
        return News.FRAMES if now.frame_tokens - self.since.frame_tokens >= FRESH_TOKENS else None

    def begun(self, now: Surroundings) -> "Plateau":
        """Start over in these surroundings."""
        return Plateau(evaluations_needed=self.evaluations_needed, since=now)

    def scored(self, own: Evaluation, deployed: float | None, *, pass_tokens: int) -> "Plateau":
        """
        Record an evaluation and decide.

        Args:
            own: Score of the trainer's own weights.
            deployed: Accept length of the deployed drafter on the same frames; None if there is none.
            pass_tokens: Tokens of a pass over the training data.
        """
        if deployed is not None and self.deployed is not None and self.deployed - deployed > SCORE_DROP:
            return replace(self.begun(self.since), evaluations=(own,), deployed=deployed)
        known, needed = (*self.evaluations, own), self.evaluations_needed or 1
        while len(known) > needed and own.trained_tokens - known[1].trained_tokens >= pass_tokens:
            known = known[1:]
        best = deployed if self.deployed is None else max(self.deployed, deployed or 0.0)
        now = replace(self, evaluations=known, deployed=best)
        spans = len(known) >= needed and own.trained_tokens - known[0].trained_tokens >= pass_tokens
        return replace(now, reached=self.evaluations_needed is not None and spans and now.rise() <= PAY_GAIN)

    def rise(self) -> float:
        """Return how much the second half of the evaluations exceeds the first; 0 with fewer than two."""
        half = len(self.evaluations) // 2
        if not half:
            return 0.0
        lengths = [evaluation.accept_length for evaluation in self.evaluations]
        return fmean(lengths[-half:]) - fmean(lengths[:half])


class TrainingDecisions:
    """
    Decisions of one trainer, and the scores they are based on.

    Args:
        draft_cost: See `draft_cost`.
        plateau_evaluations: Evaluations after which training may stop; None: it does not.
    """

    def __init__(
        self,
        publish: PublishSettings,
        *,
        draft_cost: float,
        plateau_evaluations: int | None = PLATEAU_EVALUATIONS,
    ) -> None:
        self._publish = publish
        self._score_every = publish.score_every_tokens
        self._cost = draft_cost
        self._running_length = 1.0
        self.plateau = Plateau(evaluations_needed=plateau_evaluations)
        self.own: Score | None = None
        """Last score of the trainer's own weights."""
        self.base: Score | None = None
        """Score of the fleet's drafter on the same frames; None if there was none."""
        self.gain_per_s: float | None = None
        """Last known gain in tokens per round, per second of training; None if unknown."""
        self._points: deque[tuple[float, float]] = deque(maxlen=SLOPE_POINTS)  # seconds, accept length
        self._trained = self._scored_at = self._shared_at = 0.0  # in states trained on
        self._gained = False  # the scored weights are worth publishing
        self._rises = False  # they were when they were scored, and no lease has ended since
        self._not_before_s = -inf

    def engine_reached(self, accept_length: float) -> None:
        """Record the tokens per request and round in the engine's last rounds; 0 if there were none."""
        self._running_length = max(1.0, accept_length)

    def look_around(self, now: Surroundings) -> News | None:
        """Start over if there is news; return it."""
        news = self.plateau.news(now)
        if news is not None:
            self.plateau = self.plateau.begun(now)
            if news is not News.FRAMES:  # other weights are trained, or scored on other responses
                self._points.clear()
        return news

    def trained(self, tokens: float) -> None:
        """Record training on this many states."""
        self._trained += tokens

    @property
    def score_in(self) -> float:
        """Number of states to train on before the next evaluation."""
        return self._scored_at + self._score_every - self._trained

    def scoring(self) -> None:
        """Record that an evaluation begins, even if it yields no score."""
        self._scored_at = self._trained

    def scored(
        self, own: Score, base: Score | None, *, learned_tokens: int, trained_s: float, pass_tokens: int
    ) -> None:
        """
        Decide after an evaluation.

        Args:
            own: Score of the trainer's own weights.
            base: Score of the deployed drafter on the same frames; None if there is none.
            learned_tokens: Tokens that the weights have learned from, by all trainers.
            trained_s: Seconds of training so far.
            pass_tokens: Tokens of a pass over the training data.
        """
        self.own, self.base = own, base
        evaluation = Evaluation(trained_tokens=learned_tokens, accept_length=own.accept_length)
        deployed = None if base is None else base.accept_length
        self.plateau = self.plateau.scored(evaluation, deployed, pass_tokens=pass_tokens)
        self._points.append((trained_s, own.accept_length))
        if len(self._points) >= LEAST_POINTS:
            with suppress(StatisticsError):  # all scores are of one moment
                self.gain_per_s = linear_regression(*zip(*self._points, strict=True)).slope
        self._gained = self._rises = self.admits(own, base)

    def admits(self, own: Score, published: Score | None) -> bool:
        """
        Whether weights are worth publishing.

        Args:
            own: Score of the weights.
            published: Score of the fleet's drafter on the same frames; None if there is none.
        """
        if published is not None:
            return own.accept_length >= published.accept_length + self._publish.gain
        speed = own.accept_length / (1 + len(own.accepted) * self._cost)
        return speed >= self._publish.first_gain * self._running_length

    @property
    def shares(self) -> bool:
        """Whether drafters should be exchanged with the fleet while training continues."""
        return self._trained - self._shared_at >= self._publish.every_tokens

    def share(self, *, now_s: float) -> bool:
        """
        Record that drafters are exchanged; return whether the own weights are to be published, once per score.

        Args:
            now_s: Time, for the pause between publications.
        """
        self._shared_at = self._trained
        return now_s >= self._not_before_s and self._take_gain()

    def lease_over(self, *, learned: bool) -> bool:
        """
        Return whether to publish at the end of a lease, without a pause.

        What was learned after a score that was worth it is published, too: a rollout follows, and early in a run two
        more seconds of training are 2 to 6 % of the accept length.

        Args:
            learned: Whether the own weights differ from the fleet's.
        """
        self._gained = self._gained or (self._rises and learned)
        self._rises = False
        if self._gained:
            self._shared_at = self._trained
        return self._take_gain()

    def _take_gain(self) -> bool:
        gained, self._gained = self._gained, False
        return gained

    def publication_took(self, began_s: float, ended_s: float) -> None:
        """Record a publication. At most a tenth of the time may be spent on publications."""
        self._not_before_s = ended_s + PAUSE * (ended_s - began_s)


def draft_cost(form: DrafterFormat, policy_layers: int) -> float:
    """
    Return the time of a drafted token in units of a round without drafts: the ratio of the weights read.

    A block drafter's weights are read once for all tokens of a block.
    """
    weights = {name: prod(shape) for name, shape in form.tensor_shapes().items()}
    layer = sum(count for name, count in weights.items() if name.startswith(LAYER))
    head = form.vocab_size * form.hidden_size
    read = sum(weights.values()) + (0 if form.trains_head else head)
    return read / (form.block_drafts or 1) / (policy_layers * layer + head)
