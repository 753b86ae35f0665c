"""
Collective learning of the fleet's spot trainers, and the publication of drafters. Pure.

Trainers continue from each other's drafters, so they form a single line of learning whose pace grows with a small power
of their number. The product's own rules decide when they rest, resume and publish.
"""

from dataclasses import dataclass
from math import inf

from tlt_common.domain.arm import chain
from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_simulator.costs.model import CostModel
from tlt_simulator.run.pool import StatePool
from tlt_simulator.scenario import SuiteKeys
from tlt_trainer.drafter.score import Score
from tlt_trainer.sharing.decision import Surroundings, TrainingDecisions

SCORED = chain(3)
"""The arm of scores, as for trainers."""


@dataclass(slots=True)
class _Weights:
    """A drafter: its training, and its loss from later policies."""

    learned: float = 0.0
    """Training tokens; repeated ones count by what they still teach."""
    lost: float = 0.0
    """Acceptance probability of its first draft lost to updates since it learned."""


class Learning:
    """
    Args:
        costs: Learning curve and ageing of drafters.
        keys: Rules for resting and publishing.
        drafter_tokens: As in `Scenario`.
        public: Whether the run begins with a public drafter.

    Attributes:
        version: Version of the newest drafter; 0 if none was published.
        resting: Whether nothing is left to learn.
        trained_s: Seconds of training, of all trainers.
    """

    def __init__(self, costs: CostModel, keys: SuiteKeys, *, drafter_tokens: float, public: bool = False) -> None:
        self._costs = costs
        self._public = public
        self._own = _Weights(drafter_tokens)
        self._published = _Weights(drafter_tokens)
        self._decisions = TrainingDecisions(
            keys.publish,
            draft_cost=costs.draft_fixed_s.value / costs.plain_s,
        )
        self._policy = PolicyVersion(0)
        self._pool = StatePool(costs, keys.cache)
        self._total = 0.0
        self.version = DrafterVersion(1 if public or drafter_tokens > 0.0 else 0)
        self.trained_s = 0.0

    @property
    def resting(self) -> bool:
        """Whether nothing is left to learn."""
        return self._decisions.plateau.reached

    @property
    def quality(self) -> float | None:
        """Acceptance probability of the newest drafter's first draft; None without a drafter."""
        return self._quality(self._published) if self.version else None

    @property
    def gain_per_s(self) -> float | None:
        """Gain per second that trainers report."""
        return self._decisions.gain_per_s

    @property
    def passes(self) -> float:
        """Average number of passes of a trainer over its data."""
        return self._pool.passes

    def tokens_s(self, trainers: int) -> float:
        """Return the tokens per second that this many trainers learn from."""
        rate: float = self._costs.learn_tokens_s.value * trainers**self._costs.together.value if trainers else 0.0
        return rate

    def score_s(self, trainers: int) -> float:
        """Return the seconds until the next evaluation; infinite if no trainer learns."""
        tokens_s = self.tokens_s(trainers)
        return self._decisions.score_in / tokens_s if tokens_s else inf

    def begin(self) -> None:
        """Resume training: trainers take the waiting data."""
        self._pool.take()

    def train(self, seconds: float, trainers: int) -> None:
        """Train for a number of seconds."""
        tokens = self.tokens_s(trainers) * seconds
        one = self.tokens_s(1) * seconds  # each has its own pool
        worth = self._pool.train(one, seconds) * tokens / one if one else 0.0
        if worth:
            half = self._costs.learn_half_tokens.value
            self._own.learned += worth
            self._own.lost *= half / (half + worth)
        self._decisions.trained(tokens)
        self._total += tokens
        self.trained_s += seconds * trainers

    def generated(self, tokens: float) -> None:
        """Add hidden states of new tokens."""
        self._pool.generated(tokens)

    def update(self, policy: PolicyVersion) -> None:
        """Record new policy weights, which age the drafter and give it something to learn."""
        self._policy = policy
        for weights in (self._own, self._published):
            weights.lost += self._costs.ageing.value
        self._begin_anew()

    def look_around(self) -> bool:
        """Take frames, and resume if there is news; return whether there was."""
        self._pool.take()
        return self._begin_anew()

    def _begin_anew(self) -> bool:
        now = Surroundings(policy=self._policy, frame_tokens=round(self._pool.added))
        return self._decisions.look_around(now) is not None

    def score(self, accept_length: float) -> None:
        """Evaluate the current weights. `accept_length` is from the engine's last rounds."""
        self._decisions.scoring()
        self._decisions.engine_reached(accept_length)
        self._decisions.scored(
            self._score(self._own),
            self._score(self._published) if self.version else None,
            learned_tokens=round(self._total),
            trained_s=self.trained_s,
            pass_tokens=round(self._pool.tokens),
        )

    def publish(self, *, last: bool) -> bool:
        """
        Publish the current weights if their last score suffices; return whether they were published.

        Args:
            last: Whether a lease ends, so that they are published immediately, including training since the score.
        """
        decisions = self._decisions
        # Publications take no time here, so that there is no pause between them.
        due = decisions.lease_over(learned=True) if last else decisions.shares and decisions.share(now_s=0.0)
        if not due:
            return False
        self._published = _Weights(self._own.learned, self._own.lost)
        self.version = DrafterVersion(self.version + 1)
        return True

    def _quality(self, weights: _Weights) -> float:
        return max(0.0, self._costs.quality(weights.learned, 0.0, public=self._public) - weights.lost)

    def _score(self, weights: _Weights) -> Score:
        accepted = self._costs.chances(SCORED, self._quality(weights))
        return Score(hits=accepted, accepted=accepted, policy_version=self._policy)
