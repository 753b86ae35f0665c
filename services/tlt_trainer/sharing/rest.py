"""The rest of a trainer that has nothing left to learn: what it sees, decides and reports. See `payoff`."""

import asyncio

from tlt_common.domain.ids import PolicyVersion
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.config import PaySettings
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.drafter.score import Score
from tlt_trainer.learner import Learner
from tlt_trainer.sharing.gain import Gain
from tlt_trainer.sharing.payoff import Evaluation, News, Payoff, Surroundings

log = get_logger(__name__)


class Rest:
    """Whether a trainer rests. The device is not needed for any of this."""

    def __init__(self, learner: Learner, pool: FramePool, settings: PaySettings) -> None:
        self._learner = learner
        self._pool = pool
        self._payoff = Payoff(settings=settings)
        self._policy = PolicyVersion(0)
        self._gain = Gain()
        self.begun = asyncio.Event()
        """Set while it rests, so that somebody looks for unseen frames."""

    @property
    def policy(self) -> PolicyVersion:
        """The policy that training is for."""
        return self._policy

    @property
    def holds(self) -> bool:
        """Whether nothing is left to learn. Ends with the first news."""
        return self._payoff.rests and self._payoff.news(self._surroundings()) is None

    @property
    def gain_per_s(self) -> float | None:
        """Held-out tokens per round gained lately per second of training; None: not known."""
        return self._gain.per_s

    @property
    def passes(self) -> float:
        """How often the training data was drawn, on average."""
        return self._pool.passes

    def serve(self, policy: PolicyVersion) -> None:
        """Take note of the policy that a lease names."""
        self._policy = policy

    def look_around(self) -> None:
        """Begin anew if there is news: a policy, a drafter or frames."""
        now = self._surroundings()
        news = self._payoff.news(now)
        if news is not None:
            if news is not News.FRAMES:
                self._gain.begin()
            self._change(self._payoff.noticed(now), news)

    def score(self, own: Score, deployed: Score | None, *, trained_s: float) -> None:
        """
        Decide after an evaluation.

        Args:
            own: Of the own weights.
            deployed: Of the deployed drafter, on the same frames; None: there is none.
            trained_s: Seconds computed for training so far.
        """
        self.look_around()
        self._gain.note(trained_s, own.accept_length)
        evaluation = Evaluation(trained_tokens=self._learner.counters.tokens, accept_length=own.accept_length)
        length = None if deployed is None else deployed.accept_length
        self._change(self._payoff.scored(evaluation, length, pass_tokens=self._pool.training_tokens), News.DROP)

    def _surroundings(self) -> Surroundings:
        return Surroundings(policy=self._policy, drafter=self._learner.followed, frame_tokens=self._pool.added_tokens)

    def _change(self, payoff: Payoff, news: News) -> None:
        rested, self._payoff = self._payoff.rests, payoff
        if payoff.rests == rested:
            return
        metrics.TRAINER_RESTING.set(payoff.rests)
        if payoff.rests:
            self.begun.set()
            metrics.TRAINER_RESTS.inc()
            log.info(
                "training_rests",
                accept_length=round(payoff.evaluations[-1].accept_length, 3),
                rise=round(payoff.rise(), 3),
                evaluations=len(payoff.evaluations),
                policy_version=self._policy,
            )
        else:
            self.begun.clear()
            metrics.TRAINER_RESUMED.labels(reason=news.value).inc()
            log.info("training_resumes", reason=news.value, policy_version=self._policy)
