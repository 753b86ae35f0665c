"""Rest of a trainer with nothing left to learn: monitors news and reports. `decision` decides."""

import asyncio

from tlt_common.domain.ids import PolicyVersion
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.learner import Learner
from tlt_trainer.sharing.decision import News, Surroundings, TrainingDecisions

log = get_logger(__name__)


class Rest:
    """Rest state of a trainer. It needs no device."""

    def __init__(self, learner: Learner, pool: FramePool, decisions: TrainingDecisions) -> None:
        self._learner = learner
        self._pool = pool
        self._decisions = decisions
        self._policy = PolicyVersion(0)
        self._rested = False
        self.begun = asyncio.Event()
        """Set while it rests, so that somebody looks for unseen frames."""

    @property
    def policy(self) -> PolicyVersion:
        """The policy that training targets."""
        return self._policy

    @property
    def holds(self) -> bool:
        """Whether nothing is left to learn. Ends with the first news."""
        plateau = self._decisions.plateau
        return plateau.reached and plateau.news(self._surroundings()) is None

    def serve(self, policy: PolicyVersion) -> None:
        """Record the policy that a lease names."""
        self._policy = policy

    def look_around(self) -> None:
        """Start over if there is news: a policy, a drafter or frames."""
        if (news := self._decisions.look_around(self._surroundings())) is not None:
            self.decided(news)

    def decided(self, news: News = News.DROP) -> None:
        """Report whether the trainer rests after a decision. `news` is the reason if it resumed."""
        plateau = self._decisions.plateau
        if plateau.reached == self._rested:
            return
        self._rested = plateau.reached
        metrics.TRAINER_RESTING.set(plateau.reached)
        if plateau.reached:
            self.begun.set()
            metrics.TRAINER_RESTS.inc()
            log.info(
                "training_rests",
                accept_length=round(plateau.evaluations[-1].accept_length, 3),
                rise=round(plateau.rise(), 3),
                evaluations=len(plateau.evaluations),
                policy_version=self._policy,
            )
        else:
            self.begun.clear()
            metrics.TRAINER_RESUMED.labels(reason=news.value).inc()
            log.info("training_resumes", reason=news.value, policy_version=self._policy)

    def _surroundings(self) -> Surroundings:
        return Surroundings(policy=self._policy, drafter=self._learner.followed, frame_tokens=self._pool.added_tokens)
