"""A training loop in virtual time: every call on the device takes a tenth of a second."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.unit.tlt_trainer.inline import InlineDevice
from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy, frames_of
from tlt_common.domain.ids import Epoch, PolicyVersion
from tlt_common.drafter.token_counts import TokenCounts
from tlt_trainer.config import PublishSettings, TrainerConfig
from tlt_trainer.data.feed import Feed
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner
from tlt_trainer.lease.draft_tokens import DraftTokens
from tlt_trainer.lease.learner_turn import LearnerTurn
from tlt_trainer.lease.short_memory import ShortMemory
from tlt_trainer.lease.training_lease import TrainingLease
from tlt_trainer.sharing.decision import TrainingDecisions
from tlt_trainer.sharing.drafter_sharing import DrafterSharing
from tlt_trainer.sharing.evaluator import Evaluator
from tlt_trainer.sharing.rest import Rest
from tlt_trainer.store.checkpoints import Checkpoints
from tlt_trainer.training_loop import TrainingLoop

CALL_S = 0.1
FIRST = PolicyVersion(0)


class Recorder(Checkpoints):
    """Keeps what is offered."""

    def __init__(self) -> None:
        super().__init__("memory://unused")
        self.offered: list[Snapshot] = []

    def offer(self, snapshot: Snapshot) -> None:
        self.offered.append(snapshot)


class Bench:
    """A loop with everything around it in reach."""

    def __init__(
        self,
        policy: TinyPolicy,
        sharing: DrafterSharing | None = None,
        publish: PublishSettings | None = None,
    ) -> None:
        config = TrainerConfig(
            socket=Path("unused"),
            model=policy.directory,
            drafter_dir="memory://unused",
            checkpoint_dir="memory://unused",
            publish=publish or PublishSettings(every_tokens=40_000),
        )
        self.directory, self.frames = policy.directory, frames_of(policy, 80, seed=3)
        self.device = InlineDevice(CALL_S)
        self.learner = Learner(policy.form, CPU)
        self.lease = TrainingLease()
        said = TokenCounts(policy.form.vocab_size)
        self.pool = FramePool(budget_bytes=2**24, said=said)
        self.saved = Recorder()
        self.step_s = 0.5
        feed = Feed(self.pool, limit_tokens=256, step_s=self.step_s, seed="w")
        evaluator = Evaluator(
            self.learner, self.device, self.pool, tokens=500, batch_tokens=lambda: 512, allowed=self.lease.holds
        )
        self.turn = LearnerTurn()
        decisions = TrainingDecisions(config.publish, draft_cost=0.1)
        tokens = DraftTokens(self.learner, self.device, self.turn, said, allowed=self.lease.holds)
        self.rest = Rest(self.learner, self.pool, decisions)
        memory = ShortMemory(self.learner, self.device, feed)
        self.loop = TrainingLoop(
            self.learner,
            self.device,
            self.turn,
            self.lease,
            feed,
            tokens,
            evaluator,
            self.saved,
            sharing,
            decisions,
            self.rest,
            self.pool,
            memory,
            checkpoint_every_s=config.checkpoint_every_s,
        )

    def give_data(self) -> None:
        self.pool.add(self.frames)
        self.loop.notice_data()

    async def start(self, epoch: int, ttl_s: float = 1000.0) -> None:
        await self.loop.start(Epoch(epoch), ttl_s, self.directory, FIRST)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.loop.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(600):
        while not condition():  # noqa: ASYNC110 - of virtual time there is enough
            await asyncio.sleep(CALL_S / 4)
