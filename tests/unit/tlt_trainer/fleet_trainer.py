"""A trainer of a fleet, without a loop: tests let it train, publish and follow."""

import random
from pathlib import Path

from tests.unit.tlt_trainer.inline import FakeFleet, InlineDevice
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.drafter.meta import META_FILE
from tlt_trainer.config import PublishSettings
from tlt_trainer.data.feed import Feed
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.score import Score
from tlt_trainer.learner import Learner
from tlt_trainer.lease.learner_turn import LearnerTurn
from tlt_trainer.lease.short_memory import ShortMemory
from tlt_trainer.sharing.decision import TrainingDecisions
from tlt_trainer.sharing.drafter_sharing import DrafterSharing
from tlt_trainer.sharing.drafter_sync import DrafterSync
from tlt_trainer.sharing.evaluator import Evaluator
from tlt_trainer.store.storage import Storage

SCORE = Score(hits=(0.8, 0.8, 0.8), accepted=(0.8, 0.8, 0.8))


class Trainer:
    """One trainer's learner and its part in the fleet."""

    def __init__(self, policy: TinyPolicy, fleet: FakeFleet, root: Path, name: str) -> None:
        self._policy = policy
        self.learner = Learner(policy.form, CPU)
        self.learner.share(policy.shared)
        self.pool = FramePool(budget_bytes=2**24)
        device, turn = InlineDevice(), LearnerTurn()
        self.turn = turn
        self.evaluator = Evaluator(
            self.learner, device, self.pool, tokens=2000, batch_tokens=lambda: 512, allowed=lambda: True
        )
        storage = Storage(str(root / name), mark=META_FILE)
        self.feed = Feed(self.pool, limit_tokens=512, step_s=0.5, seed=name)
        memory = ShortMemory(self.learner, device, self.feed)
        following = DrafterSync(fleet, self.learner, device, turn, self.evaluator, memory)
        decisions = TrainingDecisions(PublishSettings(), draft_cost=0.1)
        self.sharing = DrafterSharing(
            fleet, storage, self.learner, device, turn, following, decisions, worker_id=name, kept=2
        )

    def train(self, seed: int, steps: int) -> None:
        rng, frames = random.Random(seed), frames_of(self._policy, 60, seed=seed)
        goal = self.learner.counters.steps + steps
        while self.learner.counters.steps < goal:
            for group in plan(rng.sample(frames, 8), 512, rng):
                self.learner.micro_step(collate(group, CPU))
